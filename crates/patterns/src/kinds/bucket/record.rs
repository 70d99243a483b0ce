//! The record of a bucket: how many points it holds, between which times, their statistics, the
//! points in columns, and points that were added since as they are.

use super::bytes::{self, Reader, damaged};
use super::columns;
use super::settings::Settings;
use super::stats::Stats;
use crate::layout::Span;
use value::{RawDoc, Result, keys};

/// First bytes of the keys of own records: buckets, statistics, blocks of the directory, single
/// entries of the directory.
pub(super) const BUCKET: u8 = b'B';
pub(super) const LEVEL: u8 = b'S';
pub(super) const BLOCK: u8 = b'D';
pub(super) const ENTRY: u8 = b'E';

/// Points that are kept outside of the columns, at most: more are put into them.
const TAIL_MAX: usize = 32;

/// The lowest time of a bucket's points, and a number if several buckets begin with one time.
pub(super) type Start = (i64, u32);

const START_BYTES: usize = 12;

/// The key of a bucket.
pub(super) fn bucket_key(series: &[u8], (from, sequence): Start) -> Vec<u8> {
    let mut key = Vec::with_capacity(series.len() + 13);
    key.push(BUCKET);
    key.extend_from_slice(series);
    key.extend_from_slice(&((from as u64) ^ (1 << 63)).to_be_bytes());
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}

/// The series and the start in the key of a bucket.
pub(super) fn parse_key(key: &[u8]) -> Result<(&[u8], Start)> {
    let at = key.len().checked_sub(START_BYTES).filter(|at| *at > 0).ok_or_else(damaged)?;
    let (series, start) = key.split_at_checked(at).ok_or_else(damaged)?;
    let (from, sequence) = start.split_first_chunk::<8>().ok_or_else(damaged)?;
    let sequence = sequence.first_chunk::<4>().ok_or_else(damaged)?;
    let from = (u64::from_be_bytes(*from) ^ (1 << 63)) as i64;
    Ok((series.get(1..).unwrap_or(&[]), (from, u32::from_be_bytes(*sequence))))
}

/// The keys of all buckets of a series from one start up to another, both included.
pub(super) fn series_span(series: &[u8], first: Start, last: Start, backward: bool) -> Span {
    let mut to = bucket_key(series, last);
    to.push(0);
    Span { from: bucket_key(series, first), to: Some(to), backward }
}

/// All keys that begin with a byte.
pub(super) fn all_of(first: u8, backward: bool) -> Span {
    Span { from: vec![first], to: Some(vec![first + 1]), backward }
}

/// The key of the statistics of a series in a span of a level.
pub(super) fn level_key(level: usize, series: &[u8], start: i64) -> Vec<u8> {
    let mut key = Vec::with_capacity(series.len() + 10);
    key.extend_from_slice(&[LEVEL, level as u8]);
    key.extend_from_slice(series);
    key.extend_from_slice(&((start as u64) ^ (1 << 63)).to_be_bytes());
    key
}

/// The series and the start in the key of statistics.
pub(super) fn parse_level_key(key: &[u8]) -> Result<(&[u8], i64)> {
    let (rest, start) = key.split_last_chunk::<8>().ok_or_else(damaged)?;
    let start = (u64::from_be_bytes(*start) ^ (1 << 63)) as i64;
    Ok((rest.get(2..).ok_or_else(damaged)?, start))
}

/// A stored bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) points: usize,
    /// Bytes of its points as documents.
    pub(super) bytes: usize,
    /// The times of its first and its last point.
    pub(super) first: i64,
    pub(super) last: i64,
    /// `Stats`, if they are kept.
    pub(super) stats: Vec<u8>,
    /// Points in columns.
    columns: Vec<u8>,
    /// Points that were added since.
    tail: Vec<u8>,
    tail_points: usize,
}

/// The record key of a document.
pub(super) fn id_key(doc: RawDoc<'_>, key: &mut Vec<u8>) {
    key.clear();
    if let Some(id) = doc.get("_id") {
        keys::encode(key, id, false);
    }
}

impl Record {
    /// Reads a record.
    pub(super) fn read(bytes: &[u8]) -> Result<Record> {
        let mut reader = Reader(bytes);
        let (points, bytes) = (reader.length()?, reader.length()?);
        let (first, last) = (reader.eight()? as i64, reader.eight()? as i64);
        let stats = reader.sized()?.to_vec();
        let columns = reader.sized()?.to_vec();
        let tail = reader.0.to_vec();
        let in_columns = if columns.is_empty() { 0 } else { columns::count(&columns)? };
        let tail_points = points.checked_sub(in_columns).ok_or_else(damaged)?;
        Ok(Record { points, bytes, first, last, stats, columns, tail, tail_points })
    }

    /// The times of the first and the last point of a record.
    pub(super) fn times(bytes: &[u8]) -> Result<(i64, i64)> {
        let mut reader = Reader(bytes);
        reader.length()?;
        reader.length()?;
        Ok((reader.eight()? as i64, reader.eight()? as i64))
    }

    /// The record as it is stored.
    pub(super) fn write(&self) -> Vec<u8> {
        let room = 40 + self.stats.len() + self.columns.len() + self.tail.len();
        let mut out = Vec::with_capacity(room);
        bytes::number(&mut out, self.points as u64);
        bytes::number(&mut out, self.bytes as u64);
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.last.to_le_bytes());
        bytes::sized(&mut out, &self.stats);
        bytes::sized(&mut out, &self.columns);
        out.extend_from_slice(&self.tail);
        out
    }

    /// A bucket of these points with their times.
    pub(super) fn of<'d>(
        settings: &Settings,
        points: impl ExactSizeIterator<Item = (i64, &'d [u8])>,
    ) -> Record {
        let mut record = Record::default();
        let mut stats = settings.rolls_up.then(|| Stats::none(settings));
        for (time, doc) in points {
            record.add(time, doc);
            if let Some(stats) = &mut stats {
                stats.add(settings, RawDoc::new(doc));
            }
        }
        record.put_into_columns();
        record.stats = stats.map_or_else(Vec::new, |stats| stats.to_doc().into_bytes());
        record
    }

    /// Adds a point behind the others, not to the statistics.
    fn add(&mut self, time: i64, doc: &[u8]) {
        self.first = if self.points == 0 { time } else { self.first.min(time) };
        self.last = if self.points == 0 { time } else { self.last.max(time) };
        self.points += 1;
        self.bytes += doc.len();
        self.tail.extend_from_slice(doc);
        self.tail_points += 1;
    }

    /// Adds points behind the others.
    pub(super) fn append<'d>(
        &mut self,
        settings: &Settings,
        points: impl Iterator<Item = (i64, &'d [u8])>,
    ) -> Result<()> {
        let mut stats = self.stats(settings);
        for (time, doc) in points {
            self.add(time, doc);
            if let Some(stats) = &mut stats {
                stats.add(settings, RawDoc::new(doc));
            }
        }
        if let Some(stats) = stats {
            self.stats = stats.to_doc().into_bytes();
        }
        if self.tail_points > TAIL_MAX {
            self.seal()?;
        }
        Ok(())
    }

    /// Puts all points into columns. False if they were already.
    pub(super) fn seal(&mut self) -> Result<bool> {
        if self.tail_points == 0 {
            return Ok(false);
        }
        if self.columns.is_empty() {
            self.put_into_columns();
            return Ok(true);
        }
        let docs = self.documents()?;
        self.columns.clear();
        columns::encode(&mut self.columns, docs.iter().map(Vec::as_slice));
        self.tail.clear();
        self.tail_points = 0;
        Ok(true)
    }

    fn put_into_columns(&mut self) {
        let tail = std::mem::take(&mut self.tail);
        let docs: Vec<&[u8]> = Parted(&tail).collect();
        columns::encode(&mut self.columns, docs.into_iter());
        self.tail_points = 0;
    }

    /// The statistics, if they are kept.
    pub(super) fn stats(&self, settings: &Settings) -> Option<Stats> {
        settings.rolls_up.then(|| match self.stats.is_empty() {
            true => Stats::none(settings),
            false => Stats::from_doc(settings, RawDoc::new(&self.stats)),
        })
    }

    /// The points, in the order in which they were added.
    pub(super) fn documents(&self) -> Result<Vec<Vec<u8>>> {
        let mut docs = match self.columns.is_empty() {
            true => Vec::new(),
            false => columns::decode(&self.columns)?,
        };
        docs.extend(Parted(&self.tail).map(<[u8]>::to_vec));
        if docs.len() != self.points {
            return Err(damaged());
        }
        Ok(docs)
    }

    /// The point with a record key.
    pub(super) fn find(&self, id: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut key = Vec::new();
        let mut is_wanted = |doc: &[u8]| {
            id_key(RawDoc::new(doc), &mut key);
            key == id
        };
        if let Some(doc) = Parted(&self.tail).find(|doc| is_wanted(doc)) {
            return Ok(Some(doc.to_vec()));
        }
        if self.columns.is_empty() {
            return Ok(None);
        }
        let mut docs = columns::decode(&self.columns)?;
        let at = docs.iter().position(|doc| is_wanted(doc));
        Ok(at.map(|at| docs.swap_remove(at)))
    }
}

/// Documents one after the other.
struct Parted<'d>(&'d [u8]);

impl<'d> Iterator for Parted<'d> {
    type Item = &'d [u8];

    fn next(&mut self) -> Option<&'d [u8]> {
        let length = u32::from_le_bytes(*self.0.first_chunk::<4>()?) as usize;
        let (doc, rest) = self.0.split_at_checked(length).filter(|_| length > 4)?;
        self.0 = rest;
        Some(doc)
    }
}
