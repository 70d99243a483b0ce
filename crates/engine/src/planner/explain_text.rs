//! Writes a text search for explain: the parsed query above the scan of its terms.

use super::Candidate;
use super::bounds::Interval;
use super::explain::{Above, ExecutionStats, write_counts, write_index};
use super::request::mentions_meta;
use crate::index_keys::text::TextFields;
use query::filter::{Filter, Node, Test};
use query::text::Search;
use std::collections::BTreeSet;
use value::{RawDoc, Val, Writer};

/// Writes the stages of a text search.
pub(super) fn write(
    out: &mut Writer<'_>,
    name: &str,
    text: &TextFields,
    candidate: &Candidate,
    filter: Option<&Filter>,
    above: &Above<'_>,
    stats: Option<&ExecutionStats>,
) {
    let search = filter.and_then(|filter| filter.text()).map(|query| query.bind(&text.spec));
    let rest = filter.filter(|filter| filter.has_more_than_special());
    let asks = |doc: RawDoc<'_>| mentions_meta(doc, &["textScore"], 0);
    let scored = above.projection.is_some_and(asks) || above.sort.is_some_and(asks);
    let searched = TextStages { text, candidate, search, above, scored, stats };
    out.doc(name, |out| match rest {
        None => searched.text_match(out, true),
        Some(rest) => {
            out.str("stage", "FETCH");
            out.doc("filter", |out| rest.explain_without_special(out));
            write_counts(out, stats, None);
            out.doc("inputStage", |out| searched.text_match(out, false));
        }
    });
}

/// What the stages of a text search show.
struct TextStages<'s> {
    text: &'s TextFields,
    candidate: &'s Candidate,
    search: Option<&'s Search>,
    above: &'s Above<'s>,
    /// Whether scores are needed.
    scored: bool,
    stats: Option<&'s ExecutionStats>,
}

impl TextStages<'_> {
    /// Writes the stage that tests terms and phrases; `last` if nothing is tested after it.
    fn text_match(&self, out: &mut Writer<'_>, last: bool) {
        out.str("stage", "TEXT_MATCH");
        write_counts(out, self.stats, None);
        out.doc("indexPrefix", |out| self.prefix(out));
        out.str("indexName", &self.candidate.index.name);
        out.doc("parsedTextQuery", |out| {
            let empty = Search::default();
            let search = self.search.unwrap_or(&empty);
            terms(out, "terms", &search.terms);
            terms(out, "negatedTerms", &search.negated);
            texts(out, "phrases", &search.phrases);
            texts(out, "negatedPhrases", &search.negated_phrases);
        });
        out.i32("textIndexVersion", 3);
        if let Some(stats) = self.stats.filter(|_| last) {
            out.count("docsRejected", stats.examined.documents.saturating_sub(stats.returned));
        }
        out.doc("inputStage", |out| {
            out.str("stage", if self.scored { "TEXT_OR" } else { "FETCH" });
            if let Some(stats) = self.stats {
                out.count("nReturned", stats.examined.documents);
                out.count("docsExamined", stats.examined.documents);
            }
            self.entries(out);
        });
    }

    /// Writes the values of the fields before the text.
    fn prefix(&self, out: &mut Writer<'_>) {
        let Some(filter) = self.above.filter else { return };
        for (field, _) in self.candidate.columns.iter().take(self.text.at) {
            let value = filter.root().conditions().iter().find_map(|node| match node {
                Node::Leaf(leaf) if leaf.path.text() == field => match &leaf.test {
                    Test::Eq(value) => Some(value.get()),
                    _ => None,
                },
                _ => None,
            });
            out.append(field, value.unwrap_or(Val::Missing));
        }
    }

    /// Writes the scans of the terms.
    fn entries(&self, out: &mut Writer<'_>) {
        let all = self.candidate.columns.get(self.text.at).map_or(&[][..], |(_, terms)| terms);
        match all {
            [] => {
                out.doc("inputStage", |out| {
                    out.str("stage", "EOF");
                });
            }
            [_] => {
                out.doc("inputStage", |out| {
                    out.str("stage", "IXSCAN");
                    write_index(out, self.candidate);
                    if let Some(stats) = self.stats {
                        out.count("keysExamined", stats.examined.keys);
                    }
                });
            }
            several if self.scored => self.scans(out, several),
            several => {
                out.doc("inputStage", |out| {
                    out.str("stage", "OR");
                    self.scans(out, several);
                });
            }
        }
    }

    fn scans(&self, out: &mut Writer<'_>, terms: &[Interval]) {
        if let Some(stats) = self.stats {
            out.count("keysExamined", stats.examined.keys);
        }
        out.array("inputStages", |list| {
            for term in terms {
                let mut one = self.candidate.clone();
                let columns = one.columns.iter().enumerate().map(|(at, (name, intervals))| {
                    let own = at == self.text.at;
                    (name.clone(), if own { vec![term.clone()] } else { intervals.clone() })
                });
                one.columns = columns.collect();
                list.push_doc(|out| {
                    out.str("stage", "IXSCAN");
                    write_index(out, &one);
                });
            }
        });
    }
}

fn terms(out: &mut Writer<'_>, name: &str, terms: &BTreeSet<String>) {
    out.array(name, |list| terms.iter().for_each(|term| list.push(Val::String(term))));
}

fn texts(out: &mut Writer<'_>, name: &str, texts: &[String]) {
    out.array(name, |list| texts.iter().for_each(|text| list.push(Val::String(text))));
}
