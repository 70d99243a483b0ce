//! The kinds of patterns: each has a folder and a row of `KINDS`. Their interface is
//! `crate::kind::Kind`; only this folder names kinds.

pub mod approximation;
pub mod attribute;
pub mod bucket;
pub mod computed;
pub mod extended_reference;
#[cfg(feature = "test-kinds")]
pub mod for_tests;
pub mod inheritance;
pub mod outlier;
pub mod polymorphic;
pub mod schema_version;
pub mod subset;
pub mod tree;

pub use bucket::time_series;

use crate::declaration::options::Options;
use crate::declaration::{Parsed, words};
use value::{Code, Error, Result};

/// A kind of pattern, as declarations name it.
pub struct KindRow {
    /// The value of the option `kind`.
    pub name: &'static str,
    /// A description in one line.
    pub help: &'static str,
    /// Reads the options of a declaration on a collection.
    pub(crate) parse: fn(&mut Options<'_>, &str) -> Result<Parsed>,
}

/// All kinds, by their names.
pub static KINDS: &[KindRow] = &[
    KindRow {
        name: "approximation",
        help: "Distinct values, frequent values, percentiles and counts over documents of another collection, with bounded errors.",
        parse: approximation::declaration::parse,
    },
    KindRow {
        name: "attribute",
        help: "Fields of an object as attributes, with one index for all of them.",
        parse: attribute::declaration::parse,
    },
    KindRow {
        name: "bucket",
        help: "Points of a series and a span of time, stored together with their statistics.",
        parse: bucket::declaration::parse,
    },
    KindRow {
        name: "computed",
        help: "Fields computed from the same document, or accumulated over documents of another collection.",
        parse: computed::declaration::parse,
    },
    KindRow {
        name: "extendedReference",
        help: "Fields of a referenced document, copied beside the reference.",
        parse: extended_reference::declaration::parse,
    },
    KindRow {
        name: "inheritance",
        help: "Documents of a hierarchy of types, each with the path of its type.",
        parse: inheritance::declaration::parse,
    },
    KindRow {
        name: "outlier",
        help: "Arrays that are large in a few documents, stored in chunks there.",
        parse: outlier::declaration::parse,
    },
    KindRow {
        name: "polymorphic",
        help: "Documents of several types in one collection, each with its own schema.",
        parse: polymorphic::declaration::parse,
    },
    KindRow {
        name: "schemaVersion",
        help: "Two versions of documents at once: each client reads and writes its own.",
        parse: schema_version::declaration::parse,
    },
    KindRow {
        name: "subset",
        help: "The first documents of another collection in some order, kept inside their parent.",
        parse: subset::declaration::parse,
    },
    KindRow {
        name: "tree",
        help: "Ancestors, paths, depths, counts and nested sets of documents that name their parents.",
        parse: tree::declaration::parse,
    },
];

/// Kinds of the specification that are not implemented yet.
static LATER: &[&str] =
    &["archive", "documentVersioning", "preallocate", "relation", "singleCollection"];

/// The row of a kind.
///
/// # Errors
/// NotImplemented for a kind of a later version, BadValue for an unknown kind.
pub fn find(name: &str) -> Result<&'static KindRow> {
    if let Ok(at) = KINDS.binary_search_by(|row| row.name.cmp(name))
        && let Some(row) = KINDS.get(at)
    {
        return Ok(row);
    }
    #[cfg(feature = "test-kinds")]
    if let Some(row) = for_tests::KINDS.iter().find(|row| row.name == name) {
        return Ok(row);
    }
    if LATER.contains(&name) {
        return Err(Error::new(
            Code::NOT_IMPLEMENTED,
            format!("the pattern kind '{name}' is not available in this version"),
        ));
    }
    let names: Vec<&str> = KINDS.iter().map(|row| row.name).collect();
    let meant = words::nearest(name, &names).map(|name| format!(" (did you mean '{name}'?)"));
    Err(Error::bad_value(format!(
        "'{name}' is not a kind of pattern{}; the kinds are {}",
        meant.unwrap_or_default(),
        words::listed(&names)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sorted_and_none_is_both_there_and_to_come() {
        assert!(KINDS.is_sorted_by(|a, b| a.name < b.name));
        assert!(KINDS.iter().all(|row| !LATER.contains(&row.name)));
        let error = find("other").map(|row| row.name).expect_err("is no kind");
        let message = error.message();
        assert!(
            message
                .starts_with("'other' is not a kind of pattern; the kinds are 'approximation', "),
            "{message}"
        );
        assert!(message.ends_with(" and 'tree'"), "{message}");
        let error = find("compute").map(|row| row.name).expect_err("is no kind");
        assert!(error.message().contains("(did you mean 'computed'?)"), "{}", error.message());
    }
}
