//! Aggregation stages that tell about the server instead of reading a collection: `$collStats`,
//! `$currentOp`, `$indexStats`, `$listCatalog`, `$listLocalSessions`, `$listSessions`,
//! `$planCacheStats`, `$querySettings`, `$queryStats`.
//!
//! They stand first in a pipeline. Their documents are made when the command begins; the stages
//! behind them run over those.

use super::aggregate::resolve;
use super::args::Args;
use super::{Context, coll_stats, current_op, oplog};
use crate::catalog::{Collection, IndexState};
use crate::namespace::is_oplog;
use crate::query_stats::Names;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

/// A stage that tells about the server.
pub struct Diagnostic {
    /// Its name, with the dollar.
    pub name: &'static str,
    /// What it tells, in one sentence.
    pub help: &'static str,
    /// Makes its documents; the collection's name is there when the command names one.
    make: fn(&Context<'_>, Val<'_>, Option<&str>) -> Result<Vec<DocBuf>>,
}

/// Every such stage, sorted by name.
pub static ALL: &[Diagnostic] = &[
    Diagnostic {
        name: "$collStats",
        help: "Tells sizes and counts of a collection.",
        make: collection_statistics,
    },
    Diagnostic { name: "$currentOp", help: "Lists what runs now.", make: running },
    Diagnostic {
        name: "$indexStats",
        help: "Tells how often each index of a collection was used.",
        make: index_statistics,
    },
    Diagnostic {
        name: "$listCatalog",
        help: "Tells what the catalog knows of a collection, or of all.",
        make: catalog_entries,
    },
    Diagnostic {
        name: "$listLocalSessions",
        help: "Lists the sessions that are known.",
        make: local_sessions,
    },
    Diagnostic {
        name: "$listSessions",
        help: "Lists the sessions in config.system.sessions.",
        make: stored_sessions,
    },
    Diagnostic {
        name: "$planCacheStats",
        help: "Lists the plans that are kept for queries of a collection.",
        make: kept_plans,
    },
    Diagnostic {
        name: "$querySettings",
        help: "Lists settings of queries, of which there are none.",
        make: query_settings,
    },
    Diagnostic {
        name: "$queryStats",
        help: "Tells what the queries of each shape cost, once internalQueryStatsRateLimit is set.",
        make: query_statistics,
    },
];

/// The documents of a pipeline's first stage if it tells about the server, and the other stages.
///
/// # Errors
/// When the stage is not understood, or stands where it cannot.
pub(super) fn documents(
    context: &Context<'_>,
    name: Option<&str>,
    pipeline: RawDoc<'_>,
) -> Result<Option<(Vec<DocBuf>, DocBuf)>> {
    let late = pipeline.iter().skip(1).filter_map(|(_, stage)| stage.as_doc()?.first());
    if let Some(stage) = late.map(|(name, _)| name).find(|name| is_diagnostic(name)) {
        return Err(not_first(stage));
    }
    let first = pipeline.first().and_then(|(_, stage)| stage.as_doc());
    let Some(stage) = first.filter(|stage| stage.count() == 1) else { return Ok(None) };
    let Some((stage, value)) = stage.first() else { return Ok(None) };
    let Some(row) = ALL.iter().find(|row| row.name == stage) else { return Ok(None) };
    let below;
    let mut name = name;
    if let Some(view) = name.filter(|_| row.name != "$collStats") {
        // A view that changes nothing is its collection.
        let catalog = context.engine.data.catalog.load();
        let resolved = resolve(&catalog, context.db, Some(view), RawDoc::empty())?;
        let is_view = catalog.get(context.db, view).is_some_and(|found| found.view().is_some());
        if is_view && !resolved.pipeline.as_doc().is_empty() {
            return Err(not_first(stage));
        }
        if let Some(collection) = resolved.collection.filter(|_| is_view) {
            below = collection.name.clone();
            name = Some(&below);
        }
    }
    let documents = (row.make)(context, value.get(), name)?;
    let mut rest = Vec::new();
    value::writer::write_array(&mut rest, |out| {
        pipeline.iter().skip(1).for_each(|(_, stage)| out.push_raw(stage));
    });
    Ok(Some((documents, DocBuf::from_bytes(rest))))
}

/// The arguments of a stage that tells about the whole server.
fn of_the_server<'v>(
    stage: &'static str,
    context: &Context<'_>,
    value: Val<'v>,
    name: Option<&str>,
) -> Result<Args<'v>> {
    if name.is_some() || context.db != "admin" {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            format!("{stage} must be run against the 'admin' database with {{aggregate: 1}}"),
        ));
    }
    let Val::Document(doc) = value else {
        return Err(Error::failed_to_parse(format!("{stage} value must be an object")));
    };
    Ok(Args::new(stage, doc))
}

/// Nothing can be set yet (`setQuerySettings`), so nothing is.
fn query_settings(
    context: &Context<'_>,
    value: Val<'_>,
    name: Option<&str>,
) -> Result<Vec<DocBuf>> {
    let args = of_the_server("$querySettings", context, value, name)?;
    args.check_fields(&["showDebugQueryShape"], false)?;
    args.bool("showDebugQueryShape")?;
    Ok(Vec::new())
}

fn query_statistics(
    context: &Context<'_>,
    value: Val<'_>,
    name: Option<&str>,
) -> Result<Vec<DocBuf>> {
    let args = of_the_server("$queryStats", context, value, name)?;
    args.check_fields(&["transformIdentifiers"], false)?;
    let names = match args.optional_doc("transformIdentifiers")? {
        None => Names::Plain,
        Some(how) => {
            let args = Args::new("$queryStats.transformIdentifiers", how);
            args.check_fields(&["algorithm", "hmacKey"], false)?;
            if args.string("algorithm")? != "hmac-sha-256" {
                return Err(Error::bad_value(
                    "the only algorithm of transformIdentifiers is 'hmac-sha-256'",
                ));
            }
            match args.get("hmacKey") {
                Some(Val::Binary(8, key)) => Names::Hashed(key),
                Some(Val::Binary(..)) => {
                    return Err(Error::bad_value(
                        "transformIdentifiers.hmacKey must be binData of subtype 8 (sensitive)",
                    ));
                }
                Some(other) => return Err(args.wrong_type("hmacKey", other, "binData")),
                None => return Err(args.missing("hmacKey")),
            }
        }
    };
    Ok(context.engine.observed.query_stats.documents(&names))
}

fn is_diagnostic(name: &str) -> bool {
    ALL.iter().any(|row| row.name == name)
}

fn not_first(stage: &str) -> Error {
    Error::new(Code(40602), format!("{stage} is only valid as the first stage in a pipeline"))
}

fn host(context: &Context<'_>) -> String {
    let listen = &context.engine.data.options.listen;
    let port = listen.rsplit_once(':').map_or("27017", |(_, port)| port);
    format!("{}:{port}", crate::host::name())
}

fn needs_collection<'n>(stage: &str, name: Option<&'n str>) -> Result<&'n str> {
    name.ok_or_else(|| {
        Error::new(
            Code::INVALID_NAMESPACE,
            format!("{{aggregate: 1}} is not valid for '{stage}'; a collection is required."),
        )
    })
}

fn collection_statistics(
    context: &Context<'_>,
    value: Val<'_>,
    name: Option<&str>,
) -> Result<Vec<DocBuf>> {
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
    let collection = context.engine.data.collection(context.db, name);
    let is_view = collection.as_ref().is_some_and(|collection| collection.view().is_some());
    if is_view && (count || scans || storage.is_some()) {
        return Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {}.{name} is a view, not a collection", context.db),
        ));
    }
    let is_oplog = is_oplog(context.db, name);
    if collection.is_none() && (count || scans) && !is_oplog {
        let what = if count { "count" } else { "queryExecStats" };
        return Err(Error::new(
            Code::NAMESPACE_NOT_FOUND,
            format!(
                "PlanExecutor error during aggregation :: caused by :: Unable to retrieve {what} \
                 in $collStats stage :: caused by :: Collection [{}.{name}] not found.",
                context.db
            ),
        ));
    }
    let documents = match &collection {
        Some(collection) => collection.counters.documents(),
        None if is_oplog => context.engine.data.changes.sizes().1,
        None => 0,
    };
    Ok(vec![DocBuf::build(|out| {
        out.str("ns", &format!("{}.{name}", context.db));
        out.str("host", &host(context));
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
                    oplog::write_stats(context.engine, scale, out);
                } else {
                    coll_stats::write_sizes(context.engine, collection.as_deref(), scale, out);
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

fn index_statistics(
    context: &Context<'_>,
    value: Val<'_>,
    name: Option<&str>,
) -> Result<Vec<DocBuf>> {
    let name = needs_collection("$indexStats", name)?;
    if !matches!(value, Val::Document(doc) if doc.is_empty()) {
        return Err(Error::new(
            Code(28803),
            "The $indexStats stage specification must be an empty object",
        ));
    }
    let Some(collection) = context.engine.data.collection(context.db, name) else {
        return Ok(Vec::new());
    };
    let host = host(context);
    let started = Val::DateTime(context.engine.observed.started_ms);
    let row = |index: &Arc<crate::catalog::Index>| {
        let uses = i64::try_from(index.uses.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        DocBuf::build(|out| {
            out.str("name", &index.name);
            out.append("key", Val::Document(index.key.as_doc()));
            out.str("host", &host);
            out.doc("accesses", |out| {
                out.i64("ops", uses).append("since", started);
            });
            if index.state == IndexState::Building {
                out.bool("building", true);
            }
            out.append("spec", Val::Document(index.spec.as_doc()));
        })
    };
    Ok(collection.indexes.iter().map(row).collect())
}

fn catalog_entries(
    context: &Context<'_>,
    value: Val<'_>,
    name: Option<&str>,
) -> Result<Vec<DocBuf>> {
    if !matches!(value, Val::Document(doc) if doc.is_empty()) {
        return Err(Error::new(
            Code(6_200_600),
            "The $listCatalog stage specification must be an empty object",
        ));
    }
    let catalog = context.engine.data.catalog.load_full();
    if let Some(name) = name {
        let found = catalog.get(context.db, name);
        return Ok(found.map(|collection| catalog_entry(collection)).into_iter().collect());
    }
    if context.db != "admin" {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            "Collectionless $listCatalog must be run against the 'admin' database with \
             {aggregate: 1}",
        ));
    }
    Ok(catalog.collections().map(|collection| catalog_entry(collection)).collect())
}

fn catalog_entry(collection: &Collection) -> DocBuf {
    DocBuf::build(|out| {
        out.str("db", &collection.db);
        out.str("name", &collection.name);
        out.str("type", if collection.view().is_some() { "view" } else { "collection" });
        out.str("ns", &collection.namespace());
        if collection.view().is_some() {
            out.str("_id", &collection.namespace());
            out.extend(collection.options.as_doc());
            return;
        }
        out.doc("md", |out| {
            out.str("ns", &collection.namespace());
            out.doc("options", |out| {
                out.append("uuid", Val::Binary(4, &collection.uuid));
                out.extend(collection.options.as_doc());
            });
            out.array("indexes", |list| {
                for index in &collection.indexes {
                    list.push_doc(|out| {
                        out.append("spec", Val::Document(index.spec.as_doc()));
                        out.bool("ready", index.state == IndexState::Ready);
                        out.bool("multikey", index.is_multikey());
                    });
                }
            });
        });
    })
}

fn running(context: &Context<'_>, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let Val::Document(doc) = value else {
        return Err(Error::failed_to_parse(format!(
            "$currentOp options must be specified in an object, but found: {}",
            value.kind().name()
        )));
    };
    let (mut idle, mut all_users) = (false, false);
    for (name, value) in doc {
        let known = [
            "allUsers",
            "idleConnections",
            "idleSessions",
            "idleCursors",
            "localOps",
            "truncateOps",
            "targetAllNodes",
        ];
        if !known.contains(&name) {
            return Err(Error::failed_to_parse(format!(
                "Unrecognized option '{name}' in $currentOp stage."
            )));
        }
        let Val::Bool(on) = value.get() else {
            return Err(Error::failed_to_parse(format!(
                "The '{name}' parameter of the $currentOp stage must be a boolean value, but \
                 found: {}",
                value.kind().name()
            )));
        };
        match name {
            "idleConnections" => idle = on,
            "allUsers" => all_users = on,
            _ => {}
        }
    }
    if name.is_some() || context.db != "admin" {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            "$currentOp must be run against the 'admin' database with {aggregate: 1}",
        ));
    }
    Ok(current_op::list(context, idle, !all_users))
}

/// Whose sessions are listed.
enum Chosen {
    Own,
    All,
    /// Those of users, each as `name@database`.
    Named(Vec<Box<str>>),
}

/// Reads the options that both lists of sessions take.
fn check_session_options(stage: &'static str, value: Val<'_>) -> Result<Chosen> {
    let Val::Document(doc) = value else {
        return Err(Error::type_mismatch(format!(
            "{stage} options must be specified in an object, but found: {}",
            value.kind().name()
        )));
    };
    let args = Args::new(stage, doc);
    args.check_fields(&["allUsers", "users"], false)?;
    if args.bool("allUsers")? {
        return Ok(Chosen::All);
    }
    let Some(users) = args.optional_array("users")? else { return Ok(Chosen::Own) };
    let users = users.into_iter().filter_map(|(_, user)| {
        let user = user.as_doc()?;
        let (name, db) = (user.get("user")?.as_str()?, user.get("db")?.as_str()?);
        Some(format!("{name}@{db}").into_boxed_str())
    });
    Ok(Chosen::Named(users.collect()))
}

fn local_sessions(
    context: &Context<'_>,
    value: Val<'_>,
    name: Option<&str>,
) -> Result<Vec<DocBuf>> {
    let chosen = check_session_options("$listLocalSessions", value)?;
    if name.is_some() {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            "$listLocalSessions must be run against the database with {aggregate: 1}, not a \
             collection",
        ));
    }
    Ok(list_sessions(context, &chosen))
}

/// The sessions of the users that were chosen.
fn list_sessions(context: &Context<'_>, chosen: &Chosen) -> Vec<DocBuf> {
    let now = crate::clock::now_ms();
    let login = &context.client.login;
    let sessions = context.engine.service.sessions.list().into_iter();
    let shown = sessions.filter(|(_, owner, _)| match chosen {
        _ if !login.required => true,
        Chosen::All => true,
        Chosen::Own => login.is(owner.as_deref()),
        Chosen::Named(names) => owner.as_ref().is_some_and(|owner| names.contains(owner)),
    });
    shown.map(|(id, owner, idle_ms)| session(&id, owner.as_deref(), now - idle_ms)).collect()
}

fn session(id: &[u8; 16], owner: Option<&str>, last_use: i64) -> DocBuf {
    // For connections without a user MongoDB shows the SHA-256 of nothing.
    let user = access::scram::Mechanism::Sha256.hash(owner.unwrap_or_default().as_bytes());
    DocBuf::build(|out: &mut Writer<'_>| {
        out.doc("_id", |out| {
            out.append("id", Val::Binary(4, id)).append("uid", Val::Binary(0, &user));
        });
        out.append("lastUse", Val::DateTime(last_use));
    })
}

fn stored_sessions(
    context: &Context<'_>,
    value: Val<'_>,
    name: Option<&str>,
) -> Result<Vec<DocBuf>> {
    let chosen = check_session_options("$listSessions", value)?;
    if name != Some("system.sessions") || context.db != "config" {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            "$listSessions may only be run against config.system.sessions",
        ));
    }
    // Sessions live in memory; there is one server, which knows all of them.
    Ok(list_sessions(context, &chosen))
}

fn kept_plans(context: &Context<'_>, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let name = needs_collection("$planCacheStats", name)?;
    let empty =
        matches!(value, Val::Document(doc) if doc.iter().all(|(name, _)| name == "allHosts"));
    if !empty {
        return Err(Error::failed_to_parse(
            "$planCacheStats value must be an object with nothing but allHosts",
        ));
    }
    let collection: Option<Arc<Collection>> = context.engine.data.collection(context.db, name);
    let host = host(context);
    let Some(collection) = collection else {
        return Err(Error::new(
            Code(50933),
            format!("$planCacheStats failed: collection {}.{name} not found", context.db),
        ));
    };
    Ok(collection.counters.plans.list(&host))
}
