//! Copies everything that is readable from a damaged data folder to a new one, and rebuilds there
//! what can be derived: indexes, counts and patterns.
//!
//! `catalog` reads which collections there are, `copy` copies documents and the change log,
//! `names` finds names of collections whose catalog record is lost, `rebuild` builds indexes and
//! patterns, `report` is the result.
//!
//! The damaged folder is only read. The new one must be empty; it is emptied again on failure.
//!
//! Layer: service.

mod catalog;
mod copy;
mod names;
mod rebuild;
mod report;

pub use report::{Copied, Repaired};

use crate::damage::{Damage, Names, Severity};
use crate::store_failed;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use store::{DiskStore, Finding, Salvage, Space, Store};
use value::{Code, Error, Result};

/// Which step of a repair is running, with (done, total) of its own unit.
pub type Progress<'p> = &'p mut dyn FnMut(&str, u64, u64);

/// Room that the new folder needs beside the data, for its log.
const LOG_ROOM: u64 = 128 << 20;

/// Repairs `folder` by copying it to `to`.
///
/// # Errors
/// If `folder` is no data folder or in use, `to` is not empty or on a disk that is too small, or if
/// writing to it fails. Damage is no error.
pub fn repair(folder: &Path, to: &Path, progress: Progress<'_>) -> Result<Repaired> {
    check_target(folder, to)?;
    let salvage = Salvage::open(folder).map_err(store_failed)?;
    check_room(&salvage, to)?;
    let existed = to.exists();
    let result = run(&salvage, to, progress);
    if result.is_err() {
        remove_partial(to, existed);
    }
    result
}

fn run(salvage: &Salvage, to: &Path, progress: Progress<'_>) -> Result<Repaired> {
    let mut findings: Vec<Finding> = salvage.findings().to_vec();
    let mut notes = Vec::new();
    let mut source = catalog::read(salvage, &mut findings, &mut notes)?;
    let store = DiskStore::open(to, store::Options::default()).map_err(store_failed)?;
    let mut copied = copy::documents(salvage, &store, &mut source, &mut findings, progress)?;
    let votes =
        copy::change_log(salvage, &store, &mut copied, &mut findings, &mut notes, progress)?;
    catalog::write(&store, &mut source, &mut copied, &votes, &mut notes)?;
    store.close().map_err(store_failed)?;
    drop(store);
    let failed = rebuild::run(to, &source, progress)?;
    let damage = describe(salvage.path(), &findings, &source);
    let is_lost = damage.iter().any(|damage| damage.severity != Severity::Harmless)
        || copied.invalid() > 0
        || !failed.is_empty();
    notes.extend(failed);
    Ok(report::make(to, &source, copied, damage, notes, is_lost))
}

/// Describes the findings. Damage of indexes is harmless, because all are built again.
fn describe(folder: &Path, findings: &[Finding], source: &catalog::Source) -> Vec<Damage> {
    let names = Names::of(source.collections.values().map(|collection| &**collection));
    let described = findings.iter().map(|finding| {
        let mut finding = finding.clone();
        let only_indexes = !finding.ranges().is_empty()
            && finding.ranges().iter().all(|range| range.space == Space::Indexes);
        if only_indexes {
            finding.effect = store::Effect::Harmless;
            finding.what.push_str("; indexes are built again");
        }
        names.describe(folder, &finding, !source.is_damaged)
    });
    described.collect()
}

/// Refuses a target that has something in it or is inside the damaged folder.
fn check_target(folder: &Path, to: &Path) -> Result<()> {
    let refused = |why: String| Err(Error::new(Code::ILLEGAL_OPERATION, why));
    match std::fs::read_dir(to) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return refused(format!("cannot use `{}`: {error}", to.display())),
        Ok(mut entries) => {
            if entries.next().is_some() {
                let shown = to.display();
                return refused(format!("`{shown}` is not empty; name a folder that is new"));
            }
        }
    }
    let absolute = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    if let (Ok(inside), Ok(outside)) = (absolute(to), absolute(folder))
        && inside.starts_with(outside)
    {
        return refused(format!("`{}` is inside the damaged folder", to.display()));
    }
    Ok(())
}

/// Refuses a disk on which the new folder would not fit: tables are written from the log, and
/// merging them needs some room of its own.
fn check_room(salvage: &Salvage, to: &Path) -> Result<()> {
    let tables: u64 = Space::ALL.iter().map(|space| salvage.table_bytes(*space)).sum();
    let needed = (tables + salvage.log_bytes()) / 2 * 3 + LOG_ROOM;
    match store::free_space(to) {
        Some(free) if free < needed => Err(Error::new(
            Code::OUT_OF_DISK_SPACE,
            format!(
                "the disk of `{}` has {} MB free, about {} MB are needed; name a folder on a larger disk",
                to.display(),
                free >> 20,
                needed >> 20
            ),
        )),
        _ => Ok(()),
    }
}

/// Removes what a failed repair has written.
fn remove_partial(to: &Path, existed: bool) {
    let removed = if existed {
        std::fs::read_dir(to).and_then(|entries| {
            for entry in entries {
                let path: PathBuf = entry?.path();
                if path.is_dir() {
                    std::fs::remove_dir_all(&path)?;
                } else {
                    std::fs::remove_file(&path)?;
                }
            }
            Ok(())
        })
    } else {
        std::fs::remove_dir_all(to)
    };
    if let Err(error) = removed
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(%error, "cannot remove the unfinished folder");
    }
}
