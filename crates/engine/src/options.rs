//! Options for opening an engine.
//!
//! Layer: base.

use std::path::PathBuf;
use value::DocBuf;

/// Where the data lives.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In memory: lost when the engine closes.
    Memory,
    /// In a folder, which is created if it does not exist.
    Disk(PathBuf),
}

/// What a server presents itself as to drivers. Both allow sessions, transactions and change streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Topology {
    /// The only member of a replica set: drivers follow the address that `hello` returns.
    #[default]
    ReplicaSet,
    /// A router of a sharded cluster: drivers keep the address that they were given.
    Router,
}

/// Options for opening an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the data lives.
    pub storage: Storage,
    /// The size of the cache of stored data, in bytes.
    pub cache_bytes: u64,
    /// Disk space that is reserved for drops and deletes on a full disk, in bytes; 0 for none.
    pub reserve_bytes: u64,
    /// The memory budget of all running operations, in bytes: large messages and the state of
    /// stages.
    pub operation_bytes: u64,
    /// Whether commands for tests are enabled.
    pub test_commands: bool,
    /// The address that `hello` returns when the address used by the client is not known.
    pub listen: String,
    /// The address that `hello` returns to every client, if theirs cannot be used: behind a port
    /// mapping or a load balancer.
    pub advertise: Option<String>,
    /// The name of the replica set of which this server is the only member.
    pub set_name: String,
    /// What the server presents itself as.
    pub topology: Topology,
    /// Whether clients may use JavaScript.
    pub javascript: bool,
    /// Whether to open for reading only.
    pub read_only: bool,
    /// The process's arguments, for `getCmdLineOpts`.
    pub command_line: Vec<String>,
    /// The parsed options, for `getCmdLineOpts`.
    pub config: DocBuf,
}

impl Options {
    /// The memory limit for commits that are not in tables yet. A larger limit means that more
    /// versions of a document are replaced before they are written to a table, but also that more of
    /// the log must be read after a crash. It is not more than a quarter of a small cache.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        let small = (self.cache_bytes / 4).max(1 << 20);
        (self.cache_bytes / 8).clamp(64 << 20, 256 << 20).min(small)
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            storage: Storage::Memory,
            cache_bytes: 256 * 1024 * 1024,
            reserve_bytes: 24 * 1024 * 1024,
            operation_bytes: 1024 * 1024 * 1024,
            test_commands: false,
            listen: "127.0.0.1:27017".to_owned(),
            advertise: None,
            set_name: "rs0".to_owned(),
            topology: Topology::ReplicaSet,
            javascript: false,
            read_only: false,
            command_line: Vec::new(),
            config: DocBuf::new(),
        }
    }
}
