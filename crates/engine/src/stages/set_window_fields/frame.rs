//! Window frames: which documents belong to the window of a document, by position or by value.

use super::column::Column;
use super::{Sorting, refuse};
use crate::stages::StageContext;
use query::expr::{Expr, add_to_date};
use std::cmp::Ordering;
use value::{Code, Error, OwnedVal, RawDoc, Result, Val, compare, number};

/// A window.
#[derive(Clone)]
pub(super) enum Frame {
    /// A range of positions before and after the document.
    Documents(FrameBound<i64>, FrameBound<i64>),
    /// A range of sort values before and after the document's value.
    Range(FrameBound<OwnedVal>, FrameBound<OwnedVal>, RangeOrder),
}

/// The sort field of a range.
#[derive(Clone)]
pub(super) struct RangeOrder {
    /// The unit of distances between dates.
    unit: Option<String>,
    /// Such ranges are refused when the first document comes.
    descending: bool,
}

/// One bound of a window.
#[derive(Clone, PartialEq)]
pub(super) enum FrameBound<T> {
    Unbounded,
    Current,
    Offset(T),
}

impl Frame {
    /// The whole partition.
    pub(super) const WHOLE: Frame = Frame::Documents(FrameBound::Unbounded, FrameBound::Unbounded);

    /// Reads a `window`.
    pub(super) fn parse(
        value: Val<'_>,
        sorting: Option<&Sorting>,
        context: &StageContext<'_>,
    ) -> Result<Frame> {
        let Val::Document(doc) = value else {
            return Err(Error::failed_to_parse("'window' field must be an object"));
        };
        let (mut documents, mut range, mut unit) = (None, None, None);
        for (name, value) in doc {
            match name {
                "documents" => documents = Some(value.get()),
                "range" => range = Some(value.get()),
                "unit" => {
                    let Val::String(text) = value.get() else {
                        return Err(Error::failed_to_parse("'unit' must be a string"));
                    };
                    add_to_date(0, text, 0)?;
                    unit = Some(text.to_owned());
                }
                other => {
                    return Err(Error::failed_to_parse(format!(
                        "'window' field can only contain 'documents' as the only argument or 'range' \
                         with an optional 'unit' field, found {other}"
                    )));
                }
            }
        }
        match (documents, range) {
            (Some(_), Some(_)) | (None, None) => Err(Error::failed_to_parse(
                "'window' field must have exactly one of 'documents' and 'range'",
            )),
            (Some(_), None) if unit.is_some() => {
                Err(Error::failed_to_parse("'unit' can only be used with 'range'"))
            }
            (Some(bounds), None) => {
                let (lower, upper) = pair(bounds)?;
                let count = |value| {
                    bound(value, context, |value| match value.as_i64_exact() {
                        Some(count) => Ok(count),
                        None => Err(Error::failed_to_parse(
                            "Numeric document-based bounds must be an integer",
                        )),
                    })
                };
                let (lower, upper) = (count(lower)?, count(upper)?);
                if place(&lower, i64::MIN) > place(&upper, i64::MAX) {
                    return refuse(5339900, "Lower bound must not exceed upper bound");
                }
                let bounded = lower != FrameBound::Unbounded || upper != FrameBound::Unbounded;
                if bounded && sorting.is_none() {
                    return refuse(5339901, "Document-based bounds require a sortBy");
                }
                Ok(Frame::Documents(lower, upper))
            }
            (None, Some(bounds)) => {
                let (lower, upper) = pair(bounds)?;
                let dated = unit.is_some();
                let distance = |value| {
                    bound(value, context, |value: Val<'_>| {
                        if dated && value.as_i64_exact().is_none() {
                            return Err(Error::failed_to_parse(
                                "With 'unit', range-based bounds must be an integer",
                            ));
                        }
                        if !value.is_number() {
                            return Err(Error::failed_to_parse(
                                "Range-based bounds must be numbers",
                            ));
                        }
                        Ok(OwnedVal::new(value))
                    })
                };
                let (lower, upper) = (distance(lower)?, distance(upper)?);
                if let (Some(lower), Some(upper)) = (distance_of(&lower), distance_of(&upper))
                    && compare::compare(lower, upper) == Ordering::Greater
                {
                    return refuse(5339900, "Lower bound must not exceed upper bound");
                }
                let Some([(_, descending)]) = sorting.map(|sorting| sorting.fields.as_slice())
                else {
                    return refuse(5339902, "Range-based bounds require sortBy a single field");
                };
                let descending = *descending;
                Ok(Frame::Range(lower, upper, RangeOrder { unit, descending }))
            }
        }
    }

    /// The documents of a positional window, for the document at `at` of `count`: the first index,
    /// and one after the last.
    pub(super) fn places(&self, at: usize, count: usize) -> (usize, usize) {
        let Frame::Documents(lower, upper) = self else { return (0, count) };
        let last = i64::try_from(count).unwrap_or(i64::MAX);
        let here = i64::try_from(at).unwrap_or(i64::MAX);
        let place = |bound: &FrameBound<i64>, open: i64| match bound {
            FrameBound::Unbounded => open,
            FrameBound::Current => here,
            FrameBound::Offset(count) => here.saturating_add(*count),
        };
        let from = place(lower, 0).clamp(0, last);
        let to = place(upper, last).saturating_add(1).clamp(from, last.max(from));
        (usize::try_from(from).unwrap_or(0), usize::try_from(to).unwrap_or(0))
    }

    /// Whether windows depend on the values of the sort field.
    pub(super) fn reads_keys(&self) -> bool {
        matches!(self, Frame::Range(..))
    }

    /// The documents of the window of the document at `at` of `count`: the first index, and one
    /// after the last.
    pub(super) fn range(&self, at: usize, count: usize, keys: &Column) -> Result<(usize, usize)> {
        match self {
            Frame::Documents(..) => Ok(self.places(at, count)),
            Frame::Range(lower, upper, RangeOrder { unit, descending }) => {
                if *descending {
                    return refuse(5429404, "Range-based bounds require an ascending sortBy");
                }
                let key = keys.get(at);
                if !matches!((key, unit), (Val::DateTime(_), Some(_))) {
                    // Refuses values of the wrong type, whatever the bounds are.
                    moved(key, Val::Int32(0), unit.as_deref())?;
                }
                let edge = |bound: &FrameBound<OwnedVal>| match bound {
                    FrameBound::Unbounded | FrameBound::Current => Ok(None),
                    FrameBound::Offset(by) => Ok(Some(moved(key, by.get(), unit.as_deref())?)),
                };
                let (low, high) = (edge(lower)?, edge(upper)?);
                // `current` means the document itself, not all that are equal to it.
                let open = if matches!(lower, FrameBound::Current) { at } else { 0 };
                let from = low.map_or(open, |low: OwnedVal| {
                    keys.partition_point(|key| compare::compare(key, low.get()) == Ordering::Less)
                });
                let open = if matches!(upper, FrameBound::Current) { at + 1 } else { count };
                let to = high.map_or(open, |high: OwnedVal| {
                    keys.partition_point(|key| {
                        compare::compare(key, high.get()) != Ordering::Greater
                    })
                });
                Ok((from, to.max(from)))
            }
        }
    }

    /// Whether every window begins at the start of the partition.
    pub(super) fn begins_open(&self) -> bool {
        match self {
            Frame::Documents(lower, _) => *lower == FrameBound::Unbounded,
            Frame::Range(lower, ..) => matches!(lower, FrameBound::Unbounded),
        }
    }
}

/// The distance of a bound from the document's value; `None` where it is open.
fn distance_of(bound: &FrameBound<OwnedVal>) -> Option<Val<'_>> {
    match bound {
        FrameBound::Unbounded => None,
        FrameBound::Current => Some(Val::Int32(0)),
        FrameBound::Offset(by) => Some(by.get()),
    }
}

fn place(bound: &FrameBound<i64>, open: i64) -> i64 {
    match bound {
        FrameBound::Unbounded => open,
        FrameBound::Current => 0,
        FrameBound::Offset(count) => *count,
    }
}

fn pair(value: Val<'_>) -> Result<(Val<'_>, Val<'_>)> {
    let Val::Array(list) = value else {
        return Err(Error::failed_to_parse("Window bounds must be an array"));
    };
    pair_of(list).ok_or_else(|| Error::failed_to_parse("Window bounds must be a 2-element array"))
}

fn pair_of(list: RawDoc<'_>) -> Option<(Val<'_>, Val<'_>)> {
    let mut values = list.iter().map(|(_, value)| value.get());
    let pair = (values.next()?, values.next()?);
    values.next().is_none().then_some(pair)
}

fn bound<T>(
    value: Val<'_>,
    context: &StageContext<'_>,
    read: impl Fn(Val<'_>) -> Result<T>,
) -> Result<FrameBound<T>> {
    match value {
        Val::String("unbounded") => Ok(FrameBound::Unbounded),
        Val::String("current") => Ok(FrameBound::Current),
        Val::String(other) if !other.starts_with('$') => Err(Error::failed_to_parse(format!(
            "Window bounds must be 'unbounded', 'current', or a number, found {other}"
        ))),
        value => match Expr::parse(value, context)?.as_constant() {
            Some(constant) if constant.is_number() => Ok(FrameBound::Offset(read(constant)?)),
            _ => Err(Error::failed_to_parse("Window bounds expression must be a constant number")),
        },
    }
}

/// Adds an offset to a sort value.
fn moved(key: Val<'_>, by: Val<'_>, unit: Option<&str>) -> Result<OwnedVal> {
    match (key, unit) {
        (Val::DateTime(ms), Some(unit)) => {
            let moved = add_to_date(ms, unit, by.as_i64_exact().unwrap_or(0))?;
            Ok(OwnedVal::new(Val::DateTime(moved)))
        }
        (Val::DateTime(_), None) => Err(Error::new(
            Code(5429413),
            "Invalid range: Expected the sortBy field to be a number, but it was a date: use 'unit'",
        )),
        (other, Some(_)) => Err(Error::new(
            Code(5429513),
            format!(
                "Invalid range: Expected the sortBy field to be a Date, but it was {}",
                other.kind().name()
            ),
        )),
        (key, None) if key.is_number() => {
            let sum = number::add(key, by).unwrap_or(Val::Double(f64::NAN));
            Ok(OwnedVal::new(sum))
        }
        (other, None) => Err(Error::new(
            Code(5429414),
            format!(
                "Invalid range: Expected the sortBy field to be a number, but it was {}",
                other.kind().name()
            ),
        )),
    }
}
