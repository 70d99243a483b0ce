//! `local.oplog.rs` as commands see it: a capped collection that only the server writes. Also
//! `replSetResizeOplog`, which sets how much of it is kept. `local.system.replset` is read in the same
//! way: its document is made up, too.

use super::find::{Request, first_batch, new_cursor};
use super::query::Constants;
use super::row::Required;
use super::{Command, Context, aggregate, replica_set};
use crate::change_streams::{Changes, oplog, retention};
use crate::cursor::Source;
use crate::exec::Stream;
use crate::exec::ready::Ready;
use crate::namespace::is_replica_set;
use crate::shared::Inner;
use crate::stages::pipeline;
use crate::stages::{self, StageContext};
use ::access::Action;
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static RESIZE: Command = Command {
    name: "replSetResizeOplog",
    help: "Changes the size and the minimum retention of the oplog.",
    fields: Some(&["replSetResizeOplog", "size", "minRetentionHours"]),
    admin: true,
    privilege: Required::Cluster(&[Action::ReplSetResizeOplog]),
    audited: true,
    run: resize,
    ..Command::BASE
};

fn resize(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let number = |name: &str| match args.get(name) {
        None => Ok(None),
        Some(value) => match value.as_f64().filter(|number| number.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(args.wrong_type(name, value, "[int, decimal, double, long]")),
        },
    };
    let megabytes = number("size")?;
    let hours = number("minRetentionHours")?;
    if let Some(size) = megabytes.filter(|size| *size < retention::MEGABYTES_LEAST) {
        return Err(Error::new(
            Code(51024),
            format!(
                "BSON field 'size' value must be >= {}, actual value '{size}'",
                retention::MEGABYTES_LEAST
            ),
        ));
    }
    if let Some(hours) = hours.filter(|hours| *hours < 0.0) {
        return Err(Error::new(
            Code(51024),
            format!("BSON field 'minRetentionHours' value must be >= 0, actual value '{hours}'"),
        ));
    }
    retention::resize(&context.engine.data, megabytes, hours)
}

/// Opens the documents of a collection for stages to read; `backwards` returns the newest first.
fn entries(
    context: &Context<'_>,
    name: &str,
    filter: RawDoc<'_>,
    backwards: bool,
) -> Result<Box<dyn Stream>> {
    let engine = context.engine;
    if is_replica_set(context.db, name) {
        return Ok(Box::new(Ready(replica_set::documents(context).into_iter())));
    }
    if backwards {
        return Ok(Box::new(oplog::Backward::open(&engine.data)?));
    }
    let from = oplog::earliest(filter);
    Ok(Box::new(oplog::Forward::open(&engine.data, Arc::downgrade(&context.engine.data), from)?))
}

/// Runs a pipeline over the entries.
pub(super) fn open(
    context: &Context<'_>,
    name: &str,
    stages: RawDoc<'_>,
    backwards: bool,
) -> Result<Box<dyn Stream>> {
    let constants = Constants::new(context)?;
    let scope = aggregate::scope(context);
    let stage_context = StageContext::new(constants.context(), &scope, context.db);
    let parsed = stages::parse(stages, &stage_context)?;
    let first = stages.first().and_then(|(_, stage)| stage.as_doc());
    let filter = first.and_then(|stage| stage.get("$match")).and_then(Val::as_doc);
    let entries = entries(context, name, filter.unwrap_or(RawDoc::empty()), backwards)?;
    Ok(pipeline::open_stages(&parsed, entries))
}

/// Runs a find on the oplog, or on the configuration of the replica set.
pub(super) fn find(
    context: &mut Context<'_>,
    name: &str,
    request: &Request<'_>,
    out: &mut Writer<'_>,
) -> Result<()> {
    let natural = |doc: Option<RawDoc<'_>>| doc?.get("$natural")?.as_f64();
    let hint = request.find.hint.and_then(Val::as_doc);
    let order = natural(request.find.sort).or(natural(hint));
    let backwards = order.is_some_and(|order| order < 0.0);
    if request.tailable && is_replica_set(context.db, name) {
        return Err(Error::bad_value("a tailable cursor needs a capped collection"));
    }
    if request.tailable && (backwards || request.find.sort.is_some() && order.is_none()) {
        return Err(Error::bad_value(
            "cannot use tailable option with a sort other than {$natural: 1}",
        ));
    }
    let stages = aggregate::find_stages(&request.find, order.is_none());
    let stream = open(context, name, stages.as_doc(), backwards)?;
    let source = if request.tailable {
        Source::Changes(Box::new(Changes::of_oplog(stream, request.await_data)))
    } else {
        Source::Stream(stream)
    };
    let namespace = format!("local.{name}");
    let cursor = new_cursor(context, source, namespace, None, request.no_timeout);
    first_batch(context, cursor, request.batch_size, request.single_batch, out)
}

/// Counts the entries that match.
pub(super) fn count(context: &Context<'_>, name: &str, filter: RawDoc<'_>) -> Result<u64> {
    let mut stages = Vec::new();
    value::writer::write_array(&mut stages, |out| {
        out.push_doc(|out| {
            out.append("$match", Val::Document(filter));
        });
    });
    let mut stream = open(context, name, RawDoc::new(&stages), false)?;
    let mut count = 0;
    while stream.next(context.op)?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// The oplog as `listCollections` shows it.
pub(super) fn describe(engine: &Inner) -> DocBuf {
    DocBuf::build(|out| {
        out.str("name", "oplog.rs").str("type", "collection");
        out.doc("options", |out| {
            out.bool("capped", true).count("size", engine.data.changes.bytes_max());
            out.bool("autoIndexId", false);
        });
        out.doc("info", |out| {
            out.bool("readOnly", false).append("uuid", Val::Binary(4, &oplog::UUID));
        });
    })
}
