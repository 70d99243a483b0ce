//! `saslContinue`: continues a SASL authentication.

use super::row::{Required, StableApi};
use super::sasl::{CONVERSATION, payload, write};
use super::{Command, Context};
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "saslContinue",
    help: "Continues a SASL authentication.",
    fields: Some(&["saslContinue", "conversationId", "payload"]),
    privilege: Required::Nothing,
    credentials: true,
    stable_api: StableApi::Included,
    uncompressed: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let doc = context.args.doc;
    if doc.get("conversationId").and_then(Val::as_i64_exact) != Some(i64::from(CONVERSATION)) {
        return Err(Error::new(Code::PROTOCOL_ERROR, "sasl: Mismatched conversation id"));
    }
    let (login, engine) = context.client.login();
    let answer = login.continue_exchange(engine, &payload(doc)?)?;
    write(out, &answer);
    Ok(())
}
