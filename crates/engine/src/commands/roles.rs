//! Shared code of the commands about roles.

use super::Context;
use super::users::{change_of_roles, named_roles};
use crate::access::directory::{ROLES, Role, USERS, write_privileges, write_roles};
use crate::access::{Directory, RoleName};
use access::{Privilege, Privileges, Resource, Restrictions};
use value::{Code, DocBuf, Error, Result, Val};

/// The role in the command's first field, which must be user-defined.
pub(super) fn own_role(context: &Context<'_>) -> Result<RoleName> {
    let name = RoleName::new(context.args.string(context.name)?, context.db);
    if name.is_builtin() {
        return Err(Error::bad_value(format!("{name} is a built-in role and cannot be modified")));
    }
    Ok(name)
}

pub(super) fn existing(directory: &mut Directory, name: &RoleName) -> Result<Role> {
    directory.role(name)?.ok_or_else(|| name.not_found())
}

fn id_filter(name: &RoleName) -> DocBuf {
    DocBuf::build(|out| {
        out.str("_id", &name.id());
    })
}

/// Reads the privileges. A role of a database other than `admin` may only name its own database.
pub(super) fn privileges(context: &Context<'_>) -> Result<Option<Vec<Privilege>>> {
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

/// Checks the roles that a role inherits: they must exist, be accessible and not form a cycle.
pub(super) fn check_inner(
    directory: &mut Directory,
    name: &RoleName,
    roles: &[RoleName],
) -> Result<()> {
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

pub(super) fn restrictions(context: &Context<'_>) -> Result<Option<Restrictions>> {
    let list = context.args.optional_array("authenticationRestrictions")?;
    let place = format!("{}.authenticationRestrictions", context.args.place);
    list.map(|list| Restrictions::parse(list, &place)).transpose()
}

pub(super) fn document(role: &Role) -> DocBuf {
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

/// Removes roles, and revokes them from all users and roles that have them.
pub(super) fn remove(directory: &mut Directory, names: &[RoleName]) -> Result<i64> {
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

/// The user-defined roles of a database.
pub(super) fn own_roles(directory: &mut Directory, db: &str) -> Result<Vec<RoleName>> {
    let filter = DocBuf::build(|out| {
        out.str("db", db);
    });
    let documents = directory.find(ROLES, filter.as_doc())?;
    let name = |doc: &DocBuf| doc.as_doc().get("role").and_then(Val::as_str).map(str::to_owned);
    Ok(documents.iter().filter_map(name).map(|role| RoleName::new(&role, db)).collect())
}

pub(super) fn change_privileges(context: &mut Context<'_>, add: bool) -> Result<()> {
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

pub(super) fn change_roles(context: &mut Context<'_>, add: bool) -> Result<()> {
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
