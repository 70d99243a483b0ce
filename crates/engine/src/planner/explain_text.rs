//! Writes a text search for explain: the parsed query above the scan of its terms.

use super::explain::{Ran, write_counts, write_index};
use super::{Candidate, edge};
use crate::index_keys::text::TextFields;
use query::filter::Filter;
use query::text::Search;
use std::collections::BTreeSet;
use value::{Val, Writer};

/// Writes the stages of a text search.
pub(super) fn write(
    out: &mut Writer<'_>,
    name: &str,
    text: &TextFields,
    candidate: &Candidate,
    filter: Option<&Filter>,
    ran: Option<&Ran>,
) {
    let search = filter.and_then(|filter| filter.text()).map(|query| query.bind(&text.spec));
    let rest = filter.filter(|filter| filter.has_more_than_special());
    out.doc(name, |out| match rest {
        None => text_match(out, text, candidate, search, ran),
        Some(rest) => {
            out.str("stage", "FETCH");
            out.doc("filter", |out| rest.explain_without_special(out));
            write_counts(out, ran, None);
            out.doc("inputStage", |out| text_match(out, text, candidate, search, ran));
        }
    });
}

fn text_match(
    out: &mut Writer<'_>,
    text: &TextFields,
    candidate: &Candidate,
    search: Option<&Search>,
    ran: Option<&Ran>,
) {
    out.str("stage", "TEXT_MATCH");
    write_counts(out, ran, None);
    out.doc("indexPrefix", |out| {
        for (field, intervals) in candidate.columns.iter().take(text.at) {
            out.array(field, |list| {
                intervals.iter().for_each(|interval| {
                    list.push(Val::String(&edge::interval_text(interval, false)))
                });
            });
        }
    });
    out.str("indexName", &candidate.index.name);
    out.doc("parsedTextQuery", |out| {
        let empty = Search::default();
        let search = search.unwrap_or(&empty);
        terms(out, "terms", &search.terms);
        terms(out, "negatedTerms", &search.negated);
        texts(out, "phrases", &search.phrases);
        texts(out, "negatedPhrases", &search.negated_phrases);
    });
    out.i32("textIndexVersion", 3);
    out.doc("inputStage", |out| {
        out.str("stage", "FETCH");
        if let Some(ran) = ran {
            out.count("docsExamined", ran.examined.documents);
        }
        out.doc("inputStage", |out| {
            out.str("stage", "IXSCAN");
            write_index(out, candidate);
            if let Some(ran) = ran {
                out.count("keysExamined", ran.examined.keys);
            }
        });
    });
}

fn terms(out: &mut Writer<'_>, name: &str, terms: &BTreeSet<String>) {
    out.array(name, |list| terms.iter().for_each(|term| list.push(Val::String(term))));
}

fn texts(out: &mut Writer<'_>, name: &str, texts: &[String]) {
    out.array(name, |list| texts.iter().for_each(|text| list.push(Val::String(text))));
}
