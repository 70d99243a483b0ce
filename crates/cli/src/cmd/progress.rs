//! A progress bar on standard error, if that is a terminal.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// A progress bar, invisible unless standard error is a terminal.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// Creates an empty bar.
    pub(super) fn new() -> Result<Bar> {
        if !std::io::stderr().is_terminal() {
            return Ok(Bar(ProgressBar::hidden()));
        }
        let style = ProgressStyle::with_template("{bar:30} {percent}% {msg}")?;
        Ok(Bar(ProgressBar::new(0).with_style(style)))
    }

    /// Shows the running step and its progress.
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
