//! `$text`: words, phrases and negations, and the test of a document.

use super::Language;
use super::spec::TextSpec;
use super::token::{STEPS_OF_WORD, Sensitivity, Terms, fold, words};
use crate::interrupt;
use crate::show::show;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use value::{Code, Error, RawDoc, Result, Val};

/// The argument of `$text`, and its terms for an index once that is known.
#[derive(Debug)]
pub struct TextQuery {
    /// The words.
    pub search: String,
    /// The language, if one was named.
    pub language: Option<Language>,
    /// Whether case matters.
    pub case_sensitive: bool,
    /// Whether marks on letters matter.
    pub diacritic_sensitive: bool,
    bound: OnceLock<IndexSearch>,
}

/// The search in the terms of one index.
#[derive(Debug)]
struct IndexSearch {
    spec: Arc<TextSpec>,
    search: Search,
}

/// The parts of a search.
#[derive(Debug, Default)]
pub struct Search {
    /// Terms as the index has them.
    pub terms: BTreeSet<String>,
    /// Terms with significant case and diacritics; at least one must occur.
    exact: BTreeSet<String>,
    /// Terms that must not occur.
    pub negated: BTreeSet<String>,
    /// Texts that must all occur.
    pub phrases: Vec<String>,
    /// Texts that must not occur.
    pub negated_phrases: Vec<String>,
    folded_phrases: Vec<String>,
    folded_negated_phrases: Vec<String>,
}

fn wrong_type(name: &str, expected: &str, value: Val<'_>) -> Error {
    Error::type_mismatch(format!(
        "\"{name}\" had the wrong type. Expected {expected}, found {}",
        value.kind().name()
    ))
}

fn flag(doc: RawDoc<'_>, name: &str) -> Result<bool> {
    match doc.get(name) {
        None => Ok(false),
        Some(Val::Bool(flag)) => Ok(flag),
        Some(value) => Err(wrong_type(name, "bool", value)),
    }
}

impl TextQuery {
    /// Compiles the argument of `$text`.
    ///
    /// # Errors
    /// What MongoDB answers to one that it cannot parse.
    pub fn parse(value: Val<'_>) -> Result<TextQuery> {
        let Val::Document(doc) = value else {
            return Err(Error::bad_value("$text expects an object"));
        };
        let search = match doc.get("$search") {
            Some(Val::String(search)) => search.to_owned(),
            Some(value) => return Err(wrong_type("$search", "string", value)),
            None => {
                return Err(Error::new(Code::NO_SUCH_KEY, "Missing expected field \"$search\""));
            }
        };
        let language = match doc.get("$language") {
            None => None,
            Some(Val::String("")) => None,
            Some(value @ Val::String(name)) => match Language::find(name) {
                Some(language) => Some(language),
                None => {
                    return Err(Error::bad_value(format!(
                        "unsupported language: {} for text index version 3",
                        show(value)
                    )));
                }
            },
            Some(value) => return Err(wrong_type("$language", "string", value)),
        };
        let case_sensitive = flag(doc, "$caseSensitive")?;
        let diacritic_sensitive = flag(doc, "$diacriticSensitive")?;
        let known = ["$search", "$language", "$caseSensitive", "$diacriticSensitive"];
        if doc.iter().any(|(name, _)| !known.contains(&name)) {
            return Err(Error::bad_value("extra fields in $text"));
        }
        Ok(TextQuery {
            search,
            language,
            case_sensitive,
            diacritic_sensitive,
            bound: OnceLock::new(),
        })
    }

    fn sensitivity(&self) -> Sensitivity {
        Sensitivity { case: self.case_sensitive, diacritics: self.diacritic_sensitive }
    }

    /// Sets the index of the search; only the first call has an effect.
    pub fn bind(&self, spec: &Arc<TextSpec>) -> &Search {
        let bound = self.bound.get_or_init(|| {
            let language = self.language.unwrap_or(spec.default_language());
            IndexSearch {
                spec: spec.clone(),
                search: Search::new(&self.search, language, self.sensitivity()),
            }
        });
        &bound.search
    }

    /// The language of the search.
    #[must_use]
    pub fn language_name(&self) -> &'static str {
        let bound = self.bound.get().map(|bound| bound.spec.default_language());
        self.language.or(bound).map_or("english", Language::name)
    }

    /// Whether a document has one of the terms and satisfies all other conditions.
    ///
    /// # Errors
    /// `IndexNotFound` when the search was not bound to an index.
    pub fn matches(&self, doc: RawDoc<'_>) -> Result<bool> {
        let Some(IndexSearch { spec, search }) = self.bound.get() else { return Err(no_index()) };
        let Ok(pieces) = spec.pieces(doc) else { return Ok(false) };
        let sensitivity = self.sensitivity();
        let mut positive = false;
        for piece in &pieces {
            let terms = Terms::new(piece.language);
            for term in terms.of_text(piece.text, sensitivity) {
                interrupt::charge(STEPS_OF_WORD)?;
                if search.negated.contains(&term) {
                    return Ok(false);
                }
                positive |= search.exact.contains(&term);
                if positive && search.negated.is_empty() {
                    break;
                }
            }
            if positive && search.negated.is_empty() {
                break;
            }
        }
        if !positive {
            return Ok(false);
        }
        if search.phrases.is_empty() && search.negated_phrases.is_empty() {
            return Ok(true);
        }
        let texts: Vec<String> = pieces.iter().map(|piece| fold(piece.text, sensitivity)).collect();
        let holds = |phrase: &String| texts.iter().any(|text| text.contains(phrase.as_str()));
        Ok(search.folded_phrases.iter().all(holds)
            && !search.folded_negated_phrases.iter().any(holds))
    }

    /// The score of a document.
    #[must_use]
    pub fn score(&self, doc: RawDoc<'_>) -> f64 {
        let Some(IndexSearch { spec, search }) = self.bound.get() else { return 0.0 };
        let Ok(scores) = spec.scores(doc) else { return 0.0 };
        search.terms.iter().filter_map(|term| scores.get(term)).sum()
    }
}

/// The error for a search where there is no text index.
#[must_use]
pub fn no_index() -> Error {
    Error::new(Code::INDEX_NOT_FOUND, "text index required for $text query")
}

impl Search {
    /// Parses a search: words, phrases in quotes, and negations by a hyphen, which apply up to the
    /// next space.
    fn new(text: &str, language: Language, sensitivity: Sensitivity) -> Search {
        let mut out = Search::default();
        let terms = Terms::new(language);
        let is_text = |c: char| !c.is_whitespace() && c != '-' && c != '"';
        let (mut after_blank, mut negated) = (true, false);
        // The start of the open phrase.
        let mut phrase: Option<usize> = None;
        let mut at = 0;
        while let Some(rest) = text.get(at..)
            && let Some(c) = rest.chars().next()
        {
            let length = if is_text(c) {
                rest.find(|c| !is_text(c)).unwrap_or(rest.len())
            } else {
                c.len_utf8()
            };
            let run = rest.get(..length).unwrap_or("");
            match c {
                c if c.is_whitespace() => {
                    after_blank = true;
                    at += length;
                    continue;
                }
                '-' => negated |= phrase.is_none() && after_blank,
                '"' => match phrase.take() {
                    Some(start) => {
                        out.phrase(text.get(start..at).unwrap_or(""), negated, sensitivity)
                    }
                    None => {
                        negated &= !after_blank;
                        phrase = Some(at + length);
                    }
                },
                _ => {
                    if phrase.is_none() {
                        negated &= !after_blank;
                        out.words(run, &terms, language, negated, sensitivity);
                    } else if !negated {
                        out.words(run, &terms, language, false, sensitivity);
                    }
                }
            }
            after_blank = false;
            at += length;
        }
        out
    }

    fn phrase(&mut self, phrase: &str, negated: bool, sensitivity: Sensitivity) {
        if phrase.is_empty() {
            return;
        }
        let list = if negated { &mut self.negated_phrases } else { &mut self.phrases };
        list.push(phrase.to_owned());
        let folded =
            if negated { &mut self.folded_negated_phrases } else { &mut self.folded_phrases };
        folded.push(fold(phrase, sensitivity));
    }

    /// Adds the words of a text.
    fn words(
        &mut self,
        text: &str,
        terms: &Terms,
        language: Language,
        negated: bool,
        sensitivity: Sensitivity,
    ) {
        for word in words(text, language) {
            let Some(term) = terms.of_word(word, sensitivity) else { continue };
            if negated {
                self.negated.insert(term);
                continue;
            }
            self.exact.insert(term);
            self.terms.extend(terms.of_word(word, Sensitivity::default()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn found(search: &str, doc: &str) -> bool {
        let spec =
            ejson::parse_doc("{weights: {t: 1}, default_language: 'english'}").expect("right");
        let spec = Arc::new(TextSpec::new(spec.as_doc()));
        let query = ejson::parse_doc(&format!("{{$search: '{search}'}}")).expect("right");
        let query = TextQuery::parse(Val::Document(query.as_doc())).expect("right");
        query.bind(&spec);
        let doc = ejson::parse_doc(&format!("{{t: '{doc}'}}")).expect("right");
        query.matches(doc.as_doc()).expect("is bound")
    }

    #[test]
    fn words_phrases_and_negations_are_told_apart() {
        let fox = "The quick brown fox jumps";
        assert!(found("foxes", fox));
        assert!(found("dog quick", fox));
        assert!(!found("dog", fox));
        assert!(!found("fox -quick", fox));
        assert!(found("fox -slow", fox));
        assert!(found("\"quick brown\"", fox));
        assert!(!found("\"brown quick\"", fox));
        assert!(!found("fox -\"quick brown\"", fox));
        assert!(!found("-slow", fox));
        assert!(!found("the", fox));
        assert!(found("well-known", "a well kept secret"));
        assert!(!found("fox -slow-quick", fox));
        assert!(!found("fox --quick", fox));
        assert!(found("fox - slow", fox));
        assert!(!found("fox -\"lazy dog\"quick", fox));
        assert!(found("-\"lazy dog\" \"quick brown\"", fox));
        assert!(found("\"`quick`\"", fox));
    }
}
