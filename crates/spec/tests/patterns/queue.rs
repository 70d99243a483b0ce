//! The full queue of pending updates under SIGKILL: every target is written exactly once for every
//! change of its source that it shows.

use crate::hot::{first, must, whole};
use crate::process::{Server, binary, check_folder};
use crate::random::Random;
use client::Client;
use spec::connection::Connection;
use std::time::{Duration, Instant};
use value::{DocBuf, Val, ejson};

const ORDERS: u64 = 6000;

/// The number of updates of orders so far, from the change log, which has the writes of patterns too.
fn updates(client: &mut Client) -> u64 {
    let text = "{aggregate: 'oplog.rs', pipeline: [{$match: {ns: 't.orders', op: 'u'}}, {$count: 'n'}], cursor: {}, $db: 'local'}";
    let reply = Connection::run(client, ejson::parse_doc(text).expect("test text").as_doc());
    let found = first(&reply.expect("the log can be read"));
    found.as_doc().get("n").and_then(Val::as_i64_exact).unwrap_or(0) as u64
}

fn pending(client: &mut Client) -> u64 {
    whole(&first(&must(client, "{listPatterns: 'orders'}")), "pending")
}

#[test]
fn a_full_queue_shows_every_change_once_whatever_is_killed() {
    let seed = crate::number("PATTERNS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let mut random = Random::new(seed ^ 0x0EE0);
    let folder = tempfile::Builder::new().prefix("motif-queue").tempdir().expect("a folder");
    let binary = binary();
    let mut server = Server::start(&binary, folder.path());
    let mut client = server.connect();
    must(&mut client, "{insert: 'customers', documents: [{_id: 1, name: 0}, {_id: 2, name: 0}]}");
    must(
        &mut client,
        "{createPatterns: 'orders', patterns: [{name: 'customer', kind: 'extendedReference', ref: 'c', from: 'customers', into: 'customer', fields: ['name'], fanoutLimit: 10}]}",
    );
    must(
        &mut client,
        "{createPatterns: 'customers', patterns: [{name: 'count', kind: 'computed', from: 'orders', on: {foreign: 'c'}, fields: {n: {$count: {}}, s: {$sum: '$x'}}, mode: {async: {maxLagMS: 20}}}]}",
    );
    for from in (0..ORDERS).step_by(1000) {
        let list: Vec<String> = (from..from + 1000)
            .map(|n| format!("{{_id: {n}, c: {}, x: {n}}}", n % 2 + 1))
            .collect();
        must(&mut client, &format!("{{insert: 'orders', documents: [{}]}}", list.join(",")));
    }
    let mut kills = 0;
    for round in 1..=4_u64 {
        let before = updates(&mut client);
        must(
            &mut client,
            &format!(
                "{{update: 'customers', updates: [{{q: {{}}, u: {{$set: {{name: {round}}}}}, multi: true}}]}}"
            ),
        );
        let mut partly = Vec::new();
        let begin = Instant::now();
        while pending(&mut client) > 0 {
            assert!(begin.elapsed() < Duration::from_secs(120), "the queue does not end");
            if partly.len() < 3 {
                std::thread::sleep(Duration::from_millis(random.below(25)));
                partly.push(updates(&mut client) - before);
                server.kill();
                kills += 1;
                server = Server::start(&binary, folder.path());
                client = server.connect();
            } else {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        assert_eq!(
            updates(&mut client) - before,
            ORDERS,
            "PATTERNS_SEED={seed}, round {round}: each follower is written once; kills at {partly:?}"
        );
        let old =
            format!("{{find: 'orders', filter: {{'customer.name': {{$ne: {round}}}}}, limit: 1}}");
        assert_eq!(first(&must(&mut client, &old)), DocBuf::default());
        for customer in 1..=2 {
            let fresh = format!(
                "{{find: 'customers', filter: {{_id: {customer}}}, readConcern: {{patterns: 'fresh'}}}}"
            );
            let found = first(&must(&mut client, &fresh));
            let sum: u64 = (0..ORDERS).filter(|n| n % 2 + 1 == customer).sum();
            assert_eq!((whole(&found, "n"), whole(&found, "s")), (ORDERS / 2, sum));
        }
        eprintln!("round {round}: kills when {partly:?} of {ORDERS} were written");
    }
    assert!(kills > 3, "only {kills} kills");
    server.stop();
    check_folder(&binary, folder.path());
}
