//! Races that patterns must not lose, many times over: `PATTERN_RACES=20000` repeats them more often.

use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use motifdb::{Engine, Options};

struct Server(Engine);

impl Server {
    fn new() -> Server {
        Server(Engine::open(Options::default()).expect("memory opens"))
    }

    /// Runs a command; refusals of patterns and conflicts are fine where `may_fail`.
    fn run(&self, text: &str, may_fail: bool) -> DocBuf {
        let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let reply =
            self.0.run_command("t", command.as_doc()).unwrap_or_else(|e| panic!("{text}: {e}"));
        let failed = reply.as_doc().get("writeErrors").is_some();
        assert!(may_fail || !failed, "{text}: {reply:?}");
        reply
    }

    fn docs(&self, text: &str) -> Vec<DocBuf> {
        let reply = self.run(text, false);
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
        batch.iter().filter_map(|(_, doc)| doc.as_doc()).map(DocBuf::from).collect()
    }

    fn verify(&self, collection: &str) {
        let reply = self.run(&format!("{{validatePatterns: '{collection}'}}"), false);
        let list = reply.as_doc().get("patterns").and_then(Val::as_array).expect("reports");
        for report in list.iter().filter_map(|(_, report)| report.as_doc()) {
            assert_eq!(report.get("drift"), Some(Val::Int32(0)), "{report:?}");
        }
    }
}

fn repeats() -> usize {
    std::env::var("PATTERN_RACES").ok().and_then(|text| text.parse().ok()).unwrap_or(1500)
}

fn whole(doc: RawDoc<'_>, name: &str) -> i64 {
    doc.get(name).and_then(Val::as_i64_exact).unwrap_or(-1)
}

#[test]
fn a_new_reference_and_a_rename() {
    let server = Server::new();
    server.run("{insert: 'customers', documents: [{_id: 1, name: 0}]}", false);
    server.run("{createPatterns: 'orders', patterns: [{name: 'c', kind: 'extendedReference', ref: 'c', from: 'customers', into: 'customer', fields: ['name']}]}", false);
    std::thread::scope(|scope| {
        let server = &server;
        for client in 0..2 {
            scope.spawn(move || {
                for n in 0..repeats() {
                    // Few documents, so that renames stay cheap: each comes and goes.
                    let id = client * 50 + n % 50;
                    server.run(&format!("{{update: 'orders', updates: [{{q: {{_id: {id}}}, u: {{c: 1, n: {n}}}, upsert: true}}]}}"), false);
                    server.run(&format!("{{delete: 'orders', deletes: [{{q: {{_id: {}}}, limit: 1}}]}}", client * 50 + (n + 25) % 50), false);
                }
            });
        }
        scope.spawn(move || {
            for n in 1..=repeats() {
                server.run(&format!("{{update: 'customers', updates: [{{q: {{_id: 1}}, u: {{$set: {{name: {n}}}}}}}]}}"), false);
                // At every moment all copies are the same and right.
                let moment = server.docs("{aggregate: 'customers', cursor: {}, pipeline: [{$lookup: {from: 'orders', as: 'o', pipeline: [{$group: {_id: '$customer.name'}}]}}]}");
                let customer = moment.first().expect("the customer").as_doc();
                let names = customer.get("o").and_then(Val::as_array).expect("names");
                for (_, name) in names {
                    assert_eq!(whole(name.as_doc().expect("a group"), "_id"), whole(customer, "name"));
                }
            }
        });
    });
    server.verify("orders");
}

#[test]
fn two_moves_in_a_tree() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', maintain: {ancestors: 'up', depth: 'd'}}]}", false);
    server.run("{insert: 'n', documents: [{_id: 0}, {_id: 1, parent: 0}, {_id: 2, parent: 0}, {_id: 3, parent: 1}, {_id: 4, parent: 2}]}", false);
    std::thread::scope(|scope| {
        let server = &server;
        for client in 0..2 {
            scope.spawn(move || {
                for n in 0..repeats() {
                    // One hangs 1 below 4, the other 2 below 3: both together would be a cycle.
                    let (node, below) = if client == 0 { (1, 4) } else { (2, 3) };
                    let parent = if n % 2 == 0 { below } else { 0 };
                    server.run(&format!("{{update: 'n', updates: [{{q: {{_id: {node}}}, u: {{$set: {{parent: {parent}}}}}}}]}}"), true);
                }
            });
        }
    });
    server.verify("n");
}

#[test]
fn a_refill_and_an_insert() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}]}", false);
    server.run("{createPatterns: 'p', patterns: [{name: 't', kind: 'subset', into: 'top', from: 'c', on: {foreign: 'p'}, sort: {x: -1}, limit: 2, fields: ['x'], count: 'n'}]}", false);
    std::thread::scope(|scope| {
        let server = &server;
        for client in 0..3_usize {
            scope.spawn(move || {
                for n in 0..repeats() {
                    let id = client * 10 + n % 10;
                    let x = n.wrapping_mul(7919) % 100;
                    server.run(&format!("{{update: 'c', updates: [{{q: {{_id: {id}}}, u: {{p: 1, x: {x}}}, upsert: true}}]}}"), false);
                    server.run(&format!("{{delete: 'c', deletes: [{{q: {{_id: {}}}, limit: 1}}]}}", client * 10 + (n + 4) % 10), false);
                }
            });
        }
    });
    server.verify("p");
    let rest = server.docs("{find: 'c', sort: {x: -1, _id: 1}}");
    let parent = server.docs("{find: 'p'}").pop().expect("the parent");
    assert_eq!(whole(parent.as_doc(), "n"), rest.len() as i64);
    let top = parent.as_doc().get("top").and_then(Val::as_array).expect("a list");
    for ((_, shown), child) in top.iter().zip(&rest) {
        assert_eq!(whole(shown.as_doc().expect("a row"), "_id"), whole(child.as_doc(), "_id"));
    }
}

#[test]
fn sixty_four_clients_and_one_parent() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1, edits: 0}]}", false);
    server.run("{createPatterns: 'p', patterns: [{name: 'n', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {n: {$count: {}}, s: {$sum: '$x'}}}]}", false);
    let each = repeats() / 64 + 1;
    std::thread::scope(|scope| {
        let server = &server;
        for client in 0..64 {
            scope.spawn(move || {
                for n in 0..each {
                    server.run(
                        &format!(
                            "{{insert: 'c', documents: [{{_id: {}, p: 1, x: 0.1}}]}}",
                            client * each + n
                        ),
                        false,
                    );
                }
            });
        }
        scope.spawn(move || {
            for _ in 0..each * 4 {
                server.run("{update: 'p', updates: [{q: {_id: 1}, u: {$inc: {edits: 1}}}]}", false);
            }
        });
    });
    let parent = server.docs("{find: 'p'}").pop().expect("the parent");
    assert_eq!(whole(parent.as_doc(), "n"), 64 * each as i64);
    assert_eq!(whole(parent.as_doc(), "edits"), 4 * each as i64);
    server.verify("p");
}
