//! `dropDatabase`: removes all collections and views of a database.

use super::row::{Required, StableApi};
use super::{Command, Context};
use crate::catalog::change;
use crate::changes::Cause;
use crate::upkeep::declare;
use ::access::Action;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "dropDatabase",
    help: "Removes a database with everything in it.",
    fields: Some(&["dropDatabase"]),
    privilege: Required::Database(&[Action::DropDatabase]),
    stable_api: StableApi::Included,
    audited: true,
    removes_users: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    if context.args.doc.get("dropDatabase").and_then(Val::as_f64) != Some(1.0) {
        return Err(Error::new(Code(5_255_100), "Have to pass 1 as 'drop' parameter"));
    }
    let db = context.db;
    if matches!(db, "admin" | "config" | "local") {
        return Err(Error::new(
            Code::ILLEGAL_OPERATION,
            format!("Dropping the '{db}' database is prohibited."),
        ));
    }
    let concern = context.write_concern()?;
    context.engine.data.wait_for_writers(&|| context.op.check_now(), |c| *c.db == *db)?;
    let dropped =
        context.engine.data.change_catalog_for(Cause::DropDatabase(db), |catalog, batch| {
            let Some(database) = catalog.databases.get(db).cloned() else { return Ok(None) };
            declare::remove(catalog, batch, db, &database.patterns)?;
            for collection in database.collections.values() {
                change::remove(catalog, batch, collection);
            }
            Ok(Some(database))
        })?;
    if let Some(database) = dropped {
        declare::discard(&context.engine.data, &database.patterns);
        for collection in database.collections.values() {
            change::discard(&context.engine.data.trash, collection);
        }
        context.engine.data.wake_tailing_cursors();
    }
    concern.write_error(out);
    Ok(())
}
