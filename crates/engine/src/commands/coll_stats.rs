//! `collStats`: sizes of a collection and its indexes, as in the `$collStats` stage.

use super::row::Required;
use super::{Command, Context, query};
use crate::namespace::is_oplog;
use crate::stages::sizes;
use ::access::Action;
use value::{Code, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "collStats",
    aliases: &["collstats"],
    help: "Returns the sizes of a collection and its indexes.",
    fields: None,
    privilege: Required::Collection(&[Action::CollStats]),
    mistyped_name: Code::INVALID_NAMESPACE,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let scale = sizes::scale(&context.args)?;
    let collection = query::writable(&context.engine.data.catalog.load(), context.db, name)?;
    out.str("ns", &format!("{}.{name}", context.db));
    if is_oplog(context.db, name) {
        sizes::write_oplog_sizes(&context.engine.data, scale, out);
        return Ok(());
    }
    sizes::write_sizes(&context.engine.data, collection.as_deref(), scale, out);
    Ok(())
}
