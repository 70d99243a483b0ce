//! `dropPatterns`: removes patterns and the values that they maintain.

use super::patterns::{check_not_time_series, finish_builds, named, refuse_in_transaction};
use super::row::Required;
use super::{Command, Context};
use crate::upkeep::{declare, modify, own_index};
use ::access::Action;
use value::{Error, Result, Writer};

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
    let (engine, db) = (context.engine, context.db);
    let before = declare::count(&engine.data.catalog.load(), db, name);
    let gone = named(context, name)?;
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
    // A layout has no values to keep: documents are stored without them.
    let (layouts, gone): (Vec<_>, Vec<_>) =
        gone.into_iter().partition(|pattern| pattern.layout().is_some());
    let ids = declare::clear(&engine.data, db, &layouts)?;
    finish_builds(context, &ids, wait)?;
    if keep {
        let (gone, indexes) = engine.data.change_catalog(|catalog, batch| {
            let mut gone = gone;
            let indexes = own_index::remove(catalog, batch, db, &gone);
            gone.extend(modify::versions(catalog, db, &gone));
            declare::remove(catalog, batch, db, &gone)?;
            Ok((gone, indexes))
        })?;
        own_index::discard(&engine.data, &indexes);
        declare::discard(&engine.data, &gone);
    } else {
        let ids = declare::clear(&engine.data, db, &gone)?;
        finish_builds(context, &ids, wait)?;
    }
    out.count("nPatternsWas", before as u64);
    concern.write_error(out);
    Ok(())
}
