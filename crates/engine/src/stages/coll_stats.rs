//! `$collStats`: returns sizes and counts of a collection.

use super::diagnostics::{host, needs_collection};
use super::privileges::{PipelinePrivileges, Privilege};
use super::reported::Reported;
use super::row::{Runs, StableApi};
use super::{StageRow, sizes};
use crate::args::Args;
use crate::namespace::is_oplog;
use crate::txn::Data;
use ::access::Action;
use std::sync::atomic::Ordering;
use value::{Code, DocBuf, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$collStats",
    help: "Returns sizes and counts of a collection.",
    stable_api: StableApi::Option("count"),
    runs: Runs::AtOnceOrCompiled(|server, value, name| {
        make(server.data(), server.db(), value, needs_collection("$collStats", name)?)
    }),
    parse: |value, context| {
        requested(value)?;
        Reported::parse(&ROW, make, value, context)
    },
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

fn privilege(client: &PipelinePrivileges<'_>, collection: Option<&str>, _: Val<'_>) -> bool {
    client.on_collection(collection, Action::CollStats)
}

/// Whether an option is given, which must be an empty document.
fn has_empty(args: &Args<'_>, name: &str) -> Result<bool> {
    match args.optional_doc(name)? {
        Some(doc) if !doc.is_empty() => Err(Error::new(
            Code(31170),
            format!("expected an empty object, but got {}", query::expr::show_doc(doc)),
        )),
        given => Ok(given.is_some()),
    }
}

/// What the stage is asked for.
struct RequestedStats {
    /// The unit of sizes in bytes, if they are asked for.
    storage: Option<u64>,
    count: bool,
    /// How often the collection was scanned.
    scans: bool,
    /// With or without histograms.
    latency: Option<bool>,
}

fn requested(value: Val<'_>) -> Result<RequestedStats> {
    let Val::Document(doc) = value else {
        let shown = value::ejson::print_value(value, value::ejson::Format::Shell);
        return Err(Error::new(
            Code(5_447_000),
            format!("$collStats must take a nested object but found: $collStats: {shown}"),
        ));
    };
    let args = Args::new("$collStats", doc);
    args.check_fields(&["latencyStats", "storageStats", "count", "queryExecStats"], false)?;
    let storage = args.optional_doc("storageStats")?;
    let scale = match storage {
        Some(storage) => {
            let scale = Args::new("$collStats.storageStats", storage).optional_u64("scale")?;
            if scale == Some(0) {
                return Err(Error::new(
                    Code(51024),
                    "BSON field 'scale' value must be >= 1, actual value '0'",
                ));
            }
            scale
        }
        None => None,
    };
    let count = has_empty(&args, "count")?;
    let scans = has_empty(&args, "queryExecStats")?;
    let latency = match args.optional_doc("latencyStats")? {
        None => None,
        Some(latency) => {
            let args = Args::new("$collStats.latencyStats", latency);
            args.check_fields(&["histograms"], false)?;
            match args.get("histograms") {
                None => Some(false),
                Some(Val::Bool(histograms)) => Some(histograms),
                Some(other) => {
                    return Err(Error::type_mismatch(format!(
                        "Field 'histograms' should be a boolean value, but found: {}",
                        other.kind().name()
                    )));
                }
            }
        }
    };
    let storage = storage.map(|_| scale.unwrap_or(1).max(1));
    Ok(RequestedStats { storage, count, scans, latency })
}

fn make(data: &Data, db: &str, value: Val<'_>, name: &str) -> Result<Vec<DocBuf>> {
    let RequestedStats { storage, count, scans, latency } = requested(value)?;
    let collection = data.collection(db, name);
    let is_view = collection.as_ref().is_some_and(|collection| collection.view().is_some());
    if is_view && (count || scans || storage.is_some()) {
        return Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {}.{name} is a view, not a collection", db),
        ));
    }
    let is_oplog = is_oplog(db, name);
    if collection.is_none() && (count || scans) && !is_oplog {
        let what = if count { "count" } else { "queryExecStats" };
        return Err(Error::new(
            Code::NAMESPACE_NOT_FOUND,
            format!(
                "PlanExecutor error during aggregation :: caused by :: Unable to retrieve {what} \
                 in $collStats stage :: caused by :: Collection [{}.{name}] not found.",
                db
            ),
        ));
    }
    let documents = match &collection {
        Some(collection) => collection.counters.documents(),
        None if is_oplog => data.changes.sizes().1,
        None => 0,
    };
    Ok(vec![DocBuf::build(|out| {
        out.str("ns", &format!("{}.{name}", db));
        out.str("host", &host(data));
        out.append("localTime", Val::DateTime(crate::clock::now_ms()));
        if let Some(histograms) = latency {
            let unused = crate::usage::Usage::default();
            let usage = collection.as_ref().map_or(&unused, |found| &found.counters.usage);
            out.doc("latencyStats", |out| usage.write_latencies(out, histograms));
        }
        if let Some(scale) = storage {
            out.doc("storageStats", |out| {
                if is_oplog {
                    sizes::write_oplog_sizes(data, scale, out);
                } else {
                    sizes::write_sizes(data, collection.as_deref(), scale, out);
                }
            });
        }
        if count {
            out.count("count", documents);
        }
        if scans && let Some(collection) = &collection {
            let scans = collection.counters.scans.load(Ordering::Relaxed);
            out.doc("queryExecStats", |out| {
                out.doc("collectionScans", |out| {
                    let scans = i64::try_from(scans).unwrap_or(i64::MAX);
                    out.i64("total", scans).i64("nonTailable", scans);
                });
            });
        }
    })])
}
