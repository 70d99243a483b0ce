//! `rotateCertificates`: reloads the server's certificates and keys, as SIGHUP does.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "rotateCertificates",
    help: "Reloads certificates and keys, for new connections.",
    fields: Some(&["rotateCertificates", "message", "comment"]),
    admin: true,
    privilege: Required::Cluster(&[Action::RotateCertificates]),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let message = context.args.optional_string("message")?.unwrap_or("");
    context.engine.service.rotate_certificates().map_err(|reason| {
        tracing::error!(reason, "cannot reload certificates and keys; the old ones stay in use");
        Error::new(Code::INVALID_SSL_CONFIGURATION, reason)
    })?;
    tracing::info!(message, "certificates and keys reloaded");
    Ok(())
}
