//! Attempts to get at what somebody may not read or change, by ways around the rules: fields that are
//! there twice, pipelines in pipelines, views, patterns, sessions and cursors of others.
//!
//! The user `mallory` may do almost everything with the collections `public` and `own` of the database
//! `shop`, and nothing with `secrets`. Whatever is tried, no reply shows what is in there.

#![allow(clippy::unwrap_used, reason = "in a test a failure is to be seen at once")]

use motifdb::{Client, ClientCertificate, Engine, Options, Peer, Request, Sequence};
use std::sync::atomic::{AtomicI64, Ordering};
use value::{DocBuf, RawDoc, Val, ejson};

/// What stands in the collection that nobody here may read, and nowhere else.
const TREASURE: &str = "hunter2";

static CONNECTIONS: AtomicI64 = AtomicI64::new(1000);

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A client that has to log in.
fn stranger(engine: &Engine) -> Client {
    engine.connect(Peer {
        remote: "127.0.0.1:9".to_owned(),
        connection_id: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
        authenticate: true,
        is_local: true,
        ..Peer::default()
    })
}

/// A client that has logged in by a certificate, which needs no iterations.
fn user(engine: &Engine, name: &str) -> Client {
    let mut client = stranger(engine);
    client.certified(ClientCertificate { subject: format!("CN={name}"), is_member: false });
    run(&mut client, "$external", "{authenticate: 1, mechanism: 'MONGODB-X509'}");
    client
}

/// Sends a command as it is, with sequences of documents beside it.
fn send(client: &mut Client, db: &str, body: RawDoc<'_>, sequences: &[Sequence<'_>]) -> DocBuf {
    let body = DocBuf::build(|out| {
        body.iter().for_each(|(name, value)| _ = out.raw(name, value));
        out.str("$db", db);
    });
    let mut reply = Vec::new();
    client.run(&Request { sequences, ..Request::new(body.as_doc()) }, &mut reply);
    DocBuf::from(RawDoc::new(&reply))
}

fn ask(client: &mut Client, db: &str, text: &str) -> DocBuf {
    send(client, db, doc(text).as_doc(), &[])
}

fn code(reply: &DocBuf) -> i64 {
    reply.as_doc().get("code").and_then(Val::as_i64_exact).unwrap_or(0)
}

/// Has a command run that must work.
fn run(client: &mut Client, db: &str, text: &str) -> DocBuf {
    let reply = ask(client, db, text);
    assert_eq!(code(&reply), 0, "{text}: {}", show(&reply));
    reply
}

fn show(doc: &DocBuf) -> String {
    ejson::print(doc.as_doc(), ejson::Format::Relaxed)
}

/// Sends a command that must be refused, and must not tell what it may not.
fn refused(client: &mut Client, db: &str, text: &str) {
    let reply = ask(client, db, text);
    assert!(!show(&reply).contains(TREASURE), "{text}: {}", show(&reply));
    assert_ne!(code(&reply), 0, "{text}: {}", show(&reply));
}

/// Sends a command that must be refused for want of a right.
fn forbidden(client: &mut Client, db: &str, text: &str) {
    let reply = ask(client, db, text);
    assert_eq!(code(&reply), 13, "{text}: {}", show(&reply));
}

/// A database with a secret, its owner, and somebody who is curious.
fn shop() -> (Engine, Client, Client) {
    let engine = Engine::open(Options::default()).unwrap();
    let mut root = engine.connect(Peer::default());
    run(
        &mut root,
        "shop",
        &format!("{{insert: 'secrets', documents: [{{_id: 1, p: '{TREASURE}', k: 1}}]}}"),
    );
    run(&mut root, "shop", "{insert: 'public', documents: [{_id: 1, k: 1}, {_id: 2, k: 2}]}");
    run(&mut root, "shop", "{create: 'window', viewOn: 'secrets', pipeline: [{$project: {k: 1}}]}");
    let every = "['find', 'insert', 'update', 'remove', 'createCollection', 'dropCollection', \
                 'collMod', 'createIndex', 'dropIndex', 'createPattern', 'dropPattern', \
                 'changeStream', 'renameCollectionSameDB', 'convertToCapped', 'collStats', \
                 'listIndexes', 'validate', 'bypassDocumentValidation']";
    let on = |name: &str| {
        format!("{{resource: {{db: 'shop', collection: '{name}'}}, actions: {every}}}")
    };
    run(
        &mut root,
        "admin",
        &format!(
            "{{createRole: 'curious', roles: [], privileges: [{}, {}, \
              {{resource: {{db: 'shop', collection: 'window'}}, actions: ['find']}}]}}",
            on("public"),
            on("own")
        ),
    );
    for (name, role) in [("mallory", "curious"), ("victim", "readWriteAnyDatabase")] {
        run(
            &mut root,
            "$external",
            &format!("{{createUser: 'CN={name}', roles: [{{role: '{role}', db: 'admin'}}]}}"),
        );
    }
    let mallory = user(&engine, "mallory");
    (engine, root, mallory)
}

#[test]
fn pipelines_do_not_reach_what_may_not_be_read() {
    let (_engine, _root, mut mallory) = shop();
    let mut allowed = |stages: &str| {
        run(
            &mut mallory,
            "shop",
            &format!("{{aggregate: 'public', pipeline: [{stages}], cursor: {{}}}}"),
        );
    };
    allowed("{$lookup: {from: 'public', localField: 'k', foreignField: 'k', as: 'x'}}");
    allowed("{$unionWith: {coll: 'public', pipeline: [{$match: {k: 1}}]}}");
    allowed("{$lookup: {from: 'window', localField: 'k', foreignField: 'k', as: 'x'}}");
    for stages in [
        // As it stands there, and at any depth.
        "{$lookup: {from: 'secrets', localField: 'k', foreignField: 'k', as: 'x'}}",
        "{$lookup: {from: 'secrets', pipeline: [], as: 'x'}}",
        "{$lookup: {from: 'public', pipeline: [{$lookup: {from: 'secrets', pipeline: [], as: 'x'}}], as: 'x'}}",
        "{$graphLookup: {from: 'secrets', startWith: '$k', connectFromField: 'k', connectToField: 'k', as: 'x'}}",
        "{$unionWith: 'secrets'}",
        "{$unionWith: {coll: 'secrets'}}",
        "{$unionWith: {coll: 'public', pipeline: [{$unionWith: 'secrets'}]}}",
        "{$facet: {a: [{$match: {}}], b: [{$unionWith: 'secrets'}]}}",
        "{$facet: {a: [{$lookup: {from: 'public', pipeline: [{$unionWith: 'secrets'}], as: 'x'}}]}}",
        // Twice: one is looked at, the other one used.
        "{$lookup: {from: 'public', from: 'secrets', localField: 'k', foreignField: 'k', as: 'x'}}",
        "{$lookup: {from: 'secrets', from: 'public', localField: 'k', foreignField: 'k', as: 'x'}}",
        "{$lookup: {from: 'public', pipeline: [], pipeline: [{$unionWith: 'secrets'}], as: 'x'}}",
        "{$graphLookup: {from: 'public', from: 'secrets', startWith: '$k', connectFromField: 'k', connectToField: 'k', as: 'x'}}",
        "{$unionWith: {coll: 'public', coll: 'secrets'}}",
        "{$unionWith: {coll: 'public', pipeline: [], pipeline: [{$unionWith: 'secrets'}]}}",
        "{$facet: {a: [{$unionWith: {coll: 'public', coll: 'secrets'}}]}}",
        "{$out: {db: 'shop', coll: 'own', coll: 'secrets'}}",
        "{$out: {db: 'shop', db: 'admin', coll: 'own'}}",
        "{$out: 'secrets'}",
        "{$merge: {into: 'own', into: 'secrets'}}",
        "{$merge: {into: {db: 'shop', coll: 'own', coll: 'secrets'}}}",
        "{$merge: {into: {db: 'shop', db: 'admin', coll: 'own'}}}",
        "{$merge: 'secrets'}",
    ] {
        let text = format!("{{aggregate: 'public', pipeline: [{stages}], cursor: {{}}}}");
        forbidden(&mut mallory, "shop", &text);
        refused(&mut mallory, "shop", &format!("{{explain: {text}}}"));
    }
    // The whole pipeline twice, or in a sequence beside the command.
    let twice =
        "aggregate: 'public', pipeline: [], pipeline: [{$unionWith: 'secrets'}], cursor: {}";
    refused(&mut mallory, "shop", &format!("{{{twice}}}"));
    refused(&mut mallory, "shop", &format!("{{explain: {{{twice}}}}}"));
    let stage = doc("{$unionWith: 'secrets'}");
    let sequence = Sequence { name: "pipeline", documents: stage.bytes() };
    let body = doc("{aggregate: 'public', cursor: {}}");
    let reply = send(&mut mallory, "shop", body.as_doc(), &[sequence]);
    assert_ne!(code(&reply), 0, "{}", show(&reply));
}

#[test]
fn depth_hides_nothing() {
    let (_engine, _root, mut mallory) = shop();
    for depth in [1, 5, 19, 20, 21, 40, 63, 64, 65, 80] {
        let mut stage = "{$unionWith: 'secrets'}".to_owned();
        for _ in 0..depth {
            stage = format!("{{$unionWith: {{coll: 'public', pipeline: [{stage}]}}}}");
        }
        let text = format!("{{aggregate: 'public', pipeline: [{stage}], cursor: {{}}}}");
        refused(&mut mallory, "shop", &text);
    }
}

#[test]
fn views_show_no_more_than_their_authors_may_read() {
    let (_engine, _root, mut mallory) = shop();
    for text in [
        "{create: 'own', viewOn: 'secrets', pipeline: []}",
        "{create: 'own', viewOn: 'public', pipeline: [{$unionWith: 'secrets'}]}",
        "{create: 'own', viewOn: 'public', pipeline: [{$unionWith: {coll: 'public', coll: 'secrets'}}]}",
    ] {
        forbidden(&mut mallory, "shop", text);
    }
    run(&mut mallory, "shop", "{create: 'own', viewOn: 'public', pipeline: []}");
    for text in [
        "{collMod: 'own', viewOn: 'secrets', pipeline: []}",
        "{collMod: 'own', viewOn: 'secrets'}",
        "{collMod: 'own', viewOn: 'public', pipeline: [{$unionWith: 'secrets'}]}",
        "{collMod: 'own', pipeline: [{$unionWith: 'secrets'}]}",
        "{collMod: 'own', pipeline: [{$lookup: {from: 'secrets', pipeline: [], as: 'x'}}]}",
    ] {
        forbidden(&mut mallory, "shop", text);
    }
    let reply = run(&mut mallory, "shop", "{find: 'own'}");
    assert!(!show(&reply).contains(TREASURE));
}

#[test]
fn patterns_copy_only_what_their_authors_may_read() {
    let (_engine, _root, mut mallory) = shop();
    for pattern in [
        "{kind: 'extendedReference', ref: 'k', from: 'secrets', fields: ['p'], into: 's'}",
        "{kind: 'extendedReference', ref: 'k', from: 'public', from: 'secrets', fields: ['p'], into: 's'}",
        "{kind: 'computed', from: 'secrets', on: {foreign: 'k'}, fields: {n: {$max: '$p'}}}",
        "{kind: 'computed', into: 'secrets', groupBy: '$k', fields: {n: {$count: {}}}}",
        "{kind: 'subset', from: 'secrets', on: {foreign: 'k'}, fields: ['p'], into: 's', limit: 3}",
    ] {
        refused(
            &mut mallory,
            "shop",
            &format!("{{createPatterns: 'public', patterns: [{pattern}]}}"),
        );
        refused(&mut mallory, "shop", &format!("{{create: 'own', patterns: [{pattern}]}}"));
    }
    let reply = run(&mut mallory, "shop", "{find: 'public'}");
    assert!(!show(&reply).contains(TREASURE));
}

#[test]
fn collections_of_the_system_and_odd_names_are_closed() {
    let (_engine, mut root, mut mallory) = shop();
    // Somebody who may write everything in `admin` still may not touch users and roles.
    run(
        &mut root,
        "$external",
        "{createUser: 'CN=clerk', roles: [{role: 'readWrite', db: 'admin'}, {role: 'dbAdmin', db: 'admin'}]}",
    );
    let engine = _engine;
    let mut clerk = user(&engine, "clerk");
    run(&mut clerk, "admin", "{insert: 'notes', documents: [{_id: 1}]}");
    for text in [
        "{find: 'system.users'}",
        "{count: 'system.users'}",
        "{distinct: 'system.users', key: 'user'}",
        "{aggregate: 'system.users', pipeline: [], cursor: {}}",
        "{aggregate: 'notes', pipeline: [{$unionWith: 'system.users'}], cursor: {}}",
        "{aggregate: 'notes', pipeline: [{$lookup: {from: 'system.roles', pipeline: [], as: 'x'}}], cursor: {}}",
        "{aggregate: 'notes', pipeline: [{$out: 'system.users'}], cursor: {}}",
        "{aggregate: 'notes', pipeline: [{$merge: 'system.users'}], cursor: {}}",
        "{insert: 'system.users', documents: [{_id: 'admin.x'}]}",
        "{update: 'system.users', updates: [{q: {}, u: {$set: {roles: [{role: 'root', db: 'admin'}]}}, multi: true}]}",
        "{delete: 'system.users', deletes: [{q: {}, limit: 0}]}",
        "{findAndModify: 'system.users', query: {}, update: {$set: {roles: []}}}",
        "{bulkWrite: 1, ops: [{delete: 0, filter: {}, multi: true}], nsInfo: [{ns: 'admin.system.users'}]}",
        "{bulkWrite: 1, ops: [{delete: 1, filter: {}, multi: true}], nsInfo: [{ns: 'admin.notes'}, {ns: 'admin.system.users'}]}",
        "{create: 'view', viewOn: 'system.users', pipeline: []}",
        "{cloneCollectionAsCapped: 'system.users', toCollection: 'copy', size: 100000}",
        "{renameCollection: 'admin.system.users', to: 'admin.copy'}",
        "{renameCollection: 'admin.notes', to: 'admin.system.users', dropTarget: true}",
        "{createPatterns: 'notes', patterns: [{kind: 'extendedReference', ref: 'u', from: 'system.users', fields: ['credentials'], into: 's'}]}",
        "{listSessions: 1}",
        "{dataSize: 'admin.system.users'}",
    ] {
        refused(&mut clerk, "admin", text);
    }
    for db in ["local", "config", "shop"] {
        for text in
            ["{find: 'oplog.rs'}", "{find: 'secrets'}", "{dbStats: 1}", "{listCollections: 1}"]
        {
            refused(&mut clerk, db, text);
        }
    }
    // Anything but a name in the first field.
    for first in [
        "1",
        "UUID('00000000000000000000000000000000')",
        "{a: 1}",
        "null",
        "['public']",
        "''",
        "'.secrets'",
        "'$cmd'",
        "true",
    ] {
        for rest in [
            "find: F",
            "count: F",
            "distinct: F, key: 'p'",
            "drop: F",
            "listIndexes: F",
            "collStats: F",
            "validate: F",
        ] {
            refused(&mut mallory, "shop", &format!("{{{}}}", rest.replace('F', first)));
        }
    }
    let names = ["secrets\0", "secrets ", "SECRETS", "./secrets", "secrets.", "public\0secrets"];
    for name in names {
        let find = DocBuf::build(|out| {
            out.str("find", name);
        });
        let reply = send(&mut mallory, "shop", find.as_doc(), &[]);
        assert!(!show(&reply).contains(TREASURE));
    }
    for db in ["", "shop.", "SHOP", "shop\0", "$external", "shop.secrets", "a/b", "."] {
        refused(&mut mallory, db, "{find: 'secrets'}");
    }
}

#[test]
fn nobody_gives_themselves_rights() {
    let (engine, mut root, mut mallory) = shop();
    run(&mut root, "shop", "{createUser: 'plain', pwd: 'x', roles: []}");
    for text in [
        "{updateUser: 'CN=mallory', roles: ['root']}",
        "{updateUser: 'CN=mallory', roles: [], roles: ['root']}",
        "{updateUser: 'CN=victim', authenticationRestrictions: [{clientSource: ['10.0.0.1']}]}",
        "{updateUser: 'CN=mallory', authenticationRestrictions: []}",
        "{updateUser: 'CN=victim', customData: {a: 1}}",
        "{grantRolesToUser: 'CN=mallory', roles: [{role: 'root', db: 'admin'}]}",
        "{createUser: 'CN=other', roles: []}",
        "{dropUser: 'CN=victim'}",
        "{dropAllUsersFromDatabase: 1}",
        "{usersInfo: 'CN=victim', showCredentials: true}",
        "{usersInfo: {forAllDBs: true}}",
    ] {
        refused(&mut mallory, "$external", text);
    }
    for text in [
        "{createRole: 'r', roles: ['root'], privileges: []}",
        "{createRole: 'r', roles: [], privileges: [{resource: {anyResource: true}, actions: ['anyAction']}]}",
        "{grantRolesToRole: 'curious', roles: ['root']}",
        "{grantPrivilegesToRole: 'curious', privileges: [{resource: {db: 'shop', collection: 'secrets'}, actions: ['find']}]}",
        "{updateRole: 'curious', privileges: [{resource: {db: 'shop', collection: 'secrets'}, actions: ['find']}]}",
        "{updateRole: 'curious', authenticationRestrictions: []}",
        "{setParameter: 1, logLevel: 0}",
        "{rotateCertificates: 1}",
        "{shutdown: 1}",
        "{fsync: 1, lock: true}",
        "{killAllSessions: []}",
        "{killAllSessionsByPattern: []}",
        "{currentOp: 1}",
        "{currentOp: 1, $ownOps: false}",
        "{aggregate: 1, pipeline: [{$currentOp: {allUsers: true}}], cursor: {}}",
        "{aggregate: 1, pipeline: [{$currentOp: {allUsers: false, allUsers: true}}], cursor: {}}",
        "{aggregate: 1, pipeline: [{$listLocalSessions: {allUsers: true}}], cursor: {}}",
        "{aggregate: 1, pipeline: [{$listLocalSessions: {users: [{user: 'CN=victim', db: '$external'}]}}], cursor: {}}",
        "{aggregate: 1, pipeline: [{$changeStream: {allChangesForCluster: true}}], cursor: {}}",
        "{aggregate: 1, pipeline: [{$changeStream: {allChangesForCluster: false, allChangesForCluster: true}}], cursor: {}}",
    ] {
        refused(&mut mallory, "admin", text);
    }
    for text in [
        "{aggregate: 1, pipeline: [{$changeStream: {}}], cursor: {}}",
        "{aggregate: 'secrets', pipeline: [{$changeStream: {}}], cursor: {}}",
        "{renameCollection: 'shop.secrets', to: 'shop.own'}",
        "{cloneCollectionAsCapped: 'secrets', toCollection: 'own', size: 100000}",
        "{drop: 'secrets'}",
        "{dropDatabase: 1}",
        "{modifyPattern: 'secrets', name: 'x', set: {}}",
        "{validatePatterns: 'secrets', repair: true}",
    ] {
        refused(&mut mallory, "shop", text);
    }
    // All that stands as before.
    let mut victim = user(&engine, "victim");
    assert!(show(&run(&mut victim, "shop", "{find: 'secrets'}")).contains(TREASURE));
}

#[test]
fn without_a_login_there_is_the_handshake_and_nothing_else() {
    let (engine, _root, _mallory) = shop();
    let mut nobody = stranger(&engine);
    let commands = run(&mut nobody, "admin", "{listCommands: 1}");
    let commands = commands.as_doc().get("commands").and_then(Val::as_doc).unwrap();
    let open = [
        "authenticate",
        "buildInfo",
        "connectionStatus",
        "getnonce",
        "hello",
        "isMaster",
        "listCommands",
        "logout",
        "ping",
        "saslContinue",
        "saslStart",
        "whatsmysni",
        "whatsmyuri",
    ];
    let mut tried = 0;
    for (name, _) in commands {
        if open.contains(&name) {
            continue;
        }
        for db in ["admin", "shop"] {
            let command = DocBuf::build(|out| {
                out.str(name, "secrets");
            });
            let reply = send(&mut nobody, db, command.as_doc(), &[]);
            let code = code(&reply);
            assert!(code != 0, "{name} worked without a login: {}", show(&reply));
            tried += 1;
        }
        for body in [
            "find: 'secrets'",
            "createUser: 'x', pwd: 'y', roles: ['root']",
            "getMore: {$numberLong: '1'}, collection: 'secrets'",
        ] {
            forbidden(&mut nobody, "admin", &format!("{{{body}}}"));
        }
    }
    assert!(tried > 100, "{tried}");
    // A session of nobody takes no place in the registry.
    let before = engine.connect(Peer::default());
    drop(before);
    let count = |engine: &Engine| {
        let mut root = engine.connect(Peer::default());
        let status = run(&mut root, "admin", "{serverStatus: 1}");
        let records =
            status.as_doc().get("logicalSessionRecordCache").and_then(Val::as_doc).unwrap();
        records.get("activeSessionsCount").and_then(Val::as_i64_exact).unwrap()
    };
    let before = count(&engine);
    for number in 0..50 {
        run(&mut nobody, "admin", &format!("{{ping: 1, lsid: {{id: UUID('{number:032x}')}}}}"));
    }
    assert_eq!(count(&engine), before);
}

#[test]
fn sessions_and_cursors_belong_to_their_users() {
    let (engine, _root, mut mallory) = shop();
    let mut victim = user(&engine, "victim");
    let id = "{id: UUID('aaaaaaaaaaaa4aaaaaaaaaaaaaaaaaaa')}";
    let place = format!("lsid: {id}, txnNumber: {{$numberLong: '1'}}, autocommit: false");
    run(
        &mut victim,
        "shop",
        &format!(
            "{{insert: 'public', documents: [{{_id: 10, unseen: 1}}], startTransaction: true, {place}}}"
        ),
    );
    // Nobody else sees it, ends it, or learns of it.
    forbidden(&mut mallory, "shop", &format!("{{find: 'public', {place}}}"));
    forbidden(&mut mallory, "admin", &format!("{{commitTransaction: 1, {place}}}"));
    forbidden(&mut mallory, "admin", &format!("{{abortTransaction: 1, {place}}}"));
    forbidden(&mut mallory, "shop", &format!("{{find: 'public', lsid: {id}}}"));
    let listed = run(
        &mut mallory,
        "admin",
        "{aggregate: 1, pipeline: [{$listLocalSessions: {}}], cursor: {}}",
    );
    assert!(!show(&listed).contains("qqqqqqqqSqqqqqqqqqqqqg"), "{}", show(&listed));
    for text in [
        format!("{{killSessions: [{id}]}}"),
        "{killSessions: []}".to_owned(),
        format!("{{endSessions: [{id}]}}"),
    ] {
        run(&mut mallory, "admin", &text);
    }
    run(&mut victim, "shop", &format!("{{find: 'public', {place}}}"));
    run(&mut victim, "admin", &format!("{{commitTransaction: 1, {place}}}"));
    let found = run(&mut victim, "shop", "{find: 'public', filter: {_id: 10}}");
    assert!(show(&found).contains("unseen"));
    let own = run(
        &mut victim,
        "admin",
        "{aggregate: 1, pipeline: [{$listLocalSessions: {}}], cursor: {}}",
    );
    assert!(show(&own).contains("qqqqqqqqSqqqqqqqqqqqqg"), "{}", show(&own));

    let reply = run(&mut victim, "shop", "{find: 'public', batchSize: 1}");
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).unwrap();
    let cursor = cursor.get("id").and_then(Val::as_i64_exact).unwrap();
    refused(
        &mut mallory,
        "shop",
        &format!("{{getMore: {{$numberLong: '{cursor}'}}, collection: 'public'}}"),
    );
    refused(
        &mut mallory,
        "shop",
        &format!("{{killCursors: 'public', cursors: [{{$numberLong: '{cursor}'}}]}}"),
    );
    run(
        &mut victim,
        "shop",
        &format!("{{getMore: {{$numberLong: '{cursor}'}}, collection: 'public'}}"),
    );

    // Own sessions can be ended, also those of other connections of the user.
    let mut again = user(&engine, "victim");
    run(
        &mut victim,
        "shop",
        &format!(
            "{{insert: 'public', documents: [{{_id: 11}}], startTransaction: true, {}}}",
            place.replace("'1'", "'2'")
        ),
    );
    run(&mut again, "admin", "{killSessions: []}");
    let gone = ask(
        &mut victim,
        "admin",
        &format!("{{commitTransaction: 1, {}}}", place.replace("'1'", "'2'")),
    );
    assert_eq!(code(&gone), 251, "{}", show(&gone));
    // Who was somebody else a moment ago does not keep that one's session.
    run(&mut victim, "$external", "{logout: 1}");
    victim.certified(ClientCertificate { subject: "CN=mallory".to_owned(), is_member: false });
    run(&mut victim, "$external", "{authenticate: 1, mechanism: 'MONGODB-X509'}");
    forbidden(&mut victim, "shop", &format!("{{find: 'public', lsid: {id}}}"));
}
