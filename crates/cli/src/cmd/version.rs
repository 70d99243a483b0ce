//! `motif version`.

use anyhow::Result;
use std::io::Write;

/// Prints the version.
pub(crate) fn run() -> Result<()> {
    writeln!(std::io::stdout(), "motif {}", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
