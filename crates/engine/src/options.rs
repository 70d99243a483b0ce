//! How an engine is opened.
//!
//! Layer: base.

use std::path::PathBuf;
use value::DocBuf;

/// Where the data lives.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In memory: gone when the engine closes.
    Memory,
    /// In a folder, made when it is not there.
    Disk(PathBuf),
}

/// How to open an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the data lives.
    pub storage: Storage,
    /// Most bytes of stored data kept in memory.
    pub cache_bytes: u64,
    /// Most bytes that running operations hold together: large messages, and what stages keep.
    pub operation_bytes: u64,
    /// Whether commands that only tests need are answered.
    pub test_commands: bool,
    /// The address that `hello` tells clients when it does not know which one they dialled.
    pub listen: String,
    /// Open for reading only.
    pub read_only: bool,
    /// The process's arguments, for `getCmdLineOpts`.
    pub command_line: Vec<String>,
    /// The options as understood, for `getCmdLineOpts`.
    pub config: DocBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            storage: Storage::Memory,
            cache_bytes: 256 * 1024 * 1024,
            operation_bytes: 1024 * 1024 * 1024,
            test_commands: false,
            listen: "127.0.0.1:27017".to_owned(),
            read_only: false,
            command_line: Vec::new(),
            config: DocBuf::new(),
        }
    }
}
