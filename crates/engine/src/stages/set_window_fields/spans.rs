//! The windows of all documents of a partition: the first index, and one after the last.

use super::output::Output;
use super::{Frame, Partition};
use crate::operation::Operation;
use value::{OwnedVal, Result, Val};

/// Windows, computed or listed.
pub(super) struct Spans<'f> {
    frame: &'f Frame,
    count: usize,
    /// Windows that depend on values.
    listed: Option<Vec<(u32, u32)>>,
}

/// The average window size from which sliding pays. Smaller windows are computed separately,
/// exactly like groups.
const WIDE: usize = 32;

impl<'f> Spans<'f> {
    /// The windows of a frame.
    pub(super) fn new(
        frame: &'f Frame,
        partition: &Partition,
        op: &Operation,
    ) -> Result<Spans<'f>> {
        let count = partition.len();
        if let Frame::Documents(..) = frame {
            return Ok(Spans { frame, count, listed: None });
        }
        partition.memory.take(count.saturating_mul(size_of::<(u32, u32)>()))?;
        let mut listed = Vec::with_capacity(count);
        for at in 0..count {
            op.check()?;
            let (from, to) = frame.range(at, count, &partition.keys)?;
            let place = |place| u32::try_from(place).unwrap_or(u32::MAX);
            listed.push((place(from), place(to)));
        }
        Ok(Spans { frame, count, listed: Some(listed) })
    }

    /// All windows.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.count).map(|at| match &self.listed {
            Some(listed) => {
                listed.get(at).map_or((0, 0), |(from, to)| (*from as usize, *to as usize))
            }
            None => self.frame.places(at, self.count),
        })
    }

    /// Whether windows are wide enough for sliding.
    pub(super) fn are_wide(&self) -> bool {
        let total = self.iter().fold(0_usize, |sum, (from, to)| sum.saturating_add(to - from));
        total / WIDE > self.count
    }

    /// Computes a value for each window; neighbours with the same window share it.
    pub(super) fn each(
        &self,
        op: &Operation,
        out: &mut Output<'_>,
        mut compute: impl FnMut(usize, usize) -> Result<OwnedVal>,
    ) -> Result<()> {
        let mut before = None;
        for window in self.iter() {
            op.check()?;
            if before == Some(window) {
                out.repeat()?;
            } else {
                let value = compute(window.0, window.1)?;
                query::interrupt::charge_value(value.get())?;
                out.push(value.get())?;
            }
            before = Some(window);
        }
        Ok(())
    }
}

/// A list of whole numbers, by document index.
pub(super) fn whole_numbers(
    count: usize,
    out: &mut Output<'_>,
    mut number: impl FnMut(usize) -> usize,
) -> Result<()> {
    (0..count).try_for_each(|at| {
        let number = number(at);
        out.push(match i32::try_from(number) {
            Ok(small) => Val::Int32(small),
            Err(_) => Val::Int64(i64::try_from(number).unwrap_or(i64::MAX)),
        })
    })
}
