//! Text search: words of many languages, the scores that documents have for them, and `$text`.
//!
//! `language` knows stop words and stems, `token` cuts text into words, `spec` is what a text
//! index says about documents, `query` is what a client searches for.

pub mod language;
pub mod query;
pub mod spec;
mod token;

/// What makes terms of texts in this build: stemmer, stop words, and our own cutting of words. A text
/// index keeps the value that it was built with; with another one its terms cannot be compared to
/// those of a search, so it is rebuilt when the engine opens. Changes with the versions in
/// `Cargo.toml` and with `token`.
pub const ANALYZER: &str = "frostem 2.20261016, stop-words 0.9.0, words 1";

pub use language::Language;
pub use query::{Search, TextQuery};
pub use spec::TextSpec;

#[cfg(test)]
mod tests {
    #[test]
    fn the_analyzer_names_the_versions_that_are_built_in() {
        let manifest = include_str!("../../../../Cargo.toml");
        let version = |name: &str| {
            let row = manifest.lines().find(|line| line.starts_with(&format!("{name} = ")));
            let (_, rest) = row.expect("a row").split_once("version = \"=").expect("is pinned");
            rest.split('"').next().expect("a version").to_owned()
        };
        // The last number of frostem says nothing about stems.
        let stems = version("frostem");
        let stems = stems.rsplit_once('.').expect("three numbers").0;
        let words = version("stop-words");
        assert_eq!(super::ANALYZER, format!("frostem {stems}, stop-words {words}, words 1"));
    }
}
