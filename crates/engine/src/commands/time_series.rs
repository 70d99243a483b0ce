//! The option `timeseries` of `create` and of `collMod`.

use super::{Context, modify_pattern};
use crate::args::Args;
use crate::catalog::time_series::{PATTERN, seconds_of};
use crate::catalog::{Collection, TimeSeries};
use ::patterns::declaration;
use ::patterns::kinds::time_series as declared;
use value::{Code, DocBuf, Error, Result, Val};

/// The longest span of a bucket, in seconds: a year.
const SECONDS_MAX: i64 = 31_536_000;

/// Options of `create` that a time-series collection cannot have.
static REFUSED: &[&str] = &[
    "autoIndexId",
    "capped",
    "changeStreamPreAndPostImages",
    "clusteredIndex",
    "idIndex",
    "validationAction",
    "validationLevel",
    "validator",
    "viewOn",
];

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::INVALID_OPTIONS, message)
}

/// Reads the option `timeseries` of `create` into its stored form.
///
/// # Errors
/// InvalidOptions for options that exclude each other and for fields that cannot name a series.
pub(super) fn options(args: &Args<'_>, db: &str) -> Result<Option<DocBuf>> {
    let Some(given) = args.optional_doc("timeseries")? else { return Ok(None) };
    let given = Args::new("create.timeseries", given);
    let known =
        ["timeField", "metaField", "granularity", "bucketMaxSpanSeconds", "bucketRoundingSeconds"];
    given.check_fields(&known, false)?;
    let time = given.string("timeField")?;
    let meta = given.optional_string("metaField")?;
    let spans = Spans::read(&given)?;
    let namespace =
        || format!("{db}.{}", args.doc.first().and_then(|(_, v)| v.get().as_str()).unwrap_or(""));
    if args.get("encryptedFields").is_some() {
        let message = "Encrypted fields cannot be used with views or timeseries collections";
        return Err(Error::new(Code(6_346_401), message));
    }
    if let Some(name) = REFUSED.iter().find(|name| args.get(name).is_some()) {
        return Err(invalid(format!("{}: 'timeseries' is not allowed with '{name}'", namespace())));
    }
    if args.optional_doc("collation")?.is_some_and(|collation| !super::create::is_simple(collation))
    {
        return Err(invalid(format!(
            "{}: 'collation' is not available for time-series collections in this version",
            namespace()
        )));
    }
    for (option, field) in [("timeField", Some(time)), ("metaField", meta)] {
        if field.is_some_and(|field| field.contains('.')) {
            return Err(invalid(format!(
                "{}: '{option}' must be a top-level field and not contain a '.'",
                namespace()
            )));
        }
        if field == Some("_id") {
            return Err(invalid(format!("'{option}' cannot be \"_id\"")));
        }
    }
    if meta == Some(time) {
        return Err(invalid("'metaField' cannot be the same as 'timeField'"));
    }
    let stored = DocBuf::build(|out| {
        out.str("timeField", time);
        if let Some(meta) = meta {
            out.str("metaField", meta);
        }
        spans.write(out);
    });
    let declaration = declared::declaration(PATTERN, time, meta, spans.span);
    if declaration::parse("", declaration.as_doc()).is_err() {
        return Err(invalid(format!(
            "{}: 'timeField' and 'metaField' must be names of fields: not empty, no number, and \
             without '$' at the start",
            namespace()
        )));
    }
    Ok(Some(stored))
}

/// How long buckets are.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Spans {
    /// One of MongoDB's words, or spans in seconds.
    granularity: Option<String>,
    span: i64,
    rounding: i64,
}

impl Spans {
    /// Reads the options. Without any the granularity is `seconds`.
    fn read(args: &Args<'_>) -> Result<Spans> {
        let words = ["seconds", "minutes", "hours"];
        let granularity = super::create::choice(args, "granularity", &words)?;
        let seconds = |name| super::create::positive(args, name, SECONDS_MAX);
        let (span, rounding) =
            (seconds("bucketMaxSpanSeconds")?, seconds("bucketRoundingSeconds")?);
        if granularity.is_none()
            && let (Some(span), Some(rounding)) = (span, rounding)
        {
            return match span == rounding {
                true => Ok(Spans { granularity: None, span, rounding }),
                false => Err(invalid(
                    "Timeseries 'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' must be equal",
                )),
            };
        }
        let word = granularity.unwrap_or("seconds");
        let known = seconds_of(word);
        for (name, given, wanted) in
            [("bucketMaxSpanSeconds", span, known.0), ("bucketRoundingSeconds", rounding, known.1)]
        {
            if given.is_some_and(|given| given != wanted) {
                return Err(Error::new(
                    Code(5_510_500),
                    format!(
                        "Timeseries '{name}' is not configurable to a value other than the default \
                         of {wanted} for the provided granularity; without a granularity \
                         'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' can be set together"
                    ),
                ));
            }
        }
        Ok(Spans { granularity: Some(word.to_owned()), span: known.0, rounding: known.1 })
    }

    /// Writes them as `listCollections` shows them.
    fn write(&self, out: &mut value::Writer<'_>) {
        match &self.granularity {
            Some(word) => out.str("granularity", word),
            None => out.append("bucketRoundingSeconds", seconds(self.rounding)),
        };
        out.append("bucketMaxSpanSeconds", seconds(self.span));
    }
}

/// Seconds as MongoDB stores them, in 32 bits.
fn seconds(seconds: i64) -> Val<'static> {
    i32::try_from(seconds).map_or(Val::Int64(seconds), Val::Int32)
}

/// The declaration of the pattern that stores the documents of a time-series collection.
pub(super) fn declaration_of(series: &TimeSeries) -> DocBuf {
    declared::declaration(PATTERN, &series.time, series.meta.as_deref(), series.span_seconds)
}

/// Reads the option `timeseries` of `collMod` into the stored form; `None` without it.
///
/// # Errors
/// InvalidOptions for other collections, and for buckets that would become shorter.
pub(super) fn modified(args: &Args<'_>, collection: &Collection) -> Result<Option<DocBuf>> {
    let Some(given) = args.optional_doc("timeseries")? else { return Ok(None) };
    let given = Args::new("collMod.timeseries", given);
    let names = ["granularity", "bucketMaxSpanSeconds", "bucketRoundingSeconds"];
    given.check_fields(&names, false)?;
    let Some(series) = &collection.time_series else {
        return Err(invalid("option only supported on a time-series collection: timeseries"));
    };
    let Some(first) = names.iter().find(|name| given.get(name).is_some()) else { return Ok(None) };
    let spans = Spans::read(&given)?;
    if spans.span < series.span_seconds || spans.rounding < series.rounding_seconds {
        return Err(invalid(format!(
            "Invalid transition for timeseries.{first}. Can only transition from 'seconds' to \
             'minutes' or 'minutes' to 'hours'."
        )));
    }
    Ok(Some(DocBuf::build(|out| {
        out.str("timeField", &series.time);
        if let Some(meta) = &series.meta {
            out.str("metaField", meta);
        }
        spans.write(out);
    })))
}

/// Stores the points of a time-series collection in buckets of the span that its options have now.
///
/// # Errors
/// When the store fails, or the operation is interrupted.
pub(super) fn follow(context: &Context<'_>, name: &str) -> Result<()> {
    let collection = context.engine.data.collection(context.db, name);
    let Some(series) = collection.and_then(|collection| collection.time_series.clone()) else {
        return Ok(());
    };
    let set = DocBuf::build(|out| {
        out.str("span", &declared::span(series.span_seconds));
    });
    modify_pattern::apply(context, name, PATTERN, set.as_doc(), true)
}
