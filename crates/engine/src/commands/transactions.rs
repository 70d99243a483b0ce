//! `commitTransaction` and `abortTransaction`.

use super::row::{Required, StableApi, Transactions};
use super::{Command, Context};
use value::{Code, Error, Result, Writer};

pub(super) static COMMIT: Command = Command {
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

pub(super) static ABORT: Command = Command {
    name: "abortTransaction",
    help: "Ends a transaction without a trace.",
    fields: Some(&["abortTransaction", "recoveryToken"]),
    admin: true,
    privilege: Required::Login,
    transactions: Transactions::Ends("an abort"),
    stable_api: StableApi::Included,
    run: abort,
    ..Command::BASE
};

/// The session and the number of the transaction that is to end.
fn named(context: &Context<'_>) -> Result<([u8; 16], i64)> {
    context.session.zip(context.transaction).ok_or_else(|| {
        Error::new(
            Code::COMMAND_FAILED,
            format!("{} must be run within a transaction", context.name),
        )
    })
}

fn commit(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let (session, number) = named(context)?;
    let concern = context.write_concern()?;
    let engine = context.engine;
    let newest =
        engine.service.sessions.transactions.commit(engine, context.op, session, number)?;
    concern.wait(engine, newest)?;
    concern.write_error(out);
    Ok(())
}

fn abort(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let (session, number) = named(context)?;
    let concern = context.write_concern()?;
    let engine = context.engine;
    engine.service.sessions.transactions.abort(engine, context.op, session, number)?;
    concern.write_error(out);
    Ok(())
}
