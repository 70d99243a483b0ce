//! Tests on index keys alone: bounds that key ranges cannot express, and conditions on the values
//! of an entry. `exec/entries` applies both.

use super::bounds::after;
use super::cover::Cover;
use query::filter::{Conditions, Filter};
use store::Direction;
use value::keys;

/// Key bytes from the first (inclusive) to the second (exclusive).
type Piece = (Vec<u8>, Vec<u8>);

/// Bounds on the values of a key that key ranges cannot express.
#[derive(Debug)]
pub struct KeyCheck {
    /// For each column up to the last bounded one: whether it is descending, and the allowed pieces
    /// in index order.
    columns: Vec<(bool, Option<Vec<Piece>>)>,
}

/// The result of checking a key.
pub enum Verdict {
    /// The key is inside the bounds.
    Inside,
    /// The key is outside. Continue at this key, or before it when reading backwards.
    Jump(Vec<u8>),
    /// The bytes are not a valid key.
    Damaged,
}

impl KeyCheck {
    /// A check of the bounds of the columns from `from` on; `None` if there are none.
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

    /// Whether a key, including the prefix of the index, is inside.
    #[must_use]
    pub fn holds(&self, key: &[u8]) -> bool {
        matches!(self.check(key, Direction::Forward), Verdict::Inside)
    }

    /// Checks a key, including the prefix of the index.
    #[must_use]
    pub fn check(&self, entry: &[u8], direction: Direction) -> Verdict {
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

/// The key at which to continue when a value after `before` is in none of the pieces.
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

/// Conditions that are tested on the values in an entry, so that documents that fail need not be
/// fetched.
#[derive(Debug)]
pub struct KeyFilter {
    /// Builds a document from an entry.
    pub cover: Cover,
    /// The conditions.
    pub filter: Filter,
    /// The positions of these conditions in the query's filter.
    pub conditions: Conditions,
}
