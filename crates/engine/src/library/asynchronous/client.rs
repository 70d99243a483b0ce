//! A folder of databases.

use super::super::change_event::ChangeStreamEvent;
use super::super::{Builder, Database as Blocking, StartSession, Watch};
use super::action::blocking;
use super::database::Database;
use bson::Document;
use std::path::Path;
use value::Result;

/// An open folder of databases, or databases in memory.
///
/// A handle that is cheap to clone and can be used by many tasks.
#[derive(Clone, Debug)]
pub struct Client(Blocking);

impl Client {
    /// Opens a folder, which is created if it is missing.
    ///
    /// # Errors
    /// When the folder is in use by another process, cannot be written, or is damaged.
    pub async fn open(folder: impl AsRef<Path>) -> Result<Client> {
        Client::open_with(Blocking::builder(), folder).await
    }

    /// Opens a folder with options, made by [`Database::builder`](crate::Database::builder).
    ///
    /// # Errors
    /// When the folder is in use by another process, cannot be written, or is damaged.
    pub async fn open_with(options: Builder, folder: impl AsRef<Path>) -> Result<Client> {
        let folder = folder.as_ref().to_owned();
        blocking(move || options.open(folder)).await.map(Client)
    }

    /// Opens empty databases in memory. Their data is lost when they are closed.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub async fn in_memory() -> Result<Client> {
        blocking(Blocking::in_memory).await.map(Client)
    }

    /// A database. It is created with its first document.
    #[must_use]
    pub fn database(&self, name: &str) -> Database {
        Database::new(self.0.with_name(name))
    }

    /// The database that the options name; `test` unless they do.
    #[must_use]
    pub fn default_database(&self) -> Database {
        Database::new(self.0.clone())
    }

    /// The names of the databases.
    ///
    /// # Errors
    /// When the folder is closed.
    pub async fn list_database_names(&self) -> Result<Vec<String>> {
        let databases = self.0.clone();
        blocking(move || databases.list_database_names()).await
    }

    /// Starts a session: the frame of transactions.
    pub fn start_session(&self) -> StartSession {
        self.0.start_session()
    }

    /// Watches the changes of all databases.
    pub fn watch(&self) -> Watch<ChangeStreamEvent<Document>> {
        self.0.watch_all()
    }

    /// The handle for the blocking library.
    #[must_use]
    pub fn blocking(&self) -> &Blocking {
        &self.0
    }

    /// Closes the folder for all handles; see [`Database::close`](crate::Database::close).
    ///
    /// # Errors
    /// When the last writes cannot reach the disk.
    pub async fn shutdown(self) -> Result<()> {
        blocking(move || self.0.close()).await
    }
}
