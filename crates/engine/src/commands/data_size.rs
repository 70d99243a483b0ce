//! `dataSize`: returns the size of a collection's documents.

use super::row::Required;
use super::{Command, Context};
use crate::access::Authorization;
use crate::namespace::Namespace;
use ::access::Action;
use std::time::Instant;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "dataSize",
    aliases: &["datasize"],
    help: "Returns the size of a collection's documents.",
    fields: Some(&[
        "dataSize",
        "datasize",
        "keyPattern",
        "min",
        "max",
        "estimate",
        "maxSize",
        "maxObjects",
    ]),
    privilege: Required::Custom(may_read_size),
    run: data_size,
    ..Command::BASE
};

fn data_size(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let started = Instant::now();
    let args = &context.args;
    let text = args.doc.first().and_then(|(_, name)| name.get().as_str());
    let text = text.ok_or_else(|| args.missing("dataSize"))?;
    let name = Namespace::parse(text).map_err(|_| {
        Error::new(Code::INVALID_NAMESPACE, format!("Invalid namespace specified '{text}'"))
    })?;
    let (min, max) = (args.optional_doc("min")?, args.optional_doc("max")?);
    let pattern = args.optional_doc("keyPattern")?;
    let (min, max) = (min.filter(|min| !min.is_empty()), max.filter(|max| !max.is_empty()));
    if min.is_some() != max.is_some() {
        return Err(Error::bad_value("only one of min or max specified"));
    }
    let collection = context.engine.data.collection(&name.db, &name.collection);
    let limit = |name| -> Result<Option<u64>> {
        Ok(args.optional_i64(name)?.and_then(|limit| u64::try_from(limit).ok()).filter(|n| *n > 0))
    };
    let limits = Limits { size: limit("maxSize")?, objects: limit("maxObjects")? };
    let range = min.zip(max);
    if (range.is_some() || limits.are_set()) && collection.is_some() {
        let (size, count, reached) = read(context, &name, pattern, range, &limits)?;
        out.bool("estimate", false);
        if reached {
            out.bool("maxReached", true);
        }
        out.count("size", size).count("numObjects", count);
    } else if let Some(collection) = &collection {
        // The size is updated with every write, so it is exact also where an estimate would do.
        out.bool("estimate", args.bool("estimate")?);
        out.count("size", collection.counters.bytes());
        out.count("numObjects", collection.counters.documents());
    } else {
        out.i32("size", 0).i32("numObjects", 0);
    }
    out.count("millis", started.elapsed().as_millis() as u64);
    Ok(())
}

/// Where reading ends early.
struct Limits {
    size: Option<u64>,
    objects: Option<u64>,
}

impl Limits {
    fn are_set(&self) -> bool {
        self.size.is_some() || self.objects.is_some()
    }

    fn are_passed(&self, size: u64, count: u64) -> bool {
        self.size.is_some_and(|limit| size > limit)
            || self.objects.is_some_and(|limit| count > limit)
    }
}

/// The size and number of the documents between two keys of an index, or of all, and whether a limit
/// was passed. Without a pattern the index is the one that has the fields of the lower key.
fn read(
    context: &Context<'_>,
    name: &Namespace,
    pattern: Option<RawDoc<'_>>,
    range: Option<(RawDoc<'_>, RawDoc<'_>)>,
    limits: &Limits,
) -> Result<(u64, u64, bool)> {
    let find = DocBuf::build(|out| {
        out.str("find", &name.collection);
        let Some((min, max)) = range else { return };
        let of_bounds = DocBuf::build(|out| {
            for (field, _) in min {
                out.i32(field, 1);
            }
        });
        let hint = pattern.filter(|pattern| !pattern.is_empty()).unwrap_or(of_bounds.as_doc());
        out.append("hint", Val::Document(hint));
        out.append("min", Val::Document(min)).append("max", Val::Document(max));
    });
    let data = &context.engine.data;
    let (mut size, mut count) = (0, 0);
    let mut reply = data.run_command(&name.db, find.as_doc())?;
    loop {
        context.op.check_now()?;
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
        let batch = cursor.get("firstBatch").or(cursor.get("nextBatch")).and_then(Val::as_array);
        for (_, doc) in batch.unwrap_or(RawDoc::empty()) {
            size += doc.bytes.len() as u64;
            count += 1;
            if limits.are_passed(size, count) {
                return Ok((size, count, true));
            }
        }
        match cursor.get("id") {
            Some(Val::Int64(id)) if id != 0 => {
                let more = DocBuf::build(|out| {
                    out.i64("getMore", id).str("collection", &name.collection);
                });
                reply = data.run_command(&name.db, more.as_doc())?;
            }
            _ => return Ok((size, count, false)),
        }
    }
}

fn may_read_size(auth: &Authorization<'_>) -> bool {
    auth.on_namespace(auth.collection(), &[Action::Find])
}
