//! `validatePatterns`: compares the maintained values of patterns with a recomputation.

use super::patterns::{named, rebuild, refuse_in_transaction};
use super::row::Required;
use super::{Command, Context};
use crate::upkeep::scrub;
use crate::upkeep::verification::Scope;
use ::access::Action;
use ::patterns::Pattern;
use query::ParseContext;
use query::filter::Filter;
use std::sync::Arc;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "validatePatterns",
    help: "Compares the maintained values of patterns with a recomputation.",
    fields: Some(&["validatePatterns", "names", "filter", "repair"]),
    hints: true,
    privilege: Required::Collection(&[Action::Validate]),
    run: validate,
    ..Command::BASE
};

fn validate(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    refuse_in_transaction(context)?;
    let name = context.collection_name()?;
    let repair = context.args.bool("repair")?;
    let filter = match context.args.optional_doc("filter")? {
        None => None,
        Some(filter) => Some(Filter::parse_for_documents(filter, &ParseContext::new(0))?),
    };
    let scope = Scope { filter: filter.as_ref(), ..Scope::WHOLE };
    let mut reports = Vec::new();
    for pattern in named(context, name)? {
        let stop = || context.op.check_now();
        let rebuild =
            |pattern: &Arc<Pattern>| rebuild(context, name, std::slice::from_ref(pattern), true);
        let (engine, db) = (context.engine, context.db);
        let (report, repaired) =
            scrub::verify(&engine.data, db, &pattern, scope, repair, &stop, &rebuild)?;
        reports.push((pattern, report, repaired));
    }
    out.array("patterns", |list| {
        for (pattern, report, repaired) in &reports {
            list.push_doc(|out| {
                out.str("name", &pattern.name).str("state", pattern.phase.name());
                out.count("checked", report.checked).count("drift", report.drift);
                if pattern.may_be_stale() {
                    out.count("stale", report.stale);
                }
                out.array("samples", |list| {
                    report.samples.iter().for_each(|doc| list.push_doc_bytes(doc.bytes()));
                });
                out.count("repaired", *repaired);
                if report.broken {
                    out.bool("records", false);
                }
            });
        }
    });
    Ok(())
}
