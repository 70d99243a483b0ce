//! `saslStart`: starts a SASL authentication.

use super::Command;
use super::row::{Required, StableApi};
use super::sasl::{start, write};

pub(super) static COMMAND: Command = Command {
    name: "saslStart",
    help: "Starts a SASL authentication.",
    fields: Some(&["saslStart", "mechanism", "payload", "autoAuthorize", "options", "db"]),
    privilege: Required::Nothing,
    credentials: true,
    stable_api: StableApi::Included,
    uncompressed: true,
    run: |context, out| {
        let answer = start(context, context.args.doc, context.db, false)?;
        write(out, &answer);
        Ok(())
    },
    ..Command::BASE
};
