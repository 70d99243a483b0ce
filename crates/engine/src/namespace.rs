//! Names of databases and collections, and the rules for valid names.
//!
//! Layer: base.

use std::fmt;
use value::{Code, Error, Result, limits};

/// A database and a collection in it.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub struct Namespace {
    /// The database.
    pub db: Box<str>,
    /// The collection.
    pub collection: Box<str>,
}

impl Namespace {
    /// A namespace, without checking the names.
    #[must_use]
    pub fn new(db: &str, collection: &str) -> Namespace {
        Namespace { db: db.into(), collection: collection.into() }
    }

    /// Splits `db.collection` at the first dot.
    ///
    /// # Errors
    /// InvalidNamespace when there is no dot or a half is not allowed.
    pub fn parse(text: &str) -> Result<Namespace> {
        let (db, collection) = text.split_once('.').unwrap_or((text, ""));
        check_database(db)?;
        check_collection(db, collection)?;
        Ok(Namespace::new(db, collection))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.db, self.collection)
    }
}

/// Checks a database name.
///
/// # Errors
/// InvalidNamespace.
pub fn check_database(name: &str) -> Result<()> {
    let bad = name.is_empty()
        || name.len() >= limits::DATABASE_NAME_BYTES_MAX
        || name.contains(['/', '\\', '.', ' ', '"', '$', '\0']);
    if bad {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            format!("Invalid database name: '{name}'"),
        ));
    }
    Ok(())
}

/// Checks the name of a collection that is read or written.
///
/// # Errors
/// InvalidNamespace.
pub fn check_collection(db: &str, name: &str) -> Result<()> {
    let bad = name.is_empty() || name.starts_with('.') || name.contains('\0');
    if bad {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            format!("Invalid namespace specified '{db}.{name}'"),
        ));
    }
    Ok(())
}

/// Checks the name of a collection that is about to be created.
///
/// # Errors
/// InvalidNamespace.
pub fn check_new_collection(db: &str, name: &str) -> Result<()> {
    check_collection(db, name)?;
    if is_oplog(db, name) {
        return Err(Error::new(Code::INVALID_NAMESPACE, "cannot write to local.oplog.rs"));
    }
    let reserved = name.starts_with("system.") && !is_allowed_system_name(db, name);
    if reserved {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            format!("Invalid system namespace: {db}.{name}"),
        ));
    }
    if name.contains('$') || name == "." {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            format!("Invalid collection name: {name}"),
        ));
    }
    if db.len() + 1 + name.len() > limits::NAMESPACE_BYTES_MAX {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            format!(
                "Fully qualified namespace is too long. Namespace: {db}.{name} Max: {}",
                limits::NAMESPACE_BYTES_MAX
            ),
        ));
    }
    Ok(())
}

fn is_allowed_system_name(db: &str, name: &str) -> bool {
    matches!(name, "system.views" | "system.js" | "system.profile" | "system.users")
        || (db == "admin" && matches!(name, "system.roles" | "system.version" | "system.keys"))
}

/// The end of the names of collections that are being moved to another database.
pub(crate) const MOVING: &str = ".renameCollection";

/// A name for a temporary collection, as MongoDB makes them: `tmp`, five random letters or digits,
/// and `rest`.
pub(crate) fn temporary(rest: &str) -> String {
    const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let random = value::random::u64();
    let letter = |at: u32| char::from(LETTERS[(random >> (5 * at)) as usize % LETTERS.len()]);
    let letters: String = (0..5).map(letter).collect();
    format!("tmp{letters}{rest}")
}

/// Refuses a collection that only the server writes.
///
/// # Errors
/// InvalidNamespace.
pub(crate) fn check_written(db: &str, name: &str) -> Result<()> {
    if matches!(name, "system.views" | "system.profile") {
        return Err(Error::new(Code::INVALID_NAMESPACE, format!("cannot write to {db}.{name}")));
    }
    if let Some(series) = name.strip_prefix("system.buckets.") {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            format!("cannot write to {db}.{name}: insert the points into '{series}'"),
        ));
    }
    Ok(())
}

/// Whether the namespace is that of the configuration of the replica set.
pub(crate) fn is_replica_set(db: &str, name: &str) -> bool {
    db == "local" && name == "system.replset"
}

/// Whether the namespace is that of a collection without stored documents of its own.
pub(crate) fn is_made_up(db: &str, name: &str) -> bool {
    is_oplog(db, name) || is_replica_set(db, name)
}

/// Whether the namespace is that of the oplog.
pub(crate) fn is_oplog(db: &str, name: &str) -> bool {
    db == "local" && name == "oplog.rs"
}
