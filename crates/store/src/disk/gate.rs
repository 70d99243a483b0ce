//! A gate that work passes: closing it waits for the work inside, and keeps new work out.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The interval at which a waiting thread checks whether to give up.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A gate, open at first.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    inside: usize,
    closed: bool,
}

/// Work that has passed the gate; dropped when it is done.
pub(super) struct Passed<'g>(&'g Gate);

impl Gate {
    /// Waits until the gate is open, and passes it.
    pub(super) fn pass(&self) -> Passed<'_> {
        let mut state = self.state.lock();
        while state.closed {
            self.changed.wait(&mut state);
        }
        state.inside += 1;
        Passed(self)
    }

    /// The same, as long as `is_wanted` returns true; `None` if that ended it.
    pub(super) fn pass_while(&self, is_wanted: &dyn Fn() -> bool) -> Option<Passed<'_>> {
        let mut state = self.state.lock();
        while state.closed {
            self.changed.wait_for(&mut state, CHECK_INTERVAL);
            if state.closed && !is_wanted() {
                return None;
            }
        }
        state.inside += 1;
        Some(Passed(self))
    }

    /// Closes the gate and waits until all work inside is done, as long as `is_wanted` returns true.
    /// If that ends it, the gate may be closed with work inside, and the result is false.
    pub(super) fn close_while(&self, is_wanted: &dyn Fn() -> bool) -> bool {
        let mut state = self.state.lock();
        state.closed = true;
        while state.inside > 0 && state.closed {
            self.changed.wait_for(&mut state, CHECK_INTERVAL);
            if state.inside > 0 && !is_wanted() {
                return false;
            }
        }
        true
    }

    /// Opens the gate.
    pub(super) fn open(&self) {
        self.state.lock().closed = false;
        self.changed.notify_all();
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.inside -= 1;
        if state.closed {
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn closing_waits_for_work_and_keeps_new_work_out() {
        let gate = Gate::default();
        let (closed, passed) = (AtomicBool::new(false), AtomicBool::new(false));
        let first = gate.pass();
        std::thread::scope(|scope| {
            let closer = scope.spawn(|| {
                assert!(gate.close_while(&|| true));
                closed.store(true, Ordering::SeqCst);
            });
            while !gate.state.lock().closed {
                std::thread::yield_now();
            }
            assert!(!closed.load(Ordering::SeqCst));
            let other = scope.spawn(|| {
                let _inside = gate.pass();
                passed.store(true, Ordering::SeqCst);
            });
            drop(first);
            closer.join().expect("does not panic");
            assert!(!passed.load(Ordering::SeqCst));
            gate.open();
            other.join().expect("does not panic");
        });
        assert!(passed.load(Ordering::SeqCst));
    }

    #[test]
    fn who_waits_can_give_up() {
        let gate = Gate::default();
        assert!(gate.pass_while(&|| false).is_some(), "an open gate asks nobody");
        assert!(gate.close_while(&|| false), "nobody is inside");
        assert!(gate.pass_while(&|| false).is_none());
        gate.open();
        let inside = gate.pass();
        assert!(!gate.close_while(&|| false));
        gate.open();
        drop(inside);
        assert!(gate.close_while(&|| false));
    }
}
