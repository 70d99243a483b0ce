//! `$jsonSchema`: MongoDB's dialect of JSON Schema draft 4, with `bsonType`.
//!
//! A keyword restricts only values of the type that it is about: `minimum` says nothing about
//! text, `properties` nothing about numbers. Arrays are values of their own here; nothing is
//! stepped through as in other filters.

mod encrypt;
mod parse;

use super::types::TypeSet;
use crate::interrupt;
use crate::regex::Regex;
use encrypt::Encrypted;
use value::{Decimal128, DocBuf, OwnedVal, RawDoc, RawVal, Result, Type, Val, compare, keys};

/// A compiled schema with its source.
#[derive(Debug)]
pub struct Schema {
    rules: Rules,
    source: DocBuf,
}

/// The rules of one (sub-)schema. Absent keywords impose nothing.
#[derive(Debug, Default)]
struct Rules {
    types: Option<TypeSet>,
    encrypted: Option<Encrypted>,
    /// Order-preserving keys of the allowed values.
    allowed: Option<Vec<Vec<u8>>>,
    minimum: Option<Limit>,
    maximum: Option<Limit>,
    multiple_of: Option<OwnedVal>,
    length: Range,
    pattern: Option<Regex>,
    items: Option<Items>,
    item_count: Range,
    unique_items: bool,
    properties: Vec<(Box<str>, Rules)>,
    pattern_properties: Vec<(Regex, Rules)>,
    additional_properties: Additional,
    property_count: Range,
    required: Vec<Box<str>>,
    dependencies: Vec<(Box<str>, Dependency)>,
    all_of: Vec<Rules>,
    any_of: Vec<Rules>,
    one_of: Vec<Rules>,
    not: Option<Box<Rules>>,
}

#[derive(Debug)]
struct Limit {
    value: OwnedVal,
    exclusive: bool,
}

#[derive(Debug, Default)]
struct Range {
    min: Option<i64>,
    max: Option<i64>,
}

impl Range {
    fn contains(&self, count: usize) -> bool {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.min.is_none_or(|min| count >= min) && self.max.is_none_or(|max| count <= max)
    }

    fn is_some(&self) -> bool {
        self.min.is_some() || self.max.is_some()
    }
}

#[derive(Debug)]
enum Items {
    /// Every element.
    Each(Box<Rules>),
    /// Nesting by place; what follows is additional.
    Tuple(Vec<Rules>, Additional),
}

#[derive(Debug, Default)]
enum Additional {
    #[default]
    Allowed,
    Forbidden,
    Must(Box<Rules>),
}

#[derive(Debug)]
enum Dependency {
    /// These fields are required too.
    Fields(Vec<Box<str>>),
    /// The whole document must match.
    Schema(Box<Rules>),
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// `FailedToParse`, `TypeMismatch` and `BadValue` as MongoDB gives them.
    pub fn parse(doc: RawDoc<'_>) -> Result<Schema> {
        Ok(Schema { rules: parse::rules(doc, 0)?, source: DocBuf::from(doc) })
    }

    /// Whether a document fits.
    ///
    /// # Errors
    /// What a pattern gives that takes too many steps.
    pub fn matches(&self, doc: RawDoc<'_>) -> Result<bool> {
        self.rules.allow(RawVal { kind: Type::Document as u8, bytes: doc.bytes() })
    }

    /// The source document.
    #[must_use]
    pub fn source(&self) -> RawDoc<'_> {
        self.source.as_doc()
    }
}

impl Rules {
    fn allow(&self, value: RawVal<'_>) -> Result<bool> {
        interrupt::charge_raw(value)?;
        if self.types.as_ref().is_some_and(|types| !types.matches(value)) {
            return Ok(false);
        }
        if self.encrypted.as_ref().is_some_and(|encrypted| !encrypted.allows(value)) {
            return Ok(false);
        }
        if let Some(allowed) = &self.allowed
            && !allowed.contains(&canonical_key(value.get()))
        {
            return Ok(false);
        }
        let allowed = match value.get() {
            Val::Document(doc) => self.allow_document(doc)?,
            Val::Array(array) => self.allow_array(array)?,
            Val::String(text) => self.allow_text(text)?,
            number if number.is_number() => self.allow_number(number),
            _ => true,
        };
        Ok(allowed && self.allow_combined(value)?)
    }

    fn allow_combined(&self, value: RawVal<'_>) -> Result<bool> {
        for rules in &self.all_of {
            if !rules.allow(value)? {
                return Ok(false);
            }
        }
        if !self.any_of.is_empty() && count(&self.any_of, value, 1)? == 0 {
            return Ok(false);
        }
        if !self.one_of.is_empty() && count(&self.one_of, value, 2)? != 1 {
            return Ok(false);
        }
        match &self.not {
            Some(rules) => Ok(!rules.allow(value)?),
            None => Ok(true),
        }
    }

    fn allow_number(&self, number: Val<'_>) -> bool {
        let above = self.minimum.as_ref().is_none_or(|bound| {
            let order = compare::compare(number, bound.value.get());
            order.is_gt() || (order.is_eq() && !bound.exclusive)
        });
        let below = self.maximum.as_ref().is_none_or(|bound| {
            let order = compare::compare(number, bound.value.get());
            (order.is_lt() && !is_nan(number)) || (order.is_eq() && !bound.exclusive)
        });
        let multiple =
            self.multiple_of.as_ref().is_none_or(|divisor| is_multiple(number, divisor.get()));
        above && below && multiple
    }

    fn allow_text(&self, text: &str) -> Result<bool> {
        if self.length.is_some() && !self.length.contains(text.chars().count()) {
            return Ok(false);
        }
        self.pattern.as_ref().map_or(Ok(true), |pattern| pattern.is_match(text))
    }

    fn allow_array(&self, array: RawDoc<'_>) -> Result<bool> {
        if self.item_count.is_some() && !self.item_count.contains(array.count()) {
            return Ok(false);
        }
        if self.unique_items && !is_unique(array)? {
            return Ok(false);
        }
        let Some(items) = &self.items else { return Ok(true) };
        for (at, (_, element)) in array.iter().enumerate() {
            let allowed = match items {
                Items::Each(rules) => rules.allow(element)?,
                Items::Tuple(places, additional) => match places.get(at) {
                    Some(rules) => rules.allow(element)?,
                    None => additional.allow(element)?,
                },
            };
            if !allowed {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn allow_document(&self, doc: RawDoc<'_>) -> Result<bool> {
        if self.property_count.is_some() && !self.property_count.contains(doc.count()) {
            return Ok(false);
        }
        if !self.required.iter().all(|name| doc.find(name).is_some()) {
            return Ok(false);
        }
        for (name, rules) in &self.properties {
            if let Some(value) = doc.find(name)
                && !rules.allow(value)?
            {
                return Ok(false);
            }
        }
        for (name, dependency) in &self.dependencies {
            if doc.find(name).is_some() && !dependency.allow(doc)? {
                return Ok(false);
            }
        }
        let only_named = matches!(self.additional_properties, Additional::Allowed);
        if self.pattern_properties.is_empty() && only_named {
            return Ok(true);
        }
        for (name, value) in doc {
            let mut additional = !self.properties.iter().any(|(known, _)| &**known == name);
            for (pattern, rules) in &self.pattern_properties {
                if pattern.is_match(name)? {
                    additional = false;
                    if !rules.allow(value)? {
                        return Ok(false);
                    }
                }
            }
            if additional && !self.additional_properties.allow(value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Additional {
    fn allow(&self, value: RawVal<'_>) -> Result<bool> {
        match self {
            Additional::Allowed => Ok(true),
            Additional::Forbidden => Ok(false),
            Additional::Must(rules) => rules.allow(value),
        }
    }
}

impl Dependency {
    fn allow(&self, doc: RawDoc<'_>) -> Result<bool> {
        match self {
            Dependency::Fields(names) => Ok(names.iter().all(|name| doc.find(name).is_some())),
            Dependency::Schema(rules) => {
                rules.allow(RawVal { kind: Type::Document as u8, bytes: doc.bytes() })
            }
        }
    }
}

/// How many of the schemas a value fits, counted up to `enough`.
fn count(list: &[Rules], value: RawVal<'_>, enough: usize) -> Result<usize> {
    let mut found = 0;
    for rules in list {
        if rules.allow(value)? {
            found += 1;
            if found == enough {
                break;
            }
        }
    }
    Ok(found)
}

fn is_nan(value: Val<'_>) -> bool {
    match value {
        Val::Double(n) => n.is_nan(),
        Val::Decimal(n) => n.is_nan(),
        _ => false,
    }
}

fn is_multiple(number: Val<'_>, divisor: Val<'_>) -> bool {
    if let (Val::Int32(_) | Val::Int64(_), Val::Int32(_) | Val::Int64(_)) = (number, divisor) {
        return match (number.as_i64_exact(), divisor.as_i64_exact()) {
            (Some(number), Some(divisor)) => number.checked_rem(divisor).unwrap_or(0) == 0,
            _ => false,
        };
    }
    match (to_decimal(number), to_decimal(divisor)) {
        (Some(number), Some(divisor)) => number.rem(divisor).is_zero(),
        _ => false,
    }
}

fn to_decimal(value: Val<'_>) -> Option<Decimal128> {
    match value {
        Val::Double(n) => Some(Decimal128::from_f64(n)),
        Val::Decimal(n) => Some(n),
        value => value.as_i64_exact().map(Decimal128::from_i64),
    }
}

fn is_unique(array: RawDoc<'_>) -> Result<bool> {
    let mut elements: Vec<Vec<u8>> =
        array.iter().map(|(_, element)| canonical_key(element.get())).collect();
    interrupt::sort_by(&mut elements, Vec::cmp)?;
    Ok(!elements.windows(2).any(|pair| matches!(pair, [a, b] if a == b)))
}

/// A key that is equal for equal values, where the order of fields in documents does not count.
fn canonical_key(value: Val<'_>) -> Vec<u8> {
    match value {
        Val::Document(_) | Val::Array(_) => keys::key(ordered(value).get()),
        value => keys::key(value),
    }
}

/// The value with the fields of all documents in it sorted by name.
fn ordered(value: Val<'_>) -> OwnedVal {
    match value {
        Val::Document(doc) => {
            let mut fields: Vec<_> = doc.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let sorted = DocBuf::build(|out| {
                for (name, inner) in fields {
                    out.append(name, ordered(inner.get()).get());
                }
            });
            OwnedVal::new(Val::Document(sorted.as_doc()))
        }
        Val::Array(array) => {
            let mut bytes = Vec::new();
            value::writer::write_array(&mut bytes, |out| {
                array.iter().for_each(|(_, inner)| out.push(ordered(inner.get()).get()));
            });
            OwnedVal::new(Val::Array(RawDoc::new(&bytes)))
        }
        value => OwnedVal::new(value),
    }
}
