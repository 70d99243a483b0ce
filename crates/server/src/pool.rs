//! Threads that serve active connections.
//!
//! A thread takes a connection, serves it until it falls silent, and takes the next. Threads are
//! made when none is free and end when nothing came for a while. At the limit connections wait in
//! a fair queue, and `is_crowded` asks those being served to step back after each message.

use crate::connection::Connection;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Threads without work that are kept at most, and for how long.
const IDLE_MAX: usize = 32;
const THREAD_IDLE: Duration = Duration::from_secs(10);
/// Address space for the stack of a thread; memory is taken only for what it touches.
const STACK_BYTES: usize = 4 * 1024 * 1024;

/// The threads and the connections that wait for one.
pub(crate) struct Pool {
    state: Mutex<State>,
    work: Condvar,
    crowded: AtomicBool,
    threads_max: usize,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Box<Connection>>,
    threads: usize,
    idle: usize,
    stopped: bool,
}

impl Pool {
    pub(crate) fn new(threads_max: usize) -> Pool {
        Pool {
            state: Mutex::default(),
            work: Condvar::new(),
            crowded: AtomicBool::new(false),
            threads_max: threads_max.max(1),
        }
    }

    /// Whether every thread that may exist is busy, so that none should wait for its client.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// Whether any thread serves a connection.
    pub(crate) fn is_busy(&self) -> bool {
        let state = self.state.lock();
        state.threads > state.idle
    }

    /// Has a connection served as soon as a thread is free.
    pub(crate) fn submit(self: &Arc<Pool>, connection: Box<Connection>) {
        let mut state = self.state.lock();
        if state.stopped {
            drop(state);
            return;
        }
        state.waiting.push_back(connection);
        if state.idle >= state.waiting.len() {
            self.work.notify_one();
            return;
        }
        if state.threads >= self.threads_max {
            return;
        }
        state.threads += 1;
        self.update(&state);
        drop(state);
        let pool = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name("connection".into())
            .stack_size(STACK_BYTES)
            .spawn(move || pool.work());
        if let Err(error) = spawned {
            self.spawn_failed(&error);
        }
    }

    /// Takes no more work; connections that wait are closed, threads without work end.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        let waiting = std::mem::take(&mut state.waiting);
        self.update(&state);
        self.work.notify_all();
        // Closing takes locks of the engine, so not under ours.
        drop(state);
        drop(waiting);
    }

    fn update(&self, state: &State) {
        let crowded = state.idle == 0 && state.threads >= self.threads_max;
        self.crowded.store(crowded, Ordering::Relaxed);
    }

    /// Other threads will come to the connection; only without any it is closed.
    #[cold]
    fn spawn_failed(&self, error: &std::io::Error) {
        tracing::warn!(%error, "no thread for a connection");
        let mut state = self.state.lock();
        state.threads -= 1;
        let lost =
            if state.threads == 0 { std::mem::take(&mut state.waiting) } else { VecDeque::new() };
        self.update(&state);
        drop(state);
        drop(lost);
    }

    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(connection) = state.waiting.pop_front() {
                drop(state);
                if catch_unwind(AssertUnwindSafe(|| connection.serve())).is_err() {
                    tracing::error!("a connection was closed by a panic");
                }
                state = self.state.lock();
                continue;
            }
            if state.stopped || state.idle >= IDLE_MAX {
                break;
            }
            state.idle += 1;
            self.update(&state);
            let timed_out = self.work.wait_for(&mut state, THREAD_IDLE).timed_out();
            state.idle -= 1;
            self.update(&state);
            if timed_out && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        self.update(&state);
    }
}
