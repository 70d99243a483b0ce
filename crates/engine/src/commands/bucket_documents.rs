//! The buckets of a time-series collection in the form that they have in `system.buckets.*` of
//! MongoDB: `{_id, control: {version, min, max}, meta, data: {field: {"0": value}}}`.

use crate::catalog::TimeSeries;
use std::cmp::Ordering;
use std::collections::HashMap;
use value::compare::compare;
use value::raw::ObjectId;
use value::{DocBuf, OwnedVal, RawDoc, RawVal, Val, Writer};

/// The least or the greatest of some values. Documents and arrays are compared field by field.
#[derive(Default)]
enum Extreme {
    #[default]
    Nothing,
    Value(OwnedVal),
    Fields(Vec<(String, Extreme)>),
    Items(Vec<Extreme>),
}

impl Extreme {
    /// Whether a value replaces this one.
    fn gives_way(&self, value: Val<'_>, wanted: Ordering) -> bool {
        let empty = RawDoc::empty();
        match self {
            Extreme::Nothing => true,
            Extreme::Value(known) => compare(value, known.get()) == wanted,
            Extreme::Fields(_) => compare(value, Val::Document(empty)) == wanted,
            Extreme::Items(_) => compare(value, Val::Array(empty)) == wanted,
        }
    }

    /// Adds a value; `wanted` is how the values to keep compare with the others.
    fn add(&mut self, value: RawVal<'_>, wanted: Ordering) {
        let value = value.get();
        // Of values of different shapes the order of their types decides.
        let replaces = match value {
            Val::Document(_) => self.gives_way(Val::Document(RawDoc::empty()), wanted),
            Val::Array(_) => self.gives_way(Val::Array(RawDoc::empty()), wanted),
            scalar => self.gives_way(scalar, wanted),
        };
        match (value, self) {
            (Val::Document(doc), Extreme::Fields(fields)) => add_fields(fields, doc, wanted),
            (Val::Array(list), Extreme::Items(items)) => add_items(items, list, wanted),
            (value, slot) if replaces => *slot = Extreme::of(value, wanted),
            _ => {}
        }
    }

    fn of(value: Val<'_>, wanted: Ordering) -> Extreme {
        match value {
            Val::Document(doc) => {
                let mut fields = Vec::new();
                add_fields(&mut fields, doc, wanted);
                Extreme::Fields(fields)
            }
            Val::Array(list) => {
                let mut items = Vec::new();
                add_items(&mut items, list, wanted);
                Extreme::Items(items)
            }
            scalar => Extreme::Value(OwnedVal::new(scalar)),
        }
    }

    fn write(&self, name: &str, out: &mut Writer<'_>) {
        match self {
            Extreme::Nothing => {}
            Extreme::Value(value) => {
                out.raw(name, value.raw());
            }
            Extreme::Fields(fields) => {
                out.doc(name, |out| fields.iter().for_each(|(name, value)| value.write(name, out)));
            }
            Extreme::Items(items) => {
                let array = out.open(name, true);
                for (at, item) in items.iter().enumerate() {
                    item.write(&at.to_string(), out);
                }
                out.close(array);
            }
        }
    }
}

fn add_fields(fields: &mut Vec<(String, Extreme)>, doc: RawDoc<'_>, wanted: Ordering) {
    for (name, value) in doc {
        match fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => known.add(value, wanted),
            None => {
                let mut extreme = Extreme::Nothing;
                extreme.add(value, wanted);
                fields.push((name.to_owned(), extreme));
            }
        }
    }
}

fn add_items(items: &mut Vec<Extreme>, list: RawDoc<'_>, wanted: Ordering) {
    for (at, (_, value)) in list.into_iter().enumerate() {
        if items.len() <= at {
            items.push(Extreme::Nothing);
        }
        if let Some(item) = items.get_mut(at) {
            item.add(value, wanted);
        }
    }
}

/// The values of one field, by the positions of their points.
struct Column<'d> {
    name: &'d str,
    min: Extreme,
    max: Extreme,
    values: Vec<(usize, RawVal<'d>)>,
}

/// A bucket in MongoDB's form; `bucket` is one of `rawBuckets`.
#[must_use]
pub(super) fn convert(series: &TimeSeries, bucket: RawDoc<'_>) -> DocBuf {
    let points = bucket.get("points").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let (mut columns, mut places) = (Vec::<Column<'_>>::new(), HashMap::new());
    let mut meta = None;
    for (at, point) in points.into_iter().filter_map(|(_, point)| point.as_doc()).enumerate() {
        for (name, value) in point {
            if series.meta.as_deref() == Some(name) {
                meta = meta.or(Some(value));
                continue;
            }
            let place = *places.entry(name).or_insert_with(|| {
                let (min, max) = (Extreme::Nothing, Extreme::Nothing);
                columns.push(Column { name, min, max, values: Vec::new() });
                columns.len() - 1
            });
            if let Some(column) = columns.get_mut(place) {
                column.min.add(value, Ordering::Less);
                column.max.add(value, Ordering::Greater);
                column.values.push((at, value));
            }
        }
    }
    let unit = series.rounding_seconds.max(1).saturating_mul(1000);
    let mut from = 0;
    for column in columns.iter_mut().filter(|column| *column.name == *series.time) {
        if let Extreme::Value(least) = &column.min
            && let Val::DateTime(time) = least.get()
        {
            from = time.saturating_sub(time.rem_euclid(unit));
            column.min = Extreme::Value(OwnedVal::new(Val::DateTime(from)));
        }
    }
    let key = match bucket.get("_id") {
        Some(Val::Binary(_, key)) => key,
        _ => &[],
    };
    DocBuf::build(|out| {
        out.append("_id", Val::ObjectId(identifier(from, key)));
        out.doc("control", |out| {
            out.i32("version", 1);
            out.doc("min", |out| columns.iter().for_each(|c| c.min.write(c.name, out)));
            out.doc("max", |out| columns.iter().for_each(|c| c.max.write(c.name, out)));
        });
        if let Some(meta) = meta {
            out.raw("meta", meta);
        }
        out.doc("data", |out| {
            for column in &columns {
                out.doc(column.name, |out| {
                    for (at, value) in &column.values {
                        out.raw(&at.to_string(), *value);
                    }
                });
            }
        });
    })
}

/// The `_id` of a bucket: the seconds of its lowest time, and a hash of its key.
fn identifier(from: i64, key: &[u8]) -> ObjectId {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in key {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let seconds = from.div_euclid(1000) as u32;
    let mut bytes = [0; 12];
    let (first, rest) = bytes.split_at_mut(4);
    first.copy_from_slice(&seconds.to_be_bytes());
    rest.copy_from_slice(&hash.to_be_bytes());
    ObjectId(bytes)
}
