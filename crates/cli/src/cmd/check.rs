//! `motif check`: reads a whole data folder and lists its damage.

use super::progress::Bar;
use crate::limits;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Verify a data folder: checksums, indexes against documents, counts
///
/// Changes nothing; the server must not be running on the folder. Lists all errors, not only the
/// first, with the affected collections, indexes and keys. The exit code is 1 if there are any.
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
    limits::raise_open_files();
    let bar = Bar::new()?;
    let checked = motifdb::check_folder(folder, &mut |what, done, total| {
        bar.show(what, done, total);
    });
    bar.finish();
    let checked = checked
        .map_err(|error| anyhow!("{}", error.message()))
        .with_context(|| format!("cannot check the data folder `{}`", folder.display()))?;
    let mut out = std::io::stdout().lock();
    for doubt in &checked.doubts {
        writeln!(out, "note: {doubt}")?;
    }
    for damage in &checked.damage {
        writeln!(out, "{damage}")?;
    }
    for finding in &checked.findings {
        writeln!(out, "{finding}")?;
    }
    let shown = folder.display();
    if let Some(why) = &checked.not_compared {
        write!(
            out,
            "the folder cannot be opened, so documents, indexes and counts were not compared"
        )?;
        match checked.damage.is_empty() {
            true => writeln!(out, ": {why}")?,
            false => writeln!(out)?,
        }
    }
    match checked.wrong() {
        0 => writeln!(out, "{shown}: nothing is wrong ({} collections)", checked.collections)?,
        1 => writeln!(out, "{shown}: 1 thing is wrong")?,
        count => writeln!(out, "{shown}: {count} things are wrong")?,
    }
    if !checked.damage.is_empty() {
        writeln!(
            out,
            "`motif repair {shown} --to NEW` copies everything that is readable to a new folder"
        )?;
    }
    Ok(if checked.wrong() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
