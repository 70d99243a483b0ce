//! What clients of both versions see and write, before, during and after the migration.

use super::harness::{Server, batch, same, whole};
use super::{connect, counts, declare, examined, migrate, run, seen, stored, user};
use motifdb::value::{RawDoc, Val};

/// Two users of version 1 under a declaration that migrates nothing by itself.
fn start() -> Server {
    let server = Server::new();
    server.run(&format!(
        "{{insert: 'users', documents: [{}, {}]}}",
        user(1, "456 Oak Ave", "Portland"),
        user(2, "1 Pine St", "Salem")
    ));
    declare(&server, ", migrate: 'onWrite'");
    server
}

const ONE_NEW: &str = "{_id: 1, schema_version: 2, full_name: 'User 1', address: {street: '456 Oak Ave', city: 'Portland', state: 'OR', zip: '97201'}}";
const ONE_OLD: &str =
    "{_id: 1, schema_version: 1, full_name: 'User 1', address: '456 Oak Ave, Portland, OR 97201'}";

#[test]
fn documents_of_the_version_before_are_read_in_the_latest() {
    let server = start();
    same(&server.one("users", "1"), ONE_NEW);
    same(&stored(&server, 1), ONE_OLD);
    let mut old = connect(&server, "old");
    same(&seen(&mut old, 1), ONE_OLD);
    let pinned = server.docs("{find: 'users', filter: {_id: 1}, $schemaVersion: 1}");
    same(&super::print(pinned[0].as_doc()), ONE_OLD);
    assert_eq!(counts(&server), r#"{"1":2,"2":0} 0"#);
    for version in ["0", "3"] {
        assert_eq!(server.code(&format!("{{find: 'users', $schemaVersion: {version}}}")), 2);
    }
    migrate(&server);
    assert_eq!(counts(&server), r#"{"1":0,"2":2} 0"#);
    same(&stored(&server, 1), ONE_NEW);
    same(&server.one("users", "1"), ONE_NEW);
    same(&seen(&mut old, 1), ONE_OLD);
    server.verify("users");
}

#[test]
fn filters_sorts_and_indexes_mean_the_client_s_version() {
    let server = start();
    let mut old = connect(&server, "old");
    for step in 0..3 {
        match step {
            1 => drop(server.run(
                "{createIndexes: 'users', indexes: [{key: {'address.city': 1}, name: 'city'}, {key: {address: 1}, name: 'whole'}]}",
            )),
            2 => migrate(&server),
            _ => {}
        }
        assert_eq!(server.find("users", "{'address.city': 'Portland'}").len(), 1, "{step}");
        assert_eq!(server.find("users", "{address: /Portland/}").len(), 0, "{step}");
        let found = run(&mut old, "{find: 'users', filter: {address: /Portland/}}");
        assert_eq!(batch(&found).len(), 1, "{step}");
        let found = run(&mut old, "{find: 'users', sort: {address: 1}, projection: {_id: 1}}");
        let id = |doc: RawDoc<'_>| doc.get("_id").and_then(Val::as_i64_exact);
        let ids: Vec<Option<i64>> = batch(&found).into_iter().map(id).collect();
        assert_eq!(ids, [Some(2), Some(1)]);
        let count = run(&mut old, "{count: 'users', query: {'address.city': 'Portland'}}");
        assert_eq!(whole(&count, "n"), 0);
        server.verify("users");
    }
    assert_eq!(examined(&server, "{'address.city': 'Portland'}"), 1);
}

#[test]
fn indexes_that_were_there_before_are_built_again() {
    let server = Server::new();
    let users: Vec<String> = (0..300).map(|n| user(n, "1 Oak Ave", &format!("City{n}"))).collect();
    server.run(&format!("{{insert: 'users', documents: [{}]}}", users.join(",")));
    server.run("{createIndexes: 'users', indexes: [{key: {'address.city': 1}, name: 'city'}, {key: {address: 1}, name: 'address'}, {key: {full_name: 1}, name: 'name', unique: true}]}");
    declare(&server, ", migrate: 'onWrite'");
    assert_eq!(server.find("users", "{'address.city': 'City7'}").len(), 1);
    assert_eq!(examined(&server, "{'address.city': 'City7'}"), 1);
    assert_eq!(server.find("users", "{address: '1 Oak Ave, City7, OR 97201'}").len(), 0);
    server.verify("users");
    // The way back does the same.
    server
        .run("{update: 'users', updates: [{q: {_id: 7}, u: {$set: {'address.city': 'Tacoma'}}}]}");
    server.run("{dropPatterns: 'users', names: ['users_v2']}");
    assert_eq!(server.find("users", "{address: '1 Oak Ave, Tacoma, OR 97201'}").len(), 1);
    assert_eq!(examined(&server, "{address: '1 Oak Ave, Tacoma, OR 97201'}"), 1);
    assert_eq!(server.find("users", "{'address.city': {$exists: true}}").len(), 0);
    assert_eq!(server.0.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
}

#[test]
fn both_versions_write_the_same_documents() {
    let server = start();
    let (mut old, mut new) = (connect(&server, "old"), connect(&server, "new"));
    run(
        &mut old,
        "{insert: 'users', documents: [{_id: 3, address: '9 Elm St, Seattle, WA 98101'}]}",
    );
    same(
        &seen(&mut new, 3),
        "{_id: 3, address: {street: '9 Elm St', city: 'Seattle', state: 'WA', zip: '98101'}, schema_version: 2}",
    );
    run(
        &mut new,
        "{update: 'users', updates: [{q: {_id: 3}, u: {$set: {'address.city': 'Tacoma', nick: 'x'}}}]}",
    );
    same(
        &seen(&mut old, 3),
        "{_id: 3, address: '9 Elm St, Tacoma, WA 98101', schema_version: 1, nick: 'x'}",
    );
    run(
        &mut old,
        "{update: 'users', updates: [{q: {address: /Portland/}, u: {$set: {address: '2 Fir St, Bend, OR 97701'}}}]}",
    );
    same(
        &seen(&mut new, 1),
        "{_id: 1, schema_version: 2, full_name: 'User 1', address: {street: '2 Fir St', city: 'Bend', state: 'OR', zip: '97701'}}",
    );
    assert_eq!(counts(&server), r#"{"1":1,"2":2} 0"#);
    // The old client changes another field: what its form does not show is kept.
    run(&mut new, "{update: 'users', updates: [{q: {_id: 1}, u: {$set: {'address.floor': 4}}}]}");
    run(&mut old, "{update: 'users', updates: [{q: {_id: 1}, u: {$set: {full_name: 'Ada'}}}]}");
    same(
        &seen(&mut new, 1),
        "{_id: 1, schema_version: 2, full_name: 'Ada', address: {street: '2 Fir St', city: 'Bend', state: 'OR', zip: '97701', floor: 4}}",
    );
    // Nothing changes, so nothing is written.
    let again =
        run(&mut old, "{update: 'users', updates: [{q: {_id: 1}, u: {$set: {full_name: 'Ada'}}}]}");
    assert_eq!(whole(&again, "nModified"), 0);
    // The version is the database's.
    assert_eq!(
        server.code("{update: 'users', updates: [{q: {_id: 1}, u: {$set: {schema_version: 1}}}]}"),
        96001
    );
    server.run("{insert: 'users', documents: [{_id: 4, schema_version: 1, address: {street: 'a', city: 'b', state: 'OR', zip: '12345'}}]}");
    same(
        &server.one("users", "4"),
        "{_id: 4, schema_version: 2, address: {street: 'a', city: 'b', state: 'OR', zip: '12345'}}",
    );
    // What fails the validator is refused, whoever writes it.
    assert_eq!(server.code("{insert: 'users', documents: [{_id: 5, address: 'nowhere'}]}"), 121);
    assert_eq!(
        server.code(
            "{insert: 'users', documents: [{_id: 5, address: 'nowhere'}], $schemaVersion: 1}"
        ),
        121
    );
    run(&mut old, "{delete: 'users', deletes: [{q: {address: /Bend/}, limit: 0}]}");
    assert_eq!(server.find("users", "{_id: 1}").len(), 0);
    migrate(&server);
    assert_eq!(counts(&server), r#"{"1":0,"2":3} 0"#);
    server.verify("users");
}

#[test]
fn documents_that_cannot_be_converted_are_quarantined() {
    let server = Server::new();
    server.run(&format!(
        "{{insert: 'users', documents: [{}, {{_id: 3, schema_version: 1, address: 'unknown', n: 1}}, {{_id: 4, address: 7}}, {{_id: 5, schema_version: 9, address: 'x'}}]}}",
        user(1, "456 Oak Ave", "Portland")
    ));
    declare(&server, "");
    assert_eq!(counts(&server), r#"{"1":2,"2":1,"9":1} 3"#);
    let listed = server.pattern("users");
    let listed = super::print(listed.as_doc());
    assert!(listed.contains("after 'up' the document fails the validator"), "{listed}");
    same(&server.one("users", "3"), "{_id: 3, schema_version: 1, address: 'unknown', n: 1}");
    let mut old = connect(&server, "old");
    same(&seen(&mut old, 3), "{_id: 3, schema_version: 1, address: 'unknown', n: 1}");
    // It can be changed, and stays where it is until it passes.
    server.run("{update: 'users', updates: [{q: {_id: 3}, u: {$inc: {n: 1}}}]}");
    same(&stored(&server, 3), "{_id: 3, schema_version: 1, address: 'unknown', n: 2}");
    assert_eq!(counts(&server), r#"{"1":2,"2":1,"9":1} 3"#);
    run(
        &mut old,
        "{update: 'users', updates: [{q: {_id: 3}, u: {$set: {address: '1 Oak Ave, Bend, OR 97701'}}}]}",
    );
    same(
        &server.one("users", "3"),
        "{_id: 3, schema_version: 2, address: {street: '1 Oak Ave', city: 'Bend', state: 'OR', zip: '97701'}, n: 2}",
    );
    assert_eq!(counts(&server), r#"{"1":1,"2":2,"9":1} 2"#);
    server.run("{update: 'users', updates: [{q: {_id: 4}, u: {$set: {address: {street: 'a', city: 'b', state: 'OR', zip: '12345'}}}}]}");
    assert_eq!(counts(&server), r#"{"1":0,"2":3,"9":1} 1"#);
    server.run("{delete: 'users', deletes: [{q: {_id: 5}, limit: 1}]}");
    assert_eq!(counts(&server), r#"{"1":0,"2":3} 0"#);
    server.verify("users");
}

#[test]
fn dropping_brings_the_version_before_back() {
    for mode in ["onWrite", "none", "background"] {
        let server = Server::new();
        let odd =
            "{_id: 6, schema_version: 1, b: 1, address: '1 Oak Ave, Bend, OR 97701-1234', a: 1}";
        let without = "{_id: 7, address: '1 Oak Ave, Bend, OR 97701'}";
        server.run(&format!(
            "{{insert: 'users', documents: [{}, {}, {odd}, {without}]}}",
            user(1, "456 Oak Ave", "Portland"),
            user(2, "1 Pine St", "Salem")
        ));
        let before = server.find("users", "{}");
        let more = format!(", lossy: ['address'], migrate: '{mode}'");
        declare(&server, &more);
        server.run("{dropPatterns: 'users', names: ['users_v2']}");
        assert_eq!(server.find("users", "{}"), before, "{mode}");
        declare(&server, &more);
        server.run("{update: 'users', updates: [{q: {_id: 6}, u: {$set: {a: 2}}}, {q: {_id: 1}, u: {$set: {'address.city': 'Tacoma'}}}]}");
        server.run("{insert: 'users', documents: [{_id: 8, address: {street: 'a', city: 'b', state: 'OR', zip: '12345'}}]}");
        server.run("{dropPatterns: 'users', names: ['users_v2']}");
        // What no client changed is as it was, also inside of a document that was changed.
        same(&server.one("users", "6"), &odd.replace("a: 1}", "a: 2}"));
        same(&server.one("users", "7"), without);
        same(&server.one("users", "1"), &user(1, "456 Oak Ave", "Tacoma"));
        same(&server.one("users", "8"), "{_id: 8, address: 'a, b, OR 12345', schema_version: 1}");
        assert_eq!(server.0.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
    }
}

#[test]
fn dropping_with_keep_values_keeps_the_latest_version() {
    let server = start();
    let refused = "{dropPatterns: 'users', names: ['users_v2'], keepValues: true}";
    assert_eq!(server.code(refused), 2, "not everything is migrated");
    migrate(&server);
    server.run(refused);
    same(&server.one("users", "1"), ONE_NEW);
    server.run("{update: 'users', updates: [{q: {_id: 1}, u: {$set: {schema_version: 3}}}]}");
    assert_eq!(server.0.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
}

#[test]
fn a_migration_survives_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::on(folder.path());
    let users: Vec<String> = (0..2000).map(|n| user(n, "1 Oak Ave", &format!("City{n}"))).collect();
    server.run(&format!("{{insert: 'users', documents: [{}]}}", users.join(",")));
    server.run("{createIndexes: 'users', indexes: [{key: {'address.city': 1}, name: 'city'}]}");
    let declaration = super::USERS;
    server.run(&format!(
        "{{createPatterns: 'users', patterns: [{{{declaration}, backfill: {{batch: 10}}}}], wait: false}}"
    ));
    server.close();
    let server = Server::on(folder.path());
    same(
        &server.one("users", "7"),
        &ONE_NEW
            .replace("_id: 1,", "_id: 7,")
            .replace("User 1", "User 7")
            .replace("456 Oak Ave", "1 Oak Ave")
            .replace("Portland", "City7"),
    );
    // A request for it waits until it is ready.
    declare_again(&server);
    assert_eq!(counts(&server), r#"{"1":0,"2":2000} 0"#);
    assert_eq!(server.find("users", "{'address.city': 'City1999'}").len(), 1);
    server.verify("users");
}

fn declare_again(server: &Server) {
    for _ in 0..2000 {
        let pattern = server.pattern("users");
        if pattern.as_doc().get("state") == Some(Val::String("ready")) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("the migration does not end");
}
