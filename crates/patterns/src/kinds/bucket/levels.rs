//! The statistics of series in coarser spans: changed with each write, and computed again from the
//! buckets when a least or greatest value is gone.

use super::bytes::damaged;
use super::record::{Record, level_key, parse_key, series_span};
use super::settings::{Extent, Settings, aligned};
use super::stats::Stats;
use crate::layout::{Area, Records, RecordsMut};
use std::collections::BTreeMap;
use value::{DocBuf, RawDoc, Result};

/// What one statement changes of the statistics of one span.
#[derive(Default)]
struct Change {
    added: Option<Stats>,
    removed: Vec<DocBuf>,
}

/// The changes of a statement, by level, series and start.
pub(super) struct Levels<'s> {
    settings: &'s Settings,
    changes: BTreeMap<(usize, Vec<u8>, i64), Change>,
}

impl<'s> Levels<'s> {
    pub(super) fn new(settings: &'s Settings) -> Levels<'s> {
        Levels { settings, changes: BTreeMap::new() }
    }

    fn change(&mut self, level: usize, series: &[u8], start: i64) -> &mut Change {
        self.changes.entry((level, series.to_vec(), start)).or_default()
    }

    /// Notes points that are stored, in the order of their times.
    pub(super) fn add<'d>(
        &mut self,
        series: &[u8],
        points: impl Iterator<Item = (i64, RawDoc<'d>)> + Clone,
    ) {
        let settings = self.settings;
        for (level, (span, _)) in settings.levels.iter().enumerate() {
            let mut points = points.clone().peekable();
            while let Some((time, _)) = points.peek() {
                let start = aligned(*time, *span);
                let change = self.change(level, series, start);
                let stats = change.added.get_or_insert_with(|| Stats::none(settings));
                while let Some((_, doc)) =
                    points.next_if(|(time, _)| aligned(*time, *span) == start)
                {
                    stats.add(settings, doc);
                }
            }
        }
    }

    /// Notes a point that is removed.
    pub(super) fn remove(&mut self, series: &[u8], time: i64, doc: RawDoc<'_>) {
        let settings = self.settings;
        for (level, (span, _)) in settings.levels.iter().enumerate() {
            self.change(level, series, aligned(time, *span)).removed.push(doc.into());
        }
    }

    /// Changes the stored statistics. The buckets are written already.
    pub(super) fn store(self, records: &mut dyn RecordsMut) -> Result<()> {
        let settings = self.settings;
        for ((level, series, start), change) in self.changes {
            let key = level_key(level, &series, start);
            let stored = records.get(Area::Own, &key)?;
            let mut stats = match &stored {
                Some(stored) => Stats::from_doc(settings, RawDoc::new(stored)),
                None => Stats::none(settings),
            };
            let mut exact = true;
            for doc in &change.removed {
                exact &= stats.remove(settings, doc.as_doc());
            }
            if let Some(added) = &change.added {
                stats.merge(added);
            }
            if !exact {
                let span = settings.levels.get(level).ok_or_else(damaged)?.0;
                stats = of_buckets(settings, records, &series, start, span)?;
            }
            if stats.points > 0 {
                records.put(Area::Own, &key, stats.to_doc().into_bytes())?;
            } else if stored.is_some() {
                records.delete(Area::Own, &key)?;
            }
        }
        Ok(())
    }
}

/// Computes the statistics of a span from the buckets of a series.
pub(super) fn of_buckets(
    settings: &Settings,
    records: &dyn Records,
    series: &[u8],
    start: i64,
    span: i64,
) -> Result<Stats> {
    let end = start.saturating_add(span);
    let lowest = first_start(settings, records, series, start)?;
    let range = series_span(series, (lowest, 0), (end.saturating_sub(1), u32::MAX), false);
    let mut buckets = records.scan(Area::Own, &range)?;
    let mut stats = Stats::none(settings);
    while let Some((_, bucket)) = buckets.next()? {
        let (first, last) = Record::times(bucket)?;
        if last < start || first >= end {
            continue;
        }
        let record = Record::read(bucket)?;
        if first >= start && last < end {
            stats.merge(&record.stats(settings).ok_or_else(damaged)?);
            continue;
        }
        for doc in record.documents()? {
            let doc = RawDoc::new(&doc);
            let time = settings.place(doc).ok_or_else(damaged)?.time;
            if (start..end).contains(&time) {
                stats.add(settings, doc);
            }
        }
    }
    Ok(stats)
}

/// The start of the first bucket of a series that may have points at a time or after it.
pub(super) fn first_start(
    settings: &Settings,
    records: &dyn Records,
    series: &[u8],
    time: i64,
) -> Result<i64> {
    if let Extent::Time(_) = settings.extent {
        return Ok(settings.span_start(time));
    }
    let before = series_span(series, (i64::MIN, 0), (time, u32::MAX), true);
    match records.scan(Area::Own, &before)?.next()? {
        Some((key, _)) => Ok(parse_key(key)?.1.0),
        None => Ok(i64::MIN),
    }
}
