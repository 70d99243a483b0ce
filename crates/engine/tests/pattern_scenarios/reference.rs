//! The scenarios of extendedReference.

use crate::harness::{Dice, Server, same, text, whole, within};
use crate::repeats;
use motifdb::value::Val;
use std::sync::atomic::{AtomicBool, Ordering};

const CUSTOMERS: &str = "{insert: 'customers', documents: [
    {_id: 1, name: 'Ann', email: 'a@x', loyalty: {tier: 'gold'}}, {_id: 2, name: 'Bob', email: 'b@x'}]}";

fn declare(options: &str) -> String {
    format!(
        "{{createPatterns: 'orders', patterns: [{{name: 'customer', kind: 'extendedReference',
          ref: 'customer._id', from: 'customers', match: '_id',
          fields: ['name', 'email', {{as: 'tier', expr: '$loyalty.tier'}}], into: 'customer'{options}}}]}}"
    )
}

/// A server with the two customers and an order of the first.
fn shop(options: &str) -> Server {
    let server = Server::new();
    server.run(CUSTOMERS);
    server.run(&declare(options));
    server.run("{insert: 'orders', documents: [{_id: 10, customer: {_id: 1}, total: 5}]}");
    server
}

fn rename(server: &Server, name: &str) -> motifdb::value::DocBuf {
    server.run(&format!(
        "{{update: 'customers', updates: [{{q: {{_id: 1}}, u: {{$set: {{name: '{name}'}}}}}}]}}"
    ))
}

#[test]
fn reference_1_an_order_carries_copies() {
    let server = shop("");
    same(
        &server.one("orders", "10"),
        "{_id: 10, customer: {_id: 1, name: 'Ann', email: 'a@x', tier: 'gold'}, total: 5}",
    );
}

#[test]
fn reference_2_a_rename_shows_everywhere_at_once() {
    let server = shop("");
    server.run("{insert: 'orders', documents: [{_id: 11, customer: {_id: 1}}, {_id: 12, customer: {_id: 1}}]}");
    let reply = rename(&server, "Anna");
    assert_eq!((whole(&reply, "n"), whole(&reply, "nModified")), (1, 1));
    // While it is renamed again and again, readers of one moment, and of one past moment, see one name.
    let stop = AtomicBool::new(false);
    let times = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (server, stop, times) = (&server, &stop, &times);
        scope.spawn(move || {
            for n in 0..1000 {
                let reply = rename(server, ["Ann", "Anna"][n % 2]);
                let Some(Val::Timestamp(time)) = reply.as_doc().get("operationTime") else {
                    panic!("no time")
                };
                times.lock().expect("nobody panicked").push(time);
            }
            stop.store(true, Ordering::Relaxed);
        });
        for reader in 0..2_u8 {
            scope.spawn(move || {
                let mut number = 0;
                let mut dice = Dice(u64::from(reader));
                while !stop.load(Ordering::Relaxed) || number < 100 {
                    number += 1;
                    let known = {
                        let times = times.lock().expect("nobody panicked");
                        let at = dice.below(times.len().max(1) as u64) as usize;
                        times.get(at).copied()
                    };
                    let past = known.filter(|_| number % 2 == 0);
                    let concern = |first: bool| match past {
                        Some(time) => format!(
                            ", readConcern: {{level: 'snapshot', atClusterTime: Timestamp({}, {})}}",
                            time >> 32,
                            time & 0xFFFF_FFFF
                        ),
                        None => within(20 + reader, number, first),
                    };
                    let name = server.docs(&format!("{{find: 'customers', filter: {{_id: 1}}{}}}", concern(true)));
                    let name = text(&name[0], "name").to_owned();
                    let orders = server.docs(&format!("{{find: 'orders'{}}}", concern(false)));
                    assert_eq!(orders.len(), 3);
                    assert!(orders.iter().all(|o| text(o, "customer.name") == name), "{name}: {orders:?}");
                    if past.is_none() {
                        server.end("abortTransaction", 20 + reader, number);
                    }
                }
            });
        }
    });
}

#[test]
fn reference_3_what_is_not_copied_writes_no_orders() {
    let server = shop("");
    let before = server.writes("orders");
    server.run("{update: 'customers', updates: [{q: {_id: 1}, u: {$set: {last_login: 1, 'loyalty.points': 3}}}]}");
    assert_eq!(server.writes("orders"), before);
    rename(&server, "Anna");
    assert_eq!(server.writes("orders"), before + 1);
}

#[test]
fn reference_4_another_customer_brings_its_own_fields_alone() {
    let server = shop("");
    server.run("{update: 'orders', updates: [{q: {_id: 10}, u: {$set: {'customer._id': 2}}}]}");
    same(
        &server.one("orders", "10"),
        "{_id: 10, customer: {_id: 2, name: 'Bob', email: 'b@x'}, total: 5}",
    );
}

#[test]
fn reference_5_a_new_order_and_a_rename_never_part() {
    let server = shop("");
    let mut dice = Dice(5);
    let mut conflicts = 0;
    for round in 0..repeats(10_000) as i64 {
        let (order, name) = (11 + round % 7, format!("n{round}"));
        server.run(&format!("{{delete: 'orders', deletes: [{{q: {{_id: {order}}}, limit: 1}}]}}"));
        let insert = |number: i64| {
            let place = within(1, number, true);
            server.run(&format!(
                "{{insert: 'orders', documents: [{{_id: {order}, customer: {{_id: 1}}}}]{place}}}"
            ));
        };
        // The rename is a transaction too, or a statement; one comes before, between or behind.
        let own = dice.below(2) == 0;
        let place = if own { within(2, round + 1, true) } else { String::new() };
        let rename = format!(
            "{{update: 'customers', updates: [{{q: {{_id: 1}}, u: {{$set: {{name: '{name}'}}}}}}]{place}}}"
        );
        let number = 2 * round + 1;
        let rename_first = dice.below(2) == 0;
        if rename_first {
            server.run(&rename);
            insert(number);
        } else {
            insert(number);
            server.run(&rename);
        }
        let commit_renamed = || {
            if own {
                assert_eq!(server.end("commitTransaction", 2, round + 1), 0);
            }
        };
        let behind = dice.below(2) == 0;
        if !behind {
            commit_renamed();
        }
        let code = server.end("commitTransaction", 1, number);
        if behind {
            commit_renamed();
        }
        if code != 0 {
            assert_eq!(code, 112, "only a conflict may be in the way");
            conflicts += 1;
            insert(number + 1);
            assert_eq!(server.end("commitTransaction", 1, number + 1), 0);
        }
        assert_eq!(
            text(&server.get("orders", &order.to_string()), "customer.name"),
            name,
            "round {round}"
        );
    }
    eprintln!("{conflicts} conflicts");
    server.verify("orders");
}

#[test]
fn reference_6_copies_are_not_the_clients() {
    let server = shop("");
    let read = server.one("orders", "10");
    let hack = "{update: 'orders', updates: [{q: {_id: 10}, u: {$set: {'customer.name': 'Hack', total: 6}}}]}";
    assert_eq!(server.code(hack), 96001);
    assert_eq!(server.one("orders", "10"), read, "nothing of the statement has an effect");
    rename(&server, "Anna");
    server.run(&format!("{{update: 'orders', updates: [{{q: {{_id: 10}}, u: {read}}}]}}"));
    same(
        &server.one("orders", "10"),
        "{_id: 10, customer: {_id: 1, name: 'Anna', email: 'a@x', tier: 'gold'}, total: 5}",
    );
}

#[test]
fn reference_7_a_snapshot_stays_as_it_was() {
    let server = shop(", freshness: 'snapshot'");
    rename(&server, "Anna");
    assert_eq!(text(&server.get("orders", "10"), "customer.name"), "Ann");
    let reply =
        server.run("{update: 'orders', updates: [{q: {_id: 10}, u: {$set: {'customer._id': 1}}}]}");
    assert_eq!((whole(&reply, "n"), whole(&reply, "nModified")), (1, 0));
    assert_eq!(text(&server.get("orders", "10"), "customer.name"), "Ann");
    server.verify("orders");
}

#[test]
fn reference_8_fifty_thousand_orders_follow_a_rename() {
    const ORDERS: i64 = 50_000;
    let server = shop(", fanoutLimit: 1000");
    server.run("{delete: 'orders', deletes: [{q: {}, limit: 0}]}");
    for from in (0..ORDERS).step_by(5000) {
        let list: Vec<String> =
            (from..from + 5000).map(|n| format!("{{_id: {n}, customer: {{_id: 1}}}}")).collect();
        server.run(&format!("{{insert: 'orders', documents: [{}]}}", list.join(",")));
    }
    // The rename writes none of them in its own commit; how long it takes is measured by the benchmark.
    rename(&server, "Zoe");
    let mut seen = vec![whole(&server.pattern("orders"), "pending")];
    assert!(seen[0] > ORDERS / 2, "pending is {}", seen[0]);
    // Who asks for what is fresh never gets the old name, whatever is still to do.
    for id in [0, 777, ORDERS - 1] {
        let fresh = server.docs(&format!(
            "{{find: 'orders', filter: {{_id: {id}}}, readConcern: {{patterns: 'fresh'}}}}"
        ));
        assert_eq!(text(&fresh[0], "customer.name"), "Zoe");
    }
    let old = "{find: 'orders', filter: {'customer.name': {$ne: 'Zoe'}}, limit: 1, readConcern: {patterns: 'fresh'}}";
    assert!(server.docs(old).is_empty());
    // The next one is left to the queue alone.
    rename(&server, "Eve");
    let begin = std::time::Instant::now();
    while seen.last() != Some(&0) {
        assert!(begin.elapsed().as_secs() < 120, "the queue does not end: {seen:?}");
        seen.push(whole(&server.pattern("orders"), "pending"));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(seen[1..].windows(2).all(|pair| pair[1] <= pair[0]), "it only falls: {seen:?}");
    assert!(seen.iter().any(|n| *n > 0 && *n < ORDERS), "it falls step by step: {seen:?}");
    server.verify("orders");
}
