//! The rules of a `$jsonSchema` that a document violates: `schemaRulesNotSatisfied` of a validation
//! error. None depends on the time.

use super::single;
use value::writer::ArrayWriter;
use value::{DocBuf, RawDoc, RawVal, Val, Writer, compare};

/// The binary subtype of encrypted values.
const ENCRYPTED: u8 = 6;

/// The keywords that can be violated, in MongoDB's order.
static RULES: &[&str] = &[
    "maxLength",
    "minLength",
    "pattern",
    "multipleOf",
    "maximum",
    "minimum",
    "minItems",
    "maxItems",
    "uniqueItems",
    "items",
    "additionalItems",
    "required",
    "properties",
    "additionalProperties",
    "patternProperties",
    "minProperties",
    "maxProperties",
    "dependencies",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "enum",
    "bsonType",
    "type",
    "encrypt",
];

/// Writes title and description of the schema and the rules that the document violates.
pub(super) fn explain(schema: RawDoc<'_>, doc: RawDoc<'_>, out: &mut Writer<'_>) {
    // A schema for a type other than object is not analysed further.
    let is_type = |name: &&str| {
        let Some(argument) = schema.find(name) else { return true };
        holds(single(name, argument).as_doc(), Val::Document(doc))
    };
    if !["bsonType", "type"].iter().all(is_type) {
        out.doc("specifiedAs", |out| {
            out.append("$jsonSchema", Val::Document(schema));
        });
        out.str("reason", "expression always evaluates to false");
        return;
    }
    write_notes(schema, out);
    out.array("schemaRulesNotSatisfied", |broken| {
        write_broken(schema, Val::Document(doc), broken);
    });
}

fn write_notes(schema: RawDoc<'_>, out: &mut Writer<'_>) {
    for name in ["title", "description"] {
        if let Some(text) = schema.find(name) {
            out.raw(name, text);
        }
    }
}

/// Whether a value satisfies the rules of a schema.
fn holds(schema: RawDoc<'_>, value: Val<'_>) -> bool {
    let filter = DocBuf::build(|out| {
        out.doc("$jsonSchema", |out| {
            out.doc("properties", |out| {
                out.append("v", Val::Document(schema));
            });
        });
    });
    let doc = DocBuf::build(|out| {
        out.append("v", value);
    });
    // A rule that cannot be evaluated alone is not reported as violated.
    super::compile(filter.as_doc(), 0)
        .and_then(|filter| filter.matches(doc.as_doc()))
        .unwrap_or(true)
}

/// A rule together with the rules on which its meaning depends.
fn with_companions(schema: RawDoc<'_>, rule: &str, argument: RawVal<'_>) -> DocBuf {
    let companions: &[&str] = match rule {
        "maximum" => &["exclusiveMaximum"],
        "minimum" => &["exclusiveMinimum"],
        "additionalItems" => &["items"],
        "additionalProperties" => &["properties", "patternProperties"],
        _ => &[],
    };
    DocBuf::build(|out| {
        out.raw(rule, argument);
        for name in companions {
            if let Some(argument) = schema.find(name) {
                // The companion only defines which parts the rule applies to.
                match *name {
                    "items" => write_free_items(argument, out),
                    "properties" | "patternProperties" => {
                        write_free_properties(name, argument, out)
                    }
                    _ => {
                        out.raw(name, argument);
                    }
                }
            }
        }
    })
}

fn write_free_items(items: RawVal<'_>, out: &mut Writer<'_>) {
    if let Some(items) = items.as_array() {
        out.array("items", |list| items.iter().for_each(|_| list.push_doc(|_| {})));
    }
}

fn write_free_properties(name: &str, properties: RawVal<'_>, out: &mut Writer<'_>) {
    out.doc(name, |out| {
        for (property, _) in properties.as_doc().unwrap_or(RawDoc::empty()) {
            out.doc(property, |_| {});
        }
    });
}

/// Writes every rule that a value violates.
fn write_broken(schema: RawDoc<'_>, value: Val<'_>, out: &mut ArrayWriter<'_>) {
    for rule in RULES {
        let Some(argument) = schema.find(rule) else { continue };
        let alone = with_companions(schema, rule, argument);
        if holds(alone.as_doc(), value) {
            continue;
        }
        out.push_doc(|out| {
            out.str("operatorName", rule);
            write_rule(schema, rule, argument, value, out);
        });
    }
}

fn write_details(schema: Val<'_>, value: Val<'_>, out: &mut Writer<'_>) {
    let schema = schema.as_doc().unwrap_or(RawDoc::empty());
    write_notes(schema, out);
    out.array("details", |details| write_broken(schema, value, details));
}

fn write_rule(
    schema: RawDoc<'_>,
    rule: &str,
    argument: RawVal<'_>,
    value: Val<'_>,
    out: &mut Writer<'_>,
) {
    let doc = value.as_doc().unwrap_or(RawDoc::empty());
    let array = value.as_array().unwrap_or(RawDoc::empty());
    let specify = |out: &mut Writer<'_>| {
        let mut specified = single(rule, argument);
        for (own, other) in [("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")] {
            if let (true, Some(exclusive)) = (rule == own, schema.find(other)) {
                specified = DocBuf::build(|out| {
                    out.raw(rule, argument).raw(other, exclusive);
                });
            }
        }
        out.append("specifiedAs", Val::Document(specified.as_doc()));
    };
    let plain = |reason: &str, out: &mut Writer<'_>| {
        specify(out);
        out.str("reason", reason).append("consideredValue", value);
    };
    match rule {
        "maxLength" | "minLength" => plain("specified string length was not satisfied", out),
        "pattern" => plain("regular expression did not match", out),
        "multipleOf" => {
            plain("considered value is not a multiple of the specified value", out);
        }
        "minItems" | "maxItems" => {
            plain("array did not match specified length", out);
            out.count("numberOfItems", array.count() as u64);
        }
        "uniqueItems" => {
            plain("found a duplicate item", out);
            let items: Vec<Val<'_>> = array.iter().map(|(_, item)| item.get()).collect();
            let twice = items.iter().enumerate().find(|(at, item)| {
                items.iter().take(*at).any(|before| compare::equal(*before, **item))
            });
            if let Some((_, item)) = twice {
                out.append("duplicatedValue", *item);
            }
        }
        "items" | "additionalItems" => write_items(schema, rule, argument, array, out),
        "required" => {
            specify(out);
            write_missing(argument, doc, out);
        }
        "properties" => {
            out.array("propertiesNotSatisfied", |failing| {
                for (name, rules) in argument.as_doc().unwrap_or(RawDoc::empty()) {
                    let (Some(rules), Some(value)) = (rules.as_doc(), doc.get(name)) else {
                        continue;
                    };
                    if !holds(rules, value) {
                        failing.push_doc(|out| {
                            out.str("propertyName", name);
                            write_details(Val::Document(rules), value, out);
                        });
                    }
                }
            });
        }
        "patternProperties" => {
            out.array("details", |failing| {
                for (pattern, rules) in argument.as_doc().unwrap_or(RawDoc::empty()) {
                    let Some(rules) = rules.as_doc() else { continue };
                    // Only the first property of each pattern is reported.
                    let first = doc.iter().find(|(name, value)| {
                        has_pattern(pattern, name) && !holds(rules, value.get())
                    });
                    if let Some((name, value)) = first {
                        failing.push_doc(|out| {
                            out.str("propertyName", name).str("regexMatched", pattern);
                            write_details(Val::Document(rules), value.get(), out);
                        });
                    }
                }
            });
        }
        "additionalProperties" => write_additional(schema, argument, doc, &specify, out),
        "minProperties" | "maxProperties" => {
            specify(out);
            out.str("reason", "specified number of properties was not satisfied");
            out.count("numberOfProperties", doc.count() as u64);
        }
        "dependencies" => write_dependencies(argument, doc, out),
        "allOf" | "anyOf" | "oneOf" => write_several(rule, argument, value, out),
        "not" => {
            out.str("reason", "child expression matched");
        }
        "enum" => plain("value was not found in enum", out),
        "bsonType" | "type" => {
            plain("type did not match", out);
            out.str("consideredType", value.kind().name());
        }
        "encrypt" => {
            let is_encrypted = matches!(value, Val::Binary(ENCRYPTED, _));
            out.str(
                "reason",
                if is_encrypted {
                    "encrypted value has wrong type"
                } else {
                    "value was not encrypted"
                },
            );
        }
        _ => plain("comparison failed", out),
    }
}

fn write_missing(required: RawVal<'_>, doc: RawDoc<'_>, out: &mut Writer<'_>) {
    out.array("missingProperties", |missing| {
        for (_, field) in required.as_array().unwrap_or(RawDoc::empty()) {
            if field.get().as_str().is_some_and(|field| doc.find(field).is_none()) {
                missing.push_raw(field);
            }
        }
    });
}

fn write_items(
    schema: RawDoc<'_>,
    rule: &str,
    argument: RawVal<'_>,
    array: RawDoc<'_>,
    out: &mut Writer<'_>,
) {
    let by_place = schema.find("items").and_then(|items| items.as_array());
    if rule == "items"
        && let Some(schemas) = by_place
    {
        out.array("details", |failing| {
            let pairs = schemas.iter().zip(array.iter()).enumerate();
            for (at, ((_, rules), (_, item))) in pairs {
                let rules = rules.as_doc().unwrap_or(RawDoc::empty());
                if !holds(rules, item.get()) {
                    failing.push_doc(|out| {
                        out.i64("itemIndex", at as i64);
                        write_details(Val::Document(rules), item.get(), out);
                    });
                }
            }
        });
        return;
    }
    let skip = if rule == "items" { 0 } else { by_place.map_or(0, RawDoc::count) };
    let Some(rules) = argument.as_doc() else {
        out.append("specifiedAs", Val::Document(single(rule, argument).as_doc()));
        out.str("reason", "found additional items");
        out.array("additionalItems", |list| {
            array.iter().skip(skip).for_each(|(_, item)| list.push_raw(item));
        });
        return;
    };
    let failing =
        array.iter().enumerate().skip(skip).find(|(_, (_, item))| !holds(rules, item.get()));
    let what = if rule == "items" { "item" } else { "additional item" };
    out.str("reason", &format!("At least one {what} did not match the sub-schema"));
    if let Some((at, (_, item))) = failing {
        out.count("itemIndex", at as u64);
        write_details(Val::Document(rules), item.get(), out);
    }
}

/// Whether a property's name matches a pattern of `patternProperties`.
fn has_pattern(pattern: &str, name: &str) -> bool {
    let filter = DocBuf::build(|out| {
        out.doc("v", |out| {
            out.str("$regex", pattern);
        });
    });
    let doc = DocBuf::build(|out| {
        out.str("v", name);
    });
    super::compile(filter.as_doc(), 0)
        .and_then(|filter| filter.matches(doc.as_doc()))
        .unwrap_or(false)
}

fn write_additional(
    schema: RawDoc<'_>,
    argument: RawVal<'_>,
    doc: RawDoc<'_>,
    specify: &dyn Fn(&mut Writer<'_>),
    out: &mut Writer<'_>,
) {
    let fields =
        |name: &str| schema.find(name).and_then(|value| value.as_doc()).unwrap_or(RawDoc::empty());
    let (properties, patterns) = (fields("properties"), fields("patternProperties"));
    let additional = |name: &str| {
        properties.find(name).is_none()
            && !patterns.iter().any(|(pattern, _)| has_pattern(pattern, name))
    };
    let Some(rules) = argument.as_doc() else {
        specify(out);
        out.array("additionalProperties", |list| {
            for (name, _) in doc.iter().filter(|(name, _)| additional(name)) {
                list.push(Val::String(name));
            }
        });
        return;
    };
    let failing = doc.iter().find(|(name, value)| additional(name) && !holds(rules, value.get()));
    out.str("reason", "at least one additional property did not match the subschema");
    if let Some((name, value)) = failing {
        out.str("failingProperty", name);
        write_details(Val::Document(rules), value.get(), out);
    }
}

fn write_dependencies(argument: RawVal<'_>, doc: RawDoc<'_>, out: &mut Writer<'_>) {
    out.array("failingDependencies", |failing| {
        for (name, dependency) in argument.as_doc().unwrap_or(RawDoc::empty()) {
            if doc.find(name).is_none() {
                continue;
            }
            if let Some(wanted) = dependency.as_array() {
                let lacks =
                    |field: RawVal<'_>| field.get().as_str().is_some_and(|f| doc.find(f).is_none());
                if wanted.iter().any(|(_, field)| lacks(field)) {
                    failing.push_doc(|out| {
                        out.str("conditionalProperty", name);
                        write_missing(dependency, doc, out);
                    });
                }
            } else if let Some(rules) = dependency.as_doc()
                && !holds(rules, Val::Document(doc))
            {
                failing.push_doc(|out| {
                    out.str("conditionalProperty", name);
                    write_details(Val::Document(rules), Val::Document(doc), out);
                });
            }
        }
    });
}

fn write_several(rule: &str, argument: RawVal<'_>, value: Val<'_>, out: &mut Writer<'_>) {
    let schemas: Vec<RawDoc<'_>> = argument
        .as_array()
        .unwrap_or(RawDoc::empty())
        .iter()
        .filter_map(|(_, schema)| schema.as_doc())
        .collect();
    let matching: Vec<usize> = (0..schemas.len())
        .filter(|at| schemas.get(*at).is_some_and(|s| holds(*s, value)))
        .collect();
    if rule == "oneOf" && matching.len() > 1 {
        out.str("reason", "more than one subschema matched");
        out.array("matchingSchemaIndexes", |list| {
            matching.iter().for_each(|at| list.push(Val::Int32(*at as i32)));
        });
        return;
    }
    out.array("schemasNotSatisfied", |failing| {
        for (at, schema) in schemas.iter().enumerate() {
            if !matching.contains(&at) {
                failing.push_doc(|out| {
                    out.count("index", at as u64);
                    write_details(Val::Document(*schema), value, out);
                });
            }
        }
    });
}
