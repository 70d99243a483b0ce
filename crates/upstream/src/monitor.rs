//! Watches a member: a thread that asks it what it is. The member answers when that changes, at the
//! latest after ten seconds.

use crate::member::{Connection, Member};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use value::{DocBuf, RawDoc, Result, Val};

/// How long a member may wait for a change before it answers.
const AWAIT: Duration = Duration::from_secs(10);
/// How long the answer may take beyond that.
const GRACE: Duration = Duration::from_secs(10);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);

/// Takes what monitors find.
pub(crate) trait Watcher: Send + Sync {
    /// Takes the reply of a member to `hello`.
    fn take(self: Arc<Self>, member: &Arc<Member>, hello: RawDoc<'_>, round_trip: Duration);

    /// Takes note that a member cannot be reached.
    fn take_trouble(&self, member: &Arc<Member>, trouble: String);

    /// Whether nothing is to be watched any more.
    fn has_ended(&self) -> bool;
}

/// Starts the thread of a member. It ends when the member or the watcher is gone.
pub(crate) fn start(watcher: Weak<dyn Watcher>, member: Arc<Member>) {
    let current = move |member: &Member| {
        watcher.upgrade().filter(|watcher| !watcher.has_ended() && !member.is_removed())
    };
    let work = move || {
        while current(&member).is_some() {
            let outcome = member.connect(None).and_then(|connection| {
                watch(connection, |hello, round_trip| match current(&member) {
                    Some(watcher) => {
                        watcher.take(&member, hello.as_doc(), round_trip);
                        true
                    }
                    None => false,
                })
            });
            if let (Err(error), Some(watcher)) = (outcome, current(&member)) {
                watcher.take_trouble(&member, error.message().to_owned());
            }
            std::thread::sleep(PAUSE);
        }
    };
    let spawned = std::thread::Builder::new().name("monitor".to_owned()).spawn(work);
    if let Err(error) = spawned {
        tracing::error!(%error, "cannot start a thread that watches a member");
    }
}

/// Asks until `take` returns false or the connection breaks.
fn watch(
    mut connection: Connection,
    mut take: impl FnMut(&DocBuf, Duration) -> bool,
) -> Result<()> {
    let client = &mut connection.client;
    client.set_read_timeout(Some(AWAIT + GRACE))?;
    loop {
        // The time of a reply that waits for nothing.
        let begin = Instant::now();
        let mut hello = client.run("admin", &question(None))?;
        let round_trip = begin.elapsed();
        if !take(&hello, round_trip) {
            return Ok(());
        }
        let Some(version) = version_of(&hello) else {
            // An old member cannot wait for changes.
            std::thread::sleep(PAUSE);
            continue;
        };
        hello = client.run("admin", &question(Some(&version)))?;
        if !take(&hello, round_trip) {
            return Ok(());
        }
    }
}

/// The version of what a member says of itself.
fn version_of(hello: &DocBuf) -> Option<DocBuf> {
    hello.as_doc().get("topologyVersion").and_then(Val::as_doc).map(DocBuf::from)
}

fn question(version: Option<&DocBuf>) -> DocBuf {
    DocBuf::build(|out| {
        out.i32("hello", 1).bool("helloOk", true);
        if let Some(version) = version {
            out.doc("topologyVersion", |out| {
                out.extend(version.as_doc());
            });
            out.i64("maxAwaitTimeMS", i64::try_from(AWAIT.as_millis()).unwrap_or(i64::MAX));
        }
    })
}
