//! Salvage: a folder of random content is damaged in every way, one at a time. Whatever differs from
//! the model lies in a reported range, and what is read was once written.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use common::{Model, apply, tiny};
use store::{Batch, DiskStore, Effect, Finding, Options, Salvage, Space, Store};

/// Every value that a key ever had.
type History = BTreeMap<(u8, Vec<u8>), BTreeSet<Vec<u8>>>;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

struct Filled {
    folder: tempfile::TempDir,
    model: Model,
    history: History,
    /// The states after the commits of the last flush of the log.
    recent: Vec<Model>,
}

fn options() -> Options {
    Options { segment_bytes: 16 << 10, ..tiny() }
}

/// Collections are prefixes of four bytes; some are dropped. There are flushes and merges, and the
/// last commits are in several log segments only.
fn filled(seed: u64) -> Filled {
    let folder = common::memory_folder();
    let store = DiskStore::open(folder.path(), options()).unwrap();
    let mut random = Random(seed | 1);
    let (mut model, mut history) = (Model::new(), History::new());
    let mut recent = Vec::new();
    for number in 0..500_u64 {
        let mut batch = Batch::new();
        for _ in 0..=random.below(6) {
            let space = Space::ALL[random.below(4) as usize];
            // Prefixes are dropped and never used again.
            let prefix = (number / 150) as u32 * 10 + random.below(3) as u32;
            let mut key = prefix.to_be_bytes().to_vec();
            key.extend_from_slice(&(random.below(300) as u32).to_be_bytes());
            if random.below(6) == 0 {
                batch.delete(space, &key);
            } else {
                let mut value = vec![0; 20 + random.below(400) as usize];
                value.fill_with(|| random.below(256) as u8);
                value[..8].copy_from_slice(&number.to_le_bytes());
                history.entry((space as u8, key.clone())).or_default().insert(value.clone());
                batch.put(space, &key, &value);
            }
        }
        apply(&mut model, &batch);
        store.write(&batch).unwrap();
        if number % 150 == 149 {
            let prefix = (number / 150) as u32 * 10 + 1;
            let (from, to) = (prefix.to_be_bytes(), (prefix + 1).to_be_bytes());
            for space in [Space::Documents, Space::Indexes] {
                store.delete_range(space, &from, &to).unwrap();
                model.retain(|(number, key), _| *number != space as u8 || !key.starts_with(&from));
            }
        }
        if number == 100 || number == 320 {
            store.checkpoint().unwrap();
        }
        recent.push(model.clone());
        if number % 5 == 0 {
            recent = recent.split_off(recent.len() - 1);
            store.sync(store.snapshot().seqno()).unwrap();
        }
    }
    store.sync(store.snapshot().seqno()).unwrap();
    drop(store);
    Filled { folder, model, history, recent }
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

/// Reads everything that is readable.
fn salvage(folder: &Path) -> (Model, Vec<Finding>) {
    let salvage = Salvage::open(folder).unwrap();
    let mut found = salvage.findings().to_vec();
    let mut model = Model::new();
    for space in Space::ALL {
        let mut last = Vec::new();
        let read = salvage.read::<()>(space, &mut |key, value, _| {
            assert!(last.as_slice() < key.as_slice(), "keys are in order");
            last = key.to_vec();
            if let Some(value) = value {
                model.insert((space as u8, key.to_vec()), value.to_vec());
            }
            Ok(())
        });
        found.extend(read.unwrap());
    }
    (model, found)
}

/// How many keys differ from the model; all of them must be reported.
fn compare(filled: &Filled, read: &Model, findings: &[Finding], what: &str) -> usize {
    let keys: BTreeSet<_> = filled.model.keys().chain(read.keys()).collect();
    let mut differ = 0;
    for key in keys {
        let (wanted, found) = (filled.model.get(key), read.get(key));
        if wanted == found {
            continue;
        }
        differ += 1;
        let space = Space::from_number(key.0).unwrap();
        let reported = findings
            .iter()
            .flat_map(|finding| finding.ranges())
            .any(|range| range.space == space && range.contains(&key.1));
        assert!(reported, "{what}: {space:?} {:?} is not reported: {findings:?}", key.1);
        if let Some(found) = found {
            let known = filled.history.get(key).is_some_and(|values| values.contains(found));
            assert!(known, "{what}: {space:?} {:?} was never written", key.1);
        }
    }
    differ
}

#[test]
fn an_undamaged_folder_is_read_whole_and_nothing_is_found() {
    for seed in [3, 77, 1234] {
        let filled = filled(seed);
        let before: Vec<_> =
            files(filled.folder.path()).iter().map(|file| std::fs::read(file).unwrap()).collect();
        let (read, findings) = salvage(filled.folder.path());
        assert_eq!(findings, []);
        assert_eq!(compare(&filled, &read, &findings, "undamaged"), 0);
        let inspected = Salvage::open(filled.folder.path()).unwrap().inspect(&mut |_, _| {});
        assert_eq!(inspected, []);
        let after: Vec<_> =
            files(filled.folder.path()).iter().map(|file| std::fs::read(file).unwrap()).collect();
        assert!(before == after, "nothing was written");
    }
}

#[test]
fn a_folder_in_use_is_refused_and_so_is_one_that_is_no_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Salvage::open(&folder.path().join("nothing")).is_err());
    assert!(Salvage::open(folder.path()).is_err());
    let store = DiskStore::open(folder.path(), options()).unwrap();
    let error = Salvage::open(folder.path()).err().unwrap();
    assert!(error.to_string().contains("in use"), "{error}");
    drop(store);
    assert!(Salvage::open(folder.path()).is_ok());
}

/// The ways to damage a file.
fn damages(bytes: &[u8], random: &mut Random) -> Vec<(String, Option<Vec<u8>>)> {
    let mut all = vec![("removed".to_string(), None), ("emptied".to_string(), Some(Vec::new()))];
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
    for _ in 0..6 {
        let at = random.below(end as u64) as usize;
        let mut flipped = bytes.to_vec();
        if let Some(byte) = flipped.get_mut(at) {
            *byte ^= 1 << random.below(8);
        }
        all.push((format!("flipped at {at}"), Some(flipped)));
    }
    for _ in 0..3 {
        let at = random.below(end as u64) as usize;
        all.push((format!("cut at {at}"), Some(bytes[..at].to_vec())));
        let mut zeroed = bytes.to_vec();
        let until = bytes.len().min(at + 700);
        zeroed[at..until].fill(0);
        all.push((format!("zeroed at {at}"), Some(zeroed)));
    }
    all
}

#[test]
fn whatever_is_damaged_everything_else_is_read() {
    let filled = filled(42);
    let mut random = Random(99);
    let (mut cases, mut lossy, mut whole) = (0, 0, 0);
    for path in files(filled.folder.path()) {
        let bytes = std::fs::read(&path).unwrap();
        let relative = path.strip_prefix(filled.folder.path()).unwrap();
        for (how, damaged) in damages(&bytes, &mut random) {
            let what = format!("{} {how}", relative.display());
            match damaged {
                None => std::fs::remove_file(&path).unwrap(),
                Some(damaged) => std::fs::write(&path, damaged).unwrap(),
            }
            let (read, findings) = salvage(filled.folder.path());
            // The last flush of the log cannot be told from a torn one, if it left no trace.
            if findings.is_empty() && what.contains(".log") && filled.recent.contains(&read) {
                std::fs::write(&path, &bytes).unwrap();
                continue;
            }
            let differ = compare(&filled, &read, &findings, &what);
            let inspected = Salvage::open(filled.folder.path()).unwrap().inspect(&mut |_, _| {});
            let is_lost = |finding: &Finding| matches!(finding.effect, Effect::Lost(_));
            assert_eq!(
                findings.iter().any(is_lost),
                inspected.iter().any(is_lost),
                "{what}: {findings:?} {inspected:?}"
            );
            cases += 1;
            lossy += usize::from(differ > 0);
            whole += usize::from(differ == 0 && !inspected.is_empty());
            std::fs::write(&path, &bytes).unwrap();
        }
    }
    let (read, findings) = salvage(filled.folder.path());
    assert_eq!((compare(&filled, &read, &findings, "restored"), findings.len()), (0, 0));
    assert!(lossy > cases / 10 && whole > cases / 10, "{lossy} and {whole} of {cases}");
}
