//! `connectionStatus`: the users, roles and privileges of the connection.

use super::in_transaction;
use super::row::{Required, Transactions};
use super::{Command, Context};
use crate::access::directory::{write_privileges, write_roles};
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "connectionStatus",
    help: "Returns the authenticated users and roles of the connection.",
    fields: Some(&["connectionStatus", "showPrivileges"]),
    privilege: Required::Nothing,
    transactions: Transactions::RefusedBecause(in_transaction::NOT_SUPPORTED),
    run: connection_status,
    ..Command::BASE
};

fn connection_status(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let privileges = context.args.bool("showPrivileges")?;
    let (login, engine) = context.client.login();
    login.refresh(engine)?;
    out.doc("authInfo", |out| {
        out.array("authenticatedUsers", |users| {
            for user in login.users() {
                users.push_doc(|out| {
                    out.str("user", &user.name).str("db", &user.db);
                });
            }
        });
        let roles = login.users().iter().flat_map(|user| &user.inherited.roles);
        write_roles(out, "authenticatedUserRoles", roles);
        if privileges {
            write_privileges(out, "authenticatedUserPrivileges", &login.privileges().list());
        }
    });
    Ok(())
}
