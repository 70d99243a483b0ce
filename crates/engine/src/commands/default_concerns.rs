//! Shared code of `getDefaultRWConcern` and `setDefaultRWConcern`. Default concerns are stored in
//! the catalog and survive a restart.

use super::Context;
use super::write_concern::WriteConcern;
use crate::catalog::persist;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::Space;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) fn get(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let in_memory = context.args.bool("inMemory")?;
    let catalog = context.engine.data.catalog.load_full();
    write(catalog.concerns.as_ref().map(|concerns| concerns.as_doc()), in_memory, out);
    Ok(())
}

fn write(concerns: Option<RawDoc<'_>>, in_memory: bool, out: &mut Writer<'_>) {
    let found = |name| concerns.and_then(|concerns| concerns.get(name));
    let (read, written) = (found("defaultReadConcern"), found("defaultWriteConcern"));
    match read {
        Some(read) => out.append("defaultReadConcern", read),
        None => out.doc("defaultReadConcern", |out| {
            out.str("level", "local");
        }),
    };
    match written {
        Some(written) => out.append("defaultWriteConcern", written),
        None => out.doc("defaultWriteConcern", |out| {
            out.str("w", "majority").i32("wtimeout", 0);
        }),
    };
    for name in ["updateOpTime", "updateWallClockTime"] {
        out.append(name, found(name).unwrap_or(Val::Missing));
    }
    let source = |set: bool| if set { "global" } else { "implicit" };
    out.str("defaultWriteConcernSource", source(written.is_some()));
    out.str("defaultReadConcernSource", source(read.is_some()));
    if in_memory {
        out.bool("inMemory", true);
    }
    out.append("localUpdateWallClockTime", Val::DateTime(crate::clock::now_ms()));
}

pub(super) fn set(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let read = context.args.optional_doc("defaultReadConcern")?;
    let written = context.args.optional_doc("defaultWriteConcern")?;
    if read.is_none() && written.is_none() {
        return Err(Error::bad_value(
            "At least one of the \"defaultReadConcern\" or \"defaultWriteConcern\" fields must be \
             present",
        ));
    }
    let level = read.map(read_level).transpose()?;
    let engine = context.engine;
    let time = engine.data.clock.now();
    let concerns = engine.data.change_catalog(|catalog, batch| {
        let before = catalog.concerns.clone().unwrap_or_default();
        let before = |name| before.as_doc().get(name).map(value::OwnedVal::new);
        let kept = before("defaultWriteConcern");
        let written = match written {
            Some(doc) if doc.is_empty() && kept.is_some() => {
                return Err(Error::new(
                    Code::ILLEGAL_OPERATION,
                    "The global default write concern cannot be unset once it is set.",
                ));
            }
            Some(doc) if !doc.is_empty() => {
                let wish = stored_write_concern(doc)?;
                Some(value::OwnedVal::new(Val::Document(wish.as_doc())))
            }
            _ => kept,
        };
        let kept = before("defaultReadConcern");
        let concerns = DocBuf::build(|out| {
            match level {
                Some("") => {}
                Some(level) => {
                    out.doc("defaultReadConcern", |out| {
                        out.str("level", level);
                    });
                }
                None => {
                    out.append(
                        "defaultReadConcern",
                        kept.as_ref().map_or(Val::Missing, |k| k.get()),
                    );
                }
            }
            let written = written.as_ref().map_or(Val::Missing, value::OwnedVal::get);
            out.append("defaultWriteConcern", written);
            out.append("updateOpTime", Val::Timestamp(time));
            out.append("updateWallClockTime", Val::DateTime(crate::clock::now_ms()));
        });
        batch.put(Space::Catalog, &persist::concerns_key(), concerns.bytes());
        catalog.concerns = Some(Arc::new(concerns.clone()));
        Ok(concerns)
    })?;
    let durable = engine.data.catalog.load().reads_durably();
    engine.data.durable_reads.store(durable, Ordering::Relaxed);
    write(Some(concerns.as_doc()), false, out);
    Ok(())
}

/// The level of a read concern; empty when the default is removed.
fn read_level(doc: RawDoc<'_>) -> Result<&str> {
    if doc.is_empty() {
        return Ok("");
    }
    let concern = super::read_concern::ReadConcern::parse(Val::Document(doc))?;
    match concern.level {
        Some(level @ ("local" | "available" | "majority")) if doc.count() == 1 => Ok(level),
        Some(level @ ("linearizable" | "snapshot")) => Err(Error::bad_value(format!(
            "level: '{level}' is not suitable for the default read concern"
        ))),
        _ => Err(Error::bad_value("the default read concern has a level and nothing else")),
    }
}

/// A write concern in its stored form.
fn stored_write_concern(doc: RawDoc<'_>) -> Result<DocBuf> {
    let body = DocBuf::build(|out| {
        out.append("writeConcern", Val::Document(doc));
    });
    let concern = WriteConcern::parse(body.as_doc())?;
    if doc.get("w").and_then(Val::as_i64_exact) == Some(0) {
        return Err(Error::bad_value(
            "Unacknowledged write concern is not suitable for the default write concern",
        ));
    }
    concern.check_satisfiable()?;
    Ok(DocBuf::build(|out| {
        out.append("w", doc.get("w").unwrap_or(Val::Int32(1)));
        out.append("j", doc.get("j").unwrap_or(Val::Missing));
        let timeout = doc.get("wtimeout").and_then(Val::as_i64_exact).unwrap_or(0);
        out.i32("wtimeout", i32::try_from(timeout).unwrap_or(i32::MAX));
    }))
}
