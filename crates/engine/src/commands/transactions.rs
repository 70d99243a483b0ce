//! `commitTransaction` and `abortTransaction`.

use super::{Command, Context};
use value::{Code, Error, Result, Writer};

pub(super) static COMMIT: Command = Command {
    name: "commitTransaction",
    aliases: &[],
    help: "Makes the writes of a transaction visible and durable.",
    fields: Some(&["commitTransaction", "recoveryToken"]),
    admin: true,
    test: false,
    run: commit,
};

pub(super) static ABORT: Command = Command {
    name: "abortTransaction",
    aliases: &[],
    help: "Ends a transaction without a trace.",
    fields: Some(&["abortTransaction", "recoveryToken"]),
    admin: true,
    test: false,
    run: abort,
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
