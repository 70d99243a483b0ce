//! Time-series collections: what the option `timeseries` of a collection says.

use std::sync::Arc;
use value::{Code, Error, RawDoc, Result, Val};

/// The name of the pattern that stores the documents of a time-series collection.
pub const PATTERN: &str = "timeseries";

/// The start of the names under which the buckets of time-series collections are read.
pub const BUCKETS: &str = "system.buckets.";

/// The fields and the spans of a time-series collection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimeSeries {
    /// The field with the date.
    pub time: Box<str>,
    /// The field that names the series, if there is one.
    pub meta: Option<Box<str>>,
    /// The longest span of time of a bucket, in seconds.
    pub span_seconds: i64,
    /// The unit, in seconds, to which the lowest time of a bucket is rounded down.
    pub rounding_seconds: i64,
}

/// The span of a bucket and the rounding of its start, in seconds, for a granularity.
#[must_use]
pub fn seconds_of(granularity: &str) -> (i64, i64) {
    match granularity {
        "minutes" => (86_400, 3600),
        "hours" => (2_592_000, 86_400),
        _ => (3600, 60),
    }
}

impl TimeSeries {
    /// Reads the (checked) options of a collection.
    #[must_use]
    pub fn of(options: RawDoc<'_>) -> Option<Arc<TimeSeries>> {
        let series = options.get("timeseries").and_then(Val::as_doc)?;
        let granularity = series.get("granularity").and_then(Val::as_str).unwrap_or("seconds");
        let (span, rounding) = seconds_of(granularity);
        let seconds = |name| series.get(name).and_then(Val::as_i64_exact);
        Some(Arc::new(TimeSeries {
            time: series.get("timeField").and_then(Val::as_str)?.into(),
            meta: series.get("metaField").and_then(Val::as_str).map(Into::into),
            span_seconds: seconds("bucketMaxSpanSeconds").unwrap_or(span),
            rounding_seconds: seconds("bucketRoundingSeconds").unwrap_or(rounding),
        }))
    }

    /// Refuses a document without a date in the time field.
    ///
    /// # Errors
    /// BadValue.
    #[inline]
    pub fn check(&self, doc: RawDoc<'_>) -> Result<()> {
        match doc.get(&self.time) {
            Some(Val::DateTime(_)) => Ok(()),
            _ => Err(Error::new(
                Code::BAD_VALUE,
                format!(
                    "'{}' must be present and contain a valid BSON UTC datetime value",
                    self.time
                ),
            )),
        }
    }
}
