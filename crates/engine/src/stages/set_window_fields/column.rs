//! Columns: a value for every document of a partition, and windows for every document.

use super::{Frame, Partition};
use crate::operation::Operation;
use bumpalo::Bump;
use query::expr::{Env, Expr};
use value::{OwnedVal, RawDoc, Result, Val};

/// Whole numbers, by the place of a document.
pub(super) fn whole_numbers(
    places: std::ops::Range<usize>,
    mut number: impl FnMut(usize) -> usize,
) -> Vec<OwnedVal> {
    places
        .map(|at| {
            let number = number(at);
            OwnedVal::new(match i32::try_from(number) {
                Ok(small) => Val::Int32(small),
                Err(_) => Val::Int64(i64::try_from(number).unwrap_or(i64::MAX)),
            })
        })
        .collect()
}

/// The value of an expression for every document; null where it gives none.
pub(super) fn evaluate(expr: &Expr, partition: &Partition) -> Result<Vec<OwnedVal>> {
    evaluate_or(expr, partition, Val::Null)
}

/// The value of an expression for every document, another where it gives none.
pub(super) fn evaluate_or(
    expr: &Expr,
    partition: &Partition,
    other: Val<'_>,
) -> Result<Vec<OwnedVal>> {
    let mut arena = Bump::new();
    let mut values = Vec::with_capacity(partition.len());
    for doc in &partition.docs {
        let value = match expr.eval(&Env::new(RawDoc::new(doc), &arena))? {
            Val::Missing => OwnedVal::new(other),
            value => OwnedVal::new(value),
        };
        values.push(value);
        arena.reset();
    }
    Ok(values)
}

/// The windows of all documents: first, and one behind the last.
pub(super) fn windows(
    partition: &Partition,
    frame: &Frame,
    op: &Operation,
) -> Result<Vec<(usize, usize)>> {
    let mut windows = Vec::with_capacity(partition.len());
    for at in 0..partition.len() {
        op.check()?;
        windows.push(frame.range(at, &partition.keys)?);
    }
    Ok(windows)
}

/// A value for each window; neighbours with the same window share it.
pub(super) fn each_window(
    windows: &[(usize, usize)],
    op: &Operation,
    mut compute: impl FnMut(usize, usize) -> Result<OwnedVal>,
) -> Result<Vec<OwnedVal>> {
    let mut column: Vec<OwnedVal> = Vec::with_capacity(windows.len());
    let mut before = None;
    for window in windows {
        op.check()?;
        let value = match (before == Some(*window), column.last()) {
            (true, Some(same)) => same.clone(),
            _ => compute(window.0, window.1)?,
        };
        before = Some(*window);
        column.push(value);
    }
    Ok(column)
}
