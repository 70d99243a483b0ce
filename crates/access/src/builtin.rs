//! The roles that every server has. What they allow is a table of facts, `builtin_roles.txt`.

use crate::action::{Action, Actions};
use crate::privilege::Privilege;
use crate::resource::Resource;
use std::sync::LazyLock;

/// A built-in role.
#[derive(Debug)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Whether only the database `admin` has it.
    pub admin_only: bool,
    grants: Vec<(&'static str, Actions)>,
}

impl Builtin {
    /// What the role allows when it belongs to this database.
    #[must_use]
    pub fn privileges(&self, db: &str) -> Vec<Privilege> {
        let resource = |place: &str| match place.split_once('/') {
            None if place == "cluster" => Resource::Cluster,
            None if place == "buckets" => Resource::Buckets(None, None),
            None => Resource::Anything,
            Some(("*", "*")) => Resource::AnyCollection,
            Some(("*", name)) => Resource::Named(name.into()),
            Some((of, name)) => {
                let of = if of == "@" { db } else { of };
                if name == "*" {
                    Resource::Database(of.into())
                } else {
                    Resource::Exact(of.into(), name.into())
                }
            }
        };
        let grants = self.grants.iter();
        grants
            .map(|(place, actions)| Privilege { resource: resource(place), actions: *actions })
            .collect()
    }
}

static ROLES: LazyLock<Vec<Builtin>> = LazyLock::new(|| parse(include_str!("builtin_roles.txt")));

/// All built-in roles.
#[must_use]
pub fn all() -> &'static [Builtin] {
    &ROLES
}

/// The built-in role of this name in a database.
#[must_use]
pub fn find(db: &str, name: &str) -> Option<&'static Builtin> {
    ROLES.iter().find(|role| role.name == name && (db == "admin" || !role.admin_only))
}

fn parse(table: &'static str) -> Vec<Builtin> {
    let mut roles: Vec<Builtin> = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let text = line.trim();
        if let Some(name) = text.strip_prefix("role ") {
            roles.push(Builtin { name, admin_only: false, grants: Vec::new() });
        } else if let Some(name) = text.strip_prefix("admin role ") {
            roles.push(Builtin { name, admin_only: true, grants: Vec::new() });
        } else if let Some(role) = roles.last_mut() {
            if let Some(place) = text.strip_suffix(':') {
                role.grants.push((place, Actions::default()));
            } else if let Some((_, actions)) = role.grants.last_mut() {
                text.split_whitespace()
                    .filter_map(Action::named)
                    .for_each(|action| actions.add(action));
            }
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privilege::Privileges;

    #[test]
    fn every_word_of_the_table_is_known() {
        for word in include_str!("builtin_roles.txt")
            .lines()
            .filter(|line| line.starts_with("    "))
            .flat_map(str::split_whitespace)
        {
            assert!(Action::named(word).is_some(), "{word}");
        }
        assert_eq!(all().len(), 20);
    }

    #[test]
    fn a_role_belongs_to_its_database() {
        let role = find("shop", "read").expect("every database has it");
        let mut all = Privileges::default();
        role.privileges("shop").iter().for_each(|privilege| all.add(privilege));
        let find_action = Actions::of(&[Action::Find]);
        assert!(all.on_collection("shop", "x").contains(find_action));
        assert!(!all.on_collection("shop", "system.profile").contains(find_action));
        assert!(!all.on_collection("other", "x").contains(find_action));
        assert!(find("shop", "root").is_none() && find("admin", "root").is_some());
    }

    #[test]
    fn root_reads_and_writes_everywhere_but_the_system() {
        let mut all = Privileges::default();
        let root = find("admin", "root").expect("there");
        root.privileges("admin").iter().for_each(|privilege| all.add(privilege));
        let write = Actions::of(&[Action::Insert, Action::Update, Action::Remove, Action::Find]);
        assert!(all.on_collection("shop", "x").contains(write));
        assert!(all.on_collection("local", "x").contains(write));
        assert!(!all.on_collection("admin", "system.roles").contains(write));
    }
}
