//! What is declared about types: the fields that they require, and the schemas of their fields.

use super::{Schema, Type};
use crate::declaration::options::Options;
use query::mismatch;
use value::{DocBuf, RawDoc, Result, Val, Writer};

/// The most types of one pattern.
pub(crate) const TYPES_MAX: usize = 500;

/// What one type declares, or what is common.
#[derive(Clone)]
pub(crate) struct Declared<'a> {
    /// Fields that a document must have.
    pub(crate) required: Vec<String>,
    /// Fields that a document may have.
    pub(crate) optional: Vec<String>,
    /// The schemas of fields.
    pub(crate) properties: RawDoc<'a>,
    /// The indexes of its documents.
    pub(crate) indexes: Vec<Indexed>,
}

/// A declared index.
#[derive(Clone, Debug)]
pub(crate) struct Indexed {
    /// The key pattern.
    pub(crate) key: DocBuf,
    /// Whether its values are unique.
    pub(crate) unique: bool,
}

impl Indexed {
    /// Reads `{field: 1}` or `{key: {field: 1}, unique: true}`.
    fn parse(options: &Options<'_>, place: &str, value: Val<'_>) -> Result<Indexed> {
        let Val::Document(doc) = value else {
            return Err(options.bad(format!("'{place}' must be the key of an index")));
        };
        let Some(Val::Document(key)) = doc.get("key") else {
            return Indexed::of(options, place, doc, false);
        };
        let mut unique = false;
        for (name, value) in doc {
            match (name, value.get()) {
                ("key", _) => {}
                ("unique", Val::Bool(flag)) => unique = flag,
                ("unique", _) => {
                    return Err(options.bad(format!("'{place}.unique' must be true or false")));
                }
                (other, _) => return Err(options.unknown(place, other, &["key", "unique"])),
            }
        }
        Indexed::of(options, place, key, unique)
    }

    fn of(options: &Options<'_>, place: &str, key: RawDoc<'_>, unique: bool) -> Result<Indexed> {
        if key.is_empty() {
            return Err(options.bad(format!("'{place}' must name at least one field")));
        }
        Ok(Indexed { key: key.into(), unique })
    }

    /// The specification of the index. `of` are the pattern and the type, `condition` is the
    /// filter of the documents that it has.
    pub(crate) fn spec(&self, of: &[&str], condition: Option<RawDoc<'_>>) -> DocBuf {
        let mut name = of.join("_");
        for (path, direction) in self.key.as_doc() {
            let direction = match direction.get() {
                Val::String(kind) => kind.to_owned(),
                number => number.as_i64_exact().unwrap_or(1).to_string(),
            };
            name.push_str(&format!("_{path}_{direction}"));
        }
        DocBuf::build(|out| {
            out.append("key", Val::Document(self.key.as_doc())).str("name", &name);
            if self.unique {
                out.bool("unique", true);
            }
            if let Some(condition) = condition {
                out.append("partialFilterExpression", Val::Document(condition));
            }
        })
    }
}

impl<'a> Declared<'a> {
    /// Reads the document of a type at the option `place`. `further` are options that the caller
    /// has read.
    pub(crate) fn parse(
        options: &Options<'_>,
        place: &str,
        doc: RawDoc<'a>,
        further: &[&str],
    ) -> Result<Declared<'a>> {
        let mut declared = Declared {
            required: Vec::new(),
            optional: Vec::new(),
            properties: RawDoc::empty(),
            indexes: Vec::new(),
        };
        for (name, value) in doc {
            match (name, value.get()) {
                ("required", Val::Array(array)) => {
                    declared.required = fields(options, &format!("{place}.required"), array)?;
                }
                ("optional", Val::Array(array)) => {
                    declared.optional = fields(options, &format!("{place}.optional"), array)?;
                }
                ("properties", Val::Document(properties)) => declared.properties = properties,
                ("indexes", Val::Array(array)) => {
                    for (at, index) in array {
                        let place = format!("{place}.indexes.{at}");
                        declared.indexes.push(Indexed::parse(options, &place, index.get())?);
                    }
                }
                ("indexes", _) => {
                    return Err(options.bad(format!("'{place}.indexes' must be an array of keys")));
                }
                ("required" | "optional", _) => {
                    return Err(options
                        .bad(format!("'{place}.{name}' must be an array of names of fields")));
                }
                ("properties", _) => {
                    return Err(options.bad(format!(
                        "'{place}.properties' must be a document: the schema of each field"
                    )));
                }
                (name, _) if further.contains(&name) => {}
                (name, _) => {
                    let mut known = vec!["required", "optional", "properties", "indexes"];
                    known.extend(further);
                    return Err(options.unknown(place, name, &known));
                }
            }
        }
        if let Some(both) = declared.optional.iter().find(|name| declared.required.contains(name)) {
            return Err(
                options.bad(format!("'{place}' has '{both}' both in 'required' and in 'optional'"))
            );
        }
        for (name, schema) in declared.properties {
            check_field(options, &format!("{place}.properties"), name)?;
            if schema.as_doc().is_none() {
                return Err(options.bad(format!(
                    "'{place}.properties.{name}' must be a document: the schema of the field"
                )));
            }
        }
        Ok(declared)
    }

    /// The names of its fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        let listed = self.required.iter().chain(&self.optional).map(String::as_str);
        listed.chain(self.properties.iter().map(|(name, _)| name))
    }

    /// Appends the options, as `listPatterns` shows them.
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        for (name, list) in [("required", &self.required), ("optional", &self.optional)] {
            if !list.is_empty() {
                out.array(name, |out| list.iter().for_each(|field| out.push(Val::String(field))));
            }
        }
        if !self.properties.is_empty() {
            out.append("properties", Val::Document(self.properties));
        }
        if !self.indexes.is_empty() {
            out.array("indexes", |out| {
                for index in &self.indexes {
                    out.push_doc(|out| {
                        out.append("key", Val::Document(index.key.as_doc()));
                        out.bool("unique", index.unique);
                    });
                }
            });
        }
    }
}

/// The names in an array of fields.
fn fields(options: &Options<'_>, place: &str, array: RawDoc<'_>) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for (_, name) in array {
        let Val::String(name) = name.get() else {
            return Err(options.bad(format!("'{place}' must be an array of names of fields")));
        };
        check_field(options, place, name)?;
        if names.iter().any(|known| known == name) {
            return Err(options.bad(format!("'{place}' has '{name}' twice")));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// Refuses a name that is not one of a field at the top level.
fn check_field(options: &Options<'_>, place: &str, name: &str) -> Result<()> {
    options.check_path(place, name)?;
    match name.contains('.') {
        true => Err(options.bad(format!(
            "'{place}' takes fields of the document, found '{name}': describe fields inside of \
             another one by 'properties'"
        ))),
        false => Ok(()),
    }
}

/// Refuses a name that no type can have.
pub(crate) fn check_name(options: &Options<'_>, name: &str) -> Result<()> {
    if name.is_empty() || name.starts_with('$') || name.contains('\0') {
        return Err(options.bad(format!(
            "'types': '{name}' cannot be the name of a type: it must not be empty, begin with '$' or \
             contain a null character"
        )));
    }
    Ok(())
}

/// Compiles the schema of documents that must satisfy all of `parts`.
pub(crate) fn schema(
    options: &Options<'_>,
    place: &str,
    title: Option<&str>,
    parts: &[&Declared<'_>],
) -> Result<Schema> {
    let mut required: Vec<&str> = Vec::new();
    let mut properties: Vec<(&str, Vec<RawDoc<'_>>)> = Vec::new();
    for part in parts {
        for name in &part.required {
            if !required.contains(&&**name) {
                required.push(name);
            }
        }
        for (name, schema) in part.properties {
            let Some(schema) = schema.as_doc() else { continue };
            match properties.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(schema),
                None => properties.push((name, vec![schema])),
            }
        }
    }
    let source = DocBuf::build(|out| {
        out.doc("$jsonSchema", |out| {
            if let Some(title) = title {
                out.str("title", title);
            }
            if !required.is_empty() {
                out.array("required", |out| {
                    required.iter().for_each(|name| out.push(Val::String(name)));
                });
            }
            if properties.is_empty() {
                return;
            }
            out.doc("properties", |out| {
                for (name, schemas) in &properties {
                    match schemas.as_slice() {
                        [only] => out.append(name, Val::Document(*only)),
                        all => out.doc(name, |out| {
                            out.array("allOf", |out| {
                                all.iter().for_each(|one| out.push(Val::Document(*one)));
                            });
                        }),
                    };
                }
            });
        });
    });
    let filter = mismatch::compile(source.as_doc(), 0)
        .map_err(|error| options.bad(format!("'{place}': {}", error.message())))?;
    Ok(Schema { source, filter })
}

/// A type that consists of these parts, the last one its own.
pub(crate) fn make_type(
    options: &Options<'_>,
    name: &str,
    parts: &[&Declared<'_>],
) -> Result<Type> {
    let schema = schema(options, &format!("types.{name}"), Some(name), parts)?;
    let mut fields: Vec<String> = Vec::new();
    for field in parts.iter().flat_map(|part| part.fields()) {
        if !fields.iter().any(|known| known == field) {
            fields.push(field.to_owned());
        }
    }
    let indexes = parts.last().map_or_else(Vec::new, |own| own.indexes.clone());
    let name = name.to_owned();
    Ok(Type {
        name,
        schema,
        fields,
        indexes,
        condition: DocBuf::new(),
        path: Vec::new(),
        is_abstract: false,
        members: Vec::new(),
    })
}
