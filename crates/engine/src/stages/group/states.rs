//! The accumulators of all groups, in chunks of a fixed size: one list that doubles when it is full
//! would need three times the memory while it moves.

use query::accumulate::Accumulator;

/// Groups per chunk.
const PIECE: usize = 256;

/// The accumulators of groups, a fixed number for each.
pub(super) struct States {
    pieces: Vec<Vec<Accumulator>>,
    /// Accumulators per group.
    width: usize,
    groups: usize,
}

impl States {
    /// Begins without groups; each will have this many accumulators.
    pub(super) fn new(width: usize) -> States {
        States { pieces: Vec::new(), width, groups: 0 }
    }

    /// Adds the accumulators of the next group.
    pub(super) fn push(&mut self, states: impl Iterator<Item = Accumulator>) {
        if self.groups.is_multiple_of(PIECE) && self.pieces.len() * PIECE == self.groups {
            // The first chunk grows: most stages have few groups.
            let room = if self.groups == 0 { 0 } else { PIECE * self.width };
            self.pieces.push(Vec::with_capacity(room));
        }
        if let Some(piece) = self.pieces.get_mut(self.groups / PIECE) {
            piece.extend(states.take(self.width));
        }
        self.groups += 1;
    }

    /// The accumulators of a group.
    #[inline]
    pub(super) fn get(&self, group: usize) -> &[Accumulator] {
        let (from, to) = self.span(group);
        self.pieces.get(group / PIECE).and_then(|piece| piece.get(from..to)).unwrap_or(&[])
    }

    /// The accumulators of a group, for updates.
    #[inline]
    pub(super) fn get_mut(&mut self, group: usize) -> &mut [Accumulator] {
        let (from, to) = self.span(group);
        let piece = self.pieces.get_mut(group / PIECE);
        piece.and_then(|piece| piece.get_mut(from..to)).unwrap_or(&mut [])
    }

    fn span(&self, group: usize) -> (usize, usize) {
        let from = group % PIECE * self.width;
        (from, from + self.width)
    }

    /// Memory in bytes, without what the accumulators point to.
    pub(super) fn memory_bytes(&self) -> usize {
        let own: usize = self.pieces.iter().map(Vec::capacity).sum();
        own * size_of::<Accumulator>() + self.pieces.capacity() * size_of::<Vec<Accumulator>>()
    }

    /// Removes all groups but the last, and keeps the memory.
    pub(super) fn keep_last(&mut self) {
        let Some(last) = self.groups.checked_sub(1) else { return };
        let from = last % PIECE * self.width;
        let kept = self.pieces.get_mut(last / PIECE).map(|piece| piece.split_off(from));
        self.pieces.iter_mut().for_each(Vec::clear);
        self.groups = 0;
        self.push(kept.unwrap_or_default().into_iter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bumpalo::Bump;
    use query::ParseContext;
    use query::accumulate::AccumulatorSpec;
    use value::{Val, ejson};

    #[test]
    fn every_group_has_its_own() {
        let source = ejson::parse_value("{$sum: '$a'}").expect("a sum");
        let spec = AccumulatorSpec::parse("a", source.get(), &ParseContext::new(0)).expect("a sum");
        let arena = Bump::new();
        let total = |states: &[Accumulator]| -> Vec<Val<'static>> {
            let totals = states.iter().map(|state| state.finish(&arena).expect("a sum"));
            totals.map(|total| Val::Int32(total.as_i64_exact().expect("a number") as i32)).collect()
        };
        for width in [0, 1, 3] {
            let mut states = States::new(width);
            for round in 0..3 {
                let first = usize::from(round > 0);
                for group in first..1000 {
                    let start = || spec.start(Val::Null).expect("begins");
                    states.push((0..width).map(|_| start()));
                    for state in states.get_mut(group) {
                        state.process(Val::Int32(group as i32)).expect("adds");
                    }
                }
                for group in first..1000 {
                    assert_eq!(total(states.get(group)), vec![Val::Int32(group as i32); width]);
                }
                assert!(states.get(1000).is_empty());
                states.keep_last();
                assert_eq!(total(states.get(0)), vec![Val::Int32(999); width]);
            }
        }
    }
}
