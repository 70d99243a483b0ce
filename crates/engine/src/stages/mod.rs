//! Aggregation stages: one file and one row in `ALL` for each stage.
//!
//! A stage is parsed once (`Stage`), then opened over the stream of the previous stage. Its `role`
//! tells the planner how it may be optimised, for example a leading `$match` as index bounds or a
//! `$sort` as an index order.
//!
//! Layer: queries.

mod add_fields;
mod bucket;
mod bucket_auto;
pub(crate) mod change_stream;
mod change_stream_split;
mod chunks;
mod coll_stats;
mod context;
mod copied;
mod count;
mod current_op;
mod densify;
pub(crate) mod diagnostics;
mod documents;
mod exchange;
pub(crate) mod explained;
mod facet;
mod fill;
mod foreign;
mod geo_near;
mod granularity;
mod graph_lookup;
mod group;
mod index_stats;
mod inner_rules;
mod internal;
mod limit;
mod list_catalog;
mod list_local_sessions;
mod list_sessions;
mod lookup;
mod map;
mod match_stage;
mod merge;
mod merge_changes;
mod needed;
mod nested;
pub(crate) mod out;
pub mod pipeline;
mod plan_cache_stats;
mod position;
mod privileges;
mod project;
mod query_settings;
mod query_stats;
mod redact;
mod replace_root;
mod reported;
pub(crate) mod row;
mod sample;
mod set_window_fields;
pub(crate) mod sizes;
mod skip;
mod sort;
mod sort_by_count;
mod table;
mod union_with;
mod unset;
mod unwind;

pub use context::{OwnedContext, Scope, StageContext, Within};
pub(crate) use densify::ADDED_MAX as DENSIFY_ADDED_MAX;
pub(crate) use geo_near::GeoNear;
pub(crate) use group::Fused;
pub use inner_rules::Rewriting;
pub use needed::StageReads;
pub(crate) use nested::DEPTH_MAX as SUB_PIPELINE_DEPTH_MAX;
pub(crate) use position::check_source;
pub(crate) use privileges::PipelinePrivileges;
pub(crate) use project::open_projected;
pub use row::StageRow;
pub(crate) use sort::open_sorted;
pub use unwind::Spec as UnwindSpec;

use crate::exec::Stream;
use crate::operation::Operation;
use crate::planner::logical::{self, InnerFired, Shape, Shapes};
use crate::txn::Data;
use query::filter::Filter;
use query::project::Projection;
use query::sort::SortSpec;
use query::{DeferredVariable, Javascript, ParseContext};
use std::sync::Arc;
use store::Seqno;
use value::{Code, Error, RawDoc, RawVal, Result, Val, Writer};

/// A compiled stage.
pub trait Stage: Send + Sync {
    /// Opens the stage over a stream.
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream>;

    /// What the planner needs to know about it.
    fn role(&self) -> Role<'_> {
        Role::Other
    }

    /// Absorbs the next stage, if both can run as one.
    fn absorb(&mut self, _next: &dyn Stage, _context: &StageContext<'_>) -> bool {
        false
    }

    /// What it reads of its input, if its role does not tell; `None` if that is not known.
    fn reads(&self) -> Option<StageReads> {
        None
    }

    /// Takes what the stages behind it read of its results; `None` for everything.
    fn set_read_after(&mut self, _after: &dyn Fn() -> Option<Vec<String>>) {}

    /// Writes the stage for explain.
    fn explain(&self, out: &mut Writer<'_>);

    /// Adds the rules that fired in the pipelines inside the stage, for explain. `path` ends with
    /// the position of the stage.
    ///
    /// # Errors
    /// Errors of the planner.
    fn inner_rules(&self, _path: &str, _inner: &mut InnerFired) -> Result<()> {
        Ok(())
    }
}

/// The role of a stage for the planner.
pub enum Role<'s> {
    /// Passes the documents that match.
    Match(&'s Arc<Filter>),
    /// Orders the documents.
    Sort(&'s SortSpec),
    /// Passes the first documents only.
    Limit(u64),
    /// Makes a document of each element of an array.
    Unwind(&'s UnwindSpec),
    /// Counts all documents into one: `$count`, or `$group` with a constant key and `$sum: 1`.
    Count(CountShape<'s>),
    /// Returns the documents of the collection ordered by distance.
    Near(&'s GeoNear),
    /// Changes every document: `$project`, `$addFields` and the like.
    Project(&'s Projection),
    /// Groups documents.
    Group(&'s group::Group),
    /// Makes documents itself, without input.
    Source,
    /// Writes all documents and returns none.
    Output(&'s dyn Output),
    /// Adds documents of another collection.
    Lookup {
        /// The field that receives them.
        field: &'s str,
        /// Whether it makes a document for each of them.
        unwinds: bool,
    },
    /// Anything else.
    Other,
}

impl<'s> Role<'s> {
    /// What the optimiser's rules know about the stage.
    pub(crate) fn shape(&self) -> Shape<'s> {
        match self {
            Role::Match(_) => Shape::Match,
            Role::Sort(_) => Shape::Sort,
            Role::Limit(_) => Shape::Limit,
            Role::Unwind(unwind) => Shape::Unwind(unwind.path.text()),
            Role::Lookup { field, unwinds } => Shape::Lookup { field, unwinds: *unwinds },
            Role::Count(_) => Shape::Count,
            Role::Near(_) => Shape::Near,
            Role::Project(_) => Shape::Project,
            Role::Group(_) => Shape::Group,
            Role::Source | Role::Output(_) | Role::Other => Shape::Other,
        }
    }
}

impl Shapes for &[Box<dyn Stage>] {
    fn shape(&self, at: usize) -> Option<Shape<'_>> {
        self.get(at).map(|stage| stage.role().shape())
    }
}

/// A last stage, which writes the documents.
pub trait Output {
    /// Writes all documents of the stream. Returns the commit to wait for.
    ///
    /// # Errors
    /// Errors of the stream, and of writes.
    fn write(
        &self,
        data: &Data,
        op: &Operation,
        bypass_validation: bool,
        input: &mut dyn Stream,
    ) -> Result<Option<Seqno>>;
}

/// The output document of a counting stage.
#[derive(Clone, Copy)]
pub struct CountShape<'s> {
    /// The `_id` of the group; missing for `$count`.
    pub id: Val<'s>,
    /// The field of the count.
    pub field: &'s str,
}

/// Every stage, sorted by name.
pub static ALL: &[&StageRow] = &[
    &internal::INHIBIT_OPTIMIZATION,
    &internal::SPLIT_PIPELINE,
    &add_fields::ROW,
    &bucket::ROW,
    &bucket_auto::ROW,
    &change_stream::ROW,
    &change_stream_split::ROW,
    &coll_stats::ROW,
    &count::ROW,
    &current_op::ROW,
    &densify::ROW,
    &documents::ROW,
    &facet::ROW,
    &fill::ROW,
    &geo_near::ROW,
    &graph_lookup::ROW,
    &group::ROW,
    &index_stats::ROW,
    &limit::ROW,
    &list_catalog::ROW,
    &list_local_sessions::ROW,
    &list_sessions::ROW,
    &lookup::ROW,
    &match_stage::ROW,
    &merge::ROW,
    &out::ROW,
    &plan_cache_stats::ROW,
    &project::ROW,
    &query_settings::ROW,
    &query_stats::ROW,
    &redact::ROW,
    &replace_root::ROOT,
    &replace_root::WITH,
    &sample::ROW,
    &add_fields::SET,
    &set_window_fields::ROW,
    &skip::ROW,
    &sort::ROW,
    &sort_by_count::ROW,
    &union_with::ROW,
    &unset::ROW,
    &unwind::ROW,
];

/// Finds the row of a stage by name.
#[must_use]
pub(crate) fn find(name: &str) -> Option<&'static StageRow> {
    ALL.binary_search_by(|row| row.name.cmp(name)).ok().and_then(|at| ALL.get(at)).copied()
}

/// Maximum number of stages in a pipeline.
pub(crate) const STAGES_MAX: usize = 1000;

/// A compiled pipeline.
pub struct CompiledPipeline {
    /// Its stages.
    pub stages: Vec<Box<dyn Stage>>,
    /// The number of leading stages whose result does not depend on the watched variables.
    pub constant: usize,
    /// The rules that merged stages, and which ones.
    pub rewriting: Rewriting,
}

/// Compiles a pipeline.
///
/// # Errors
/// Errors of stages that do not compile; 40324 for an unknown one.
pub fn parse(pipeline: RawDoc<'_>, context: &StageContext<'_>) -> Result<Vec<Box<dyn Stage>>> {
    compile(pipeline, context, &[]).map(|compiled| compiled.stages)
}

/// Compiles a pipeline; `watched` are its deferred variables, which each outer document sets.
///
/// # Errors
/// Same as `parse`.
pub fn compile(
    pipeline: RawDoc<'_>,
    context: &StageContext<'_>,
    watched: &[DeferredVariable],
) -> Result<CompiledPipeline> {
    let mut rewriting = Rewriting::default();
    let mut stages: Vec<Box<dyn Stage>> = Vec::new();
    let mut rows: Vec<&StageRow> = Vec::new();
    let shows_key = crate::planner::request::mentions_meta(pipeline, &["sortKey"], 0);
    let (mut constant, mut varies) = (0, false);
    for (_, element) in pipeline {
        let (name, value) = name_and_argument(element)?;
        let row = find(name)
            .filter(|row| row.is_compiled())
            .ok_or_else(|| unknown(name, &rows, context.within))?;
        let (stage, reads) = DeferredVariable::watch(watched, || (row.parse)(value.get(), context));
        let mut stage = stage?;
        if shows_key
            && row.name == "$sort"
            && let Some(order) = value.as_doc()
        {
            stage = sort::with_key_as_metadata(order, context.collation)?;
        }
        rows.push(row);
        if rows.len() > STAGES_MAX {
            return Err(Error::new(
                Code(7749501),
                format!("Pipeline length must be no longer than {STAGES_MAX} stages"),
            ));
        }
        let varied = varies;
        // Only results of inner pipelines are reused.
        varies |= reads || (context.depth > 0 && is_random(row, element));
        let rule = match stages.last() {
            Some(before) if varied == varies => {
                logical::absorbs(&before.role().shape(), &stage.role().shape())
            }
            _ => None,
        };
        let absorbed = rule.is_some()
            && stages.last_mut().is_some_and(|before| before.absorb(&*stage, context));
        if let Some(rule) = rule.filter(|_| absorbed) {
            rewriting.fired.add(rule);
            rewriting.absorbed.push(rows.len() - 1);
        }
        if !absorbed {
            stages.push(stage);
            constant += usize::from(!varies);
        }
    }
    position::check(&rows, context.within)?;
    for at in 1..=stages.len() {
        let (front, rest) = stages.split_at_mut(at);
        if let Some(stage) = front.last_mut() {
            stage.set_read_after(&|| needed::by(rest, None));
        }
    }
    Ok(CompiledPipeline { stages, constant, rewriting })
}

/// Whether a stage may return another result each time.
fn is_random(row: &StageRow, stage: RawVal<'_>) -> bool {
    let has = |text: &[u8]| stage.bytes.windows(text.len()).any(|bytes| bytes == text);
    row.is_random || has(b"$rand\0") || has(b"$sampleRate\0")
}

/// The error for a stage that cannot be compiled: its name is unknown, or it may only be first in a
/// command's pipeline.
fn unknown(name: &str, before: &[&StageRow], within: Within) -> Error {
    if name == change_stream::ROW.name {
        let code = match within {
            Within::Command => 40602,
            Within::View => Code::OPTION_NOT_SUPPORTED_ON_VIEW.0,
            Within::Facet => 40600,
            Within::Lookup => 51047,
            Within::Union => 31441,
        };
        let message = "$changeStream is only valid as the first stage in a pipeline of a command";
        return Error::new(Code(code), message);
    }
    let mut rows = before.to_vec();
    rows.extend(find(name));
    let misplaced = position::check(&rows, within).err();
    misplaced.unwrap_or_else(|| {
        Error::new(Code(40324), format!("Unrecognized pipeline stage name: '{name}'"))
    })
}

/// The one field of a stage.
fn name_and_argument(stage: RawVal<'_>) -> Result<(&str, RawVal<'_>)> {
    let Some(doc) = stage.as_doc() else {
        return Err(Error::type_mismatch("Each element of the 'pipeline' array must be an object"));
    };
    let mut fields = doc.iter();
    let (Some(only), None) = (fields.next(), fields.next()) else {
        return Err(Error::new(
            Code(40323),
            "A pipeline stage specification object must contain exactly one field.",
        ));
    };
    Ok(only)
}

/// Refuses a pipeline with an unknown stage, before the other stages are checked.
///
/// # Errors
/// 40324, and errors for elements that are not stages.
pub fn check_names(pipeline: RawDoc<'_>) -> Result<()> {
    for (_, stage) in pipeline {
        let (name, _) = name_and_argument(stage)?;
        if find(name).is_none() {
            return Err(unknown(name, &[], Within::Command));
        }
    }
    Ok(())
}

/// Refuses a pipeline that does not compile, for views.
///
/// # Errors
/// Same as `parse`.
pub fn check(pipeline: RawDoc<'_>, javascript: Javascript) -> Result<()> {
    // Constants that cannot be computed fail when the view is read.
    let constants =
        ParseContext { javascript, lenient: true, ..ParseContext::new(crate::clock::now_ms()) };
    parse(pipeline, &StageContext::of_view(constants, "")).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn the_registry_is_sorted_so_that_binary_search_works() {
        assert!(ALL.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
