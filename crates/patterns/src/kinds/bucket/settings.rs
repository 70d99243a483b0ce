//! What a declaration says, compiled: which bucket a point belongs to.

use std::sync::Arc;
use value::path::Path;
use value::{RawDoc, RawVal, Val, keys};

/// What bounds a bucket besides its most points and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extent {
    /// A span of time in milliseconds, aligned to 1970.
    Time(i64),
    /// Nothing: buckets are pages of so many points, or of so many bytes.
    Size,
}

/// The statistics of one field.
#[derive(Clone, Debug)]
pub(super) struct RolledUp {
    pub(super) path: Path,
    pub(super) min: bool,
    pub(super) max: bool,
    pub(super) sum: bool,
    pub(super) count: bool,
}

/// What happens to a second point of a series and a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OnDuplicate {
    Reject,
    Replace,
    Keep,
}

/// A declaration.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) name: String,
    pub(super) collection: String,
    /// The fields whose values name a series.
    pub(super) keys: Vec<Path>,
    pub(super) time: Path,
    pub(super) extent: Extent,
    pub(super) count_max: usize,
    pub(super) bytes_max: usize,
    /// Whether statistics are kept.
    pub(super) rolls_up: bool,
    pub(super) fields: Vec<RolledUp>,
    /// Spans in milliseconds for which there are statistics, ascending, with their names.
    pub(super) levels: Vec<(i64, String)>,
    /// Whether two points of a series cannot have the same time.
    pub(super) unique: bool,
    pub(super) on_duplicate: OnDuplicate,
    /// After how many seconds points are deleted.
    pub(super) expires: Option<i64>,
}

pub(super) type SharedSettings = Arc<Settings>;

/// The series and the time of a point.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    pub(super) series: Vec<u8>,
    pub(super) time: i64,
}

/// The value at a path.
pub(super) enum Found<'d> {
    Missing,
    Value(RawVal<'d>),
    /// There is an array on the way.
    InArray,
}

/// Looks for a value without stepping into arrays.
pub(super) fn look<'d>(doc: RawDoc<'d>, path: &Path) -> Found<'d> {
    let Some((last, steps)) = path.parts().split_last() else { return Found::Missing };
    let mut doc = doc;
    for step in steps {
        match doc.find(&step.name) {
            Some(value) if value.as_array().is_some() => return Found::InArray,
            Some(value) => match value.as_doc() {
                Some(inner) => doc = inner,
                None => return Found::Missing,
            },
            None => return Found::Missing,
        }
    }
    doc.find(&last.name).map_or(Found::Missing, Found::Value)
}

/// In the key of a series: a field that is missing, and one that is there.
const MISSING: u8 = 1;
const PRESENT: u8 = 2;
/// The longest key of a series.
const SERIES_BYTES_MAX: usize = 1000;

impl Settings {
    /// Where a document belongs; `None` if it is stored as it is: its time is no date, or an array
    /// is in the way of a path.
    pub(super) fn place(&self, doc: RawDoc<'_>) -> Option<Place> {
        let Found::Value(time) = look(doc, &self.time) else { return None };
        let Val::DateTime(time) = time.get() else { return None };
        let mut series = Vec::with_capacity(16);
        for path in &self.keys {
            match look(doc, path) {
                Found::Missing => series.push(MISSING),
                Found::Value(value) if value.as_array().is_none() => {
                    add_value(&mut series, value.get());
                }
                _ => return None,
            }
        }
        if series.len() > SERIES_BYTES_MAX {
            return None;
        }
        let in_array = |field: &RolledUp| matches!(look(doc, &field.path), Found::InArray);
        (!self.fields.iter().any(in_array)).then_some(Place { series, time })
    }

    /// The start of the span of a time; the lowest time if buckets have no span.
    pub(super) fn span_start(&self, time: i64) -> i64 {
        match self.extent {
            Extent::Time(span) => aligned(time, span),
            Extent::Size => i64::MIN,
        }
    }
}

/// Appends a value to the key of a series. Numbers of different types are equal; all else that
/// differs in its type differs.
pub(super) fn add_value(series: &mut Vec<u8>, value: Val<'_>) {
    series.push(PRESENT);
    if matches!(value, Val::Null | Val::Undefined | Val::Symbol(_)) {
        series.push(value.kind() as u8);
    }
    keys::encode(series, value, false);
}

/// The start of the span that a time lies in.
pub(super) fn aligned(time: i64, span: i64) -> i64 {
    time.saturating_sub(time.rem_euclid(span))
}
