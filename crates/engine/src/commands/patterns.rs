//! `createPatterns`, `listPatterns`, `modifyPattern`, `dropPatterns`, `suspendPatterns`,
//! `resumePatterns`, `validatePatterns`: declaring what the database keeps right by itself.

use super::row::Required;
use super::{Command, Context, listing};
use crate::access::Authorization;
use crate::args::Args;
use crate::engine::Inner;
use crate::upkeep::declare::Occasion;
use crate::upkeep::strategy::Rates;
use crate::upkeep::verification::Scope;
use crate::upkeep::{TransactionDocuments, backfill, declare, modify, scrub, verification};
use ::access::Action;
use ::access::{Actions, Privileges};
use ::patterns::declaration::Mode;
use ::patterns::stats::Stats;
use ::patterns::{Pattern, Phase, labels, queue};
use query::ParseContext;
use query::filter::Filter;
use std::sync::Arc;
use std::time::Duration;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static CREATE: Command = Command {
    name: "createPatterns",
    help: "Declares values that the database keeps right.",
    fields: Some(&["createPatterns", "patterns", "wait"]),
    privilege: Required::Custom(may_declare_all),
    run: create,
    ..Command::BASE
};
pub(super) static DROP: Command = Command {
    name: "dropPatterns",
    help: "Removes patterns and what they maintain.",
    fields: Some(&["dropPatterns", "names", "keepValues", "wait"]),
    privilege: Required::Collection(&[Action::DropPattern]),
    audited: true,
    run: drop_patterns,
    ..Command::BASE
};
pub(super) static LIST: Command = Command {
    name: "listPatterns",
    help: "Lists patterns and how far they are.",
    fields: Some(&["listPatterns", "cursor"]),
    privilege: Required::Custom(may_list),
    run: list,
    ..Command::BASE
};
pub(super) static MODIFY: Command = Command {
    name: "modifyPattern",
    help: "Changes options of a pattern.",
    fields: Some(&["modifyPattern", "name", "set", "wait"]),
    privilege: Required::Collection(&[Action::CreatePattern]),
    run: modify_pattern,
    ..Command::BASE
};
pub(super) static RESUME: Command = Command {
    name: "resumePatterns",
    help: "Builds patterns anew and maintains them again.",
    fields: Some(&["resumePatterns", "names", "wait"]),
    privilege: Required::Collection(&[Action::CreatePattern]),
    run: resume,
    ..Command::BASE
};
pub(super) static SUSPEND: Command = Command {
    name: "suspendPatterns",
    help: "Stops the maintenance of patterns.",
    fields: Some(&["suspendPatterns", "names"]),
    privilege: Required::Collection(&[Action::CreatePattern]),
    run: suspend,
    ..Command::BASE
};
pub(super) static VALIDATE: Command = Command {
    name: "validatePatterns",
    help: "Compares what patterns maintain with a recomputation.",
    fields: Some(&["validatePatterns", "names", "filter", "repair"]),
    privilege: Required::Collection(&[Action::Validate]),
    run: validate,
    ..Command::BASE
};

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
    let declarations =
        declarations(&context.args)?.ok_or_else(|| context.args.missing("patterns"))?;
    let done = declare_all(context, name, &declarations, Occasion::Request, wait)?;
    out.count("numPatternsBefore", done.before as u64);
    out.count("numPatternsAfter", done.after as u64);
    concern.write_error(out);
    Ok(())
}

/// The declarations in `patterns`, if the command has any.
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
    occasion: Occasion,
    wait: bool,
) -> Result<declare::Outcome> {
    let (engine, op) = (context.engine, context.op);
    let done = declare::create(&engine.data, op, context.db, name, declarations, occasion)?;
    finish_builds(context, &done.new, wait)?;
    Ok(done)
}

/// Starts the builds of patterns, and waits for them if asked for.
fn finish_builds(context: &Context<'_>, ids: &[u32], wait: bool) -> Result<()> {
    if let Some(shared) = context.client.shared().upgrade() {
        backfill::start(&shared);
    }
    if !wait {
        return Ok(());
    }
    let mut pause = Duration::from_micros(200);
    loop {
        let catalog = context.engine.data.catalog.load();
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

fn list(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
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
        if let Some(verified) = verified {
            verified.write(out);
        }
        write_labels(db, pattern, out);
        write_stats(engine, db, pattern, out);
    }))
}

/// Writes where what a pattern maintains comes from: `{path, sources: ["db.collection.field"]}`.
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

/// Writes what a pattern did since the process started, and how much it keeps for itself.
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
        if let Some(rates) = Rates::of(engine, db, pattern) {
            rates.write(out);
        }
    });
}

fn modify_pattern(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    check_place(context)?;
    let collection = context.collection_name()?;
    let concern = context.write_concern()?;
    let name = context.args.string("name")?;
    let set = context.args.doc("set")?;
    let wait = context.args.bool_or_true("wait")?;
    let (engine, db) = (context.engine, context.db);
    let (wanted, light) = modify::wanted(&engine.data, db, collection, name, set)?;
    let login = &context.client.login;
    if !light && login.required && !may_declare(login.privileges(), db, &wanted) {
        return Err(Error::new(
            Code::UNAUTHORIZED,
            format!(
                "not authorized on {db} to let the pattern '{name}' read '{}' and maintain '{}'",
                wanted.source().unwrap_or(&wanted.target),
                wanted.target
            ),
        ));
    }
    let built = modify::modify(&engine.data, context.op, db, collection, name, set)?;
    // What waits may not have to wait any more.
    engine.data.pattern_bell.ring();
    if let Some(id) = built {
        finish_builds(context, &[id], wait)?;
        let catalog = engine.data.catalog.load_full();
        let old = |p: &&Arc<Pattern>| {
            p.collection == collection && p.name == name && p.phase == Phase::Clearing
        };
        let old: Vec<u32> = catalog.patterns(db).iter().filter(old).map(|p| p.id).collect();
        finish_builds(context, &old, wait)?;
        if !catalog.patterns(db).iter().any(|pattern| pattern.id == id) {
            let why = declare::find(&catalog, db, collection, name)?.failure.clone();
            return Err(Error::new(
                Code::OPERATION_FAILED,
                format!("the new version of the pattern '{name}' cannot be built: {why}"),
            ));
        }
    }
    concern.write_error(out);
    Ok(())
}

fn suspend(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    check_place(context)?;
    let name = context.collection_name()?;
    for pattern in named(context, name)? {
        if pattern.phase != Phase::Suspended {
            declare::set_phase(&context.engine.data, context.db, pattern.id, Phase::Suspended, "")?;
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
        declare::set_phase(&context.engine.data, context.db, pattern.id, Phase::Building, "")?;
        let catalog = context.engine.data.catalog.load();
        ids.push(declare::find(&catalog, context.db, collection, &pattern.name)?.id);
    }
    finish_builds(context, &ids, wait)
}

fn validate(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    check_place(context)?;
    let name = context.collection_name()?;
    let repair = context.args.bool("repair")?;
    let filter = match context.args.optional_doc("filter")? {
        None => None,
        Some(filter) => Some(Filter::parse_for_documents(filter, &ParseContext::new(0))?),
    };
    let scope = Scope { filter: filter.as_ref(), ..Scope::WHOLE };
    let mut reports = Vec::new();
    for pattern in named(context, name)? {
        let stop = || context.op.check_now();
        let rebuild =
            |pattern: &Arc<Pattern>| rebuild(context, name, std::slice::from_ref(pattern), true);
        let (engine, db) = (context.engine, context.db);
        let (report, repaired) =
            scrub::verify(engine, db, &pattern, scope, repair, &stop, &rebuild)?;
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
                if report.broken {
                    out.bool("records", false);
                }
            });
        }
    });
    Ok(())
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
    let before = declare::count(&engine.data.catalog.load(), db, name);
    let gone = named(context, name)?;
    if let Some(pointer) = gone.iter().find(|pattern| keep && pattern.is_pointer()) {
        return Err(Error::bad_value(format!(
            "the pattern '{}' has no values that could be kept: with 'strategy: pointer' nothing is \
             stored. Store them first: {{modifyPattern: '{name}', name: '{}', set: {{strategy: \
             'copy'}}}}",
            pointer.name, pointer.name
        )));
    }
    // What a layout stores is no value that could be kept: documents are stored without it.
    let (layouts, gone): (Vec<_>, Vec<_>) =
        gone.into_iter().partition(|pattern| pattern.layout().is_some());
    let ids = declare::clear(&engine.data, db, &layouts)?;
    finish_builds(context, &ids, wait)?;
    if keep {
        let gone = engine.data.change_catalog(|catalog, batch| {
            let mut gone = gone;
            gone.extend(modify::versions(catalog, db, &gone));
            declare::remove(catalog, batch, db, &gone)?;
            Ok(gone)
        })?;
        declare::discard(&engine.data, &gone);
    } else {
        let ids = declare::clear(&engine.data, db, &gone)?;
        finish_builds(context, &ids, wait)?;
    }
    out.count("nPatternsWas", before as u64);
    concern.write_error(out);
    Ok(())
}

fn may_list(auth: &Authorization<'_>) -> bool {
    let name = auth.collection();
    if name.is_empty() {
        auth.on_database(&[Action::ListCollections])
    } else {
        auth.on_collection(name, &[Action::ListIndexes])
    }
}

/// Whoever declares a pattern reads its sources with the rights of the server: so they need their own.
pub(super) fn may_declare_all(auth: &Authorization<'_>) -> bool {
    let patterns = auth.body.get("patterns").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let mut patterns = patterns.into_iter().filter_map(|(_, pattern)| pattern.as_doc());
    auth.on_collection(auth.collection(), &[Action::CreatePattern, Action::Find, Action::Update])
        && patterns.all(|doc| {
            // As it will be understood. What cannot be is refused when the command reads it.
            let pattern = ::patterns::declaration::parse(auth.collection(), doc);
            pattern.map_or(true, |pattern| may_declare(auth.privileges, auth.db, &pattern))
        })
}

/// Whether somebody may declare a pattern, as far as what it reads and writes is concerned.
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
