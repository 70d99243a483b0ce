//! `authenticate`: authenticates with the client's X.509 certificate.

use super::Command;
use super::row::{Required, StableApi};
use super::sasl::authenticate;

pub(super) static COMMAND: Command = Command {
    name: "authenticate",
    help: "Authenticates with the client's X.509 certificate.",
    fields: Some(&["authenticate", "mechanism", "user"]),
    privilege: Required::Nothing,
    credentials: true,
    stable_api: StableApi::Included,
    uncompressed: true,
    run: |context, out| {
        let (doc, db) = (context.args.doc, context.db);
        authenticate(context, doc, db, false, out)
    },
    ..Command::BASE
};
