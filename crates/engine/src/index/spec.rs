//! Index specifications of `createIndexes`: checked by MongoDB's rules, converted to the form of
//! `listIndexes`, and compared with the existing indexes.

use super::options;
use crate::index_keys::{doc_text, text, wildcard};
use value::collation::CollationSource;
use value::ejson::{self, Format};
use value::{Code, Collation, DocBuf, Error, RawDoc, Result, Val, compare, limits};

/// A checked specification.
#[derive(Clone, Debug)]
pub struct IndexSpec {
    /// The index's name.
    pub name: String,
    /// The whole specification in its stored form.
    pub doc: DocBuf,
    /// Whether it names a collation, including the simple one. Otherwise it takes the collection's.
    pub names_collation: bool,
}

impl IndexSpec {
    /// Returns the key pattern.
    #[must_use]
    pub fn key(&self) -> RawDoc<'_> {
        self.doc.as_doc().get("key").and_then(Val::as_doc).unwrap_or(RawDoc::empty())
    }

    /// Returns the specification for a collection with this default collation.
    ///
    /// # Errors
    /// BadValue for an `_id` index with another collation than the collection's, CannotCreateIndex
    /// for kinds of indexes that do not support a collation.
    pub fn within(&self, default: Option<&Collation>) -> Result<IndexSpec> {
        let own = self.doc.as_doc().get("collation").and_then(Val::as_doc);
        if self.is_id() {
            let default = default.map(Collation::document);
            if self.names_collation && own.map(RawDoc::bytes) != default.map(RawDoc::bytes) {
                let simple = || "{ locale: \"simple\" }".to_owned();
                return Err(Error::bad_value(format!(
                    "The _id index must have the same collation as the collection. Index \
                     collation: {}, collection collation: {}",
                    own.map_or_else(simple, doc_text),
                    default.map_or_else(simple, doc_text)
                )));
            }
            return Ok(self.clone());
        }
        let collation = if self.names_collation { own } else { default.map(Collation::document) };
        let Some(collation) = collation else { return Ok(self.clone()) };
        let kind = self.key().iter().find_map(|(_, kind)| match kind.get() {
            Val::String(kind @ ("text" | "2d" | "geoHaystack")) => Some(kind),
            _ => None,
        });
        if let Some(kind) = kind {
            let error = Error::new(
                Code::CANNOT_CREATE_INDEX,
                format!("Index type '{kind}' does not support collation: {}", doc_text(collation)),
            );
            return Err(in_specification(self.doc.as_doc(), error));
        }
        if own.is_some() {
            return Ok(self.clone());
        }
        let doc = DocBuf::build(|out| {
            out.extend(self.doc.as_doc());
            out.append("collation", Val::Document(collation));
        });
        Ok(IndexSpec { doc, ..self.clone() })
    }

    /// Returns whether this specifies the clustered index of a collection.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        self.doc.as_doc().find("clustered").is_some()
    }

    /// Returns whether this specifies the `_id` index, which always exists.
    #[must_use]
    pub fn is_id(&self) -> bool {
        is_id_key(self.key())
    }
}

/// Options that are stored unchanged, in the given order.
const KEPT: &[&str] = &["partialFilterExpression", "wildcardProjection", "storageEngine"];

/// Options of geospatial indexes that are stored, in the order of `listIndexes`.
const GEO_KEPT: &[&str] = &["bits", "min", "max", "coarsestIndexedLevel", "finestIndexedLevel"];

/// Index options of MongoDB that this version refuses.
const LATER: &[&str] = &["columnstoreProjection"];

/// Kinds of indexes of MongoDB that this version does not support.
const KINDS_LATER: &[&str] = &["columnstore", "geoHaystack"];

/// Checks a specification.
///
/// # Errors
/// CannotCreateIndex, InvalidIndexSpecificationOption, TypeMismatch, FailedToParse, BadValue.
pub fn parse(spec: RawDoc<'_>, ignore_unknown: bool) -> Result<IndexSpec> {
    let mut fields = Fields::default();
    read_fields(spec, ignore_unknown, &mut fields)
        .and_then(|()| options::check_kind(spec))
        .map_err(|error| in_specification(spec, error))?;
    let missing = |name: &str| {
        let message =
            format!("The '{name}' field is a required property of an index specification");
        in_specification(spec, Error::failed_to_parse(message))
    };
    let collation = match fields.collation {
        None => None,
        Some(collation) => {
            Collation::parse(collation, CollationSource::Command).map_err(|error| {
                error.context(format_args!(
                    "failed to add collation information to index spec for index creation: {} :: \
                 caused by :: ",
                    doc_text(spec)
                ))
            })?
        }
    };
    let key = fields.key.ok_or_else(|| missing("key"))?;
    let name = fields.name.ok_or_else(|| missing("name"))?;
    if fields.clustered {
        super::clustered::check(spec, fields.unique)
            .map_err(|error| in_specification(spec, error))?;
        let doc = super::clustered::stored(key, name, fields.version.unwrap_or(2));
        return Ok(IndexSpec { name: name.to_owned(), doc, names_collation: false });
    }
    if is_id_key(key) {
        return id_index(spec, &fields, collation.as_deref());
    }
    if name == "_id_" {
        return Err(Error::bad_value(format!(
            "The index name '_id_' is reserved for the _id index, which must have key pattern \
             {{_id: 1}}, found key: {}",
            doc_text(key)
        )));
    }
    if name == "*" {
        return Err(Error::bad_value("The index name '*' is not valid."));
    }
    if name.is_empty() {
        let error = Error::new(Code::CANNOT_CREATE_INDEX, "index name cannot be empty");
        return Err(in_specification(spec, error));
    }
    if key.count() > limits::INDEX_FIELDS_MAX {
        return Err(Error::new(Code(13103), "too many compound keys"));
    }
    if fields.prepare_unique && fields.unique == Some(true) {
        let message = "an index that is unique need not be prepared for it";
        let error = Error::new(Code::CANNOT_CREATE_INDEX, message);
        return Err(in_specification(spec, error));
    }
    if let Some(seconds) = fields.expire_after_seconds {
        check_expiry(spec, key, seconds)?;
    }
    let doc = DocBuf::build(|out| {
        out.i32("v", fields.version.unwrap_or(2));
        out.append("key", Val::Document(text::stored_key(key).as_doc()));
        out.str("name", name);
        if fields.unique == Some(true) {
            out.bool("unique", true);
        }
        if fields.hidden == Some(true) {
            out.bool("hidden", true);
        }
        for (name, value) in spec {
            match name {
                "background" | "sparse" => drop(out.bool(name, value.get().truthy())),
                "expireAfterSeconds" => drop(out.i32(name, whole(value.get()))),
                _ if KEPT.contains(&name) => drop(out.raw(name, value)),
                _ => {}
            }
        }
        if fields.prepare_unique {
            out.bool("prepareUnique", true);
        }
        if text::is_text(key) {
            text::write_options(spec, key, out);
        }
        if key.iter().any(|(_, kind)| kind.get() == Val::String("2dsphere")) {
            let version = spec.get("2dsphereIndexVersion");
            out.i32("2dsphereIndexVersion", version.map_or(3, whole));
        }
        for name in GEO_KEPT {
            let Some(value) = spec.find(name) else { continue };
            match *name {
                "min" | "max" => out.f64(name, value.get().as_f64().unwrap_or(0.0)),
                _ => out.i32(name, whole(value.get())),
            };
        }
        if let Some(collation) = &collation {
            out.append("collation", Val::Document(collation.document()));
        }
    });
    Ok(IndexSpec { name: name.to_owned(), doc, names_collation: fields.collation.is_some() })
}

/// The fields of a specification, with checked types.
#[derive(Default)]
struct Fields<'a> {
    key: Option<RawDoc<'a>>,
    name: Option<&'a str>,
    version: Option<i32>,
    unique: Option<bool>,
    hidden: Option<bool>,
    expire_after_seconds: Option<Val<'a>>,
    collation: Option<RawDoc<'a>>,
    prepare_unique: bool,
    clustered: bool,
}

fn read_fields<'a>(spec: RawDoc<'a>, ignore_unknown: bool, out: &mut Fields<'a>) -> Result<()> {
    for (name, raw) in spec {
        let value = raw.get();
        match name {
            "key" => match value {
                Val::Document(key) => {
                    check_key(key)?;
                    out.key = Some(key);
                }
                _ => return Err(wrong_type("key", "an object", value)),
            },
            "name" => match value {
                Val::String(text) => out.name = Some(text),
                _ => return Err(wrong_type("name", "a string", value)),
            },
            "v" => out.version = Some(version(spec, value)?),
            "unique" => out.unique = Some(flag(name, value)?),
            "hidden" => match value {
                Val::Bool(hidden) => out.hidden = Some(hidden),
                // MongoDB names the wrong field.
                _ => return Err(wrong_type("name", "a bool", value)),
            },
            "prepareUnique" => out.prepare_unique = flag(name, value)?,
            "clustered" => out.clustered = super::clustered::read(value, flag(name, value)?)?,
            "sparse" | "background" => {
                flag(name, value)?;
            }
            "partialFilterExpression" => options::check_partial(value)?,
            "storageEngine" => options::check_engine(value)?,
            // Checked together with the key pattern.
            "wildcardProjection" => {}
            "expireAfterSeconds" => out.expire_after_seconds = Some(value),
            "weights" => match value {
                // Checked together with the key pattern.
                Val::Document(_) | Val::Array(_) | Val::String(_) => {}
                _ => return Err(wrong_type(name, "an object", value)),
            },
            "default_language" | "language_override" => match value {
                Val::String(_) => {}
                _ => return Err(wrong_type(name, "a string", value)),
            },
            "2dsphereIndexVersion"
            | "bits"
            | "coarsestIndexedLevel"
            | "finestIndexedLevel"
            | "max"
            | "min"
            | "textIndexVersion" => {
                if !value.is_number() {
                    return Err(wrong_type(name, "a number", value));
                }
            }
            // Old drivers send the namespace or ask to drop duplicates. MongoDB accepts and ignores
            // both.
            "ns" => {}
            "dropDups" => drop(flag(name, value)?),
            "collation" => match value {
                Val::Document(collation) if collation.is_empty() => {
                    return Err(Error::bad_value(
                        "The field 'collation' cannot be an empty object.",
                    ));
                }
                Val::Document(collation) => out.collation = Some(collation),
                _ => return Err(wrong_type("collation", "an object", value)),
            },
            _ if LATER.contains(&name) => {
                return Err(Error::new(
                    Code::CANNOT_CREATE_INDEX,
                    format!("the index option '{name}' is not available in this version"),
                ));
            }
            _ if ignore_unknown => {}
            _ => {
                return Err(Error::new(
                    Code::INVALID_INDEX_SPECIFICATION_OPTION,
                    format!(
                        "The field '{name}' is not valid for an index specification. \
                         Specification: {}",
                        doc_text(spec)
                    ),
                ));
            }
        }
    }
    Ok(())
}

fn check_key(key: RawDoc<'_>) -> Result<()> {
    let refuse = |message: String| Err(Error::new(Code::CANNOT_CREATE_INDEX, message));
    if key.is_empty() {
        return refuse("Index keys cannot be empty.".to_owned());
    }
    for (at, (path, direction)) in key.iter().enumerate() {
        if key.iter().take(at).any(|(earlier, _)| earlier == path) {
            return Err(Error::bad_value(format!(
                "Field '{path}' appears more than once in the index key pattern"
            )));
        }
        match direction.get() {
            Val::String(kind) if KINDS_LATER.contains(&kind) => {
                return refuse(format!("{kind} indexes are not available in this version"));
            }
            Val::String("2d" | "2dsphere" | "hashed" | "text") => {}
            Val::String(kind) => return refuse(format!("Unknown index plugin '{kind}'")),
            number if number.is_number() => match number.as_f64() {
                Some(n) if n.is_nan() => {
                    return refuse("Values in the index key pattern cannot be NaN.".to_owned());
                }
                Some(0.0) => {
                    return refuse("Values in the index key pattern cannot be 0.".to_owned());
                }
                _ => {}
            },
            other => {
                return refuse(format!(
                    "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, \
                     numbers < 0, and strings are allowed.",
                    other.kind().name()
                ));
            }
        }
        let value = direction.get();
        let wild = wildcard::is_wildcard(path) && value.is_number();
        if wild && value.as_f64().is_some_and(|n| n < 0.0) {
            return refuse(
                "A numeric value in a $** index key pattern must be positive.".to_owned(),
            );
        }
        let wild_text = path == "$**" && value == Val::String("text");
        check_path(path, value.is_number() || wild_text)?;
    }
    let mut kinds: Vec<&str> = key.iter().filter_map(|(_, kind)| kind.get().as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.len() > 1 {
        return refuse("Can't use more than one index plugin for a single index.".to_owned());
    }
    Ok(())
}

fn check_path(path: &str, numeric: bool) -> Result<()> {
    let refuse = |message: &str| Err(Error::new(Code::CANNOT_CREATE_INDEX, message));
    if path.is_empty() {
        return refuse("Index keys cannot be an empty field.");
    }
    if path == "_fts" && numeric {
        return refuse("Index key contains an illegal field name: '_fts'");
    }
    let path = if wildcard::is_wildcard(path) && numeric {
        path.trim_end_matches("$**").trim_end_matches('.')
    } else {
        path
    };
    if path.is_empty() {
        return Ok(());
    }
    for (at, part) in path.split('.').enumerate() {
        if part.is_empty() {
            return refuse("Index keys cannot contain an empty field.");
        }
        // The fields of a DBRef are allowed after a dot.
        let reference = at > 0 && matches!(part, "$db" | "$id" | "$ref");
        if part.starts_with('$') && !reference {
            return refuse("Index key contains an illegal field name: field name starts with '$'.");
        }
    }
    Ok(())
}

fn version(spec: RawDoc<'_>, value: Val<'_>) -> Result<i32> {
    if !value.is_number() {
        return Err(wrong_type("v", "a number", value));
    }
    match value.as_i64_exact() {
        Some(1) => Ok(1),
        Some(2) => Ok(2),
        found if found.is_none_or(|found| i32::try_from(found).is_err()) => {
            Err(Error::bad_value(format!(
                "Index version must be representable as a 32-bit integer, but got {}",
                ejson::print_value(value, Format::Shell)
            )))
        }
        _ => Err(Error::new(
            Code::CANNOT_CREATE_INDEX,
            format!(
                "Invalid index specification {}; cannot create an index with v={}",
                doc_text(spec),
                ejson::print_value(value, Format::Shell)
            ),
        )),
    }
}

/// Returns the number as `listIndexes` shows it.
fn whole(value: Val<'_>) -> i32 {
    match value.as_f64() {
        // What is no number of seconds never expires.
        Some(number) if number.is_nan() => i32::MAX,
        number => number.map_or(0, |number| number as i32),
    }
}

fn flag(name: &str, value: Val<'_>) -> Result<bool> {
    if matches!(value, Val::Bool(_)) || value.is_number() {
        return Ok(value.truthy());
    }
    Err(Error::type_mismatch(format!(
        "The field '{name} has value {name}: {}, which is not convertible to bool",
        ejson::print_value(value, Format::Shell)
    )))
}

fn check_expiry(spec: RawDoc<'_>, key: RawDoc<'_>, seconds: Val<'_>) -> Result<()> {
    let refuse = |message: String| {
        let message = format!("{message}. Index spec: {}", doc_text(spec));
        Err(Error::new(Code::CANNOT_CREATE_INDEX, message))
    };
    let Some(number) = seconds.as_f64() else {
        return refuse(format!(
            "TTL index 'expireAfterSeconds' option must be numeric, but received a type of '{}'",
            seconds.kind().name()
        ));
    };
    if number < 0.0 {
        return refuse("TTL index 'expireAfterSeconds' option cannot be less than 0".to_owned());
    }
    if number > f64::from(i32::MAX) {
        return refuse(format!(
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a \
             lower number: {number}"
        ));
    }
    if key.count() > 1 {
        return refuse(
            "TTL indexes are single-field indexes, compound indexes do not support TTL".to_owned(),
        );
    }
    Ok(())
}

fn is_id_key(key: RawDoc<'_>) -> bool {
    match (key.first(), key.count()) {
        (Some(("_id", direction)), 1) => direction.get().as_f64() == Some(1.0),
        _ => false,
    }
}

/// Checks a specification of the `_id` index, which exists in every collection. Only default
/// options are allowed, and its name is fixed.
fn id_index(
    spec: RawDoc<'_>,
    fields: &Fields<'_>,
    collation: Option<&Collation>,
) -> Result<IndexSpec> {
    for (name, _) in spec {
        if !matches!(name, "key" | "name" | "v" | "ns" | "collation" | "background") {
            return Err(Error::new(
                Code::INVALID_INDEX_SPECIFICATION_OPTION,
                format!(
                    "The field '{name}' is not valid for an _id index specification. \
                     Specification: {}",
                    doc_text(spec)
                ),
            ));
        }
    }
    let doc = DocBuf::build(|out| {
        out.i32("v", fields.version.unwrap_or(2));
        out.doc("key", |key| {
            key.i32("_id", 1);
        });
        out.str("name", "_id_");
        if let Some(collation) = collation {
            out.append("collation", Val::Document(collation.document()));
        }
    });
    let names_collation = fields.collation.is_some();
    Ok(IndexSpec { name: "_id_".to_owned(), doc, names_collation })
}

/// Refuses a single descending `_id`, which MongoDB treats as an invalid `_id` index. A hashed one is
/// an index of its own.
///
/// # Errors
/// BadValue.
pub fn check_lone_id(spec: &IndexSpec) -> Result<()> {
    let key = spec.key();
    let lone = key.count() == 1 && key.first().is_some_and(|(name, _)| name == "_id");
    let hashed = key.first().is_some_and(|(_, kind)| kind.get() == Val::String("hashed"));
    if lone && !hashed && !spec.is_id() {
        return Err(Error::bad_value(format!(
            "The field 'key' for an _id index must be {{_id: 1}}, but got {}",
            doc_text(key)
        )));
    }
    Ok(())
}

/// Returns whether two key patterns have the same names, order and numbers.
#[must_use]
pub fn same_key(a: RawDoc<'_>, b: RawDoc<'_>) -> bool {
    compare::equal(Val::Document(a), Val::Document(b))
        && a.iter().zip(b).all(|((left, _), (right, _))| left == right)
}

pub(super) fn wrong_type(name: &str, expected: &str, found: Val<'_>) -> Error {
    let found = found.kind().name();
    Error::type_mismatch(format!("The field '{name}' must be {expected}, but got {found}"))
}

pub(super) fn in_specification(spec: RawDoc<'_>, error: Error) -> Error {
    error.context(format!("Error in specification {} :: caused by :: ", doc_text(spec)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(text: &str) -> DocBuf {
        ejson::parse_doc(text).expect("test text")
    }

    fn code(text: &str) -> i32 {
        parse(doc(text).as_doc(), false).map_or_else(|error| error.code().0, |_| 0)
    }

    #[test]
    fn refuses_as_mongodb_does() {
        assert_eq!(code("{key: {a: 1}, name: 'a_1'}"), 0);
        assert_eq!(code("{key: {a: -1, 'b.c': 2.5}, name: 'x', sparse: true}"), 0);
        assert_eq!(code("{key: {a: 1}}"), 9);
        assert_eq!(code("{name: 'x'}"), 9);
        assert_eq!(code("{key: {}, name: 'x'}"), 67);
        assert_eq!(code("{key: {a: 0}, name: 'x'}"), 67);
        assert_eq!(code("{key: {a: true}, name: 'x'}"), 67);
        assert_eq!(code("{key: {a: 'foo'}, name: 'x'}"), 67);
        assert_eq!(code("{key: {a: 'hashed'}, name: 'x'}"), 0);
        assert_eq!(code("{key: {a: 'hashed'}, name: 'x', unique: true}"), 16764);
        assert_eq!(code("{key: {'$**': 1}, name: 'x'}"), 0);
        assert_eq!(code("{key: {'$**': -1}, name: 'x'}"), 67);
        assert_eq!(code("{key: {'$**.a': 1}, name: 'x'}"), 67);
        assert_eq!(code("{key: {'$**': 1}, name: 'x', unique: true}"), 67);
        assert_eq!(code("{key: {'$**': 1, a: 1}, name: 'x'}"), 67);
        assert_eq!(code("{key: {'$**': 1, a: 1}, name: 'x', wildcardProjection: {a: 0}}"), 0);
        assert_eq!(code("{key: {'b.$**': 1, a: 1}, name: 'x'}"), 0);
        assert_eq!(code("{key: {a: 1}, name: 'x', partialFilterExpression: {b: {$gt: 1}}}"), 0);
        assert_eq!(code("{key: {a: 1}, name: 'x', partialFilterExpression: {b: {$ne: 1}}}"), 67);
        assert_eq!(code("{key: {'a..b': 1}, name: 'x'}"), 67);
        assert_eq!(code("{key: {'$a': 1}, name: 'x'}"), 67);
        assert_eq!(code("{key: {'a.$id': 1}, name: 'x'}"), 0);
        assert_eq!(code("{key: {d: 1}, name: 'd', foo: 1}"), 197);
        assert_eq!(code("{key: {d: 1}, name: 'd', unique: 'x'}"), 14);
        assert_eq!(code("{key: {d: 1}, name: 'd', v: 3}"), 67);
        assert_eq!(code("{key: {d: 1}, name: 1}"), 14);
        assert_eq!(code("{key: {d: 1}, name: ''}"), 67);
        assert_eq!(code("{key: {d: 1}, name: '*'}"), 2);
        assert_eq!(code("{key: {d: 1}, name: '_id_'}"), 2);
        assert_eq!(code("{key: {_id: 1}, name: 'foo'}"), 0);
        assert_eq!(code("{key: {_id: 1}, name: '_id_', unique: true}"), 197);
        assert_eq!(code("{key: {t: 1}, name: 't', expireAfterSeconds: -1}"), 67);
        assert_eq!(code("{key: {t: 1, u: 1}, name: 't', expireAfterSeconds: 1}"), 67);
        assert_eq!(code("{key: {c: 1}, name: 'c', collation: {locale: 'xx'}}"), 2);
        assert_eq!(code("{key: {c: 1}, name: 'c', collation: {}}"), 2);
        assert_eq!(code("{key: {c: 1}, name: 'c', collation: {locale: 'fr'}}"), 0);
    }

    #[test]
    fn the_stored_form_is_the_one_that_list_indexes_shows() {
        let given = "{name: 'g', sparse: true, unique: 1, key: {g: 1.0}, ns: 't.i', hidden: false}";
        let spec = parse(doc(given).as_doc(), false).expect("is right");
        let shape = "{v: 2, key: {g: 1.0}, name: 'g', unique: true, sparse: true}";
        assert_eq!(spec.doc.as_doc().bytes(), doc(shape).bytes());
    }

    #[test]
    fn numbers_of_any_type_make_the_same_key() {
        assert!(same_key(doc("{a: 1, b: -1}").as_doc(), doc("{a: 1.0, b: -1.0}").as_doc()));
        assert!(!same_key(doc("{a: 1, b: 1}").as_doc(), doc("{b: 1, a: 1}").as_doc()));
        assert!(!same_key(doc("{a: 1}").as_doc(), doc("{a: 2}").as_doc()));
    }
}
