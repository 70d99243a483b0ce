//! Synchronises the threads that load the server with the one that kills it: they wait while the
//! server is down, and the first failure ends the run.

use anyhow::Error;
use client::Client;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A request without an answer for this long is a failure.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// A connection that breaks is a failure unless the server is killed within this time.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// The code of a connection that broke.
const SOCKET_EXCEPTION: value::Code = value::Code(9001);

/// The gate: open while the server is up.
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
    /// The current life of the server while it is up, else 0. Read without the lock.
    life: AtomicU64,
}

#[derive(Default)]
struct GateState {
    is_up: bool,
    has_ended: bool,
    lives: u64,
    /// Threads that wait for the server.
    waiting: usize,
    failure: Option<Error>,
}

impl Gate {
    /// A closed gate.
    pub(super) fn new() -> Gate {
        Gate { state: Mutex::default(), changed: Condvar::new(), life: AtomicU64::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the gate: the server is up.
    pub(super) fn open(&self) {
        let mut state = self.lock();
        state.is_up = true;
        state.lives += 1;
        self.life.store(state.lives, Ordering::Release);
        self.changed.notify_all();
    }

    /// Closes the gate, because the server was killed, and waits until `threads` threads wait.
    pub(super) fn close(&self, threads: usize) {
        let mut state = self.lock();
        state.is_up = false;
        self.life.store(0, Ordering::Release);
        self.changed.notify_all();
        while state.waiting < threads && !state.has_ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the run: threads return from what they do.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        self.life.store(0, Ordering::Release);
        self.changed.notify_all();
    }

    /// Ends the run with a failure; the first one is kept.
    pub(super) fn fail(&self, error: Error) {
        self.lock().failure.get_or_insert(error);
        self.end();
    }

    /// The failure that ended the run.
    pub(super) fn take_failure(&self) -> Option<Error> {
        self.lock().failure.take()
    }

    /// Whether the run has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// Waits until the server is up. Returns its life, or `None` at the end of the run.
    fn enter(&self) -> Option<u64> {
        let mut state = self.lock();
        state.waiting += 1;
        self.changed.notify_all();
        while !state.is_up && !state.has_ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        (!state.has_ended).then_some(state.lives)
    }

    /// Whether the server is up and was not restarted since `life` began.
    pub(super) fn is_up(&self, life: u64) -> bool {
        self.life.load(Ordering::Acquire) == life
    }

    /// Sleeps for this time, or until the server is down. Returns whether it is still up.
    pub(super) fn rest(&self, life: u64, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut state = self.lock();
        while self.is_up(life) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Calls `session` with a new connection after each start of the server, until the end of the run.
    /// `session` returns when `is_up` becomes false, or with the error of a broken connection.
    pub(super) fn work(
        &self,
        uri: &str,
        mut session: impl FnMut(&mut Client, u64) -> anyhow::Result<()>,
    ) {
        while let Some(life) = self.enter() {
            let result = Client::connect(uri).map_err(Error::from).and_then(|mut client| {
                client.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                session(&mut client, life)
            });
            match result {
                Ok(()) => {}
                // If the server stays up, it was not killed, and the broken connection is a failure.
                Err(error) if is_lost(&error) => {
                    if self.rest(life, KILL_TIMEOUT) {
                        self.fail(
                            error.context("a connection broke, but the server was not killed"),
                        );
                    }
                }
                Err(error) => self.fail(error),
            }
        }
    }
}

/// Whether an error says that the connection broke or could not be made.
fn is_lost(error: &Error) -> bool {
    error.downcast_ref::<value::Error>().is_some_and(|error| {
        error.code() == SOCKET_EXCEPTION || error.code() == value::Code::HOST_UNREACHABLE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_wait_while_the_server_is_down_and_leave_at_the_end() {
        let gate = Gate::new();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let mut lives = Vec::new();
                while let Some(life) = gate.enter() {
                    lives.push(life);
                    while gate.rest(life, Duration::from_secs(60)) {}
                }
                lives
            });
            for _ in 0..3 {
                gate.close(1);
                gate.open();
                while gate.lock().waiting > 0 {
                    std::thread::yield_now();
                }
            }
            gate.fail(anyhow::anyhow!("first"));
            gate.fail(anyhow::anyhow!("second"));
            assert_eq!(thread.join().unwrap(), [1, 2, 3]);
        });
        assert_eq!(gate.take_failure().unwrap().to_string(), "first");
    }

    #[test]
    fn only_broken_connections_count_as_lost() {
        let error = |code| Error::from(value::Error::new(code, "")).context("while it wrote");
        assert!(is_lost(&error(SOCKET_EXCEPTION)));
        assert!(is_lost(&error(value::Code::HOST_UNREACHABLE)));
        assert!(!is_lost(&error(value::Code::BAD_VALUE)));
        assert!(!is_lost(&anyhow::anyhow!("a point read found nothing")));
    }
}
