//! The kind `computed`: values derived from other values.

use super::options::{Every, OnError, OnMissingParent, common_options};
use bson::{Bson, Document, doc};

/// A pattern that derives fields from other fields: of the same document, of the children of a
/// parent, or of groups in a collection of their own.
///
/// ```
/// # use motifdb::{Computed, Database, bson::doc};
/// # let db = Database::in_memory()?;
/// let products = db.collection("products");
/// let sales = Computed::over("sales", "orders", "product_id")
///     .filter(doc! {"status": {"$ne": "cancelled"}})
///     .field("revenue", doc! {"$sum": "$price"})
///     .field("orders", doc! {"$count": {}});
/// products.create_patterns([sales]).run()?;
///
/// products.insert_one(doc! {"_id": "tea"}).run()?;
/// db.collection("orders").insert_one(doc! {"product_id": "tea", "price": 450}).run()?;
/// let tea = products.find_one(doc! {"_id": "tea"}).run()?;
/// assert_eq!(tea, Some(doc! {"_id": "tea", "revenue": 450, "orders": 1}));
/// # Ok::<(), motifdb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a pattern is declared by `create_patterns`"]
pub struct Computed(pub(super) Document);

common_options!(Computed);

impl Computed {
    /// Fields of the same document: each is an expression.
    pub fn in_document(name: &str) -> Computed {
        Computed(doc! {"name": name, "kind": "computed"})
    }

    /// Fields of parents over their children: each is an accumulator of `$group`. The children are
    /// the documents of `from` whose field `foreign` is the parent's `_id`.
    pub fn over(name: &str, from: &str, foreign: &str) -> Computed {
        Computed::in_document(name).with("from", from).with("on", doc! {"foreign": foreign})
    }

    /// Groups of the documents, kept in the collection `into`: each field is an accumulator.
    pub fn groups(name: &str, into: &str, key: impl Into<Bson>) -> Computed {
        Computed::in_document(name).with("into", into).with("groupBy", key)
    }

    /// Sets the field of the parent that children refer to; `_id` unless set.
    pub fn local(mut self, local: &str) -> Computed {
        let on = self.0.get_document("on").cloned().unwrap_or_default();
        let mut whole = doc! {"local": local};
        whole.extend(on);
        self.0.insert("on", whole);
        self
    }

    /// Restricts the children, or the documents of groups.
    pub fn filter(self, filter: Document) -> Computed {
        self.with("filter", filter)
    }

    /// Adds a field: an expression, or an accumulator over children.
    pub fn field(mut self, path: &str, value: impl Into<Bson>) -> Computed {
        let mut fields = self.0.get_document("fields").cloned().unwrap_or_default();
        fields.insert(path, value);
        self.0.insert("fields", fields);
        self
    }

    /// Sets the order of the children, for accumulators such as `$first` and `$push`.
    pub fn order(self, order: Document) -> Computed {
        self.with("order", order)
    }

    /// Lets children count only while the date in `field` is not older than `last`.
    pub fn window(self, field: &str, last: Every) -> Computed {
        self.with("window", doc! {"field": field, "last": last.text()})
    }

    /// Sets what happens to a child whose parent does not exist.
    pub fn on_missing_parent(self, what: OnMissingParent) -> Computed {
        self.with("onMissingParent", what)
    }

    /// Sets what happens to documents on which an expression fails.
    pub fn on_error(self, what: OnError) -> Computed {
        self.with("onError", what)
    }
}
