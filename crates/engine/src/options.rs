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
    /// Whether to open for reading only.
    pub read_only: bool,
    /// The process's arguments, for `getCmdLineOpts`.
    pub command_line: Vec<String>,
    /// The parsed options, for `getCmdLineOpts`.
    pub config: DocBuf,
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
            read_only: false,
            command_line: Vec::new(),
            config: DocBuf::new(),
        }
    }
}
