//! Statistics of queries by shape, for `$queryStats`.
//!
//! Nothing is collected unless `internalQueryStatsRateLimit` is set; then a query costs one table
//! lookup. Only shapes are kept, never values.
//!
//! Layer: queries.

mod shape;

use crate::clock;
use crate::operation::{Cost, Operation};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use value::ejson::base64;
use value::{Decimal128, DocBuf, RawDoc, Val, Writer};

/// The most bytes of shapes that are kept; the least recently seen ones are removed.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// The approximate size of an entry in addition to its shape, in bytes.
const ENTRY_BYTES: usize = 512;

/// Longer commands are not recorded, because reading them would cost too much.
const COMMAND_BYTES_MAX: usize = 1024 * 1024;

/// The statistics of all shapes.
#[derive(Default)]
pub(crate) struct QueryStats {
    /// The most queries recorded per second; 0 records none, a negative number all.
    pub(crate) rate_limit: AtomicI64,
    shapes: Mutex<Shapes>,
}

#[derive(Default)]
struct Shapes {
    entries: HashMap<Vec<u8>, Metrics>,
    bytes: usize,
    /// The current second, and the number of queries recorded in it.
    second: (i64, i64),
}

/// The statistics of the queries of one shape.
struct Metrics {
    runs: u64,
    last_micros: u64,
    total_micros: Spread,
    first_micros: Spread,
    returned: Spread,
    keys: Spread,
    documents: Spread,
    first_seen_ms: i64,
    last_seen_ms: i64,
}

/// The sum, minimum, maximum and sum of squares of a figure.
#[derive(Default, Clone, Copy)]
struct Spread {
    sum: u64,
    max: u64,
    min: Option<u64>,
    squares: u128,
}

impl Spread {
    fn add(&mut self, value: u64) {
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
        let square = u128::from(value) * u128::from(value);
        self.squares = self.squares.saturating_add(square);
    }

    fn write(&self, out: &mut Writer<'_>, name: &str) {
        out.doc(name, |out| {
            let long = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            out.i64("sum", long(self.sum)).i64("max", long(self.max));
            out.i64("min", long(self.min.unwrap_or(0)));
            let squares = Decimal128::parse(&self.squares.to_string());
            out.append("sumOfSquares", Val::Decimal(squares.unwrap_or(Decimal128::ZERO)));
        });
    }
}

/// How names are shown.
pub(crate) enum Names<'k> {
    /// As they are.
    Plain,
    /// As a keyed hash, for readers who may not see them.
    Hashed(&'k [u8]),
}

impl QueryStats {
    /// Whether queries are recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.rate_limit.load(Ordering::Relaxed) != 0
    }

    /// Records a query that succeeded: the command, or its first batch.
    pub(crate) fn note(&self, op: &Operation, command: RawDoc<'_>, elapsed: Duration) {
        let client = op.slot().metadata.lock().clone();
        let Some(key) = key_of(command, client.as_ref().map(DocBuf::as_doc)) else { return };
        let (now, cost) = (clock::now_ms(), op.cost());
        let mut shapes = self.shapes.lock();
        let second = now.div_euclid(1000);
        if shapes.second.0 != second {
            shapes.second = (second, 0);
        }
        let limit = self.rate_limit.load(Ordering::Relaxed);
        if limit >= 0 && shapes.second.1 >= limit {
            return;
        }
        shapes.second.1 += 1;
        let metrics = shapes.entry(key.into_bytes(), now);
        metrics.runs += 1;
        metrics.first_micros.add(micros(elapsed));
        metrics.add(cost, elapsed, now);
    }

    /// Adds the cost of a further batch of a query.
    pub(crate) fn note_more(&self, op: &Operation, command: RawDoc<'_>, elapsed: Duration) {
        let client = op.slot().metadata.lock().clone();
        let Some(key) = key_of(command, client.as_ref().map(DocBuf::as_doc)) else { return };
        let mut shapes = self.shapes.lock();
        if let Some(metrics) = shapes.entries.get_mut(key.bytes()) {
            metrics.add(op.cost(), elapsed, clock::now_ms());
        }
    }

    /// The documents of `$queryStats`.
    pub(crate) fn documents(&self, names: &Names<'_>) -> Vec<DocBuf> {
        let as_of = clock::now_timestamp();
        let shapes = self.shapes.lock();
        let write = |(key, metrics): (&Vec<u8>, &Metrics)| {
            DocBuf::build(|out| {
                let key = RawDoc::new(key);
                out.doc("key", |out| shape::show(key, names, out));
                out.str("keyHash", &base64::encode(&hash_of(key.bytes())));
                if let Some(Val::Document(query)) = key.get("queryShape") {
                    let hash = hash_of(query.bytes());
                    let digits = hash.iter().map(|byte| format!("{byte:02X}"));
                    out.str("queryShapeHash", &digits.collect::<String>());
                }
                out.doc("metrics", |out| metrics.write(out));
                out.append("asOf", Val::Timestamp(as_of));
            })
        };
        shapes.entries.iter().map(write).collect()
    }
}

impl Shapes {
    fn entry(&mut self, key: Vec<u8>, now: i64) -> &mut Metrics {
        if !self.entries.contains_key(&key) {
            self.bytes += key.len() + ENTRY_BYTES;
            if self.bytes > BYTES_MAX {
                self.forget();
            }
        }
        self.entries.entry(key).or_insert_with(|| Metrics::new(now))
    }

    /// Removes the least recently seen eighth of the shapes.
    fn forget(&mut self) {
        let mut seen: Vec<i64> = self.entries.values().map(|entry| entry.last_seen_ms).collect();
        let eighth = seen.len() / 8;
        let (_, limit, _) = seen.select_nth_unstable(eighth);
        let limit = *limit;
        let mut left = eighth + 1;
        self.entries.retain(|key, entry| {
            let goes = entry.last_seen_ms <= limit && left > 0;
            if goes {
                left -= 1;
                self.bytes = self.bytes.saturating_sub(key.len() + ENTRY_BYTES);
            }
            !goes
        });
    }
}

impl Metrics {
    fn new(now: i64) -> Metrics {
        Metrics {
            runs: 0,
            last_micros: 0,
            total_micros: Spread::default(),
            first_micros: Spread::default(),
            returned: Spread::default(),
            keys: Spread::default(),
            documents: Spread::default(),
            first_seen_ms: now,
            last_seen_ms: now,
        }
    }

    fn add(&mut self, cost: Cost, elapsed: Duration, now: i64) {
        self.last_micros = micros(elapsed);
        self.last_seen_ms = now;
        self.total_micros.add(micros(elapsed));
        self.returned.add(cost.returned);
        self.keys.add(cost.keys);
        self.documents.add(cost.documents);
    }

    fn write(&self, out: &mut Writer<'_>) {
        let long = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        out.i64("lastExecutionMicros", long(self.last_micros));
        out.i64("execCount", long(self.runs));
        self.total_micros.write(out, "totalExecMicros");
        self.first_micros.write(out, "firstResponseExecMicros");
        self.returned.write(out, "docsReturned");
        self.keys.write(out, "keysExamined");
        self.documents.write(out, "docsExamined");
        out.append("firstSeenTimestamp", Val::DateTime(self.first_seen_ms));
        out.append("latestSeenTimestamp", Val::DateTime(self.last_seen_ms));
    }
}

fn micros(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}

fn hash_of(bytes: &[u8]) -> Vec<u8> {
    access::scram::hash_sha256(bytes)
}

/// The key by which queries are counted together: their shape and their client.
fn key_of(command: RawDoc<'_>, client: Option<RawDoc<'_>>) -> Option<DocBuf> {
    if command.bytes().len() > COMMAND_BYTES_MAX {
        return None;
    }
    let query = shape::of_command(command)?;
    Some(DocBuf::build(|out| {
        out.append("queryShape", Val::Document(query.as_doc()));
        let application = client.and_then(|client| client.get("application"));
        if let Some(Val::Document(application)) = application {
            out.doc("client", |out| {
                out.append("application", Val::Document(application));
            });
        }
        for name in ["apiVersion", "apiStrict", "apiDeprecationErrors"] {
            if let Some(value) = command.find(name) {
                out.raw(name, value);
            }
        }
        out.str("collectionType", "collection");
    }))
}
