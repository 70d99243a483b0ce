//! `dropPatterns`: removes patterns and the values that they maintain.

use super::patterns::{
    check_not_time_series, finish_builds, finish_indexes, named, refuse_in_transaction,
};
use super::row::Required;
use super::{Command, Context};
use crate::layout;
use crate::upkeep::{declare, kept_views, modify, new_forms, own_index};
use ::access::Action;
use ::patterns::{Pattern, Phase, error_context};
use std::sync::Arc;
use value::{Code, DocBuf, Error, Result, Val, Writer, limits};

pub(super) static COMMAND: Command = Command {
    name: "dropPatterns",
    help: "Removes patterns and the values that they maintain.",
    fields: Some(&["dropPatterns", "names", "keepValues", "wait"]),
    hints: true,
    privilege: Required::Collection(&[Action::DropPattern]),
    audited: true,
    run: drop_patterns,
    ..Command::BASE
};

fn drop_patterns(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    refuse_in_transaction(context)?;
    let name = context.collection_name()?;
    let concern = context.write_concern()?;
    let keep = context.args.bool("keepValues")?;
    let wait = context.args.bool_or_true("wait")?;
    if context.args.get("names").is_none() {
        return Err(context.args.missing("names"));
    }
    let before = declare::count(&context.engine.data.catalog.load(), context.db, name);
    let gone = named(context, name)?;
    remove(context, name, gone, keep, wait)?;
    out.count("nPatternsWas", before as u64);
    concern.write_error(out);
    Ok(())
}

/// Removes patterns of a collection.
///
/// # Errors
/// When one of them cannot be removed, or cannot keep its values.
pub(super) fn remove(
    context: &Context<'_>,
    name: &str,
    gone: Vec<Arc<Pattern>>,
    keep: bool,
    wait: bool,
) -> Result<()> {
    let (engine, db) = (context.engine, context.db);
    for pattern in &gone {
        check_not_time_series(context, name, &pattern.name)?;
    }
    if let Some(pointer) = gone.iter().find(|pattern| keep && pattern.is_pointer()) {
        return Err(Error::bad_value(format!(
            "the pattern '{}' has no values that could be kept: with 'strategy: pointer' nothing is \
             stored. Store them first: {{modifyPattern: '{name}', name: '{}', set: {{strategy: \
             'copy'}}}}",
            pointer.name, pointer.name
        )));
    }
    own_index::await_writers(&engine.data, context.op, &gone, db)?;
    // Documents are stored without a layout, also if its values are kept.
    let stays = |pattern: &Arc<Pattern>| keep && !pattern.kind.reforms().is_empty();
    let (layouts, gone): (Vec<_>, Vec<_>) =
        gone.into_iter().partition(|pattern| pattern.layout().is_some() && !stays(pattern));
    for pattern in layouts.iter().chain(&gone) {
        pattern.kind.check_removal(keep).map_err(|error| of_pattern(pattern, error))?;
    }
    for pattern in &layouts {
        new_forms::check(&engine.data, context.op, db, pattern)?;
    }
    refuse_large(context, name, &layouts)?;
    let (ids, renewed) = declare::clear(&engine.data, db, &layouts, keep)?;
    new_forms::fill(&engine.data, renewed)?;
    finish_builds(context, &ids, wait)?;
    if wait {
        finish_indexes(context, &layouts)?;
    }
    if keep {
        let (gone, indexes) = engine.data.change_catalog(|catalog, batch| {
            let mut gone = gone;
            for pattern in gone.iter().filter(|pattern| stays(pattern)) {
                check_converted(&*declare::find(catalog, db, name, &pattern.name)?)?;
            }
            let indexes = own_index::remove(catalog, batch, db, &gone);
            kept_views::remove(catalog, batch, db, &gone);
            gone.extend(modify::versions(catalog, db, &gone));
            declare::remove(catalog, batch, db, &gone)?;
            Ok((gone, indexes))
        })?;
        own_index::discard(&engine.data, &indexes);
        declare::discard(&engine.data, &gone);
    } else {
        let (ids, _) = declare::clear(&engine.data, db, &gone, false)?;
        finish_builds(context, &ids, wait)?;
    }
    Ok(())
}

/// Refuses to keep documents in a form that not all of them are stored in yet.
fn check_converted(pattern: &Pattern) -> Result<()> {
    if pattern.phase == Phase::Ready {
        return Ok(());
    }
    Err(Error::new(
        Code::CONFLICTING_OPERATION_IN_PROGRESS,
        format!(
            "the pattern '{}' is '{}': its documents can be kept as they are when it is 'ready'",
            pattern.name,
            pattern.phase.name()
        ),
    ))
}

/// An error that names the pattern.
pub(super) fn of_pattern(pattern: &Pattern, error: Error) -> Error {
    error_context::on_pattern((&pattern.name, &pattern.collection), None, error)
}

/// Refuses to drop layouts if documents would be too large without them.
fn refuse_large(context: &Context<'_>, name: &str, layouts: &[Arc<Pattern>]) -> Result<()> {
    /// The most `_id`s in the message.
    const SHOWN_MAX: usize = 10;
    let view = context.engine.data.view(context.op);
    let collection = view.catalog.get(context.db, name);
    let Some(known) = collection.and_then(|collection| collection.layouts.as_ref()) else {
        return Ok(());
    };
    for pattern in layouts {
        let (mut count, mut shown) = (0, Vec::new());
        layout::too_large(known, &view.snapshot, pattern.id, &mut |doc| {
            count += 1;
            if shown.len() < SHOWN_MAX {
                let id = DocBuf::build(|out| {
                    out.append("_id", doc.get("_id").unwrap_or(Val::Null));
                });
                shown.push(query::expr::show_doc(id.as_doc()));
            }
        })?;
        if count > 0 {
            return Err(Error::new(
                Code::BSON_OBJECT_TOO_LARGE,
                format!(
                    "the pattern '{}' cannot be dropped: without it {count} documents would be larger \
                     than {} bytes, for example {}",
                    pattern.name,
                    limits::DOCUMENT_BYTES_MAX,
                    shown.join(", ")
                ),
            ));
        }
    }
    Ok(())
}
