//! `validate`: checks that documents, index entries and counts of a collection agree, at one
//! snapshot and without stopping writes.

use super::row::Required;
use super::{Command, Context};
use crate::check::{catalog_at, check_collection};
use crate::damage::Gaps;
use ::access::Action;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "validate",
    help: "Checks that documents and indexes of a collection agree.",
    // Drivers also send options of other storage engines, such as `scandata`.
    fields: None,
    privilege: Required::Collection(&[Action::Validate]),
    mistyped_name: Code::INVALID_NAMESPACE,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    if context.args.bool("repair")? {
        let with = match context.args.bool("background")? {
            true => "both { background: true } and { repair: true } is not supported.",
            false => "{ repair: true } can only be performed in standalone mode.",
        };
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            format!("Running the validate command with {with}"),
        ));
    }
    if context.args.bool("background")? && context.args.bool("full")? {
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            "Running the validate command with both { background: true } and { full: true } is not \
             supported",
        ));
    }
    let snapshot = context.engine.data.store.snapshot();
    let catalog = catalog_at(&snapshot)?;
    let Some(collection) = catalog.get(context.db, name) else {
        return Err(Error::new(
            Code::NAMESPACE_NOT_FOUND,
            format!("Collection '{}.{name}' does not exist to validate.", context.db),
        ));
    };
    if collection.view().is_some() {
        return Err(Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Cannot validate a view"));
    }
    let op = context.op;
    let report =
        check_collection(&snapshot, collection, &Gaps::default(), &mut |_| op.check_now())?;
    out.str("ns", &collection.namespace());
    out.count("nInvalidDocuments", report.unreadable);
    out.i32("nNonCompliantDocuments", 0);
    out.count("nrecords", report.documents);
    out.count("nIndexes", collection.indexes.len() as u64);
    out.doc("keysPerIndex", |out| {
        for index in &report.indexes {
            out.count(&index.name, index.entries);
        }
    });
    out.doc("indexDetails", |out| {
        for index in &report.indexes {
            out.doc(&index.name, |out| {
                out.bool("valid", index.findings.is_empty());
                if !index.findings.is_empty() {
                    out.array("errors", |errors| {
                        index.findings.iter().for_each(|text| errors.push(Val::String(text)));
                    });
                }
            });
        }
    });
    out.bool("valid", report.is_valid()).bool("repaired", false);
    let building = collection.indexes.len() - report.indexes.len();
    out.array("warnings", |warnings| {
        if building > 0 {
            let text = format!("{building} indexes are being built and were not checked");
            warnings.push(Val::String(&text));
        }
    });
    out.array("errors", |errors| {
        report.findings.iter().for_each(|text| errors.push(Val::String(text)));
        for index in report.indexes.iter().filter(|index| !index.findings.is_empty()) {
            let text = format!("index '{}' does not agree with the documents", index.name);
            errors.push(Val::String(&text));
        }
    });
    for name in ["extraIndexEntries", "missingIndexEntries", "corruptRecords"] {
        // Reported as text in `errors`.
        out.array(name, |_| {});
    }
    Ok(())
}
