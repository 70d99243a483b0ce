//! `commitTransaction`: makes the writes of a transaction visible and durable.

use super::row::{Required, StableApi, Transactions};
use super::transactions::named;
use super::{Command, Context};
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "commitTransaction",
    help: "Makes the writes of a transaction visible and durable.",
    fields: Some(&["commitTransaction", "recoveryToken"]),
    admin: true,
    privilege: Required::Login,
    transactions: Transactions::Ends("a commit"),
    stable_api: StableApi::Included,
    run: commit,
    ..Command::BASE
};

fn commit(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let (session, number) = named(context)?;
    let concern = context.write_concern()?;
    let engine = context.engine;
    let newest =
        engine.service.sessions.transactions.commit(&engine.data, context.op, session, number)?;
    concern.wait(engine, newest)?;
    concern.write_error(out);
    Ok(())
}
