//! The kind `subset`: the first few children of a parent, stored in the parent.

use super::options::{Every, common_options};
use bson::{Document, doc};

/// A pattern that stores the first few children of a parent, in some order, in the parent.
///
/// ```
/// # use motifdb::{Database, Subset, bson::doc};
/// # let db = Database::in_memory()?;
/// let products = db.collection("products");
/// let best = Subset::new("best", "reviews", "product_id", "best", doc! {"stars": -1}, 2)
///     .fields(["stars"])
///     .count("reviews");
/// products.create_patterns([best]).run()?;
///
/// products.insert_one(doc! {"_id": "tea"}).run()?;
/// let reviews = (1..=3).map(|n| doc! {"_id": n, "product_id": "tea", "stars": n});
/// db.collection("reviews").insert_many(reviews).run()?;
/// let tea = products.find_one(doc! {"_id": "tea"}).run()?.expect("it is there");
/// assert_eq!(tea.get_array("best").expect("a list").len(), 2);
/// assert_eq!(tea.get("reviews"), Some(&3.into()));
/// # Ok::<(), motifdb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a pattern is declared by `create_patterns`"]
pub struct Subset(pub(super) Document);

common_options!(Subset);

impl Subset {
    /// The first `limit` documents of `from` in the order of `sort`, whose field `foreign` is the
    /// parent's `_id`, stored in the array `into`.
    pub fn new(
        name: &str,
        from: &str,
        foreign: &str,
        into: &str,
        sort: Document,
        limit: u32,
    ) -> Subset {
        Subset(doc! {
            "name": name,
            "kind": "subset",
            "into": into,
            "from": from,
            "on": {"local": "_id", "foreign": foreign},
            "sort": sort,
            "limit": i64::from(limit),
        })
    }

    /// Sets the field of the parent that children refer to; `_id` unless set.
    pub fn local(mut self, local: &str) -> Subset {
        if let Ok(on) = self.0.get_document_mut("on") {
            on.insert("local", local);
        }
        self
    }

    /// Restricts the children.
    pub fn filter(self, filter: Document) -> Subset {
        self.with("filter", filter)
    }

    /// Sets the fields of the children that are stored.
    pub fn fields<'a>(self, fields: impl IntoIterator<Item = &'a str>) -> Subset {
        self.with("fields", fields.into_iter().map(str::to_owned).collect::<Vec<String>>())
    }

    /// Sets the name under which the `_id` of a child is stored.
    pub fn id_as(self, name: &str) -> Subset {
        self.with("idAs", name)
    }

    /// Sets the field of the parent for the number of all its children.
    pub fn count(self, path: &str) -> Subset {
        self.with("count", path)
    }

    /// Lets children count only while the date in `field` is not older than `last`.
    pub fn window(self, field: &str, last: Every) -> Subset {
        self.with("window", doc! {"field": field, "last": last.text()})
    }
}
