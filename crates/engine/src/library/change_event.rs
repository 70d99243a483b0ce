//! The events of change streams as types.

use bson::{Bson, DateTime, Document, Timestamp};
use serde::{Deserialize, Serialize};

/// The place of an event in the log of changes. A stream can be resumed after it, also by another
/// process: it can be stored as a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResumeToken(Document);

impl ResumeToken {
    pub(super) fn new(token: Document) -> ResumeToken {
        ResumeToken(token)
    }
}

impl From<ResumeToken> for Bson {
    fn from(token: ResumeToken) -> Bson {
        Bson::Document(token.0)
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "String")]
#[non_exhaustive]
pub enum OperationType {
    /// A document was inserted.
    Insert,
    /// A document was changed by operators.
    Update,
    /// A document was replaced.
    Replace,
    /// A document was deleted.
    Delete,
    /// A collection was dropped.
    Drop,
    /// A collection was renamed.
    Rename,
    /// A database was dropped.
    DropDatabase,
    /// The stream ends, because what it watches was dropped or renamed.
    Invalidate,
    /// Another event, by its name; see [`Watch::show_expanded_events`](crate::Watch::show_expanded_events).
    Other(String),
}

impl From<String> for OperationType {
    fn from(name: String) -> OperationType {
        match name.as_str() {
            "insert" => OperationType::Insert,
            "update" => OperationType::Update,
            "replace" => OperationType::Replace,
            "delete" => OperationType::Delete,
            "drop" => OperationType::Drop,
            "rename" => OperationType::Rename,
            "dropDatabase" => OperationType::DropDatabase,
            "invalidate" => OperationType::Invalidate,
            _ => OperationType::Other(name),
        }
    }
}

/// A database, and a collection in it unless the event is about the whole database.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ChangeNamespace {
    /// The database.
    pub db: String,
    /// The collection.
    pub coll: Option<String>,
}

/// What an update changed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateDescription {
    /// The new values, by their paths.
    pub updated_fields: Document,
    /// The paths of removed fields.
    pub removed_fields: Vec<String>,
    /// The arrays that became shorter.
    pub truncated_arrays: Option<Vec<TruncatedArray>>,
}

/// An array that an update made shorter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TruncatedArray {
    /// The path of the array.
    pub field: String,
    /// Its new length.
    pub new_size: i32,
}

/// One event of a change stream on documents of type `T`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeStreamEvent<T> {
    /// The place in the log, from which a stream can be resumed.
    #[serde(rename = "_id")]
    pub id: ResumeToken,
    /// What happened.
    pub operation_type: OperationType,
    /// Where it happened.
    pub ns: Option<ChangeNamespace>,
    /// The new name of a renamed collection.
    pub to: Option<ChangeNamespace>,
    /// The `_id` of the document.
    pub document_key: Option<Document>,
    /// What an update changed.
    pub update_description: Option<UpdateDescription>,
    /// When the change was committed. All changes of a transaction have the same time.
    pub cluster_time: Option<Timestamp>,
    /// When the change was committed, by the clock of the machine.
    pub wall_time: Option<DateTime>,
    /// The document after the change: always of inserts and replacements, of updates as
    /// [`Watch::full_document`](crate::Watch::full_document) says.
    pub full_document: Option<T>,
    /// The document before the change, as
    /// [`Watch::full_document_before_change`](crate::Watch::full_document_before_change) says.
    pub full_document_before_change: Option<T>,
    /// The number of the transaction in its session.
    pub txn_number: Option<i64>,
    /// The session of the transaction.
    pub lsid: Option<Document>,
    /// True if a pattern with `changeEvents: "flagged"` wrote the document.
    pub pattern_update: Option<bool>,
}

/// Which document the events of updates carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FullDocumentType {
    /// The newest state at the time the event is read, if the document still exists.
    UpdateLookup,
    /// The state after the change, if the collection keeps images.
    WhenAvailable,
    /// The state after the change; the stream fails if there is none.
    Required,
}

impl FullDocumentType {
    pub(super) fn name(self) -> &'static str {
        match self {
            FullDocumentType::UpdateLookup => "updateLookup",
            FullDocumentType::WhenAvailable => "whenAvailable",
            FullDocumentType::Required => "required",
        }
    }
}

/// Whether events carry the document before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FullDocumentBeforeChangeType {
    /// Never.
    Off,
    /// If the collection keeps images.
    WhenAvailable,
    /// Always; the stream fails if there is none.
    Required,
}

impl FullDocumentBeforeChangeType {
    pub(super) fn name(self) -> &'static str {
        match self {
            FullDocumentBeforeChangeType::Off => "off",
            FullDocumentBeforeChangeType::WhenAvailable => "whenAvailable",
            FullDocumentBeforeChangeType::Required => "required",
        }
    }
}
