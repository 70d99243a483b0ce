//! Dotted paths: `a.b.0.c` split once, and the walk that finds their values.
//!
//! A name selects a field of a document; in an array it selects the field of every document
//! element, and a number also selects the element at that position. Filters, sorts and index keys
//! use these rules.

use crate::raw::{RawDoc, RawVal, Val};
use std::ops::ControlFlow;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The field name.
    pub name: Box<str>,
    /// The array position that the name also means, if it is a number.
    pub index: Option<usize>,
}

/// A dotted path, split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    text: Box<str>,
    parts: Vec<Part>,
}

impl Path {
    /// Splits at the dots. Empty parts are kept: `a..b` steps into the field with the empty name.
    #[must_use]
    pub fn new(text: &str) -> Path {
        let part = |name: &str| Part { name: name.into(), index: array_index(name) };
        Path { text: text.into(), parts: text.split('.').map(part).collect() }
    }

    /// The path as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The steps.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The first step's name.
    #[must_use]
    pub fn first(&self) -> &str {
        self.parts.first().map_or("", |part| &part.name)
    }

    /// Whether the path is a plain field name.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.parts.len() == 1
    }

    /// The value at the path when no array is stepped through; `Missing` otherwise.
    #[must_use]
    pub fn get<'a>(&self, doc: RawDoc<'a>) -> Val<'a> {
        self.find(doc).map_or(Val::Missing, RawVal::get)
    }

    /// The undecoded value at the path when no array is stepped through.
    #[must_use]
    pub fn find<'a>(&self, doc: RawDoc<'a>) -> Option<RawVal<'a>> {
        let (last, steps) = self.parts.split_last()?;
        let mut doc = doc;
        for step in steps {
            doc = doc.find(&step.name)?.as_doc()?;
        }
        doc.find(&last.name)
    }
}

/// The array position of a path part: digits without a leading zero.
#[must_use]
pub fn array_index(name: &str) -> Option<usize> {
    let plain =
        name.bytes().all(|b| b.is_ascii_digit()) && (name.len() == 1 || !name.starts_with('0'));
    if plain { name.parse().ok() } else { None }
}

/// A value at the end of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathValue<'a> {
    /// The value; `Missing` if the path does not exist.
    pub value: Val<'a>,
    /// The position in the outermost array on the path, for the positional `$`.
    pub position: Option<usize>,
    /// Whether the value is an element of the array at the end of the path.
    pub element: bool,
}

/// Visits every value that `parts` mean in `doc`, as MongoDB's filters see them: arrays on the way
/// are stepped through, an array at the end is visited element by element and then as a whole
/// (only as a whole when `expand_leaf` is false). Stops early on `Break`.
pub fn walk<'a, B>(
    doc: RawDoc<'a>,
    parts: &[Part],
    expand_leaf: bool,
    visit: &mut dyn FnMut(PathValue<'a>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    step(doc, parts, None, expand_leaf, visit)
}

fn step<'a, B>(
    doc: RawDoc<'a>,
    parts: &[Part],
    position: Option<usize>,
    expand_leaf: bool,
    visit: &mut dyn FnMut(PathValue<'a>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let Some((part, rest)) = parts.split_first() else { return ControlFlow::Continue(()) };
    match doc.find(&part.name) {
        None => visit(PathValue { value: Val::Missing, position, element: false }),
        Some(value) => visit_value(value, rest, position, expand_leaf, visit),
    }
}

/// Continues from the value where `rest` begins.
fn visit_value<'a, B>(
    value: RawVal<'a>,
    rest: &[Part],
    position: Option<usize>,
    expand_leaf: bool,
    visit: &mut dyn FnMut(PathValue<'a>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    if rest.is_empty() {
        if let (Some(array), true) = (value.as_array(), expand_leaf) {
            for (at, (_, element)) in array.iter().enumerate() {
                let position = position.or(Some(at));
                visit(PathValue { value: element.get(), position, element: true })?;
            }
        }
        return visit(PathValue { value: value.get(), position, element: false });
    }
    if let Some(doc) = value.as_doc() {
        return step(doc, rest, position, expand_leaf, visit);
    }
    let Some(array) = value.as_array() else {
        return visit(PathValue { value: Val::Missing, position, element: false });
    };
    let wanted = rest.first().and_then(|part| part.index);
    for (at, (_, element)) in array.iter().enumerate() {
        let position = position.or(Some(at));
        if let Some(doc) = element.as_doc() {
            step(doc, rest, position, expand_leaf, visit)?;
        }
        if wanted == Some(at) {
            let after = rest.get(1..).unwrap_or(&[]);
            // An element that a number selects is visited as a whole; a plain value has no fields.
            if after.is_empty() {
                visit(PathValue { value: element.get(), position, element: false })?;
            } else if element.as_doc().is_some() || element.as_array().is_some() {
                visit_value(element, after, position, expand_leaf, visit)?;
            }
        }
    }
    ControlFlow::Continue(())
}
