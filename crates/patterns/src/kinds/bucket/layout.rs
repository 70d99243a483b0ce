//! How points are stored: many in one record.

use super::bytes::damaged;
use super::check;
use super::directory;
use super::levels::first_start;
use super::points::{self, Points};
use super::prune::Wanted;
use super::raw;
use super::recent::Recent;
use super::record::{BUCKET, all_of, series_span};
use super::scan::{AllPoints, InOrder};
use super::settings::{OnDuplicate, Settings, SharedSettings};
use crate::layout::{
    Area, Demand, Duplicate, Layout, RecordCursor, Records, RecordsMut, Span, merged,
};
use query::expr::show_doc;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// The layout of a bucket pattern.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    pub(super) settings: SharedSettings,
    recent: Arc<Recent>,
}

impl Buckets {
    pub(super) fn new(settings: SharedSettings) -> Buckets {
        Buckets { settings, recent: Arc::default() }
    }

    fn remove_from(&self, records: &mut dyn RecordsMut, bucket: Vec<u8>, key: &[u8]) -> Result<()> {
        let points = BTreeMap::from([(bucket, HashSet::from([key.to_vec()]))]);
        points::remove(&self.settings, records, &points)
    }

    fn store(&self, records: &mut dyn RecordsMut, documents: &[(&[u8], RawDoc<'_>)]) -> Result<()> {
        let mut points = Points::default();
        for (key, doc) in documents {
            match self.settings.place(*doc) {
                Some(place) => points.push(place, key, doc.bytes()),
                None => records.put(Area::Documents, key, doc.bytes().to_vec())?,
            }
        }
        points.store(&self.settings, records)
    }
}

impl Layout for Buckets {
    fn paths(&self) -> Vec<String> {
        let settings = &self.settings;
        let fields = settings.fields.iter().map(|field| &field.path);
        let all = settings.keys.iter().chain([&settings.time]).chain(fields);
        all.map(|path| path.text().to_owned()).collect()
    }

    fn holds_many(&self) -> bool {
        true
    }

    fn get(&self, records: &dyn Records, key: &[u8], _: &Demand) -> Result<Option<Vec<u8>>> {
        if let Some(plain) = records.get(Area::Documents, key)? {
            return Ok(Some(plain));
        }
        let Some(bucket) = directory::find(records, key)? else { return Ok(None) };
        let record = records.get(Area::Own, &bucket)?.ok_or_else(damaged)?;
        self.recent.find(record, key)?.ok_or_else(damaged).map(Some)
    }

    fn scan(
        &self,
        records: &dyn Records,
        span: &Span,
        demand: &Demand,
    ) -> Result<Box<dyn RecordCursor>> {
        let plain = records.scan(Area::Documents, span)?;
        let is_whole = span.from.is_empty() && span.to.is_none();
        if demand.ordered || !is_whole {
            let entries = directory::scan(records, span)?;
            let points = Box::new(InOrder::new(records.share(), entries));
            return Ok(merged(plain, points, span.backward));
        }
        let wanted = demand.filter.as_deref().map(|filter| Wanted::of(&self.settings, filter));
        let range = match wanted.as_ref().and_then(|wanted| wanted.series.as_ref()) {
            Some(series) => {
                let (first, last) = wanted.as_ref().map_or((i64::MIN, i64::MAX), Wanted::times);
                let lowest = first_start(&self.settings, records, series, first)?;
                // Bounds that contradict each other leave nothing.
                let last = last.max(lowest);
                series_span(series, (lowest, 0), (last, u32::MAX), span.backward)
            }
            None => all_of(BUCKET, span.backward),
        };
        let buckets = records.scan(Area::Own, &range)?;
        let settings = self.settings.clone();
        Ok(Box::new(AllPoints::new(settings, plain, buckets, span.backward, wanted)))
    }

    fn checks_writes(&self) -> bool {
        self.settings.unique
    }

    fn check_write(
        &self,
        records: &dyn Records,
        key: &[u8],
        old: Option<RawDoc<'_>>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        if !self.settings.unique {
            return Ok(());
        }
        let Some(place) = self.settings.place(new) else { return Ok(()) };
        if old.and_then(|old| self.settings.place(old)).as_ref() == Some(&place) {
            return Ok(());
        }
        match points::other_at(&self.settings, records, &place, key)? {
            Some(_) => Err(duplicate(&self.settings, new)),
            None => Ok(()),
        }
    }

    fn duplicate_of(&self, records: &dyn Records, new: RawDoc<'_>) -> Result<Option<Duplicate>> {
        if self.settings.on_duplicate == OnDuplicate::Reject {
            return Ok(None);
        }
        let Some(place) = self.settings.place(new) else { return Ok(None) };
        let Some(other) = points::other_at(&self.settings, records, &place, &[])? else {
            return Ok(None);
        };
        Ok(Some(match self.settings.on_duplicate {
            OnDuplicate::Keep => Duplicate::Keep,
            _ => Duplicate::Replace(other),
        }))
    }

    fn put(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        old: Option<RawDoc<'_>>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        if old.is_some() {
            let place = self.settings.place(new);
            if let Some(bucket) = directory::find(records, key)? {
                if let Some(place) = &place
                    && points::replace(&self.settings, records, &bucket, key, place, new.bytes())?
                {
                    return Ok(());
                }
                self.remove_from(records, bucket, key)?;
            } else {
                records.delete(Area::Documents, key)?;
            }
        }
        self.store(records, &[(key, new)])
    }

    fn put_new(
        &self,
        records: &mut dyn RecordsMut,
        documents: &[(&[u8], RawDoc<'_>)],
    ) -> Result<()> {
        self.store(records, documents)
    }

    fn delete(&self, records: &mut dyn RecordsMut, key: &[u8]) -> Result<()> {
        if records.get(Area::Documents, key)?.is_some() {
            return records.delete(Area::Documents, key);
        }
        match directory::find(records, key)? {
            Some(bucket) => self.remove_from(records, bucket, key),
            None => Ok(()),
        }
    }

    fn delete_many(&self, records: &mut dyn RecordsMut, keys: &[&[u8]]) -> Result<()> {
        let mut buckets: BTreeMap<Vec<u8>, HashSet<Vec<u8>>> = BTreeMap::new();
        for key in keys {
            if records.get(Area::Documents, key)?.is_some() {
                records.delete(Area::Documents, key)?;
            } else if let Some(bucket) = directory::find(records, key)? {
                buckets.entry(bucket).or_default().insert(key.to_vec());
            }
        }
        points::remove(&self.settings, records, &buckets)
    }

    fn raw(
        &self,
        records: &dyn Records,
        level: Option<&str>,
    ) -> Result<Option<Box<dyn RecordCursor>>> {
        raw::open(&self.settings, records, level).map(Some)
    }

    fn expires(&self) -> Option<(&str, i64)> {
        Some((self.settings.time.text(), self.settings.expires?))
    }

    fn check(&self, records: &dyn Records, find: &mut dyn FnMut(String)) -> Result<()> {
        check::records(&self.settings, records, find)
    }
}

/// The error for a second point of a series at one time.
pub(super) fn duplicate(settings: &Settings, doc: RawDoc<'_>) -> Error {
    let paths = || settings.keys.iter().chain([&settings.time]);
    let pattern = DocBuf::build(|out| {
        for path in paths() {
            out.i32(path.text(), 1);
        }
    });
    let values = DocBuf::build(|out| {
        for path in paths() {
            match path.find(doc) {
                Some(value) => out.raw(path.text(), value),
                None => out.append(path.text(), Val::Null),
            };
        }
    });
    let message = format!(
        "E11000 duplicate key error pattern: {} dup key: {}",
        settings.name,
        show_doc(values.as_doc())
    );
    let info = DocBuf::build(|out| {
        out.append("keyPattern", Val::Document(pattern.as_doc()));
        out.append("keyValue", Val::Document(values.as_doc()));
    });
    Error::new(Code::DUPLICATE_KEY, message).with_info(info)
}
