//! Splits text into words, and normalises words for comparison.

use super::Language;
use frostem::Stemmer;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Steps that it takes to make the term of a word.
pub(super) const STEPS_OF_WORD: usize = 16;

/// Which differences matter when words are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sensitivity {
    /// Upper and lower case.
    pub(super) case: bool,
    /// Letters with and without marks.
    pub(super) diacritics: bool,
}

/// The words of a text, unchanged.
pub(super) fn words(text: &str, language: Language) -> impl Iterator<Item = &str> {
    let apostrophe = language.joins_by_apostrophe();
    let inside = move |c: char| {
        c.is_alphanumeric() || c == '_' || (c == '\'' && apostrophe) || is_combining_mark(c)
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = text.get(at..)?;
            let skip = rest.find(inside)?;
            let start = at + skip;
            let rest = text.get(start..)?;
            let length = rest.find(|c| !inside(c)).unwrap_or(rest.len());
            at = start + length;
            let word = text.get(start..at)?;
            // An apostrophe alone is no word.
            if word.chars().any(|c| c != '\'') {
                return Some(word);
            }
        }
    })
}

/// Words to terms, in one language.
pub(super) struct Terms {
    language: Language,
    stemmer: Option<Stemmer>,
}

impl Terms {
    pub(super) fn new(language: Language) -> Terms {
        Terms { language, stemmer: language.stemmer() }
    }

    /// The term of a word; `None` for a stop word.
    pub(super) fn of_word(&self, word: &str, sensitivity: Sensitivity) -> Option<String> {
        let lower = word.to_lowercase();
        if self.language.is_stop_word(&lower) {
            return None;
        }
        let word = if sensitivity.case { word } else { lower.as_str() };
        let stem = match &self.stemmer {
            Some(stemmer) => stemmer.stem(word).into_owned(),
            None => word.to_owned(),
        };
        Some(if sensitivity.diacritics { stem } else { strip(&stem) })
    }

    /// The terms of a text.
    pub(super) fn of_text<'t>(
        &'t self,
        text: &'t str,
        sensitivity: Sensitivity,
    ) -> impl Iterator<Item = String> + 't {
        words(text, self.language).filter_map(move |word| self.of_word(word, sensitivity))
    }
}

/// A diacritic that is a separate character; it is ignored like one on a letter.
fn is_lone_mark(c: char) -> bool {
    matches!(c, '^' | '`' | '\u{A8}' | '\u{AF}' | '\u{B4}' | '\u{B7}' | '\u{B8}')
}

/// A text without the marks on its letters.
fn strip(text: &str) -> String {
    if text.is_ascii() {
        return text.replace(is_lone_mark, "");
    }
    text.nfd().filter(|c| !is_combining_mark(*c) && !is_lone_mark(*c)).nfc().collect()
}

/// A text in the form in which phrases are searched.
pub(super) fn fold(text: &str, sensitivity: Sensitivity) -> String {
    let text = if sensitivity.case { text.to_owned() } else { text.to_lowercase() };
    if sensitivity.diacritics { text } else { strip(&text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str, language: &str) -> Vec<String> {
        let language = Language::find(language).expect("is known");
        Terms::new(language).of_text(text, Sensitivity::default()).collect()
    }

    #[test]
    fn words_become_stems() {
        assert_eq!(terms("The quick foxes, jumping!", "english"), ["quick", "fox", "jump"]);
        assert_eq!(
            terms("well-known e-mail foo_bar don't", "english"),
            ["well", "known", "e", "mail", "foo_bar"]
        );
        assert_eq!(terms("The CAFÉ", "none"), ["the", "cafe"]);
        assert_eq!(terms("les lapins heureux", "french"), ["lapin", "heureux"]);
        assert_eq!(terms("' ''", "english"), [""; 0]);
    }
}
