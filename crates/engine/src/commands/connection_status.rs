//! `connectionStatus` and `whatsmyuri`: who the client is to this server.

use super::{Command, Context};
use value::{Result, Writer};

pub(super) static CONNECTION_STATUS: Command = Command {
    name: "connectionStatus",
    aliases: &[],
    help: "Tells as whom the client is logged in.",
    fields: Some(&["connectionStatus", "showPrivileges"]),
    admin: false,
    test: false,
    run: connection_status,
};

pub(super) static WHATS_MY_URI: Command = Command {
    name: "whatsmyuri",
    aliases: &[],
    help: "Tells the client its own address.",
    fields: Some(&["whatsmyuri"]),
    admin: false,
    test: false,
    run: whats_my_uri,
};

/// Nobody can log in yet.
fn connection_status(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let privileges = context.args.bool("showPrivileges")?;
    out.doc("authInfo", |out| {
        out.array("authenticatedUsers", |_| {});
        out.array("authenticatedUserRoles", |_| {});
        if privileges {
            out.array("authenticatedUserPrivileges", |_| {});
        }
    });
    Ok(())
}

fn whats_my_uri(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    out.str("you", &context.op.slot().remote);
    Ok(())
}
