//! Reads every file and checks that it is as it was written.

use std::sync::Arc;

use lsm_tree::{AbstractTree, Table};

use super::Shared;
use super::record::{HeaderState, SEGMENT_HEADER, SegmentHeader, decode_record};
use super::segment::{ReleaseNote, Segment};
use super::trees::{check_manifest, check_table, tables};
use crate::{Damage, Result, Space, StoreError};

/// Checks the tables and their lists, the log and the small files of the folder.
pub(super) fn verify(shared: &Shared, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Damage>> {
    let all: Vec<Table> = shared.trees.iter().flat_map(tables).collect();
    let segments = shared.log.as_ref().map(|log| log.segments()).unwrap_or_default();
    let total = all.iter().map(|table| table.metadata.file_size).sum::<u64>()
        + segments.iter().map(|(_, end)| end).sum::<u64>();
    let mut done = 0;
    let mut damage = Vec::new();
    progress(0, total);
    for table in &all {
        let found = check_table(table, &mut |read| {
            done += read;
            progress(done.min(total), total);
        });
        collect(found, &mut damage)?;
    }
    for space in Space::ALL {
        // The list is not replaced while it is locked.
        let tree = &shared.trees[space.index()];
        let views = tree.get_version_history_lock();
        let result = check_manifest(&tree.tree_config().path);
        drop(views);
        collect(result.map(|()| None), &mut damage)?;
    }
    let log_folder = shared.path.join("log");
    collect(ReleaseNote::check(&log_folder), &mut damage)?;
    collect(super::DroppedRanges::load(&shared.path).map(|_| None), &mut damage)?;
    for (segment, end) in &segments {
        if let Some(found) = check_segment(segment, *end)
            && still_needed(shared, segment)
        {
            damage.push(found);
        }
        done += end;
        progress(done.min(total), total);
    }
    progress(total, total);
    Ok(damage)
}

/// Damage is a finding; other errors stop the check.
fn collect(found: Result<Option<Damage>>, damage: &mut Vec<Damage>) -> Result<()> {
    match found {
        Ok(found) => damage.extend(found),
        Err(StoreError::Corrupt { file, offset, what }) => {
            damage.push(Damage { file, offset, what });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Whether a segment is still needed: it may have been recycled while it was read.
fn still_needed(shared: &Shared, segment: &Arc<Segment>) -> bool {
    let needed = shared.log.as_ref().map(|log| log.segments()).unwrap_or_default();
    needed.iter().any(|(other, _)| Arc::ptr_eq(other, segment))
}

fn check_segment(segment: &Segment, end: u64) -> Option<Damage> {
    let file = segment.file.path().to_path_buf();
    if end == 0 {
        return None;
    }
    let bytes = match std::fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) => return Some(Damage { file, offset: None, what: error.to_string() }),
    };
    let whole = matches!(
        SegmentHeader::decode(&bytes),
        HeaderState::Valid(header)
            if header.generation == segment.generation && header.salt == segment.salt
    );
    if !whole {
        let what = "the checksum of its header does not match".to_string();
        return Some(Damage { file, offset: Some(0), what });
    }
    let mut at = SEGMENT_HEADER as u64;
    while at < end {
        match decode_record(&bytes, at, segment.salt) {
            Some(record) => at = record.end,
            None => {
                let what = "the checksum of a record does not match".to_string();
                return Some(Damage { file, offset: Some(at), what });
            }
        }
    }
    None
}
