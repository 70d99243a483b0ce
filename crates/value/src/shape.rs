//! Finds fields in documents that mostly have the same shape.
//!
//! A plain walk must find the end of each name before it knows where the value begins, and from
//! that where the next name is: one slow step waits for the other. Documents of a collection mostly
//! have the same fields in the same order, so what the last one looked like is a good guess at the
//! next: the guess gives the positions at once and is verified independently, which the processor does in
//! parallel. Where the guess is wrong, the plain walk continues.

use crate::raw::{RawDoc, RawVal, length_at, name_length, same_name, value_size};

/// The most names that can be searched at once; a bit for each records what was found.
pub const NAMES_MAX: usize = 64;
/// The most elements of a document that are remembered.
const STEPS_MAX: usize = 256;
/// The number of steps that are compared ahead to find where a document matches the shape again.
const AHEAD: usize = 8;
/// The number of consecutive different documents after which the shape is learned again. If all
/// documents differ, learning costs little more than reading.
const MISSES_MAX: u32 = 16;

/// Names to search, and the shape of the documents in which they were found.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    names: Vec<Box<[u8]>>,
    steps: Vec<ExpectedElement>,
    misses: u32,
}

/// One element of the expected shape.
#[derive(Clone, Debug)]
struct ExpectedElement {
    /// The first eight bytes of type, name and zero, as far as `first_mask` says, and the next.
    first: u64,
    first_mask: u64,
    second: u64,
    second_mask: u64,
    /// Bytes of type, name and zero.
    head: usize,
    /// Bytes of the value, beside the length that it begins with if `counted`.
    size: usize,
    counted: bool,
    kind: u8,
    /// Which of the names it is, or `NONE`.
    field: u8,
}

const NONE: u8 = u8::MAX;

impl Shape {
    /// Searches these names; `None` if there are too many.
    #[must_use]
    pub fn new<'n>(names: impl Iterator<Item = &'n str>) -> Option<Shape> {
        let names: Vec<Box<[u8]>> = names.map(|name| name.as_bytes().into()).collect();
        (names.len() <= NAMES_MAX).then(|| Shape { names, steps: Vec::new(), misses: 0 })
    }

    /// Calls `found` with the number and the first value of every name that the document has, until
    /// it returns false.
    #[inline]
    pub fn each<'a>(&mut self, doc: RawDoc<'a>, mut found: impl FnMut(usize, RawVal<'a>) -> bool) {
        if self.names.is_empty() {
            return;
        }
        let mut left = u64::MAX >> (NAMES_MAX - self.names.len());
        let mut rest = doc.bytes().get(4..).unwrap_or(&[]);
        for (at, step) in self.steps.iter().enumerate() {
            let Some(value) = step.take(&mut rest) else {
                return self.miss(doc, at, rest, left, &mut found);
            };
            if step.field != NONE {
                left &= !(1 << step.field);
                if !found(usize::from(step.field), value) || left == 0 {
                    return;
                }
            }
        }
        if rest.len() > 1 {
            self.miss(doc, self.steps.len(), rest, left, &mut found)
        }
    }

    /// The document differs from the shape: continues from `rest`, which does not begin with step
    /// `at`, and follows the shape again where possible.
    #[cold]
    #[inline(never)]
    fn miss<'a>(
        &mut self,
        doc: RawDoc<'a>,
        at: usize,
        rest: &'a [u8],
        left: u64,
        found: &mut dyn FnMut(usize, RawVal<'a>) -> bool,
    ) {
        self.misses += 1;
        if self.steps.is_empty() || self.misses > MISSES_MAX {
            self.learn(doc);
        }
        self.walk(at, rest, left, found);
    }

    /// Continues without the shape.
    fn walk<'a>(
        &self,
        mut at: usize,
        mut rest: &'a [u8],
        mut left: u64,
        found: &mut dyn FnMut(usize, RawVal<'a>) -> bool,
    ) {
        while left != 0 {
            // The unexpected element, then expected ones again.
            let Some((name, value, after)) = element(rest) else { return };
            rest = after;
            if let Some(field) = self.field_index(name, left) {
                left &= !(1 << field);
                if !found(field, value) {
                    return;
                }
            }
            let ahead = self.steps.get(at..).unwrap_or(&[]);
            let Some(place) = ahead.iter().take(AHEAD).position(|step| step.is_at(rest)) else {
                continue;
            };
            at += place;
            while left != 0
                && let Some(step) = self.steps.get(at)
                && let Some(value) = step.take(&mut rest)
            {
                if step.field != NONE && left & (1 << step.field) != 0 {
                    left &= !(1 << step.field);
                    if !found(usize::from(step.field), value) {
                        return;
                    }
                }
                at += 1;
            }
        }
    }

    /// The number of a name among those that are left.
    fn field_index(&self, name: &[u8], left: u64) -> Option<usize> {
        let mut open = left;
        while open != 0 {
            let at = open.trailing_zeros() as usize;
            open &= open - 1;
            if self.names.get(at).is_some_and(|wanted| same_name(wanted, name)) {
                return Some(at);
            }
        }
        None
    }

    /// Learns the shape of a document, up to the last of the names.
    fn learn(&mut self, doc: RawDoc<'_>) {
        self.misses = 0;
        self.steps.clear();
        let mut left = u64::MAX >> (NAMES_MAX - self.names.len());
        let mut rest = doc.bytes().get(4..).unwrap_or(&[]);
        while left != 0
            && let Some((name, value, after)) = element(rest)
            && self.steps.len() < STEPS_MAX
        {
            let field = self.field_index(name, left);
            // A repeated name is ignored here, but may be needed in a document that lacks the first
            // one.
            if field.is_none() && self.field_index(name, u64::MAX).is_some() {
                return;
            }
            if let Some(field) = field {
                left &= !(1 << field);
            }
            let field = field.and_then(|field| u8::try_from(field).ok()).unwrap_or(NONE);
            let Some(step) = ExpectedElement::new(rest, name, value.kind, field) else { return };
            self.steps.push(step);
            rest = after;
        }
    }
}

/// The element at the start of these bytes: its name, its value, what follows.
fn element(rest: &[u8]) -> Option<(&[u8], RawVal<'_>, &[u8])> {
    let (&kind, behind) = rest.split_first()?;
    let length = name_length(behind)?;
    let (name, body) = (behind.get(..length)?, behind.get(length + 1..)?);
    let (bytes, after) = body.split_at_checked(value_size(kind, body)?)?;
    Some((name, RawVal { kind, bytes }, after))
}

impl ExpectedElement {
    /// The expected element for an element of a document; `None` if it cannot be predicted.
    fn new(rest: &[u8], name: &[u8], kind: u8, field: u8) -> Option<ExpectedElement> {
        let head = name.len() + 2;
        let (counted, size) = match kind {
            0x10 => (false, 4),
            0x01 | 0x09 | 0x11 | 0x12 => (false, 8),
            0x02 | 0x0D | 0x0E => (true, 4),
            0x03 | 0x04 => (true, 0),
            0x05 => (true, 5),
            0x07 => (false, 12),
            0x08 => (false, 1),
            0x0A => (false, 0),
            0x13 => (false, 16),
            _ => return None,
        };
        let mask = |bytes: usize| match bytes {
            0 => 0,
            1..8 => (1_u64 << (8 * bytes)) - 1,
            _ => u64::MAX,
        };
        let (first_mask, second_mask) = (mask(head), mask(head.saturating_sub(8)));
        if head > 16 {
            return None;
        }
        let first = u64::from_le_bytes(*rest.first_chunk::<8>()?) & first_mask;
        let second = match second_mask {
            0 => 0,
            mask => u64::from_le_bytes(*rest.get(8..)?.first_chunk::<8>()?) & mask,
        };
        Some(ExpectedElement {
            first,
            first_mask,
            second,
            second_mask,
            head,
            size,
            counted,
            kind,
            field,
        })
    }

    /// Whether these bytes begin with the type and the name that are expected.
    #[inline]
    fn is_at(&self, rest: &[u8]) -> bool {
        let word = |at: usize| rest.get(at..)?.first_chunk::<8>().map(|b| u64::from_le_bytes(*b));
        word(0).is_some_and(|first| first & self.first_mask == self.first)
            && (self.second_mask == 0
                || word(8).is_some_and(|second| second & self.second_mask == self.second))
    }

    /// Takes the element from the start of the bytes, if it is the one that is expected.
    #[inline]
    fn take<'a>(&self, rest: &mut &'a [u8]) -> Option<RawVal<'a>> {
        if !self.is_at(rest) {
            return None;
        }
        let body = rest.get(self.head..)?;
        let size = match self.counted {
            true => length_at(body)?.checked_add(self.size)?,
            false => self.size,
        };
        let (bytes, after) = body.split_at_checked(size)?;
        *rest = after;
        Some(RawVal { kind: self.kind, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DocBuf, ejson};
    use proptest::prelude::*;

    const NAMES: [&str; 6] = ["a", "bb", "collection", "a name that is long", "", "nested"];

    fn plain(doc: RawDoc<'_>, names: &[&str]) -> Vec<(usize, String)> {
        let found = names.iter().enumerate();
        let found = found.filter_map(|(at, name)| doc.find(name).map(|value| (at, value)));
        found.map(|(at, value)| (at, format!("{value:?}"))).collect()
    }

    fn by_shape(shape: &mut Shape, doc: RawDoc<'_>) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        shape.each(doc, |at, value| {
            found.push((at, format!("{value:?}")));
            true
        });
        found.sort();
        found
    }

    fn any_doc() -> impl Strategy<Value = DocBuf> {
        let names = prop::sample::select(
            NAMES.into_iter().chain(["x", "another", "b", "collections"]).collect::<Vec<_>>(),
        );
        let value = prop::sample::select(vec![
            "1",
            "2.5",
            "'text'",
            "''",
            "null",
            "true",
            "{a: 1}",
            "[1, 2]",
            "NumberLong(5)",
            "/a/",
            "MinKey",
            "ISODate('2020-01-01T00:00:00Z')",
            "'a longer text than the others are'",
        ]);
        prop::collection::vec((names, value), 0..8).prop_map(|fields| {
            DocBuf::build(|out| {
                for (name, value) in fields {
                    out.append(name, ejson::parse_value(value).expect("a value").get());
                }
            })
        })
    }

    proptest! {
        #[test]
        fn a_shape_finds_what_a_plain_walk_finds(
            docs in prop::collection::vec((any_doc(), 1_usize..40), 1..8),
            wanted in prop::collection::vec(prop::sample::select(NAMES.to_vec()), 0..4),
        ) {
            let mut wanted = wanted;
            wanted.sort_unstable();
            wanted.dedup();
            let mut shape = Shape::new(wanted.iter().copied()).expect("few names");
            for _ in 0..2 {
                for (doc, times) in &docs {
                    for _ in 0..*times {
                        let found = by_shape(&mut shape, doc.as_doc());
                        prop_assert_eq!(found, plain(doc.as_doc(), &wanted));
                    }
                }
            }
        }

        #[test]
        fn damaged_bytes_end_the_walk(doc in any_doc(), cut in 0_usize..60, byte: u8, at in 0_usize..60) {
            let mut shape = Shape::new(["a", "nested"].into_iter()).expect("few names");
            by_shape(&mut shape, doc.as_doc());
            let mut bytes = doc.bytes().to_vec();
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(cut.max(4));
            by_shape(&mut shape, RawDoc::new(&bytes));
        }
    }

    #[test]
    fn more_names_than_can_be_counted_are_refused() {
        let names: Vec<String> = (0..65).map(|n| n.to_string()).collect();
        assert!(Shape::new(names.iter().map(String::as_str)).is_none());
        let mut shape = Shape::new(names.iter().take(64).map(String::as_str)).expect("fit");
        let doc = DocBuf::build(|out| {
            names.iter().for_each(|name| {
                out.i32(name, 1);
            });
        });
        assert_eq!(by_shape(&mut shape, doc.as_doc()).len(), 64);
        assert_eq!(by_shape(&mut shape, doc.as_doc()).len(), 64);
    }
}
