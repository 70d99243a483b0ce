//! Declarations of the kind `attribute`.

use super::layout::StoredPairs;
use super::{Attribute, From, Keys};
use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::paths::meet;
use value::path::Path;
use value::{DocBuf, RawDoc, Result, Val};

/// The number of keys that a document may have, if nothing else is declared.
const KEYS_MAX: usize = 1000;

/// The most fields behind the value in the index.
const SUFFIX_MAX: usize = 8;

pub(crate) fn parse(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let from = from(options)?;
    let face = face(options, &from)?;
    let layout = options.choice("layout", &["object", "array"], &[])?;
    let suffix = index(options, &from, face.as_deref())?;
    check_name(options, suffix.is_some())?;
    let keys = keys(options)?;
    check_keys(options, &from, &keys)?;
    let nested = options.choice("nested", &["flatten", "opaque"], &[])?;
    let opaque = nested == "opaque";
    if opaque {
        check_opaque(options, &keys)?;
    }
    let stored = match (layout, &from) {
        ("array", From::Object(path)) => Some(StoredPairs::new(path)),
        ("array", From::Fields(_)) => {
            return Err(options.bad("'layout: \"array\"' is for 'from', the path of an object"));
        }
        _ => None,
    };
    if options.text("qualifier")?.is_some() {
        return Err(options.not_available("'qualifier'"));
    }
    let duplicates = options.choice("duplicates", &["reject", "keep"], &[])?;
    let declared = DocBuf::build(|out| {
        match &from {
            From::Object(path) => {
                out.str("from", path.text());
            }
            From::Fields(paths) => {
                out.array("fields", |out| {
                    paths.iter().for_each(|path| out.push(Val::String(path.text())));
                });
            }
        }
        if let Some(face) = &face {
            out.str("as", face);
        }
        out.str("layout", layout);
        match &suffix {
            None => out.bool("index", false),
            Some(suffix) => out.doc("index", |out| {
                out.array("suffix", |out| {
                    suffix.iter().for_each(|path| out.push(Val::String(path)))
                });
            }),
        };
        let all = vec!["*".to_owned()];
        out.doc("keys", |out| {
            let include = keys.include.as_ref().unwrap_or(&all);
            for (name, list) in [("include", include), ("exclude", &keys.exclude)] {
                out.array(name, |out| list.iter().for_each(|key| out.push(Val::String(key))));
            }
            out.i64("max", keys.max as i64);
        });
        out.str("nested", nested).str("duplicates", duplicates);
    });
    let keeps_duplicates = duplicates == "keep";
    let kind = Box::new(Attribute { from, face, suffix, keys, opaque, stored, keeps_duplicates });
    Ok(Parsed { kind, target: collection.to_owned(), declared })
}

/// The texts of an array of strings that are neither empty nor repeated.
fn texts(options: &Options<'_>, name: &str, array: RawDoc<'_>) -> Result<Vec<String>> {
    let mut texts: Vec<String> = Vec::new();
    for (_, text) in array {
        let Val::String(text) = text.get() else {
            return Err(options.bad(format!("'{name}' must be an array of strings")));
        };
        if texts.iter().any(|known| known == text) {
            return Err(options.bad(format!("'{name}' has '{text}' twice")));
        }
        texts.push(text.to_owned());
    }
    Ok(texts)
}

/// The same for paths, of which none may lie inside another.
fn paths(options: &Options<'_>, name: &str, array: RawDoc<'_>) -> Result<Vec<String>> {
    let paths = texts(options, name, array)?;
    for (at, path) in paths.iter().enumerate() {
        options.check_path(name, path)?;
        if let Some(other) = paths.iter().skip(at + 1).find(|other| meet(path, other)) {
            return Err(
                options.bad(format!("'{name}' has both '{path}' and '{other}', which overlap"))
            );
        }
    }
    Ok(paths)
}

fn from(options: &mut Options<'_>) -> Result<From> {
    let (path, fields) = (options.path("from")?, options.array("fields")?);
    let (at, from) = match (path, fields) {
        (Some(_), Some(_)) => {
            return Err(options.bad("'from' and 'fields' exclude each other"));
        }
        (None, None) => return Err(options.missing("from")),
        (Some(path), None) => ("from", From::Object(Path::new(path))),
        (None, Some(fields)) => {
            let paths = paths(options, "fields", fields)?;
            if paths.is_empty() {
                return Err(options.bad("'fields' must name at least one field"));
            }
            ("fields", From::Fields(paths.iter().map(|path| Path::new(path)).collect()))
        }
    };
    match from.roots().iter().any(|path| meet(path.text(), "_id")) {
        true => Err(options.bad(format!("'{at}' cannot be '_id' or a part of it"))),
        false => Ok(from),
    }
}

fn face(options: &mut Options<'_>, from: &From) -> Result<Option<String>> {
    let Some(face) = options.path("as")? else { return Ok(None) };
    if face.contains('.') {
        return Err(options
            .bad(format!("'as' must be the name of a field of the document, found '{face}'")));
    }
    if face == "_id" || from.roots().iter().any(|path| path.first() == face) {
        return Err(options.bad(format!("'as' cannot be '{face}', which is another field")));
    }
    Ok(Some(face.to_owned()))
}

/// The fields behind the value in the index; `None` for no index.
fn index(
    options: &mut Options<'_>,
    from: &From,
    face: Option<&str>,
) -> Result<Option<Vec<String>>> {
    let given = match options.get("index") {
        None | Some(Val::Bool(true)) => return Ok(Some(Vec::new())),
        Some(Val::Bool(false)) => return Ok(None),
        Some(Val::Document(doc)) => doc,
        Some(_) => return Err(options.bad("'index' must be a boolean or a document")),
    };
    let mut suffix = Vec::new();
    for (name, value) in given {
        let Val::Array(array) = value.get() else {
            return Err(match name {
                "suffix" => options.bad("'index.suffix' must be an array of paths"),
                other => options.unknown("index", other, &["suffix"]),
            });
        };
        if name != "suffix" {
            return Err(options.unknown("index", name, &["suffix"]));
        }
        suffix = paths(options, "index.suffix", array)?;
    }
    if suffix.len() > SUFFIX_MAX {
        return Err(options.bad(format!("'index.suffix' has more than {SUFFIX_MAX} paths")));
    }
    let is_attribute = |path: &&String| {
        let mut roots = from.roots().iter().map(Path::text).chain(face);
        roots.any(|root| meet(root, path))
    };
    if let Some(path) = suffix.iter().find(is_attribute) {
        return Err(
            options.bad(format!("'index.suffix' has '{path}', which is where the attributes are"))
        );
    }
    Ok(Some(suffix))
}

/// Refuses a name that the index of the pattern cannot have.
fn check_name(options: &mut Options<'_>, indexed: bool) -> Result<()> {
    match options.text("name")? {
        Some(name @ ("_id_" | "*")) if indexed => {
            Err(options
                .bad(format!("'name' cannot be '{name}', because the index has the same name")))
        }
        Some(name) if indexed && name.contains('\0') => {
            Err(options.bad("'name' cannot contain a null character"))
        }
        _ => Ok(()),
    }
}

fn keys(options: &mut Options<'_>) -> Result<Keys> {
    let mut keys = Keys { include: None, exclude: Vec::new(), max: KEYS_MAX };
    let Some(given) = options.document("keys")? else { return Ok(keys) };
    for (name, value) in given {
        match (name, value.get()) {
            ("include", Val::Array(array)) => {
                let list = texts(options, "keys.include", array)?;
                if list.is_empty() {
                    return Err(options.bad("'keys.include' must name at least one key, or '*'"));
                }
                keys.include = (list.as_slice() != ["*"]).then_some(list);
            }
            ("exclude", Val::Array(array)) => keys.exclude = texts(options, "keys.exclude", array)?,
            ("include" | "exclude", _) => {
                return Err(options.bad(format!("'keys.{name}' must be an array of strings")));
            }
            ("max", number) => match number.as_i64_exact().filter(|_| number.is_number()) {
                Some(max @ 1..=1_000_000) => keys.max = max as usize,
                _ => {
                    return Err(options.bad("'keys.max' must be a whole number from 1 to 1000000"));
                }
            },
            (other, _) => {
                return Err(options.unknown("keys", other, &["exclude", "include", "max"]));
            }
        }
    }
    Ok(keys)
}

/// Refuses keys inside of an attribute.
fn check_opaque(options: &Options<'_>, keys: &Keys) -> Result<()> {
    let named = keys.include.iter().flatten().chain(&keys.exclude);
    match named.into_iter().find(|key| key.contains('.')) {
        None => Ok(()),
        Some(key) => Err(options.bad(format!(
            "'keys' names '{key}', which is inside of an attribute ('nested' is 'opaque')"
        ))),
    }
}

fn check_keys(options: &Options<'_>, from: &From, keys: &Keys) -> Result<()> {
    let include = keys.include.as_deref().unwrap_or(&[]);
    for (name, list) in [("keys.include", include), ("keys.exclude", &keys.exclude)] {
        for key in list {
            if key.contains('*') {
                return Err(options.bad(format!(
                    "'{name}' takes keys, and '*' alone in 'include'; found '{key}'"
                )));
            }
            options.check_path(name, key)?;
        }
    }
    if !include.is_empty() && !keys.exclude.is_empty() {
        return Err(options.bad("'keys.exclude' is for 'keys.include: [\"*\"]'"));
    }
    if matches!(from, From::Fields(_)) && !(include.is_empty() && keys.exclude.is_empty()) {
        return Err(options
            .bad("'keys.include' and 'keys.exclude' are for 'from'; 'fields' names its keys"));
    }
    Ok(())
}
