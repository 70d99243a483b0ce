//! Text indexes: for each term of a document there is an entry with the term and the document's
//! score for it, between the values of the fields before and after the text in the pattern.
//!
//! In its stored form the pattern has `_fts` and `_ftsx` in place of the text fields, which are
//! listed in `weights`.

use super::Index;
use super::keys::{Checks, Key, Keys};
use query::text::{Language, TextSpec};
use std::sync::Arc;
use value::path::Part;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, keys as order};

/// The text fields of an index.
#[derive(Clone, Debug)]
pub struct TextFields {
    /// The fields and their weights.
    pub spec: Arc<TextSpec>,
    /// The position of the term in a key.
    pub at: usize,
}

impl TextFields {
    /// Returns the text fields of a (checked) specification, if it is of a text index.
    #[must_use]
    pub fn of(spec: RawDoc<'_>) -> Option<TextFields> {
        let key = spec.get("key").and_then(Val::as_doc)?;
        let at = key.iter().position(|(name, _)| name == "_fts")?;
        is_text(key).then(|| TextFields { spec: Arc::new(TextSpec::new(spec)), at })
    }
}

/// Returns the part of a term that a key holds. Very long terms are truncated; the filter
/// distinguishes them.
#[must_use]
pub fn key_term(term: &str) -> &str {
    const BYTES_MAX: usize = 128;
    let end = (0..=BYTES_MAX.min(term.len())).rev().find(|at| term.is_char_boundary(*at));
    term.get(..end.unwrap_or(0)).unwrap_or(term)
}

/// Returns whether a key pattern is of a text index.
#[must_use]
pub fn is_text(key: RawDoc<'_>) -> bool {
    key.iter().any(|(_, kind)| kind.get() == Val::String("text"))
}

/// Adds the keys of a document.
///
/// # Errors
/// 17261 and 17262 for unknown languages, CannotBuildIndexKeys for an array in another field.
pub(super) fn keys(
    index: &Index,
    text: &TextFields,
    doc: RawDoc<'_>,
    checks: Checks,
    out: &mut Keys,
) -> Result<()> {
    let mut others = Vec::with_capacity(index.fields.len());
    for (at, field) in index.fields.iter().enumerate() {
        let mut encoded = Vec::new();
        if at != text.at && at != text.at + 1 {
            let value = match single_value(doc, field.path.parts()) {
                None if checks == Checks::None => Some(field.path.get(doc)),
                value => value,
            };
            let Some(value) = value else {
                return Err(Error::new(
                    Code::CANNOT_BUILD_INDEX_KEYS,
                    format!(
                        "Field '{}' of text index contains an array in document: {}",
                        field.path.text(),
                        super::doc_text(doc)
                    ),
                ));
            };
            order::encode(&mut encoded, value, field.descending);
        }
        others.push(encoded);
    }
    for (term, score) in text.spec.scores(doc)? {
        let mut key = Key::default();
        for (at, other) in others.iter().enumerate() {
            if at == text.at {
                order::encode(&mut key.values, Val::String(key_term(&term)), false);
            } else if at == text.at + 1 {
                order::encode(&mut key.values, Val::Double(score), false);
            } else {
                key.values.extend_from_slice(other);
            }
        }
        out.add(key)?;
    }
    if out.keys.len() > 1 {
        out.multikey |= super::multikey::field(text.at);
    }
    Ok(())
}

/// The value at a path, on which only a number may lead into an array; `None` if there is another
/// array on it.
fn single_value<'d>(doc: RawDoc<'d>, parts: &[Part]) -> Option<Val<'d>> {
    let mut value = Val::Document(doc);
    for part in parts {
        value = match value {
            Val::Document(inner) => inner.get(&part.name).unwrap_or(Val::Missing),
            Val::Array(elements) => {
                let at = part.index?;
                elements.iter().nth(at).map_or(Val::Missing, |(_, element)| element.get())
            }
            _ => Val::Missing,
        };
    }
    (!matches!(value, Val::Array(_))).then_some(value)
}

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code::CANNOT_CREATE_INDEX, message))
}

/// Checks the specification of a text index.
///
/// # Errors
/// CannotCreateIndex.
pub fn check(spec: RawDoc<'_>, key: RawDoc<'_>) -> Result<()> {
    if !is_text(key) {
        return match spec.find("weights") {
            Some(_) => refuse(format!(
                "Invalid index specification {}; the field 'weights' can only be specified with \
                 text indexes",
                super::doc_text(spec)
            )),
            None => Ok(()),
        };
    }
    let is_text_field = |kind: Val<'_>| kind == Val::String("text");
    let mut runs = 0;
    let mut inside = false;
    for (name, kind) in key {
        let text = is_text_field(kind.get()) || name == "_ftsx";
        runs += usize::from(text && !inside);
        inside = text;
    }
    if runs > 1 {
        return refuse("'text' fields in index must all be adjacent");
    }
    let weights = match spec.get("weights") {
        None => RawDoc::empty(),
        Some(Val::Document(weights)) => weights,
        Some(Val::String("$**")) => RawDoc::empty(),
        Some(_) => return refuse("text index option 'weights' must be an object"),
    };
    check_fields(key, weights)?;
    for (path, weight) in weights {
        if path != "$**" && path.split('.').any(|part| part.starts_with('$')) {
            return refuse("weight cannot have path component with $ prefix");
        }
        let weight = weight.get();
        let Some(number) = weight.as_f64().filter(|_| weight.is_number()) else {
            return refuse("weight for text index needs numeric type");
        };
        let whole = number.trunc();
        if !(whole > 0.0 && whole < 100_000.0) {
            return refuse(format!(
                "text index weight must be in the exclusive interval (0,100000) but found: {whole}"
            ));
        }
    }
    if let Some(Val::String(language)) = spec.get("default_language")
        && Language::find(language).is_none()
    {
        return refuse("default_language is not valid");
    }
    if let Some(Val::String(name)) = spec.get("language_override")
        && (name.is_empty() || name.starts_with('$') || name.contains('.'))
    {
        return refuse("language_override is not valid");
    }
    if let Some(version) = spec.get("textIndexVersion")
        && version.as_i64_exact() != Some(3)
    {
        return refuse(format!("bad textIndexVersion: {}", super::value_text(version)));
    }
    Ok(())
}

/// Checks the names of the fields of a key pattern and the directions of those without text.
fn check_fields(key: RawDoc<'_>, weights: RawDoc<'_>) -> Result<()> {
    let stored = key.get("_fts") == Some(Val::String("text"));
    if stored {
        let mut after = key.iter().skip_while(|(name, _)| *name != "_fts").skip(1);
        if after.next().is_none_or(|(name, _)| name != "_ftsx") {
            return refuse("expected _ftsx after _fts");
        }
        if weights.is_empty() {
            return refuse("text index option 'weights' must specify fields or the wildcard");
        }
    }
    for (name, kind) in key {
        let kind = kind.get();
        match name {
            "_fts" | "_ftsx" if !stored => {
                return refuse("text index with reserved fields _fts/_ftsx not allowed");
            }
            "_fts" | "_ftsx" => {}
            _ if kind == Val::String("text") && stored => {
                return refuse("text index with reserved fields _fts/_ftsx not allowed");
            }
            _ if kind == Val::String("text") => {}
            _ if matches!(kind.as_f64(), Some(number) if number.abs() == 1.0) => {}
            _ => return refuse("expected value 1 or -1 for non-text key in compound index"),
        }
    }
    Ok(())
}

/// Returns the key pattern in its stored form.
#[must_use]
pub fn stored_key(key: RawDoc<'_>) -> DocBuf {
    if !is_text(key) || key.find("_fts").is_some() {
        return key.into();
    }
    let mut seen = false;
    DocBuf::build(|out| {
        for (name, kind) in key {
            if kind.get() != Val::String("text") {
                out.raw(name, kind);
            } else if !seen {
                seen = true;
                out.str("_fts", "text").i32("_ftsx", 1);
            }
        }
    })
}

/// Writes the options of a text index with all their defaults.
pub fn write_options(spec: RawDoc<'_>, key: RawDoc<'_>, out: &mut value::Writer<'_>) {
    let mut weights: Vec<(&str, i32)> = Vec::new();
    let given = spec.get("weights").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    if spec.get("weights") == Some(Val::String("$**")) {
        weights.push(("$**", 1));
    }
    for (name, weight) in given {
        weights.push((name, weight.get().as_f64().map_or(1, |weight| weight as i32)));
    }
    for (name, kind) in key {
        let text = kind.get() == Val::String("text") && name != "_fts";
        if text && !weights.iter().any(|(known, _)| *known == name) {
            weights.push((name, 1));
        }
    }
    weights.sort_unstable();
    out.doc("weights", |out| {
        for (name, weight) in weights {
            out.i32(name, weight);
        }
    });
    let text = |name: &str| spec.get(name).and_then(Val::as_str);
    out.str("default_language", text("default_language").unwrap_or("english"));
    out.str("language_override", text("language_override").unwrap_or("language"));
    out.i32("textIndexVersion", 3);
}
