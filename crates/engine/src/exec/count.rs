//! Counts the documents of a stream. Where all documents of a large collection are read, a second
//! thread takes a part of them.

use super::Stream;
use crate::operation::Operation;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use value::{Error, Result};

/// The number of parts that two threads share, so that both end at about the same time, whatever
/// else they are delayed by.
const PARTS: usize = 16;

/// Counts the remaining documents of a stream. The parts that were split off it are added to `parts`,
/// for their statistics.
///
/// # Errors
/// Errors of the stream, or that the operation was stopped.
pub fn count(
    input: &mut dyn Stream,
    parts: &mut Vec<Box<dyn Stream>>,
    op: &Operation,
) -> Result<u64> {
    if input.reads_all() {
        *parts = input.split(PARTS);
    }
    let helper = if parts.is_empty() { None } else { op.helper() };
    let Some(helper) = helper else {
        let own = count_alone(input, op)?;
        return parts
            .iter_mut()
            .try_fold(own, |count, part| Ok(count + count_alone(&mut **part, op)?));
    };
    // This thread takes parts from the front, the other one from the end.
    let left = Mutex::new(parts.iter_mut());
    let failed = AtomicBool::new(false);
    let (own, other) = thread::scope(|scope| {
        let helping = scope.spawn(|| {
            let helper = helper;
            let _watching = helper.operation.watch();
            let take = || left.lock().next_back();
            count_parts(0, take, &failed, &helper.operation)
        });
        let own = count_alone(input, op);
        failed.fetch_or(own.is_err(), Ordering::Relaxed);
        let own = own.and_then(|count| count_parts(count, || left.lock().next(), &failed, op));
        let panicked = |_| Err(Error::internal("a thread of a count panicked"));
        (own, helping.join().unwrap_or_else(panicked))
    });
    Ok(own? + other?)
}

/// Adds the counts of parts until there are no more, or one fails.
fn count_parts<'p>(
    mut count: u64,
    take: impl Fn() -> Option<&'p mut Box<dyn Stream>>,
    failed: &AtomicBool,
    op: &Operation,
) -> Result<u64> {
    while !failed.load(Ordering::Relaxed)
        && let Some(part) = take()
    {
        let counted = count_alone(&mut **part, op);
        failed.fetch_or(counted.is_err(), Ordering::Relaxed);
        count += counted?;
    }
    Ok(count)
}

fn count_alone(input: &mut dyn Stream, op: &Operation) -> Result<u64> {
    let mut count = 0;
    input.for_each(op, &mut |_| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
}
