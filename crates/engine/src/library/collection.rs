//! A collection of typed documents, with all its operations.

use super::aggregate::{Aggregate, CountDocuments, Distinct};
use super::change_event::ChangeStreamEvent;
use super::convert::count_of;
use super::cursor::Cursor;
use super::delete::Delete;
use super::failure;
use super::find::{Find, FindOne};
use super::find_and_modify::{FindOneAndDelete, FindOneAndUpdate};
use super::index::CreateIndex;
use super::insert::{InsertMany, InsertOne};
use super::link::Link;
use super::patterns::{
    CreatePatterns, DropPatterns, ModifyPattern, Pattern, PatternInfo, ResumePatterns,
    SuspendPatterns, ValidatePatterns,
};
use super::update::{Update, UpdateModifications, replacement};
use super::watch::Watch;
use bson::{Document, doc};
use serde::Serialize;
use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use value::{Code, Result};

/// A collection of documents of type `T`.
///
/// A handle that is cheap to clone and can be shared between threads. The collection is created
/// with its first document. `T` is any serde type that serialises to a document, or [`Document`]
/// itself. The methods return builders; `run` executes them.
pub struct Collection<T = Document> {
    link: Link,
    name: Arc<str>,
    write_concern: Option<Document>,
    holds: PhantomData<fn() -> T>,
}

impl<T> Collection<T> {
    pub(super) fn new(link: Link, name: &str) -> Collection<T> {
        Collection { link, name: name.into(), write_concern: None, holds: PhantomData }
    }

    /// The collection's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same collection with another type, for example for projections that return smaller
    /// documents.
    #[must_use]
    pub fn clone_with_type<U>(&self) -> Collection<U> {
        Collection {
            link: self.link.clone(),
            name: self.name.clone(),
            write_concern: self.write_concern.clone(),
            holds: PhantomData,
        }
    }

    /// The same collection with another write concern. By default a write returns when it is
    /// durable; with `doc! {"j": false}` writes return earlier, and the last ones may be lost when
    /// the machine or the process fails.
    #[must_use]
    pub fn with_write_concern(mut self, write_concern: Document) -> Collection<T> {
        self.write_concern = Some(write_concern);
        self
    }

    /// Finds the documents that match a filter.
    pub fn find(&self, filter: Document) -> Find<T> {
        Find::new(self.link.clone(), self.command("find"), filter)
    }

    /// Finds one document.
    pub fn find_one(&self, filter: Document) -> FindOne<T> {
        FindOne::new(self.link.clone(), self.command("find"), filter)
    }

    /// Runs a pipeline over the collection. The result is a cursor of [`Document`]s, or of another
    /// type by [`Aggregate::with_type`].
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate {
        Aggregate::new(self.link.clone(), self.command("aggregate"), pipeline)
    }

    /// Counts the documents that match a filter.
    pub fn count_documents(&self, filter: Document) -> CountDocuments {
        CountDocuments::new(self.link.clone(), self.command("aggregate"), filter)
    }

    /// The number of documents according to the collection's counters, without reading documents.
    ///
    /// # Errors
    /// When the name is not allowed.
    pub fn estimated_document_count(&self) -> Result<u64> {
        let reply = self.link.run(self.command("count"))?;
        Ok(count_of(reply.as_doc(), "n"))
    }

    /// Returns the distinct values of a field among the documents that match a filter.
    pub fn distinct(&self, field: &str, filter: Document) -> Distinct {
        Distinct::new(self.link.clone(), self.command("distinct"), field, filter)
    }

    /// Changes one document that matches.
    pub fn update_one(&self, filter: Document, update: impl Into<UpdateModifications>) -> Update {
        self.update(filter, update.into(), false)
    }

    /// Changes all documents that match.
    pub fn update_many(&self, filter: Document, update: impl Into<UpdateModifications>) -> Update {
        self.update(filter, update.into(), true)
    }

    fn update(&self, filter: Document, update: UpdateModifications, many: bool) -> Update {
        let command = self.write_command("update");
        Update::new(self.link.clone(), command, filter, update.into_bson(), many)
    }

    /// Removes one document that matches.
    pub fn delete_one(&self, filter: Document) -> Delete {
        Delete::new(self.link.clone(), self.write_command("delete"), filter, false)
    }

    /// Removes all documents that match.
    pub fn delete_many(&self, filter: Document) -> Delete {
        Delete::new(self.link.clone(), self.write_command("delete"), filter, true)
    }

    /// Changes one document and returns it, as it was before or after the change.
    pub fn find_one_and_update(
        &self,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> FindOneAndUpdate<T> {
        let command = self.write_command("findAndModify");
        FindOneAndUpdate::new(self.link.clone(), command, filter, update.into().into_bson())
    }

    /// Removes one document and returns it.
    pub fn find_one_and_delete(&self, filter: Document) -> FindOneAndDelete<T> {
        FindOneAndDelete::new(self.link.clone(), self.write_command("findAndModify"), filter)
    }

    /// Watches the changes of the collection. The stream begins now, unless it is told otherwise.
    pub fn watch(&self) -> Watch<ChangeStreamEvent<T>> {
        Watch::new(self.link.clone(), (*self.name).into(), Document::new())
    }

    /// Declares patterns: values that the database maintains with every write. All of one kind can
    /// be given as they are, others as [`Pattern`]s.
    ///
    /// ```
    /// # use motifdb::{Computed, Database, Pattern, Subset, bson::doc};
    /// # let db = Database::in_memory()?;
    /// let products = db.collection::<motifdb::bson::Document>("products");
    /// let count = Computed::over("count", "orders", "product").field("orders", doc! {"$count": {}});
    /// let last = Subset::new("last", "orders", "product", "last", doc! {"at": -1}, 3);
    /// products.create_patterns([Pattern::from(count), last.into()]).run()?;
    /// assert_eq!(products.list_patterns()?.len(), 2);
    /// # Ok::<(), motifdb::Error>(())
    /// ```
    pub fn create_patterns(
        &self,
        patterns: impl IntoIterator<Item = impl Into<Pattern>>,
    ) -> CreatePatterns {
        CreatePatterns::new(self.link.clone(), self.write_command("createPatterns"), patterns)
    }

    /// The patterns that are declared on the collection.
    ///
    /// # Errors
    /// When the name is not allowed.
    pub fn list_patterns(&self) -> Result<Vec<PatternInfo>> {
        PatternInfo::list(&self.link, &*self.name)
    }

    /// Changes options of a pattern: `modify_pattern("best").set("limit", 10).run()?`.
    pub fn modify_pattern(&self, name: &str) -> ModifyPattern {
        let mut command = self.write_command("modifyPattern");
        command.insert("name", name);
        ModifyPattern::new(self.link.clone(), command)
    }

    /// Compares the values of the collection's patterns with a recomputation.
    pub fn validate_patterns(&self) -> ValidatePatterns {
        ValidatePatterns::new(self.link.clone(), self.command("validatePatterns"))
    }

    /// Removes patterns and their values.
    pub fn drop_patterns<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> DropPatterns {
        DropPatterns::new(self.link.clone(), self.about_patterns("dropPatterns", names))
    }

    /// Stops the maintenance of patterns, for example for a large load.
    pub fn suspend_patterns<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> SuspendPatterns {
        SuspendPatterns::new(self.link.clone(), self.about_patterns("suspendPatterns", names))
    }

    /// Derives the values of suspended patterns again and maintains them.
    pub fn resume_patterns<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> ResumePatterns {
        ResumePatterns::new(self.link.clone(), self.about_patterns("resumePatterns", names))
    }

    fn about_patterns<'a>(&self, verb: &str, names: impl IntoIterator<Item = &'a str>) -> Document {
        let mut command = self.write_command(verb);
        command.insert("names", names.into_iter().map(str::to_owned).collect::<Vec<String>>());
        command
    }

    /// Creates an index: `create_index(doc! {"email": 1}).unique(true).run()?`.
    pub fn create_index(&self, keys: Document) -> CreateIndex {
        CreateIndex::new(self.link.clone(), self.write_command("createIndexes"), keys)
    }

    /// The indexes, as they were specified.
    ///
    /// # Errors
    /// NamespaceNotFound (26) when there is no such collection.
    pub fn list_indexes(&self) -> Result<Cursor<Document>> {
        Cursor::open(self.link.clone(), self.command("listIndexes"), None)
    }

    /// The names of the indexes.
    ///
    /// # Errors
    /// NamespaceNotFound (26) when there is no such collection.
    pub fn list_index_names(&self) -> Result<Vec<String>> {
        super::database::names(self.list_indexes()?)
    }

    /// Removes the index with this name.
    ///
    /// # Errors
    /// IndexNotFound (27); InvalidOptions (72) for the index of `_id`.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        let mut command = self.write_command("dropIndexes");
        command.insert("index", name);
        self.link.run(command).map(drop)
    }

    /// Removes all indexes but that of `_id`.
    ///
    /// # Errors
    /// NamespaceNotFound (26) when there is no such collection.
    pub fn drop_indexes(&self) -> Result<()> {
        self.drop_index("*")
    }

    /// Removes the collection with its documents and indexes. It is no error if it does not exist.
    ///
    /// # Errors
    /// When the name is not allowed or the disk fails.
    pub fn drop(&self) -> Result<()> {
        match self.link.run(self.write_command("drop")) {
            Ok(reply) => failure::check(reply.as_doc()).map(drop),
            Err(error) if error.code() == Code::NAMESPACE_NOT_FOUND => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn command(&self, verb: &str) -> Document {
        doc! {verb: &*self.name}
    }

    fn write_command(&self, verb: &str) -> Document {
        let mut command = self.command(verb);
        if let Some(write_concern) = &self.write_concern {
            command.insert("writeConcern", write_concern.clone());
        }
        command
    }
}

impl<T: Serialize> Collection<T> {
    /// Inserts a document. Adds an `_id` if it has none.
    pub fn insert_one(&self, document: impl Borrow<T>) -> InsertOne {
        InsertOne::new(self.link.clone(), self.write_command("insert"), document.borrow())
    }

    /// Inserts documents. Adds an `_id` to those that have none. One call with many documents is
    /// much faster than single inserts, because they share one flush to disk.
    pub fn insert_many(&self, documents: impl IntoIterator<Item = impl Borrow<T>>) -> InsertMany {
        InsertMany::new::<T>(self.link.clone(), self.write_command("insert"), documents)
    }

    /// Replaces one document that matches. Its `_id` stays.
    pub fn replace_one(&self, filter: Document, document: impl Borrow<T>) -> Update {
        let command = self.write_command("update");
        let document = replacement(document.borrow());
        Update::new(self.link.clone(), command, filter, document, false)
    }

    /// Replaces one document and returns it, as it was before or after the change.
    pub fn find_one_and_replace(
        &self,
        filter: Document,
        document: impl Borrow<T>,
    ) -> FindOneAndUpdate<T> {
        let command = self.write_command("findAndModify");
        FindOneAndUpdate::new(self.link.clone(), command, filter, replacement(document.borrow()))
    }
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Collection<T> {
        self.clone_with_type()
    }
}

impl<T> fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection")
            .field("database", &self.link.db())
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
