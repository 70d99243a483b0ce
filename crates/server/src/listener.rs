//! Polls parked connections, wakes them when bytes arrive, enforces their deadlines, and stops.

use crate::Core;
use crate::acceptor::Acceptor;
use crate::connection::Connection;
use crate::link::Activity;
use mio::{Events, Poll, Token};
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Wakes the poll for a stop. Connections count up from one.
pub(crate) const WAKE: Token = Token(usize::MAX);
/// How often incomplete messages and commands whose client disconnected are checked.
const CHECK: Duration = Duration::from_secs(1);
/// How long a stop waits for commands that only read before it interrupts them.
const READ_GRACE: Duration = Duration::from_secs(1);
/// How long a stop waits for threads whose sockets were shut down.
const LAST_WAIT: Duration = Duration::from_millis(500);
/// How long idle connections may take to close.
const GOODBYE_WAIT: Duration = Duration::from_millis(200);

/// The poll of parked connections.
pub(crate) struct Listener {
    poll: Poll,
}

impl Listener {
    pub(crate) fn new() -> io::Result<Listener> {
        Ok(Listener { poll: Poll::new()? })
    }

    pub(crate) fn registry(&self) -> &mio::Registry {
        self.poll.registry()
    }

    /// Polls until the server is stopped, then closes everything.
    pub(crate) fn run(mut self, acceptor: Acceptor, core: &Arc<Core>) -> io::Result<()> {
        let accepting = acceptor.start(core)?;
        let result = self.serve(core);
        // The acceptor stops together with the listener.
        core.stop();
        let accepted = accepting.join().unwrap_or_else(|_| {
            Err(io::Error::other("the thread that accepts connections panicked"))
        });
        stop(core);
        result.and(accepted)
    }

    fn serve(&mut self, core: &Core) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut checked = Instant::now();
        while !core.is_stopping() {
            let watch =
                core.parked.has_deadlines() || core.pools().iter().any(|pool| pool.is_busy());
            let check = watch.then_some(CHECK);
            let (due, later) = core.parked.due(Instant::now());
            due.into_iter().for_each(|connection| core.submit(connection));
            let timeout = [check, later].into_iter().flatten().min();
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                // There are no events, but time has passed.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            for event in &events {
                if let Some(connection) = core.parked.wake(event.token()) {
                    core.submit(connection);
                }
            }
            if checked.elapsed() >= CHECK {
                checked = Instant::now();
                core.links.interrupt_abandoned();
                core.parked.overdue(checked).into_iter().for_each(Connection::expire);
            }
        }
        Ok(())
    }
}

/// Closes idle connections at once, active ones when their command has ended or takes too long.
fn stop(core: &Core) {
    core.parked.close();
    core.pools().iter().for_each(|pool| pool.stop());
    core.links.shut_down(Shutdown::Read);
    let writing = [Activity::Running];
    let answering = [Activity::Running, Activity::Reading];
    let grace = core.options.stop_grace;
    core.links.interrupt(&[Activity::Watching]);
    let reads = READ_GRACE.min(grace);
    if !wait_until(reads, || !core.links.any(&answering)) {
        core.links.interrupt(&[Activity::Reading]);
        if !wait_until(grace.saturating_sub(reads), || !core.links.any(&answering)) {
            core.links.interrupt(&writing);
        }
    }
    // Threads that find their socket shut down send a closing alert if possible.
    wait_until(GOODBYE_WAIT, || core.links.len() == 0);
    core.links.shut_down(Shutdown::Both);
    if !wait_until(LAST_WAIT, || core.links.len() == 0) {
        tracing::info!("stopped with commands still running");
    }
}

fn wait_until(longest: Duration, done: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + longest;
    while !done() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}
