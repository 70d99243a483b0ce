//! Checks of documents against the schema of their type.

use super::{Found, Schema, Types};
use crate::error_context::value_text;
use crate::pattern::Pattern;
use query::{interrupt, mismatch};
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

impl Schema {
    /// Whether a document satisfies the schema. One on which it fails does not.
    fn accepts(&self, doc: RawDoc<'_>) -> Result<bool> {
        match self.filter.matches(doc) {
            Ok(accepts) => Ok(accepts),
            Err(error) if interrupt::ends_operation(&error) => Err(error),
            Err(_) => Ok(false),
        }
    }
}

impl Types {
    /// The schema of documents of a type; `None` if there are no such documents.
    fn schema_of(&self, found: Found<'_>) -> Option<&Schema> {
        match found {
            Found::Known(at) => self.at(at).filter(|of| !of.is_abstract).map(|of| &of.schema),
            Found::Unknown(_) if self.allows_unknown => Some(&self.common),
            Found::Unknown(_) | Found::Nothing => None,
        }
    }

    /// Whether a document has a type and is valid for it.
    ///
    /// # Errors
    /// When the operation is stopped.
    pub(super) fn conforms(&self, doc: RawDoc<'_>) -> Result<bool> {
        match self.schema_of(self.found(doc)) {
            Some(schema) => schema.accepts(doc),
            None => Ok(false),
        }
    }

    /// Checks a document before it is written; `before` is the one that it replaces. A document
    /// that was not valid before may stay so, as long as it keeps its type.
    ///
    /// # Errors
    /// DocumentValidationFailure with the type and the rules that are broken.
    pub(super) fn check(
        &self,
        pattern: &Pattern,
        before: Option<RawDoc<'_>>,
        doc: RawDoc<'_>,
    ) -> Result<()> {
        let found = self.found(doc);
        if self.conforms(doc)? {
            return Ok(());
        }
        if let Some(before) = before
            && self.found(before) == found
            && !self.conforms(before)?
        {
            return Ok(());
        }
        Err(self.failure(pattern, found, doc))
    }

    /// The error for a document that is not valid.
    fn failure(&self, pattern: &Pattern, found: Found<'_>, doc: RawDoc<'_>) -> Error {
        let discriminator = self.discriminator.text();
        let (source, why) = match (self.schema_of(found), found) {
            (Some(schema), Found::Known(at)) => {
                let name = self.at(at).map_or("", |of| &of.name);
                (schema.source.clone(), format!("it is not a valid '{name}'"))
            }
            (Some(schema), _) => {
                let why = "it breaks the rules that are common to all types".to_owned();
                (schema.source.clone(), why)
            }
            (None, found) => {
                let concrete = self.all.iter().filter(|of| !of.is_abstract);
                let names: Vec<&str> = concrete.map(|of| &*of.name).collect();
                let source = self.discriminator_schema(&names);
                let why = match found {
                    Found::Unknown(value) => format!(
                        "'{discriminator}' is {}, which is not a type; there are {}",
                        value_text(value),
                        crate::declaration::words::listed(&names)
                    ),
                    Found::Known(at) => format!(
                        "the type '{}' is abstract: name one of the types below it",
                        self.at(at).map_or("", |of| &of.name)
                    ),
                    Found::Nothing => format!("the discriminator '{discriminator}' is missing"),
                };
                (source, why)
            }
        };
        let details = DocBuf::build(|out| mismatch::why_not(source.as_doc(), doc, 0, out));
        let mut broken = Vec::new();
        rules(details.as_doc(), "", &mut broken);
        let broken = match broken.is_empty() {
            true => String::new(),
            false => format!(" ({})", broken.join("; ")),
        };
        let info = DocBuf::build(|out| {
            out.doc("errInfo", |out| {
                out.append("failingDocumentId", doc.get("_id").unwrap_or(Val::Missing));
                out.str("pattern", &pattern.name);
                if let Found::Known(at) = found {
                    out.str("type", self.at(at).map_or("", |of| &of.name));
                }
                out.append("details", Val::Document(details.as_doc()));
            });
        });
        let message =
            format!("pattern '{}': Document failed validation: {why}{broken}", pattern.name);
        Error::new(Code::DOCUMENT_VALIDATION_FAILURE, message).with_info(info)
    }

    /// The schema of the discriminator alone.
    fn discriminator_schema(&self, names: &[&str]) -> DocBuf {
        let parts: Vec<&str> = self.discriminator.text().split('.').collect();
        DocBuf::build(|out| {
            out.doc("$jsonSchema", |out| write_nested(&parts, names, out));
        })
    }
}

/// Writes a schema that requires one of these names at a path.
fn write_nested(parts: &[&str], names: &[&str], out: &mut value::Writer<'_>) {
    let Some((first, rest)) = parts.split_first() else {
        out.array("enum", |out| names.iter().for_each(|name| out.push(Val::String(name))));
        return;
    };
    out.array("required", |out| out.push(Val::String(first)));
    out.doc("properties", |out| {
        out.doc(first, |out| write_nested(rest, names, out));
    });
}

/// The broken rules in the details of a failure, each with the field that it is about.
fn rules(details: RawDoc<'_>, place: &str, out: &mut Vec<String>) {
    let path = |name: &str| match place {
        "" => name.to_owned(),
        place => format!("{place}.{name}"),
    };
    for (name, value) in details {
        let list = value.as_array().unwrap_or(RawDoc::empty());
        match name {
            "schemaRulesNotSatisfied" | "details" | "schemasNotSatisfied" => {
                list.iter().filter_map(|(_, rule)| rule.as_doc()).for_each(|rule| {
                    rules(rule, place, out);
                });
            }
            "propertiesNotSatisfied" => {
                for property in list.iter().filter_map(|(_, property)| property.as_doc()) {
                    let name = property.get("propertyName").and_then(Val::as_str).unwrap_or("");
                    rules(property, &path(name), out);
                }
            }
            "missingProperties" => {
                let missing = list.iter().filter_map(|(_, field)| field.get().as_str());
                out.extend(missing.map(|field| format!("'{}' is missing", path(field))));
            }
            "reason" => {
                let rule = details.get("operatorName").and_then(Val::as_str).unwrap_or("");
                let why = value.get().as_str().unwrap_or("");
                out.push(format!("'{place}': {rule}: {why}"));
            }
            _ => {}
        }
    }
}
