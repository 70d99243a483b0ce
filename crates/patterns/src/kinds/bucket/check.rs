//! Looks for contradictions between buckets, the directory and the statistics.

use super::directory;
use super::record::{BUCKET, LEVEL, Record, all_of, id_key, level_key, parse_key, parse_level_key};
use super::settings::{Settings, aligned};
use super::stats::Stats;
use crate::layout::{Area, Records, Span};
use value::{RawDoc, Result};

pub(super) fn records(
    settings: &Settings,
    records: &dyn Records,
    find: &mut dyn FnMut(String),
) -> Result<()> {
    let mut points = 0_u64;
    let mut last: Option<(Vec<u8>, i64)> = None;
    let mut buckets = records.scan(Area::Own, &all_of(BUCKET, false))?;
    while let Some((key, bucket)) = buckets.next()? {
        let record = Record::read(bucket)?;
        points += record.points as u64;
        let (series, (from, _)) = parse_key(key)?;
        if let Some((before, time)) = &last
            && before == series
            && *time > from
        {
            find(format!("the bucket before {key:?} has a point at {time}, which belongs to it"));
        }
        last = Some((series.to_vec(), record.last));
        one(settings, records, key, &record, find)?;
    }
    let mut entries = directory::scan(records, &Span::all())?;
    let mut known = 0_u64;
    while entries.next()?.is_some() {
        known += 1;
    }
    if known != points {
        find(format!("there are {points} points in buckets and {known} entries for them"));
    }
    levels(settings, records, points, find)
}

/// Checks one bucket.
fn one(
    settings: &Settings,
    records: &dyn Records,
    key: &[u8],
    record: &Record,
    find: &mut dyn FnMut(String),
) -> Result<()> {
    let (series, (from, _)) = parse_key(key)?;
    let (mut first, mut last, mut bytes) = (i64::MAX, i64::MIN, 0);
    let mut stats = Stats::none(settings);
    let mut id = Vec::new();
    let docs = record.documents()?;
    for (at, doc) in docs.iter().enumerate() {
        bytes += doc.len();
        let doc = RawDoc::new(doc);
        match settings.place(doc) {
            Some(place) if place.series == series && place.time >= from => {
                first = first.min(place.time);
                last = last.max(place.time);
            }
            _ => find(format!("point {at} of the bucket {key:?} does not belong there")),
        }
        stats.add(settings, doc);
        id_key(doc, &mut id);
        if directory::find(records, &id)?.as_deref() != Some(key) {
            find(format!("point {at} of the bucket {key:?} has no entry or one that is wrong"));
        }
        if records.get(Area::Documents, &id)?.is_some() {
            find(format!("point {at} of the bucket {key:?} is stored twice"));
        }
    }
    if docs.is_empty() || (first, last, bytes) != (record.first, record.last, record.bytes) {
        find(format!("the head of the bucket {key:?} is wrong"));
    }
    let stored = record.stats(settings).map(|stats| stats.to_doc());
    if stored.is_some_and(|stored| !stats.is_stored_as(settings, stored.as_doc())) {
        find(format!("the statistics of the bucket {key:?} are wrong"));
    }
    Ok(())
}

/// Checks the statistics of coarser spans.
fn levels(
    settings: &Settings,
    records: &dyn Records,
    points: u64,
    find: &mut dyn FnMut(String),
) -> Result<()> {
    let mut counted = vec![0_u64; settings.levels.len()];
    let mut stored = records.scan(Area::Own, &all_of(LEVEL, false))?;
    while let Some((key, stats)) = stored.next()? {
        let level = usize::from(key.get(1).copied().unwrap_or(0));
        let (series, start) = parse_level_key(key)?;
        let Some((span, _)) = settings.levels.get(level) else {
            find(format!("the statistics {key:?} belong to no level"));
            continue;
        };
        if level_key(level, series, aligned(start, *span)) != key {
            find(format!("the statistics {key:?} do not begin at their span"));
        }
        let computed = super::levels::of_buckets(settings, records, series, start, *span)?;
        if !computed.is_stored_as(settings, RawDoc::new(stats)) {
            find(format!("the statistics {key:?} are wrong"));
        }
        if let Some(counted) = counted.get_mut(level) {
            *counted += computed.points;
        }
    }
    if counted.iter().any(|counted| *counted != points) {
        find("points are missing in the statistics".to_owned());
    }
    Ok(())
}
