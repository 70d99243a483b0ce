//! `queryPlanner` and `executionStats` of explain: a plan under the stage of its command, with the
//! rejected plans and the reasons for the choice. `explain` writes the tree of a plan.

use super::cover::entries_are_matches;
use super::explain::{
    Above, ExecutionStats, rejected, write_count_scan, write_counts, write_distinct_scan,
    write_tree, write_union,
};
use super::{Access, Plan, Question, cache_key, reasons};
use crate::catalog::{Collection, Pointers, unindexable};
use crate::plan_cache::shape::{self, Rest};
use query::filter::Filter;
use store::Snapshot;
use value::{DocBuf, Error, RawDoc, Val, Writer};

/// A plan under the stage of its command.
pub struct ExplainedPlan<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The parts of the query above the access.
    pub above: &'a Above<'a>,
    /// The stage of the command: `COUNT`, `UPDATE`, `DELETE`.
    pub stage: Option<&'static str>,
    /// How many documents an update would change.
    pub would_modify: u64,
    /// The column of the index of which only one entry per distinct value is read.
    pub column: Option<usize>,
    /// Whether a count needs only the counters of the collection.
    pub counts_all: bool,
    /// The hint.
    pub hint: Option<Val<'a>>,
    /// The snapshot of the query, for estimates.
    pub snapshot: Option<&'a Snapshot>,
    /// Whether a pattern answers the query, wholly or in part.
    pub is_answered: bool,
    /// The pattern that has the count.
    pub counted_by: Option<&'a str>,
    /// How many of the documents that it finds a count skips.
    pub skipped: u64,
    /// Whether a write returns the document that it changes.
    pub returns: bool,
    /// Whether a write inserts a document if it finds none.
    pub upserts: bool,
    /// Whether documents are not stored as clients see them.
    pub has_layouts: bool,
    /// How many bytes a write stores, in a collection with layouts.
    pub bytes_written: Option<u64>,
}

impl ExplainedPlan<'_> {
    /// Whether a count needs only index entries.
    #[must_use]
    pub fn counts_entries(&self) -> bool {
        self.stage == Some("COUNT")
            && self.above.filter.is_some_and(|f| entries_are_matches(self.plan, f))
    }

    /// How many documents the whole plan returns.
    fn returned(&self, stats: &ExecutionStats) -> u64 {
        match self.stage {
            None => stats.returned,
            Some(_) if self.returns => stats.returned.min(1),
            Some(_) => 0,
        }
    }

    fn write(&self, out: &mut Writer<'_>, name: &str, stats: Option<&ExecutionStats>) {
        if let (Some(column), Access::Index(candidate)) = (self.column, &self.plan.access) {
            return write_distinct_scan(
                out,
                name,
                (candidate, column),
                self.above.projection,
                stats,
            );
        }
        let Some(stage) = self.stage else {
            return write_tree(out, name, self.plan, self.above, stats);
        };
        let stage = if self.counts_all { "RECORD_STORE_FAST_COUNT" } else { stage };
        out.doc(name, |out| {
            out.str("stage", stage);
            if let Some(stats) = stats {
                out.count("nReturned", self.returned(stats));
                out.count("executionTimeMillisEstimate", stats.millis);
                match stage {
                    "COUNT" | "RECORD_STORE_FAST_COUNT" => {
                        let skipped = self.skipped.min(stats.returned);
                        out.count("nCounted", stats.returned - skipped);
                        out.count("nSkipped", skipped)
                    }
                    "DELETE" => out.count("nWouldDelete", stats.returned),
                    _ => {
                        out.count("nMatched", stats.returned);
                        out.count("nWouldModify", self.would_modify);
                        out.i32("nWouldUpsert", i32::from(self.upserts && stats.returned == 0))
                    }
                };
            }
            match &self.plan.access {
                _ if self.counts_all => {}
                _ if self.counted_by.is_some() => {
                    out.doc("inputStage", |out| {
                        out.str("stage", "PATTERN").str("pattern", self.counted_by.unwrap_or(""));
                    });
                }
                Access::Index(candidate) if self.counts_entries() => {
                    write_count_scan(out, "inputStage", candidate, stats);
                }
                Access::Either(either) if self.counts_entries() => {
                    let union = |out: &mut Writer<'_>| {
                        write_union(out, either, self.above.filter, stats);
                    };
                    out.doc("inputStage", |out| match self.above.is_or() {
                        true => {
                            out.str("stage", "SUBPLAN");
                            write_counts(out, stats, None);
                            out.doc("inputStage", union);
                        }
                        false => union(out),
                    });
                }
                _ => write_tree(out, "inputStage", self.plan, self.above, stats),
            }
        });
    }
}

/// Writes the fields of documents that are resolved on read.
fn write_resolved(out: &mut Writer<'_>, pointers: &Pointers) {
    out.array("resolved", |list| {
        for pattern in &pointers.patterns {
            list.push_doc(|out| {
                let declared = |name| pattern.declaration.as_doc().get(name).unwrap_or(Val::Null);
                out.str("pattern", &pattern.name).append("kind", declared("kind"));
                out.append("strategy", declared("strategy"));
                if let Some(chosen) = pattern.declaration.as_doc().get("chosen") {
                    out.append("chosen", chosen);
                }
                if !pattern.is_pointer() {
                    out.append("overLimit", declared("overLimit"));
                }
                out.array("fields", |list| {
                    pattern.maintains().iter().for_each(|path| list.push(Val::String(path)));
                });
            });
        }
    });
}

/// Writes the fields of `queryPlanner`.
pub fn write_planner(
    out: &mut Writer<'_>,
    namespace: &str,
    collection: Option<&Collection>,
    filter: &Filter,
    explained: &ExplainedPlan<'_>,
) {
    out.str("namespace", namespace);
    let sort = explained.above.sort.and_then(|sort| query::sort::SortSpec::parse(sort).ok());
    let sort = sort.map(|sort| sort.with_collation(filter.collation()));
    let rest = Rest {
        sort: sort.as_ref(),
        projection: explained.above.projection,
        collation: filter.collation().map(|collation| &**collation),
    };
    let hashes = cache_key::hashes(collection, filter, &rest, explained.plan);
    let restricted = collection.is_some_and(|collection| {
        let plans = &collection.counters.plans;
        plans.has_filters() && plans.has_filter(hashes.query)
    });
    out.bool("indexFilterSet", restricted);
    out.doc("parsedQuery", |out| filter.explain(out));
    if let Some(collation) = filter.collation() {
        out.append("collation", Val::Document(collation.document()));
    }
    out.str("queryHash", &shape::text(hashes.query));
    if let Some(key) = hashes.key {
        out.str("planCacheKey", &shape::text(key));
    }
    out.bool("maxIndexedOrSolutionsReached", false);
    out.bool("maxIndexedAndSolutionsReached", false);
    out.bool("maxScansToExplodeReached", false);
    explained.write(out, "winningPlan", None);
    if let Some(pointers) = collection.and_then(|collection| collection.pointers.as_deref()) {
        write_resolved(out, pointers);
    }
    out.array("rejectedPlans", |list| {
        for access in &explained.plan.rejected {
            let plan = rejected(access);
            let mut wrapped = Vec::new();
            value::writer::write_doc(&mut wrapped, |out| {
                // As if hinted: only the winning plan shows an `$or` as planned branch by branch.
                let above = Above { hinted: true, ..*explained.above };
                write_tree(out, "plan", &plan, &above, None);
            });
            if let Some(Val::Document(tree)) = RawDoc::new(&wrapped).get("plan") {
                list.push_doc_bytes(tree.bytes());
            }
        }
    });
    let question = match (collection, explained.snapshot) {
        (Some(collection), Some(snapshot)) => {
            let hint = explained.hint;
            Some(Question {
                collection,
                filter,
                sort: sort.as_ref(),
                hint,
                snapshot,
                projection: explained.above.projection,
                written: None,
            })
        }
        _ => None,
    };
    let question = question.as_ref();
    if let Some(pattern) = explained.counted_by {
        out.str("why", &format!("The pattern {pattern} has the number, so no document is read."));
        return;
    }
    out.str("why", &reasons::why(explained.plan, filter, sort.as_ref(), question));
    let unused = question.map_or_else(Vec::new, |q| reasons::unused_indexes(explained.plan, q));
    if !unused.is_empty() {
        out.array("unusedIndexes", |list| {
            for (name, why) in &unused {
                list.push_doc(|out| {
                    out.str("name", name).str("why", why);
                });
            }
        });
    }
    let better = collection.filter(|_| !explained.is_answered).and_then(|collection| {
        reasons::index_that_would_help(explained.plan, collection, filter, sort.as_ref())
    });
    let pointers = collection.and_then(|collection| collection.pointers.as_deref());
    let patterns = pointers.map_or(&[][..], |pointers| &pointers.patterns);
    let better = better.filter(|key| {
        let spec = DocBuf::build(|out| {
            out.append("key", Val::Document(key.as_doc()));
        });
        let name = collection.map_or("", |collection| &*collection.name);
        unindexable(patterns, name, spec.as_doc()).is_none()
    });
    if let Some(key) = better {
        out.append("indexThatWouldHelp", Val::Document(key.as_doc()));
    }
}

/// Writes the fields of `executionStats`.
pub fn write_stats(
    out: &mut Writer<'_>,
    stats: &ExecutionStats,
    failure: Option<&Error>,
    explained: &ExplainedPlan<'_>,
) {
    out.bool("executionSuccess", failure.is_none());
    if let Some(failure) = failure {
        out.str("errorMessage", failure.message()).i32("errorCode", failure.code().0);
    }
    out.count("nReturned", explained.returned(stats));
    out.count("executionTimeMillis", stats.millis);
    out.count("totalKeysExamined", stats.examined.keys);
    out.count("totalDocsExamined", stats.examined.documents);
    if explained.has_layouts {
        out.count("bytesRead", stats.examined.bytes);
    }
    if let Some(bytes) = explained.bytes_written {
        out.count("bytesWritten", bytes);
    }
    if failure.is_some() {
        out.bool("failed", true);
    }
    explained.write(out, "executionStages", Some(stats));
}
