//! The specification of a text index: the weights and languages of fields, and the score of a
//! document for each of its terms.

use super::Language;
use super::token::{STEPS_OF_WORD, Sensitivity, Terms};
use crate::interrupt;
use hashbrown::HashMap;
use value::{Code, Error, RawDoc, RawVal, Result, Val};

/// Deepest nesting of documents that are searched.
const DEPTH_MAX: usize = 200;

/// The specification of a text index.
#[derive(Debug)]
pub struct TextSpec {
    /// Paths with their weights.
    weights: Vec<(Box<str>, f64)>,
    /// The weight of all other fields, if all fields are searched.
    wildcard: Option<f64>,
    default_language: Language,
    language_override: Box<str>,
}

/// A text of a document, with the weight and language of its field.
pub(super) struct TextPart<'d> {
    pub(super) text: &'d str,
    pub(super) weight: f64,
    pub(super) language: Language,
}

impl TextSpec {
    /// Reads the (checked) specification of an index.
    #[must_use]
    pub fn new(spec: RawDoc<'_>) -> TextSpec {
        let text = |name: &str| spec.get(name).and_then(Val::as_str);
        let language = text("default_language").and_then(Language::find);
        let mut out = TextSpec {
            weights: Vec::new(),
            wildcard: None,
            default_language: language.or(Language::find("english")).unwrap_or(Language::NONE),
            language_override: text("language_override").unwrap_or("language").into(),
        };
        let weights = spec.get("weights").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
        for (path, weight) in weights {
            let weight = weight.get().as_f64().unwrap_or(1.0);
            if path == "$**" {
                out.wildcard = Some(weight);
            } else {
                out.weights.push((path.into(), weight));
            }
        }
        out
    }

    /// The language of texts and searches that name none.
    #[must_use]
    pub fn default_language(&self) -> Language {
        self.default_language
    }

    /// The indexed texts of a document.
    pub(super) fn pieces<'d>(&self, doc: RawDoc<'d>) -> Result<Vec<TextPart<'d>>> {
        let mut out = Vec::new();
        self.walk(doc, "", self.default_language, 0, &mut out)?;
        Ok(out)
    }

    fn walk<'d>(
        &self,
        doc: RawDoc<'d>,
        prefix: &str,
        language: Language,
        depth: usize,
        out: &mut Vec<TextPart<'d>>,
    ) -> Result<()> {
        if depth > DEPTH_MAX {
            return Ok(());
        }
        let language = self.language_of(doc, language)?;
        for (name, value) in doc {
            if self.wildcard.is_some() && name == &*self.language_override {
                continue;
            }
            let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            let exact = self.weights.iter().find(|(known, _)| **known == *path);
            let weight = exact.map(|(_, weight)| *weight).or(self.wildcard);
            let leads_on = self.wildcard.is_some()
                || self.weights.iter().any(|(known, _)| {
                    known.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.'))
                });
            if weight.is_none() && !leads_on {
                continue;
            }
            let mut visit = |value: RawVal<'d>| match (value.get(), weight) {
                (Val::String(text), Some(weight)) => {
                    out.push(TextPart { text, weight, language });
                    Ok(())
                }
                (Val::Document(inner), _) if leads_on => {
                    self.walk(inner, &path, language, depth + 1, out)
                }
                _ => Ok(()),
            };
            match value.as_array() {
                Some(array) => {
                    for (_, element) in array {
                        visit(element)?;
                    }
                }
                None => visit(value)?,
            }
        }
        Ok(())
    }

    /// The language that a document declares.
    fn language_of(&self, doc: RawDoc<'_>, outer: Language) -> Result<Language> {
        match doc.get(&self.language_override) {
            None => Ok(outer),
            Some(Val::String(name)) => Language::find(name).ok_or_else(|| {
                Error::new(Code(17262), format!("language override unsupported: {name}"))
            }),
            Some(_) => Err(Error::new(
                Code(17261),
                "found language override field in document with non-string type",
            )),
        }
    }

    /// The terms of a document with their scores.
    ///
    /// # Errors
    /// 17261 and 17262 for a document whose language is not known.
    pub fn scores(&self, doc: RawDoc<'_>) -> Result<HashMap<String, f64>> {
        let mut scores: HashMap<String, f64> = HashMap::new();
        let mut known: Option<(Language, Terms)> = None;
        for piece in self.pieces(doc)? {
            let terms = match &mut known {
                Some((language, terms)) if *language == piece.language => terms,
                slot => &mut slot.insert((piece.language, Terms::new(piece.language))).1,
            };
            score(&piece, terms, &mut scores)?;
        }
        Ok(scores)
    }
}

/// Adds the scores of one text. A word scores higher the larger its share of the text; each
/// repetition counts half of the previous one; the only word of a text gets a small bonus.
fn score(piece: &TextPart<'_>, terms: &Terms, scores: &mut HashMap<String, f64>) -> Result<()> {
    struct Count {
        count: f64,
        frequency: f64,
        worth: f64,
    }
    let mut counts: HashMap<String, Count> = HashMap::new();
    let mut tokens = 0.0;
    for term in terms.of_text(piece.text, Sensitivity::default()) {
        interrupt::charge(STEPS_OF_WORD)?;
        tokens += 1.0;
        let found = counts.entry(term).or_insert(Count { count: 0.0, frequency: 0.0, worth: 1.0 });
        found.count += 1.0;
        found.frequency += found.worth;
        found.worth /= 2.0;
    }
    for (term, found) in counts {
        let share = 0.5 * found.count / tokens + 0.5;
        let alone = piece.text.len() == term.len() && piece.text.to_lowercase() == term;
        let adjustment = if alone { 1.1 } else { 1.0 };
        interrupt::charge(STEPS_OF_WORD)?;
        *scores.entry(term).or_insert(0.0) += piece.weight * found.frequency * share * adjustment;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    #[test]
    fn scores_are_those_of_mongodb() {
        let doc = |text: &str| ejson::parse_doc(text).expect("is right");
        let spec = doc("{weights: {t: 1, u: 5, 'v.w': 2}, default_language: 'english'}");
        let spec = TextSpec::new(spec.as_doc());
        let fox = |text: &str| {
            let doc = doc(text);
            spec.scores(doc.as_doc()).expect("is right").get("fox").copied().unwrap_or(0.0)
        };
        assert_eq!(fox("{t: 'The quick brown fox jumps'}"), 0.625);
        assert_eq!(fox("{t: 'fox'}"), 1.1);
        assert_eq!(fox("{t: 'Fox'}"), 1.1);
        assert_eq!(fox("{t: 'Foxes and fox foxes fox'}"), 1.875);
        assert_eq!(fox("{t: 'lazy dog', u: 'fox'}"), 5.5);
        assert_eq!(fox("{t: ['a fox', 'two foxes']}"), 1.75);
        assert_eq!(fox("{t: {a: 'fox'}}"), 0.0);
        assert_eq!(fox("{v: [{w: 'fox'}, {w: 'fox'}]}"), 4.4);
    }
}
