//! `motif import`: loads the documents of a file into a collection.

use super::input::{CsvOptions, Input};
use super::target::Target;
use super::{FileFormat, TargetArgs, documents, file_format, progress};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use value::{Code, DocBuf, RawDoc, Val};

const EXAMPLES: &str = "\
Examples:
  motif import --db shop --collection orders --file orders.json
  motif import --db shop --collection orders --file dump/shop/orders.bson --drop
  curl -s https://example.com/prices.csv | motif import -d shop -c prices --format csv
  motif import --data ./motif-data -d shop -c orders --file orders.ndjson   (no server running)

CSV cells become values by their look: whole numbers, decimal numbers, true and false; all else
stays text, dates and numbers with leading zeros too. A column called a.b becomes {a: {b: ..}}.";

/// Load documents from a JSON, NDJSON, CSV or BSON file into a collection
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// File to read [default: standard input]
    #[arg(long, short = 'f', value_name = "FILE")]
    file: Option<PathBuf>,
    /// Format of the file [default: by the file's name]
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// Drop the collection first
    #[arg(long)]
    drop: bool,
    /// Documents in one batch
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    batch: u64,
    /// Stop at the first document that cannot be inserted
    #[arg(long)]
    stop_on_error: bool,
    /// Names of the columns of a CSV file [default: the first row]
    #[arg(long, value_delimiter = ',', value_name = "NAME,NAME,..")]
    fields: Vec<String>,
    /// Omit fields whose CSV cell is empty, instead of storing an empty string
    #[arg(long)]
    ignore_blanks: bool,
    /// Import every CSV cell as a string
    #[arg(long)]
    strings: bool,
}

/// The maximum of bytes in one batch: it must fit into a message.
const BATCH_BYTES_MAX: usize = 16_000_000;
/// The number of refused documents that are reported individually.
const REFUSALS_SHOWN: u64 = 10;

/// Runs the command.
pub(crate) fn run(args: &ImportArgs) -> Result<ExitCode> {
    let format = file_format(args.format, args.file.as_deref())?;
    if format != FileFormat::Csv && (!args.fields.is_empty() || args.ignore_blanks || args.strings)
    {
        bail!("--fields, --ignore-blanks and --strings are for CSV files");
    }
    // The file is opened first, so that nothing is dropped or created if that fails.
    let (reader, size): (Box<dyn Read>, _) = match &args.file {
        Some(path) => {
            let file =
                File::open(path).with_context(|| format!("cannot open `{}`", path.display()))?;
            let size = file.metadata().ok().filter(|data| data.is_file()).map(|data| data.len());
            (Box::new(file), size)
        }
        None => (Box::new(io::stdin().lock()), None),
    };
    let bar = progress(size)?;
    let read = bar.clone();
    let reader: Box<dyn BufRead> = if size.is_some() {
        Box::new(BufReader::with_capacity(256 * 1024, read.wrap_read(reader)))
    } else {
        Box::new(BufReader::with_capacity(256 * 1024, reader))
    };
    let csv = CsvOptions {
        fields: args.fields.clone(),
        ignore_blanks: args.ignore_blanks,
        strings: args.strings,
    };
    let input = Input::new(format, reader, csv)?;

    let (target, database) = args.target.open(true)?;
    let mut import = Import {
        target,
        database,
        collection: args.target.collection.clone(),
        ordered: args.stop_on_error,
        inserted: 0,
        refused: 0,
    };
    if args.drop {
        import.drop_collection()?;
    }
    let result = import.all(input, args.batch, &|inserted| {
        bar.set_message(documents(inserted));
        if size.is_none() {
            bar.set_position(inserted);
        }
    });
    bar.finish_and_clear();
    let namespace = format!("{}.{}", import.database, import.collection);
    let (inserted, refused) = (import.inserted, import.refused);
    // The inserted documents must be on disk even if the rest of the file was unreadable.
    import.target.close()?;
    eprintln!("imported {} into {namespace}", documents(inserted));
    result?;
    if refused > 0 {
        eprintln!("{} could not be inserted", documents(refused));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

struct Import {
    target: Target,
    database: String,
    collection: String,
    ordered: bool,
    inserted: u64,
    refused: u64,
}

impl Import {
    fn drop_collection(&mut self) -> Result<()> {
        let command = DocBuf::build(|out| {
            out.str("drop", &self.collection);
        });
        match self.target.run(&self.database, &command) {
            Ok(_) => Ok(()),
            Err(error)
                if error.downcast_ref::<value::Error>().map(value::Error::code)
                    == Some(Code::NAMESPACE_NOT_FOUND) =>
            {
                Ok(())
            }
            Err(error) => Err(error).context("cannot drop the collection"),
        }
    }

    fn all<R: BufRead>(
        &mut self,
        mut input: Input<R>,
        batch_documents: u64,
        progress: &dyn Fn(u64),
    ) -> Result<()> {
        let mut batch = Vec::new();
        let mut count = 0;
        loop {
            let next = input.next();
            let full = match &next {
                Ok(Some(doc)) => {
                    count == batch_documents || batch.len() + doc.bytes().len() > BATCH_BYTES_MAX
                }
                // At the end, and before an unreadable document, the batch is sent.
                _ => true,
            };
            if full && count > 0 {
                self.insert(&batch, count)?;
                progress(self.inserted);
                batch.clear();
                count = 0;
            }
            match next? {
                Some(doc) => {
                    batch.extend_from_slice(doc.bytes());
                    count += 1;
                }
                None => return Ok(()),
            }
        }
    }

    fn insert(&mut self, batch: &[u8], count: u64) -> Result<()> {
        let before = self.inserted + self.refused;
        let reply = self.target.insert(&self.database, &self.collection, self.ordered, batch)?;
        let reply = reply.as_doc();
        let n = reply.get("n").and_then(Val::as_i64_exact).and_then(|n| u64::try_from(n).ok());
        let inserted = n.context("the reply to an insert has no count")?;
        self.inserted += inserted;
        let errors = reply.get("writeErrors").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        for error in errors.iter().filter_map(|(_, error)| error.as_doc()) {
            self.refused += 1;
            let index = error.get("index").and_then(Val::as_i64_exact).unwrap_or(0).max(0) as u64;
            let message = error.get("errmsg").and_then(Val::as_str).unwrap_or("unknown error");
            if self.ordered {
                bail!("document {}: {message}", before + index + 1);
            }
            if self.refused <= REFUSALS_SHOWN {
                eprintln!("document {}: {message}", before + index + 1);
            }
        }
        if let Some(concern) = reply.get("writeConcernError").and_then(Val::as_doc) {
            let message = concern.get("errmsg").and_then(Val::as_str).unwrap_or("unknown error");
            bail!("the server could not make the documents durable: {message}");
        }
        if errors.is_empty() && inserted != count {
            bail!("the server inserted {inserted} of {count} documents and named no error");
        }
        Ok(())
    }
}
