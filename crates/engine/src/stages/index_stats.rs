//! `$indexStats`: returns how often each index of a collection was used.

use super::StageRow;
use super::diagnostics::{host, needs_collection};
use super::privileges::{PipelinePrivileges, Privilege};
use super::reported::Reported;
use super::row::Runs;
use crate::catalog::{Index, IndexState};
use crate::txn::Data;
use ::access::Action;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use value::{Code, DocBuf, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$indexStats",
    help: "Returns how often each index of a collection was used.",
    runs: Runs::AtOnceOrCompiled(|server, value, name| {
        make(server.data(), server.db(), value, needs_collection("$indexStats", name)?)
    }),
    parse: |value, context| {
        check(value)?;
        Reported::parse(&ROW, make, value, context)
    },
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

fn privilege(client: &PipelinePrivileges<'_>, collection: Option<&str>, _: Val<'_>) -> bool {
    client.on_collection(collection, Action::IndexStats)
}

fn check(value: Val<'_>) -> Result<()> {
    match value {
        Val::Document(doc) if doc.is_empty() => Ok(()),
        _ => Err(Error::new(
            Code(28803),
            "The $indexStats stage specification must be an empty object",
        )),
    }
}

fn make(data: &Data, db: &str, value: Val<'_>, name: &str) -> Result<Vec<DocBuf>> {
    check(value)?;
    let Some(collection) = data.collection(db, name) else { return Ok(Vec::new()) };
    let host = host(data);
    let started = Val::DateTime(data.opened_ms);
    let row = |index: &Arc<Index>| {
        let uses = i64::try_from(index.uses.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        DocBuf::build(|out| {
            out.str("name", &index.name);
            out.append("key", Val::Document(index.key.as_doc()));
            out.str("host", &host);
            out.doc("accesses", |out| {
                out.i64("ops", uses).append("since", started);
            });
            if index.state == IndexState::Building {
                out.bool("building", true);
            }
            out.append("spec", Val::Document(index.spec.as_doc()));
        })
    };
    Ok(collection.indexes.iter().map(row).collect())
}
