//! The lock of `fsync` with `lock: true`: while it is held nothing is committed and the files of the
//! store do not change, so that they can be copied. Reads go on.

use super::Data;
use super::commit::{goes_on, stopped_or_failed};
use crate::store_failed;
use parking_lot::{Condvar, Mutex, MutexGuard};
use query::interrupt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use value::{Code, Error, Result};

/// How often a commit that waits for the lock checks whether to stop.
const WAIT_STEP: Duration = Duration::from_millis(20);

/// The lock, and how often it was taken.
#[derive(Default)]
pub(crate) struct FsyncLock {
    count: Mutex<u64>,
    released: Condvar,
    /// Whether the count is above 0.
    is_held: AtomicBool,
}

impl FsyncLock {
    /// Whether commits wait.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }
}

impl Data {
    /// Takes the lock once more, and returns how often it is taken. The first time, this waits for
    /// the commits and merges in progress and writes all memory to the files.
    ///
    /// # Errors
    /// When the files cannot be written, and if the operation of this thread must stop; the lock is
    /// not taken then.
    pub(crate) fn take_fsync_lock(&self) -> Result<u64> {
        let mut count = self.count_of_fsync_locks()?;
        if *count == 0 {
            self.fsync_lock.is_held.store(true, Ordering::Release);
            if let Err(error) = self.freeze_files() {
                self.fsync_lock.is_held.store(false, Ordering::Release);
                self.fsync_lock.released.notify_all();
                return Err(error);
            }
        }
        *count += 1;
        Ok(*count)
    }

    /// Waits for the commits in progress, then keeps the files as they are.
    fn freeze_files(&self) -> Result<()> {
        // Every later holder of the commit lock checks the flag.
        while self.commit.try_lock_for(WAIT_STEP).is_none() {
            interrupt::check_now()?;
        }
        self.store.freeze(&goes_on).map_err(stopped_or_failed)
    }

    /// Writes all memory to the files, unless they must not change.
    ///
    /// # Errors
    /// When the files cannot be written, and if the operation of this thread must stop.
    pub(crate) fn write_memory_to_files(&self) -> Result<()> {
        let count = self.count_of_fsync_locks()?;
        match *count {
            0 => self.store.checkpoint().map_err(store_failed),
            _ => Ok(()),
        }
    }

    /// How often the lock is taken. While one command takes it, the others wait here.
    fn count_of_fsync_locks(&self) -> Result<MutexGuard<'_, u64>> {
        loop {
            if let Some(count) = self.fsync_lock.count.try_lock_for(WAIT_STEP) {
                return Ok(count);
            }
            interrupt::check_now()?;
        }
    }

    /// Releases the lock once, and returns how often it is still taken.
    ///
    /// # Errors
    /// IllegalOperation when it is not taken; if the operation of this thread must stop.
    pub(crate) fn give_fsync_lock_back(&self) -> Result<u64> {
        let mut count = self.count_of_fsync_locks()?;
        if *count == 0 {
            return Err(Error::new(Code::ILLEGAL_OPERATION, "fsyncUnlock called when not locked"));
        }
        *count -= 1;
        if *count == 0 {
            self.store.thaw();
            self.fsync_lock.is_held.store(false, Ordering::Release);
            self.fsync_lock.released.notify_all();
        }
        Ok(*count)
    }

    /// Waits until the files may change.
    ///
    /// # Errors
    /// Interrupted, MaxTimeMSExpired, ShutdownInProgress.
    pub(super) fn wait_for_fsync_lock(&self) -> Result<()> {
        let _waiting = interrupt::waiting();
        loop {
            // The command that takes the lock holds the count while it writes the files.
            if let Some(mut count) = self.fsync_lock.count.try_lock_for(WAIT_STEP) {
                if *count == 0 {
                    return Ok(());
                }
                self.fsync_lock.released.wait_for(&mut count, WAIT_STEP);
            }
            interrupt::check_now()?;
            self.check_open()?;
        }
    }
}
