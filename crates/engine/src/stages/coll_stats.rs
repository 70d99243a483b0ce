//! `$collStats`: returns sizes and counts of a collection.

use super::diagnostics::{Server, needs_collection};
use super::privileges::{PipelinePrivileges, Privilege};
use super::row::{Runs, StableApi};
use super::{StageRow, sizes};
use crate::args::Args;
use crate::namespace::is_oplog;
use ::access::Action;
use std::sync::atomic::Ordering;
use value::{Code, DocBuf, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$collStats",
    help: "Returns sizes and counts of a collection.",
    stable_api: StableApi::Option("count"),
    runs: Runs::AtOnce(make),
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

fn privilege(client: &PipelinePrivileges<'_>, collection: Option<&str>, _: Val<'_>) -> bool {
    client.on_collection(collection, Action::CollStats)
}

fn make(server: &dyn Server, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let name = needs_collection("$collStats", name)?;
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
        Some(storage) => Args::new("$collStats.storageStats", storage).optional_u64("scale")?,
        None => None,
    };
    let count = args.optional_doc("count")?.is_some();
    let scans = args.optional_doc("queryExecStats")?.is_some();
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
    let collection = server.data().collection(server.db(), name);
    let is_view = collection.as_ref().is_some_and(|collection| collection.view().is_some());
    if is_view && (count || scans || storage.is_some()) {
        return Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {}.{name} is a view, not a collection", server.db()),
        ));
    }
    let is_oplog = is_oplog(server.db(), name);
    if collection.is_none() && (count || scans) && !is_oplog {
        let what = if count { "count" } else { "queryExecStats" };
        return Err(Error::new(
            Code::NAMESPACE_NOT_FOUND,
            format!(
                "PlanExecutor error during aggregation :: caused by :: Unable to retrieve {what} \
                 in $collStats stage :: caused by :: Collection [{}.{name}] not found.",
                server.db()
            ),
        ));
    }
    let documents = match &collection {
        Some(collection) => collection.counters.documents(),
        None if is_oplog => server.data().changes.sizes().1,
        None => 0,
    };
    Ok(vec![DocBuf::build(|out| {
        out.str("ns", &format!("{}.{name}", server.db()));
        out.str("host", &server.host());
        out.append("localTime", Val::DateTime(crate::clock::now_ms()));
        if let Some(histograms) = latency {
            let unused = crate::usage::Usage::default();
            let usage = collection.as_ref().map_or(&unused, |found| &found.counters.usage);
            out.doc("latencyStats", |out| usage.write_latencies(out, histograms));
        }
        if storage.is_some() {
            out.doc("storageStats", |out| {
                let scale = scale.unwrap_or(1).max(1);
                if is_oplog {
                    sizes::write_oplog_sizes(server.data(), scale, out);
                } else {
                    sizes::write_sizes(server.data(), collection.as_deref(), scale, out);
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
