//! `motif shell-helpers`: prints a file for mongosh that adds methods for patterns to collections.

use anyhow::Result;
use std::io::Write;

/// The file.
const HELPERS: &str = include_str!("shell_helpers.js");

/// Prints it.
pub(crate) fn run() -> Result<()> {
    std::io::stdout().write_all(HELPERS.as_bytes())?;
    Ok(())
}
