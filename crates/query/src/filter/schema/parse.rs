//! Compiling a schema: one row and one function per keyword.

use super::encrypt::{self, Encrypted};
use super::{Additional, Dependency, Items, Limit, Range, Rules, canonical_key};
use crate::filter::operators::non_negative;
use crate::filter::types::TypeSet;
use crate::regex::Regex;
use value::{Error, OwnedVal, RawDoc, Result, Type, Val};

/// Deepest nesting of schemas.
const DEPTH_MAX: usize = 100;

/// A keyword of schemas.
struct Keyword {
    name: &'static str,
    parse: fn(&mut Rules, Argument<'_>) -> Result<()>,
}

/// The argument of a keyword.
#[derive(Clone, Copy)]
struct Argument<'a> {
    name: &'static str,
    value: Val<'a>,
    /// The schema that contains it.
    schema: RawDoc<'a>,
    depth: usize,
}

/// Sorted by name.
static KEYWORDS: &[Keyword] = &[
    Keyword { name: "additionalItems", parse: additional_items },
    Keyword { name: "additionalProperties", parse: additional_properties },
    Keyword { name: "allOf", parse: |rules, given| given.list().map(|list| rules.all_of = list) },
    Keyword { name: "anyOf", parse: |rules, given| given.list().map(|list| rules.any_of = list) },
    Keyword { name: "bsonType", parse: bson_type },
    Keyword { name: "dependencies", parse: dependencies },
    Keyword { name: "description", parse: words },
    Keyword { name: "encrypt", parse: encrypted },
    Keyword { name: "encryptMetadata", parse: encrypt_metadata },
    Keyword { name: "enum", parse: allowed },
    Keyword { name: "exclusiveMaximum", parse: exclusive_maximum },
    Keyword { name: "exclusiveMinimum", parse: exclusive_minimum },
    Keyword { name: "items", parse: items },
    Keyword { name: "maxItems", parse: |rules, given| given.max(&mut rules.item_count) },
    Keyword { name: "maxLength", parse: |rules, given| given.max(&mut rules.length) },
    Keyword { name: "maxProperties", parse: |rules, given| given.max(&mut rules.property_count) },
    Keyword { name: "maximum", parse: maximum },
    Keyword { name: "minItems", parse: |rules, given| given.min(&mut rules.item_count) },
    Keyword { name: "minLength", parse: |rules, given| given.min(&mut rules.length) },
    Keyword { name: "minProperties", parse: |rules, given| given.min(&mut rules.property_count) },
    Keyword { name: "minimum", parse: minimum },
    Keyword { name: "multipleOf", parse: multiple_of },
    Keyword { name: "not", parse: not },
    Keyword { name: "oneOf", parse: |rules, given| given.list().map(|list| rules.one_of = list) },
    Keyword { name: "pattern", parse: pattern },
    Keyword { name: "patternProperties", parse: pattern_properties },
    Keyword { name: "properties", parse: properties },
    Keyword { name: "required", parse: required },
    Keyword { name: "title", parse: words },
    Keyword { name: "type", parse: json_type },
    Keyword { name: "uniqueItems", parse: unique_items },
];

/// Keywords of JSON Schema that MongoDB does not have.
const UNSUPPORTED: &[&str] = &["$ref", "$schema", "default", "definitions", "format", "id"];

/// Compiles one (sub-)schema.
pub(super) fn rules(schema: RawDoc<'_>, depth: usize) -> Result<Rules> {
    if depth > DEPTH_MAX {
        return Err(Error::failed_to_parse("$jsonSchema is nested too deeply"));
    }
    if schema.find("type").is_some() && schema.find("bsonType").is_some() {
        return Err(Error::failed_to_parse(
            "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'",
        ));
    }
    for other in ["type", "bsonType", "encryptMetadata"] {
        if schema.find("encrypt").is_some() && schema.find(other).is_some() {
            return Err(Error::failed_to_parse(format!(
                "Cannot specify both $jsonSchema keywords 'encrypt' and '{other}'"
            )));
        }
    }
    let mut rules = Rules::default();
    for (name, value) in schema {
        let found = KEYWORDS.binary_search_by(|keyword| keyword.name.cmp(name)).ok();
        let Some(keyword) = found.and_then(|at| KEYWORDS.get(at)) else {
            return Err(Error::failed_to_parse(if UNSUPPORTED.contains(&name) {
                format!("$jsonSchema keyword '{name}' is not currently supported")
            } else {
                format!("Unknown $jsonSchema keyword: {name}")
            }));
        };
        let value = value.get();
        (keyword.parse)(&mut rules, Argument { name: keyword.name, value, schema, depth })?;
    }
    Ok(rules)
}

impl<'a> Argument<'a> {
    fn wrong_type<T>(self, wanted: &str) -> Result<T> {
        Err(Error::type_mismatch(format!("$jsonSchema keyword '{}' must be {wanted}", self.name)))
    }

    fn refused<T>(self, why: &str) -> Result<T> {
        Err(Error::failed_to_parse(format!("$jsonSchema keyword '{}' {why}", self.name)))
    }

    fn type_name(self) -> &'static str {
        self.value.kind().name()
    }

    fn document(self) -> Result<RawDoc<'a>> {
        match self.value {
            Val::Document(doc) => Ok(doc),
            _ => self.wrong_type("an object"),
        }
    }

    fn boolean(self) -> Result<bool> {
        match self.value {
            Val::Bool(b) => Ok(b),
            _ => self.wrong_type("a boolean"),
        }
    }

    fn number(self) -> Result<OwnedVal> {
        if self.value.is_number() {
            Ok(OwnedVal::new(self.value))
        } else {
            self.wrong_type("a number")
        }
    }

    fn nested(self, schema: RawDoc<'_>) -> Result<Rules> {
        rules(schema, self.depth + 1)
    }

    fn min(self, range: &mut Range) -> Result<()> {
        range.min = Some(non_negative(self.name, self.value)?);
        Ok(())
    }

    fn max(self, range: &mut Range) -> Result<()> {
        range.max = Some(non_negative(self.name, self.value)?);
        Ok(())
    }

    /// The schemas of `allOf`, `anyOf` and `oneOf`.
    fn list(self) -> Result<Vec<Rules>> {
        let Val::Array(array) = self.value else { return self.wrong_type("an array") };
        if array.is_empty() {
            return Err(Error::bad_value(format!(
                "$jsonSchema keyword '{}' must be a non-empty array",
                self.name
            )));
        }
        let mut list = Vec::new();
        for (_, element) in array {
            let Some(schema) = element.as_doc() else {
                return self.wrong_type(&format!(
                    "an array of objects, but found an element of type {}",
                    element.kind().name()
                ));
            };
            list.push(self.nested(schema)?);
        }
        Ok(list)
    }
}

fn words(_: &mut Rules, given: Argument<'_>) -> Result<()> {
    match given.value {
        Val::String(_) => Ok(()),
        _ => given.wrong_type("of type string"),
    }
}

fn bson_type(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    rules.types = Some(types(given, |set, name| set.add_name(name))?);
    Ok(())
}

fn encrypted(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    let names = |value| types(Argument { value, ..given }, |set, name| set.add_name(name));
    rules.encrypted = Some(Encrypted::parse(given.document()?, names)?);
    Ok(())
}

fn encrypt_metadata(_: &mut Rules, given: Argument<'_>) -> Result<()> {
    encrypt::check_metadata(given.document()?)
}

fn json_type(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    let add = |set: &mut TypeSet, name: &str| {
        let found = match name {
            "object" => Type::Document,
            "array" => Type::Array,
            "string" => Type::String,
            "boolean" => Type::Bool,
            "null" => Type::Null,
            "number" => return set.add_name("number"),
            "integer" => {
                return Err(Error::failed_to_parse(
                    "$jsonSchema type 'integer' is not currently supported.",
                ));
            }
            _ => return Err(Error::bad_value(format!("Unknown type name alias: {name}"))),
        };
        set.insert(found);
        Ok(())
    };
    rules.types = Some(types(given, add)?);
    Ok(())
}

fn types(given: Argument<'_>, add: impl Fn(&mut TypeSet, &str) -> Result<()>) -> Result<TypeSet> {
    let mut set = TypeSet::default();
    match given.value {
        Val::String(name) => add(&mut set, name)?,
        Val::Array(array) => {
            if array.is_empty() {
                return given.refused("must name at least one type");
            }
            let mut seen = Vec::new();
            for (_, element) in array {
                let Val::String(name) = element.get() else {
                    return given.wrong_type("either a string or an array of strings");
                };
                if seen.contains(&name) {
                    return given.refused(&format!("has duplicate value: {name}"));
                }
                seen.push(name);
                add(&mut set, name)?;
            }
        }
        _ => return given.wrong_type("either a string or an array of strings"),
    }
    Ok(set)
}

fn allowed(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    let Val::Array(array) = given.value else {
        return given
            .wrong_type(&format!("an array, but found an element of type {}", given.type_name()));
    };
    if array.is_empty() {
        return given.refused("cannot be an empty array");
    }
    let mut allowed: Vec<Vec<u8>> = Vec::new();
    for (_, element) in array {
        let key = canonical_key(element.get());
        if allowed.contains(&key) {
            return given.refused("array cannot contain duplicate values.");
        }
        allowed.push(key);
    }
    rules.allowed = Some(allowed);
    Ok(())
}

fn exclusive(schema: RawDoc<'_>, name: &str) -> bool {
    matches!(schema.get(name), Some(Val::Bool(true)))
}

fn minimum(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    let exclusive = exclusive(given.schema, "exclusiveMinimum");
    rules.minimum = Some(Limit { value: given.number()?, exclusive });
    Ok(())
}

fn maximum(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    let exclusive = exclusive(given.schema, "exclusiveMaximum");
    rules.maximum = Some(Limit { value: given.number()?, exclusive });
    Ok(())
}

fn exclusive_minimum(_: &mut Rules, given: Argument<'_>) -> Result<()> {
    require_keyword(given, "minimum")
}

fn exclusive_maximum(_: &mut Rules, given: Argument<'_>) -> Result<()> {
    require_keyword(given, "maximum")
}

/// `minimum` and `maximum` read the flag themselves; alone it means nothing.
fn require_keyword(given: Argument<'_>, by: &str) -> Result<()> {
    given.boolean()?;
    if given.schema.find(by).is_none() {
        return Err(Error::failed_to_parse(format!(
            "$jsonSchema keyword '{by}' must be a present if {} is present",
            given.name
        )));
    }
    Ok(())
}

fn multiple_of(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    let divisor = given.number()?;
    if !given.value.as_f64().is_some_and(|n| n > 0.0) {
        return given.refused("must have a positive value");
    }
    rules.multiple_of = Some(divisor);
    Ok(())
}

fn pattern(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    let Val::String(pattern) = given.value else { return given.wrong_type("a string") };
    rules.pattern = Some(Regex::new(pattern, "")?);
    Ok(())
}

fn items(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    rules.items = Some(match given.value {
        Val::Document(schema) => Items::Each(Box::new(given.nested(schema)?)),
        Val::Array(array) => {
            let mut places = Vec::new();
            for (_, element) in array {
                let Some(schema) = element.as_doc() else {
                    return Err(Error::type_mismatch(format!(
                        "$jsonSchema keyword 'items' requires that each element of the array is \
                         an object, but found a {}",
                        element.kind().name()
                    )));
                };
                places.push(given.nested(schema)?);
            }
            // `additionalItems` may come before or after; it is read here in both cases.
            let additional = match given.schema.get("additionalItems") {
                None => Additional::Allowed,
                Some(value) => additional(Argument { name: "additionalItems", value, ..given })?,
            };
            Items::Tuple(places, additional)
        }
        _ => {
            return given.wrong_type(&format!("an array or an object, not {}", given.type_name()));
        }
    });
    Ok(())
}

fn additional_items(_: &mut Rules, given: Argument<'_>) -> Result<()> {
    match given.value {
        Val::Bool(_) | Val::Document(_) => additional(given).map(|_| ()),
        _ => given
            .wrong_type(&format!("either an object or a boolean, but got a {}", given.type_name())),
    }
}

fn additional_properties(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    rules.additional_properties = additional(given)?;
    Ok(())
}

fn additional(given: Argument<'_>) -> Result<Additional> {
    match given.value {
        Val::Bool(true) => Ok(Additional::Allowed),
        Val::Bool(false) => Ok(Additional::Forbidden),
        Val::Document(schema) => Ok(Additional::Must(Box::new(given.nested(schema)?))),
        _ => given.wrong_type("an object or a boolean"),
    }
}

fn unique_items(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    rules.unique_items = given.boolean()?;
    Ok(())
}

fn properties(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    for (name, value) in given.document()? {
        let Some(schema) = value.as_doc() else {
            return Err(Error::type_mismatch(format!(
                "Nested schema for $jsonSchema property '{name}' must be an object"
            )));
        };
        rules.properties.push((name.into(), given.nested(schema)?));
    }
    Ok(())
}

fn pattern_properties(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    for (name, value) in given.document()? {
        let Some(schema) = value.as_doc() else {
            return Err(Error::type_mismatch(format!(
                "$jsonSchema keyword 'patternProperties' has property '{name}' which is not an \
                 object"
            )));
        };
        let pattern = Regex::new(name, "").map_err(|error| {
            let reason = error.message().trim_start_matches("Regular expression is invalid: ");
            Error::bad_value(format!("Invalid regular expression: {reason}"))
        })?;
        rules.pattern_properties.push((pattern, given.nested(schema)?));
    }
    Ok(())
}

fn required(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    let Val::Array(array) = given.value else {
        return given
            .wrong_type(&format!("an array, but found an element of type {}", given.type_name()));
    };
    if array.is_empty() {
        return given.refused("cannot be an empty array");
    }
    for (_, element) in array {
        let Val::String(name) = element.get() else {
            return given.wrong_type(&format!(
                "an array of strings, but found an element of type: {}",
                element.kind().name()
            ));
        };
        if rules.required.iter().any(|other| &**other == name) {
            return given.refused("array cannot contain duplicate values");
        }
        rules.required.push(name.into());
    }
    Ok(())
}

fn dependencies(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    for (name, value) in given.document()? {
        let dependency = match value.get() {
            Val::Document(schema) => Dependency::Schema(Box::new(given.nested(schema)?)),
            Val::Array(array) => Dependency::Fields(dependent_fields(name, array)?),
            _ => {
                return Err(Error::type_mismatch(format!(
                    "property '{name}' in $jsonSchema keyword 'dependencies' must be either an \
                     object or an array"
                )));
            }
        };
        rules.dependencies.push((name.into(), dependency));
    }
    Ok(())
}

fn dependent_fields(name: &str, array: RawDoc<'_>) -> Result<Vec<Box<str>>> {
    if array.is_empty() {
        return Err(Error::failed_to_parse(format!(
            "property '{name}' in $jsonSchema keyword 'dependencies' cannot be an empty array"
        )));
    }
    let mut fields: Vec<Box<str>> = Vec::new();
    for (_, element) in array {
        let Val::String(field) = element.get() else {
            return Err(Error::type_mismatch(format!(
                "array '{name}' in $jsonSchema keyword 'dependencies' can only contain strings, \
                 but found element of type: {}",
                element.kind().name()
            )));
        };
        if fields.iter().any(|other| &**other == field) {
            return Err(Error::failed_to_parse(format!(
                "array '{name}' in $jsonSchema keyword 'dependencies' contains duplicate element: \
                 {field}"
            )));
        }
        fields.push(field.into());
    }
    Ok(fields)
}

fn not(rules: &mut Rules, given: Argument<'_>) -> Result<()> {
    let Val::Document(schema) = given.value else {
        return given
            .wrong_type(&format!("an object, but found an element of type {}", given.type_name()));
    };
    rules.not = Some(Box::new(given.nested(schema)?));
    Ok(())
}
