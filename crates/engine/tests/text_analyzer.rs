//! A text index that was built with another stemmer is built again when the engine opens.

mod harness;

use harness::Server;
use motifdb::value::{DocBuf, RawDoc, Val};
use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant};
use store::{Batch, Direction, DiskStore, Options, Space, Store, StoreError};

/// Changes the catalog's entry of every text index, and removes all entries of indexes: what a
/// search finds afterwards was built anew.
fn pretend(path: &Path, analyzer: Option<&str>) {
    // Threads of an engine that was closed may hold the folder for a moment.
    let store = loop {
        match DiskStore::open(path, Options::default()) {
            Ok(store) => break store,
            Err(StoreError::Locked { .. }) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    };
    let snapshot = store.snapshot();
    let all = (Bound::Included(&[0_u8][..]), Bound::Excluded(&[255_u8][..]));
    let mut batch = Batch::new();
    let mut range =
        snapshot.range(Space::Catalog, all.0, all.1, Direction::Forward).expect("a range");
    let mut changed = 0;
    while let Some((key, value)) = range.next().expect("reads") {
        // Records of collections begin with 1.
        if key.first() != Some(&1) {
            continue;
        }
        let record = DocBuf::build(|out| {
            for (name, value) in RawDoc::new(value) {
                let Some(indexes) = value.as_array().filter(|_| name == "indexes") else {
                    out.raw(name, value);
                    continue;
                };
                out.array(name, |out| {
                    for (_, index) in indexes {
                        let index = index.as_doc().expect("a document");
                        out.push_doc(|out| {
                            for (name, value) in index {
                                match (name, analyzer) {
                                    ("analyzer", None) => changed += 1,
                                    ("analyzer", Some(analyzer)) => {
                                        changed += 1;
                                        out.str(name, analyzer);
                                    }
                                    _ => {
                                        out.raw(name, value);
                                    }
                                }
                            }
                        });
                    }
                });
            }
        });
        batch.put(Space::Catalog, key, record.bytes());
    }
    drop(range);
    assert_eq!(changed, 1, "one text index says what it was built with");
    let mut range =
        snapshot.range(Space::Indexes, all.0, all.1, Direction::Forward).expect("a range");
    while let Some((key, _)) = range.next().expect("reads") {
        batch.delete(Space::Indexes, key);
    }
    drop(range);
    let seqno = store.write(&batch).expect("writes");
    store.sync(seqno).expect("flushes");
    store.close().expect("closes");
}

/// Waits until no index of the collection is being built.
fn wait_for_indexes(server: &Server) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = server.docs("{listIndexes: 'c', includeIndexBuildInfo: true}");
        if !found.iter().any(|index| index.as_doc().get("indexBuildInfo").is_some()) {
            return;
        }
        assert!(Instant::now() < deadline, "the index is built within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_index_of_another_analyzer_is_rebuilt() {
    for analyzer in [None, Some("frostem 1.20210101, stop-words 0.9.0, words 1")] {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::on(folder.path());
        server
            .run("{insert: 'c', documents: [{_id: 1, t: 'running foxes'}, {_id: 2, t: 'a dog'}]}");
        server.run("{createIndexes: 'c', indexes: [{key: {t: 'text'}, name: 'words'}]}");
        let search = |server: &Server| server.find("c", "{$text: {$search: 'fox runs'}}");
        let before = search(&server);
        assert_eq!(before.len(), 1);
        server.close();

        pretend(folder.path(), analyzer);
        let server = Server::on(folder.path());
        wait_for_indexes(&server);
        assert_eq!(search(&server), before);
        let reply = server.run("{validate: 'c'}");
        assert_eq!(reply.as_doc().get("valid"), Some(Val::Bool(true)), "{reply:?}");
        // It keeps what is written now, and the next start finds nothing to do.
        server.run("{insert: 'c', documents: [{_id: 3, t: 'a fox'}]}");
        assert_eq!(search(&server).len(), 2);
        server.close();
        let server = Server::on(folder.path());
        let indexes = server.docs("{listIndexes: 'c', includeIndexBuildInfo: true}");
        assert!(indexes.iter().all(|index| index.as_doc().get("indexBuildInfo").is_none()));
        assert_eq!(search(&server).len(), 2);
    }
}
