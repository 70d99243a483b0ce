//! How the elements of a spilled array are divided: those that stay in the document, and chunks.
//! Chunks that are stored already are kept as far as their elements are the same.

use super::settings::{Settings, Which};
use super::stand_in::Chunk;
use std::ops::Range;
use value::RawVal;

/// More elements than are kept stay in the document until there are so many, or so many bytes: then
/// they go into a chunk together.
const SPARE: Range<usize> = 16..500;
const SPARE_BYTES: usize = 32 * 1024;

/// A part of an array that is a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) range: Range<usize>,
    /// The chunk, if it is stored already.
    pub(super) known: Option<Chunk>,
}

/// A divided array: the elements before the first chunk, the chunks, the elements after the last.
#[derive(Debug)]
pub(super) struct Division {
    pub(super) head: usize,
    pub(super) parts: Vec<Part>,
    pub(super) tail: Range<usize>,
}

/// A spilled array as it is stored.
pub(super) struct Known<'a> {
    pub(super) elements: &'a [RawVal<'a>],
    pub(super) head: usize,
    pub(super) chunks: &'a [Chunk],
}

/// The number of elements that the document keeps before its chunks, and at least behind them. Unless
/// all are before them there is one behind, so that others can be appended to it.
pub(super) fn kept(settings: &Settings, count: usize) -> (usize, usize) {
    let keep = settings.keep.min(count);
    match settings.which {
        Which::First => (keep, usize::from(count > keep)),
        Which::Last => (0, keep),
    }
}

/// Whether the elements after the last chunk stay in the document.
pub(super) fn stays(settings: &Settings, count: usize, tail: &[RawVal<'_>]) -> bool {
    let (_, last) = kept(settings, count);
    let Some(spare) = tail.len().checked_sub(last) else { return true };
    let most = settings.keep.clamp(SPARE.start, SPARE.end).min(settings.chunk.count);
    let bytes: usize = tail.iter().take(spare).map(|element| element.bytes.len()).sum();
    spare <= most && bytes <= SPARE_BYTES
}

/// Divides elements into new chunks.
pub(super) fn cut(settings: &Settings, new: &[RawVal<'_>], range: Range<usize>) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut from, mut bytes) = (range.start, 0);
    for at in range.clone() {
        let size = new.get(at).map_or(0, |element| element.bytes.len());
        let is_full = at - from >= settings.chunk.count || bytes + size > settings.chunk.bytes;
        if is_full && at > from {
            parts.push(Part { range: from..at, known: None });
            (from, bytes) = (at, 0);
        }
        bytes += size;
    }
    if from < range.end {
        parts.push(Part { range: from..range.end, known: None });
    }
    parts
}

/// Whether a chunk has room for more elements.
pub(super) fn has_room(settings: &Settings, chunk: Chunk) -> bool {
    chunk.count < settings.chunk.count && chunk.bytes < settings.chunk.bytes / 2
}

/// Divides an array that is stored spilled.
pub(super) fn divide(settings: &Settings, new: &[RawVal<'_>], old: Option<&Known<'_>>) -> Division {
    let count = new.len();
    let (head, last) = kept(settings, count);
    let (mut front, mut back) = match old {
        Some(old) => unchanged(new, old, head),
        None => (Vec::new(), Vec::new()),
    };
    let room = |part: &Part| part.known.is_some_and(|chunk| has_room(settings, chunk));
    // The document keeps enough elements at the end.
    let mut tail = back.last().map_or(count, |part: &Part| part.range.end);
    while count - tail < last
        && let Some(part) = back.pop()
    {
        tail = part.range.start;
    }
    let mut tail = match back.last() {
        Some(part) => part.range.end..count,
        None => front.last().map_or(head, |part: &Part| part.range.end)..count,
    };
    while tail.len() < last
        && let Some(part) = front.pop()
    {
        tail.start = part.range.start;
    }
    let mut behind = Vec::new();
    if !stays(settings, count, new.get(tail.clone()).unwrap_or(&[])) {
        let list = if back.is_empty() { &mut front } else { &mut back };
        if let Some(part) = list.pop_if(|part| room(part)) {
            tail.start = part.range.start;
        }
        let end = count - last;
        behind = cut(settings, new, tail.start..end);
        tail.start = end;
    }
    // What is between the chunks that stay.
    let mut middle = Vec::new();
    if let Some(first) = back.first() {
        let from = front.last().map_or(head, |part| part.range.end);
        let mut gap = from..first.range.start;
        if !gap.is_empty() {
            if let Some(part) = front.pop_if(|part| room(part)) {
                gap.start = part.range.start;
            }
            if back.first().is_some_and(room) {
                gap.end = back.remove(0).range.end;
            }
            middle = cut(settings, new, gap);
        }
    }
    let parts = [front, middle, back, behind].concat();
    Division { head, parts, tail }
}

/// The stored chunks at the start and at the end of an array whose elements are the same.
fn unchanged(new: &[RawVal<'_>], old: &Known<'_>, head: usize) -> (Vec<Part>, Vec<Part>) {
    let shorter = new.len().min(old.elements.len());
    let same = |(one, other): &(&RawVal<'_>, &RawVal<'_>)| one == other;
    let first = new.iter().zip(old.elements).take_while(same).count();
    let pairs = new.iter().rev().zip(old.elements.iter().rev());
    let last = pairs.take(shorter - first).take_while(same).count();
    let part =
        |from: usize, chunk: &Chunk| Part { range: from..from + chunk.count, known: Some(*chunk) };
    let mut front: Vec<Part> = Vec::new();
    let mut from = old.head;
    let mut chunks = old.chunks.iter();
    if old.head == head {
        while let Some(chunk) = chunks.as_slice().first().filter(|c| from + c.count <= first) {
            front.push(part(from, chunk));
            from += chunk.count;
            chunks.next();
        }
    }
    let mut back: Vec<Part> = Vec::new();
    let left: usize = chunks.as_slice().iter().map(|chunk| chunk.count).sum();
    let mut end = from + left;
    let moved_to = |at: usize| (at + new.len()).checked_sub(old.elements.len());
    while let Some(chunk) = chunks.next_back() {
        let start = end.saturating_sub(chunk.count);
        let to = moved_to(start).filter(|to| *to >= head);
        let Some(to) = to.filter(|_| start + last >= old.elements.len()) else { break };
        back.push(part(to, chunk));
        end = start;
    }
    back.reverse();
    (front, back)
}

#[cfg(test)]
mod tests {
    use super::super::settings::Bound;
    use super::*;
    use proptest::prelude::*;
    use value::path::Path;

    fn settings(which: Which, keep: usize, chunk: usize) -> Settings {
        let most = Bound { count: 5, bytes: usize::MAX };
        Settings {
            array: Path::new("a"),
            keep,
            which,
            spill_at: most,
            unspill_at: most,
            chunk: Bound { count: chunk, bytes: 1000 },
            reads_head: false,
            flag: None,
            count: None,
        }
    }

    /// Elements are single bytes.
    fn elements(bytes: &[u8]) -> Vec<RawVal<'_>> {
        bytes.chunks(1).map(|bytes| RawVal { kind: 8, bytes }).collect()
    }

    /// The chunks that the parts are stored as; those that are known keep their elements.
    fn store(
        new: &[RawVal<'_>],
        division: &Division,
        stored: &mut Vec<(Chunk, Vec<u8>)>,
    ) -> Vec<Chunk> {
        let mut next = stored.iter().map(|(chunk, _)| chunk.id + 1).max().unwrap_or(0);
        let bytes = |range: Range<usize>| -> Vec<u8> {
            new[range].iter().flat_map(|element| element.bytes.to_vec()).collect()
        };
        let mut at = division.head;
        let mut chunks = Vec::new();
        for part in &division.parts {
            assert_eq!(part.range.start, at, "no gap");
            assert!(!part.range.is_empty());
            at = part.range.end;
            let bytes = bytes(part.range.clone());
            match part.known {
                Some(chunk) => {
                    let known = stored.iter().find(|(known, _)| known.id == chunk.id);
                    assert_eq!(known.expect("is stored").1, bytes);
                    chunks.push(chunk);
                }
                None => {
                    let chunk = Chunk { id: next, count: part.range.len(), bytes: bytes.len() };
                    next += 1;
                    stored.push((chunk, bytes));
                    chunks.push(chunk);
                }
            }
        }
        assert_eq!(division.tail, at..new.len());
        chunks
    }

    proptest! {
        #[test]
        fn chunks_and_the_rest_are_the_array(
            start in proptest::collection::vec(any::<u8>(), 0..200),
            changes in proptest::collection::vec((0..300_usize, 0..40_usize, proptest::collection::vec(any::<u8>(), 0..60)), 1..8),
            first in any::<bool>(), keep in 1..30_usize, chunk in 1..40_usize,
        ) {
            let which = if first { Which::First } else { Which::Last };
            let settings = settings(which, keep, chunk);
            let mut stored = Vec::new();
            let mut bytes = start;
            let mut known: Option<(Vec<u8>, usize, Vec<Chunk>)> = None;
            for (at, gone, more) in changes {
                let at = at.min(bytes.len());
                let end = (at + gone).min(bytes.len());
                bytes.splice(at..end, more);
                let new = elements(&bytes);
                let division = match &known {
                    None => divide(&settings, &new, None),
                    Some((old, head, chunks)) => {
                        let old = elements(old);
                        let known = Known { elements: &old, head: *head, chunks };
                        divide(&settings, &new, Some(&known))
                    }
                };
                let (head, last) = kept(&settings, new.len());
                prop_assert_eq!(division.head, head);
                prop_assert!(division.tail.len() >= last);
                prop_assert!(division.parts.iter().all(|part| part.range.len() <= chunk));
                let chunks = store(&new, &division, &mut stored);
                known = Some((bytes.clone(), head, chunks));
            }
        }
    }

    #[test]
    fn an_appended_element_keeps_the_chunks() {
        let settings = settings(Which::Last, 10, 20);
        let bytes: Vec<u8> = (0..100).collect();
        let all = elements(&bytes);
        let division = divide(&settings, &all[..99], None);
        let mut stored = Vec::new();
        let chunks = store(&all[..99], &division, &mut stored);
        assert_eq!(chunks.iter().map(|chunk| chunk.count).collect::<Vec<_>>(), [20, 20, 20, 20, 9]);
        let known = Known { elements: &all[..99], head: 0, chunks: &chunks };
        let again = divide(&settings, &all, Some(&known));
        assert!(again.parts.iter().all(|part| part.known.is_some()));
        assert_eq!(again.tail, 89..100);
    }
}
