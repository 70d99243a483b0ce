//! `createPatterns`, `listPatterns`, `modifyPattern`, `dropPatterns`, `suspendPatterns`,
//! `resumePatterns`, `validatePatterns`: declaring what the database keeps right by itself.

use super::{Command, Context, listing};
use crate::engine::Inner;
use crate::patterns::{Opened, build, declare, verify};
use ::patterns::declaration::Mode;
use ::patterns::{Pattern, Phase, queue};
use std::sync::Arc;
use std::time::Duration;
use value::{Code, DocBuf, Error, Result, Val, Writer};

pub(super) static CREATE: Command = Command::plain(
    "createPatterns",
    "Declares values that the database keeps right.",
    &["createPatterns", "patterns", "wait"],
    create,
);
pub(super) static DROP: Command = Command::plain(
    "dropPatterns",
    "Removes patterns and what they maintain.",
    &["dropPatterns", "names", "keepValues", "wait"],
    drop_patterns,
);
pub(super) static LIST: Command = Command::plain(
    "listPatterns",
    "Lists patterns and how far they are.",
    &["listPatterns", "cursor"],
    list,
);
pub(super) static MODIFY: Command = Command::plain(
    "modifyPattern",
    "Changes options of a pattern.",
    &["modifyPattern", "name", "set", "wait"],
    modify_pattern,
);
pub(super) static RESUME: Command = Command::plain(
    "resumePatterns",
    "Builds patterns anew and maintains them again.",
    &["resumePatterns", "names", "wait"],
    resume,
);
pub(super) static SUSPEND: Command = Command::plain(
    "suspendPatterns",
    "Stops the maintenance of patterns.",
    &["suspendPatterns", "names"],
    suspend,
);
pub(super) static VALIDATE: Command = Command::plain(
    "validatePatterns",
    "Compares what patterns maintain with a recomputation.",
    &["validatePatterns", "names", "repair"],
    validate,
);

fn check_place(context: &Context<'_>) -> Result<()> {
    if context.op.is_in_transaction() {
        return Err(Error::new(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            format!("Cannot run '{}' in a multi-document transaction.", context.name),
        ));
    }
    Ok(())
}

fn create(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    check_place(context)?;
    let name = context.collection_name()?;
    let concern = context.write_concern()?;
    let wait = context.args.bool_or_true("wait")?;
    let args = context.args;
    let list = args.optional_array("patterns")?.ok_or_else(|| args.missing("patterns"))?;
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
    let engine = context.engine;
    let done = declare::create(engine, context.op, context.db, name, &declarations)?;
    finish_builds(context, &done.new, wait)?;
    out.count("numPatternsBefore", done.before as u64);
    out.count("numPatternsAfter", done.after as u64);
    concern.write_error(out);
    Ok(())
}

/// Starts the builds of patterns, and waits for them if asked for.
fn finish_builds(context: &Context<'_>, ids: &[u32], wait: bool) -> Result<()> {
    if let Some(shared) = context.client.shared().upgrade() {
        build::start(&shared);
    }
    if !wait {
        return Ok(());
    }
    let mut pause = Duration::from_micros(200);
    loop {
        let catalog = context.engine.catalog.load();
        let built = catalog.patterns(context.db).iter().filter(|p| ids.contains(&p.id));
        let mut busy = false;
        for pattern in built {
            busy |= pattern.phase.is_passing();
            if pattern.phase == Phase::Failed {
                return Err(Error::new(
                    Code::OPERATION_FAILED,
                    format!("the pattern '{}' cannot be built: {}", pattern.name, pattern.failure),
                ));
            }
        }
        if !busy {
            return Ok(());
        }
        context.op.check_now()?;
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// The patterns that `names` means; all of the collection without it or for `"*"`.
fn named(context: &Context<'_>, name: &str) -> Result<Vec<Arc<Pattern>>> {
    let catalog = context.engine.catalog.load();
    let all = || {
        let patterns = catalog.patterns(context.db).iter();
        let living = |p: &&Arc<Pattern>| p.collection == name && p.phase != Phase::Clearing;
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

fn list(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let batch_size = listing::batch_size(&context.args, "listPatterns.cursor")?;
    let first = context.args.doc.first().map_or(Val::Null, |(_, value)| value.get());
    let name = if first.is_number() { None } else { Some(context.collection_name()?) };
    let catalog = context.engine.catalog.load_full();
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
    let mut txn = engine.reader();
    let mut documents = Opened::new(&mut txn, db);
    let progress = pattern.progress(&mut documents)?;
    let waiting = match pattern.may_be_stale() {
        true => Some(queue::waiting(pattern, &mut documents)?),
        false => None,
    };
    let round = queue::last_round(pattern, &mut documents)?;
    let what = build::title(pattern);
    let namespace = format!("{db}.{}", pattern.collection);
    let job = engine
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
        if !pattern.failure.is_empty() {
            out.str("error", &pattern.failure);
        }
    }))
}

fn modify_pattern(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    check_place(context)?;
    let collection = context.collection_name()?;
    let concern = context.write_concern()?;
    let name = context.args.string("name")?;
    let set = context.args.doc("set")?;
    let wait = context.args.bool_or_true("wait")?;
    let built = declare::modify(context.engine, context.db, collection, name, set)?;
    finish_builds(context, built.as_slice(), wait)?;
    // What waits may not have to wait any more.
    context.engine.pattern_bell.ring();
    concern.write_error(out);
    Ok(())
}

fn suspend(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    check_place(context)?;
    let name = context.collection_name()?;
    for pattern in named(context, name)? {
        if pattern.phase != Phase::Suspended {
            declare::set_phase(context.engine, context.db, pattern.id, Phase::Suspended, "")?;
        }
    }
    context.write_concern()?.write_error(out);
    Ok(())
}

fn resume(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    check_place(context)?;
    let name = context.collection_name()?;
    let wait = context.args.bool_or_true("wait")?;
    let concern = context.write_concern()?;
    let stopped = |pattern: &Arc<Pattern>| {
        matches!(pattern.phase, Phase::Suspended | Phase::Failed | Phase::Degraded)
    };
    let patterns: Vec<Arc<Pattern>> = named(context, name)?.into_iter().filter(stopped).collect();
    rebuild(context, name, &patterns, wait)?;
    concern.write_error(out);
    Ok(())
}

/// Builds patterns anew.
fn rebuild(
    context: &Context<'_>,
    collection: &str,
    patterns: &[Arc<Pattern>],
    wait: bool,
) -> Result<()> {
    let mut ids = Vec::new();
    for pattern in patterns {
        declare::set_phase(context.engine, context.db, pattern.id, Phase::Building, "")?;
        let catalog = context.engine.catalog.load();
        ids.push(declare::find(&catalog, context.db, collection, &pattern.name)?.id);
    }
    finish_builds(context, &ids, wait)
}

fn validate(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    check_place(context)?;
    let name = context.collection_name()?;
    let repair = context.args.bool("repair")?;
    let mut reports = Vec::new();
    for pattern in named(context, name)? {
        let op = context.op;
        let report = verify::check(context.engine, context.db, &pattern, &|| op.check_now())?;
        let mut repaired = 0;
        if repair && report.drift > 0 && pattern.phase.is_built() {
            let stop = || op.check_now();
            if !verify::repair(context.engine, context.db, &pattern, &report, &stop)? {
                rebuild(context, name, std::slice::from_ref(&pattern), true)?;
            }
            repaired = report.drift;
        }
        mark(context, &pattern, report.drift, repaired)?;
        reports.push((pattern, report, repaired));
    }
    out.array("patterns", |list| {
        for (pattern, report, repaired) in &reports {
            list.push_doc(|out| {
                out.str("name", &pattern.name).str("state", pattern.phase.name());
                out.count("checked", report.checked).count("drift", report.drift);
                if pattern.may_be_stale() {
                    out.count("stale", report.stale);
                }
                out.array("samples", |list| {
                    report.samples.iter().for_each(|doc| list.push_doc_bytes(doc.bytes()));
                });
                out.count("repaired", *repaired);
            });
        }
    });
    Ok(())
}

/// Notes what a check means for a pattern: one that is wrong answers nothing until it is repaired.
fn mark(context: &Context<'_>, pattern: &Pattern, drift: u64, repaired: u64) -> Result<()> {
    let (engine, db) = (context.engine, context.db);
    let phase = match pattern.phase {
        Phase::Ready if drift > 0 && repaired == 0 => Phase::Degraded,
        Phase::Degraded if drift == repaired => Phase::Ready,
        _ => return Ok(()),
    };
    declare::set_phase(engine, db, pattern.id, phase, "")
}

fn drop_patterns(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    check_place(context)?;
    let name = context.collection_name()?;
    let concern = context.write_concern()?;
    let keep = context.args.bool("keepValues")?;
    let wait = context.args.bool_or_true("wait")?;
    if context.args.get("names").is_none() {
        return Err(context.args.missing("names"));
    }
    let (engine, db) = (context.engine, context.db);
    let before = declare::count(&engine.catalog.load(), db, name);
    let gone = named(context, name)?;
    if let Some(pointer) = gone.iter().find(|pattern| keep && pattern.is_pointer()) {
        return Err(Error::bad_value(format!(
            "the pattern '{}' has no values that could be kept: with 'strategy: pointer' nothing is \
             stored. Store them first: {{modifyPattern: '{name}', name: '{}', set: {{strategy: \
             'copy'}}}}",
            pointer.name, pointer.name
        )));
    }
    if keep {
        engine.change_catalog(|catalog, batch| declare::remove(catalog, batch, db, &gone))?;
        declare::discard(engine, &gone);
    } else {
        let ids = declare::clear(engine, db, &gone)?;
        finish_builds(context, &ids, wait)?;
    }
    out.count("nPatternsWas", before as u64);
    concern.write_error(out);
    Ok(())
}
