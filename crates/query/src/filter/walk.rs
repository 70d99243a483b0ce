//! Finds the values at a path, by the rules of filters.
//!
//! A name selects a field of a document, and of every document in an array; a number also selects
//! the array element at its position. An array at the end of the path is visited element by element
//! and then as a whole, unless a number selected it. A path that does not exist visits "missing",
//! except inside arrays of plain values, where it visits nothing.

use crate::interrupt;
use value::path::Part;
use value::{RawDoc, RawVal, Result};

/// The value that a visitor gets if the path does not exist.
pub(super) const MISSING: RawVal<'static> = RawVal { kind: 0, bytes: &[] };

/// Whether `visit` accepts one of the values at the path. It also gets the position in the
/// outermost array on the path. With `expand` the elements of an array at the end are visited too.
pub(super) fn any<'a, F>(
    doc: RawDoc<'a>,
    parts: &[Part],
    position: Option<usize>,
    expand: bool,
    visit: &mut F,
) -> Result<bool>
where
    F: FnMut(RawVal<'a>, Option<usize>) -> Result<bool>,
{
    let Some((part, rest)) = parts.split_first() else { return Ok(false) };
    match doc.find(&part.name) {
        None => visit(MISSING, position),
        Some(value) => visit_value(value, rest, position, expand, visit),
    }
}

/// Continues from the value at the first name of a path.
pub(super) fn visit_value<'a, F>(
    value: RawVal<'a>,
    rest: &[Part],
    position: Option<usize>,
    expand: bool,
    visit: &mut F,
) -> Result<bool>
where
    F: FnMut(RawVal<'a>, Option<usize>) -> Result<bool>,
{
    if rest.is_empty() {
        if expand && let Some(array) = value.as_array() {
            interrupt::charge_array(array)?;
            let mut elements = array.iter();
            let mut at = 0;
            while let Some((_, element)) = elements.next_bytes() {
                if visit(element, position.or(Some(at)))? {
                    return Ok(true);
                }
                at += 1;
            }
        }
        return visit(value, position);
    }
    if let Some(doc) = value.as_doc() {
        return any(doc, rest, position, expand, visit);
    }
    match value.as_array() {
        Some(array) => visit_elements(array, rest, position, expand, visit),
        None => visit(MISSING, position),
    }
}

/// Visits the elements of an array with the rest of the path.
fn visit_elements<'a, F>(
    array: RawDoc<'a>,
    rest: &[Part],
    position: Option<usize>,
    expand: bool,
    visit: &mut F,
) -> Result<bool>
where
    F: FnMut(RawVal<'a>, Option<usize>) -> Result<bool>,
{
    interrupt::charge_array(array)?;
    let wanted = rest.first().and_then(|part| part.index);
    let after = rest.get(1..).unwrap_or(&[]);
    let mut elements = array.iter();
    let mut at = 0;
    while let Some((_, element)) = elements.next_bytes() {
        if let Some(doc) = element.as_doc()
            && any(doc, rest, position.or(Some(at)), expand, visit)?
        {
            return Ok(true);
        }
        // An element that a number selects does not set `position`.
        if wanted == Some(at) {
            let found = if after.is_empty() {
                visit(element, position)?
            } else if let Some(doc) = element.as_doc() {
                any(doc, after, position, expand, visit)?
            } else if let Some(inner) = element.as_array() {
                visit_elements(inner, after, position, expand, visit)?
            } else {
                false
            };
            if found {
                return Ok(true);
            }
        }
        at += 1;
    }
    Ok(false)
}
