//! The operators that test a field's values: one row and one function each.

use super::bits;
use super::node::{BitsPredicate, Test};
use super::parse::{Nesting, Parser, is_operators, top_operator};
use super::types::TypeSet;
use crate::geo::{Geo, GeoPredicate, Near};
use crate::interrupt;
use crate::regex::Regex;
use crate::show::show;
use value::compare::{compare, equal};
use value::{Code, Error, OwnedVal, RawDoc, Result, Val};

/// An operator on a field.
pub struct Operator {
    /// With its dollar.
    pub name: &'static str,
    /// Compiles the argument; `None` if the operator only modifies another one.
    pub(super) parse: Parse,
}

type Parse = fn(&Parser<'_>, &'static str, Val<'_>, &OperatorContext<'_>) -> Result<Option<Test>>;

/// The field and the nesting that an operator belongs to.
pub(super) struct OperatorContext<'s> {
    /// The field's path.
    pub(super) path: &'s str,
    /// The document of operators that contains it.
    pub(super) siblings: RawDoc<'s>,
    pub(super) place: Nesting,
}

/// Sorted by name.
static OPERATORS: &[Operator] = &[
    Operator { name: "$all", parse: all },
    Operator { name: "$bitsAllClear", parse: bits_all_clear },
    Operator { name: "$bitsAllSet", parse: bits_all_set },
    Operator { name: "$bitsAnyClear", parse: bits_any_clear },
    Operator { name: "$bitsAnySet", parse: bits_any_set },
    Operator { name: "$elemMatch", parse: elem_match },
    Operator { name: "$eq", parse: eq },
    Operator { name: "$exists", parse: exists },
    Operator { name: "$geoIntersects", parse: geo_intersects },
    Operator { name: "$geoNear", parse: near },
    Operator { name: "$geoWithin", parse: geo_within },
    Operator { name: "$gt", parse: gt },
    Operator { name: "$gte", parse: gte },
    Operator { name: "$in", parse: is_in },
    Operator { name: "$lt", parse: lt },
    Operator { name: "$lte", parse: lte },
    Operator { name: "$maxDistance", parse: near_distance },
    Operator { name: "$minDistance", parse: near_distance },
    Operator { name: "$mod", parse: modulo },
    Operator { name: "$ne", parse: ne },
    Operator { name: "$near", parse: near },
    Operator { name: "$nearSphere", parse: near },
    Operator { name: "$nin", parse: nin },
    Operator { name: "$not", parse: not },
    Operator { name: "$options", parse: options },
    Operator { name: "$regex", parse: regex },
    Operator { name: "$size", parse: size },
    Operator { name: "$type", parse: of_type },
    Operator { name: "$within", parse: geo_within },
];

/// All operators on fields, for the documentation.
#[must_use]
pub fn operators() -> &'static [Operator] {
    OPERATORS
}

pub(super) fn find(name: &str) -> Option<&'static Operator> {
    let at = OPERATORS.binary_search_by(|operator| operator.name.cmp(name)).ok()?;
    OPERATORS.get(at)
}

/// The error for a name that is no operator on fields.
#[cold]
pub(super) fn unknown(name: &str) -> Error {
    match name {
        "$where" => Error::bad_value("$where cannot be applied to a field"),
        _ => Error::bad_value(format!("unknown operator: {name}")),
    }
}

/// `{field: value}`.
pub(super) fn equality(value: Val<'_>) -> Result<Test> {
    match value {
        Val::Regex(pattern, options) => Ok(Test::Regex(Regex::new(pattern, options)?)),
        Val::Undefined => Err(Error::bad_value("cannot compare to undefined")),
        value => Ok(Test::Eq(OwnedVal::new(value))),
    }
}

fn eq(
    _: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    _: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    // Unlike in `{field: /x/}`, a pattern is a plain value here.
    if let Val::Undefined = value {
        return Err(Error::bad_value("cannot compare to undefined"));
    }
    Ok(Some(Test::Eq(OwnedVal::new(value))))
}

fn ne(
    _: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    _: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    match value {
        Val::Regex(..) => Err(Error::bad_value("Can't have regex as arg to $ne.")),
        value => Ok(Some(Test::Not(Box::new(equality(value)?)))),
    }
}

fn bound(value: Val<'_>, site: &OperatorContext<'_>) -> Result<OwnedVal> {
    match value {
        Val::Regex(..) => Err(Error::bad_value(format!(
            "Can't have RegEx as arg to predicate over field '{}'.",
            site.path
        ))),
        Val::Undefined => Err(Error::bad_value("cannot compare to undefined")),
        value => Ok(OwnedVal::new(value)),
    }
}

fn gt(
    _: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Gt(bound(value, site)?)))
}

fn gte(
    _: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Gte(bound(value, site)?)))
}

fn lt(
    _: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Lt(bound(value, site)?)))
}

fn lte(
    _: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Lte(bound(value, site)?)))
}

/// Steps that it takes to read a value of `$in`.
const STEPS_OF_MEMBER: usize = 8;

fn members(name: &str, value: Val<'_>) -> Result<Test> {
    let Val::Array(array) = value else {
        return Err(Error::bad_value(format!("{name} needs an array")));
    };
    let mut values = Vec::new();
    let mut regexes = Vec::new();
    for (_, element) in array {
        interrupt::charge(STEPS_OF_MEMBER)?;
        match element.get() {
            Val::Regex(pattern, options) => regexes.push(Regex::new(pattern, options)?),
            Val::Undefined => {
                return Err(Error::bad_value("InMatchExpression equality cannot be undefined"));
            }
            Val::Document(doc) if is_operators(doc, false) => {
                return Err(Error::bad_value("cannot nest $ under $in"));
            }
            value => values.push(OwnedVal::new(value)),
        }
    }
    interrupt::sort_by(&mut values, |a, b| compare(a.get(), b.get()))?;
    Ok(member_of(values, regexes))
}

/// The test for one of these values or patterns.
pub(super) fn member_of(mut values: Vec<OwnedVal>, mut regexes: Vec<Regex>) -> Test {
    values.sort_by(|a, b| compare(a.get(), b.get()));
    values.dedup_by(|a, b| equal(a.get(), b.get()));
    if values.len() + regexes.len() == 1 {
        if let Some(value) = values.pop() {
            return Test::Eq(value);
        }
        if let Some(regex) = regexes.pop() {
            return Test::Regex(regex);
        }
    }
    Test::In { values, regexes }
}

fn is_in(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    _: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(members(name, value)?))
}

fn nin(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    _: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Not(Box::new(members(name, value)?))))
}

fn exists(
    _: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    _: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(if value.truthy() { Test::Exists } else { Test::Not(Box::new(Test::Exists)) }))
}

fn of_type(
    _: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Type(TypeSet::parse(value, site.path)?)))
}

fn size(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    _: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    let size = non_negative(name, value)
        .map_err(|error| Error::bad_value(format!("Failed to parse $size. {}", error.message())))?;
    Ok(Some(Test::Size(size)))
}

/// A whole number of at least 0, with the messages that MongoDB has for others.
pub(super) fn non_negative(name: &str, value: Val<'_>) -> Result<i64> {
    let shown = || format!("{name}: {}", show(value));
    if !value.is_number() {
        return Err(Error::failed_to_parse(format!("Expected a number in: {}", shown())));
    }
    let Some(number) = value.as_i64_exact() else {
        let whole = value.as_f64().is_some_and(|n| n.trunc() == n);
        let problem =
            if whole { "Cannot represent as a 64-bit integer" } else { "Expected an integer" };
        return Err(Error::failed_to_parse(format!("{problem}: {}", shown())));
    };
    if number < 0 {
        return Err(Error::failed_to_parse(format!(
            "Expected a non-negative number in: {}",
            shown()
        )));
    }
    Ok(number)
}

fn modulo(
    _: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    _: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    let malformed = |what: &str| Err(Error::bad_value(format!("malformed mod, {what}")));
    let Val::Array(array) = value else { return malformed("needs to be an array") };
    let mut elements = array.iter().map(|(_, element)| element.get());
    let (Some(divisor), Some(remainder)) = (elements.next(), elements.next()) else {
        return malformed("not enough elements");
    };
    if elements.next().is_some() {
        return malformed("too many elements");
    }
    let divisor = mod_number("divisor", divisor)?;
    let remainder = mod_number("remainder", remainder)?;
    if divisor == 0 {
        return Err(Error::bad_value("divisor cannot be 0"));
    }
    Ok(Some(Test::Mod { divisor, remainder }))
}

fn mod_number(what: &str, value: Val<'_>) -> Result<i64> {
    let invalid = |why: &str| {
        Error::bad_value(format!("malformed mod, {what} value is invalid :: caused by :: {why}"))
    };
    let whole = match value {
        Val::Int32(n) => Some(i64::from(n)),
        Val::Int64(n) => Some(n),
        Val::Double(n) if !n.is_finite() => {
            return Err(invalid("Unable to coerce NaN/Inf to integral type"));
        }
        Val::Decimal(n) if !n.is_finite() => {
            return Err(invalid("Unable to coerce NaN/Inf to integral type"));
        }
        Val::Double(n) => value::number::double_to_i64_exact(n.trunc()),
        Val::Decimal(n) => n.to_i64_truncate(),
        _ => return Err(Error::bad_value(format!("malformed mod, {what} not a number"))),
    };
    whole.ok_or_else(|| invalid("Out of bounds coercing to integral value"))
}

fn regex(
    _: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    // Of several the last one is used; options may be given once.
    let named = |wanted: &'static str| {
        let all = site.siblings.iter().filter(move |(name, _)| *name == wanted);
        all.map(|(_, value)| value.get())
    };
    if named("$options").count() > 1 {
        return Err(Error::new(Code(51075), "options set in both $regex and $options"));
    }
    let value = named("$regex").last().unwrap_or(value);
    let (pattern, own_options) = match value {
        Val::String(pattern) => (pattern, ""),
        Val::Regex(pattern, options) => (pattern, options),
        _ => return Err(Error::bad_value("$regex has to be a string")),
    };
    let options = match site.siblings.get("$options") {
        None => own_options,
        Some(Val::String(options)) => {
            if !own_options.is_empty() {
                let options_first =
                    site.siblings.iter().find(|(name, _)| matches!(*name, "$options" | "$regex"));
                let code = if options_first.is_some_and(|(name, _)| name == "$options") {
                    51074
                } else {
                    51075
                };
                return Err(Error::new(Code(code), "options set in both $regex and $options"));
            }
            options
        }
        Some(_) => return Err(Error::bad_value("$options has to be a string")),
    };
    Ok(Some(Test::Regex(Regex::new(pattern, options)?)))
}

fn options(
    _: &Parser<'_>,
    _: &'static str,
    _: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    // `$regex` reads the options itself.
    if site.siblings.find("$regex").is_none() {
        return Err(Error::bad_value("$options needs a $regex"));
    }
    Ok(None)
}

fn not(
    parser: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    let inner = match value {
        Val::Regex(..) => equality(value)?,
        Val::Document(doc) => {
            if doc.is_empty() {
                return Err(Error::bad_value("$not cannot be empty"));
            }
            one(parser.operators(site.path, doc, site.place.deeper()?)?)
        }
        _ => return Err(Error::bad_value("$not needs a regex or a document")),
    };
    Ok(Some(Test::Not(Box::new(inner))))
}

fn geo_within(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    _: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Geo(Box::new(Geo::parse(name, GeoPredicate::Within, value)?))))
}

fn geo_intersects(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    _: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Geo(Box::new(Geo::parse(name, GeoPredicate::Intersects, value)?))))
}

fn near(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Near(Box::new(Near::parse(name, value, site.siblings)?))))
}

fn near_distance(
    _: &Parser<'_>,
    name: &'static str,
    _: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    // The operator that it modifies reads it.
    let has = |name: &str| site.siblings.find(name).is_some();
    if has("$near") || has("$nearSphere") || has("$geoNear") {
        return Ok(None);
    }
    Err(unknown(name))
}

fn one(mut tests: Vec<Test>) -> Test {
    match tests.pop() {
        Some(single) if tests.is_empty() => single,
        Some(last) => {
            tests.push(last);
            Test::And(tests)
        }
        None => Test::And(tests),
    }
}

fn elem_match(
    parser: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    let Val::Document(doc) = value else {
        return Err(Error::bad_value(format!("{name} needs an Object")));
    };
    elem_match_test(parser, doc, site.place).map(Some)
}

/// `{$gt: 1}` tests the elements themselves; fields and `{$or: [...]}` test their fields.
pub(super) fn elem_match_test(
    parser: &Parser<'_>,
    doc: RawDoc<'_>,
    place: Nesting,
) -> Result<Test> {
    let place = place.in_element()?;
    let on_values = is_operators(doc, true)
        && doc.first().is_some_and(|(first, _)| top_operator(first).is_none());
    Ok(if on_values {
        Test::ElemMatchValue(parser.operators("", doc, place)?)
    } else {
        Test::ElemMatchObject(Box::new(parser.document(doc, place)?))
    })
}

fn all(
    parser: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    let Val::Array(array) = value else {
        return Err(Error::bad_value(format!("{name} needs an array")));
    };
    let is_elem_match = |value: Val<'_>| match value {
        Val::Document(doc) => doc.first().is_some_and(|(first, _)| first == "$elemMatch"),
        _ => false,
    };
    let elem_matches = array.first().is_some_and(|(_, first)| is_elem_match(first.get()));
    let mut tests = Vec::new();
    for (_, element) in array {
        match element.get() {
            Val::Document(doc) if elem_matches && is_elem_match(element.get()) => {
                let inner = doc.get("$elemMatch").unwrap_or(Val::Missing);
                tests.extend(elem_match(parser, "$elemMatch", inner, site)?);
            }
            _ if elem_matches => {
                return Err(Error::bad_value("$all/$elemMatch has to be consistent"));
            }
            Val::Document(doc) if is_operators(doc, false) => {
                return Err(Error::bad_value("no $ expressions in $all"));
            }
            value => tests.push(equality(value)?),
        }
    }
    if tests.is_empty() {
        // In MongoDB an empty `$all` matches nothing.
        return Ok(Some(Test::In { values: Vec::new(), regexes: Vec::new() }));
    }
    Ok(Some(one(tests)))
}

fn bits_all_clear(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Bits(bits::parse(BitsPredicate::AllClear, name, value, site.path)?)))
}

fn bits_all_set(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Bits(bits::parse(BitsPredicate::AllSet, name, value, site.path)?)))
}

fn bits_any_clear(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Bits(bits::parse(BitsPredicate::AnyClear, name, value, site.path)?)))
}

fn bits_any_set(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    site: &OperatorContext<'_>,
) -> Result<Option<Test>> {
    Ok(Some(Test::Bits(bits::parse(BitsPredicate::AnySet, name, value, site.path)?)))
}
