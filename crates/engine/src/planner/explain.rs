//! Writes plans for `explain`: MongoDB's stage names and fields, with exact counts.

use super::bounds::Interval;
use super::run::{Examined, SortTotals};
use super::sample::Sample;
use super::walk::Walk;
use super::{Access, Candidate, Either, Plan, Question, edge};
use crate::catalog::IndexKind;
use query::filter::{Conditions, Filter, Node};
use store::Direction;
use value::{Val, Writer};

/// Statistics of a run of the plan.
#[derive(Clone, Copy, Debug)]
pub struct ExecutionStats {
    /// Documents returned.
    pub returned: u64,
    /// Index entries and documents examined.
    pub examined: Examined,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// Statistics of a blocking sort.
    pub sort: SortTotals,
}

/// The parts of a find above its access.
#[derive(Clone, Copy, Default)]
pub struct Above<'a> {
    /// The filter.
    pub filter: Option<&'a Filter>,
    /// The sort specification.
    pub sort: Option<value::RawDoc<'a>>,
    /// The number of documents to skip.
    pub skip: u64,
    /// The most documents to return.
    pub limit: Option<u64>,
    /// The projection.
    pub projection: Option<value::RawDoc<'a>>,
    /// Whether index keys are returned instead of documents.
    pub return_key: bool,
    /// Whether the client gave a hint.
    pub hinted: bool,
}

impl Above<'_> {
    /// Whether the filter consists of an `$or` only, which MongoDB plans branch by branch.
    pub(super) fn is_or(&self) -> bool {
        let root = self.filter.map(|filter| filter.root().conditions());
        !self.hinted && matches!(root, Some([Node::Or(_)]))
    }
}

/// Writes the tree of a plan under `name`, the outermost stage first.
pub fn write_tree(
    out: &mut Writer<'_>,
    name: &str,
    plan: &Plan,
    above: &Above<'_>,
    stats: Option<&ExecutionStats>,
) {
    let mut stages: Vec<&str> = Vec::new();
    if above.is_or() && !matches!(plan.access, Access::Nothing) {
        stages.push("SUBPLAN");
    }
    if above.return_key {
        stages.push("RETURN_KEY");
    } else if above.projection.is_some() {
        stages.push(projection_stage(plan, above));
    }
    if let Some(limit) = above.limit
        && limit > 0
        && (plan.sorted || above.sort.is_none())
    {
        stages.push("LIMIT");
    }
    if above.skip > 0 && !skips_entries(plan, above) {
        stages.push("SKIP");
    }
    if above.sort.is_some() && !plan.sorted {
        stages.push("SORT");
    }
    write_stages(out, name, &stages, plan, above, stats);
}

/// Whether skipped documents are not fetched, because the index alone decides which come first.
fn skips_entries(plan: &Plan, above: &Above<'_>) -> bool {
    let fetches = match &plan.access {
        Access::Index(candidate) => {
            candidate.cover.is_none()
                && !candidate.index.is_clustered()
                && !matches!(candidate.index.kind, IndexKind::Text(_))
        }
        _ => false,
    };
    let implied = above.filter.is_none_or(|filter| filter.without(plan.implied).is_empty());
    fetches && implied && (above.sort.is_none() || plan.sorted)
}

/// The name of the projection stage. It depends on whether only top-level fields are selected and
/// whether documents are needed.
fn projection_stage(plan: &Plan, above: &Above<'_>) -> &'static str {
    let simple = above.projection.is_some_and(|projection| {
        let flag = |value: Val<'_>| value.is_number() || matches!(value, Val::Bool(_));
        projection.iter().all(|(name, value)| !name.contains('.') && flag(value.get()))
            && projection.iter().any(|(_, value)| value.get().truthy())
    });
    let covered = matches!(&plan.access, Access::Index(candidate) if candidate.cover.is_some());
    match (simple, covered) {
        (false, _) => "PROJECTION_DEFAULT",
        (true, true) => "PROJECTION_COVERED",
        (true, false) => "PROJECTION_SIMPLE",
    }
}

fn write_stages(
    out: &mut Writer<'_>,
    name: &str,
    stages: &[&str],
    plan: &Plan,
    above: &Above<'_>,
    stats: Option<&ExecutionStats>,
) {
    let Some((stage, rest)) = stages.split_first() else {
        let filter = above.filter.map(|filter| filter.without(plan.implied));
        let skip = if skips_entries(plan, above) { above.skip } else { 0 };
        return write_access(out, name, &plan.access, filter.as_ref(), above, skip, stats);
    };
    out.doc(name, |out| {
        out.str("stage", stage);
        write_counts(out, stats, None);
        match *stage {
            "PROJECTION_DEFAULT" | "PROJECTION_SIMPLE" | "PROJECTION_COVERED" => {
                if let Some(projection) = above.projection {
                    out.append("transformBy", Val::Document(projection));
                }
            }
            "RETURN_KEY" | "SUBPLAN" => {}
            "LIMIT" => {
                out.count("limitAmount", above.limit.unwrap_or(0));
            }
            "SKIP" => {
                out.count("skipAmount", above.skip);
            }
            _ => {
                if let Some(sort) = above.sort {
                    out.append("sortPattern", Val::Document(sort));
                }
                out.count("memLimit", value::limits::BLOCKING_STAGE_BYTES_MAX as u64);
                if let Some(limit) = above.limit {
                    out.count("limitAmount", above.skip.saturating_add(limit));
                }
                out.str("type", "simple");
                if let Some(stats) = stats {
                    out.count("totalDataSizeSorted", stats.sort.bytes as u64);
                    out.bool("usedDisk", stats.sort.spills > 0);
                    out.count("spills", stats.sort.spills);
                    out.count("spilledDataStorageSize", stats.sort.spilled_bytes);
                }
            }
        }
        write_stages(out, "inputStage", rest, plan, above, stats);
    });
}

pub(super) fn write_counts(
    out: &mut Writer<'_>,
    stats: Option<&ExecutionStats>,
    advanced: Option<u64>,
) {
    let Some(stats) = stats else { return };
    let returned = advanced.unwrap_or(stats.returned);
    out.count("nReturned", returned);
    out.count("executionTimeMillisEstimate", stats.millis);
    out.count("works", stats.examined.keys.max(stats.examined.documents) + 1);
    out.count("advanced", returned);
    out.i32("isEOF", 1);
}

fn write_access(
    out: &mut Writer<'_>,
    name: &str,
    access: &Access,
    filter: Option<&Filter>,
    above: &Above<'_>,
    skip: u64,
    stats: Option<&ExecutionStats>,
) {
    let filter = filter.filter(|filter| !filter.is_empty());
    match access {
        Access::Nothing => {
            out.doc(name, |out| {
                out.str("stage", "EOF");
                write_counts(out, stats, Some(0));
            });
        }
        Access::Id(_) => {
            out.doc(name, |out| {
                out.str("stage", "IDHACK");
                write_counts(out, stats, None);
                if let Some(stats) = stats {
                    out.count("keysExamined", stats.examined.keys);
                    out.count("docsExamined", stats.examined.documents);
                }
            });
        }
        Access::Collection(direction) => {
            out.doc(name, |out| {
                out.str("stage", "COLLSCAN");
                write_filter(out, filter);
                write_counts(out, stats, None);
                out.str("direction", direction_name(*direction));
                if let Some(stats) = stats {
                    out.count("docsExamined", stats.examined.documents);
                }
            });
        }
        Access::Index(candidate) if candidate.index.is_clustered() => {
            out.doc(name, |out| {
                out.str("stage", "CLUSTERED_IXSCAN");
                write_filter(out, filter);
                write_counts(out, stats, None);
                write_index(out, candidate);
                if let Some(stats) = stats {
                    out.count("keysExamined", stats.examined.keys);
                    out.count("docsExamined", stats.examined.documents);
                }
            });
        }
        Access::Index(candidate) if candidate.cover.is_some() => {
            out.doc(name, |out| {
                if candidate.merge.is_empty() {
                    write_index_scan(out, candidate, filter, stats, None);
                } else {
                    write_merge(out, candidate, above, stats);
                }
            });
        }
        Access::Index(candidate) if matches!(candidate.index.kind, IndexKind::Text(_)) => {
            if let IndexKind::Text(text) = &candidate.index.kind {
                super::explain_text::write(out, name, text, candidate, filter, above, stats);
            }
        }
        Access::Index(candidate) => {
            out.doc(name, |out| {
                out.str("stage", "FETCH");
                write_filter(out, filter);
                write_counts(out, stats, None);
                if let Some(stats) = stats {
                    out.count("docsExamined", stats.examined.documents);
                    out.i32("alreadyHasObj", 0);
                }
                let scan = |out: &mut Writer<'_>| match candidate.merge.is_empty() {
                    true => {
                        let advanced = stats.map(|stats| stats.examined.documents + skip);
                        write_index_scan(out, candidate, None, stats, advanced);
                    }
                    false => write_merge(out, candidate, above, stats),
                };
                out.doc("inputStage", |out| {
                    if skip == 0 {
                        return scan(out);
                    }
                    out.str("stage", "SKIP");
                    write_counts(out, stats, stats.map(|stats| stats.examined.documents));
                    out.count("skipAmount", skip);
                    out.doc("inputStage", scan);
                });
            });
        }
        Access::Near(plan) => {
            let near = |out: &mut Writer<'_>, advanced: Option<u64>| {
                out.str("stage", plan.stage());
                write_counts(out, stats, advanced);
                out.append("keyPattern", Val::Document(plan.index.key.as_doc()));
                out.str("indexName", &plan.index.name);
                out.i32("indexVersion", 2);
                if let Some(stats) = stats {
                    out.count("keysExamined", stats.examined.keys);
                    out.count("docsExamined", stats.examined.documents);
                }
            };
            let rest = filter.filter(|filter| filter.has_more_than_special());
            out.doc(name, |out| match rest {
                None => near(out, None),
                Some(rest) => {
                    out.str("stage", "FETCH");
                    out.doc("filter", |out| rest.explain_without_special(out));
                    write_counts(out, stats, None);
                    out.doc("inputStage", |out| {
                        near(out, stats.map(|stats| stats.examined.documents))
                    });
                }
            });
        }
        Access::Walk(walk) => {
            out.doc(name, |out| write_walk(out, walk, filter, stats));
        }
        Access::Either(either) => {
            out.doc(name, |out| write_either(out, either, above.filter, stats));
        }
    }
}

/// Writes the traversal of a tree.
fn write_walk(
    out: &mut Writer<'_>,
    walk: &Walk,
    filter: Option<&Filter>,
    stats: Option<&ExecutionStats>,
) {
    out.str("stage", "FETCH");
    write_filter(out, filter);
    write_counts(out, stats, None);
    if let Some(stats) = stats {
        out.count("docsExamined", stats.examined.documents);
    }
    out.doc("inputStage", |out| {
        out.str("stage", "TREE_WALK").str("pattern", &walk.pattern.name);
        out.append("keyPattern", Val::Document(walk.index.key.as_doc()));
        out.str("indexName", &walk.index.name);
        out.array("from", |list| {
            for start in &walk.starts {
                list.push_doc(|out| {
                    out.raw("node", start.name.raw()).bool("itself", start.itself);
                    if let Some(levels) = start.levels {
                        out.count("levels", u64::from(levels));
                    }
                });
            }
        });
        if let Some(stats) = stats {
            out.count("keysExamined", stats.examined.keys);
        }
    });
}

/// Writes the union of the scans of an `$or`. A branch whose bounds are not exact gets its own FETCH
/// with a filter.
pub(super) fn write_union(
    out: &mut Writer<'_>,
    either: &Either,
    filter: Option<&Filter>,
    stats: Option<&ExecutionStats>,
) {
    let nodes = filter.map(|filter| filter.branches(either.at)).unwrap_or_default();
    out.str("stage", if either.merge.is_some() { "SORT_MERGE" } else { "OR" });
    // Without a FETCH above it, all that it finds is the result.
    write_counts(
        out,
        stats,
        stats.map(|stats| stats.examined.documents).filter(|count| *count > 0),
    );
    if let Some(sort) = &either.merge {
        out.append("sortPattern", Val::Document(sort.to_document().as_doc()));
    }
    out.array("inputStages", |list| {
        for (branch, node) in either.branches.iter().zip(&nodes) {
            list.push_doc(|out| {
                if is_told(branch, node) {
                    return write_index_scan(out, branch, None, None, None);
                }
                out.str("stage", "FETCH");
                out.doc("filter", |out| node.explain_without(branch.implied, out));
                out.doc("inputStage", |out| write_index_scan(out, branch, None, None, None));
            });
        }
    });
}

/// Whether the bounds of a branch of an `$or` are exact.
fn is_told(branch: &Candidate, node: &Node) -> bool {
    branch.implied.has_all(node.conditions().len())
}

/// Writes the scans of an `$or`, and the FETCH of those whose bounds are exact after the union.
fn write_either(
    out: &mut Writer<'_>,
    either: &Either,
    filter: Option<&Filter>,
    stats: Option<&ExecutionStats>,
) {
    let nodes = filter.map(|filter| filter.branches(either.at)).unwrap_or_default();
    let mut or = Conditions::default();
    or.add(either.at);
    let rest = filter.map(|filter| filter.without(or)).filter(|rest| !rest.is_empty());
    let any_told = either.branches.iter().zip(&nodes).any(|(branch, node)| is_told(branch, node));
    if rest.is_none() && !any_told {
        return write_union(out, either, filter, stats);
    }
    out.str("stage", "FETCH");
    write_filter(out, rest.as_ref());
    write_counts(out, stats, None);
    if let Some(stats) = stats {
        out.count("docsExamined", stats.examined.documents);
    }
    out.doc("inputStage", |out| write_union(out, either, filter, stats));
}

/// Writes the scan of an index. `filter` is tested on its entries in addition to the plan's own.
fn write_index_scan(
    out: &mut Writer<'_>,
    candidate: &Candidate,
    filter: Option<&Filter>,
    stats: Option<&ExecutionStats>,
    advanced: Option<u64>,
) {
    out.str("stage", "IXSCAN");
    write_filter(out, filter.or(candidate.key_filter.as_ref().map(|test| &test.filter)));
    write_counts(out, stats, advanced);
    write_index(out, candidate);
    candidate.probes.iter().for_each(|probes| probes.explain(out));
    if let Some(stats) = stats {
        let repeats = candidate.index.repeats();
        out.count("keysExamined", stats.examined.keys);
        out.count("seeks", candidate.ranges.len() as u64);
        out.count("dupsTested", if repeats { stats.examined.keys } else { 0 });
        let twice = advanced.map_or(0, |advanced| stats.examined.keys.saturating_sub(advanced));
        out.count("dupsDropped", if repeats { twice } else { 0 });
    }
}

/// Writes the stage of a count that needs only index entries.
pub fn write_count_scan(
    out: &mut Writer<'_>,
    name: &str,
    candidate: &Candidate,
    stats: Option<&ExecutionStats>,
) {
    let Some(ends) = count_ends(candidate) else {
        out.doc(name, |out| write_index_scan(out, candidate, None, stats, None));
        return;
    };
    out.doc(name, |out| {
        out.str("stage", "COUNT_SCAN");
        write_counts(out, stats, None);
        if let Some(stats) = stats {
            out.count("keysExamined", stats.examined.keys);
        }
        write_index_head(out, candidate);
        out.doc("indexBounds", |out| {
            let inclusive = |last: bool| {
                ends.iter().all(|(interval, backwards)| {
                    if *backwards == last {
                        interval.low.inclusive
                    } else {
                        interval.high.inclusive
                    }
                })
            };
            let mut key = |name: &str, last: bool| {
                out.doc(name, |out| {
                    for ((interval, backwards), (field, _)) in ends.iter().zip(&*candidate.columns)
                    {
                        let edge = if *backwards == last { &interval.low } else { &interval.high };
                        edge.append(out, field);
                    }
                });
                out.bool(
                    if last { "endKeyInclusive" } else { "startKeyInclusive" },
                    inclusive(last),
                );
            };
            key("startKey", false);
            key("endKey", true);
        });
    });
}

/// Whether a count of entries by this access is a `COUNT_SCAN`.
#[must_use]
pub fn is_count_scan(access: &Access) -> bool {
    matches!(access, Access::Index(candidate) if count_ends(candidate).is_some())
}

/// The one interval of each field and its direction, if the counted entries are one range of the
/// index.
fn count_ends(candidate: &Candidate) -> Option<Vec<(&Interval, bool)>> {
    let one = candidate.ranges.len() == 1 && candidate.check.is_none();
    if !one || candidate.key_filter.is_some() || candidate.probes.is_some() {
        return None;
    }
    let columns = candidate.columns.iter().zip(&candidate.index.columns);
    columns
        .map(|((_, intervals), descending)| match intervals.as_slice() {
            [only] => Some((only, *descending)),
            _ => None,
        })
        .collect()
}

/// Writes the scan of an index that reads one entry per distinct value of a column. As in MongoDB,
/// `distinct` itself shows no projection.
pub fn write_distinct_scan(
    out: &mut Writer<'_>,
    name: &str,
    (candidate, column): (&Candidate, usize),
    projection: Option<value::RawDoc<'_>>,
    stats: Option<&ExecutionStats>,
) {
    let field = candidate.index.fields.get(column).map_or("", |field| field.path.text());
    out.doc(name, |out| {
        let nested = field.contains('.');
        out.str("stage", if nested { "PROJECTION_DEFAULT" } else { "PROJECTION_COVERED" });
        write_counts(out, stats, None);
        match projection {
            Some(projection) => {
                out.append("transformBy", Val::Document(projection));
            }
            None => {
                out.doc("transformBy", |_| {});
            }
        }
        out.doc("inputStage", |out| {
            out.str("stage", "DISTINCT_SCAN");
            write_counts(out, stats, None);
            write_index(out, candidate);
            if let Some(stats) = stats {
                out.count("keysExamined", stats.examined.keys);
            }
        });
    });
}

/// Writes merged ranges: one scan for each.
fn write_merge(
    out: &mut Writer<'_>,
    candidate: &Candidate,
    above: &Above<'_>,
    stats: Option<&ExecutionStats>,
) {
    out.str("stage", "SORT_MERGE");
    write_counts(out, stats, stats.map(|stats| stats.examined.documents));
    if let Some(sort) = above.sort {
        out.append("sortPattern", Val::Document(sort));
    }
    if let Some(stats) = stats {
        let tested = if candidate.index.is_multikey() { stats.examined.keys } else { 0 };
        out.count("dupsTested", tested);
        out.count("dupsDropped", stats.examined.keys.saturating_sub(stats.examined.documents));
    }
    out.array("inputStages", |list| {
        for at in 0..candidate.ranges.len() {
            // The last bounded field changes fastest from one range to the next.
            let mut place = at;
            let mut parts = candidate.columns.to_vec();
            for (column, (_, bounds)) in parts.iter_mut().enumerate().take(candidate.bounded).rev()
            {
                let count = bounds.len().max(1);
                let mut own = place % count;
                place /= count;
                if candidate.index.columns.get(column) == Some(&true) {
                    own = count - 1 - own;
                }
                *bounds = bounds.get(own).cloned().into_iter().collect();
            }
            let one = Candidate { columns: parts.into(), ..candidate.clone() };
            list.push_doc(|out| write_index_scan(out, &one, None, None, None));
        }
    });
}

fn write_filter(out: &mut Writer<'_>, filter: Option<&Filter>) {
    if let Some(filter) = filter {
        out.doc("filter", |out| filter.explain(out));
    }
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "forward",
        Direction::Reverse => "backward",
    }
}

pub(super) fn write_index(out: &mut Writer<'_>, candidate: &Candidate) {
    write_index_head(out, candidate);
    out.str("direction", direction_name(candidate.direction));
    out.doc("indexBounds", |out| {
        for (at, (name, intervals)) in candidate.columns.iter().enumerate() {
            // Bounds are shown in the order in which they are read.
            let descending = candidate.index.columns.get(at) == Some(&true);
            let backwards = descending != (candidate.direction == Direction::Reverse);
            out.array(name, |bounds| {
                let mut push = |interval| {
                    bounds.push(Val::String(&edge::interval_text(interval, backwards)));
                };
                match backwards {
                    false => intervals.iter().for_each(&mut push),
                    true => intervals.iter().rev().for_each(&mut push),
                }
            });
        }
    });
}

fn write_index_head(out: &mut Writer<'_>, candidate: &Candidate) {
    let index = &candidate.index;
    write_key_pattern(out, candidate);
    out.str("indexName", &index.name);
    if let Some(collation) = &index.collation {
        out.append("collation", Val::Document(collation.document()));
    }
    out.bool("isMultiKey", index.is_multikey());
    write_multikey_paths(out, candidate);
    out.bool("isUnique", index.unique);
    out.bool("isSparse", index.sparse);
    out.bool("isPartial", index.partial.is_some());
    out.i32("indexVersion", 2);
}

/// Writes which fields are arrays. MongoDB omits this for hashed indexes, which have none.
fn write_multikey_paths(out: &mut Writer<'_>, candidate: &Candidate) {
    let index = &candidate.index;
    let wildcard = match &index.kind {
        crate::catalog::IndexKind::Hashed(_) => return,
        crate::catalog::IndexKind::Wildcard(wildcard) => Some(wildcard.at),
        _ => None,
    };
    out.doc("multiKeyPaths", |out| {
        for (column, (name, _)) in candidate.columns.iter().enumerate() {
            // The path of a wildcard is an additional column, and never an array.
            let past = wildcard.is_some_and(|at| column > at);
            let path = wildcard == Some(column);
            let field = column - usize::from(past);
            out.array(name, |paths| {
                if path || !index.is_multikey_at(field) {
                    return;
                }
                if matches!(index.kind, crate::catalog::IndexKind::Ordered) {
                    let ends = name.match_indices('.').map(|(end, _)| end).chain([name.len()]);
                    for (depth, end) in ends.enumerate() {
                        if index.is_multikey_up_to(field, depth + 1) {
                            paths.push(Val::String(name.get(..end).unwrap_or(name)));
                        }
                    }
                    return;
                }
                match candidate.arrays.get(field).filter(|known| !known.is_empty()) {
                    Some(known) => known.iter().for_each(|path| paths.push(Val::String(path))),
                    None => paths.push(Val::String(name)),
                }
            });
        }
    });
}

/// The key pattern. In a wildcard index the path that is looked up replaces the wildcard.
fn write_key_pattern(out: &mut Writer<'_>, candidate: &Candidate) {
    let index = &candidate.index;
    let crate::catalog::IndexKind::Wildcard(wildcard) = &index.kind else {
        out.append("keyPattern", Val::Document(index.key.as_doc()));
        return;
    };
    out.doc("keyPattern", |out| {
        for (at, (_, direction)) in index.key.as_doc().iter().enumerate() {
            if at == wildcard.at {
                out.raw("$_path", direction);
            }
            let column = at + usize::from(at >= wildcard.at);
            out.raw(candidate.columns.get(column).map_or("", |(name, _)| name), direction);
        }
    });
}

/// Determines which paths are arrays in the sample, for all indexes of a plan and of its rejected
/// plans.
pub fn note_arrays(plan: &mut Plan, sample: &Sample) {
    for access in std::iter::once(&mut plan.access).chain(&mut plan.rejected) {
        let candidates = match access {
            Access::Index(candidate) => std::slice::from_mut(candidate),
            Access::Either(either) => either.branches.as_mut_slice(),
            _ => continue,
        };
        for candidate in candidates {
            let fields = candidate.index.fields.iter();
            candidate.arrays = fields.map(|field| sample.arrays_on(&field.path)).collect();
        }
    }
}

/// Writes the plan of a candidate as the field `plan`.
pub(super) fn write_candidate(out: &mut Writer<'_>, question: &Question<'_>, chosen: &Candidate) {
    let plan = rejected(&Access::Index(chosen.clone()));
    let sort = question.sort.map(query::sort::SortSpec::to_document);
    let above = Above {
        filter: Some(question.filter),
        sort: sort.as_ref().map(value::DocBuf::as_doc),
        projection: question.projection.filter(|projection| !projection.is_empty()),
        hinted: true,
        ..Above::default()
    };
    write_tree(out, "plan", &plan, &above, None);
}

/// A copy of a plan with another access, for showing rejected plans.
#[must_use]
pub fn rejected(access: &Access) -> Plan {
    let sorted = matches!(access, Access::Index(candidate) if candidate.sorted);
    Plan { implied: access.implied(), access: access.clone(), sorted, rejected: Vec::new() }
}
