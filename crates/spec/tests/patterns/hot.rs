//! One parent that 64 clients write to, while the server is killed: its maintained count must equal the
//! number of its children.

use crate::process::{Server, binary, check_folder};
use crate::random::Random;
use client::Client;
use spec::connection::Connection;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use value::{DocBuf, Val, ejson};

const CLIENTS: u64 = 64;
const EACH: u64 = 1000;

/// Runs a command; `None` when the connection breaks.
pub(crate) fn run(client: &mut Client, text: &str) -> Option<DocBuf> {
    let command = doc(text);
    let body = DocBuf::build(|out| {
        out.extend(command.as_doc());
        out.str("$db", "t");
    });
    let reply = Connection::run(client, body.as_doc()).ok()?;
    let code = reply.as_doc().get("code").and_then(Val::as_i64_exact);
    // It is about to be gone.
    if matches!(code, Some(91 | 11600)) {
        return None;
    }
    assert!(code.is_none(), "{text}: {reply:?}");
    Some(reply)
}

/// Runs a command that must be answered.
pub(crate) fn must(client: &mut Client, text: &str) -> DocBuf {
    run(client, text).unwrap_or_else(|| panic!("{text}: the connection broke"))
}

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub(crate) fn first(reply: &DocBuf) -> DocBuf {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
    batch.iter().filter_map(|(_, doc)| doc.as_doc()).map(DocBuf::from).next().unwrap_or_default()
}

pub(crate) fn whole(doc: &DocBuf, name: &str) -> u64 {
    doc.as_doc().get(name).and_then(Val::as_i64_exact).unwrap_or(-1) as u64
}

/// 64 clients insert 1,000 orders of one product each while another edits the product; the server is
/// killed again and again, and started again. No client meets a conflict; what is counted is what is there,
/// and nothing that was acknowledged is missing.
#[test]
fn a_hot_parent_equals_its_children_after_every_kill() {
    let seed = crate::number("PATTERNS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let mut random = Random::new(seed ^ 0x4077);
    let folder = tempfile::Builder::new().prefix("motif-hot").tempdir().expect("a folder");
    let binary = binary();
    let mut server = Some(Server::start(&binary, folder.path()));
    let mut client = server.as_ref().expect("it runs").connect();
    must(&mut client, "{insert: 'products', documents: [{_id: 'p1', name: 'name'}]}");
    must(
        &mut client,
        "{createPatterns: 'products', patterns: [{name: 'sales', kind: 'computed', from: 'orders', on: {foreign: 'product_id'}, fields: {orders: {$count: {}}, revenue: {$sum: '$price'}, last: {$max: '$_id'}}}]}",
    );
    // How far each client came: it goes on there after a kill, and the one that was cut off is sent again.
    let next: Vec<AtomicU64> = (0..CLIENTS).map(|_| AtomicU64::new(0)).collect();
    let edits = AtomicU64::new(0);
    let mut kills = 0;
    loop {
        let uri = server.as_ref().expect("it runs").uri();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (number, next) in next.iter().enumerate() {
                let uri = &uri;
                scope.spawn(move || insert_all(uri, number as u64, next));
            }
            scope.spawn(|| {
                let Ok(mut client) = Client::connect(&uri) else { return };
                while !stop.load(Ordering::Relaxed) {
                    let change =
                        "{update: 'products', updates: [{q: {_id: 'p1'}, u: {$inc: {edits: 1}}}]}";
                    let Some(reply) = run(&mut client, change) else { return };
                    assert!(reply.as_doc().get("writeErrors").is_none(), "{reply:?}");
                    edits.fetch_add(1, Ordering::Relaxed);
                }
            });
            let done = || next.iter().all(|next| next.load(Ordering::Relaxed) >= EACH);
            let length = Duration::from_millis(200 + random.below(1500));
            let begin = std::time::Instant::now();
            while !done() && (begin.elapsed() < length || kills >= 4) {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
            if !done() {
                // Connections break; all clients end.
                server.take().expect("it runs").kill();
            }
        });
        let killed = server.is_none();
        if killed {
            server = Some(Server::start(&binary, folder.path()));
            kills += 1;
        }
        let mut client = server.as_ref().expect("it runs").connect();
        let product = first(&must(&mut client, "{find: 'products', filter: {_id: 'p1'}}"));
        let counted = first(&must(
            &mut client,
            "{aggregate: 'orders', rewrite: false, cursor: {}, pipeline: [{$group: {_id: 0, n: {$sum: 1}, s: {$sum: '$price'}, last: {$max: '$_id'}}}]}",
        ));
        assert_eq!(whole(&product, "orders"), whole(&counted, "n"), "PATTERNS_SEED={seed}");
        assert_eq!(product.as_doc().get("revenue"), counted.as_doc().get("s"));
        assert_eq!(product.as_doc().get("last"), counted.as_doc().get("last"));
        let acknowledged: u64 = next.iter().map(|next| next.load(Ordering::Relaxed)).sum();
        assert!(whole(&product, "orders") >= acknowledged, "what was acknowledged is there");
        assert!(whole(&product, "edits") >= edits.load(Ordering::Relaxed));
        if !killed {
            assert_eq!(whole(&product, "orders"), CLIENTS * EACH);
            break;
        }
    }
    eprintln!("{} edits, {kills} kills", edits.load(Ordering::Relaxed));
    server.expect("it runs").stop();
    check_folder(&binary, folder.path());
}

/// The orders of one client, until all are there or the connection breaks.
fn insert_all(uri: &str, number: u64, next: &AtomicU64) {
    let Ok(mut client) = Client::connect(uri) else { return };
    loop {
        let n = next.load(Ordering::Relaxed);
        if n >= EACH {
            return;
        }
        let id = number * EACH + n;
        let order = format!(
            "{{insert: 'orders', documents: [{{_id: {id}, product_id: 'p1', price: 0.1}}]}}"
        );
        let Some(reply) = run(&mut client, &order) else { return };
        let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array);
        let code = errors
            .and_then(value::RawDoc::first)
            .and_then(|(_, error)| error.as_doc()?.get("code")?.as_i64_exact());
        // It was there already: the server was killed between the commit and its reply.
        assert!(matches!(code, None | Some(11000)), "{reply:?}");
        next.store(n + 1, Ordering::Relaxed);
    }
}
