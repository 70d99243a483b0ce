//! `motif repair`: copies the readable data of a damaged data folder to a new one.

use super::progress::Bar;
use crate::limits;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use motifdb::{Repaired, Severity};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use value::ejson;

/// The exit code of a repair if data is missing or cannot be proven complete.
const LOST: u8 = 3;

/// Copy all readable data from a damaged data folder to a new one
///
/// FOLDER is only read; the server must not be running on it. Documents, users, roles, collection
/// options and declarations of patterns are copied; indexes and patterns are rebuilt. Collections
/// whose names are lost are named recovered.c<number>.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  motif check /var/lib/motif                           list what is damaged
  motif repair /var/lib/motif --to /var/lib/motif-new
  motif repair /var/lib/motif --to /mnt/motif --json > report.json
  motif serve --data /var/lib/motif-new

The report names each damaged file and, by collection and key range, what may be missing or older
than it was. Exit codes: 0 nothing is lost; 3 something is lost, or cannot be proven to be
complete; 1 the repair failed, and the new folder was removed. A backup is better than a repair: keep
FOLDER until you have compared.")]
pub(crate) struct RepairArgs {
    /// The damaged data folder
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The new data folder; it must be empty or not exist
    #[arg(long, value_name = "NEW")]
    to: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &RepairArgs) -> Result<ExitCode> {
    let folder = &args.folder;
    if !folder.is_dir() {
        bail!("there is no data folder `{}`", folder.display());
    }
    limits::raise_open_files();
    limits::make_private_files();
    let bar = Bar::new()?;
    let repaired = motifdb::repair(folder, &args.to, &mut |what, done, total| {
        bar.show(what, done, total);
    });
    bar.finish();
    let repaired = repaired
        .map_err(|error| anyhow!("{}", error.message()))
        .with_context(|| format!("cannot repair `{}`", folder.display()))?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let report = repaired.document();
        writeln!(out, "{}", ejson::print(report.as_doc(), ejson::Format::Relaxed))?;
    } else {
        print(&mut out, &repaired)?;
    }
    Ok(if repaired.is_lost { ExitCode::from(LOST) } else { ExitCode::SUCCESS })
}

fn print(out: &mut impl Write, repaired: &Repaired) -> Result<()> {
    for damage in &repaired.damage {
        writeln!(out, "{damage}")?;
    }
    for note in &repaired.notes {
        writeln!(out, "{note}")?;
    }
    if !repaired.damage.is_empty() || !repaired.notes.is_empty() {
        writeln!(out)?;
    }
    for collection in &repaired.collections {
        let documents = count(collection.documents, "document", "documents");
        write!(out, "{}: {documents}", collection.namespace)?;
        if collection.indexes > 0 {
            write!(out, ", {}", count(collection.indexes, "index", "indexes"))?;
        }
        if collection.invalid > 0 {
            let records = count(collection.invalid, "record", "records");
            write!(out, "; without {records} that cannot be understood")?;
        }
        writeln!(out)?;
    }
    let documents: u64 = repaired.collections.iter().map(|c| c.documents).sum();
    let bytes: u64 = repaired.collections.iter().map(|c| c.bytes).sum();
    writeln!(
        out,
        "{}: {}, {}, {:.1} MB",
        repaired.folder.display(),
        count(repaired.collections.len() as u64, "collection", "collections"),
        count(documents, "document", "documents"),
        bytes as f64 / 1e6
    )?;
    let lost = repaired.damage.iter().any(|damage| damage.severity == Severity::Lost);
    match (repaired.is_lost, lost) {
        (false, _) if repaired.damage.is_empty() => writeln!(out, "nothing was damaged")?,
        (false, _) => writeln!(out, "nothing was lost")?,
        (true, true) => writeln!(out, "something may be lost; it is listed above")?,
        (true, false) => writeln!(out, "not everything could be proven to be complete; see above")?,
    }
    Ok(())
}

fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
