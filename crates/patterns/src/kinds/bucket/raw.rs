//! Buckets as documents: `{_id, key, start, end, count, points, rollup}`.

use super::bytes::damaged;
use super::record::{
    BUCKET, LEVEL, Record, Start, all_of, parse_key, parse_level_key, series_span,
};
use super::settings::{Extent, Settings, SharedSettings, aligned};
use super::stats::Stats;
use crate::layout::{Area, RecordCursor, Records};
use std::sync::Arc;
use value::{Error, OwnedVal, RawDoc, Result, Val, Writer, writer};

/// Opens the buckets, or the statistics of a level.
pub(super) fn open(
    settings: &SharedSettings,
    records: &dyn Records,
    level: Option<&str>,
) -> Result<Box<dyn RecordCursor>> {
    let settings = settings.clone();
    let Some(level) = level else {
        let buckets = records.scan(Area::Own, &all_of(BUCKET, false))?;
        return Ok(Box::new(RawBuckets { settings, buckets, doc: Vec::new() }));
    };
    let at = settings.levels.iter().position(|(_, name)| name == level).ok_or_else(|| {
        let names: Vec<String> =
            settings.levels.iter().map(|(_, name)| format!("'{name}'")).collect();
        Error::bad_value(format!(
            "'rawBuckets: {level}' is no level of pattern '{}'; its levels are: {}",
            settings.name,
            names.join(", ")
        ))
    })?;
    let prefix = vec![LEVEL, at as u8];
    let span =
        crate::layout::Span { from: prefix, to: Some(vec![LEVEL, at as u8 + 1]), backward: false };
    let levels = records.scan(Area::Own, &span)?;
    Ok(Box::new(RawLevel {
        settings,
        level: at,
        levels,
        records: records.share(),
        doc: Vec::new(),
    }))
}

/// Appends the values of the key fields of a point.
pub(super) fn write_key(settings: &Settings, doc: RawDoc<'_>, out: &mut Writer<'_>) {
    out.doc("key", |out| {
        for path in &settings.keys {
            if let Some(value) = path.find(doc) {
                out.raw(path.text(), value);
            }
        }
    });
}

fn write_rollup(settings: &Settings, stats: &Stats, out: &mut Writer<'_>) {
    out.doc("rollup", |out| {
        for (field, stats) in settings.fields.iter().zip(&stats.fields) {
            out.doc(field.path.text(), |out| {
                let value = |bound: &Option<OwnedVal>| bound.clone().unwrap_or(Val::Null.into());
                if field.min {
                    out.append("min", value(&stats.min).get());
                }
                if field.max {
                    out.append("max", value(&stats.max).get());
                }
                if field.sum {
                    out.append("sum", stats.sum.total());
                }
                if field.count {
                    write_count(out, "count", stats.numbers);
                }
            });
        }
    });
}

/// A count as `$count` writes it.
fn write_count(out: &mut Writer<'_>, name: &str, count: u64) {
    match i32::try_from(count) {
        Ok(count) => out.i32(name, count),
        Err(_) => out.count(name, count),
    };
}

fn write_span(settings: &Settings, record: &Record, out: &mut Writer<'_>) {
    let (start, end) = match settings.extent {
        Extent::Time(span) => {
            let start = aligned(record.first, span);
            (start, start.saturating_add(span))
        }
        Extent::Size => (record.first, record.last.saturating_add(1)),
    };
    out.append("start", Val::DateTime(start)).append("end", Val::DateTime(end));
}

struct RawBuckets {
    settings: SharedSettings,
    buckets: Box<dyn RecordCursor>,
    doc: Vec<u8>,
}

impl RecordCursor for RawBuckets {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some((key, bucket)) = self.buckets.next()? else { return Ok(None) };
        let record = Record::read(bucket)?;
        let mut points = Vec::with_capacity(record.points);
        for doc in record.documents()? {
            let time = self.settings.place(RawDoc::new(&doc)).ok_or_else(damaged)?.time;
            points.push((time, doc));
        }
        points.sort_by_key(|(time, _)| *time);
        let first = points.first().ok_or_else(damaged)?;
        self.doc.clear();
        let settings = &self.settings;
        writer::write_doc(&mut self.doc, |out| {
            out.append("_id", Val::Binary(0, key));
            write_key(settings, RawDoc::new(&first.1), out);
            write_span(settings, &record, out);
            write_count(out, "count", points.len() as u64);
            out.array("points", |list| {
                points.iter().for_each(|(_, doc)| list.push_doc_bytes(doc));
            });
            if let Some(stats) = record.stats(settings) {
                write_rollup(settings, &stats, out);
            }
        });
        Ok(Some((key, &self.doc)))
    }
}

struct RawLevel {
    settings: SharedSettings,
    level: usize,
    levels: Box<dyn RecordCursor>,
    records: Arc<dyn Records>,
    doc: Vec<u8>,
}

impl RecordCursor for RawLevel {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some((key, stats)) = self.levels.next()? else { return Ok(None) };
        let settings = &*self.settings;
        let (series, start) = parse_level_key(key)?;
        let span = settings.levels.get(self.level).ok_or_else(damaged)?.0;
        let stats = Stats::from_doc(settings, RawDoc::new(stats));
        let point = point_of_series(&*self.records, series)?;
        self.doc.clear();
        writer::write_doc(&mut self.doc, |out| {
            out.append("_id", Val::Binary(0, key));
            write_key(settings, RawDoc::new(&point), out);
            out.append("start", Val::DateTime(start));
            out.append("end", Val::DateTime(start.saturating_add(span)));
            write_count(out, "count", stats.points);
            write_rollup(settings, &stats, out);
        });
        Ok(Some((key, &self.doc)))
    }
}

/// Some point of a series: it has the values of the key.
pub(super) fn point_of_series(records: &dyn Records, series: &[u8]) -> Result<Vec<u8>> {
    let (first, last): (Start, Start) = ((i64::MIN, 0), (i64::MAX, u32::MAX));
    let mut buckets = records.scan(Area::Own, &series_span(series, first, last, false))?;
    let (key, bucket) = buckets.next()?.ok_or_else(damaged)?;
    if parse_key(key)?.0 != series {
        return Err(damaged());
    }
    Record::read(bucket)?.documents()?.into_iter().next().ok_or_else(damaged)
}
