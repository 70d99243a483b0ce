//! `motif shell-helpers`: prints a file for mongosh that gives collections the methods of patterns.

use anyhow::Result;
use std::io::Write;

/// The file.
const HELPERS: &str = include_str!("shell_helpers.js");

/// Prints it.
pub(crate) fn run() -> Result<()> {
    std::io::stdout().write_all(HELPERS.as_bytes())?;
    Ok(())
}
