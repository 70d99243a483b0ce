//! The commands about roles: `createRole`, `updateRole`, `dropRole`, `dropAllRolesFromDatabase`,
//! `grantPrivilegesToRole`, `revokePrivilegesFromRole`, `grantRolesToRole`, `revokeRolesFromRole`,
//! `rolesInfo`, `invalidateUserCache`.

use super::row::{NamedIn, Required};
use super::users::{change_of_roles, named_roles};
use super::{Command, Context};
use crate::access::Authorization;
use crate::access::directory::{Inherited, ROLES, Role, USERS, write_privileges, write_roles};
use crate::access::{Directory, RoleName};
use ::access::Action;
use ::access::Actions;
use access::{Privilege, Privileges, Resource, Restrictions, builtin};
use std::sync::atomic::Ordering;
use value::{Code, DocBuf, Error, Result, Val, Writer};

pub(super) static CREATE: Command = Command {
    name: "createRole",
    help: "Makes a role.",
    fields: Some(&["createRole", "privileges", "roles", "authenticationRestrictions"]),
    privilege: Required::Custom(may_create),
    first_user: true,
    audited: true,
    namespace: NamedIn::None,
    run: create,
    ..Command::BASE
};
pub(super) static UPDATE: Command = Command {
    name: "updateRole",
    help: "Changes what a role allows.",
    fields: Some(&["updateRole", "privileges", "roles", "authenticationRestrictions"]),
    privilege: Required::Custom(may_update),
    audited: true,
    namespace: NamedIn::None,
    run: update,
    ..Command::BASE
};
pub(super) static DROP: Command = Command {
    name: "dropRole",
    help: "Removes a role.",
    fields: Some(&["dropRole"]),
    privilege: Required::Database(&[Action::DropRole]),
    audited: true,
    namespace: NamedIn::None,
    run: drop_role,
    ..Command::BASE
};
pub(super) static DROP_ALL: Command = Command {
    name: "dropAllRolesFromDatabase",
    help: "Removes all roles of a database.",
    fields: Some(&["dropAllRolesFromDatabase"]),
    privilege: Required::Database(&[Action::DropRole]),
    audited: true,
    namespace: NamedIn::None,
    run: drop_all,
    ..Command::BASE
};
pub(super) static GRANT_PRIVILEGES: Command = Command {
    name: "grantPrivilegesToRole",
    help: "Lets a role do more.",
    fields: Some(&["grantPrivilegesToRole", "privileges"]),
    privilege: Required::Custom(|auth| auth.on_privileges(Action::GrantRole)),
    audited: true,
    namespace: NamedIn::None,
    run: |context, _| change_privileges(context, true),
    ..Command::BASE
};
pub(super) static REVOKE_PRIVILEGES: Command = Command {
    name: "revokePrivilegesFromRole",
    help: "Lets a role do less.",
    fields: Some(&["revokePrivilegesFromRole", "privileges"]),
    privilege: Required::Custom(|auth| auth.on_privileges(Action::RevokeRole)),
    audited: true,
    namespace: NamedIn::None,
    run: |context, _| change_privileges(context, false),
    ..Command::BASE
};
pub(super) static GRANT: Command = Command {
    name: "grantRolesToRole",
    help: "Gives roles to a role.",
    fields: Some(&["grantRolesToRole", "roles"]),
    privilege: Required::Custom(|auth| auth.on_roles("roles", Action::GrantRole)),
    audited: true,
    namespace: NamedIn::None,
    run: |context, _| change_roles(context, true),
    ..Command::BASE
};
pub(super) static REVOKE: Command = Command {
    name: "revokeRolesFromRole",
    help: "Takes roles from a role.",
    fields: Some(&["revokeRolesFromRole", "roles"]),
    privilege: Required::Custom(|auth| auth.on_roles("roles", Action::RevokeRole)),
    audited: true,
    namespace: NamedIn::None,
    run: |context, _| change_roles(context, false),
    ..Command::BASE
};
pub(super) static INFO: Command = Command {
    name: "rolesInfo",
    help: "Tells about roles.",
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
pub(super) static INVALIDATE: Command = Command {
    name: "invalidateUserCache",
    help: "Looks all users up again.",
    fields: Some(&["invalidateUserCache"]),
    admin: true,
    privilege: Required::Cluster(&[Action::InvalidateUserCache]),
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    run: |context, _| {
        context.engine.data.directory_generation.fetch_add(1, Ordering::Release);
        Ok(())
    },
    ..Command::BASE
};

/// The role in the command's first field, which must be one of ours.
fn own_role(context: &Context<'_>) -> Result<RoleName> {
    let name = RoleName::new(context.args.string(context.name)?, context.db);
    if name.is_builtin() {
        return Err(Error::bad_value(format!("{name} is a built-in role and cannot be modified")));
    }
    Ok(name)
}

fn existing(directory: &mut Directory, name: &RoleName) -> Result<Role> {
    directory.role(name)?.ok_or_else(|| name.not_found())
}

fn id_filter(name: &RoleName) -> DocBuf {
    DocBuf::build(|out| {
        out.str("_id", &name.id());
    })
}

/// The privileges in the command; a role of another database than `admin` reaches its own only.
fn privileges(context: &Context<'_>) -> Result<Option<Vec<Privilege>>> {
    let Some(list) = context.args.optional_array("privileges")? else { return Ok(None) };
    let mut all = Privileges::default();
    for (_, value) in list {
        let doc = value
            .as_doc()
            .ok_or_else(|| context.args.wrong_type("privileges.0", value.get(), "object"))?;
        let privilege = Privilege::parse(doc)?;
        let here = match &privilege.resource {
            Resource::Database(db) | Resource::Exact(db, _) => **db == *context.db,
            _ => false,
        };
        if context.db != "admin" && !here {
            return Err(Error::new(
                Code::INVALID_ROLE_MODIFICATION,
                format!(
                    "Roles on the '{}' database cannot be granted privileges that target other \
                     databases or the cluster",
                    context.db
                ),
            ));
        }
        all.add(&privilege);
    }
    Ok(Some(all.list()))
}

/// Checks roles that another shall contain: they exist, are not elsewhere, and do not contain it.
fn check_inner(directory: &mut Directory, name: &RoleName, roles: &[RoleName]) -> Result<()> {
    for role in roles {
        if name.db != "admin" && role.db != name.db {
            return Err(Error::new(
                Code::INVALID_ROLE_MODIFICATION,
                format!(
                    "Roles on the '{}' database cannot be granted roles from other databases",
                    name.db
                ),
            ));
        }
    }
    directory
        .check_roles(roles)
        .map_err(|error| error.context(format!("Cannot grant roles to '{name}': ")))?;
    if directory.inherited(roles)?.roles.contains(name) {
        return Err(Error::new(
            Code::INVALID_ROLE_MODIFICATION,
            format!("Granting roles to {name} would introduce a cycle in the role graph"),
        ));
    }
    Ok(())
}

fn restrictions(context: &Context<'_>) -> Result<Option<Restrictions>> {
    let list = context.args.optional_array("authenticationRestrictions")?;
    let place = format!("{}.authenticationRestrictions", context.args.place);
    list.map(|list| Restrictions::parse(list, &place)).transpose()
}

fn document(role: &Role) -> DocBuf {
    let name = &role.name;
    DocBuf::build(|out| {
        out.str("_id", &name.id()).str("role", &name.role).str("db", &name.db);
        write_privileges(out, "privileges", &role.privileges);
        write_roles(out, "roles", &role.roles);
        if !role.restrictions.is_empty() {
            role.restrictions.write(out, "authenticationRestrictions");
        }
    })
}

fn create(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let name = RoleName::new(args.string("createRole")?, context.db);
    if name.role.is_empty() {
        return Err(Error::bad_value("Role name must be non-empty"));
    }
    if name.db == "local" || name.db == crate::access::EXTERNAL {
        return Err(Error::bad_value(format!("Cannot create roles in the {} database", name.db)));
    }
    let restrictions = restrictions(context)?.unwrap_or_default();
    let privileges = privileges(context)?.ok_or_else(|| args.missing("privileges"))?;
    let roles = args.optional_array("roles")?.ok_or_else(|| args.missing("roles"))?;
    let roles = RoleName::parse_all(roles, context.db)?;
    if name.is_builtin() {
        return Err(Error::bad_value("Cannot create roles with the same name as a built-in role"));
    }
    let mut directory = context.client.directory();
    check_inner(&mut directory, &name, &roles)?;
    let role = Role { name, privileges, roles, restrictions, builtin: false };
    if !directory.insert(ROLES, &document(&role))? {
        let name = &role.name;
        return Err(Error::new(Code(51002), format!("Role \"{name}\" already exists")));
    }
    Ok(())
}

fn update(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let name = own_role(context)?;
    let restrictions = restrictions(context)?;
    let privileges = privileges(context)?;
    let roles = match context.args.optional_array("roles")? {
        None => None,
        Some(roles) => Some(RoleName::parse_all(roles, context.db)?),
    };
    if privileges.is_none() && roles.is_none() && restrictions.is_none() {
        return Err(Error::bad_value("Must specify at least one field to update in updateRole"));
    }
    let mut directory = context.client.directory();
    let old = existing(&mut directory, &name)?;
    if let Some(roles) = &roles {
        check_inner(&mut directory, &name, roles)?;
    }
    let role = Role {
        privileges: privileges.unwrap_or(old.privileges),
        roles: roles.unwrap_or(old.roles),
        restrictions: restrictions.unwrap_or(old.restrictions),
        ..old
    };
    directory.replace(ROLES, &document(&role))?;
    Ok(())
}

/// Removes roles, and takes them from all who have them.
fn remove(directory: &mut Directory, names: &[RoleName]) -> Result<i64> {
    let change = change_of_roles(names, false);
    let everyone = DocBuf::build(|out| {
        out.doc("roles", |out| write_roles(out, "$in", names));
    });
    for collection in [USERS, ROLES] {
        directory.update(collection, everyone.as_doc(), change.as_doc())?;
    }
    let mut removed = 0;
    for name in names {
        removed += directory.remove(ROLES, id_filter(name).as_doc())?;
    }
    Ok(removed)
}

fn drop_role(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let name = own_role(context)?;
    let mut directory = context.client.directory();
    existing(&mut directory, &name)?;
    remove(&mut directory, &[name])?;
    Ok(())
}

fn drop_all(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let mut directory = context.client.directory();
    let names = own_roles(&mut directory, context.db)?;
    let removed = remove(&mut directory, &names)?;
    out.i32("n", i32::try_from(removed).unwrap_or(i32::MAX));
    Ok(())
}

/// The roles of a database that are not built in.
fn own_roles(directory: &mut Directory, db: &str) -> Result<Vec<RoleName>> {
    let filter = DocBuf::build(|out| {
        out.str("db", db);
    });
    let documents = directory.find(ROLES, filter.as_doc())?;
    let name = |doc: &DocBuf| doc.as_doc().get("role").and_then(Val::as_str).map(str::to_owned);
    Ok(documents.iter().filter_map(name).map(|role| RoleName::new(&role, db)).collect())
}

fn change_privileges(context: &mut Context<'_>, add: bool) -> Result<()> {
    let name = own_role(context)?;
    let changes = privileges(context)?.ok_or_else(|| context.args.missing("privileges"))?;
    if changes.is_empty() {
        return Err(Error::bad_value(format!(
            "{} command requires a non-empty \"privileges\" array",
            context.name
        )));
    }
    let mut directory = context.client.directory();
    let mut role = existing(&mut directory, &name)?;
    if add {
        let mut all = Privileges::default();
        role.privileges.iter().chain(&changes).for_each(|privilege| all.add(privilege));
        role.privileges = all.list();
    } else {
        for change in &changes {
            for privilege in &mut role.privileges {
                if privilege.resource == change.resource {
                    privilege.actions = privilege.actions.without(change.actions);
                }
            }
        }
        role.privileges.retain(|privilege| !privilege.actions.is_empty());
    }
    directory.replace(ROLES, &document(&role))?;
    Ok(())
}

fn change_roles(context: &mut Context<'_>, add: bool) -> Result<()> {
    let name = own_role(context)?;
    let mut directory = context.client.directory();
    existing(&mut directory, &name)?;
    let roles = named_roles(context)?;
    directory.check_roles(&roles)?;
    if add {
        check_inner(&mut directory, &name, &roles)?;
    }
    let change = change_of_roles(&roles, add);
    directory.update(ROLES, id_filter(&name).as_doc(), change.as_doc())?;
    Ok(())
}

/// How much `rolesInfo` tells of privileges.
#[derive(PartialEq)]
enum Shown {
    Nothing,
    Privileges,
    Fragment,
}

fn info(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let shown = match args.get("showPrivileges") {
        Some(Val::String("asUserFragment")) => Shown::Fragment,
        None => Shown::Nothing,
        Some(_) if args.bool("showPrivileges")? => Shown::Privileges,
        Some(_) => Shown::Nothing,
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
    if shown == Shown::Fragment {
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
        documents.push(describe(&role, &all, &shown, restrictions));
    }
    out.array("roles", |roles| {
        documents.iter().for_each(|role| roles.push(Val::Document(role.as_doc())));
    });
    Ok(())
}

fn describe(role: &Role, all: &Inherited, shown: &Shown, restrictions: bool) -> DocBuf {
    DocBuf::build(|out| {
        if !role.builtin {
            out.str("_id", &role.name.id());
        }
        role.name.write(out);
        if *shown == Shown::Privileges {
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
        if *shown == Shown::Privileges {
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

fn may_create(auth: &Authorization<'_>) -> bool {
    auth.on_database(&[Action::CreateRole])
        && auth.on_roles("roles", Action::GrantRole)
        && auth.on_privileges(Action::GrantRole)
        && auth.may_restrict()
}

fn may_update(auth: &Authorization<'_>) -> bool {
    auth.on_all_databases(Action::RevokeRole)
        && auth.on_roles("roles", Action::GrantRole)
        && auth.on_privileges(Action::GrantRole)
        && auth.may_restrict()
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
