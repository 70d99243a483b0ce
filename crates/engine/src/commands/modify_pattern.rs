//! `modifyPattern`: changes options of a pattern.

use super::patterns::{check_not_time_series, finish_builds, may_declare, refuse_in_transaction};
use super::row::Required;
use super::{Command, Context};
use crate::upkeep::{declare, modify};
use ::access::Action;
use ::patterns::{Pattern, Phase};
use std::sync::Arc;
use value::{Code, Error, RawDoc, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "modifyPattern",
    help: "Changes options of a pattern.",
    fields: Some(&["modifyPattern", "name", "set", "wait"]),
    hints: true,
    privilege: Required::Collection(&[Action::CreatePattern]),
    run: modify_pattern,
    ..Command::BASE
};

fn modify_pattern(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    refuse_in_transaction(context)?;
    let collection = context.collection_name()?;
    let concern = context.write_concern()?;
    let name = context.args.string("name")?;
    let set = context.args.doc("set")?;
    let wait = context.args.bool_or_true("wait")?;
    let (engine, db) = (context.engine, context.db);
    // What the options of the collection say, collMod changes.
    if ["key", "time", "span", "expireAfterSeconds"].iter().any(|name| set.find(name).is_some()) {
        check_not_time_series(context, collection, name)?;
    }
    let (wanted, light) = modify::redeclare(&engine.data, db, collection, name, set)?;
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
    apply(context, collection, name, set, wait)?;
    concern.write_error(out);
    Ok(())
}

/// Changes options of a pattern, and builds it again if that is needed.
///
/// # Errors
/// When the new declaration is invalid, or cannot be built.
pub(super) fn apply(
    context: &Context<'_>,
    collection: &str,
    name: &str,
    set: RawDoc<'_>,
    wait: bool,
) -> Result<()> {
    let (engine, db) = (context.engine, context.db);
    let built = modify::modify(&engine.data, context.op, db, collection, name, set)?;
    // Waiting work may be able to continue with the new options.
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
    Ok(())
}
