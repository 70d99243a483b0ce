//! Builds beside others who write: they end, and what came meanwhile is right.

use super::*;
use std::sync::atomic::AtomicUsize;

/// A build that may derive 1,500 documents a second, beside one who inserts more than that behind all
/// others: it has to come to those that were there, and to no others.
#[test]
fn a_build_ends_beside_one_who_inserts_faster() {
    for kind in [
        "kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {s: {$sum: '$x'}, n: {$count: {}}}",
        "kind: 'tree', maintain: {depth: 'd', childCount: 'kids'}",
    ] {
        let server = Server::new();
        server.run("{insert: 'p', documents: [{_id: 0}, {_id: 1}, {_id: 2}]}");
        let insert = |collection: &str, from: usize, count: usize| {
            let docs: Vec<String> = (from..from + count)
                .map(|n| format!("{{_id: {n}, p: {}, x: 1, parent: {}}}", n % 4, n % 3))
                .collect();
            server.run(&format!("{{insert: '{collection}', documents: [{}]}}", docs.join(",")));
        };
        insert("c", 0, 1000);
        insert("p", 3, 1000);
        server.run(&format!("{{createPatterns: 'p', wait: false, patterns: [{{name: 'k', backfill: {{rate: 1500, batch: 50}}, {kind}}}]}}"));
        let (stop, inserted) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut next = 2000;
                while !stop.load(Ordering::Relaxed) && next < 60_000 {
                    insert("c", next, 40);
                    insert("p", next, 40);
                    next += 40;
                    inserted.fetch_add(80, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(3));
                }
            });
            // Whoever waits in vain must not leave the other one running.
            let begin = Instant::now();
            while server.state("p") == "building" && begin.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(10));
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(server.state("p"), "ready", "beside {} inserts", inserted.into_inner());
        let report = server.validate("{validatePatterns: 'p'}");
        assert_eq!(number(report.as_doc(), "drift"), 0, "{report:?}");
    }
}
