//! `dataSize`: returns the size of a collection's documents.

use super::row::Required;
use super::{Command, Context};
use crate::access::Authorization;
use crate::namespace::Namespace;
use ::access::Action;
use std::time::Instant;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "dataSize",
    aliases: &["datasize"],
    help: "Returns the size of a collection's documents.",
    fields: Some(&["dataSize", "datasize", "keyPattern", "min", "max", "estimate"]),
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
    for name in ["keyPattern", "min", "max"] {
        if args.get(name).is_some() {
            return Err(Error::new(
                Code::NOT_IMPLEMENTED,
                format!("dataSize of a range ('{name}') is not available in this version"),
            ));
        }
    }
    let collection = context.engine.data.collection(&name.db, &name.collection);
    if let Some(collection) = &collection {
        // The size is updated with every write, so it is exact.
        out.bool("estimate", false);
        out.count("size", collection.counters.bytes());
        out.count("numObjects", collection.counters.documents());
    } else {
        out.i32("size", 0).i32("numObjects", 0);
    }
    out.count("millis", started.elapsed().as_millis() as u64);
    Ok(())
}

fn may_read_size(auth: &Authorization<'_>) -> bool {
    auth.on_namespace(auth.collection(), &[Action::Find])
}
