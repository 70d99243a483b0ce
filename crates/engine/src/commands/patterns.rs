//! Shared code of the commands about patterns.

use super::{Context, listing};
use crate::access::Authorization;
use crate::args::Args;
use crate::catalog::time_series::PATTERN;
use crate::layout;
use crate::shared::Inner;
use crate::txn::Transaction;
use crate::upkeep::declare::Reason;
use crate::upkeep::strategy::Rates;
use crate::upkeep::{
    TransactionDocuments, backfill, declare, new_forms, preview, scrub, verification,
};
use ::access::Action;
use ::access::{Actions, Privileges};
use ::patterns::declaration::Mode;
use ::patterns::error_context;
use ::patterns::shape::Shape;
use ::patterns::stats::Stats;
use ::patterns::{Pattern, Phase, labels, queue};
use std::sync::Arc;
use std::time::Duration;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) fn refuse_in_transaction(context: &Context<'_>) -> Result<()> {
    if context.op.is_in_transaction() {
        return Err(Error::new(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            format!("Cannot run '{}' in a multi-document transaction.", context.name),
        ));
    }
    Ok(())
}

pub(super) fn create(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    refuse_in_transaction(context)?;
    let name = context.collection_name()?;
    let concern = context.write_concern()?;
    let wait = context.args.bool_or_true("wait")?;
    let declarations =
        declarations(&context.args)?.ok_or_else(|| context.args.missing("patterns"))?;
    let refuses = match context.args.get("existing") {
        None | Some(Val::Null | Val::String("replace")) => false,
        Some(Val::String("refuse")) => true,
        Some(other) => {
            return Err(Error::bad_value(format!(
                "'existing' must be one of 'replace', 'refuse', found {}",
                error_context::value_text(other)
            )));
        }
    };
    let dry_run = context.args.bool("dryRun")?;
    let (data, db) = (&context.engine.data, context.db);
    let patterns = declare::check(data, db, name, &declarations)?;
    let new = preview::new_ones(&data.catalog.load(), db, name, &patterns);
    let seen = preview::preview(data, db, &new, dry_run, &|| context.op.check_now())?;
    if refuses {
        seen.refuse()?;
    }
    if dry_run {
        let count = declare::count(&data.catalog.load(), db, name) as u64;
        out.bool("dryRun", true);
        out.count("numPatternsBefore", count).count("numPatternsAfter", count);
        seen.write(out);
        return Ok(());
    }
    let done = declare_all(context, name, &declarations, Reason::Request, wait)?;
    out.count("numPatternsBefore", done.before as u64);
    out.count("numPatternsAfter", done.after as u64);
    seen.write(out);
    concern.write_error(out);
    Ok(())
}

/// Reads the declarations in `patterns`, if the command has any.
pub(super) fn declarations<'a>(args: &Args<'a>) -> Result<Option<Vec<RawDoc<'a>>>> {
    let Some(list) = args.optional_array("patterns")? else { return Ok(None) };
    let mut declarations = Vec::new();
    for (at, given) in list {
        let Some(doc) = given.as_doc() else {
            return Err(args.wrong_type(&format!("patterns.{at}"), given.get(), "object"));
        };
        declarations.push(doc);
    }
    if declarations.is_empty() {
        return Err(Error::bad_value("Must specify at least one pattern to create"));
    }
    Ok(Some(declarations))
}

/// Declares patterns on a collection and builds them.
pub(super) fn declare_all(
    context: &Context<'_>,
    name: &str,
    declarations: &[RawDoc<'_>],
    reason: Reason,
    wait: bool,
) -> Result<declare::Outcome> {
    let (engine, op) = (context.engine, context.op);
    let mut done = declare::create(&engine.data, op, context.db, name, declarations, reason)?;
    new_forms::fill(&engine.data, std::mem::take(&mut done.renewed))?;
    finish_builds(context, &done.new, wait)?;
    Ok(done)
}

/// Starts the builds of patterns, and waits for them if requested.
pub(super) fn finish_builds(context: &Context<'_>, ids: &[u32], wait: bool) -> Result<()> {
    backfill::start(&context.engine.background.upkeep);
    if !wait {
        return Ok(());
    }
    await_end(context, || {
        let catalog = context.engine.data.catalog.load();
        let built = catalog.patterns(context.db).iter().filter(|p| ids.contains(&p.id));
        let mut busy = false;
        for pattern in built {
            busy |= pattern.phase.is_passing()
                || new_forms::is_indexing(&context.engine.data, context.db, pattern);
            if pattern.phase == Phase::Failed {
                return Err(backfill::cannot_be_built(pattern, &pattern.failure));
            }
        }
        Ok(busy)
    })
}

/// Waits until indexes over fields whose values changed with these patterns are built.
///
/// # Errors
/// When the operation is stopped.
pub(super) fn finish_indexes(context: &Context<'_>, patterns: &[Arc<Pattern>]) -> Result<()> {
    let data = &context.engine.data;
    let is_indexing = |pattern: &Arc<Pattern>| new_forms::is_indexing(data, context.db, pattern);
    await_end(context, || Ok(patterns.iter().any(is_indexing)))
}

/// Waits while background work goes on.
fn await_end(context: &Context<'_>, is_busy: impl Fn() -> Result<bool>) -> Result<()> {
    let mut pause = Duration::from_micros(200);
    while is_busy()? {
        context.op.check_now()?;
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
    Ok(())
}

/// Refuses to remove or to change the pattern that stores a time-series collection.
///
/// # Errors
/// InvalidOptions.
pub(super) fn check_not_time_series(
    context: &Context<'_>,
    collection: &str,
    name: &str,
) -> Result<()> {
    let found = context.engine.data.collection(context.db, collection);
    if name == PATTERN && found.is_some_and(|found| found.time_series.is_some()) {
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            format!(
                "the pattern '{name}' stores the time-series collection '{collection}': change it \
                 by collMod, or drop the collection"
            ),
        ));
    }
    Ok(())
}

/// The patterns in `names`; without it or for `"*"`, all patterns of the collection.
pub(super) fn named(context: &Context<'_>, name: &str) -> Result<Vec<Arc<Pattern>>> {
    let catalog = context.engine.data.catalog.load();
    let all = || {
        let patterns = catalog.patterns(context.db).iter();
        let living = |p: &&Arc<Pattern>| p.collection == name && p.phase.is_current();
        patterns.filter(living).cloned().collect()
    };
    let list = match context.args.get("names") {
        None | Some(Val::Null | Val::String("*")) => return Ok(all()),
        Some(Val::String(one)) => {
            return Ok(vec![declare::find(&catalog, context.db, name, one)?]);
        }
        Some(Val::Array(list)) => list,
        Some(other) => {
            return Err(context.args.wrong_type("names", other, "[string, array]"));
        }
    };
    let mut found = Vec::new();
    for (_, one) in list {
        let Val::String(one) = one.get() else {
            return Err(Error::type_mismatch("each element of 'names' must be a string"));
        };
        found.push(declare::find(&catalog, context.db, name, one)?);
    }
    Ok(found)
}

pub(super) fn list(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let batch_size = listing::batch_size(&context.args, "listPatterns.cursor")?;
    let first = context.args.doc.first().map_or(Val::Null, |(_, value)| value.get());
    let name = if first.is_number() { None } else { Some(context.collection_name()?) };
    let catalog = context.engine.data.catalog.load_full();
    let mut documents = Vec::new();
    for pattern in catalog.patterns(context.db) {
        if name.is_none_or(|name| name == pattern.collection) {
            documents.push(describe(context.engine, context.db, pattern)?);
        }
    }
    let namespace = format!("{}.{}", context.db, name.unwrap_or("$cmd.listPatterns"));
    listing::reply(context, out, namespace, documents, batch_size)
}

fn describe(engine: &Inner, db: &str, pattern: &Arc<Pattern>) -> Result<DocBuf> {
    let mut txn = engine.data.reader();
    let mut documents = TransactionDocuments::new(&mut txn, db);
    let progress = pattern.progress(&mut documents)?;
    let waiting = match pattern.may_be_stale() {
        true => Some(queue::waiting(pattern, &mut documents)?),
        false => None,
    };
    let round = queue::last_round(pattern, &mut documents)?;
    let window = match pattern.phase.is_built() {
        true => pattern.kind.as_of(pattern, &mut documents)?,
        false => None,
    };
    let verified = scrub::Last::of(pattern, &mut documents)?;
    let awaiting = verification::awaiting(&engine.data, db, pattern)?;
    let mut described = Ok(());
    let own = DocBuf::build(|out| {
        described = pattern.kind.describe(pattern, &mut documents, out);
    });
    described?;
    let stored = described_layout(&txn, db, pattern)?;
    let what = backfill::title(pattern);
    let namespace = format!("{db}.{}", pattern.collection);
    let job = engine
        .data
        .jobs
        .lock()
        .iter()
        .find(|job| job.what == what && job.namespace == namespace)
        .cloned();
    Ok(DocBuf::build(|out| {
        out.str("name", &pattern.name);
        let kind = pattern.declaration.as_doc().get("kind").unwrap_or(Val::Null);
        out.append("kind", kind).str("collection", &pattern.collection);
        out.str("state", pattern.phase.name());
        out.append("declaration", Val::Document(pattern.declaration.as_doc()));
        if pattern.phase.is_passing() {
            let total =
                job.as_ref().map_or(0, |job| job.total.load(std::sync::atomic::Ordering::Relaxed));
            let done = progress.map_or(0, |progress| progress.done.max(0) as u64);
            out.doc("progress", |out| {
                out.count("done", done).count("total", total);
                if let Some(job) = job.filter(|_| done > 0 && total > done) {
                    let elapsed = job.started.elapsed().as_millis() as u64;
                    out.count("etaMS", elapsed.saturating_mul(total - done) / done);
                }
            });
        }
        if let Some((waiting, since)) = waiting {
            let now = crate::clock::now_ms();
            let lag = since.map_or(0, |since| now.saturating_sub(since).max(0) as u64);
            out.count("pending", waiting).count("lagMS", lag);
            let as_of = match pattern.common.mode {
                Mode::Every(..) => round,
                _ => since.or(Some(now)),
            };
            if let Some(as_of) = as_of {
                out.append("asOf", Val::DateTime(as_of));
            }
            if pattern.common.max_staleness.is_some_and(|most| lag > most) {
                out.bool("overdue", true);
            }
        }
        if let (Some(as_of), false) = (window, pattern.may_be_stale()) {
            out.append("asOf", Val::DateTime(as_of));
        }
        if !pattern.failure.is_empty() {
            out.str("error", &pattern.failure);
        }
        if let Some(awaiting) = awaiting {
            out.count("awaiting", awaiting);
        }
        out.extend(own.as_doc());
        if let Some(verified) = verified {
            verified.write(out);
        }
        out.extend(own.as_doc()).extend(stored.as_doc());
        let older = connected(engine, pattern);
        if !older.is_empty() {
            out.doc("olderClients", |out| {
                for (name, count) in &older {
                    out.count(name, *count);
                }
            });
        }
        write_labels(db, pattern, out);
        write_stats(engine, db, pattern, out);
    }))
}

/// The applications that know another version of a pattern's documents than the latest, each with
/// the number of its open connections.
pub(super) fn connected<'p>(engine: &Inner, pattern: &'p Pattern) -> Vec<(&'p str, u64)> {
    let names = pattern.shape().map(Shape::older_clients).unwrap_or_default();
    if names.is_empty() {
        return Vec::new();
    }
    let slots = engine.service.slots.lock();
    let count = |name: &str| slots.values().filter(|s| *s.application.lock() == name).count();
    names.into_iter().map(|name| (name, count(name) as u64)).collect()
}

/// What only the kind of a pattern says of it.
fn described_layout(txn: &Transaction, db: &str, pattern: &Pattern) -> Result<DocBuf> {
    let target = txn.catalog.get(db, &pattern.target);
    let Some((target, layouts)) = target.and_then(|t| Some((t, t.layouts.as_ref()?))) else {
        return Ok(DocBuf::new());
    };
    let Some(records) = layout::records(layouts, &txn.snapshot, pattern.id) else {
        return Ok(DocBuf::new());
    };
    let documents = target.counters.documents();
    let mut described = Ok(());
    let own = DocBuf::build(|out| {
        described = pattern.kind.describe_stored(pattern, &*records, documents, out);
    });
    described.map(|()| own)
}

/// Writes the sources of a maintained value: `{path, sources: ["db.collection.field"]}`.
fn write_labels(db: &str, pattern: &Pattern, out: &mut Writer<'_>) {
    out.array("labels", |list| {
        for label in labels::of(pattern) {
            list.push_doc(|out| {
                out.str("path", &label.path);
                out.array("sources", |list| {
                    for source in &label.sources {
                        let dot = if source.is_empty() { "" } else { "." };
                        let name = format!("{db}.{}{dot}{source}", label.collection);
                        list.push(Val::String(&name));
                    }
                });
            });
        }
    });
}

/// Writes the counters of a pattern since the process started, and the size of its own records.
fn write_stats(engine: &Inner, db: &str, pattern: &Pattern, out: &mut Writer<'_>) {
    let stats = &pattern.stats;
    out.count("errors", Stats::read(&stats.errors));
    out.doc("stats", |out| {
        let (from, to) = crate::trash::range_of(pattern.id);
        out.count(
            "bytes",
            engine.data.store.approximate_range_bytes(store::Space::Documents, &from, &to),
        );
        out.count("deltas", Stats::read(&stats.deltas));
        out.count("fanoutWrites", Stats::read(&stats.writes));
        out.count("recomputed", Stats::read(&stats.recomputed));
        if let Some(factor) = stats.amplification() {
            out.f64("writeAmplification", factor);
        }
        out.count("rewrites", Stats::read(&stats.rewrites));
        out.count("ignoredClientWrites", Stats::read(&stats.ignored));
        if let Some(rates) = Rates::of(&engine.data, db, pattern) {
            rates.write(out);
        }
    });
}

/// Rebuilds patterns.
pub(super) fn rebuild(
    context: &Context<'_>,
    collection: &str,
    patterns: &[Arc<Pattern>],
    wait: bool,
) -> Result<()> {
    let mut ids = Vec::new();
    for pattern in patterns {
        declare::set_phase(&context.engine.data, context.db, pattern.id, Phase::Building, "")?;
        let catalog = context.engine.data.catalog.load();
        ids.push(declare::find(&catalog, context.db, collection, &pattern.name)?.id);
    }
    finish_builds(context, &ids, wait)
}

/// A pattern reads its sources with the rights of the server, so its author needs these rights.
pub(super) fn may_declare_all(auth: &Authorization<'_>) -> bool {
    let patterns = auth.body.get("patterns").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let mut patterns = patterns.into_iter().filter_map(|(_, pattern)| pattern.as_doc());
    auth.on_collection(auth.collection(), &[Action::CreatePattern, Action::Find, Action::Update])
        && patterns.all(|doc| {
            // Uses the parsed form. A malformed declaration is refused when the command reads it.
            let pattern = ::patterns::declaration::parse(auth.collection(), doc);
            pattern.map_or(true, |pattern| may_declare(auth.privileges, auth.db, &pattern))
        })
}

/// Whether a user may declare a pattern, considering what it reads and writes.
pub(super) fn may_declare(
    privileges: &Privileges,
    db: &str,
    pattern: &::patterns::Pattern,
) -> bool {
    let on = |name: &str, actions: &[Action]| {
        privileges.on_collection(db, name).contains(Actions::of(actions))
    };
    on(&pattern.collection, &[Action::CreatePattern, Action::Find, Action::Update])
        && pattern.source().is_none_or(|source| on(source, &[Action::Find]))
        && (!pattern.owns_documents()
            || on(&pattern.target, &[Action::Insert, Action::Update, Action::Remove]))
}
