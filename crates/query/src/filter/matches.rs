//! Running a compiled filter on a document.
//!
//! Ordinary leaves compare bytes where they lie and allocate nothing. Values compare only within
//! their own type, except that null also means missing and that everything lies between MinKey
//! and MaxKey.

use super::node::{Leaf, Node, Test};
use super::walk::{self, MISSING};
use crate::expr::Env;
use crate::interrupt;
use bumpalo::Bump;
use std::cmp::Ordering;
use value::compare::{compare, compare_with};
use value::{Collation, OwnedVal, RawDoc, RawVal, Result, Val};

const NULL: u8 = 0x0A;
const UNDEFINED: u8 = 0x06;
const STRING: u8 = 0x02;
const ARRAY: u8 = 0x04;
const MIN_KEY: u8 = 0xFF;
const MAX_KEY: u8 = 0x7F;

/// Bytes of a document that are scanned in the time of one step.
const FIELD_BYTES: usize = 256;

impl Node {
    /// Whether a document matches; `position` becomes the array place that made it match.
    ///
    /// # Errors
    /// What an expression gives, or a pattern that takes too many steps.
    pub fn matches(&self, doc: RawDoc<'_>, position: &mut Option<usize>) -> Result<bool> {
        interrupt::charge(1 + doc.bytes().len() / FIELD_BYTES)?;
        match self {
            Node::Leaf(leaf) => leaf.matches(doc, position),
            Node::And(nodes) => {
                for node in nodes {
                    if !node.matches(doc, position)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Node::Or(nodes) => {
                for node in nodes {
                    if node.matches(doc, &mut None)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Node::Nor(nodes) => {
                for node in nodes {
                    if node.matches(doc, &mut None)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Node::Not(node) => Ok(!node.matches(doc, &mut None)?),
            Node::ElemMatchObject { path, filter } => {
                walk::any(doc, path.parts(), None, false, &mut |value, outer| {
                    let found = element_object(value, filter)?;
                    note(position, found, outer)
                })
            }
            Node::ElemMatchValue { path, ops } => {
                walk::any(doc, path.parts(), None, false, &mut |value, outer| {
                    let found = element_value(value, ops)?;
                    note(position, found, outer)
                })
            }
            Node::Expr(node) => {
                let arena = Bump::new();
                let env = Env::new(doc, &arena);
                Ok(node.expr.eval(&env)?.truthy())
            }
            Node::Text(query) => query.matches(doc),
            Node::Schema(schema) => schema.matches(doc),
            Node::Where(node) => node.script.is_true_of(doc),
            Node::SampleRate(rate) => Ok(fastrand::f64() < *rate),
            Node::Const(answer) => Ok(*answer),
        }
    }
}

/// Sets the position in the outermost array, or else of the element that matched.
fn note(position: &mut Option<usize>, found: Option<usize>, outer: Option<usize>) -> Result<bool> {
    if found.is_some() {
        *position = outer.or(found);
    }
    Ok(found.is_some())
}

/// The position of the first element that an `$elemMatch` accepts.
pub(super) fn element(test: &Test, value: RawVal<'_>) -> Result<Option<usize>> {
    match test {
        Test::ElemMatchObject(filter) => element_object(value, filter),
        Test::ElemMatchValue(tests) => element_value(value, tests),
        _ => Ok(None),
    }
}

/// The position of the first element that is a matching document (or array).
fn element_object(value: RawVal<'_>, filter: &Node) -> Result<Option<usize>> {
    let Some(array) = value.as_array() else { return Ok(None) };
    interrupt::charge_array(array)?;
    for (at, (_, element)) in array.iter().enumerate() {
        // An array counts as a document with the names "0", "1", ...
        if let Some(doc) = element.as_doc().or_else(|| element.as_array())
            && filter.matches(doc, &mut None)?
        {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// The position of the first element that passes all tests.
fn element_value(value: RawVal<'_>, tests: &[Test]) -> Result<Option<usize>> {
    let Some(array) = value.as_array() else { return Ok(None) };
    interrupt::charge_array(array)?;
    for (at, (_, element)) in array.iter().enumerate() {
        if all(tests, element)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn all(tests: &[Test], value: RawVal<'_>) -> Result<bool> {
    for test in tests {
        if !test.matches(value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Leaf {
    #[inline]
    fn matches(&self, doc: RawDoc<'_>, position: &mut Option<usize>) -> Result<bool> {
        self.matches_value(doc.find(self.path.first()).unwrap_or(MISSING), position)
    }

    /// The same where the value of the path's first name is known.
    #[inline]
    pub(super) fn matches_value(
        &self,
        value: RawVal<'_>,
        position: &mut Option<usize>,
    ) -> Result<bool> {
        let rest = self.path.parts().get(1..).unwrap_or(&[]);
        // Most paths are single names and most values are not arrays, so that no walk is needed.
        if value.kind == MISSING.kind || (rest.is_empty() && value.kind != ARRAY) {
            return self.test.matches(value);
        }
        let expand = !matches!(self.test, Test::Size(_));
        walk::visit_value(value, rest, None, expand, &mut |value, at| {
            let found = self.test.matches(value)?;
            if found && at.is_some() {
                *position = at;
            }
            Ok(found)
        })
    }
}

impl Test {
    /// Whether one value passes; `MISSING` stands for none.
    ///
    /// # Errors
    /// What a pattern gives that takes too many steps.
    pub fn matches(&self, value: RawVal<'_>) -> Result<bool> {
        Ok(match self {
            Test::Eq(constant) => equals(value, constant),
            Test::Lt(constant) => ordered(value, constant, Ordering::Less, false),
            Test::Lte(constant) => ordered(value, constant, Ordering::Less, true),
            Test::Gt(constant) => ordered(value, constant, Ordering::Greater, false),
            Test::Gte(constant) => ordered(value, constant, Ordering::Greater, true),
            Test::In { values, regexes } => {
                if contains(values, value, None) {
                    return Ok(true);
                }
                for regex in regexes {
                    if regex_matches(regex, value)? {
                        return Ok(true);
                    }
                }
                false
            }
            Test::Exists => value.kind != MISSING.kind,
            Test::Type(types) => types.matches(value),
            Test::Mod { divisor, remainder } => {
                whole_part(value.get()).is_some_and(|n| n.wrapping_rem(*divisor) == *remainder)
            }
            Test::Regex(regex) => return regex_matches(regex, value),
            Test::Size(size) => value
                .as_array()
                .is_some_and(|array| i64::try_from(array.count()).is_ok_and(|n| n == *size)),
            Test::Bits(bits) => bits.matches(value.get()),
            Test::Geo(geo) => {
                let found = geo.matches(value.get());
                interrupt::confirm()?;
                found
            }
            Test::Near(near) => near.matches(value.get()),
            Test::ElemMatchObject(filter) => return Ok(element_object(value, filter)?.is_some()),
            Test::ElemMatchValue(tests) => return Ok(element_value(value, tests)?.is_some()),
            Test::Not(test) => !test.matches(value)?,
            Test::And(tests) => return all(tests, value),
            Test::Collated(collated) => return collated.matches(value),
        })
    }
}

/// Whether a value is null, undefined or missing, which compare as equal.
#[inline]
fn is_null(kind: u8) -> bool {
    kind == NULL || kind == UNDEFINED || kind == MISSING.kind
}

#[inline]
fn equals(value: RawVal<'_>, constant: &OwnedVal) -> bool {
    let constant = constant.raw();
    if constant.kind == NULL {
        return is_null(value.kind);
    }
    if value.kind == constant.kind && has_one_encoding(value.kind) {
        return value.bytes == constant.bytes;
    }
    value.kind().rank() == constant.kind().rank()
        && compare(value.get(), constant.get()) == Ordering::Equal
}

/// Types whose equal values have equal bytes.
#[inline]
fn has_one_encoding(kind: u8) -> bool {
    matches!(kind, 0x02 | 0x07 | 0x08 | 0x09 | 0x10 | 0x11 | 0x12)
}

#[inline]
fn ordered(value: RawVal<'_>, constant: &OwnedVal, wanted: Ordering, or_equal: bool) -> bool {
    let constant = constant.raw();
    if constant.kind == NULL {
        return or_equal && is_null(value.kind);
    }
    if value.kind == STRING && constant.kind == STRING {
        let order = value.string_bytes().cmp(&constant.string_bytes());
        return order == wanted || (or_equal && order == Ordering::Equal);
    }
    if value.kind().rank() != constant.kind().rank() {
        return match constant.kind {
            MAX_KEY => wanted == Ordering::Less,
            MIN_KEY => wanted == Ordering::Greater,
            _ => false,
        };
    }
    let (value, constant) = (value.get(), constant.get());
    // NaN equals NaN and is neither below nor above anything.
    match (is_nan(value), is_nan(constant)) {
        (false, false) => {
            let order = compare(value, constant);
            order == wanted || (or_equal && order == Ordering::Equal)
        }
        (true, true) => or_equal,
        _ => false,
    }
}

fn is_nan(value: Val<'_>) -> bool {
    match value {
        Val::Double(n) => n.is_nan(),
        Val::Decimal(n) => n.is_nan(),
        _ => false,
    }
}

/// Whether sorted constants hold the value.
pub(super) fn contains(
    values: &[OwnedVal],
    value: RawVal<'_>,
    collation: Option<&Collation>,
) -> bool {
    let value = if is_null(value.kind) { Val::Null } else { value.get() };
    values.binary_search_by(|constant| compare_with(constant.get(), value, collation)).is_ok()
}

pub(super) fn regex_matches(regex: &crate::regex::Regex, value: RawVal<'_>) -> Result<bool> {
    let found = match value.string_bytes() {
        Some(text) => regex.is_match_bytes(text),
        None => match value.get() {
            Val::Symbol(text) => regex.is_match(text),
            Val::Regex(pattern, options) => {
                return Ok(pattern == regex.pattern() && options == regex.options());
            }
            _ => return Ok(false),
        },
    };
    match found {
        // As in MongoDB a search that takes too many steps finds nothing.
        Err(error) if error.code() == crate::regex::TOO_MANY_STEPS => Ok(false),
        found => found,
    }
}

/// The whole part of a number that a long can hold.
fn whole_part(value: Val<'_>) -> Option<i64> {
    match value {
        Val::Int32(n) => Some(i64::from(n)),
        Val::Int64(n) => Some(n),
        Val::Double(n) => value::number::double_to_i64_exact(n.trunc()),
        Val::Decimal(n) => n.to_i64_truncate(),
        _ => None,
    }
}
