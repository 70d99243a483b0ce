//! Writing points: into the bucket of their time, with the directory and the statistics.

use super::bytes::damaged;
use super::directory::{self, Entries};
use super::levels::Levels;
use super::record::{Record, Start, bucket_key, id_key, parse_key, series_span};
use super::settings::{Extent, Place, Settings};
use crate::layout::{Area, Records, RecordsMut};
use std::collections::{BTreeMap, HashSet};
use value::{RawDoc, Result};

/// A point that is stored.
#[derive(Clone, Copy)]
struct Point<'d> {
    time: i64,
    id: &'d [u8],
    doc: &'d [u8],
}

/// Documents that are written together, by series.
#[derive(Default)]
pub(super) struct Points<'d>(BTreeMap<Vec<u8>, Vec<Point<'d>>>);

impl<'d> Points<'d> {
    /// Adds a document under its record key.
    pub(super) fn push(&mut self, place: Place, id: &'d [u8], doc: &'d [u8]) {
        let point = Point { time: place.time, id, doc };
        self.0.entry(place.series).or_default().push(point);
    }

    /// Stores the documents. None of them is stored yet.
    pub(super) fn store(self, settings: &Settings, records: &mut dyn RecordsMut) -> Result<()> {
        let mut writing =
            Writing { settings, records, entries: Entries::new(), moved: BTreeMap::new() };
        let mut levels = Levels::new(settings);
        for (series, mut points) in self.0 {
            points.sort_by_key(|point| point.time);
            levels.add(&series, points.iter().map(|point| (point.time, RawDoc::new(point.doc))));
            writing.series(&series, &points)?;
        }
        let Writing { records, entries, moved, .. } = writing;
        // Points that were just added have no entries yet.
        let moved = moved.into_iter().filter(|(id, _)| !entries.contains_key(id)).collect();
        directory::change(records, &moved)?;
        directory::add(records, &entries)?;
        levels.store(records)
    }
}

/// The bucket that a point of a series belongs to, with its key.
fn bucket_of(
    settings: &Settings,
    records: &dyn Records,
    series: &[u8],
    time: i64,
) -> Result<Option<(Vec<u8>, Record)>> {
    let lowest = (settings.span_start(time), 0);
    let span = series_span(series, lowest, (time, u32::MAX), true);
    let mut buckets = records.scan(Area::Own, &span)?;
    buckets.next()?.map(|(key, bucket)| Ok((key.to_vec(), Record::read(bucket)?))).transpose()
}

/// The record key of the point that a series has at a time, other than the one with this record
/// key.
pub(super) fn other_at(
    settings: &Settings,
    records: &dyn Records,
    place: &Place,
    id: &[u8],
) -> Result<Option<Vec<u8>>> {
    let Some((_, record)) = bucket_of(settings, records, &place.series, place.time)? else {
        return Ok(None);
    };
    if place.time < record.first || place.time > record.last {
        return Ok(None);
    }
    let mut key = Vec::new();
    for doc in record.documents()? {
        let doc = RawDoc::new(&doc);
        if settings.place(doc).is_some_and(|other| other.time == place.time) {
            id_key(doc, &mut key);
            if key != id {
                return Ok(Some(key));
            }
        }
    }
    Ok(None)
}

struct Writing<'w> {
    settings: &'w Settings,
    records: &'w mut dyn RecordsMut,
    /// The buckets of new points.
    entries: Entries,
    /// The buckets of points that were moved.
    moved: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Writing<'_> {
    /// Stores points of one series, in the order of their times.
    fn series(&mut self, series: &[u8], mut points: &[Point<'_>]) -> Result<()> {
        while let Some(first) = points.first() {
            let found = bucket_of(self.settings, self.records, series, first.time)?;
            let is_new = found.is_none();
            let (key, record) = found.unwrap_or_else(|| {
                let start = (self.settings.span_start(first.time), 0);
                (bucket_key(series, start), Record::default())
            });
            if is_new {
                self.seal_before(series, &key)?;
            }
            let end = self.end_of(series, &key, first.time)?;
            let fitting = points.partition_point(|point| end.is_none_or(|end| point.time < end));
            let (own, rest) = points.split_at_checked(fitting.max(1)).ok_or_else(damaged)?;
            self.bucket(series, key, record, own)?;
            points = rest;
        }
        Ok(())
    }

    /// The first time behind a bucket: that of the next bucket, or the end of the span.
    fn end_of(&self, series: &[u8], key: &[u8], time: i64) -> Result<Option<i64>> {
        let (_, (from, sequence)) = parse_key(key)?;
        let behind = (from, sequence.saturating_add(1));
        let span = series_span(series, behind, (i64::MAX, u32::MAX), false);
        let mut buckets = self.records.scan(Area::Own, &span)?;
        let next = match buckets.next()? {
            Some((key, _)) => Some(parse_key(key)?.1.0),
            None => None,
        };
        let span_end = match self.settings.extent {
            Extent::Time(span) => self.settings.span_start(time).checked_add(span),
            Extent::Size => None,
        };
        Ok([next, span_end].into_iter().flatten().min())
    }

    /// Puts the points of the bucket before a new one into columns.
    fn seal_before(&mut self, series: &[u8], key: &[u8]) -> Result<()> {
        let (_, (from, _)) = parse_key(key)?;
        let Some(last) = from.checked_sub(1) else { return Ok(()) };
        let span = series_span(series, (i64::MIN, 0), (last, u32::MAX), true);
        let found = match self.records.scan(Area::Own, &span)?.next()? {
            Some((key, bucket)) => Some((key.to_vec(), Record::read(bucket)?)),
            None => None,
        };
        let Some((key, mut record)) = found else { return Ok(()) };
        match record.seal()? {
            true => self.records.put(Area::Own, &key, record.write()),
            false => Ok(()),
        }
    }

    fn note(&mut self, points: &[Point<'_>], key: &[u8]) {
        for point in points {
            self.entries.insert(point.id.to_vec(), key.to_vec());
        }
    }

    /// Adds points to a bucket, or to further ones if they do not fit. All of them lie before the
    /// next bucket.
    fn bucket(
        &mut self,
        series: &[u8],
        mut key: Vec<u8>,
        mut record: Record,
        mut points: &[Point<'_>],
    ) -> Result<()> {
        loop {
            let fitting = self.fitting(&record, points);
            if fitting == points.len() {
                return self.append(&key, record, points);
            }
            let Some(first) = points.first() else { return Ok(()) };
            let (_, start) = parse_key(&key)?;
            let is_one_moment =
                record.points == 0 || (record.first == start.0 && record.last == start.0);
            let behind = points.get(fitting).ok_or_else(damaged)?;
            let (now, next): (usize, Start) = if is_one_moment && behind.time == start.0 {
                // More points at one time than a bucket can hold.
                (fitting, (start.0, start.1.saturating_add(1)))
            } else if record.points == 0 || first.time >= record.last {
                // What has one time stays together.
                let mut now = fitting;
                let time = |at: usize| points.get(at).map(|point| point.time);
                while now > 0 && time(now) == time(now - 1) {
                    now -= 1;
                }
                if now == 0 && record.points > 0 && first.time == record.last {
                    return self.part(series, key, &record, points);
                }
                let behind = points.get(now).ok_or_else(damaged)?;
                (now, (behind.time, 0))
            } else {
                return self.part(series, key, &record, points);
            };
            let (now, rest) = points.split_at_checked(now).ok_or_else(damaged)?;
            if !now.is_empty() || record.points > 0 {
                record.append(self.settings, now.iter().map(|point| (point.time, point.doc)))?;
                record.seal()?;
                self.records.put(Area::Own, &key, record.write())?;
                self.note(now, &key);
            }
            (key, record, points) = (bucket_key(series, next), Record::default(), rest);
        }
    }

    /// How many of the points a bucket can take.
    fn fitting(&self, record: &Record, points: &[Point<'_>]) -> usize {
        let (mut count, mut bytes) = (record.points, record.bytes);
        let mut fitting = 0;
        for point in points {
            count += 1;
            bytes += point.doc.len();
            let fits = count <= self.settings.count_max && bytes <= self.settings.bytes_max;
            if !fits && count > 1 {
                break;
            }
            fitting += 1;
        }
        fitting
    }

    fn append(&mut self, key: &[u8], mut record: Record, points: &[Point<'_>]) -> Result<()> {
        record.append(self.settings, points.iter().map(|point| (point.time, point.doc)))?;
        self.records.put(Area::Own, key, record.write())?;
        self.note(points, key);
        Ok(())
    }

    /// Divides the points of a bucket and new ones among the bucket and further ones.
    fn part(
        &mut self,
        series: &[u8],
        key: Vec<u8>,
        record: &Record,
        points: &[Point<'_>],
    ) -> Result<()> {
        let known = record.documents()?;
        let mut ids = Vec::with_capacity(known.len());
        for doc in &known {
            let mut id = Vec::new();
            id_key(RawDoc::new(doc), &mut id);
            ids.push(id);
        }
        let mut all: Vec<(Point<'_>, bool)> = Vec::with_capacity(known.len() + points.len());
        for (doc, id) in known.iter().zip(&ids) {
            let place = self.settings.place(RawDoc::new(doc)).ok_or_else(damaged)?;
            all.push((Point { time: place.time, id, doc }, true));
        }
        all.extend(points.iter().map(|point| (*point, false)));
        all.sort_by_key(|(point, _)| point.time);
        let total: usize = all.iter().map(|(point, _)| point.doc.len()).sum();
        let (count_max, bytes_max) = (self.settings.count_max, self.settings.bytes_max);
        let parts = all.len().div_ceil(count_max).max(total.div_ceil(bytes_max)).max(2);
        let wanted = all.len().div_ceil(parts);
        let (_, start) = parse_key(&key)?;
        let (mut own, mut is_first) = (start, true);
        let mut left = all.as_slice();
        let mut kept = false;
        while let Some((first, _)) = left.first() {
            // Points of one time stay together, unless they alone are too many.
            let same = left.partition_point(|(point, _)| point.time == first.time);
            let (mut taken, mut bytes) = (0, 0);
            for (point, _) in left {
                bytes += point.doc.len();
                if taken > 0 && (taken >= wanted.max(1) || bytes > bytes_max) {
                    break;
                }
                taken += 1;
            }
            let time = |at: usize| left.get(at).map(|(point, _)| point.time);
            while taken > 0 && taken < left.len() && time(taken) == time(taken - 1) {
                taken -= 1;
            }
            let alone = taken == 0;
            if alone {
                let mut bytes = 0;
                for (point, _) in left.get(..same).unwrap_or(&[]) {
                    bytes += point.doc.len();
                    if taken > 0 && (taken >= count_max || bytes > bytes_max) {
                        break;
                    }
                    taken += 1;
                }
            }
            // A bucket of points of one time that are cut must begin with that time.
            let is_cut = alone && taken < same;
            own = match own {
                (from, _) if is_first && (from == first.time || !is_cut) => start,
                (from, sequence) if !is_first && from == first.time => (from, sequence + 1),
                _ => (first.time, 0),
            };
            is_first = false;
            let (now, rest) = left.split_at_checked(taken.max(1)).ok_or_else(damaged)?;
            let own_key = bucket_key(series, own);
            kept |= own == start;
            let rows = now.iter().map(|(point, _)| (point.time, point.doc));
            let part = Record::of(self.settings, rows);
            self.records.put(Area::Own, &own_key, part.write())?;
            for (point, was_known) in now {
                if !was_known {
                    self.entries.insert(point.id.to_vec(), own_key.clone());
                } else if own != start {
                    // A point of this statement may be moved before it has an entry.
                    if let Some(entry) = self.entries.get_mut(point.id) {
                        entry.clone_from(&own_key);
                    } else {
                        self.moved.insert(point.id.to_vec(), Some(own_key.clone()));
                    }
                }
            }
            left = rest;
        }
        match kept {
            true => Ok(()),
            false => self.records.delete(Area::Own, &key),
        }
    }
}

/// Removes points, given the keys of their buckets with their record keys.
pub(super) fn remove(
    settings: &Settings,
    records: &mut dyn RecordsMut,
    points: &BTreeMap<Vec<u8>, HashSet<Vec<u8>>>,
) -> Result<()> {
    let mut levels = Levels::new(settings);
    let mut entries = BTreeMap::new();
    let mut id = Vec::new();
    for (key, ids) in points {
        let record = records.get(Area::Own, key)?.ok_or_else(damaged)?;
        let mut docs = Record::read(&record)?.documents()?;
        let mut gone = Vec::with_capacity(ids.len());
        docs.retain_mut(|doc| {
            id_key(RawDoc::new(doc), &mut id);
            let stays = !ids.contains(&id);
            if !stays {
                gone.push(std::mem::take(doc));
            }
            stays
        });
        if gone.len() != ids.len() {
            return Err(damaged());
        }
        for doc in &gone {
            let doc = RawDoc::new(doc);
            let place = settings.place(doc).ok_or_else(damaged)?;
            levels.remove(&place.series, place.time, doc);
        }
        write_documents(settings, records, key, &docs)?;
        entries.extend(ids.iter().map(|id| (id.clone(), None)));
    }
    directory::change(records, &entries)?;
    levels.store(records)
}

/// Replaces a point inside its bucket. False if it belongs into another one now.
pub(super) fn replace(
    settings: &Settings,
    records: &mut dyn RecordsMut,
    key: &[u8],
    id: &[u8],
    place: &Place,
    new: &[u8],
) -> Result<bool> {
    let (series, _) = parse_key(key)?;
    let record = records.get(Area::Own, key)?.ok_or_else(damaged)?;
    let mut docs = Record::read(&record)?.documents()?;
    let at = position(&docs, id).ok_or_else(damaged)?;
    let slot = docs.get_mut(at).ok_or_else(damaged)?;
    let before = settings.place(RawDoc::new(slot)).ok_or_else(damaged)?;
    if series != place.series || before.time != place.time {
        return Ok(false);
    }
    let old = std::mem::replace(slot, new.to_vec());
    let bytes: usize = docs.iter().map(Vec::len).sum();
    if bytes > settings.bytes_max && docs.len() > 1 && new.len() > old.len() {
        return Ok(false);
    }
    write_documents(settings, records, key, &docs)?;
    let mut levels = Levels::new(settings);
    levels.remove(series, before.time, RawDoc::new(&old));
    levels.add(series, [(place.time, RawDoc::new(new))].into_iter());
    levels.store(records).map(|()| true)
}

fn position(docs: &[Vec<u8>], id: &[u8]) -> Option<usize> {
    let mut key = Vec::new();
    docs.iter().position(|doc| {
        id_key(RawDoc::new(doc), &mut key);
        key == id
    })
}

fn write_documents(
    settings: &Settings,
    records: &mut dyn RecordsMut,
    key: &[u8],
    docs: &[Vec<u8>],
) -> Result<()> {
    if docs.is_empty() {
        return records.delete(Area::Own, key);
    }
    let mut rows = Vec::with_capacity(docs.len());
    for doc in docs {
        let place = settings.place(RawDoc::new(doc)).ok_or_else(damaged)?;
        rows.push((place.time, doc.as_slice()));
    }
    records.put(Area::Own, key, Record::of(settings, rows.into_iter()).write())
}
