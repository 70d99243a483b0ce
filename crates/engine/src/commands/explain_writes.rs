//! The effects of a write on patterns, for `explain`: the statement runs in a transaction that is
//! never committed, and each pattern reports its work.

use super::Context;
use super::query::Constants;
use crate::catalog::Collection;
use crate::exec::Stream;
use crate::exec::find::FindStream;
use crate::exec::modify::{self, Chosen};
use crate::exec::scan::Row;
use crate::exec::write;
use crate::upkeep;
use query::filter::Filter;
use query::update::Series;
use std::sync::Arc;
use store::Bytes;
use value::{Result, Val, Writer};

/// The most documents that are tried: the effects are held in memory.
const DOCUMENTS_MAX: u64 = 10_000;

/// Writes `patterns`: the effects on each pattern. Returns how many bytes are written.
pub(super) fn explain(
    context: &Context<'_>,
    constants: &Constants,
    filter: &Filter,
    collection: &Arc<Collection>,
    mut matches: FindStream,
    out: &mut Writer<'_>,
) -> Result<u64> {
    let update = super::explain::update_of(context, constants)?;
    let mut txn = context.engine.data.private(context.engine.data.view(context.op));
    txn.work.begin_trace();
    let mut tried = 0;
    let mut partial = false;
    while let Some(doc) = matches.next(context.op)? {
        partial = tried >= DOCUMENTS_MAX;
        if partial {
            break;
        }
        tried += 1;
        let doc = doc.raw();
        let record = write::record_of_id(collection, doc.get("_id").unwrap_or(Val::Null));
        let mut position = None;
        filter.matches_at(doc, &mut position)?;
        let row = Row { record: record.into(), doc: Bytes::copy_from(doc.bytes()) };
        let chosen = Chosen::new(&txn, collection, row, position)?;
        match &update {
            Some(update) => {
                let mut once = Series::new(update);
                modify::update_chosen(&mut txn, collection, &mut once, &chosen, true)?;
            }
            None => write::delete(&mut txn, collection, &chosen.record, chosen.canonical())?,
        }
    }
    upkeep::settle(&mut txn)?;
    let written = txn.snapshot.written_bytes();
    let trace = txn.work.take_trace();
    out.array("patterns", |list| {
        for done in &trace {
            list.push_doc(|out| {
                out.str("name", &done.pattern.name).str("collection", &done.pattern.collection);
                out.count("deltas", done.deltas).count("fanoutWrites", done.writes);
                out.count("micros", done.micros);
            });
        }
    });
    if partial {
        out.count("patternsTriedDocuments", tried);
    }
    Ok(written as u64)
}
