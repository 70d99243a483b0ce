//! `$indexStats`: returns how often each index of a collection was used.

use super::StageRow;
use super::diagnostics::{Server, needs_collection};
use super::privileges::{PipelinePrivileges, Privilege};
use super::row::Runs;
use crate::catalog::{Index, IndexState};
use ::access::Action;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use value::{Code, DocBuf, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$indexStats",
    help: "Returns how often each index of a collection was used.",
    runs: Runs::AtOnce(make),
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

fn privilege(client: &PipelinePrivileges<'_>, collection: Option<&str>, _: Val<'_>) -> bool {
    client.on_collection(collection, Action::IndexStats)
}

fn make(server: &dyn Server, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let name = needs_collection("$indexStats", name)?;
    if !matches!(value, Val::Document(doc) if doc.is_empty()) {
        return Err(Error::new(
            Code(28803),
            "The $indexStats stage specification must be an empty object",
        ));
    }
    let Some(collection) = server.data().collection(server.db(), name) else {
        return Ok(Vec::new());
    };
    let host = server.host();
    let started = Val::DateTime(server.started_ms());
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
