//! Threads that serve active connections.
//!
//! A thread takes a connection, serves it until it is idle, and takes the next. Threads are created
//! when none is free and end after a time without work. At the limit connections wait in a fair
//! queue, and `is_crowded` makes those being served requeue after each message.
//!
//! There is a pool for each `Lane`. The background pool serves clients that have not logged in: as
//! many threads as there are cores, with low priority, so that such clients use little of the
//! machine. Their commands never wait; a thread that waits for such a client to read a reply gives
//! up its slot, so that no client can block the others. Large messages are read, decompressed and
//! validated by threads of low priority too, so that small messages do not wait for that. Their
//! commands run in the front pool: they hold locks, and a thread of low priority that holds a lock
//! would delay all others (priority inversion).

use crate::connection::Connection;
use crate::lane::Lane;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The most idle threads that are kept, and for how long.
const IDLE_MAX: usize = 32;
const THREAD_IDLE: Duration = Duration::from_secs(10);
/// Address space for the stack of a thread; memory is used only for touched pages.
const STACK_BYTES: usize = 4 * 1024 * 1024;

/// The most threads for large messages; memory usually allows fewer.
const LARGE_WORKERS_MAX: usize = 256;
/// The minimum number of background threads, also with one core.
const BACKGROUND_WORKERS_MIN: usize = 2;
/// The niceness of background threads: such a thread gets a third of the CPU time of a normal one
/// when both are runnable.
const NICENESS: i32 = 5;

/// The threads and the connections that wait for one.
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    work: Condvar,
    crowded: AtomicBool,
    threads_max: usize,
    /// The most threads that may work at a time, not counting those in `begin_wait`.
    workers_max: usize,
    lane: Lane,
    /// The niceness of threads of other lanes; `None` if the system does not support it per thread.
    niceness: Option<i32>,
}

#[derive(Default)]
struct PoolState {
    waiting: VecDeque<Box<Connection>>,
    threads: usize,
    idle: usize,
    /// Threads that wait while they serve a connection.
    aside: usize,
    stopped: bool,
}

/// While this guard lives, its thread does not count as working.
pub(crate) struct WaitingGuard {
    pool: Arc<Pool>,
}

impl Drop for WaitingGuard {
    fn drop(&mut self) {
        self.pool.state.lock().aside -= 1;
    }
}

impl Pool {
    /// A pool without threads; `threads_max` is the limit over all lanes.
    pub(crate) fn new(lane: Lane, threads_max: usize) -> Pool {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads_max = threads_max.max(1);
        let workers_max = match lane {
            Lane::Front => threads_max,
            Lane::Large => threads_max.min(LARGE_WORKERS_MAX),
            Lane::Background => threads_max.min(cores.max(BACKGROUND_WORKERS_MIN)),
        };
        let mut niceness = None;
        // Threads inherit the niceness of their creator. On systems without niceness per thread it
        // would apply to the whole process.
        #[cfg(target_os = "linux")]
        if lane != Lane::Front {
            let usual = rustix::process::getpriority_process(None).ok();
            niceness = usual.map(|usual| usual.saturating_add(NICENESS));
        }
        Pool {
            state: Mutex::default(),
            work: Condvar::new(),
            crowded: AtomicBool::new(false),
            threads_max,
            workers_max,
            lane,
            niceness,
        }
    }

    /// Lowers the priority of the calling thread, unless this is the front pool. A failure affects only
    /// speed.
    pub(crate) fn set_priority(&self) {
        if let Some(niceness) = self.niceness
            && let Err(error) = rustix::process::setpriority_process(None, niceness)
        {
            tracing::debug!(%error, "cannot lower the priority of a thread");
        }
    }

    /// Whether every thread that may exist is busy, so that none should wait for its client.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// Whether any thread serves a connection or is about to; a woken thread counts as idle until
    /// it runs.
    pub(crate) fn is_busy(&self) -> bool {
        let state = self.state.lock();
        state.threads > state.idle || !state.waiting.is_empty()
    }

    /// Queues a connection; it is served as soon as a thread is free.
    pub(crate) fn submit(self: &Arc<Pool>, connection: Box<Connection>) {
        let mut state = self.state.lock();
        if state.stopped {
            drop(state);
            return;
        }
        state.waiting.push_back(connection);
        self.provide_thread(state);
    }

    /// Allows another thread to work while this one waits.
    pub(crate) fn begin_wait(self: &Arc<Pool>) -> WaitingGuard {
        let mut state = self.state.lock();
        state.aside += 1;
        if state.waiting.is_empty() {
            drop(state);
        } else {
            self.provide_thread(state);
        }
        WaitingGuard { pool: Arc::clone(self) }
    }

    /// Wakes a free thread or starts a new one; at the limit a busy thread takes the work later.
    fn provide_thread(self: &Arc<Pool>, mut state: MutexGuard<'_, PoolState>) {
        if state.idle >= state.waiting.len() {
            self.work.notify_one();
            return;
        }
        if state.threads >= self.threads_max || state.threads - state.aside >= self.workers_max {
            return;
        }
        state.threads += 1;
        self.update(&state);
        drop(state);
        let pool = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name(self.lane.thread_name().into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                pool.set_priority();
                pool.work();
            });
        if let Err(error) = spawned {
            self.spawn_failed(&error);
        }
    }

    /// Stops accepting work: waiting connections are closed, idle threads end.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        let waiting = std::mem::take(&mut state.waiting);
        self.update(&state);
        self.work.notify_all();
        // Closing takes locks of the engine, so the pool's lock is released first.
        drop(state);
        drop(waiting);
    }

    fn update(&self, state: &PoolState) {
        let crowded = state.idle == 0 && state.threads >= self.workers_max;
        self.crowded.store(crowded, Ordering::Relaxed);
    }

    /// A busy thread will take the connection later; it is closed only if there is no thread at all.
    #[cold]
    fn spawn_failed(&self, error: &std::io::Error) {
        tracing::warn!(%error, "cannot start a thread for a connection");
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
            // A thread that returns from waiting may find that another took its slot.
            if state.threads - state.aside > self.workers_max {
                break;
            }
            if let Some(connection) = state.waiting.pop_front() {
                drop(state);
                let served = catch_unwind(AssertUnwindSafe(|| connection.serve(self.lane)));
                if served.is_err() {
                    tracing::error!("connection closed because of a panic");
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
