//! A database and its collections.

use super::super::{
    Aggregate, ChangeStreamEvent, ClientSession, CreateCollection, Database as Blocking,
    PatternInfo, Watch,
};
use super::action::blocking;
use super::collection::Collection;
use bson::Document;
use value::Result;

/// A database; made by [`Client::database`](super::Client::database).
///
/// A handle that is cheap to clone and can be used by many tasks.
#[derive(Clone, Debug)]
pub struct Database(Blocking);

impl Database {
    pub(super) fn new(database: Blocking) -> Database {
        Database(database)
    }

    /// The database's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// A collection whose documents have the type `T`.
    #[must_use]
    pub fn collection<T>(&self, name: &str) -> Collection<T> {
        Collection::new(self.0.collection(name))
    }

    /// Creates a collection with options, or a view.
    pub fn create_collection(&self, name: &str) -> CreateCollection {
        self.0.create_collection(name)
    }

    /// The names of the collections and views.
    ///
    /// # Errors
    /// When the database's name is not allowed.
    pub async fn list_collection_names(&self) -> Result<Vec<String>> {
        let database = self.0.clone();
        blocking(move || database.list_collection_names()).await
    }

    /// Runs a pipeline that does not start from a collection.
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate {
        self.0.aggregate(pipeline)
    }

    /// Runs any command; see [`Database::run_command`](crate::Database::run_command).
    ///
    /// # Errors
    /// When the command fails.
    pub async fn run_command(&self, command: Document) -> Result<Document> {
        let database = self.0.clone();
        blocking(move || database.run_command(command)).await
    }

    /// As [`run_command`](Database::run_command), in a session.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn run_command_in(
        &self,
        session: &mut ClientSession,
        command: Document,
    ) -> Result<Document> {
        let database = self.0.inside(session);
        blocking(move || database.run_command(command)).await
    }

    /// Watches the changes of all collections of the database.
    pub fn watch(&self) -> Watch<ChangeStreamEvent<Document>> {
        self.0.watch()
    }

    /// The patterns that are declared on the collections of the database.
    ///
    /// # Errors
    /// When the database's name is not allowed.
    pub async fn list_patterns(&self) -> Result<Vec<PatternInfo>> {
        let database = self.0.clone();
        blocking(move || database.list_patterns()).await
    }

    /// Removes the database with all its collections. It is no error if it does not exist.
    ///
    /// # Errors
    /// When the name is not allowed or the disk fails.
    pub async fn drop(&self) -> Result<()> {
        let database = self.0.clone();
        blocking(move || database.drop()).await
    }
}
