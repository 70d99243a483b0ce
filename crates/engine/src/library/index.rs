//! `create_index`.

use super::link::Link;
use super::session::ClientSession;
use bson::{Bson, Document};
use std::time::Duration;
use value::Result;

/// An index to create; made by [`Collection::create_index`](crate::Collection::create_index).
#[must_use = "nothing happens until `run` is called"]
pub struct CreateIndex {
    link: Link,
    command: Document,
    index: Document,
}

impl CreateIndex {
    pub(super) fn new(link: Link, command: Document, keys: Document) -> CreateIndex {
        let mut index = Document::new();
        index.insert("name", default_name(&keys));
        index.insert("key", keys);
        CreateIndex { link, command, index }
    }

    /// Sets its name. The default is made from the keys, such as `age_1_name_-1`.
    pub fn name(self, name: &str) -> CreateIndex {
        self.with("name", name)
    }

    /// Sets whether the index refuses two documents with the same keys.
    pub fn unique(self, unique: bool) -> CreateIndex {
        self.with("unique", unique)
    }

    /// Sets whether the index omits documents without the fields.
    pub fn sparse(self, sparse: bool) -> CreateIndex {
        self.with("sparse", sparse)
    }

    /// Restricts the index to documents that match this filter.
    pub fn partial_filter_expression(self, filter: Document) -> CreateIndex {
        self.with("partialFilterExpression", filter)
    }

    /// Sets the time after the date in the field at which documents are removed.
    pub fn expire_after(self, time: Duration) -> CreateIndex {
        let seconds = i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
        self.with("expireAfterSeconds", seconds)
    }

    /// Sets whether the index is maintained but not used by queries.
    pub fn hidden(self, hidden: bool) -> CreateIndex {
        self.with("hidden", hidden)
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(mut self, session: &mut ClientSession) -> CreateIndex {
        self.link = session.join(self.link);
        self
    }

    fn with(mut self, name: &str, value: impl Into<Bson>) -> CreateIndex {
        self.index.insert(name, value);
        self
    }

    /// Creates the index, unless the same one exists, and the collection if needed. Returns the
    /// index's name.
    ///
    /// # Errors
    /// When the keys are invalid, another index has the name, or existing documents violate its
    /// uniqueness (11000).
    pub fn run(self) -> Result<String> {
        let name = self.index.get_str("name").unwrap_or_default().to_owned();
        let mut command = self.command;
        command.insert("indexes", vec![self.index]);
        self.link.run(command)?;
        Ok(name)
    }
}

/// The default name that drivers use: fields and directions, joined by underscores.
fn default_name(keys: &Document) -> String {
    let parts = keys.iter().map(|(field, kind)| match kind {
        Bson::Int32(direction) => format!("{field}_{direction}"),
        Bson::Int64(direction) => format!("{field}_{direction}"),
        Bson::Double(direction) => format!("{field}_{direction}"),
        Bson::String(kind) => format!("{field}_{kind}"),
        // No other type is a kind of index; the engine reports the error.
        other => format!("{field}_{other}"),
    });
    parts.collect::<Vec<String>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::default_name;
    use bson::doc;

    #[test]
    fn names_are_those_that_drivers_give() {
        assert_eq!(default_name(&doc! {"a": 1}), "a_1");
        assert_eq!(default_name(&doc! {"a.b": 1_i64, "c": -1.0}), "a.b_1_c_-1");
        assert_eq!(default_name(&doc! {"place": "2dsphere"}), "place_2dsphere");
    }
}
