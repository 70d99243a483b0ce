//! A progress bar on the terminal; nothing if standard error is not one.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// The bar of a command that takes long.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar at its start.
    pub(super) fn new() -> Result<Bar> {
        if !std::io::stderr().is_terminal() {
            return Ok(Bar(ProgressBar::hidden()));
        }
        let style = ProgressStyle::with_template("{bar:30} {percent}% {msg}")?;
        Ok(Bar(ProgressBar::new(0).with_style(style)))
    }

    /// Shows which step is running and how far it is.
    pub(super) fn show(&self, what: &str, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
        self.0.set_message(what.to_owned());
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
