//! `profile`: sets which operations of a database are recorded in its `system.profile`.

use super::query::Constants;
use super::row::Required;
use super::{Command, Context};
use crate::access::Authorization;
use crate::profiler::{self, Change};
use ::access::Action;
use query::filter::Filter;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use value::{Code, DocBuf, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "profile",
    help: "Sets which operations are recorded in the database's system.profile.",
    // MongoDB ignores unknown fields here.
    fields: None,
    privilege: Required::Custom(allowed),
    audited: true,
    profiled: false,
    run,
    ..Command::BASE
};

/// The number of the log line for changed settings, as in MongoDB.
const PROFILER_CHANGED: i32 = 48742;

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let level = args.optional_i64("profile")?.ok_or_else(|| args.missing("profile"))?;
    let sample_rate = match args.get("sampleRate") {
        None => None,
        Some(rate) => {
            let number = rate.as_f64().ok_or_else(|| {
                args.wrong_type("sampleRate", rate, "[double, int, decimal, long]")
            })?;
            if !(0.0..=1.0).contains(&number) {
                return Err(Error::bad_value("'sampleRate' must be between 0.0 and 1.0 inclusive"));
            }
            Some(number)
        }
    };
    let filter = match args.get("filter") {
        None => None,
        Some(Val::String("unset")) => Some(None),
        Some(Val::Document(doc)) => {
            let constants = Constants::new(context)?;
            let filter = Filter::parse_for_documents(doc, &constants.context())?;
            Some(Some((Arc::new(filter), DocBuf::from(doc))))
        }
        Some(_) => {
            return Err(Error::new(Code::BAD_VALUE, "Expected an object, or the string 'unset'."));
        }
    };
    let slow_ms = args.optional_i64("slowms")?;
    let profiler = &context.engine.observed.profiler;
    let was = profiler.show(context.db);
    out.i32("was", was.level);
    out.i32("slowms", i32::try_from(profiler.slow_ms.load(Ordering::Relaxed)).unwrap_or(i32::MAX));
    out.f64("sampleRate", was.sample_rate);
    if let Some(filter) = &was.filter {
        out.append("filter", Val::Document(filter.as_doc()));
        out.str(
            "note",
            "When a filter expression is set, slowms and sampleRate are not used for \
                         profiling and slow-query log lines.",
        );
    }
    // Any other number only returns the settings.
    let level = i32::try_from(level).ok().filter(|level| (0..=2).contains(level));
    let data = &context.engine.data;
    if level.is_some_and(|level| level > 0) && !data.options.read_only {
        profiler::ensure(data, context.db)?;
    }
    profiler.change(context.db, Change { level, slow_ms, sample_rate, filter });
    let now = profiler.show(context.db);
    if now.level != was.level {
        tracing::info!(
            id = PROFILER_CHANGED,
            db = context.db,
            from = was.level,
            to = now.level,
            "Profiler settings changed"
        );
    }
    Ok(())
}

fn allowed(auth: &Authorization<'_>) -> bool {
    let level = auth.body.first().and_then(|(_, value)| value.get().as_i64_exact());
    auth.on_database(&[Action::EnableProfiler])
        || (level.is_some_and(|level| !(0..=2).contains(&level))
            && auth.on_collection("system.profile", &[Action::Find]))
}
