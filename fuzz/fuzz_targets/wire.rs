//! Bytes as they come from a socket, in pieces: frames, sections, old queries, compressed messages.
//! Whatever is a message is run, once by a client that may do everything and once by one that has
//! not logged in; every reply must be a message.

#![no_main]

use fuzz::bed::Bed;
use libfuzzer_sys::fuzz_target;
use motif_fuzz as fuzz;
use motifdb::Peer;
use std::cell::RefCell;

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
