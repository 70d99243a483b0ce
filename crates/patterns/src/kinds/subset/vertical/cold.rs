//! The cold fields of a document, and the values that stand in for them.

use std::sync::Arc;
use value::{DocBuf, OwnedVal, RawDoc, RawVal, Val, Writer};

/// The declared cold paths.
#[derive(Clone, Debug)]
pub(super) struct Cold {
    paths: Arc<[String]>,
    top: Arc<Level>,
}

/// Names at one depth of documents.
#[derive(Debug, Default)]
struct Level(Vec<(Box<str>, Step)>);

#[derive(Debug)]
enum Step {
    /// The cold field of this number.
    Field(usize),
    Inside(Level),
}

impl Level {
    fn insert(&mut self, path: &str, field: usize) {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, r)| (name, Some(r)));
        let Some(rest) = rest else {
            self.0.push((name.into(), Step::Field(field)));
            return;
        };
        let known = self.0.iter().position(|(known, _)| **known == *name);
        let at = known.unwrap_or_else(|| {
            self.0.push((name.into(), Step::Inside(Level::default())));
            self.0.len() - 1
        });
        if let Some((_, Step::Inside(inner))) = self.0.get_mut(at) {
            inner.insert(rest, field);
        }
    }

    fn find(&self, name: &str) -> Option<&Step> {
        self.0.iter().find(|(known, _)| **known == *name).map(|(_, step)| step)
    }
}

/// A value of a cold field in a document.
#[derive(Clone, Copy)]
pub(super) struct Found<'d> {
    /// The number of the field.
    pub(super) field: usize,
    /// The number of its record. A document may have a field twice, and each has a record.
    pub(super) slot: u32,
    /// The value, or what stands in for it.
    pub(super) value: RawVal<'d>,
}

impl Cold {
    /// The cold fields at these paths, none of which lies in another.
    pub(super) fn new(paths: &[&str]) -> Cold {
        let mut top = Level::default();
        for (field, path) in paths.iter().enumerate() {
            top.insert(path, field);
        }
        Cold { paths: paths.iter().map(|path| (*path).to_owned()).collect(), top: Arc::new(top) }
    }

    /// The paths, in the order of their numbers.
    pub(super) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// The values of cold fields in a document, in its order.
    pub(super) fn of<'d>(&self, doc: RawDoc<'d>) -> Vec<Found<'d>> {
        let mut found: Vec<Found<'d>> = Vec::new();
        self.collect(&self.top, doc, &mut found);
        found
    }

    fn slot(&self, found: &[Found<'_>], field: usize) -> u32 {
        let before = found.iter().filter(|found| found.field == field).count();
        u32::try_from(field + before * self.paths.len()).unwrap_or(u32::MAX)
    }

    fn collect<'d>(&self, level: &Level, doc: RawDoc<'d>, found: &mut Vec<Found<'d>>) {
        for (name, value) in doc {
            match level.find(name) {
                None => {}
                Some(Step::Field(field)) => {
                    let slot = self.slot(found, *field);
                    found.push(Found { field: *field, slot, value });
                }
                Some(Step::Inside(inner)) => {
                    if let Some(doc) = value.as_doc() {
                        self.collect(inner, doc, found);
                    }
                }
            }
        }
    }

    /// The document with other values of cold fields: those of `values`, by their place in what
    /// `of` returns; `None` keeps the value. They have the form of `kept`.
    pub(super) fn with(&self, doc: RawDoc<'_>, values: &[Option<Vec<u8>>]) -> Vec<u8> {
        let mut left = values.iter();
        DocBuf::build(|out| write(&self.top, doc, &mut left, out)).into_bytes()
    }
}

fn write(
    level: &Level,
    doc: RawDoc<'_>,
    left: &mut std::slice::Iter<'_, Option<Vec<u8>>>,
    out: &mut Writer<'_>,
) {
    for (name, value) in doc {
        match (level.find(name), value.as_doc()) {
            (Some(Step::Field(_)), _) => {
                let other =
                    left.next().and_then(Option::as_ref).and_then(|kept| kept.split_first());
                out.raw(name, other.map_or(value, |(kind, bytes)| RawVal { kind: *kind, bytes }));
            }
            (Some(Step::Inside(inner)), Some(doc)) => {
                out.doc(name, |out| write(inner, doc, left, out));
            }
            _ => {
                out.raw(name, value);
            }
        }
    }
}

/// What a value that stands in for another begins with.
const MARK: &[u8] = b"\xC0\x1Dcold field\0\xB7\x91\x5E";

/// A value as it is kept in a record: its type, then its bytes.
pub(super) fn kept(value: RawVal<'_>) -> Vec<u8> {
    [&[value.kind], value.bytes].concat()
}

/// The value that stands in for a cold value with this many bytes, as it is kept.
pub(super) fn stand_in(slot: u32, size: usize) -> Vec<u8> {
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let bytes = [MARK, &slot.to_be_bytes(), &size.to_be_bytes()].concat();
    kept(OwnedVal::new(Val::Binary(0x80, &bytes)).raw())
}

/// The size of the value that a value stands in for; `None` if it stands in for none. A client's
/// own value of this form is always stored apart, whatever its size.
pub(super) fn stands_for(value: RawVal<'_>) -> Option<usize> {
    let Val::Binary(0x80, bytes) = value.get() else { return None };
    let rest = bytes.strip_prefix(MARK)?;
    let (_, size) = rest.split_first_chunk::<4>()?;
    let size: [u8; 4] = size.try_into().ok()?;
    Some(u32::from_be_bytes(size) as usize)
}
