//! Opening change streams: the cursor of a pipeline that begins with `$changeStream`.

use super::find::{first_batch, new_cursor};
use super::query::Constants;
use super::{Context, aggregate};
use crate::change_streams::{Changes, Feed};
use crate::cursor::Source;
use crate::stages::{self, StageContext, change_stream, pipeline as pipelines};
use std::sync::Arc;
use value::{Code, Error, RawDoc, RawVal, Result, Val, Writer};

/// Opens a change stream and writes its first batch.
pub(super) fn run(
    context: &mut Context<'_>,
    name: Option<&str>,
    pipeline: RawDoc<'_>,
    specification: RawVal<'_>,
    batch_size: Option<u64>,
    out: &mut Writer<'_>,
) -> Result<()> {
    let (wanted, start) =
        change_stream::parse(&context.engine.data, context.db, name, specification)?;
    check_read_concern(context)?;
    let (rest, split) = change_stream::rest_of(pipeline)?;
    let constants = Constants::of_change_stream(context)?;
    let scope = aggregate::scope(context);
    let stage_context = StageContext::new(constants.context(), &scope, context.db);
    let parsed = stages::parse(rest.as_doc(), &stage_context)?;
    let feed =
        Feed::open(&context.engine.data, Arc::downgrade(&context.engine.data), wanted, &start)?;
    let changes = Changes::of_events(feed, split, |feed| pipelines::open_stages(&parsed, feed));
    let namespace = format!("{}.{}", context.db, name.unwrap_or("$cmd.aggregate"));
    let source = Source::Changes(Box::new(changes));
    let cursor = new_cursor(context, source, namespace, None, false);
    first_batch(context, cursor, batch_size, false, out)
}

fn check_read_concern(context: &Context<'_>) -> Result<()> {
    let concern = context.args.get("readConcern").and_then(Val::as_doc);
    match concern.and_then(|concern| concern.get("level")).and_then(Val::as_str) {
        None | Some("majority") => Ok(()),
        Some(level) => Err(Error::new(
            Code::INVALID_OPTIONS,
            format!(
                "Aggregation stage $changeStream cannot run with a readConcern other than \
                 'majority'. Current readConcern: {level}"
            ),
        )),
    }
}
