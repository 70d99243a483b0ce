//! Commands that workloads send.

use anyhow::{Context, Result};
use client::Client;
use value::{DocBuf, Val, Writer, ejson};

pub(super) fn text(command: &str) -> DocBuf {
    ejson::parse_doc(command).unwrap_or_default()
}

/// Runs a command. A reply with an error is an error.
pub(super) fn run(client: &mut Client, database: &str, command: &DocBuf) -> Result<()> {
    client.run(database, command).map(drop).with_context(|| format!("{command:?}"))
}

fn acknowledged(out: &mut Writer<'_>) {
    out.doc("writeConcern", |concern| {
        concern.i32("w", 1).bool("j", false);
    });
}

pub(super) fn insert(
    collection: &str,
    docs: impl FnOnce(&mut value::writer::ArrayWriter<'_>),
) -> DocBuf {
    DocBuf::build(|out| {
        out.str("insert", collection).array("documents", docs);
        acknowledged(out);
    })
}

pub(super) fn update(collection: &str, filter: &DocBuf, change: &DocBuf, multi: bool) -> DocBuf {
    DocBuf::build(|out| {
        out.str("update", collection).array("updates", |list| {
            list.push_doc(|out| {
                out.append("q", Val::Document(filter.as_doc()));
                out.append("u", Val::Document(change.as_doc())).bool("multi", multi);
            });
        });
        acknowledged(out);
    })
}

pub(super) fn by_id(id: u64) -> DocBuf {
    DocBuf::build(|out| {
        out.i64("_id", id.cast_signed());
    })
}
