//! `motif export`: writes the documents of a collection to a file.

use super::output::Output;
use super::{FileFormat, TargetArgs, documents, file_format, progress};
use anyhow::{Context, Result};
use clap::Args;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use value::{DocBuf, ejson};

const EXAMPLES: &str = "\
Examples:
  motif export --db shop --collection orders --file orders.ndjson
  motif export -d shop -c orders --file orders.csv --fields _id,customer.name,total
  motif export -d shop -c orders --format json --filter '{paid: false}' --sort '{total: -1}'
  motif export --data ./motif-data -d shop -c orders --file orders.bson   (no server running)

JSON is relaxed Extended JSON; --canonical keeps the type of every number. BSON keeps everything.
A CSV cell holds plain text; nested documents and arrays become JSON inside it.";

/// Write the documents of a collection to a JSON, NDJSON, CSV or BSON file
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// File to write; overwritten if it exists [default: standard output]
    #[arg(long, short = 'f', value_name = "FILE")]
    file: Option<PathBuf>,
    /// Format of the file [default: by the file's name]
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// Filter of the documents
    #[arg(long, short = 'q', value_name = "JSON")]
    filter: Option<String>,
    /// Sort order
    #[arg(long, value_name = "JSON")]
    sort: Option<String>,
    /// Maximum number of documents
    #[arg(long, value_parser = clap::value_parser!(i64).range(1..))]
    limit: Option<i64>,
    /// Columns of a CSV file, or the fields to write
    #[arg(long, value_delimiter = ',', value_name = "NAME,NAME,..")]
    fields: Vec<String>,
    /// Canonical Extended JSON: keeps the type of every number
    #[arg(long)]
    canonical: bool,
    /// Documents in one batch
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    batch: i32,
}

/// Whether a collection has users with their credentials, or roles.
fn is_secret(database: &str, collection: &str) -> bool {
    database == "admin" && collection.starts_with("system.")
}

/// Creates or truncates a file. If `secret`, only its owner can read it.
fn create(path: &Path, secret: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if secret {
        options.mode(0o600);
    }
    let file = options.open(path)?;
    if secret {
        // The file may have existed with other permissions.
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Runs the command.
pub(crate) fn run(args: &ExportArgs) -> Result<ExitCode> {
    let format = file_format(args.format, args.file.as_deref())?;
    let command = find(args, format)?;
    let (mut target, database) = args.target.open(false)?;
    let writer: Box<dyn Write> = match &args.file {
        Some(path) => {
            let file = create(path, is_secret(&database, &args.target.collection));
            Box::new(file.with_context(|| format!("cannot create `{}`", path.display()))?)
        }
        None => Box::new(io::stdout().lock()),
    };
    let writer = BufWriter::with_capacity(256 * 1024, writer);
    let mut output = Output::new(format, writer, args.canonical, args.fields.clone())?;
    let bar = progress(None)?;
    bar.set_message("documents");
    target.for_each(&database, &args.target.collection, &command, &mut |doc| {
        bar.inc(1);
        output.write(doc)
    })?;
    let count = output.finish()?;
    bar.finish_and_clear();
    target.close()?;
    eprintln!("exported {} from {database}.{}", documents(count), args.target.collection);
    Ok(ExitCode::SUCCESS)
}

/// The `find` command that reads the documents.
fn find(args: &ExportArgs, format: FileFormat) -> Result<DocBuf> {
    let parse = |name: &str, text: &Option<String>| {
        text.as_ref()
            .map(|text| ejson::parse_doc(text).with_context(|| format!("--{name} is invalid")))
            .transpose()
    };
    let filter = parse("filter", &args.filter)?;
    let sort = parse("sort", &args.sort)?;
    Ok(DocBuf::build(|out| {
        out.str("find", &args.target.collection);
        if let Some(filter) = &filter {
            out.append("filter", filter.as_doc().into());
        }
        if let Some(sort) = &sort {
            out.append("sort", sort.as_doc().into());
        }
        // A column may name an array element by number, which a projection cannot.
        if !args.fields.is_empty() && format != FileFormat::Csv {
            out.doc("projection", |projection| {
                for field in &args.fields {
                    projection.i32(field, 1);
                }
                if !args.fields.iter().any(|field| field == "_id") {
                    projection.i32("_id", 0);
                }
            });
        }
        if let Some(limit) = args.limit {
            out.i64("limit", limit);
        }
        out.i32("batchSize", args.batch);
    }))
}
