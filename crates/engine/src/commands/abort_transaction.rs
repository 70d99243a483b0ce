//! `abortTransaction`: aborts a transaction and discards its writes.

use super::row::{Required, StableApi, Transactions};
use super::transactions::named;
use super::{Command, Context};
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "abortTransaction",
    help: "Aborts a transaction and discards its writes.",
    fields: Some(&["abortTransaction", "recoveryToken"]),
    admin: true,
    privilege: Required::Login,
    transactions: Transactions::Ends("an abort"),
    stable_api: StableApi::Included,
    run: abort,
    ..Command::BASE
};

fn abort(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let (session, number) = named(context)?;
    let concern = context.write_concern()?;
    let engine = context.engine;
    engine.service.sessions.transactions.abort(&engine.data, context.op, session, number)?;
    concern.write_error(out);
    Ok(())
}
