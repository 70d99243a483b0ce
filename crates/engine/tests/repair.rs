//! `motif repair` and `motif check` on folders that are damaged in every way, one at a time: what
//! differs afterwards is reported, everything else is there, and the new folder is sound.
#![allow(missing_docs, clippy::unwrap_used)]

use faults::{FaultPlan, FaultStore};
use motifdb::{Damage, Engine, Options, Repaired, Severity, Storage, check_folder, repair};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use value::{DocBuf, RawDoc, Val, ejson};

/// Documents by collection and `_id`.
type Content = BTreeMap<String, BTreeMap<i64, Vec<u8>>>;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

fn open(folder: &Path) -> Engine {
    let storage = Storage::Disk(folder.to_path_buf());
    Engine::open(Options { storage, ..Options::default() }).unwrap()
}

fn run(engine: &Engine, db: &str, text: &str) -> DocBuf {
    let command = ejson::parse_doc(text).unwrap();
    engine.run_command(db, command.as_doc()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

const PLAIN: &[&str] = &["orders", "customers", "stock"];

/// One random write. A document has a version and a number that follows from it, so that one that
/// was never written is recognised.
fn write(engine: &Engine, random: &mut Random) {
    let name = PLAIN[random.below(3) as usize];
    let (id, version) = (random.below(400) as i64, random.below(1 << 30) as i64);
    let filler: String =
        (0..random.below(300)).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
    let text = if random.below(8) == 0 {
        format!("{{delete: '{name}', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}")
    } else {
        format!(
            "{{update: '{name}', updates: [{{q: {{_id: {id}}}, u: {{$set: {{v: {version}, sum: \
             {}, a: {}, c: {}, f: '{filler}'}}}}, upsert: true}}]}}",
            id + version,
            version % 50,
            id % 20,
        )
    };
    run(engine, "shop", &text);
}

/// A folder with tables of several flushes and a log that is still needed, as after a kill.
fn filled(seed: u64) -> (tempfile::TempDir, Content) {
    let folder = tempfile::tempdir().unwrap();
    let random = &mut Random(seed | 1);
    let data = folder.path().join("data");
    let plan = FaultPlan::none();
    let open = || {
        let options = store::Options { segment_bytes: 64 << 10, ..store::Options::default() };
        let store = FaultStore::open(&data, options, plan.clone()).unwrap();
        Engine::with_store(Options::default(), Box::new(store)).unwrap()
    };
    let mut engine = open();
    run(
        &engine,
        "shop",
        "{createIndexes: 'orders', indexes: [{key: {a: 1, v: -1}, name: 'a_v'}, {key: {f: 'text'}, name: 'words'}]}",
    );
    run(
        &engine,
        "shop",
        "{createIndexes: 'stock', indexes: [{key: {sum: 1}, name: 'sums', partialFilterExpression: {sum: {$gt: 10}}}]}",
    );
    run(&engine, "shop", "{create: 'events', capped: true, size: 1000000, max: 5000}");
    run(&engine, "shop", "{create: 'seen', viewOn: 'orders', pipeline: [{$match: {a: 1}}]}");
    run(
        &engine,
        "shop",
        "{createPatterns: 'customers', patterns: [{name: 's', kind: 'computed', from: 'orders', on: {foreign: 'c'}, fields: {total: {$sum: '$v'}}}]}",
    );
    run(&engine, "shop", "{insert: 'gone', documents: [{_id: 1}, {_id: 2}]}");
    run(&engine, "admin", "{createUser: 'ada', pwd: 'secret', roles: ['root']}");
    for round in 0..3 {
        for number in 0..120 {
            write(&engine, random);
            if number % 10 == 0 {
                let id = round * 1000 + number;
                run(&engine, "shop", &format!("{{insert: 'events', documents: [{{_id: {id}}}]}}"));
            }
        }
        if round == 1 {
            run(&engine, "shop", "{drop: 'gone'}");
        }
        if round < 2 {
            engine.close().unwrap();
            drop(engine);
            engine = open();
        }
    }
    run(&engine, "shop", "{insert: 'young', documents: [{_id: 1}]}");
    run(&engine, "admin", "{fsync: 1}");
    let content = content(&engine);
    // The power goes: nothing of the log is written to tables.
    plan.lose_power();
    let _ = engine.close();
    (folder, content)
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

/// Everything in all collections of all databases but `local` and `config`.
fn content(engine: &Engine) -> Content {
    let mut content = Content::new();
    let databases = run(engine, "admin", "{listDatabases: 1, nameOnly: true}");
    for db in strings(databases.as_doc().get("databases"), "name") {
        if ["local", "config"].contains(&&*db) {
            continue;
        }
        let listed = run(
            engine,
            &db,
            "{listCollections: 1, filter: {type: 'collection'}, cursor: {batchSize: 1000}}",
        );
        let cursor = listed.as_doc().get("cursor").and_then(Val::as_doc).unwrap();
        for name in strings(cursor.get("firstBatch"), "name") {
            let found = run(
                engine,
                &db,
                &format!("{{find: '{name}', batchSize: 100000, singleBatch: true}}"),
            );
            let cursor = found.as_doc().get("cursor").and_then(Val::as_doc).unwrap();
            let batch = cursor.get("firstBatch").and_then(Val::as_array).unwrap();
            let documents = content.entry(format!("{db}.{name}")).or_default();
            for (at, (_, doc)) in batch.iter().enumerate() {
                let doc = doc.as_doc().unwrap();
                let id = doc.get("_id").and_then(Val::as_i64_exact).unwrap_or(at as i64);
                documents.insert(id, doc.bytes().to_vec());
            }
        }
    }
    content
}

fn strings(list: Option<Val<'_>>, field: &str) -> Vec<String> {
    let list = list.and_then(Val::as_array).unwrap();
    let text = |doc: RawDoc<'_>| doc.get(field).and_then(Val::as_str).map(str::to_owned);
    list.iter().filter_map(|(_, item)| text(item.as_doc()?)).collect()
}

/// Whether the report says that a collection may differ.
fn is_reported(damage: &[Damage], namespace: &str) -> bool {
    damage.iter().filter(|damage| damage.severity != Severity::Harmless).any(|damage| {
        damage
            .affected
            .iter()
            .any(|affected| affected.namespace == namespace || affected.namespace.is_empty())
    })
}

/// Opens a repaired folder, checks that it is sound, and compares it. Returns how many documents
/// differ.
fn compare(repaired: &Repaired, wanted: &Content, what: &str) -> usize {
    let checked = check_folder(&repaired.folder, &mut |_, _, _| {}).unwrap();
    assert!(checked.damage.is_empty(), "{what}: {:?}", checked.damage);
    assert!(checked.doubts.is_empty(), "{what}: {:?}", checked.doubts);
    assert!(checked.findings.is_empty(), "{what}: {:?}", checked.findings);
    assert_eq!(checked.not_compared, None, "{what}");
    let engine = open(&repaired.folder);
    assert_eq!(engine.check(&mut |_, _, _| {}).unwrap(), Vec::<String>::new(), "{what}");
    let found = content(&engine);
    if found.contains_key("shop.customers") && found.contains_key("shop.orders") {
        let patterns = run(&engine, "shop", "{validatePatterns: 'customers'}");
        let shown = format!("{patterns:?}");
        assert!(
            !shown.contains("drift") || shown.contains("\"drift\": Int32(0)"),
            "{what}: {shown}"
        );
    }
    engine.close().unwrap();
    let namespaces: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
    let mut differ = 0;
    for namespace in namespaces {
        let empty = BTreeMap::new();
        let (left, right) =
            (wanted.get(namespace).unwrap_or(&empty), found.get(namespace).unwrap_or(&empty));
        if left == right && wanted.contains_key(namespace) == found.contains_key(namespace) {
            continue;
        }
        // What patterns maintain follows from other collections.
        let sources: &[&str] = if namespace == "shop.customers" {
            &["shop.customers", "shop.orders"]
        } else {
            &[namespace]
        };
        let reported = sources.iter().any(|source| is_reported(&repaired.damage, source));
        assert!(reported, "{what}: {namespace} differs: {repaired:#?}");
        let ids: BTreeSet<&i64> = left.keys().chain(right.keys()).collect();
        differ += ids.iter().filter(|id| left.get(*id) != right.get(*id)).count();
        for doc in right.values() {
            let doc = RawDoc::new(doc);
            let number = |name| doc.get(name).and_then(Val::as_i64_exact);
            if let (Some(id), Some(version), Some(sum)) =
                (number("_id"), number("v"), number("sum"))
            {
                assert_eq!(sum, id + version, "{what}: {namespace} {id} was never written");
            }
        }
    }
    differ
}

#[test]
fn an_undamaged_folder_becomes_an_equal_one() {
    let (folder, wanted) = filled(5);
    let (data, new) = (folder.path().join("data"), folder.path().join("new"));
    let before: Vec<_> = files(&data).iter().map(|file| std::fs::read(file).unwrap()).collect();
    let repaired = repair(&data, &new, &mut |_, _, _| {}).unwrap();
    let after: Vec<_> = files(&data).iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(before == after, "the damaged folder is not written to");
    assert!(repaired.damage.is_empty() && repaired.notes.is_empty(), "{repaired:#?}");
    assert!(!repaired.is_lost);
    assert_eq!(compare(&repaired, &wanted, "undamaged"), 0);
    let (old, new) = (open(&data), open(&new));
    for db in ["shop", "admin"] {
        let hash = |engine: &Engine| {
            let reply = run(engine, db, "{dbHash: 1}");
            (
                reply.as_doc().get("md5").and_then(Val::as_str).unwrap().to_owned(),
                format!("{:?}", reply.as_doc().get("uuids")),
            )
        };
        assert_eq!(hash(&old), hash(&new));
    }
    let indexes = |engine: &Engine| {
        let reply = run(engine, "shop", "{listIndexes: 'orders'}");
        format!("{:?}", reply.as_doc().get("cursor"))
    };
    assert_eq!(indexes(&old), indexes(&new));
    let found = run(&new, "shop", "{find: 'orders', filter: {a: 3}, hint: 'a_v'}");
    let cursor = found.as_doc().get("cursor").and_then(Val::as_doc).unwrap();
    assert!(
        cursor
            .get("firstBatch")
            .and_then(Val::as_array)
            .is_some_and(|batch| batch.iter().count() > 0)
    );
    run(&new, "shop", "{insert: 'orders', documents: [{_id: 9999, c: 1, v: 1}]}");
    run(&new, "shop", "{insert: 'fresh', documents: [{_id: 1}]}");
    let users = run(&new, "admin", "{usersInfo: 'ada'}");
    assert!(format!("{users:?}").contains("root"), "{users:?}");
}

/// A random damage of a file and its description; `None` removes it.
fn damage(bytes: &[u8], how: u64, random: &mut Random) -> (String, Option<Vec<u8>>) {
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
    let at = random.below(end as u64) as usize;
    let mut damaged = bytes.to_vec();
    match how {
        0 => ("removed".to_owned(), None),
        1 => {
            if let Some(byte) = damaged.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
            (format!("flipped at {at}"), Some(damaged))
        }
        2 => (format!("cut at {at}"), Some(bytes[..at].to_vec())),
        _ => {
            let until = bytes.len().min(at + 3000);
            damaged[at..until].fill(0);
            (format!("zeroed at {at}"), Some(damaged))
        }
    }
}

/// Whether a file holds nothing that is needed.
fn is_idle(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    if name.starts_with("spare-") || ["LOCK", "RESERVE"].contains(&&*name) {
        return true;
    }
    let Some(number) = name.strip_prefix('v').and_then(|rest| rest.parse::<u64>().ok()) else {
        return false;
    };
    let current = std::fs::read(path.with_file_name("current")).unwrap();
    number != u64::from_le_bytes(current[..8].try_into().unwrap())
}

#[test]
fn every_single_damage_is_repaired_and_reported() {
    let (folder, wanted) = filled(11);
    let data = folder.path().join("data");
    let mut random = Random(7);
    let (mut cases, mut lossy, mut whole) = (0_u64, 0, 0);
    for path in files(&data) {
        // Opening a folder removes tables that its lists do not have, which a power loss leaves.
        if is_idle(&path) || !path.exists() {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let relative = path.strip_prefix(&data).unwrap();
        for how in [0, 1, 2 + cases % 2] {
            let (how, damaged) = damage(&bytes, how, &mut random);
            let what = format!("{} {how}", relative.display());
            let same = damaged.as_ref() == Some(&bytes);
            match damaged {
                None => std::fs::remove_file(&path).unwrap(),
                Some(damaged) => std::fs::write(&path, damaged).unwrap(),
            }
            let checked = check_folder(&data, &mut |_, _, _| {}).unwrap();
            let new = folder.path().join("new");
            let repaired = repair(&data, &new, &mut |_, _, _| {})
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            let is_noticed = !checked.damage.is_empty() || !checked.doubts.is_empty() || same;
            // The end of the last log segment cannot be told from a torn one, and a missing list of
            // dropped ranges from an empty one. The note of released segments has unused bytes.
            let is_quiet = what.contains(".log")
                || what.starts_with("DROPPED removed")
                || what.starts_with("log/RELEASED");
            assert!(is_noticed || is_quiet, "{what}: check finds nothing");
            if is_noticed {
                let differ = compare(&repaired, &wanted, &what);
                lossy += u64::from(differ > 0);
                whole += u64::from(differ == 0);
                assert!(differ == 0 || repaired.is_lost, "{what}");
            }
            cases += 1;
            std::fs::remove_dir_all(&new).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
    }
    // How much a damage hits depends on when memory was flushed.
    assert!(lossy > 0 && whole > cases / 5, "{lossy} and {whole} of {cases}");
}

#[test]
fn several_damages_at_once_are_repaired_and_reported() {
    let (folder, wanted) = filled(31);
    let data = folder.path().join("data");
    let mut random = Random(123);
    let original: Vec<(PathBuf, Vec<u8>)> = files(&data)
        .into_iter()
        .filter(|path| !is_idle(path))
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    for _ in 0..15 {
        let mut what = String::new();
        for _ in 0..2 + random.below(3) {
            let (path, bytes) = &original[random.below(original.len() as u64) as usize];
            let how = random.below(4);
            let (how, damaged) = damage(bytes, how, &mut random);
            what += &format!("{} {how}; ", path.strip_prefix(&data).unwrap().display());
            match damaged {
                None => drop(std::fs::remove_file(path)),
                Some(damaged) => std::fs::write(path, damaged).unwrap(),
            }
        }
        let new = folder.path().join("new");
        let repaired = repair(&data, &new, &mut |_, _, _| {})
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        // The end of the last log segment cannot be told from a torn one.
        if repaired.is_lost {
            compare(&repaired, &wanted, &what);
        } else if !what.contains(".log") {
            assert_eq!(compare(&repaired, &wanted, &what), 0, "{what}");
        }
        std::fs::remove_dir_all(&new).unwrap();
        for (path, bytes) in &original {
            std::fs::write(path, bytes).unwrap();
        }
    }
}

#[test]
fn without_the_catalog_names_come_from_the_change_log() {
    let (folder, wanted) = filled(21);
    let (data, new) = (folder.path().join("data"), folder.path().join("new"));
    std::fs::remove_dir_all(data.join("catalog")).unwrap();
    let repaired = repair(&data, &new, &mut |_, _, _| {}).unwrap();
    assert!(repaired.is_lost);
    let engine = open(&new);
    let found = content(&engine);
    assert_eq!(found.get("shop.orders"), wanted.get("shop.orders"), "{repaired:#?}");
    assert_eq!(
        found.get("shop.events").map(BTreeMap::len),
        wanted.get("shop.events").map(BTreeMap::len)
    );
    assert_eq!(engine.check(&mut |_, _, _| {}).unwrap(), Vec::<String>::new());
    engine.close().unwrap();
    drop(engine);

    // Without the change log there are no names.
    std::fs::remove_dir_all(&new).unwrap();
    std::fs::remove_dir_all(data.join("log")).unwrap();
    let repaired = repair(&data, &new, &mut |_, _, _| {}).unwrap();
    let names: Vec<&str> = repaired.collections.iter().map(|c| &*c.namespace).collect();
    assert!(names.iter().any(|name| name.starts_with("recovered.c")), "{names:?}");
    let engine = open(&new);
    assert_eq!(engine.check(&mut |_, _, _| {}).unwrap(), Vec::<String>::new());
    engine.close().unwrap();
}

#[test]
fn a_unique_index_that_cannot_be_built_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (data, new) = (folder.path().join("data"), folder.path().join("new"));
    let engine = open(&data);
    run(&engine, "t", "{createIndexes: 'c', indexes: [{key: {u: 1}, name: 'u', unique: true}]}");
    run(&engine, "t", "{insert: 'c', documents: [{_id: 1, u: 1}, {_id: 2, u: 2}]}");
    engine.close().unwrap();
    drop(engine);
    let engine = open(&data);
    // The second table of the documents has the new value of the first document.
    run(&engine, "t", "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {u: 3}}}]}");
    engine.close().unwrap();
    drop(engine);
    let engine = open(&data);
    run(&engine, "t", "{insert: 'c', documents: [{_id: 4, u: 1}]}");
    engine.close().unwrap();
    drop(engine);
    let mut tables = files(&data.join("documents/tables"));
    tables.sort_by_key(|path| path.file_name().unwrap().to_string_lossy().parse::<u64>().unwrap());
    assert_eq!(tables.len(), 3, "{tables:?}");
    std::fs::remove_file(&tables[1]).unwrap();
    let repaired = repair(&data, &new, &mut |_, _, _| {}).unwrap();
    assert!(repaired.is_lost);
    assert!(repaired.notes.iter().any(|note| note.contains("index 'u'")), "{repaired:#?}");
    let engine = open(&new);
    assert_eq!(content(&engine)["t.c"].len(), 3);
    assert_eq!(engine.check(&mut |_, _, _| {}).unwrap(), Vec::<String>::new());
}

#[test]
fn what_is_in_the_way_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (data, new) = (folder.path().join("data"), folder.path().join("new"));
    let engine = open(&data);
    let error = repair(&data, &new, &mut |_, _, _| {}).unwrap_err();
    assert!(error.message().contains("in use"), "{error}");
    assert!(!new.exists());
    engine.close().unwrap();
    drop(engine);
    std::fs::create_dir(&new).unwrap();
    std::fs::write(new.join("x"), "x").unwrap();
    let error = repair(&data, &new, &mut |_, _, _| {}).unwrap_err();
    assert!(error.message().contains("not empty"), "{error}");
    let error = repair(&data, &data.join("new"), &mut |_, _, _| {}).unwrap_err();
    assert!(error.message().contains("inside"), "{error}");
    let error = repair(folder.path(), &folder.path().join("y"), &mut |_, _, _| {}).unwrap_err();
    assert!(error.message().contains("inside"), "{error}");
    let error = repair(&new, &folder.path().join("y"), &mut |_, _, _| {}).unwrap_err();
    assert!(error.message().contains("not a data folder"), "{error}");
}
