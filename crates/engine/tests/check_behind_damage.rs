//! `motif check` goes on behind a damaged block: documents and index entries there are compared as
//! in any other folder.

mod harness;

use harness::Server;
use motifdb::check_folder;
use std::ops::Bound;
use std::path::Path;
use store::{Batch, Direction, DiskStore, Options, Space, Store};

const DOCUMENTS: u64 = 3000;

/// A folder with one collection of many blocks and an index.
fn filled(folder: &Path) {
    let server = Server::on(folder);
    let mut number = 12345_u64;
    for from in (0..DOCUMENTS).step_by(500) {
        let docs: Vec<String> = (from..from + 500)
            .map(|id| {
                let filler: String = (0..30)
                    .map(|_| {
                        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        format!("{:x}", number >> 33)
                    })
                    .collect();
                format!("{{_id: {id}, n: {id}, f: '{filler}'}}")
            })
            .collect();
        server.run(&format!("{{insert: 'c', documents: [{}]}}", docs.join(", ")));
    }
    server.run("{createIndexes: 'c', indexes: [{key: {n: 1}, name: 'n_1'}]}");
    server.close();
}

/// The last keys of a space.
fn last_keys(store: &DiskStore, space: Space) -> Vec<Vec<u8>> {
    let snapshot = store.snapshot();
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut range = snapshot.range(space, all.0, all.1, Direction::Reverse).expect("reads");
    let next = || range.next().expect("reads").map(|(key, _)| key.to_vec());
    std::iter::from_fn(next).take(10).collect()
}

fn findings(folder: &Path) -> Vec<String> {
    let checked = check_folder(folder, &mut |_, _, _| {}).expect("can be checked");
    assert_eq!(checked.not_compared, None);
    checked.findings
}

#[test]
fn documents_and_entries_behind_a_damaged_block_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    filled(folder.path());
    assert_eq!(findings(folder.path()), Vec::<String>::new());
    // Near the end an entry and a document are missing.
    let store = DiskStore::open(folder.path(), Options::default()).expect("opens");
    let mut batch = Batch::new();
    batch.delete(Space::Indexes, &last_keys(&store, Space::Indexes)[0]);
    batch.delete(Space::Documents, &last_keys(&store, Space::Documents)[5]);
    store.write(&batch).expect("writes");
    store.close().expect("closes");
    drop(store);
    let missing = format!("an entry of the document with _id {} is missing", DOCUMENTS - 1);
    let unowned = "points to no document";
    let found = |list: &[String], text: &str| list.iter().filter(|one| one.contains(text)).count();
    let before = findings(folder.path());
    assert_eq!((found(&before, &missing), found(&before, unowned)), (1, 1), "{before:#?}");
    assert_eq!(found(&before, "counts 3000 documents, but has 2999"), 1, "{before:#?}");
    // The first block of the documents is damaged: the same is found behind it, except counts.
    faults::damage_table(folder.path(), Space::Documents);
    let after = findings(folder.path());
    assert_eq!(found(&after, "t.c: cannot be read up to the key "), 1, "{after:#?}");
    assert_eq!((found(&after, &missing), found(&after, unowned)), (1, 1), "{after:#?}");
    assert_eq!(after.len(), 3, "{after:#?}");
    // And of the index.
    faults::damage_table(folder.path(), Space::Indexes);
    let both = findings(folder.path());
    assert_eq!(found(&both, "index 'n_1': cannot be read up to the key "), 1, "{both:#?}");
    assert_eq!((found(&both, &missing), found(&both, unowned)), (1, 1), "{both:#?}");
    assert_eq!(both.len(), 4, "{both:#?}");
}
