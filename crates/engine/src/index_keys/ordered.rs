//! Ordered keys: one key for each combination of values of the fields.
//!
//! An array at the end of a path yields a key for each element, an array on the way a key for each
//! document in it. Two different arrays in one compound key would multiply, so they are refused.

use super::Index;
use super::keys::{Key, Keys};
use super::multikey;
use query::interrupt;
use value::path::Part;
use value::{Code, Error, RawDoc, Result, Val, key_types, keys};

/// Steps that it takes to make a key.
const STEPS_OF_KEY: usize = 8;

/// The state of the search for a field's value.
#[derive(Clone, Copy)]
enum Field<'d, 'p> {
    /// To be looked up in this document.
    Pending(RawDoc<'d>, &'p [Part]),
    /// Stopped at an array, with these path parts left.
    AtArray(RawDoc<'d>, &'p [Part]),
    /// Found, or missing.
    Fixed(Val<'d>),
}

impl<'d, 'p> Field<'d, 'p> {
    /// Continues inside one element of the array at which the field stopped.
    fn into_element(self, element: value::RawVal<'d>) -> Field<'d, 'p> {
        match self {
            Field::AtArray(_, []) => Field::Fixed(element.get()),
            Field::AtArray(_, rest) => match element.as_doc() {
                Some(doc) => Field::Pending(doc, rest),
                None => Field::Fixed(Val::Missing),
            },
            other => other,
        }
    }

    /// Returns the field for an empty array, which is indexed as undefined, below null.
    fn at_empty_array(self) -> Field<'d, 'p> {
        match self {
            Field::AtArray(_, []) => Field::Fixed(Val::Undefined),
            Field::AtArray(..) => Field::Fixed(Val::Missing),
            other => other,
        }
    }

    fn value(self) -> Val<'d> {
        if let Field::Fixed(value) = self { value } else { Val::Missing }
    }
}

/// Adds all keys of a document.
///
/// # Errors
/// CannotIndexParallelArrays, or a key that is longer than the store allows.
pub fn keys(index: &Index, doc: RawDoc<'_>, out: &mut Keys) -> Result<()> {
    each_combination(index, doc, out, &mut |values, _, out| {
        if index.sparse && values.iter().all(|value| value.is_missing()) {
            return Ok(());
        }
        let mut key = Key { values: Vec::with_capacity(24), types: Vec::new() };
        let collation = index.collation.as_deref();
        for (value, field) in values.iter().zip(&index.fields) {
            keys::encode_with(&mut key.values, *value, field.descending, collation);
            if collation.is_none() {
                // A collation key does not contain its text, so such an index covers nothing.
                key_types::append(&mut key.types, *value);
            }
        }
        key_types::trim(&mut key.types);
        out.add(key)
    })
}

/// A callback for one combination: its values, and the bits of the fields that are arrays so far.
pub(super) type Visit<'v> = dyn FnMut(&[Val<'_>], u64, &mut Keys) -> Result<()> + 'v;

/// Visits each combination of values that the index's fields hold in a document.
///
/// # Errors
/// CannotIndexParallelArrays, and errors of `visit`.
pub(super) fn each_combination(
    index: &Index,
    doc: RawDoc<'_>,
    out: &mut Keys,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let fields: Fields<'_, '_> =
        index.fields.iter().map(|field| Field::Pending(doc, field.path.parts())).collect();
    expand(index, fields, out, visit)
}

type Fields<'d, 'p> = smallvec::SmallVec<[Field<'d, 'p>; 4]>;

fn expand(
    index: &Index,
    mut fields: Fields<'_, '_>,
    out: &mut Keys,
    visit: &mut Visit<'_>,
) -> Result<()> {
    for field in &mut fields {
        *field = resolve(*field, &mut out.ambiguous);
    }
    let mut array: Option<(usize, RawDoc<'_>)> = None;
    for (at, field) in fields.iter().enumerate() {
        let Field::AtArray(found, rest) = field else { continue };
        match array {
            None => array = Some((at, *found)),
            Some((first, known)) if !std::ptr::eq(known.bytes(), found.bytes()) => {
                let name = |at: usize| index.fields.get(at).map_or("", |f| f.path.text());
                return Err(Error::new(
                    Code::CANNOT_INDEX_PARALLEL_ARRAYS,
                    format!("cannot index parallel arrays [{}] [{}]", name(at), name(first)),
                ));
            }
            Some(_) => {}
        }
        out.multikey |= multikey::component(&index.fields, at, rest.len());
    }
    let Some((_, array)) = array else { return emit(&fields, out, visit) };
    if array.is_empty() {
        let fields: Fields<'_, '_> = fields.into_iter().map(Field::at_empty_array).collect();
        return emit(&fields, out, visit);
    }
    for (_, element) in array {
        interrupt::charge(STEPS_OF_KEY)?;
        let fields = fields.iter().map(|field| field.into_element(element)).collect();
        expand(index, fields, out, visit)?;
    }
    Ok(())
}

fn emit(fields: &[Field<'_, '_>], out: &mut Keys, visit: &mut Visit<'_>) -> Result<()> {
    let values: smallvec::SmallVec<[Val<'_>; 4]> =
        fields.iter().map(|field| field.value()).collect();
    visit(&values, out.multikey, out)
}

/// Follows the path of a field through documents up to its value, a missing field or an array.
/// Sets `ambiguous` if a number is both a position and a field name.
fn resolve<'d, 'p>(field: Field<'d, 'p>, ambiguous: &mut bool) -> Field<'d, 'p> {
    let Field::Pending(mut doc, mut parts) = field else { return field };
    loop {
        let Some((part, rest)) = parts.split_first() else { return Field::Fixed(Val::Missing) };
        let Some(mut value) = doc.find(&part.name) else { return Field::Fixed(Val::Missing) };
        parts = rest;
        // A number after an array selects one element, unless an element has a field of that name.
        while let (Some(array), Some((next, after))) = (value.as_array(), parts.split_first()) {
            let Some(place) = next.index else { break };
            let named = |(_, e): (&str, value::RawVal<'_>)| {
                e.as_doc().is_some_and(|d| d.find(&next.name).is_some())
            };
            if array.iter().any(named) {
                *ambiguous |= array.iter().nth(place).is_some();
                break;
            }
            match array.iter().nth(place) {
                Some((_, element)) => value = element,
                None => return Field::Fixed(Val::Missing),
            }
            parts = after;
        }
        if let Some(array) = value.as_array() {
            return Field::AtArray(array, parts);
        }
        if parts.is_empty() {
            return Field::Fixed(value.get());
        }
        match value.as_doc() {
            Some(inner) => doc = inner,
            None => return Field::Fixed(Val::Missing),
        }
    }
}

/// Returns the field values of one key as in the document, for `keyValue` in E11000. Descends
/// through arrays to the first element, as the message shows one offending key.
#[must_use]
pub fn key_values(index: &Index, doc: RawDoc<'_>, wanted: &[u8]) -> value::DocBuf {
    let mut found: Option<value::DocBuf> = None;
    let fields: Vec<Field<'_, '_>> =
        index.fields.iter().map(|field| Field::Pending(doc, field.path.parts())).collect();
    find_values(index, fields, wanted, &mut found);
    found.unwrap_or_default()
}

fn find_values(
    index: &Index,
    mut fields: Vec<Field<'_, '_>>,
    wanted: &[u8],
    found: &mut Option<value::DocBuf>,
) {
    if found.is_some() {
        return;
    }
    for field in &mut fields {
        *field = resolve(*field, &mut false);
    }
    let array = fields.iter().find_map(|field| match field {
        Field::AtArray(array, _) => Some(*array),
        _ => None,
    });
    let Some(array) = array else {
        let mut key = Vec::new();
        for (field, spec) in fields.iter().zip(&index.fields) {
            let collation = index.collation.as_deref();
            keys::encode_with(&mut key, field.value(), spec.descending, collation);
        }
        if key == wanted {
            *found = Some(value::DocBuf::build(|out| {
                for (field, spec) in fields.iter().zip(&index.fields) {
                    let value = field.value();
                    let value = if value.is_missing() { Val::Null } else { value };
                    out.append(spec.path.text(), value);
                }
            }));
        }
        return;
    };
    if array.is_empty() {
        let fields = fields.into_iter().map(Field::at_empty_array).collect();
        return find_values(index, fields, wanted, found);
    }
    for (_, element) in array {
        let fields = fields.iter().map(|field| field.into_element(element)).collect();
        find_values(index, fields, wanted, found);
    }
}
