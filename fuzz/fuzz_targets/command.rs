//! Whole commands, one after another, by a client that may do everything and by one that has not
//! logged in, who must get nothing but the handshake.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use motif_fuzz::bed::{Bed, run_as};
use motif_fuzz::{laws, text};
use motifdb::{Client, Peer};
use std::cell::RefCell;
use value::{DocBuf, RawDoc};

/// An engine that has a user, and a connection that did not log in.
struct Locked {
    _bed: Bed,
    stranger: Client,
}

impl Locked {
    fn new() -> Locked {
        let mut bed = Bed::new();
        let user = "{createUser: 'root', pwd: 'secret', roles: ['root'], mechanisms: ['SCRAM-SHA-256'], $db: 'admin'}";
        let reply = bed.ask(user);
        assert!(motifdb::is_ok(reply.as_doc()), "{}", laws::show(reply.as_doc()));
        let stranger = bed.engine().connect(Peer { authenticate: true, ..Peer::default() });
        Locked { _bed: bed, stranger }
    }
}

thread_local! {
    static BED: RefCell<Bed> = RefCell::new(Bed::new());
    static LOCKED: RefCell<Locked> = RefCell::new(Locked::new());
}

/// What those may do who did not log in, as in MongoDB.
static OPEN: &[&str] = &[
    "authenticate",
    "buildinfo",
    "connectionstatus",
    "getnonce",
    "hello",
    "ismaster",
    "listcommands",
    "logout",
    "ping",
    "saslcontinue",
    "saslstart",
    "whatsmysni",
    "whatsmyuri",
];

/// Commands that only read, so that the bed can be used again.
static READS: &[&str] =
    &["find", "count", "distinct", "explain", "listIndexes", "collStats", "hello"];

fuzz_target!(|input: &[u8]| {
    let Some(commands) = text::documents(input) else { return };
    if commands.iter().any(|command| hangs(command.as_doc())) {
        return;
    }
    LOCKED.with_borrow_mut(|locked| {
        for command in &commands {
            let reply = run_as(&mut locked.stranger, command.as_doc());
            let name = command.as_doc().first().map_or("", |(name, _)| name).to_ascii_lowercase();
            assert!(
                !motifdb::is_ok(reply.as_doc()) || OPEN.contains(&name.as_str()),
                "somebody who did not log in got {}",
                laws::show(reply.as_doc())
            );
        }
    });
    BED.with_borrow_mut(|bed| {
        if bed.dirty {
            *bed = Bed::new();
        }
        for command in &commands {
            bed.dirty |= !is_read(command);
            bed.run(command.as_doc());
        }
    });
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    text::mutate(data, size, max_size, seed)
});

fn is_read(command: &DocBuf) -> bool {
    let name = command.as_doc().first().map_or("", |(name, _)| name);
    let plain = ["lsid", "txnNumber"].iter().all(|field| command.as_doc().find(field).is_none());
    READS.contains(&name) && plain
}

/// Commands that wait or compute as long as the client asks, on purpose.
fn hangs(command: RawDoc<'_>) -> bool {
    let line = laws::show(command);
    ["fsync", "terationCount", "awaitData", "tailable"].iter().any(|word| line.contains(word))
}
