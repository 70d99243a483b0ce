//! The modifiers of arrays: `$push`, `$addToSet`, `$pop`, `$pull` and `$pullAll`.

use super::modifier::{ModifierContext, nesting, wrap};
use crate::ParseContext;
use crate::filter::Filter;
use crate::interrupt;
use crate::show::show;
use hashbrown::HashSet;
use std::cmp::Ordering;
use value::compare::compare_with;
use value::path::Path;
use value::{Collation, DocBuf, Error, OwnedVal, RawVal, Result, Val, Writer, keys};

/// `$push` with its clauses.
#[derive(Debug)]
pub(super) struct Push {
    values: Vec<OwnedVal>,
    slice: Option<i64>,
    position: Option<i64>,
    sort: Option<Order>,
}

/// How elements are sorted: as a whole, or by fields; true is descending.
#[derive(Debug)]
enum Order {
    Whole(bool),
    Fields(Vec<(Path, bool)>),
}

impl Push {
    /// Whether it only appends its values.
    pub(super) fn appends(&self) -> bool {
        self.slice.is_none() && self.sort.is_none() && self.position.is_none()
    }

    pub(super) fn parse(value: Val<'_>) -> Result<Push> {
        let mut push = Push { values: Vec::new(), slice: None, position: None, sort: None };
        let each = value.as_doc().and_then(|doc| doc.find("$each").map(|each| (doc, each)));
        let Some((clauses, each)) = each else {
            push.values.push(OwnedVal::new(value));
            return Ok(push);
        };
        let Some(each) = each.as_array() else {
            return Err(Error::bad_value(format!(
                "The argument to $each in $push must be an array but it was of type: {}",
                each.kind().name()
            )));
        };
        push.values = each.iter().map(|(_, value)| OwnedVal::new(value.get())).collect();
        for (name, clause) in clauses {
            match name {
                "$each" => {}
                "$slice" => {
                    push.slice = Some(clause.get().as_i64_exact().ok_or_else(|| {
                        Error::bad_value(format!(
                            "The value for $slice must be an integer value but was given type: {}",
                            clause.kind().name()
                        ))
                    })?);
                }
                "$position" => {
                    push.position = Some(clause.get().as_i64_exact().ok_or_else(|| {
                        Error::bad_value(format!(
                            "The value for $position must be an integer value, not of type: {}",
                            clause.kind().name()
                        ))
                    })?);
                }
                "$sort" => push.sort = Some(Order::parse(clause.get())?),
                other => {
                    return Err(Error::bad_value(format!("Unrecognized clause in $push: {other}")));
                }
            }
        }
        Ok(push)
    }

    /// Deepest nesting of the pushed values.
    pub(super) fn nesting(&self) -> usize {
        self.values.iter().map(|value| nesting(value.get())).max().unwrap_or(0)
    }

    pub(super) fn apply(
        &self,
        name: &str,
        old: Option<RawVal<'_>>,
        context: &ModifierContext<'_>,
        out: &mut Writer<'_>,
    ) -> Result<()> {
        let array = match old {
            None => None,
            Some(old) => Some(old.as_array().ok_or_else(|| {
                Error::bad_value(format!(
                    "The field '{}' must be an array but is of type {} in document {}",
                    context.path,
                    old.kind().name(),
                    context.id()
                ))
            })?),
        };
        if self.slice.is_none() && self.position.is_none() && self.sort.is_none() {
            // The usual case: the old elements are copied at once.
            let count = array.map_or(0, |array| array.count());
            let token = out.open(name, true);
            if let Some(array) = array {
                out.extend(array);
            }
            for (at, value) in (count..).zip(&self.values) {
                out.raw(&at.to_string(), value.raw());
            }
            out.close(token);
            return Ok(());
        }
        let mut elements: Vec<RawVal<'_>> =
            array.into_iter().flatten().map(|(_, element)| element).collect();
        let at = match self.position {
            None => elements.len(),
            Some(position) if position < 0 => {
                let back = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
                elements.len().saturating_sub(back)
            }
            Some(position) => usize::try_from(position).unwrap_or(usize::MAX).min(elements.len()),
        };
        elements.splice(at..at, self.values.iter().map(OwnedVal::raw));
        if !self.values.is_empty() || (self.sort.is_some() && !elements.is_empty()) {
            context.touched.set(true);
        }
        if let Some(order) = &self.sort {
            interrupt::sort_by(&mut elements, |a, b| order.compare(*a, *b, context.collation))?;
        }
        let kept = match self.slice {
            None => elements.as_slice(),
            Some(slice) => {
                let count = usize::try_from(slice.unsigned_abs()).unwrap_or(usize::MAX);
                if slice < 0 {
                    elements.get(elements.len().saturating_sub(count)..).unwrap_or(&[])
                } else {
                    elements.get(..count).unwrap_or(&elements)
                }
            }
        };
        write_array(name, kept.iter().copied(), out);
        Ok(())
    }
}

impl Order {
    fn parse(value: Val<'_>) -> Result<Order> {
        if value.is_number() {
            return match value.as_i64_exact() {
                Some(1) => Ok(Order::Whole(false)),
                Some(-1) => Ok(Order::Whole(true)),
                _ => Err(Error::bad_value("The $sort element value must be either 1 or -1")),
            };
        }
        let Some(doc) = value.as_doc() else {
            return Err(Error::bad_value(
                "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort \
                 embedded fields",
            ));
        };
        if doc.is_empty() {
            return Err(Error::bad_value(
                "The sort pattern is empty when it should be a set of fields.",
            ));
        }
        let mut fields = Vec::new();
        for (path, direction) in doc {
            let descending = match direction.get().as_i64_exact() {
                Some(1) => false,
                Some(-1) => true,
                _ => {
                    return Err(Error::bad_value("The sort element value must be either 1 or -1"));
                }
            };
            if path.is_empty() {
                return Err(Error::bad_value("The sort field cannot be empty"));
            }
            if path.split('.').any(str::is_empty) {
                return Err(Error::bad_value(format!(
                    "The sort field is a dotted field but has an empty part: {path}"
                )));
            }
            fields.push((Path::new(path), descending));
        }
        Ok(Order::Fields(fields))
    }

    fn compare(&self, a: RawVal<'_>, b: RawVal<'_>, collation: Option<&Collation>) -> Ordering {
        let directed = |order: Ordering, descending: bool| {
            if descending { order.reverse() } else { order }
        };
        match self {
            Order::Whole(descending) => {
                directed(compare_with(a.get(), b.get(), collation), *descending)
            }
            Order::Fields(fields) => {
                for (path, descending) in fields {
                    let order = compare_with(field(path, a), field(path, b), collation);
                    if order != Ordering::Equal {
                        return directed(order, *descending);
                    }
                }
                Ordering::Equal
            }
        }
    }
}

/// The value of a field in an element; null where there is none.
fn field<'v>(path: &Path, element: RawVal<'v>) -> Val<'v> {
    element.as_doc().and_then(|doc| path.find(doc)).map_or(Val::Null, RawVal::get)
}

fn write_array<'v>(name: &str, elements: impl Iterator<Item = RawVal<'v>>, out: &mut Writer<'_>) {
    out.array(name, |array| elements.for_each(|element| array.push_raw(element)));
}

/// The values of `$addToSet`, each once.
pub(super) fn parse_add_to_set(
    value: Val<'_>,
    collation: Option<&Collation>,
) -> Result<Vec<OwnedVal>> {
    let first = value.as_doc().and_then(|doc| doc.first().map(|first| (doc, first)));
    let Some((doc, ("$each", each))) = first else { return Ok(vec![OwnedVal::new(value)]) };
    let Some(array) = each.as_array() else {
        return Err(Error::type_mismatch(format!(
            "The argument to $each in $addToSet must be an array but it was of type {}",
            each.kind().name()
        )));
    };
    if doc.count() > 1 {
        return Err(Error::bad_value(format!(
            "Found unexpected fields after $each in $addToSet: {}",
            show(value)
        )));
    }
    let mut known = HashSet::new();
    let fresh = |value: &Val<'_>| known.insert(keys::key_with(*value, collation));
    Ok(array.iter().map(|(_, v)| v.get()).filter(fresh).map(OwnedVal::new).collect())
}

/// Appends the values that the array does not hold yet.
pub(super) fn add_to_set(
    values: &[OwnedVal],
    name: &str,
    old: Option<RawVal<'_>>,
    context: &ModifierContext<'_>,
    out: &mut Writer<'_>,
) -> Result<()> {
    let Some(old) = old else {
        write_array(name, values.iter().map(OwnedVal::raw), out);
        return Ok(());
    };
    let Some(array) = old.as_array() else {
        return Err(Error::bad_value(format!(
            "Cannot apply $addToSet to non-array field. Field named '{}' has non-array type {}",
            context.path.rsplit('.').next().unwrap_or(""),
            old.kind().name()
        )));
    };
    let held = |value: &&OwnedVal| {
        let value = value.get();
        if interrupt::should_stop(array.bytes().len() / 16) {
            return false;
        }
        !array
            .iter()
            .any(|(_, element)| compare_with(element.get(), value, context.collation).is_eq())
    };
    let count = array.count();
    let token = out.open(name, true);
    out.extend(array);
    for (at, value) in (count..).zip(values.iter().filter(held)) {
        out.raw(&at.to_string(), value.raw());
    }
    out.close(token);
    interrupt::confirm()
}

/// Removes the first or last element.
pub(super) fn pop(
    first: bool,
    name: &str,
    old: Option<RawVal<'_>>,
    context: &ModifierContext<'_>,
    out: &mut Writer<'_>,
) -> Result<()> {
    let Some(old) = old else { return Ok(()) };
    let Some(array) = old.as_array() else {
        return Err(Error::type_mismatch(format!(
            "Path '{}' contains an element of non-array type '{}'",
            context.path,
            old.kind().name()
        )));
    };
    let elements = array.iter().map(|(_, element)| element);
    if first {
        write_array(name, elements.skip(1), out);
    } else {
        let count = array.count().saturating_sub(1);
        write_array(name, elements.take(count), out);
    }
    Ok(())
}

/// Which elements `$pull` and `$pullAll` remove.
#[derive(Debug)]
pub(super) enum Pull {
    /// Elements that equal one of these values.
    Any(Vec<OwnedVal>),
    /// Documents that match a filter.
    Documents(Filter),
    /// Values that satisfy a condition; the filter gets them in the field `VALUE`.
    Values(Filter),
}

/// The field in which a filter gets the value.
const VALUE: &str = "value";

/// Operators that apply to the value itself: `{$pull: {a: {$gte: 3}}}`.
static VALUE_OPERATORS: &[&str] = &[
    "$all",
    "$bitsAllClear",
    "$bitsAllSet",
    "$bitsAnyClear",
    "$bitsAnySet",
    "$elemMatch",
    "$eq",
    "$exists",
    "$geoIntersects",
    "$geoWithin",
    "$gt",
    "$gte",
    "$in",
    "$lt",
    "$lte",
    "$mod",
    "$ne",
    "$near",
    "$nearSphere",
    "$nin",
    "$options",
    "$regex",
    "$size",
    "$type",
    "$within",
];

impl Pull {
    pub(super) fn parse(value: Val<'_>, ctx: &ParseContext<'_>) -> Result<Pull> {
        let wrapped = |value: Val<'_>| {
            let doc = DocBuf::build(|out| {
                out.append(VALUE, value);
            });
            Filter::parse_for_documents(doc.as_doc(), ctx)
        };
        match value {
            Val::Regex(..) => Ok(Pull::Values(wrapped(value)?)),
            Val::Document(doc) => {
                let operator = doc.first().is_some_and(|(name, _)| VALUE_OPERATORS.contains(&name));
                if operator {
                    Ok(Pull::Values(wrapped(value)?))
                } else {
                    Ok(Pull::Documents(Filter::parse_for_documents(doc, ctx)?))
                }
            }
            other => Ok(Pull::Any(vec![OwnedVal::new(other)])),
        }
    }

    fn removes(&self, element: RawVal<'_>, collation: Option<&Collation>) -> Result<bool> {
        match self {
            Pull::Any(values) => {
                interrupt::charge(values.len())?;
                let equal =
                    |value: &OwnedVal| compare_with(value.get(), element.get(), collation).is_eq();
                Ok(values.iter().any(equal))
            }
            Pull::Documents(filter) => match element.as_doc() {
                Some(doc) => filter.matches(doc),
                None => Ok(false),
            },
            Pull::Values(filter) => filter.matches(wrap(VALUE, element).as_doc()),
        }
    }

    pub(super) fn apply(
        &self,
        name: &str,
        old: Option<RawVal<'_>>,
        context: &ModifierContext<'_>,
        out: &mut Writer<'_>,
    ) -> Result<()> {
        let Some(old) = old else { return Ok(()) };
        let Some(array) = old.as_array() else {
            return Err(Error::bad_value("Cannot apply $pull to a non-array value"));
        };
        let mut kept = Vec::new();
        for (_, element) in array {
            if !self.removes(element, context.collation)? {
                kept.push(element);
            }
        }
        write_array(name, kept.into_iter(), out);
        Ok(())
    }
}
