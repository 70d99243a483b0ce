//! The languages of text search, with their stop words and stems.

use frostem::{Algorithm, Stemmer};
use hashbrown::HashSet;
use std::sync::OnceLock;

/// A language. `none` has neither stop words nor stems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Language(u8);

/// A language's names.
struct Row {
    name: &'static str,
    code: &'static str,
    stems: Option<Algorithm>,
}

/// All languages; the position of a language is its number.
static LANGUAGES: &[Row] = &[
    Row { name: "none", code: "none", stems: None },
    Row { name: "danish", code: "da", stems: Some(Algorithm::Danish) },
    // The algorithm of MongoDB; in Snowball 3 the name means another one.
    Row { name: "dutch", code: "nl", stems: Some(Algorithm::DutchPorter) },
    Row { name: "english", code: "en", stems: Some(Algorithm::English) },
    Row { name: "finnish", code: "fi", stems: Some(Algorithm::Finnish) },
    Row { name: "french", code: "fr", stems: Some(Algorithm::French) },
    Row { name: "german", code: "de", stems: Some(Algorithm::German) },
    Row { name: "hungarian", code: "hu", stems: Some(Algorithm::Hungarian) },
    Row { name: "italian", code: "it", stems: Some(Algorithm::Italian) },
    Row { name: "norwegian", code: "nb", stems: Some(Algorithm::Norwegian) },
    Row { name: "portuguese", code: "pt", stems: Some(Algorithm::Portuguese) },
    Row { name: "romanian", code: "ro", stems: Some(Algorithm::Romanian) },
    Row { name: "russian", code: "ru", stems: Some(Algorithm::Russian) },
    Row { name: "spanish", code: "es", stems: Some(Algorithm::Spanish) },
    Row { name: "swedish", code: "sv", stems: Some(Algorithm::Swedish) },
    Row { name: "turkish", code: "tr", stems: Some(Algorithm::Turkish) },
];

/// English stop words: those of MongoDB, which differ from the usual list.
const ENGLISH: &str = "a about above after again against all am an and any are aren't as at be \
    because been before being below between both but by can't cannot could couldn't did didn't do \
    does doesn't doing don't down during each few for from further had hadn't has hasn't have \
    haven't having he he'd he'll he's her here here's hers herself him himself his how how's i i'd \
    i'll i'm i've if in into is isn't it it's its itself let's me more most mustn't my myself no \
    nor not of off on once only or other ought our ours ourselves out over own same shan't she \
    she'd she'll she's should shouldn't so some such than that that's the their theirs them \
    themselves then there there's these they they'd they'll they're they've this those through to \
    too under until up very was wasn't we we'd we'll we're we've were weren't what what's when \
    when's where where's which while who who's whom why why's with won't would wouldn't you you'd \
    you'll you're you've your yours yourself yourselves";

impl Language {
    /// Neither stop words nor stems.
    pub const NONE: Language = Language(0);

    /// The language of this name or two-letter code, in any case.
    #[must_use]
    pub fn find(name: &str) -> Option<Language> {
        let name = name.to_ascii_lowercase();
        let at = LANGUAGES.iter().position(|row| row.name == name || row.code == name)?;
        u8::try_from(at).ok().map(Language)
    }

    fn row(self) -> &'static Row {
        static NONE: Row = Row { name: "none", code: "none", stems: None };
        LANGUAGES.get(usize::from(self.0)).unwrap_or(&NONE)
    }

    /// Its English name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether an apostrophe is part of a word.
    pub(super) fn joins_by_apostrophe(self) -> bool {
        self.name() == "english"
    }

    /// Whether a lower-case word is a stop word.
    #[must_use]
    pub fn is_stop_word(self, word: &str) -> bool {
        static LISTS: OnceLock<Vec<HashSet<&'static str>>> = OnceLock::new();
        let lists = LISTS.get_or_init(|| {
            let list = |row: &Row| match row.name {
                "none" => HashSet::new(),
                "english" => ENGLISH.split(' ').collect(),
                _ => stop_words::get(row.code_of_list()).iter().copied().collect(),
            };
            LANGUAGES.iter().map(list).collect()
        });
        lists.get(usize::from(self.0)).is_some_and(|list| list.contains(word))
    }

    /// The stemmer, if the language has one.
    pub(super) fn stemmer(self) -> Option<Stemmer> {
        self.row().stems.map(Stemmer::new)
    }
}

impl Row {
    /// The code by which the list of stop words is known.
    fn code_of_list(&self) -> &'static str {
        if self.code == "nb" { "no" } else { self.code }
    }
}

/// All names of languages, for the documentation.
pub fn languages() -> impl Iterator<Item = &'static str> {
    LANGUAGES.iter().map(|row| row.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_stop_words_but_none() {
        for row in LANGUAGES {
            let language = Language::find(row.name).expect("is listed");
            assert_eq!(Language::find(&row.code.to_uppercase()), Some(language));
            assert_eq!(language.stemmer().is_some(), row.name != "none");
            if row.name != "none" {
                assert!(!stop_words::get(row.code_of_list()).is_empty(), "{}", row.name);
            }
        }
        let english = Language::find("english").expect("is listed");
        assert!(english.is_stop_word("the"));
        assert!(!english.is_stop_word("fox"));
        assert!(Language::find("german").expect("is listed").is_stop_word("und"));
        assert!(!Language::find("none").expect("is listed").is_stop_word("the"));
        assert!(Language::find("klingon").is_none());
    }
}
