//! Opening a database, and operations on all its collections.

use super::aggregate::Aggregate;
use super::change_event::ChangeStreamEvent;
use super::collection::Collection;
use super::convert::from_bytes;
use super::cursor::Cursor;
use super::link::Link;
use super::patterns::PatternInfo;
use super::session::{ClientSession, StartSession};
use super::watch::Watch;
use crate::engine::{Options, Storage};
use bson::{Bson, Document, doc};
use std::fmt;
use std::path::Path;
use value::{Result, Val};

/// The default name of a database.
const DEFAULT_NAME: &str = "test";

/// A database in this process: a folder, or memory.
///
/// A handle that is cheap to clone and can be shared between threads. A handle refers to one
/// database by name; a folder can hold several ([`Database::with_name`]). The folder is closed by
/// [`Database::close`], or when the last of its handles, collections and cursors is dropped.
#[derive(Clone)]
pub struct Database {
    link: Link,
}

impl Database {
    /// Opens the database in a folder, which is created if it is missing.
    ///
    /// # Errors
    /// When the folder is in use by another process, cannot be written, or is damaged.
    pub fn open(folder: impl AsRef<Path>) -> Result<Database> {
        Database::builder().open(folder)
    }

    /// Opens an empty database in memory. Its data is lost when it is closed.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn in_memory() -> Result<Database> {
        Database::builder().in_memory()
    }

    /// Opens with options: `Database::builder().cache_bytes(1 << 30).open("data")?`.
    pub fn builder() -> Builder {
        Builder { options: Options::default(), name: DEFAULT_NAME.to_owned() }
    }

    /// The database's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.link.db()
    }

    /// Another database in the same folder. It is created with its first document.
    #[must_use]
    pub fn with_name(&self, name: &str) -> Database {
        Database { link: self.link.with_db(name) }
    }

    /// A collection whose documents have the type `T`.
    #[must_use]
    pub fn collection<T>(&self, name: &str) -> Collection<T> {
        Collection::new(self.link.clone(), name)
    }

    /// Creates a collection with options, or a view. Collections without options are created by
    /// their first document.
    pub fn create_collection(&self, name: &str) -> CreateCollection {
        CreateCollection { link: self.link.clone(), command: doc! {"create": name} }
    }

    /// The names of the collections and views.
    ///
    /// # Errors
    /// When the database's name is not allowed.
    pub fn list_collection_names(&self) -> Result<Vec<String>> {
        let command = doc! {"listCollections": 1, "nameOnly": true, "cursor": {}};
        names(Cursor::open(self.link.clone(), command, None)?)
    }

    /// The names of the databases in the folder.
    ///
    /// # Errors
    /// When the database is closed.
    pub fn list_database_names(&self) -> Result<Vec<String>> {
        let reply = self.link.with_db("admin").run(doc! {"listDatabases": 1, "nameOnly": true})?;
        let list = reply.as_doc().get("databases").and_then(Val::as_array);
        let entries = list.into_iter().flatten().filter_map(|(_, entry)| entry.as_doc());
        let name = |entry: value::RawDoc<'_>| Some(entry.get("name")?.as_str()?.to_owned());
        Ok(entries.filter_map(name).collect())
    }

    /// Runs a pipeline that does not start from a collection.
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate {
        Aggregate::new(self.link.clone(), doc! {"aggregate": 1}, pipeline)
    }

    /// Watches the changes of all collections of the database.
    pub fn watch(&self) -> Watch<ChangeStreamEvent<Document>> {
        Watch::new(self.link.clone(), 1.into(), Document::new())
    }

    /// Watches the changes of all databases of the folder.
    pub fn watch_all(&self) -> Watch<ChangeStreamEvent<Document>> {
        Watch::new(self.link.with_db("admin"), 1.into(), doc! {"allChangesForCluster": true})
    }

    /// The patterns that are declared on the collections of the database.
    ///
    /// # Errors
    /// When the database's name is not allowed.
    pub fn list_patterns(&self) -> Result<Vec<PatternInfo>> {
        PatternInfo::list(&self.link, 1)
    }

    /// Starts a session: the frame of transactions.
    ///
    /// ```
    /// # use motifdb::{Database, bson::doc};
    /// let db = Database::in_memory()?;
    /// let accounts = db.collection("accounts");
    /// accounts.insert_many([doc! {"_id": "Ada", "cents": 500}, doc! {"_id": "Max"}]).run()?;
    ///
    /// let mut session = db.start_session().run()?;
    /// session.with_transaction(|session| {
    ///     let (take, give) = (doc! {"$inc": {"cents": -200}}, doc! {"$inc": {"cents": 200}});
    ///     accounts.update_one(doc! {"_id": "Ada"}, take).session(session).run()?;
    ///     accounts.update_one(doc! {"_id": "Max"}, give).session(session).run()?;
    ///     Ok(())
    /// })?;
    /// let max = accounts.find_one(doc! {"_id": "Max"}).run()?;
    /// assert_eq!(max, Some(doc! {"_id": "Max", "cents": 200}));
    /// # Ok::<(), motifdb::Error>(())
    /// ```
    pub fn start_session(&self) -> StartSession {
        StartSession::new(self.link.clone())
    }

    /// As [`run_command`](Database::run_command), in a session and in its transaction while one is
    /// open.
    ///
    /// # Errors
    /// When the command fails.
    pub fn run_command_in(
        &self,
        session: &mut ClientSession,
        command: Document,
    ) -> Result<Document> {
        self.inside(session).run_command(command)
    }

    /// The database inside a session.
    pub(super) fn inside(&self, session: &mut ClientSession) -> Database {
        Database { link: session.join(self.link.clone()) }
    }

    /// Runs any command, as a driver would send it, and returns the reply. Errors of statements
    /// inside a write command are in the reply and are not returned as an error.
    ///
    /// # Errors
    /// When the command fails.
    pub fn run_command(&self, command: Document) -> Result<Document> {
        from_bytes(self.link.run(command)?.bytes())
    }

    /// Removes the database with all its collections. It is no error if it does not exist.
    ///
    /// # Errors
    /// When the name is not allowed or the disk fails.
    pub fn drop(&self) -> Result<()> {
        self.link.run(doc! {"dropDatabase": 1}).map(drop)
    }

    /// Closes the folder for all handles: stops running commands, writes the data in memory to disk
    /// and releases the folder. Later operations on clones, collections and cursors fail with
    /// ShutdownInProgress (91).
    ///
    /// # Errors
    /// When the last writes cannot reach the disk.
    pub fn close(self) -> Result<()> {
        self.link.close()
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Options for opening a database; made by [`Database::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `open` or `in_memory` is called"]
pub struct Builder {
    options: Options,
    name: String,
}

impl Builder {
    /// Sets the size of the cache in bytes. The default is 256 MB.
    pub fn cache_bytes(mut self, bytes: u64) -> Builder {
        self.options.cache_bytes = bytes;
        self
    }

    /// Sets how much disk space is reserved for drops and deletes on a full disk; 24 MiB unless
    /// set, 0 for none.
    pub fn reserve_bytes(mut self, bytes: u64) -> Builder {
        self.options.reserve_bytes = bytes;
        self
    }

    /// Sets the database's name. The default is `test`.
    pub fn name(mut self, name: &str) -> Builder {
        name.clone_into(&mut self.name);
        self
    }

    /// Opens for reading only; the folder must exist.
    pub fn read_only(mut self, read_only: bool) -> Builder {
        self.options.read_only = read_only;
        self
    }

    /// Allows commands for tests, such as `configureFailPoint`.
    pub fn test_commands(mut self, allow: bool) -> Builder {
        self.options.test_commands = allow;
        self
    }

    /// Opens a folder, which is created if it is missing.
    ///
    /// # Errors
    /// When the folder is in use by another process, cannot be written, or is damaged; when the
    /// name is not allowed.
    pub fn open(mut self, folder: impl AsRef<Path>) -> Result<Database> {
        self.options.storage = Storage::Disk(folder.as_ref().to_owned());
        Ok(Database { link: Link::open(self.options, &self.name)? })
    }

    /// Opens an empty database in memory.
    ///
    /// # Errors
    /// When the name is not allowed.
    pub fn in_memory(mut self) -> Result<Database> {
        self.options.storage = Storage::Memory;
        Ok(Database { link: Link::open(self.options, &self.name)? })
    }
}

/// A collection or view to create; made by [`Database::create_collection`].
#[must_use = "nothing happens until `run` is called"]
pub struct CreateCollection {
    link: Link,
    command: Document,
}

impl CreateCollection {
    /// Makes the collection capped: it keeps documents in insertion order and at most this many
    /// bytes; the oldest documents are removed first.
    pub fn capped(self, size_bytes: u64) -> CreateCollection {
        self.with("capped", true).with("size", super::convert::whole(size_bytes))
    }

    /// Sets the most documents that a capped collection keeps.
    pub fn max_documents(self, count: u64) -> CreateCollection {
        self.with("max", super::convert::whole(count))
    }

    /// Sets the filter that documents must match to be stored.
    pub fn validator(self, filter: Document) -> CreateCollection {
        self.with("validator", filter)
    }

    /// Sets the documents that the validator applies to: `strict` all, `moderate` new ones and
    /// those that were valid before, `off` none.
    pub fn validation_level(self, level: &str) -> CreateCollection {
        self.with("validationLevel", level)
    }

    /// Sets the handling of documents that do not match: `error`, or `warn` for a log line.
    pub fn validation_action(self, action: &str) -> CreateCollection {
        self.with("validationAction", action)
    }

    /// Sets whether the collection keeps documents as they were before and after changes, for
    /// change streams.
    pub fn change_stream_pre_and_post_images(self, keep: bool) -> CreateCollection {
        self.with("changeStreamPreAndPostImages", doc! {"enabled": keep})
    }

    /// Makes a view: the result of this pipeline over another collection, computed when it is read.
    pub fn view_on(
        self,
        source: &str,
        pipeline: impl IntoIterator<Item = Document>,
    ) -> CreateCollection {
        let pipeline = pipeline.into_iter().collect::<Vec<Document>>();
        self.with("viewOn", source).with("pipeline", pipeline)
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(mut self, session: &mut ClientSession) -> CreateCollection {
        self.link = session.join(self.link);
        self
    }

    fn with(mut self, name: &str, value: impl Into<Bson>) -> CreateCollection {
        self.command.insert(name, value);
        self
    }

    /// Creates the collection or view.
    ///
    /// # Errors
    /// NamespaceExists (48) when one with other options exists; when an option is invalid.
    pub fn run(self) -> Result<()> {
        self.link.run(self.command).map(drop)
    }
}

/// The `name` of each document.
pub(super) fn names(cursor: Cursor<Document>) -> Result<Vec<String>> {
    let name = |mut entry: Document| match entry.remove("name") {
        Some(Bson::String(name)) => Some(name),
        _ => None,
    };
    cursor.filter_map(|entry| entry.map(name).transpose()).collect()
}
