//! `applyPatterns`: gives up the version before of a pattern with versions, or goes back to it.

use super::drop_patterns::{of_pattern, remove};
use super::patterns::{connected, refuse_in_transaction};
use super::row::Required;
use super::{Command, Context};
use crate::layout;
use crate::upkeep::declare;
use ::access::Action;
use ::patterns::{Pattern, Phase};
use std::sync::Arc;
use value::{Code, DocBuf, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "applyPatterns",
    help: "Gives up the version before of a pattern with versions, or goes back to it.",
    fields: Some(&["applyPatterns", "contract", "rollback", "wait"]),
    hints: true,
    privilege: Required::Collection(&[Action::DropPattern]),
    audited: true,
    run: apply_patterns,
    ..Command::BASE
};

fn apply_patterns(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    refuse_in_transaction(context)?;
    let name = context.collection_name()?;
    let concern = context.write_concern()?;
    let wait = context.args.bool_or_true("wait")?;
    let (contract, rollback) = (context.args.get("contract"), context.args.get("rollback"));
    let (is_contract, pattern) = match (contract, rollback) {
        (Some(Val::String(pattern)), None) => (true, pattern),
        (None, Some(Val::String(pattern))) => (false, pattern),
        _ => {
            return Err(Error::bad_value(
                "'applyPatterns' needs the name of a pattern as 'contract' or as 'rollback'",
            ));
        }
    };
    let known = declare::find(&context.engine.data.catalog.load(), context.db, name, pattern)?;
    if is_contract {
        give_up(context, &known).map_err(|error| of_pattern(&known, error))?;
    } else {
        if known.kind.reforms().is_empty() {
            let none = Error::bad_value("the pattern has no version to go back to");
            return Err(of_pattern(&known, none));
        }
        remove(context, name, vec![known], false, wait)?;
    }
    concern.write_error(out);
    Ok(())
}

/// Gives up the version before.
fn give_up(context: &Context<'_>, known: &Arc<Pattern>) -> Result<()> {
    let (data, db) = (&context.engine.data, context.db);
    let Some(layout_of) = known.layout() else {
        return Err(Error::bad_value("the pattern has no versions of which one could be given up"));
    };
    let txn = data.reader();
    let target = txn.catalog.get(db, &known.target);
    let records = target
        .and_then(|target| layout::records(target.layouts.as_ref()?, &txn.snapshot, known.id));
    let Some(records) = records else {
        return Err(Error::bad_value("the pattern has no versions of which one could be given up"));
    };
    layout_of.check_contract(&*records)?;
    let older = connected(context.engine, known);
    if let Some((name, count)) = older.iter().find(|(_, count)| *count > 0) {
        return Err(Error::new(
            Code::CONFLICTING_OPERATION_IN_PROGRESS,
            format!("{count} connections of '{name}', which knows the version before, are open"),
        ));
    }
    drop(txn);
    data.change_catalog(|catalog, batch| {
        let now = declare::find(catalog, db, &known.collection, &known.name)?;
        if now.phase != Phase::Ready || now.id != known.id {
            return Err(Error::new(
                Code::CONFLICTING_OPERATION_IN_PROGRESS,
                format!("its state is '{}', not 'ready'", now.phase.name()),
            ));
        }
        let declaration = DocBuf::build(|out| {
            let options = now.declaration.as_doc().iter();
            for (option, value) in options.filter(|(option, _)| *option != "contracted") {
                out.raw(option, value);
            }
            out.bool("contracted", true);
        });
        let contracted = now.redeclared(&now.collection, declaration.as_doc(), |_| {})?;
        declare::put(catalog, batch, db, contracted)
    })
}
