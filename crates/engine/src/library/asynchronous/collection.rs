//! A collection of typed documents, with all its operations.

use super::super::{
    Aggregate, ChangeStreamEvent, Collection as Blocking, CountDocuments, CreateIndex,
    CreatePatterns, Delete, Distinct, DropPatterns, Find, FindOne, FindOneAndDelete,
    FindOneAndUpdate, InsertMany, InsertOne, ModifyPattern, Pattern, PatternInfo, ResumePatterns,
    SuspendPatterns, Update, UpdateModifications, ValidatePatterns, Watch,
};
use super::action::blocking;
use super::cursor::Cursor;
use bson::Document;
use serde::Serialize;
use std::borrow::Borrow;
use std::fmt;
use value::Result;

/// A collection of documents of type `T`; made by
/// [`Database::collection`](super::Database::collection).
///
/// A handle that is cheap to clone and can be used by many tasks. The methods return builders;
/// awaiting them executes them.
pub struct Collection<T>(Blocking<T>);

impl<T> Collection<T> {
    pub(super) fn new(collection: Blocking<T>) -> Collection<T> {
        Collection(collection)
    }

    /// The collection's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The same collection with another type.
    #[must_use]
    pub fn clone_with_type<U>(&self) -> Collection<U> {
        Collection(self.0.clone_with_type())
    }

    /// The same collection with another write concern; see
    /// [`Collection::with_write_concern`](crate::Collection::with_write_concern).
    #[must_use]
    pub fn with_write_concern(self, write_concern: Document) -> Collection<T> {
        Collection(self.0.with_write_concern(write_concern))
    }

    /// Finds the documents that match a filter.
    pub fn find(&self, filter: Document) -> Find<T> {
        self.0.find(filter)
    }

    /// Finds one document.
    pub fn find_one(&self, filter: Document) -> FindOne<T> {
        self.0.find_one(filter)
    }

    /// Runs a pipeline over the collection.
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate {
        self.0.aggregate(pipeline)
    }

    /// Counts the documents that match a filter.
    pub fn count_documents(&self, filter: Document) -> CountDocuments {
        self.0.count_documents(filter)
    }

    /// The number of documents according to the collection's counters.
    ///
    /// # Errors
    /// When the name is not allowed.
    pub async fn estimated_document_count(&self) -> Result<u64> {
        let collection = self.untyped();
        blocking(move || collection.estimated_document_count()).await
    }

    /// Returns the distinct values of a field among the documents that match a filter.
    pub fn distinct(&self, field: &str, filter: Document) -> Distinct {
        self.0.distinct(field, filter)
    }

    /// Changes one document that matches.
    pub fn update_one(&self, filter: Document, update: impl Into<UpdateModifications>) -> Update {
        self.0.update_one(filter, update)
    }

    /// Changes all documents that match.
    pub fn update_many(&self, filter: Document, update: impl Into<UpdateModifications>) -> Update {
        self.0.update_many(filter, update)
    }

    /// Removes one document that matches.
    pub fn delete_one(&self, filter: Document) -> Delete {
        self.0.delete_one(filter)
    }

    /// Removes all documents that match.
    pub fn delete_many(&self, filter: Document) -> Delete {
        self.0.delete_many(filter)
    }

    /// Changes one document and returns it, as it was before or after the change.
    pub fn find_one_and_update(
        &self,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> FindOneAndUpdate<T> {
        self.0.find_one_and_update(filter, update)
    }

    /// Removes one document and returns it.
    pub fn find_one_and_delete(&self, filter: Document) -> FindOneAndDelete<T> {
        self.0.find_one_and_delete(filter)
    }

    /// Watches the changes of the collection.
    pub fn watch(&self) -> Watch<ChangeStreamEvent<T>> {
        self.0.watch()
    }

    /// Creates an index: `create_index(doc! {"email": 1}).unique(true).await?`.
    pub fn create_index(&self, keys: Document) -> CreateIndex {
        self.0.create_index(keys)
    }

    /// The indexes, as they were specified.
    ///
    /// # Errors
    /// NamespaceNotFound (26) when there is no such collection.
    pub async fn list_indexes(&self) -> Result<Cursor<Document>> {
        let collection = self.untyped();
        blocking(move || collection.list_indexes()).await.map(Cursor::new)
    }

    /// The names of the indexes.
    ///
    /// # Errors
    /// NamespaceNotFound (26) when there is no such collection.
    pub async fn list_index_names(&self) -> Result<Vec<String>> {
        let collection = self.untyped();
        blocking(move || collection.list_index_names()).await
    }

    /// Removes the index with this name.
    ///
    /// # Errors
    /// IndexNotFound (27); InvalidOptions (72) for the index of `_id`.
    pub async fn drop_index(&self, name: &str) -> Result<()> {
        let (collection, name) = (self.untyped(), name.to_owned());
        blocking(move || collection.drop_index(&name)).await
    }

    /// Removes all indexes but that of `_id`.
    ///
    /// # Errors
    /// NamespaceNotFound (26) when there is no such collection.
    pub async fn drop_indexes(&self) -> Result<()> {
        let collection = self.untyped();
        blocking(move || collection.drop_indexes()).await
    }

    /// Removes the collection with its documents and indexes. It is no error if it does not exist.
    ///
    /// # Errors
    /// When the name is not allowed or the disk fails.
    pub async fn drop(&self) -> Result<()> {
        let collection = self.untyped();
        blocking(move || collection.drop()).await
    }

    /// Declares patterns: values that the database maintains with every write.
    pub fn create_patterns(
        &self,
        patterns: impl IntoIterator<Item = impl Into<Pattern>>,
    ) -> CreatePatterns {
        self.0.create_patterns(patterns)
    }

    /// The patterns that are declared on the collection.
    ///
    /// # Errors
    /// When the name is not allowed.
    pub async fn list_patterns(&self) -> Result<Vec<PatternInfo>> {
        let collection = self.untyped();
        blocking(move || collection.list_patterns()).await
    }

    /// Changes options of a pattern.
    pub fn modify_pattern(&self, name: &str) -> ModifyPattern {
        self.0.modify_pattern(name)
    }

    /// Compares the values of the collection's patterns with a recomputation.
    pub fn validate_patterns(&self) -> ValidatePatterns {
        self.0.validate_patterns()
    }

    /// Removes patterns and their values.
    pub fn drop_patterns<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> DropPatterns {
        self.0.drop_patterns(names)
    }

    /// Stops the maintenance of patterns.
    pub fn suspend_patterns<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> SuspendPatterns {
        self.0.suspend_patterns(names)
    }

    /// Derives the values of suspended patterns again and maintains them.
    pub fn resume_patterns<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> ResumePatterns {
        self.0.resume_patterns(names)
    }

    /// The collection without its type, which may not be allowed on another thread.
    fn untyped(&self) -> Blocking<Document> {
        self.0.clone_with_type()
    }
}

impl<T: Serialize> Collection<T> {
    /// Inserts a document. Adds an `_id` if it has none.
    pub fn insert_one(&self, document: impl Borrow<T>) -> InsertOne {
        self.0.insert_one(document)
    }

    /// Inserts documents. Adds an `_id` to those that have none.
    pub fn insert_many(&self, documents: impl IntoIterator<Item = impl Borrow<T>>) -> InsertMany {
        self.0.insert_many(documents)
    }

    /// Replaces one document that matches. Its `_id` stays.
    pub fn replace_one(&self, filter: Document, document: impl Borrow<T>) -> Update {
        self.0.replace_one(filter, document)
    }

    /// Replaces one document and returns it, as it was before or after the change.
    pub fn find_one_and_replace(
        &self,
        filter: Document,
        document: impl Borrow<T>,
    ) -> FindOneAndUpdate<T> {
        self.0.find_one_and_replace(filter, document)
    }
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Collection<T> {
        self.clone_with_type()
    }
}

impl<T> fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
