//! Compiles a declaration into a pattern: every option is read, checked and stored with its
//! default; options that are unknown, contradictory or not available are refused by name.
//!
//! `options` reads single options, `words` has the names in their messages, `common` those of all kinds. The options of a kind are read in
//! its own folder (`kinds`).

pub(crate) mod common;
pub(crate) mod options;
pub(crate) mod words;

pub use common::{Common, DuringBuild, Mode, Verify};

use crate::kind::Kind;
use crate::kinds;
use crate::pattern::{Pattern, Phase};
use options::Options;
use value::path::Path;
use value::{DocBuf, Error, RawDoc, Result};

/// The result of parsing a kind's options: the kind, the target, and the options as read.
pub(crate) struct Parsed {
    pub(crate) kind: Box<dyn Kind>,
    pub(crate) target: String,
    pub(crate) declared: DocBuf,
}

/// Reads a declaration on a collection. The pattern has no number and no rank yet.
///
/// # Errors
/// FailedToParse, BadValue or NotImplemented that name the option.
pub fn parse(collection: &str, doc: RawDoc<'_>) -> Result<Pattern> {
    let mut options = Options::new(doc)?;
    let kind = options.required_text("kind")?.to_owned();
    let name = options.text("name")?.map(str::to_owned);
    options.place = match &name {
        Some(name) => format!("pattern '{name}'"),
        None => format!("pattern of kind '{kind}'"),
    };
    let row = kinds::find(&kind).map_err(|error| named(error, &options.place))?;
    let parsed = (row.parse)(&mut options, collection);
    let parsed = parsed.map_err(|error| named(error, &options.place))?;
    let traits = parsed.kind.traits();
    let common = Common::parse(&mut options, &traits)?;
    options.finish(&kind)?;
    let mut pattern = Pattern {
        id: 0,
        rank: 0,
        name: name.unwrap_or_default(),
        collection: collection.to_owned(),
        target: parsed.target,
        phase: Phase::Building,
        common,
        kind: parsed.kind,
        traits,
        declaration: DocBuf::new(),
        failure: String::new(),
        stats: std::sync::Arc::default(),
        kept: Vec::new(),
    };
    pattern.kept = pattern.maintains().iter().map(|path| Path::new(path)).collect();
    if pattern.name.is_empty() {
        pattern.name = automatic_name(&kind, &pattern);
    }
    check_paths(&pattern)?;
    pattern.declaration = DocBuf::build(|out| {
        out.str("name", &pattern.name).str("kind", &kind);
        out.extend(parsed.declared.as_doc());
        pattern.common.write(out, &pattern.traits);
    });
    Ok(pattern)
}

/// The same error with the pattern in front, unless it names it already.
fn named(error: Error, place: &str) -> Error {
    match error.message().starts_with("pattern ") {
        true => error,
        false => error.context(format!("{place}: ")),
    }
}

/// What follows an unknown option of a command about patterns: the one that was probably meant, and all
/// that are known.
#[must_use]
pub fn hint(given: &str, known: &[&str]) -> String {
    words::hint(given, known)
}

fn automatic_name(kind: &str, pattern: &Pattern) -> String {
    let paths = pattern.maintains().into_iter().chain(pattern.kind.arranges());
    let first = paths.into_iter().next().unwrap_or_default();
    format!("{kind}_{first}")
}

/// Refuses to maintain `_id`, the same path twice, or a path inside another.
fn check_paths(pattern: &Pattern) -> Result<()> {
    let paths = pattern.maintains();
    for (at, path) in paths.iter().enumerate() {
        if crate::paths::meet(path, "_id") {
            return Err(Error::bad_value(format!(
                "pattern '{}': '_id' cannot be maintained",
                pattern.name
            )));
        }
        if let Some(other) = paths.iter().skip(at + 1).find(|other| crate::paths::meet(path, other))
        {
            return Err(Error::bad_value(format!(
                "pattern '{}': '{path}' and '{other}' conflict with each other",
                pattern.name
            )));
        }
    }
    if pattern.traits.reads_own_fields {
        return Ok(());
    }
    let reads_itself = pattern.reads().iter().find_map(|(collection, read)| {
        let met = paths.iter().find(|path| crate::paths::meet(path, read));
        met.filter(|_| *collection == pattern.target).cloned()
    });
    if let Some(path) = reads_itself {
        return Err(Error::bad_value(format!(
            "pattern '{}': it reads '{path}', which it maintains itself (a cycle)",
            pattern.name
        )));
    }
    Ok(())
}
