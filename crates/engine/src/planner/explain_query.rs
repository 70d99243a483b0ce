//! `queryPlanner` and `executionStats` of explain: a plan under the stage of its command, with the
//! rejected plans and the reasons for the choice. `explain` writes the tree of a plan.

use super::cover::entries_are_matches;
use super::explain::{Above, Ran, rejected, write_count_scan, write_distinct_scan, write_tree};
use super::{Access, Plan, reasons};
use crate::catalog::{Collection, Pointers, unindexable};
use crate::plan_cache::shape;
use query::filter::Filter;
use value::{DocBuf, RawDoc, Val, Writer};

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
    /// Whether only one entry per distinct value is read.
    pub values: bool,
    /// Whether a count needs only the counters of the collection.
    pub counts_all: bool,
}

impl ExplainedPlan<'_> {
    /// Whether a count needs only index entries.
    #[must_use]
    pub fn counts_entries(&self) -> bool {
        self.stage == Some("COUNT")
            && self.above.filter.is_some_and(|f| entries_are_matches(self.plan, f))
    }

    fn write(&self, out: &mut Writer<'_>, name: &str, ran: Option<&Ran>) {
        if let (true, Access::Index(candidate)) = (self.values, &self.plan.access) {
            return write_distinct_scan(out, name, candidate, ran);
        }
        let Some(stage) = self.stage else {
            return write_tree(out, name, self.plan, self.above, ran);
        };
        let stage = if self.counts_all { "RECORD_STORE_FAST_COUNT" } else { stage };
        out.doc(name, |out| {
            out.str("stage", stage);
            if let Some(ran) = ran {
                out.i32("nReturned", 0);
                out.count("executionTimeMillisEstimate", ran.millis);
                match stage {
                    "COUNT" | "RECORD_STORE_FAST_COUNT" => out.count("nCounted", ran.returned),
                    "DELETE" => out.count("nWouldDelete", ran.returned),
                    _ => {
                        out.count("nMatched", ran.returned);
                        out.count("nWouldModify", self.would_modify);
                        out.i32("nWouldUpsert", 0)
                    }
                };
            }
            match &self.plan.access {
                _ if self.counts_all => {}
                Access::Index(candidate) if self.counts_entries() => {
                    write_count_scan(out, "inputStage", candidate, ran);
                }
                _ => write_tree(out, "inputStage", self.plan, self.above, ran),
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
    let restricted = collection.is_some_and(|collection| {
        let plans = &collection.counters.plans;
        plans.has_filters() && plans.filter_of(filter, sort.as_ref())
    });
    out.bool("indexFilterSet", restricted);
    out.doc("parsedQuery", |out| filter.explain(out));
    if let Some(collation) = filter.collation() {
        out.append("collation", Val::Document(collation.document()));
    }
    let hash = shape::query_hash(filter, sort.as_ref());
    out.str("queryHash", &hash);
    out.str("planCacheKey", &hash);
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
    out.str("why", &reasons::why(explained.plan, filter, sort.as_ref()));
    let better = collection.and_then(|collection| {
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
pub fn write_stats(out: &mut Writer<'_>, ran: &Ran, explained: &ExplainedPlan<'_>) {
    out.bool("executionSuccess", true);
    let returned = if explained.stage.is_some() { 0 } else { ran.returned };
    out.count("nReturned", returned);
    out.count("executionTimeMillis", ran.millis);
    out.count("totalKeysExamined", ran.examined.keys);
    out.count("totalDocsExamined", ran.examined.documents);
    explained.write(out, "executionStages", Some(ran));
}
