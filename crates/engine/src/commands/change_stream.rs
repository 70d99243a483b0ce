//! `$changeStream`: a pipeline that follows the log of changes.

use super::args::Args;
use super::find::{first_batch, new_cursor};
use super::query::Constants;
use super::{Context, aggregate};
use crate::changes::{Changes, Feed, Image, Place, Start, Wanted, Watched};
use crate::cursor::Source;
use crate::stages::pipeline;
use crate::stages::{self, StageContext};
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, RawVal, Result, Val, Writer, writer};

/// Stages that may follow: those that look at one event at a time.
static ALLOWED: &[&str] = &[
    "$addFields",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
];

const SPLIT: &str = "$changeStreamSplitLargeEvent";

/// The stages that only a pipeline over the log of changes has, and what they do.
pub static STAGES: &[(&str, &str)] = &[
    ("$changeStream", "Follows what happens to a collection, a database or the server."),
    (SPLIT, "Splits change events that are too large for one document."),
];

/// The specification, if a pipeline begins with `$changeStream`.
pub(super) fn specification(pipeline: RawDoc<'_>) -> Option<RawVal<'_>> {
    let (name, value) = pipeline.first()?.1.as_doc()?.first()?;
    (name == "$changeStream").then_some(value)
}

/// Opens a change stream and writes its first batch.
pub(super) fn run(
    context: &mut Context<'_>,
    name: Option<&str>,
    pipeline: RawDoc<'_>,
    specification: RawVal<'_>,
    batch_size: Option<u64>,
    out: &mut Writer<'_>,
) -> Result<()> {
    let Some(specification) = specification.as_doc() else {
        return Err(Error::new(
            Code(6_188_500),
            "$changeStream must take a nested object but found: $changeStream",
        ));
    };
    let args = Args::new("$changeStream", specification);
    let (wanted, start) = parse(context, &args, name)?;
    check_read_concern(context)?;
    let (rest, split) = rest_of(pipeline)?;
    let constants = Constants::new(context)?;
    let scope = aggregate::scope(context);
    let stage_context = StageContext::new(constants.context(), &scope, context.db);
    let parsed = stages::parse(rest.as_doc(), &stage_context)?;
    let feed =
        Feed::open(&context.engine.data, Arc::downgrade(&context.engine.data), wanted, &start)?;
    let changes = Changes::of_events(feed, split, |feed| pipeline::follow(&parsed, feed));
    let namespace = format!("{}.{}", context.db, name.unwrap_or("$cmd.aggregate"));
    let source = Source::Changes(Box::new(changes));
    let cursor = new_cursor(context, source, namespace, None, false);
    first_batch(context, cursor, batch_size, false, out)
}

fn parse(context: &Context<'_>, args: &Args<'_>, name: Option<&str>) -> Result<(Wanted, Start)> {
    args.check_fields(
        &[
            "fullDocument",
            "fullDocumentBeforeChange",
            "resumeAfter",
            "startAfter",
            "startAtOperationTime",
            "allChangesForCluster",
            "showExpandedEvents",
            "showSystemEvents",
            "showMigrationEvents",
            "allowToRunOnConfigDB",
            "allowToRunOnSystemNS",
        ],
        false,
    )?;
    let before = image(args, "fullDocumentBeforeChange", "off")?;
    let wanted = Wanted {
        watched: watched(context, args, name)?,
        full_document: image(args, "fullDocument", "default")?,
        before,
        expanded: args.bool("showExpandedEvents")?,
        system: args.bool("showSystemEvents")?,
    };
    // There are no shards between which documents could move.
    args.bool("showMigrationEvents")?;
    Ok((wanted, start(args)?))
}

fn watched(context: &Context<'_>, args: &Args<'_>, name: Option<&str>) -> Result<Watched> {
    let db = context.db;
    let internal = |what: &str| {
        Err(Error::new(
            Code::INVALID_NAMESPACE,
            format!("$changeStream may not be opened on the internal {what}"),
        ))
    };
    if args.bool("allChangesForCluster")? {
        if db != "admin" || name.is_some() {
            return Err(Error::new(
                Code::INVALID_OPTIONS,
                format!(
                    "A $changeStream with 'allChangesForCluster:true' may only be opened on the \
                     'admin' database, and with no collection name; found {db}.{}",
                    name.unwrap_or("$cmd.aggregate")
                ),
            ));
        }
        return Ok(Watched::Server);
    }
    if matches!(db, "admin" | "local") || db == "config" && !args.bool("allowToRunOnConfigDB")? {
        return internal(&format!("{db} database"));
    }
    let Some(name) = name else { return Ok(Watched::Database(db.to_owned())) };
    if name.starts_with("system.") && !args.bool("allowToRunOnSystemNS")? {
        return internal(&format!("{db}.{name} collection"));
    }
    if context.engine.data.collection(db, name).is_some_and(|found| found.view().is_some()) {
        return Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {db}.{name} is a view, not a collection"),
        ));
    }
    Ok(Watched::Collection { db: db.to_owned(), name: name.to_owned() })
}

fn image(args: &Args<'_>, field: &str, off: &str) -> Result<Image> {
    let word = args.optional_string(field)?.unwrap_or(off);
    match word {
        "updateLookup" if off == "default" => Ok(Image::Lookup),
        "whenAvailable" => Ok(Image::WhenAvailable),
        "required" => Ok(Image::Required),
        word if word == off => Ok(Image::Off),
        word => Err(Error::bad_value(format!(
            "Enumeration value '{word}' for field '$changeStream.{field}' is not a valid value."
        ))),
    }
}

fn start(args: &Args<'_>) -> Result<Start> {
    let resume = args.optional_doc("resumeAfter")?;
    let after = args.optional_doc("startAfter")?;
    let at = match args.get("startAtOperationTime") {
        None => None,
        Some(Val::Timestamp(time)) => Some(time),
        Some(other) => return Err(args.wrong_type("startAtOperationTime", other, "timestamp")),
    };
    if resume.is_some() && after.is_some() {
        return Err(Error::new(
            Code(50865),
            "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage",
        ));
    }
    if at.is_some() && (resume.is_some() || after.is_some()) {
        return Err(Error::new(
            Code(40674),
            "Only one type of resume option is allowed, but multiple were found",
        ));
    }
    if let Some(at) = at {
        return Ok(Start::At(at));
    }
    let Some(token) = resume.or(after) else { return Ok(Start::Now) };
    let place = Place::parse(token)?;
    if place.is_end() && resume.is_some() {
        return Err(Error::new(
            Code::INVALID_RESUME_TOKEN,
            "Attempting to resume a change stream using 'resumeAfter' is not allowed from an \
             invalidate notification",
        ));
    }
    Ok(Start::After(place))
}

/// The stages behind `$changeStream`, and whether large events are split.
fn rest_of(pipeline: RawDoc<'_>) -> Result<(DocBuf, bool)> {
    let mut split = false;
    let mut rest = Vec::new();
    for (_, stage) in pipeline.iter().skip(1) {
        let Some((name, value)) = stage.as_doc().and_then(RawDoc::first) else {
            // `stages::parse` says what is wrong with it.
            rest.push(stage);
            continue;
        };
        if split {
            return Err(Error::new(
                Code(7_182_802),
                format!("{SPLIT} must be the last stage in the pipeline"),
            ));
        }
        if name == SPLIT {
            if value.as_doc().is_none_or(|doc| !doc.is_empty()) {
                return Err(Error::new(
                    Code(7_182_800),
                    format!("{SPLIT} spec should be an empty object"),
                ));
            }
            split = true;
            continue;
        }
        if name == "$changeStream" {
            return Err(Error::new(
                Code(40602),
                "$changeStream is only valid as the first stage in a pipeline",
            ));
        }
        let known = stages::ALL.iter().any(|row| row.name == name)
            || super::diagnostics::ALL.iter().any(|row| row.name == name);
        if known && !ALLOWED.contains(&name) {
            return Err(Error::new(
                Code::ILLEGAL_OPERATION,
                format!("{name} is not permitted in a $changeStream pipeline"),
            ));
        }
        rest.push(stage);
    }
    let mut bytes = Vec::new();
    writer::write_array(&mut bytes, |out| rest.into_iter().for_each(|stage| out.push_raw(stage)));
    Ok((DocBuf::from_bytes(bytes), split))
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
