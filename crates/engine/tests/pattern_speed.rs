//! How fast patterns are built and what that costs others: to be read, not judged, since machines
//! differ. `cargo test --release -p motifdb --test pattern_speed -- --ignored --nocapture`.

use motifdb::value::{DocBuf, ejson};
use motifdb::{Engine, Options, Storage};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn run(engine: &Engine, text: &str) -> DocBuf {
    let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    engine.run_command("t", command.as_doc()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Point writes of one client until `stop`; how long each took.
fn writes(engine: &Engine, documents: usize, stop: &AtomicBool) -> Vec<Duration> {
    let mut times = Vec::new();
    let mut at = 1_usize;
    while !stop.load(Ordering::Relaxed) {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let id = (at >> 20) % documents;
        let begin = Instant::now();
        run(
            engine,
            &format!(
                "{{update: 'orders', updates: [{{q: {{_id: {id}}}, u: {{$inc: {{n: 1}}}}}}]}}"
            ),
        );
        times.push(begin.elapsed());
        std::thread::sleep(Duration::from_micros(500));
    }
    times.sort();
    times
}

fn show(what: &str, times: &[Duration]) {
    let at = |share: f64| {
        times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)))
    };
    eprintln!("{what}: {} writes, p50 {:?}, p99 {:?}", times.len(), at(0.5), at(0.99));
}

#[test]
#[ignore = "measures"]
fn how_fast_a_build_is() {
    let documents: usize =
        std::env::var("DOCUMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let folder = tempfile::tempdir().expect("a folder");
    let storage = Storage::Disk(folder.path().to_owned());
    let engine = Engine::open(Options { storage, ..Options::default() }).expect("opens");
    for from in (0..documents).step_by(5000) {
        let list: Vec<String> = (from..(from + 5000).min(documents))
            .map(|n| format!("{{_id: {n}, customer: {}, price: {}, quantity: {}, status: 'paid', note: 'some text that orders carry'}}", n % 10_000, n % 97, n % 5))
            .collect();
        run(&engine, &format!("{{insert: 'orders', documents: [{}]}}", list.join(",")));
    }
    let customers: Vec<String> =
        (0..10_000).map(|n| format!("{{_id: {n}, name: 'customer {n}'}}")).collect();
    run(&engine, &format!("{{insert: 'customers', documents: [{}]}}", customers.join(",")));
    for (what, command) in [
        (
            "same",
            "{createPatterns: 'orders', patterns: [{name: 'same', kind: 'computed', fields: {total: {$multiply: ['$price', '$quantity']}}}]}",
        ),
        (
            "fold",
            "{createPatterns: 'customers', patterns: [{name: 'fold', kind: 'computed', from: 'orders', on: {foreign: 'customer'}, fields: {spent: {$sum: '$price'}, orders: {$count: {}}}}]}",
        ),
        (
            "reference",
            "{createPatterns: 'orders', patterns: [{name: 'reference', kind: 'extendedReference', ref: 'customer', from: 'customers', into: 'who', fields: ['name']}]}",
        ),
    ] {
        for beside in [false, true] {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                if beside {
                    let before = scope.spawn(|| writes(&engine, documents, &stop));
                    std::thread::sleep(Duration::from_secs(4));
                    stop.store(true, Ordering::Relaxed);
                    show(&format!("{what}: without a build"), &before.join().expect("ends"));
                    stop.store(false, Ordering::Relaxed);
                }
                let writer = beside.then(|| scope.spawn(|| writes(&engine, documents, &stop)));
                let begin = Instant::now();
                run(&engine, command);
                let took = begin.elapsed();
                stop.store(true, Ordering::Relaxed);
                let rate = documents as f64 / took.as_secs_f64();
                eprintln!("{what}: {documents} documents in {took:?}: {rate:.0} a second");
                if let Some(writer) = writer {
                    show(&format!("{what}: beside a build"), &writer.join().expect("ends"));
                }
            });
            let target = if what == "fold" { "customers" } else { "orders" };
            run(&engine, &format!("{{dropPatterns: '{target}', names: ['{what}']}}"));
        }
    }
    engine.close().expect("closes");
}

#[test]
#[ignore = "measures"]
fn how_long_a_rename_takes() {
    let folder = tempfile::tempdir().expect("a folder");
    let storage = Storage::Disk(folder.path().to_owned());
    let engine = Engine::open(Options { storage, ..Options::default() }).expect("opens");
    run(&engine, "{insert: 'customers', documents: [{_id: 1, name: 'a'}, {_id: 2, name: 'b'}]}");
    run(&engine, "{insert: 'plain', documents: [{_id: 1, name: 'a'}]}");
    run(
        &engine,
        "{createPatterns: 'orders', patterns: [{name: 'c', kind: 'extendedReference', ref: 'c', from: 'customers', into: 'customer', fields: ['name'], fanoutLimit: 1000}]}",
    );
    for from in (0..50_000).step_by(5000) {
        let list: Vec<String> =
            (from..from + 5000).map(|n| format!("{{_id: {n}, c: 1}}")).collect();
        run(&engine, &format!("{{insert: 'orders', documents: [{}]}}", list.join(",")));
    }
    let rename = |collection: &str, id: usize, n: usize| {
        let begin = Instant::now();
        run(
            &engine,
            &format!(
                "{{update: '{collection}', updates: [{{q: {{_id: {id}}}, u: {{$set: {{name: 'n{n}'}}}}}}]}}"
            ),
        );
        let took = begin.elapsed();
        // What is queued is done before the next one.
        run(&engine, "{find: 'orders', limit: 1, readConcern: {patterns: 'fresh'}}");
        took
    };
    // In turns, so that all of them meet the same machine.
    let kinds = [
        ("a plain update", "plain", 1),
        ("a rename that nobody follows", "customers", 2),
        ("a rename with 50,000 followers", "customers", 1),
    ];
    let mut times = [const { Vec::new() }; 3];
    for n in 0..50 {
        for (times, (_, collection, id)) in times.iter_mut().zip(kinds) {
            times.push(rename(collection, id, n));
        }
    }
    for (times, (what, ..)) in times.iter_mut().zip(kinds) {
        times.sort();
        show(what, times);
    }
}
