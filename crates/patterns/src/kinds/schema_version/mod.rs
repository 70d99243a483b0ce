//! The kind `schemaVersion`: two versions of a schema in one collection at once.
//!
//! The canonical form of a document is the latest version. A document that is stored in the version
//! before is converted by `up` whenever it is read, until the migration or a write stores it in the
//! latest version (`layout`). Clients of the version before see documents through `down`, and what
//! they write passes `up` (`shape`). A document on which `up` fails, or whose result fails the
//! validator, is quarantined: it is read as it is stored.
//!
//! While the pattern is being dropped the version before is canonical, and `down` converts back.

pub(crate) mod declaration;
mod forms;
mod kind;
mod layout;
mod losses;
mod merge;
mod shape;
mod stored;

use forms::Forms;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Two versions of the documents of a collection.
#[derive(Debug)]
pub struct SchemaVersion {
    /// How documents change from one version to the other.
    forms: Arc<Forms>,
    /// The versions of applications, by their names.
    clients: BTreeMap<String, i64>,
    /// The versions of users, by `database.name`.
    users: BTreeMap<String, i64>,
    /// Whether the version before is canonical, because the pattern is being dropped.
    back: bool,
}
