//! `$changeStream`: watches a collection, a database or the server. This file reads its options and
//! the stages after it; the command opens the stream.

use super::StageRow;
use super::change_stream_split::NAME as SPLIT;
use super::privileges::{PipelinePrivileges, Privilege, flag};
use super::row::{Position, Runs, Source};
use crate::args::Args;
use crate::change_streams::{Image, ResumePoint, Start, StreamOptions, Watched};
use crate::txn::Data;
use ::access::{Action, Actions};
use value::{Code, DocBuf, Error, RawDoc, RawVal, Result, Val, writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$changeStream",
    help: "Watches the changes of a collection, a database or the server.",
    position: Position::First,
    source: Source::Either,
    in_transactions: false,
    runs: Runs::InChangeStream,
    privilege: Privilege::Source(privilege),
    ..StageRow::BASE
};

fn privilege(client: &PipelinePrivileges<'_>, collection: Option<&str>, spec: Val<'_>) -> bool {
    let both = Actions::of(&[Action::Find, Action::ChangeStream]);
    match collection {
        _ if flag(spec, "allChangesForCluster") => {
            client.privileges.on_any_collection().contains(both)
        }
        Some(name) => client.privileges.on_collection(client.db, name).contains(both),
        None => client.privileges.on_database(client.db).contains(both),
    }
}

/// Returns the specification, if a pipeline begins with `$changeStream`.
pub(crate) fn specification(pipeline: RawDoc<'_>) -> Option<RawVal<'_>> {
    let (name, value) = pipeline.first()?.1.as_doc()?.first()?;
    (name == ROW.name).then_some(value)
}

/// Reads the options: what is watched and returned, and where the stream begins.
///
/// # Errors
/// When an option is malformed.
pub(crate) fn parse(
    data: &Data,
    db: &str,
    name: Option<&str>,
    specification: RawVal<'_>,
) -> Result<(StreamOptions, Start)> {
    let Some(specification) = specification.as_doc() else {
        return Err(Error::new(
            Code(6_188_500),
            "$changeStream must take a nested object but found: $changeStream",
        ));
    };
    let args = &Args::new("$changeStream", specification);
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
            "showRawUpdateDescription",
            "allowToRunOnConfigDB",
            "allowToRunOnSystemNS",
        ],
        false,
    )?;
    let before = image(args, "fullDocumentBeforeChange", "off")?;
    let wanted = StreamOptions {
        watched: watched(data, db, args, name)?,
        full_document: image(args, "fullDocument", "default")?,
        before,
        expanded: args.bool("showExpandedEvents")?,
        system: args.bool("showSystemEvents")?,
        raw_updates: args.bool("showRawUpdateDescription")?,
    };
    // There are no shards, so documents do not move between them.
    args.bool("showMigrationEvents")?;
    Ok((wanted, start(args)?))
}

fn watched(data: &Data, db: &str, args: &Args<'_>, name: Option<&str>) -> Result<Watched> {
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
    if data.collection(db, name).is_some_and(|found| found.view().is_some()) {
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
    let place = ResumePoint::parse(token)?;
    if place.is_end() && resume.is_some() {
        return Err(Error::new(
            Code::INVALID_RESUME_TOKEN,
            "Attempting to resume a change stream using 'resumeAfter' is not allowed from an \
             invalidate notification",
        ));
    }
    Ok(Start::After(place))
}

/// The stages after `$changeStream`, and whether large events are split.
pub(crate) fn rest_of(pipeline: RawDoc<'_>) -> Result<(DocBuf, bool)> {
    let mut split = false;
    let mut rest = Vec::new();
    for (_, stage) in pipeline.iter().skip(1) {
        let Some((name, value)) = stage.as_doc().and_then(RawDoc::first) else {
            // `parse` reports what is wrong with it.
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
        if super::find(name).is_some_and(|row| !row.in_change_streams) {
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
