//! The points of the bucket that was read last: statements on many documents read one after the other
//! by their record keys.

use super::record::{Record, id_key};
use std::collections::HashMap;
use std::sync::Mutex;
use value::{RawDoc, Result};

/// A record, and its points by their record keys.
#[derive(Debug)]
struct Decoded {
    record: Vec<u8>,
    points: HashMap<Vec<u8>, Vec<u8>>,
}

/// The bucket that was read last. It is found by all bytes of its record, so it is never outdated.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<(Vec<u8>, Option<Decoded>)>);

impl Recent {
    /// The point with a record key. A bucket is decoded as a whole when it is read twice in a row.
    pub(super) fn find(&self, record: Vec<u8>, id: &[u8]) -> Result<Option<Vec<u8>>> {
        let Ok(mut recent) = self.0.try_lock() else { return Record::read(&record)?.find(id) };
        let (last, decoded) = &mut *recent;
        if let Some(decoded) = decoded
            && decoded.record == record
        {
            return Ok(decoded.points.get(id).cloned());
        }
        if *last != record {
            let found = Record::read(&record)?.find(id);
            *last = record;
            return found;
        }
        let mut points = HashMap::new();
        for doc in Record::read(&record)?.documents()? {
            let mut key = Vec::new();
            id_key(RawDoc::new(&doc), &mut key);
            points.insert(key, doc);
        }
        let found = points.get(id).cloned();
        *decoded = Some(Decoded { record, points });
        Ok(found)
    }
}
