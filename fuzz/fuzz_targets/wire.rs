//! Bytes as they come from a socket, in pieces: frames, sections, old queries, compressed messages.
//! Whatever is a message is run, once by a client that may do everything and once by one that has
//! not logged in; every reply must be a message. What runs for seconds is ended, as an operator
//! would: bytes say nothing about how much work they ask for.

#![no_main]

use fuzz::bed::Bed;
use libfuzzer_sys::fuzz_target;
use motif_fuzz as fuzz;
use motifdb::{Engine, Peer};
use std::cell::RefCell;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;
use value::{RawDoc, Val, ejson};

thread_local! {
    static BED: RefCell<Bed> = RefCell::new(Bed::new());
}

fuzz_target!(|input: &[u8]| {
    let Some((step, bytes)) = input.split_first() else { return };
    if hangs(bytes) {
        return;
    }
    BED.with_borrow_mut(|bed| {
        if bed.dirty {
            *bed = Bed::new();
        }
        watch(bed.engine());
        let step = usize::from(*step).pow(2) + 1;
        let mut stranger = bed.engine().connect(Peer { authenticate: true, ..Peer::default() });
        server::fuzzing::converse(&mut stranger, bytes, step);
        let mut client = bed.engine().connect(Peer::default());
        bed.dirty = server::fuzzing::converse(&mut client, bytes, step) > 0;
    });
});

/// Commands that wait on purpose, without a limit that a target could set.
fn hangs(bytes: &[u8]) -> bool {
    [&b"fsync"[..], b"AwaitTime", b"maxTimeMS", b"terationCount", b"awaitData"]
        .iter()
        .any(|word| bytes.windows(word.len()).any(|window| window == *word))
}

/// Lets operations of an engine be ended that run for longer than two seconds.
fn watch(engine: &Engine) {
    static WATCHED: Mutex<Option<Engine>> = Mutex::new(None);
    static START: Once = Once::new();
    let watched = || WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    *watched() = Some(engine.clone());
    START.call_once(|| {
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let engine = watched().clone();
                if let Some(engine) = engine {
                    end_long_ones(&engine);
                }
            }
        });
    });
}

fn end_long_ones(engine: &Engine) {
    let run = |text: &str| {
        let command = ejson::parse_doc(text).expect("readable");
        engine.run_command("admin", command.as_doc()).unwrap_or_default()
    };
    let found = run("{currentOp: 1, secs_running: {$gte: 2}}");
    let running = found.as_doc().get("inprog").and_then(Val::as_array);
    for (_, operation) in running.unwrap_or(RawDoc::empty()) {
        let id = operation.as_doc().and_then(|op| op.get("opid")).and_then(Val::as_i64_exact);
        if let Some(id) = id {
            run(&format!("{{killOp: 1, op: {id}}}"));
        }
    }
}
