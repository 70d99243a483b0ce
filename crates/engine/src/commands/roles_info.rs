//! `rolesInfo`: returns information about roles.

use super::roles::own_roles;
use super::row::{NamedIn, Required};
use super::{Command, Context};
use crate::access::Authorization;
use crate::access::RoleName;
use crate::access::directory::{Inherited, Role, write_privileges, write_roles};
use ::access::Action;
use ::access::Actions;
use access::builtin;
use value::{DocBuf, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "rolesInfo",
    help: "Returns information about roles.",
    fields: Some(&[
        "rolesInfo",
        "showPrivileges",
        "showBuiltinRoles",
        "showAuthenticationRestrictions",
    ]),
    privilege: Required::Custom(may_see),
    namespace: NamedIn::None,
    run: info,
    ..Command::BASE
};

/// How `rolesInfo` shows privileges.
#[derive(PartialEq)]
enum PrivilegeDetail {
    Nothing,
    Privileges,
    Fragment,
}

fn info(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let detail = match args.get("showPrivileges") {
        Some(Val::String("asUserFragment")) => PrivilegeDetail::Fragment,
        None => PrivilegeDetail::Nothing,
        Some(_) if args.bool("showPrivileges")? => PrivilegeDetail::Privileges,
        Some(_) => PrivilegeDetail::Nothing,
    };
    let restrictions = args.bool("showAuthenticationRestrictions")?;
    let mut directory = context.client.directory();
    let names = match args.doc.get("rolesInfo").unwrap_or(Val::Int32(1)) {
        Val::Array(list) => RoleName::parse_all(list, context.db)?,
        value @ (Val::String(_) | Val::Document(_)) => vec![RoleName::parse(value, context.db)?],
        _ => {
            let mut names = own_roles(&mut directory, context.db)?;
            if args.bool("showBuiltinRoles")? {
                let here = |role: &&builtin::Builtin| context.db == "admin" || !role.admin_only;
                let all = builtin::all().iter().filter(here);
                names.extend(all.map(|role| RoleName::new(role.name, context.db)));
            }
            names
        }
    };
    if detail == PrivilegeDetail::Fragment {
        let all = directory.inherited(&names)?;
        out.doc("userFragment", |out| {
            write_roles(out, "roles", &names);
            write_roles(out, "inheritedRoles", &all.roles);
            write_privileges(out, "inheritedPrivileges", &all.privileges.list());
        });
        return Ok(());
    }
    let mut documents = Vec::new();
    for name in &names {
        let Some(role) = directory.role(name)? else { continue };
        let mut all = directory.inherited(&role.roles)?;
        role.privileges.iter().for_each(|privilege| all.privileges.add(privilege));
        documents.push(describe(&role, &all, &detail, restrictions));
    }
    out.array("roles", |roles| {
        documents.iter().for_each(|role| roles.push(Val::Document(role.as_doc())));
    });
    Ok(())
}

fn describe(role: &Role, all: &Inherited, detail: &PrivilegeDetail, restrictions: bool) -> DocBuf {
    DocBuf::build(|out| {
        if !role.builtin {
            out.str("_id", &role.name.id());
        }
        role.name.write(out);
        if *detail == PrivilegeDetail::Privileges {
            write_privileges(out, "privileges", &role.privileges);
        }
        write_roles(out, "roles", &role.roles);
        if restrictions {
            out.array("authenticationRestrictions", |array| {
                if !role.restrictions.is_empty() {
                    role.restrictions.push(array, true);
                }
            });
        }
        write_roles(out, "inheritedRoles", &all.roles);
        if *detail == PrivilegeDetail::Privileges {
            write_privileges(out, "inheritedPrivileges", &all.privileges.list());
        }
        if restrictions {
            out.array("inheritedAuthenticationRestrictions", |array| {
                if !role.restrictions.is_empty() {
                    role.restrictions.push(array, true);
                }
                all.restrictions.iter().for_each(|list| list.push(array, false));
            });
        }
        out.bool("isBuiltin", role.builtin);
    })
}

fn may_see(auth: &Authorization<'_>) -> bool {
    let Some((_, value)) = auth.body.first() else { return true };
    let view =
        |db: &str| auth.privileges.on_database(db).contains(Actions::of(&[Action::ViewRole]));
    let has =
        |name: &RoleName| auth.login.users().iter().any(|user| user.inherited.roles.contains(name));
    let one = |value: Val<'_>| match RoleName::parse(value, auth.db) {
        Ok(name) => view(&name.db) || has(&name),
        Err(_) => true,
    };
    match value.get() {
        Val::Array(roles) => roles.into_iter().all(|(_, role)| one(role.get())),
        value @ (Val::String(_) | Val::Document(_)) => one(value),
        _ => view(auth.db),
    }
}
