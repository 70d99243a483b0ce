//! What is tested on the keys of an index alone: bounds of fields that ranges of keys do not tell,
//! and conditions on the values in an entry. `exec/entries` applies both.

use super::bounds::after;
use super::cover::Cover;
use query::filter::{Conditions, Filter};
use store::Direction;
use value::keys;

/// Key bytes from the first up to and without the second.
type Piece = (Vec<u8>, Vec<u8>);

/// Bounds of the values in a key that ranges of keys do not tell.
#[derive(Debug)]
pub struct KeyCheck {
    /// For each value up to the last that is bounded: whether it runs downwards, and the pieces
    /// in which it may be, in the order of the index.
    columns: Vec<(bool, Option<Vec<Piece>>)>,
}

/// What a check says of a key.
pub enum Verdict {
    /// It is inside.
    Inside,
    /// It is not; reading on can begin at this key, or end before it when read backwards.
    Jump(Vec<u8>),
    /// It is no key.
    Damaged,
}

impl KeyCheck {
    /// A check of the bounds of the columns from `from` on; nothing if there are none.
    #[must_use]
    pub fn new(
        descending: &[bool],
        from: usize,
        bounds: Vec<Option<Vec<Piece>>>,
    ) -> Option<KeyCheck> {
        let last = bounds.iter().rposition(Option::is_some)?;
        let before = std::iter::repeat_with(|| None).take(from);
        let all = before.chain(bounds.into_iter().take(last + 1));
        Some(KeyCheck { columns: descending.iter().copied().zip(all).collect() })
    }

    /// Whether a key, prefix of the index included, is inside.
    #[must_use]
    pub fn holds(&self, key: &[u8]) -> bool {
        matches!(self.look(key, Direction::Forward), Verdict::Inside)
    }

    /// Looks at an entry, prefix of the index included.
    #[must_use]
    pub fn look(&self, entry: &[u8], direction: Direction) -> Verdict {
        let mut at = 4;
        for (descending, pieces) in &self.columns {
            let Some(rest) = entry.get(at..) else { return Verdict::Damaged };
            let Some(length) = keys::skip(rest, *descending) else { return Verdict::Damaged };
            let value = rest.get(..length).unwrap_or(&[]);
            if let Some(pieces) = pieces
                && !pieces
                    .iter()
                    .any(|(from, to)| value >= from.as_slice() && value < to.as_slice())
            {
                return Verdict::Jump(target(
                    entry.get(..at).unwrap_or(&[]),
                    value,
                    pieces,
                    direction,
                ));
            }
            at += length;
        }
        Verdict::Inside
    }
}

/// Where reading goes on when a value behind `before` is in none of the pieces.
fn target(before: &[u8], value: &[u8], pieces: &[Piece], direction: Direction) -> Vec<u8> {
    match direction {
        Direction::Forward => match pieces.iter().find(|(from, _)| value < from.as_slice()) {
            Some((from, _)) => [before, from].concat(),
            None => after(before),
        },
        Direction::Reverse => match pieces.iter().rev().find(|(_, to)| value >= to.as_slice()) {
            Some((_, to)) => [before, to].concat(),
            None => before.to_vec(),
        },
    }
}

/// Conditions that are tested on the values in an entry, so that documents need not be fetched
/// for those that fail.
#[derive(Debug)]
pub struct KeyFilter {
    /// Makes a document of an entry.
    pub cover: Cover,
    /// The conditions.
    pub filter: Filter,
    /// Which of the query's conditions they are.
    pub conditions: Conditions,
}
