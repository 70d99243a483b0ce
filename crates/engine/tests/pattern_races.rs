//! Races that patterns must not lose, ten thousand times over: `PATTERN_RACES=50000` repeats them more
//! often. While they run, readers look at single moments. (Interleaved transactions are raced in
//! `pattern_scenarios`.)

mod harness;

use harness::{Dice, Server, whole};
use motifdb::value::{DocBuf, Val};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn repeats() -> usize {
    std::env::var("PATTERN_RACES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// Runs clients side by side, and readers that look until all clients have ended. Returns how often
/// they looked.
fn race(
    server: &Server,
    clients: &[&(dyn Fn(&Server) + Sync)],
    look: &(dyn Fn(&Server) + Sync),
) -> usize {
    let (left, looks, failed) =
        (AtomicUsize::new(clients.len()), AtomicUsize::new(0), AtomicBool::new(false));
    /// Counts a client out, also when it panics.
    struct Out<'o>(&'o AtomicUsize, &'o AtomicBool);
    impl Drop for Out<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
            self.1.fetch_or(std::thread::panicking(), Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        for client in clients {
            let out = Out(&left, &failed);
            scope.spawn(move || {
                let _out = out;
                client(server);
            });
        }
        scope.spawn(|| {
            while left.load(Ordering::Relaxed) > 0 && !failed.load(Ordering::Relaxed) {
                look(server);
                looks.fetch_add(1, Ordering::Relaxed);
                // Writers have the machine.
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        });
    });
    looks.into_inner()
}

fn list<'d>(doc: &'d DocBuf, name: &str) -> Vec<Val<'d>> {
    let list = doc.as_doc().get(name).and_then(Val::as_array).expect("a list");
    list.iter().map(|(_, value)| value.get()).collect()
}

#[test]
fn a_new_reference_and_a_rename() {
    let server = Server::new();
    server.run("{insert: 'customers', documents: [{_id: 1, name: 0}]}");
    server.run("{createPatterns: 'orders', patterns: [{name: 'c', kind: 'extendedReference', ref: 'c', from: 'customers', into: 'customer', fields: ['name']}]}");
    let orders = |client: usize| {
        move |server: &Server| {
            for n in 0..repeats() {
                // Few documents, so that renames stay cheap: each comes and goes.
                let id = client * 10 + n % 10;
                server.run(&format!("{{update: 'orders', updates: [{{q: {{_id: {id}}}, u: {{c: 1, n: {n}}}, upsert: true}}]}}"));
                let gone = client * 10 + (n + 5) % 10;
                server.run(&format!(
                    "{{delete: 'orders', deletes: [{{q: {{_id: {gone}}}, limit: 1}}]}}"
                ));
            }
        }
    };
    let renames = |server: &Server| {
        for n in 1..=repeats() {
            server.run(&format!(
                "{{update: 'customers', updates: [{{q: {{_id: 1}}, u: {{$set: {{name: {n}}}}}}}]}}"
            ));
        }
    };
    let look = |server: &Server| {
        let moment = server.docs("{aggregate: 'customers', rewrite: false, cursor: {}, pipeline: [{$lookup: {from: 'orders', as: 'o', pipeline: [{$group: {_id: '$customer.name'}}]}}]}");
        for group in list(&moment[0], "o") {
            let name = group.as_doc().and_then(|group| group.get("_id"));
            assert_eq!(name, moment[0].as_doc().get("name"), "{moment:?}");
        }
    };
    let looks = race(&server, &[&orders(0), &orders(1), &renames], &look);
    server.verify("orders");
    eprintln!("{} new references, {} renames, {looks} looks", repeats() * 2, repeats());
}

#[test]
fn two_moves_in_a_tree() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', maintain: {ancestors: 'up', depth: 'd'}}]}");
    server.run("{insert: 'n', documents: [{_id: 0}, {_id: 1, parent: 0}, {_id: 2, parent: 0}, {_id: 3, parent: 1}, {_id: 4, parent: 2}]}");
    let refused = AtomicUsize::new(0);
    // One hangs 1 below 4, the other 2 below 3: both together would be a cycle.
    let moves = |node: usize, below: usize| {
        let refused = &refused;
        move |server: &Server| {
            let mut dice = Dice(node as u64);
            for _ in 0..repeats() {
                let parent = if dice.below(2) == 0 { below } else { 0 };
                let code = server.code(&format!("{{update: 'n', updates: [{{q: {{_id: {node}}}, u: {{$set: {{parent: {parent}}}}}}}]}}"));
                assert!(code == 0 || code == 96001, "{code}");
                refused.fetch_add(usize::from(code != 0), Ordering::Relaxed);
            }
        }
    };
    let look = |server: &Server| {
        let nodes = server.docs("{find: 'n', sort: {_id: 1}}");
        for node in &nodes {
            let mut chain = Vec::new();
            let mut next = whole(node, "parent");
            while next >= 0 {
                assert!(chain.len() < 5, "a cycle: {nodes:?}");
                chain.insert(0, next);
                next = whole(&nodes[next as usize], "parent");
            }
            let up: Vec<i64> = list(node, "up").iter().filter_map(|id| id.as_i64_exact()).collect();
            assert_eq!(up, chain, "{nodes:?}");
        }
    };
    let looks = race(&server, &[&moves(1, 4), &moves(2, 3)], &look);
    server.verify("n");
    let refused = refused.load(Ordering::Relaxed);
    assert!(refused > 0, "they never met");
    eprintln!("{} moves, {refused} refused, {looks} looks", repeats() * 2);
}

#[test]
fn a_refill_and_an_insert() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}]}");
    server.run("{createPatterns: 'p', patterns: [{name: 't', kind: 'subset', into: 'top', from: 'c', on: {foreign: 'p'}, sort: {x: -1}, limit: 2, fields: ['x'], count: 'n'}]}");
    let children = |client: usize| {
        move |server: &Server| {
            for n in 0..repeats() {
                let (id, x) = (client * 10 + n % 10, n.wrapping_mul(7919) % 100);
                server.run(&format!("{{update: 'c', updates: [{{q: {{_id: {id}}}, u: {{p: 1, x: {x}}}, upsert: true}}]}}"));
                let gone = client * 10 + (n + 4) % 10;
                server
                    .run(&format!("{{delete: 'c', deletes: [{{q: {{_id: {gone}}}, limit: 1}}]}}"));
            }
        }
    };
    let look = |server: &Server| {
        let moment = server.docs("{aggregate: 'p', rewrite: false, cursor: {}, pipeline: [{$lookup: {from: 'c', as: 'all', pipeline: [{$sort: {x: -1, _id: 1}}]}}]}");
        let all = list(&moment[0], "all");
        let top = list(&moment[0], "top");
        assert_eq!(whole(&moment[0], "n"), all.len() as i64);
        assert_eq!(top.len(), all.len().min(2));
        let id = |row: &Val<'_>| row.as_doc().and_then(|row| row.get("_id")?.as_i64_exact());
        assert!(top.iter().zip(&all).all(|(shown, child)| id(shown) == id(child)), "{moment:?}");
    };
    let looks = race(&server, &[&children(0), &children(1), &children(2)], &look);
    look(&server);
    server.verify("p");
    eprintln!("{} inserts, {} deletes, {looks} looks", repeats() * 3, repeats() * 3);
}

#[test]
fn sixty_four_clients_and_one_parent() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1, edits: 0}]}");
    server.run("{createPatterns: 'p', patterns: [{name: 'n', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {n: {$count: {}}, s: {$sum: '$x'}, hi: {$max: '$_id'}}}]}");
    let each = repeats() / 64 + 1;
    let next = AtomicUsize::new(0);
    let insert = |server: &Server| {
        for _ in 0..each {
            let id = next.fetch_add(1, Ordering::Relaxed);
            server.run(&format!("{{insert: 'c', documents: [{{_id: {id}, p: 1, x: 0.1}}]}}"));
        }
    };
    let edit = |server: &Server| {
        for _ in 0..repeats() {
            server.run("{update: 'p', updates: [{q: {_id: 1}, u: {$inc: {edits: 1}}}]}");
        }
    };
    let mut clients: Vec<&(dyn Fn(&Server) + Sync)> = vec![&insert; 64];
    clients.push(&edit);
    let look = |server: &Server| {
        let moment = server.docs("{aggregate: 'p', rewrite: false, cursor: {}, pipeline: [{$lookup: {from: 'c', as: 'c', pipeline: [{$group: {_id: null, n: {$sum: 1}, s: {$sum: '$x'}, hi: {$max: '$_id'}}}]}}]}");
        let Some(group) = list(&moment[0], "c").first().and_then(|group| group.as_doc()) else {
            return;
        };
        for name in ["n", "s", "hi"] {
            assert_eq!(moment[0].as_doc().get(name), group.get(name), "{moment:?}");
        }
    };
    let looks = race(&server, &clients, &look);
    let parent = server.get("p", "1");
    assert_eq!(whole(&parent, "n"), 64 * each as i64);
    assert_eq!(whole(&parent, "edits"), repeats() as i64);
    server.verify("p");
    eprintln!("{} inserts, {} edits, {looks} looks", 64 * each, repeats());
}

/// Dropping a collection counts as deleting its documents, those included that come meanwhile.
#[test]
fn a_drop_and_an_insert() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}]}");
    server.run("{createPatterns: 'p', patterns: [{name: 'n', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {n: {$count: {}}}}]}");
    let times = repeats() / 10;
    let insert = |server: &Server| {
        for _ in 0..times * 4 {
            server.run("{insert: 'c', documents: [{p: 1}, {p: 1}]}");
        }
    };
    let drops = |server: &Server| {
        for _ in 0..times {
            server.run("{drop: 'c'}");
        }
    };
    let look = |server: &Server| {
        let moment = server.docs("{aggregate: 'p', rewrite: false, cursor: {}, pipeline: [{$lookup: {from: 'c', as: 'c', pipeline: []}}, {$project: {n: 1, there: {$size: '$c'}}}]}");
        assert_eq!(whole(&moment[0], "n"), whole(&moment[0], "there"));
    };
    let looks = race(&server, &[&insert, &insert, &drops], &look);
    look(&server);
    server.verify("p");
    eprintln!("{} inserts, {times} drops, {looks} looks", times * 8);
}
