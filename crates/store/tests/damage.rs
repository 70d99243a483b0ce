//! A flipped byte in any file is reported with the file's name, and never served as data.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Model, apply, assert_same};
use store::{Batch, Direction, DiskStore, Options, Snapshot, Space, Store, StoreError};

fn options() -> Options {
    Options {
        cache_bytes: 0,
        memtable_bytes: 8 << 20,
        segment_bytes: 64 << 10,
        sync_interval: Duration::from_secs(3600),
        ..Options::default()
    }
}

fn batch(number: u32) -> Batch {
    let mut batch = Batch::new();
    for space in Space::ALL {
        batch.put(space, &number.to_be_bytes(), &[number as u8; 300]);
    }
    batch
}

/// A folder with tables in every space and several log segments that are still needed.
fn filled() -> (tempfile::TempDir, Model) {
    let folder = tempfile::tempdir().unwrap();
    let store = DiskStore::open(folder.path(), options()).unwrap();
    let mut model = Model::new();
    for number in 0..300 {
        let batch = batch(number);
        apply(&mut model, &batch);
        store.write(&batch).unwrap();
        if number == 150 {
            store.checkpoint().unwrap();
            store.delete_range(Space::Documents, b"x", b"y").unwrap();
            store.checkpoint().unwrap();
        }
        if number % 10 == 9 {
            store.sync(store.snapshot().seqno()).unwrap();
        }
    }
    drop(store);
    (folder, model)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Whether this is a list of tables that nothing needs any more: each change of a tree writes the
/// next one, and those before it stay until the tree gets round to removing them.
fn outdated(path: &Path) -> bool {
    let number = path.file_name().unwrap().to_string_lossy();
    let Some(number) = number.strip_prefix('v').and_then(|rest| rest.parse::<u64>().ok()) else {
        return false;
    };
    let current = std::fs::read(path.with_file_name("current")).unwrap();
    number != u64::from_le_bytes(current[..8].try_into().unwrap())
}

fn read_everything(snapshot: &Snapshot) -> Result<Model, StoreError> {
    let mut model = Model::new();
    for space in Space::ALL {
        let unbounded = std::ops::Bound::Unbounded;
        let mut range = snapshot.range(space, unbounded, unbounded, Direction::Forward)?;
        while let Some((key, value)) = range.next()? {
            model.insert((space as u8, key.to_vec()), value.to_vec());
        }
        for number in 0..300_u32 {
            snapshot.get(space, &number.to_be_bytes())?;
        }
    }
    Ok(model)
}

/// Where to flip: the ends, and places spread over the part of the file that holds something.
fn places(path: &Path) -> Vec<usize> {
    let bytes = std::fs::read(path).unwrap();
    let Some(end) = bytes.iter().rposition(|byte| *byte != 0) else { return Vec::new() };
    let mut places: Vec<usize> = (0..=8).map(|part| end * part / 8).collect();
    places.dedup();
    places
}

#[test]
fn every_kind_of_file() {
    let (original, model) = filled();
    let mut noticed = std::collections::BTreeMap::new();
    for path in files(original.path()) {
        let relative = path.strip_prefix(original.path()).unwrap().to_path_buf();
        let name = relative.file_name().unwrap().to_string_lossy().into_owned();
        // A spare segment and the lock hold nothing.
        if name.starts_with("spare-") || name == "LOCK" || outdated(&path) {
            continue;
        }
        let kind = match relative.parent().unwrap().file_name() {
            Some(parent) if parent == "tables" => "table".to_string(),
            _ if name.ends_with(".log") => "segment".to_string(),
            _ if name.starts_with('v') => "list of tables".to_string(),
            _ => name.clone(),
        };
        for place in places(&path) {
            let folder = tempfile::tempdir().unwrap();
            copy(original.path(), folder.path());
            let damaged = folder.path().join(&relative);
            let mut bytes = std::fs::read(&damaged).unwrap();
            bytes[place] ^= 0x40;
            std::fs::write(&damaged, &bytes).unwrap();
            let report = match DiskStore::open(folder.path(), options()) {
                Err(error) => Some(error.to_string()),
                Ok(store) => {
                    let found = store.verify(&mut |_, _| {}).unwrap();
                    match read_everything(&store.snapshot()) {
                        // Served only if nothing that is served was touched.
                        Ok(read) if read == model => {}
                        // The last flush of the log cannot be told from a torn one: no later
                        // record says that it was complete. Whole batches of it may be missing.
                        Ok(read) => {
                            let present = read.len() / Space::ALL.len();
                            assert!(kind == "segment" && present >= 290, "{relative:?} {place}");
                            let mut prefix = Model::new();
                            (0..present as u32).for_each(|n| apply(&mut prefix, &batch(n)));
                            assert!(read == prefix, "{relative:?} at {place}");
                        }
                        Err(error) => {
                            assert!(!found.is_empty());
                            assert!(error.to_string().contains(&name), "{name}: {error}");
                        }
                    }
                    found.first().map(|damage| format!("{} {:?}", damage.file.display(), damage))
                }
            };
            // The note of released segments has two entries; one may be damaged without harm.
            // Bytes between records (padding) hold nothing, and the last flush may be torn.
            let Some(report) = report else {
                assert!(kind == "RELEASED" || kind == "segment", "{relative:?} at {place}");
                continue;
            };
            assert!(
                report.contains(&name) || kind == "current" || kind == "FORMAT",
                "{relative:?} at {place}: {report}"
            );
            *noticed.entry(kind.clone()).or_insert(0) += 1;
        }
    }
    for kind in ["table", "segment", "list of tables", "current", "FORMAT"] {
        assert!(noticed.get(kind).is_some_and(|count| *count >= 3), "{kind}: {noticed:?}");
    }
}

#[test]
fn missing_files_are_named() {
    let (original, _) = filled();
    for path in files(original.path()) {
        let relative = path.strip_prefix(original.path()).unwrap().to_path_buf();
        let name = relative.file_name().unwrap().to_string_lossy().into_owned();
        let holds_nothing =
            name.starts_with("spare-") || ["LOCK", "DROPPED", "RESERVE"].contains(&&*name);
        if holds_nothing || outdated(&path) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        copy(original.path(), folder.path());
        std::fs::remove_file(folder.path().join(&relative)).unwrap();
        let opened = DiskStore::open(folder.path(), options());
        match opened {
            Err(error) => {
                let text = error.to_string();
                // Of a missing table only the tree is known, for its list says no names.
                let tree = relative.iter().next().unwrap().to_string_lossy();
                let named = text.contains(&name) || text.contains(&*tree);
                assert!(named || name.starts_with('v'), "{relative:?}: {text}");
            }
            Ok(_) => panic!("{relative:?} is missing and nobody noticed"),
        }
    }
}

#[test]
fn damage_before_a_synced_point_is_not_taken_for_a_torn_tail() {
    let folder = tempfile::tempdir().unwrap();
    let store = DiskStore::open(folder.path(), options()).unwrap();
    for number in 0..20 {
        let seqno = store.write(&batch(number)).unwrap();
        store.sync(seqno).unwrap();
    }
    drop(store);
    let segment = files(&folder.path().join("log"))
        .into_iter()
        .find(|file| file.extension().is_some_and(|extension| extension == "log"))
        .unwrap();
    let whole = std::fs::read(&segment).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap();

    // In the middle: an error, because later records say that this was on disk.
    let mut damaged = whole.clone();
    damaged[end / 2] ^= 1;
    std::fs::write(&segment, &damaged).unwrap();
    match DiskStore::open(folder.path(), options()).err().unwrap() {
        StoreError::Corrupt { file, offset: Some(offset), .. } => {
            assert_eq!(file.file_name(), segment.file_name());
            assert!((offset as usize) <= end / 2 && offset > 0, "{offset} {end}");
        }
        other => panic!("{other}"),
    }

    // In the last record: a tail like any other torn one.
    let mut torn = whole.clone();
    torn[end] ^= 1;
    std::fs::write(&segment, &torn).unwrap();
    let store = DiskStore::open(folder.path(), options()).unwrap();
    assert_eq!(store.snapshot().get(Space::Documents, &19_u32.to_be_bytes()).unwrap(), None);
    assert!(store.snapshot().get(Space::Documents, &18_u32.to_be_bytes()).unwrap().is_some());
}

#[test]
fn another_format_is_refused_with_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    drop(DiskStore::open(folder.path(), options()).unwrap());
    std::fs::write(folder.path().join("FORMAT"), "motifdb-store 7\n").unwrap();
    let error = DiskStore::open(folder.path(), options()).err().unwrap();
    assert!(matches!(error, StoreError::Version { .. }));
    let text = error.to_string();
    assert!(text.contains("motifdb-store 7") && text.contains("motifdb-store 1"), "{text}");
}

#[test]
fn undamaged_folder_is_clean() {
    let (folder, model) = filled();
    let store = DiskStore::open(folder.path(), options()).unwrap();
    let mut steps = Vec::new();
    assert_eq!(store.verify(&mut |done, total| steps.push((done, total))).unwrap(), vec![]);
    let (done, total) = *steps.last().unwrap();
    assert!(done == total && total > 0 && steps.is_sorted(), "{steps:?}");
    assert_same(&store.snapshot(), &model);
}
