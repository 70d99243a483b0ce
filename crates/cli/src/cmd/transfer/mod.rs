//! `motif import` and `motif export`: copy documents between files and a server or a data folder.
//!
//! `target` is the server or folder, `input` reads files, `output` writes them.

pub(crate) mod export;
pub(crate) mod import;
mod input;
mod output;
pub(crate) mod target;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use target::Target;

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum FileFormat {
    /// Extended JSON: one array of documents, or documents one after another.
    Json,
    /// Extended JSON, one document on each line.
    Ndjson,
    /// Comma-separated values, one document on each row.
    Csv,
    /// BSON documents one after another, as `mongodump` writes them.
    Bson,
}

/// The given format, or that of the file name's extension.
fn file_format(named: Option<FileFormat>, file: Option<&Path>) -> Result<FileFormat> {
    if let Some(format) = named {
        return Ok(format);
    }
    let extension = file.and_then(Path::extension).map(|e| e.to_ascii_lowercase());
    match extension.as_deref().and_then(|e| e.to_str()) {
        Some("json") => Ok(FileFormat::Json),
        Some("ndjson" | "jsonl") => Ok(FileFormat::Ndjson),
        Some("csv") => Ok(FileFormat::Csv),
        Some("bson") => Ok(FileFormat::Bson),
        _ => bail!("the file name does not determine the format: use --format"),
    }
}

/// A collection, and the server or folder that has it.
#[derive(Args, Debug)]
pub(crate) struct TargetArgs {
    /// Server with the collection [default: mongodb://127.0.0.1:27017]
    #[arg(long, value_name = "URI", conflicts_with = "data")]
    uri: Option<String>,
    /// Data folder with the collection; no server may be using it
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Database [default: the one in the URI]
    #[arg(long, short = 'd')]
    db: Option<String>,
    /// Collection
    #[arg(long, short = 'c')]
    collection: String,
}

impl TargetArgs {
    /// Opens the target. Returns it with the name of the database.
    fn open(&self, create: bool) -> Result<(Target, String)> {
        let uri = self.uri.as_deref().unwrap_or("mongodb://127.0.0.1:27017");
        let from_uri = match &self.data {
            Some(_) => None,
            None => client::Target::parse(uri)?.database,
        };
        let Some(database) = self.db.clone().or(from_uri) else {
            bail!("name the database with --db");
        };
        let target = match &self.data {
            Some(folder) => Target::folder(folder, create)?,
            None => Target::server(uri)?,
        };
        Ok((target, database))
    }
}

/// A bar on a terminal, by bytes if `size` is known, otherwise a counter. Invisible elsewhere.
fn progress(size: Option<u64>) -> Result<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let bar = match size {
        Some(size) => ProgressBar::new(size).with_style(ProgressStyle::with_template(
            "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {msg} eta {eta}",
        )?),
        None => ProgressBar::no_length()
            .with_style(ProgressStyle::with_template("{spinner} {human_pos} {msg} {per_sec}")?),
    };
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}

/// `1 document`, `2 documents`.
fn documents(count: u64) -> String {
    if count == 1 { "1 document".to_owned() } else { format!("{count} documents") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_told_by_flag_or_name() {
        let path = |name: &str| PathBuf::from(name);
        assert_eq!(file_format(None, Some(&path("a.JSONL"))).unwrap(), FileFormat::Ndjson);
        assert_eq!(file_format(None, Some(&path("a.bson"))).unwrap(), FileFormat::Bson);
        let named = file_format(Some(FileFormat::Csv), Some(&path("a.json"))).unwrap();
        assert_eq!(named, FileFormat::Csv);
        assert!(file_format(None, Some(&path("a.txt"))).is_err());
        assert!(file_format(None, None).is_err());
    }
}
