//! The kind `extendedReference`: fields of a referenced document beside the reference.

use super::options::{Strategy, choice, common_options};
use bson::{Bson, Document, doc};

/// A pattern that shows fields of a referenced document beside the reference.
///
/// ```
/// # use motifdb::{Database, ExtendedReference, bson::doc};
/// # let db = Database::in_memory()?;
/// let orders = db.collection("orders");
/// let customer = ExtendedReference::new("customer", "customer._id", "customers", "customer")
///     .field("name");
/// orders.create_patterns([customer]).run()?;
///
/// db.collection("customers").insert_one(doc! {"_id": 7, "name": "Ada"}).run()?;
/// orders.insert_one(doc! {"_id": 1, "customer": {"_id": 7}}).run()?;
/// let order = orders.find_one(doc! {"_id": 1}).run()?;
/// assert_eq!(order, Some(doc! {"_id": 1, "customer": {"_id": 7, "name": "Ada"}}));
/// # Ok::<(), motifdb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a pattern is declared by `create_patterns`"]
pub struct ExtendedReference(pub(super) Document);

common_options!(ExtendedReference);

impl ExtendedReference {
    /// Fields of the document of `from` whose `_id` is in the field `reference`, shown in `into`.
    pub fn new(name: &str, reference: &str, from: &str, into: &str) -> ExtendedReference {
        ExtendedReference(doc! {
            "name": name,
            "kind": "extendedReference",
            "ref": reference,
            "from": from,
            "match": "_id",
            "fields": [],
            "into": into,
        })
    }

    /// Sets the field of the source that references name; `_id` unless set. It needs a unique
    /// index.
    pub fn match_by(self, field: &str) -> ExtendedReference {
        self.with("match", field)
    }

    /// Adds a field of the source.
    pub fn field(self, path: &str) -> ExtendedReference {
        self.push(path.into())
    }

    /// Adds a field that an expression derives from the source.
    pub fn field_as(self, path: &str, expression: impl Into<Bson>) -> ExtendedReference {
        self.push(doc! {"as": path, "expr": expression.into()}.into())
    }

    fn push(mut self, field: Bson) -> ExtendedReference {
        let mut fields = self.0.get_array("fields").cloned().unwrap_or_default();
        fields.push(field);
        self.0.insert("fields", fields);
        self
    }

    /// Sets whether copies follow their source.
    pub fn freshness(self, freshness: Freshness) -> ExtendedReference {
        self.with("freshness", freshness)
    }

    /// Sets whether the fields are stored.
    pub fn strategy(self, strategy: Strategy) -> ExtendedReference {
        self.with("strategy", strategy)
    }

    /// Sets what happens to a reference whose source does not exist.
    pub fn on_missing(self, what: OnMissing) -> ExtendedReference {
        self.with("onMissing", what)
    }

    /// Sets what happens when the source is deleted.
    pub fn on_source_delete(self, what: OnSourceDelete) -> ExtendedReference {
        self.with("onSourceDelete", what)
    }

    /// Sets how many followers one commit updates, and what happens beyond.
    pub fn fanout_limit(self, limit: u32, beyond: OverLimit) -> ExtendedReference {
        self.with("fanoutLimit", i64::from(limit)).with("overLimit", beyond)
    }
}

choice! {
    /// Whether copies follow their source.
    Freshness {
        /// They do.
        Live = "live",
        /// They stay as they were when the reference was set.
        Snapshot = "snapshot",
    }
}

choice! {
    /// What happens to a reference whose source does not exist.
    OnMissing {
        /// It has no copies.
        Allow = "allow",
        /// Its write fails.
        Reject = "reject",
    }
}

choice! {
    /// What happens to references when their source is deleted.
    OnSourceDelete {
        /// The copies stay.
        Keep = "keep",
        /// The copies are removed.
        Unset = "unset",
        /// The delete fails.
        Restrict = "restrict",
        /// The documents are deleted too; in an array only the element.
        Cascade = "cascade",
    }
}

choice! {
    /// What happens to a change of a source with very many followers.
    OverLimit {
        /// They are updated in the background.
        Async = "async",
        /// The write fails.
        Reject = "reject",
        /// They are updated in the background; readers get the fields from the source meanwhile.
        Pointer = "pointer",
    }
}
