//! `explain`: the plan of a command, its execution statistics and the rejected plans.

use super::count::distinct_scan;
use super::heads::{self, Heads};
use super::query::{Constants, Find, explained_rewrites};
use super::row::{NamedIn, ReadConcerns, Required, StableApi};
use super::{Command, Context};
use crate::access::Authorization;
use crate::args::Args;
use crate::catalog::Collection;
use crate::exec::parts::{self, Reads};
use crate::exec::scan::Scan;
use crate::exec::{Examined, Stream};
use crate::planner::explain::{Above, ExecutionStats, note_arrays, rejected, write_tree};
use crate::planner::explain_query::{ExplainedPlan, write_planner, write_stats};
use crate::planner::logical::Fired;
use crate::planner::run::SortTotals;
use crate::planner::{self};
use crate::planner::{Access, Plan};
use query::filter::{Conditions, Filter};
use query::project::{Mode, Projection};
use query::update::Update;
use std::time::Instant;
use value::{Code, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "explain",
    help: "Returns the plan of a command and its execution statistics.",
    fields: Some(&["explain", "verbosity"]),
    privilege: Required::Custom(allowed),
    stable_api: StableApi::Included,
    read_concern: ReadConcerns::Majority,
    namespace: NamedIn::None,
    refuses_write_concern: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let inner = context.args.doc("explain")?;
    let verbosity = context.args.optional_string("verbosity")?.unwrap_or("allPlansExecution");
    if !["queryPlanner", "executionStats", "allPlansExecution"].contains(&verbosity) {
        return Err(Error::bad_value(format!(
            "Enumeration value '{verbosity}' for field 'explain.verbosity' is not a valid value."
        )));
    }
    let name = inner.first().map_or("", |(name, _)| name);
    let options = &context.engine.data.options;
    let row = super::find(name).filter(|row| row.is_available(options)).ok_or_else(|| {
        Error::new(
            Code::COMMAND_NOT_FOUND,
            format!("Explain failed due to unknown command: {name}"),
        )
    })?;
    if inner.get("$db").is_some_and(|db| db.as_str() != Some(context.db)) {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            "the '$db' of the explained command is another one than that of explain",
        ));
    }
    if let Some(version) = inner.get("$schemaVersion") {
        context.op.pin_form(super::generic::form(version)?);
    }
    if !matches!(row.explain, Explain::Refused)
        && let Some(name) = row.namespace.collection(inner)
    {
        let namespace = format!("{}.{name}", context.db);
        context.op.report(|report| report.namespace = Some(namespace));
    }
    let outer = context.args;
    context.args = Args::new(row.name, inner);
    if let Some(fields) = row.fields {
        context.args.check_fields(fields, true)?;
    }
    let inner_name = inner.first().and_then(|(_, name)| name.get().as_str()).unwrap_or("");
    let takes = row.fields.is_some_and(|fields| fields.contains(&"rawBuckets"));
    let raw = if takes { super::raw_buckets::asked(&context.args, inner_name)? } else { None };
    let result = match (row.explain, raw) {
        (_, Some(asked)) => super::raw_buckets::explain(context, &asked, verbosity, out),
        (Explain::Pipeline, None) => super::explain_pipeline::explain(context, verbosity, out),
        (Explain::Query(query), None) => explain_query(context, query, verbosity, out),
        (Explain::Refused, None) => {
            Err(Error::new(Code::ILLEGAL_OPERATION, format!("Cannot explain cmd: {}", row.name)))
        }
    };
    context.args = outer;
    result
}

/// How `explain` explains a command; part of its row.
#[derive(Clone, Copy)]
pub(crate) enum Explain {
    /// Not supported.
    Refused,
    /// As a pipeline.
    Pipeline,
    /// As the query that the command runs.
    Query(for<'a> fn(&Context<'a>) -> Result<Query<'a>>),
}

/// The query of a command that is explained.
#[derive(Default)]
pub(crate) struct Query<'a> {
    /// The query.
    pub(super) find: Find<'a>,
    /// What the command does with the documents.
    pub(super) purpose: Purpose,
    /// Whether it also returns the document that it changes.
    pub(super) returns: bool,
    /// Whether it inserts a document if it finds none.
    pub(super) upserts: bool,
}

/// What a command does with the documents that its query finds.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Returns them, or values of them.
    #[default]
    Return,
    /// Counts them.
    Count,
    /// Updates them.
    Update,
    /// Deletes them.
    Delete,
}

impl Purpose {
    /// The stage above the query's stages in the plan.
    fn stage(self) -> Option<&'static str> {
        match self {
            Purpose::Return => None,
            Purpose::Count => Some("COUNT"),
            Purpose::Update => Some("UPDATE"),
            Purpose::Delete => Some("DELETE"),
        }
    }
}

/// Returns the query of the first statement in the field `list`, called `place` in messages.
///
/// # Errors
/// When there are no statements.
pub(super) fn first_statement<'a>(
    context: &Context<'a>,
    list: &str,
    place: &'static str,
) -> Result<(Args<'a>, Find<'a>)> {
    let args = &context.args;
    let statements = args.optional_array(list)?.ok_or_else(|| args.missing(list))?;
    let first = statements.first().and_then(|(_, statement)| statement.as_doc());
    let statement = Args::new(place, first.ok_or_else(|| args.missing(list))?);
    let find =
        Find { filter: statement.optional_doc("q")?, hint: statement.hint()?, ..Find::default() };
    Ok((statement, find))
}

fn explain_query<'a>(
    context: &mut Context<'a>,
    query: fn(&Context<'a>) -> Result<Query<'a>>,
    verbosity: &str,
    out: &mut Writer<'_>,
) -> Result<()> {
    let name = context.collection_name()?;
    let Query { mut find, purpose, returns, upserts } = query(context)?;
    let stage = purpose.stage();
    // A count skips what it has counted.
    let skipped = if purpose == Purpose::Count { std::mem::take(&mut find.skip) } else { 0 };
    if purpose == Purpose::Count {
        find.limit = find.limit.map(|limit| limit.saturating_add(skipped));
    }
    let constants = Constants::new(context)?;
    if purpose == Purpose::Update {
        update_of(context, &constants)?;
    }
    let namespace = format!("{}.{name}", context.db);
    let view = context.engine.data.view(context.op);
    let mut rewriting = match purpose {
        Purpose::Return | Purpose::Count if find.values.is_none() => {
            Some(explained_rewrites(context, &constants, &view, find.hint)?)
        }
        _ => None,
    };
    let source = view.catalog.get(context.db, name).filter(|source| source.view().is_none());
    let seen = source.map(|source| view.seen(source)).transpose()?.flatten();
    let source = seen.as_ref().or(source);
    let mut fired = Fired::default();
    let counted = match source {
        Some(source) if purpose == Purpose::Count => find.counted(rewriting.as_mut(), source)?,
        _ => None,
    };
    let other = match source {
        Some(source) if counted.is_none() => find.rewritten(rewriting.as_mut(), source)?,
        _ => None,
    };
    if let Some((filter, _)) = &other {
        find.filter = Some(filter.as_doc());
    }
    let shown = match source {
        Some(source) if purpose == Purpose::Return => {
            Heads::of_find(context, source, &view.snapshot, find.projection)?
        }
        _ => None,
    };
    if let Some(shown) = &shown {
        find.heads = &shown.unread;
    }
    let page = match source {
        Some(source) if purpose == Purpose::Return => heads::page(&find, source),
        _ => None,
    };
    let answered = counted.map(|(_, rule)| rule).or(other.as_ref().map(|(_, rule)| *rule));
    answered.into_iter().for_each(|rule| fired.add(rule));
    let filter = Filter::parse(find.filter.unwrap_or(RawDoc::empty()), &constants.context())?;
    let above = Above {
        filter: Some(&filter),
        sort: find.sort.filter(|doc| !doc.is_empty() && doc.find("$natural").is_none()),
        skip: find.skip,
        // A write of one document stops after it, and a count has its limit itself.
        limit: find.limit.filter(|_| stage.is_none()),
        projection: find.projection.filter(|doc| !doc.is_empty()),
        return_key: find.return_key,
        hinted: find.hint.is_some(),
    };
    let collection = context.engine.data.collection(context.db, name);
    let collection = collection.map(|collection| context.op.sees(collection)).transpose()?;
    if let Some(view) = collection.as_ref().filter(|collection| collection.view().is_some()) {
        return super::explain_view::explain(context, &view.name, &find, purpose, verbosity, out);
    }
    out.str("explainVersion", "1");
    if let Some(rewriting) = &rewriting {
        rewriting.explain(out);
    }
    let from_counters = match &collection {
        Some(collection) if purpose == Purpose::Count && counted.is_none() => {
            find.counts_from_counters(context, collection)
        }
        _ => None,
    };
    let opened = match &collection {
        None => None,
        Some(collection) => {
            let snapshot = context.engine.data.view(context.op).snapshot;
            let mut opened = find.open(&constants, collection, &snapshot, context.op)?;
            if collection.view().is_none() && opened.column.is_none() {
                note_arrays(&mut opened.plan, &planner::sample::of(&snapshot, collection));
            }
            match from_counters {
                Some(rule) => fired.add(rule),
                None if counted.is_none() => fired.add_all(opened.fired),
                None => {}
            }
            fired.explain(out);
            Some((opened, collection.clone(), snapshot))
        }
    };
    let nothing = Plan {
        access: Access::Nothing,
        sorted: true,
        implied: Conditions::default(),
        rejected: Vec::new(),
    };
    let column = opened.as_ref().and_then(|(opened, _, _)| opened.column);
    let plan = opened.as_ref().map_or(&nothing, |(opened, _, _)| &opened.plan);
    let counts_all = from_counters.is_some();
    let used = rewriting.as_ref().and_then(|rewriting| rewriting.used.first());
    let counted_by = counted.and(used);
    // What is read is the record of the pattern.
    let namespace = match counted_by {
        Some(used) => format!("{}.{}", context.db, used.target()),
        None => namespace,
    };
    let mut explained = ExplainedPlan {
        plan,
        above: &above,
        stage,
        would_modify: 0,
        column,
        counts_all,
        // A sort by the natural order excludes indexes as its hint does.
        hint: find.hint.or_else(|| {
            find.sort.filter(|sort| sort.find("$natural").is_some()).map(Val::Document)
        }),
        snapshot: opened.as_ref().map(|(_, _, snapshot)| snapshot),
        is_answered: used.is_some(),
        counted_by: counted_by.map(|used| used.name()),
        skipped,
        returns,
        upserts,
        has_layouts: collection.as_ref().is_some_and(|collection| collection.layouts.is_some()),
        bytes_written: None,
    };
    out.doc("queryPlanner", |out| {
        write_planner(out, &namespace, collection.as_deref(), &filter, &explained);
    });
    if verbosity != "queryPlanner" {
        let mut stats = ExecutionStats {
            returned: 0,
            examined: Examined::default(),
            millis: 0,
            sort: SortTotals::default(),
        };
        let (mut others, mut failure) = (Vec::new(), None);
        if let Some((_, collection, snapshot)) = &opened {
            let needed =
                written_parts(context, &constants, (purpose, returns), collection, &filter)?;
            let mut read = Find { needed: needed.as_deref(), ..find };
            if let Some((slice, projection)) = &page {
                (read.slice, read.projection) = (Some(slice), Some(projection.as_doc()));
            }
            let again = read.open(&constants, collection, snapshot, context.op)?;
            stats = if let Some(column) = column {
                run_to_end(context, &mut *distinct_scan(plan, column, snapshot)?, &mut failure)?
            } else if let (Some((number, _)), Some(_)) = (counted, counted_by) {
                let skipped = number.saturating_sub(find.skip);
                let returned = find.limit.map_or(skipped, |limit| skipped.min(limit));
                ExecutionStats {
                    returned,
                    examined: Examined { keys: 1, ..Examined::default() },
                    ..stats
                }
            } else if counts_all {
                let all = collection.counters.documents();
                ExecutionStats { returned: find.limit.map_or(all, |limit| all.min(limit)), ..stats }
            } else if explained.counts_entries() {
                let scan = Scan::new(snapshot.clone(), collection.clone(), &plan.access);
                count_entries(context, scan, find.limit)?
            } else {
                execute(context, again.stream, &mut failure)?
            };
            if stage == Some("UPDATE") && failure.is_none() {
                let again = find.open(&constants, collection, snapshot, context.op)?;
                match would_modify(context, &constants, &filter, again.stream) {
                    Ok(count) => explained.would_modify = count,
                    Err(error) => {
                        context.op.check_now()?;
                        failure = Some(error);
                    }
                }
            }
            if verbosity == "allPlansExecution" && failure.is_none() {
                for access in &plan.rejected {
                    let scan = Scan::new(snapshot.clone(), collection.clone(), access);
                    others.push((rejected(access), trial(context, scan)?));
                }
            }
        }
        if let (Some((_, collection, snapshot)), Some("UPDATE" | "DELETE")) = (&opened, stage)
            && collection.patterns.is_some()
            && failure.is_none()
        {
            let again = find.open(&constants, collection, snapshot, context.op)?;
            let written = super::explain_writes::explain(
                context,
                &constants,
                &filter,
                collection,
                again.stream,
                out,
            )?;
            explained.bytes_written = collection.layouts.is_some().then_some(written);
        }
        out.doc("executionStats", |out| {
            write_stats(out, &stats, failure.as_ref(), &explained);
            if verbosity == "allPlansExecution" {
                out.array("allPlansExecution", |list| {
                    // MongoDB lists the chosen plan among the candidates when there are several.
                    let chosen = (!others.is_empty()).then(|| (rejected(&plan.access), stats));
                    for (plan, stats) in chosen.iter().chain(&others) {
                        list.push_doc(|out| {
                            out.count("nReturned", stats.returned);
                            out.count("totalKeysExamined", stats.examined.keys);
                            out.count("totalDocsExamined", stats.examined.documents);
                            let above =
                                Above { filter: above.filter, hinted: true, ..Above::default() };
                            write_tree(out, "executionStages", plan, &above, Some(stats));
                        });
                    }
                });
            }
        });
    }
    write_server(context, out);
    Ok(())
}

/// The paths that an update or deletion reads of the documents, if it need not read all of them.
/// `returns` says that the command also returns the document.
fn written_parts(
    context: &Context<'_>,
    constants: &Constants,
    (purpose, returns): (Purpose, bool),
    collection: &Collection,
    filter: &Filter,
) -> Result<Option<Vec<String>>> {
    if collection.layouts.is_none() || context.op.is_in_transaction() {
        return Ok(None);
    }
    let reads = match purpose {
        Purpose::Delete => Reads::of_delete(filter, None),
        Purpose::Update => {
            let update = update_of(context, constants)?;
            update.and_then(|update| Reads::of(&update, filter, None))
        }
        Purpose::Return | Purpose::Count => None,
    };
    let reads = match returns {
        false => reads,
        true => {
            let fields = context.args.optional_doc("fields")?.filter(|doc| !doc.is_empty());
            let projection = |fields| Projection::parse(fields, &constants.context(), Mode::Find);
            let projection = fields.map(projection).transpose()?;
            reads.and_then(|reads| reads.returning(projection.as_ref()))
        }
    };
    Ok(reads.and_then(|reads| parts::needed(collection, &reads)))
}

/// Runs a find to its end.
fn execute(
    context: &Context<'_>,
    mut stream: crate::exec::find::FindStream,
    failure: &mut Option<Error>,
) -> Result<ExecutionStats> {
    let stats = run_to_end(context, &mut stream, failure)?;
    Ok(ExecutionStats { sort: stream.sort_totals(), ..stats })
}

/// Reads all documents of a stream. Returns its statistics without those of a sort. An error of the
/// query ends it and is part of the explanation.
///
/// # Errors
/// When the operation is interrupted.
fn run_to_end(
    context: &Context<'_>,
    stream: &mut dyn Stream,
    failure: &mut Option<Error>,
) -> Result<ExecutionStats> {
    let started = Instant::now();
    let mut returned = 0;
    loop {
        match stream.next(context.op) {
            Ok(Some(_)) => returned += 1,
            Ok(None) => break,
            Err(error) => {
                context.op.check_now()?;
                *failure = Some(error);
                break;
            }
        }
    }
    let mut examined = Examined::default();
    stream.examined(&mut examined);
    let millis = started.elapsed().as_millis() as u64;
    Ok(ExecutionStats { returned, examined, millis, sort: SortTotals::default() })
}

/// Counts the entries that a count would read.
fn count_entries(context: &Context<'_>, scan: Scan, most: Option<u64>) -> Result<ExecutionStats> {
    let started = Instant::now();
    let (returned, examined) = scan.count_entries(most, context.op)?;
    let millis = started.elapsed().as_millis() as u64;
    Ok(ExecutionStats { returned, examined, millis, sort: SortTotals::default() })
}

/// The update of the command that is explained.
///
/// # Errors
/// As the command itself for an update that does not compile.
pub(super) fn update_of(context: &Context<'_>, constants: &Constants) -> Result<Option<Update>> {
    let args = context.args;
    let statement = match args.optional_array("updates")? {
        Some(list) => list.first().and_then(|(_, statement)| statement.as_doc()),
        None => None,
    };
    let (args, field) = match statement {
        Some(statement) => (Args::new("update.updates", statement), "u"),
        None => (args, "update"),
    };
    let Some(update) = args.get(field) else { return Ok(None) };
    let filters = super::update::array_filters(&args)?;
    Update::parse(update, &constants.context(), &filters).map(Some)
}

/// Counts the matching documents that an update would change.
fn would_modify(
    context: &Context<'_>,
    constants: &Constants,
    filter: &Filter,
    mut stream: crate::exec::find::FindStream,
) -> Result<u64> {
    let Some(update) = update_of(context, constants)? else { return Ok(0) };
    let mut count = 0;
    while let Some(doc) = stream.next(context.op)? {
        let mut position = None;
        filter.matches_at(doc.raw(), &mut position)?;
        let changed = update.apply(doc.raw(), position, false, &bumpalo::Bump::new())?;
        count += u64::from(changed.is_some());
    }
    Ok(count)
}

/// Runs a rejected plan for a short trial.
fn trial(context: &Context<'_>, mut scan: Scan) -> Result<ExecutionStats> {
    const ROWS: u64 = 101;
    let started = Instant::now();
    let mut returned = 0;
    while returned < ROWS && scan.next(context.op)?.is_some() {
        returned += 1;
    }
    let millis = started.elapsed().as_millis() as u64;
    Ok(ExecutionStats { returned, examined: scan.examined(), millis, sort: SortTotals::default() })
}

pub(super) fn write_server(context: &Context<'_>, out: &mut Writer<'_>) {
    out.append("command", Val::Document(context.args.doc));
    let listen = &context.engine.data.options.listen;
    let (host, port) = listen.rsplit_once(':').unwrap_or((listen, "0"));
    out.doc("serverInfo", |out| {
        out.str("host", host);
        out.i32("port", port.parse().unwrap_or(0));
        out.str("version", super::build_info::MONGODB_VERSION);
        out.str("gitVersion", super::build_info::GIT_VERSION);
    });
    out.doc("serverParameters", |out| {
        out.count(
            "internalQueryMaxBlockingSortMemoryUsageBytes",
            value::limits::BLOCKING_STAGE_BYTES_MAX as u64,
        );
    });
}

/// `explain` requires the privileges of the explained command.
fn allowed(auth: &Authorization<'_>) -> bool {
    let Some(inner) = auth.body.first().and_then(|(_, value)| value.as_doc()) else { return true };
    let row = inner.first().and_then(|(name, _)| super::find(name));
    row.is_none_or(|row| Authorization { body: inner, ..*auth }.has(row.privilege))
}
