//! `motif check`: reads a whole data folder and says what is wrong with it.

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use motifdb::{Engine, Options, Storage};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Verify a data folder: checksums, indexes against documents, counts.
///
/// Opens the folder read-only and changes nothing; the server must not be running on it. The exit
/// code is 1 when something is wrong.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The data folder
    #[arg(value_name = "FOLDER", default_value = "./motif-data")]
    folder: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode> {
    let folder = &args.folder;
    if !folder.is_dir() {
        bail!("there is no data folder `{}`", folder.display());
    }
    let options =
        Options { storage: Storage::Disk(folder.clone()), read_only: true, ..Options::default() };
    let engine = Engine::open(options)
        .map_err(|error| anyhow!("{}", error.message()))
        .with_context(|| format!("cannot open the data folder `{}`", folder.display()))?;
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(0).with_style(ProgressStyle::with_template("{bar:30} {percent}% {msg}")?)
    } else {
        ProgressBar::hidden()
    };
    let findings = engine.check(&mut |what, done, total| {
        bar.set_length(total);
        bar.set_position(done);
        bar.set_message(what.to_owned());
    })?;
    bar.finish_and_clear();
    engine.close()?;
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    match findings.len() {
        0 => writeln!(out, "{}: nothing is wrong", folder.display())?,
        1 => writeln!(out, "{}: 1 thing is wrong", folder.display())?,
        count => writeln!(out, "{}: {count} things are wrong", folder.display())?,
    }
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
