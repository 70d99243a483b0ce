//! Interruption of loops.
//!
//! This crate does not depend on the engine's operations or clock, and its functions take no
//! handle: the conditions under which an operation stops are set for the thread that runs it
//! (`watch`). Loops count their steps (`check` for one step, `charge` for many), which costs about
//! a nanosecond; every `STEPS_BETWEEN_CHECKS` steps they read the flags and the clock. Without a
//! watch loops are not interrupted.
//!
//! Every call of an operator counts one step and the size of its operands, so that an operator whose
//! work grows with its operands needs nothing of its own. One that does more than that (sorts,
//! compares everything with everything) has to count its steps itself.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering as Order;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use value::{Code, Error, RawDoc, RawVal, Result, Val};

/// Steps between two checks of the flags. One step is about 10 to 50 ns of work.
const STEPS_BETWEEN_CHECKS: u32 = 4096;

/// Bytes that are copied or compared in about the time of one step.
const STEP_BYTES: usize = 16;

/// Elements that are sorted without a check.
const SORT_RUN: usize = 4096;

/// The source of the kill flag of an operation.
pub trait Killed: Send + Sync {
    /// Whether the operation was killed.
    fn is_killed(&self) -> bool;

    /// Called when the operation begins and ends to wait for others.
    fn note_wait(&self, _begins: bool) {}

    /// Called when the operation has to repeat a write because of a conflict.
    fn note_conflict(&self) {}
}

/// The conditions under which the operation of a thread stops.
#[derive(Clone)]
pub struct Watch {
    /// The kill flag of the operation.
    pub killed: Arc<dyn Killed>,
    /// Set when the cursor that it reads is killed.
    pub cursor_killed: Option<Arc<AtomicBool>>,
    /// Its deadline.
    pub deadline: Option<Instant>,
}

impl Watch {
    /// # Errors
    /// CursorKilled, Interrupted or MaxTimeMSExpired.
    pub fn check(&self) -> Result<()> {
        if self.cursor_killed.as_ref().is_some_and(|sign| sign.load(Ordering::Relaxed)) {
            return Err(Error::new(Code::CURSOR_KILLED, "operation was interrupted"));
        }
        if self.killed.is_killed() {
            return Err(Error::new(Code::INTERRUPTED, "operation was interrupted"));
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Error::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"));
        }
        Ok(())
    }
}

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(STEPS_BETWEEN_CHECKS) };
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
    /// Whether a check found that the operation must stop.
    static STOPPED: Cell<bool> = const { Cell::new(false) };
    /// What is called at each check of this thread, for tests.
    static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
}

type Observer = Box<dyn FnMut() -> bool>;

/// Calls a function at each check of this thread until the result is dropped, for tests that measure
/// what happens between checks. A check at which it returns true finds the operation killed.
#[must_use = "the observer ends with it"]
pub fn observe(observer: impl FnMut() -> bool + 'static) -> Observing {
    OBSERVER.set(Some(Box::new(observer)));
    Observing(())
}

/// Removes the observer of the thread when it is dropped.
pub struct Observing(());

impl Drop for Observing {
    fn drop(&mut self) {
        OBSERVER.set(None);
    }
}

/// Tells the observer of this thread, if there is one, that the thread checks whether to stop.
///
/// # Errors
/// Interrupted, if the observer says so.
#[inline]
pub fn observed() -> Result<()> {
    let ends = OBSERVER.with_borrow_mut(|observer| observer.as_mut().is_some_and(|call| call()));
    if ends { Err(Error::new(Code::INTERRUPTED, "operation was interrupted")) } else { Ok(()) }
}

/// Sets the watch of the thread until the result is dropped.
#[must_use = "the watch ends with it"]
pub fn watch(watch: Watch) -> Watching {
    LEFT.set(STEPS_BETWEEN_CHECKS);
    let stopped = STOPPED.replace(false);
    Watching { before: WATCH.replace(Some(watch)), stopped }
}

/// Restores the previous watch of the thread when dropped.
pub struct Watching {
    before: Option<Watch>,
    stopped: bool,
}

impl Drop for Watching {
    fn drop(&mut self) {
        WATCH.set(self.before.take());
        STOPPED.set(self.stopped);
    }
}

/// Changes the watch of the thread, if it has one.
pub fn change(change: impl FnOnce(&mut Watch)) {
    WATCH.with_borrow_mut(|watch| watch.as_mut().map(change));
}

/// The watch of the thread, for other threads that work for it.
#[must_use]
pub fn current() -> Option<Watch> {
    WATCH.with_borrow(Option::clone)
}

/// Notes that the operation of this thread waits for others until the result is dropped.
#[must_use = "the wait ends with it"]
pub fn waiting() -> Waiting {
    let killed = current().map(|watch| watch.killed);
    killed.iter().for_each(|killed| killed.note_wait(true));
    Waiting(killed)
}

/// Ends the wait of an operation when it is dropped.
pub struct Waiting(Option<Arc<dyn Killed>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.iter().for_each(|killed| killed.note_wait(false));
    }
}

/// Notes that the operation of this thread has to repeat a write because of a conflict.
pub fn conflicted() {
    WATCH.with_borrow(|watch| watch.iter().for_each(|watch| watch.killed.note_conflict()));
}

/// Counts one step of a loop.
///
/// # Errors
/// If the operation must stop.
#[inline]
pub fn check() -> Result<()> {
    charge(1)
}

/// Counts steps.
///
/// # Errors
/// If the operation must stop.
#[inline]
pub fn charge(steps: usize) -> Result<()> {
    let left = LEFT.get() as usize;
    if steps < left {
        LEFT.set((left - steps) as u32);
        return Ok(());
    }
    check_now()
}

/// Counts the steps for processing a number of bytes.
///
/// # Errors
/// If the operation must stop.
#[inline]
pub fn charge_bytes(bytes: usize) -> Result<()> {
    charge(bytes / STEP_BYTES)
}

/// Counts the steps for processing a value.
///
/// # Errors
/// If the operation must stop.
#[inline]
pub fn charge_value(value: Val<'_>) -> Result<()> {
    match value {
        Val::Array(doc) | Val::Document(doc) => charge_bytes(doc.bytes().len()),
        Val::String(text) => charge_bytes(text.len()),
        Val::Binary(_, bytes) => charge_bytes(bytes.len()),
        _ => Ok(()),
    }
}

/// Counts the steps for processing an array.
///
/// # Errors
/// If the operation must stop.
#[inline]
pub(crate) fn charge_array(array: RawDoc<'_>) -> Result<()> {
    charge_bytes(array.bytes().len())
}

/// Counts the steps for processing an undecoded value.
///
/// # Errors
/// If the operation must stop.
#[inline]
pub(crate) fn charge_raw(value: RawVal<'_>) -> Result<()> {
    charge(1 + value.bytes.len() / STEP_BYTES)
}

/// Whether to leave a loop that cannot fail. Its caller asks `confirm` afterwards.
#[inline]
#[must_use]
pub fn should_stop(steps: usize) -> bool {
    charge(steps).is_err()
}

/// Checks the flags and the clock now.
///
/// # Errors
/// If the operation must stop.
#[cold]
#[inline(never)]
pub fn check_now() -> Result<()> {
    LEFT.set(STEPS_BETWEEN_CHECKS);
    let found = WATCH.with_borrow(|watch| match watch {
        Some(watch) => observed().and_then(|()| watch.check()),
        None => Ok(()),
    });
    if found.is_err() {
        STOPPED.set(true);
    }
    found
}

/// Returns an error if any check of this watch found that the operation must stop: results since
/// then may be wrong if an error was not passed on.
///
/// # Errors
/// As that check.
#[inline]
pub fn confirm() -> Result<()> {
    if STOPPED.get() { stopped() } else { Ok(()) }
}

#[cold]
fn stopped() -> Result<()> {
    check_now()?;
    Err(Error::new(Code::INTERRUPTED, "operation was interrupted"))
}

/// Whether an error ends the operation, rather than being a result of its computation.
#[must_use]
pub fn ends_operation(error: &Error) -> bool {
    matches!(error.code(), Code::INTERRUPTED | Code::MAX_TIME_MS_EXPIRED | Code::CURSOR_KILLED)
}

/// Stable sort with checks between runs: runs of doubling length are merged, which the standard
/// sort does in linear time.
///
/// # Errors
/// When the operation shall end; the order of the elements is undefined then.
pub fn sort_by<T>(elements: &mut [T], mut compare: impl FnMut(&T, &T) -> Order) -> Result<()> {
    let mut run = SORT_RUN;
    loop {
        for part in elements.chunks_mut(run) {
            charge(part.len().saturating_mul(2))?;
            part.sort_by(&mut compare);
        }
        if run >= elements.len() {
            return Ok(());
        }
        run = run.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    struct After(AtomicUsize);

    impl Killed for After {
        fn is_killed(&self) -> bool {
            let left = self.0.load(Ordering::Relaxed);
            self.0.store(left.saturating_sub(1), Ordering::Relaxed);
            left == 0
        }
    }

    fn after(looks: usize) -> Watch {
        let killed = Arc::new(After(AtomicUsize::new(looks)));
        Watch { killed, cursor_killed: None, deadline: None }
    }

    #[test]
    fn a_loop_ends_a_bounded_number_of_steps_after_the_kill() {
        assert!((0..100_000).all(|_| check().is_ok()), "nobody watches");
        let watching = watch(after(1));
        let steps = (0..).take_while(|_| check().is_ok()).count();
        assert!(steps <= 2 * STEPS_BETWEEN_CHECKS as usize, "{steps}");
        assert_eq!(confirm().unwrap_err().code(), Code::INTERRUPTED);
        drop(watching);
        assert!(confirm().is_ok() && check_now().is_ok());
    }

    #[test]
    fn the_time_is_looked_at() {
        let _watching = watch(after(usize::MAX));
        assert!(check_now().is_ok());
        change(|watch| watch.deadline = Instant::now().checked_sub(Duration::from_secs(1)));
        assert_eq!(check_now().unwrap_err().code(), Code::MAX_TIME_MS_EXPIRED);
    }

    #[test]
    fn a_sort_is_stable_and_ends_when_asked() {
        let mut state = 7_u32;
        let mut numbers: Vec<(u32, usize)> = (0..50_000)
            .map(|at| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24, at)
            })
            .collect();
        let mut expected = numbers.clone();
        expected.sort_by_key(|(number, _)| *number);
        sort_by(&mut numbers, |a, b| a.0.cmp(&b.0)).expect("nobody watches");
        assert!(numbers == expected);
        let _watching = watch(after(0));
        let mut compared = 0;
        let result = sort_by(&mut numbers, |a, b| {
            compared += 1;
            b.0.cmp(&a.0)
        });
        assert_eq!(result.unwrap_err().code(), Code::INTERRUPTED);
        assert_eq!(compared, 0);
    }
}
