//! `serverStatus`: counters and sizes, in the sections that monitoring tools read. A section holds
//! measured values only; sections that do not apply are left out.

use super::row::Required;
use super::{Command, Context, hello};
use crate::access::MECHANISMS;
use crate::host;
use crate::metrics::{Counter, read};
use crate::options::{Storage, Topology};
use crate::shared::Inner;
use ::access::Action;
use ::patterns::stats::Stats;
use std::sync::atomic::{AtomicU64, Ordering};
use store::Space;
use value::{Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "serverStatus",
    help: "Returns counters and sizes of the running server.",
    // Every other field enables or disables a section.
    fields: None,
    privilege: Required::Cluster(&[Action::ServerStatus]),
    run,
    ..Command::BASE
};

type Section = fn(&Context<'_>, &mut Writer<'_>);

/// The sections, in the order of the reply.
static SECTIONS: &[(&str, Section)] = &[
    ("asserts", asserts),
    ("catalogStats", catalog),
    ("connections", connections),
    ("extra_info", extra_info),
    ("globalLock", global_lock),
    ("logicalSessionRecordCache", sessions),
    ("mem", memory),
    ("metrics", metrics),
    ("network", network),
    ("opLatencies", operation_latencies),
    ("opcounters", operation_counters),
    ("opcountersRepl", replicated_counters),
    ("oplogTruncation", |context, out| context.engine.data.changes.write_truncation(out)),
    ("patterns", patterns),
    ("repl", replica_set),
    ("security", security),
    ("storageEngine", storage_engine),
    ("store", store),
    ("transactions", transactions),
    ("transportSecurity", transport_security),
    ("wiredTiger", cache),
];

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let engine = context.engine;
    let uptime = engine.observed.started.elapsed();
    out.str("host", &host::name());
    out.str("version", super::build_info::MONGODB_VERSION);
    out.str("motifVersion", crate::VERSION);
    out.str("process", "motif");
    out.i64("pid", i64::from(std::process::id()));
    out.f64("uptime", uptime.as_secs_f64().floor());
    out.i64("uptimeMillis", uptime.as_millis() as i64);
    out.i64("uptimeEstimate", uptime.as_secs() as i64);
    out.append("localTime", Val::DateTime(crate::clock::now_ms()));
    for (name, section) in SECTIONS {
        let wanted = context.args.doc.get(name).is_none_or(Val::truthy);
        // A router is in no replica set.
        let is_there = *name != "repl" || engine.data.options.topology == Topology::ReplicaSet;
        if wanted && is_there {
            out.doc(name, |out| section(context, out));
        }
    }
    Ok(())
}

/// The number of patterns in each state, and their writes since the start.
fn patterns(context: &Context<'_>, out: &mut Writer<'_>) {
    let catalog = context.engine.data.catalog.load();
    let all = || catalog.databases.values().flat_map(|db| &db.patterns);
    long(out, "total", all().count() as u64);
    for phase in ::patterns::pattern::PHASES {
        long(out, phase.name(), all().filter(|pattern| pattern.phase == *phase).count() as u64);
    }
    put(out, "writes", &context.engine.data.pattern_writes);
    let sum = |counter: fn(&Stats) -> &AtomicU64| {
        all().map(|pattern| Stats::read(counter(&pattern.stats))).sum()
    };
    long(out, "deltas", sum(|stats| &stats.deltas));
    long(out, "recomputed", sum(|stats| &stats.recomputed));
    long(out, "overdue", context.engine.data.pattern_bell.overdue_count() as u64);
}

fn put(out: &mut Writer<'_>, name: &str, counter: &Counter) {
    long(out, name, read(counter));
}

fn long(out: &mut Writer<'_>, name: &str, value: u64) {
    out.i64(name, i64::try_from(value).unwrap_or(i64::MAX));
}

fn asserts(context: &Context<'_>, out: &mut Writer<'_>) {
    out.i32("regular", 0).i32("warning", 0).i32("msg", 0);
    out.count("user", read(&context.engine.observed.metrics.failures));
    out.i32("tripwire", 0).i32("rollovers", 0);
}

fn catalog(context: &Context<'_>, out: &mut Writer<'_>) {
    let catalog = context.engine.data.catalog.load();
    let views = catalog.collections().filter(|c| c.view().is_some()).count();
    let capped = catalog.collections().filter(|c| c.capped().is_some()).count();
    out.count("collections", (catalog.collections().count() - views) as u64);
    out.count("capped", capped as u64).count("views", views as u64);
}

fn connections(context: &Context<'_>, out: &mut Writer<'_>) {
    let network = &context.engine.observed.network;
    let current = read(&network.connections_current);
    out.count("current", current);
    out.count("available", read(&network.connections_max).saturating_sub(current));
    out.count("totalCreated", read(&network.connections_total));
    out.count("active", active(context.engine));
}

/// The number of connections that run a command now.
fn active(engine: &Inner) -> u64 {
    let slots = engine.service.slots.lock();
    slots.values().filter(|slot| slot.operation_id.load(Ordering::Relaxed) != 0).count() as u64
}

fn extra_info(_: &Context<'_>, out: &mut Writer<'_>) {
    out.str("note", "fields vary by platform");
    if let Some(faults) = host::page_faults() {
        long(out, "page_faults", faults);
    }
}

/// There is no global lock: readers never wait, and commits are too short to queue.
fn global_lock(context: &Context<'_>, out: &mut Writer<'_>) {
    out.i64("totalTime", context.engine.observed.started.elapsed().as_micros() as i64);
    out.doc("currentQueue", |out| {
        out.i32("total", 0).i32("readers", 0).i32("writers", 0);
    });
    let active = active(context.engine);
    out.doc("activeClients", |out| {
        out.count("total", active);
        out.i32("readers", 0).i32("writers", 0);
    });
}

/// Authentication counters, and the server's certificate.
fn security(context: &Context<'_>, out: &mut Writer<'_>) {
    let access = &context.engine.service.access;
    out.doc("authentication", |out| {
        put(out, "saslSupportedMechsReceived", &access.mechanisms_asked);
        out.doc("mechanisms", |out| {
            for (name, attempts) in MECHANISMS.iter().zip(&access.attempts) {
                out.doc(name, |out| {
                    let lists = [
                        ("speculativeAuthenticate", &attempts.speculative),
                        ("authenticate", &attempts.all),
                    ];
                    for (name, [received, successful]) in lists {
                        out.doc(name, |out| {
                            put(out, "received", received);
                            put(out, "successful", successful);
                        });
                    }
                });
            }
        });
    });
    let Some(certificate) = context.engine.observed.network.certificate.lock().clone() else {
        return;
    };
    out.str("SSLServerSubjectName", &certificate.subject);
    out.bool("SSLServerHasCertificateAuthority", certificate.asks_clients);
    let expires = Val::DateTime(certificate.expires_ms);
    out.append("SSLServerCertificateExpirationDate", expires);
}

/// The number of TLS connections by version; older versions are not supported.
fn transport_security(context: &Context<'_>, out: &mut Writer<'_>) {
    let network = &context.engine.observed.network;
    out.i64("1.0", 0).i64("1.1", 0);
    put(out, "1.2", &network.tls_1_2);
    put(out, "1.3", &network.tls_1_3);
    out.i64("unknown", 0);
}

fn sessions(context: &Context<'_>, out: &mut Writer<'_>) {
    out.count("activeSessionsCount", context.engine.service.sessions.count() as u64);
}

fn transactions(context: &Context<'_>, out: &mut Writer<'_>) {
    let engine = context.engine;
    let transactions = &engine.service.sessions.transactions;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as i64;
    let retried = count(&engine.observed.metrics.retried_writes);
    out.i64("retriedCommandsCount", retried).i64("retriedStatementsCount", retried);
    let open = transactions.list();
    let active = open.iter().filter(|open| open.active).count() as i64;
    out.i64("currentActive", active).i64("currentInactive", open.len() as i64 - active);
    out.i64("currentOpen", open.len() as i64);
    out.i64("totalStarted", count(&transactions.started));
    out.i64("totalCommitted", count(&transactions.committed));
    out.i64("totalAborted", count(&transactions.aborted));
}

fn memory(context: &Context<'_>, out: &mut Writer<'_>) {
    out.i32("bits", usize::BITS as i32);
    if let Some((resident, whole)) = host::process_memory() {
        out.count("resident", resident / (1024 * 1024));
        out.count("virtual", whole / (1024 * 1024));
    }
    out.bool("supported", host::process_memory().is_some());
    let operations = context.engine.data.resources.memory();
    out.doc("operations", |out| {
        out.count("usedBytes", operations.used() as u64);
        out.count("maxBytes", operations.bytes_max() as u64);
    });
}

fn metrics(context: &Context<'_>, out: &mut Writer<'_>) {
    let engine = context.engine;
    let metrics = &engine.observed.metrics;
    out.doc("commands", |out| command_runs(context, out));
    out.doc("cursor", |out| {
        let (open, pinned) = engine.service.cursors.counts();
        put(out, "timedOut", &metrics.cursors_timed_out);
        long(out, "totalOpened", engine.service.cursors.opened.load(Ordering::Relaxed));
        out.doc("open", |out| {
            long(out, "noTimeout", pinned as u64);
            long(out, "total", open as u64);
        });
    });
    out.doc("document", |out| {
        put(out, "deleted", &metrics.documents_deleted);
        put(out, "inserted", &metrics.documents_inserted);
        put(out, "returned", &metrics.documents_returned);
        put(out, "updated", &metrics.documents_updated);
    });
    out.doc("operation", |out| {
        put(out, "scanAndOrder", &engine.data.resources.blocking_sorts);
        put(out, "writeConflicts", &context.engine.data.write_conflicts);
    });
    out.doc("queryExecutor", |out| {
        put(out, "scanned", &metrics.keys_examined);
        put(out, "scannedObjects", &metrics.documents_examined);
        let resources = &engine.data.resources;
        let all = read(&resources.collection_scans);
        out.doc("collectionScans", |out| {
            long(out, "nonTailable", all.saturating_sub(read(&resources.tailable_scans)));
            long(out, "total", all);
        });
    });
    out.doc("retryableWrites", |out| {
        put(out, "retriedStatementsCount", &metrics.retried_writes);
        put(out, "historyBytesWritten", &metrics.retry_bytes);
    });
    out.doc("ttl", |out| {
        put(out, "deletedDocuments", &engine.background.ttl.deleted);
        put(out, "passes", &engine.background.ttl.passes);
    });
}

fn network(context: &Context<'_>, out: &mut Writer<'_>) {
    let network = &context.engine.observed.network;
    put(out, "bytesIn", &network.bytes_in);
    put(out, "bytesOut", &network.bytes_out);
    put(out, "numRequests", &network.requests);
}

/// The latencies of all operations; with histograms if the section is given `{histograms: true}`.
fn operation_latencies(context: &Context<'_>, out: &mut Writer<'_>) {
    let options = context.args.doc.get("opLatencies").and_then(Val::as_doc);
    let histograms = options.and_then(|doc| doc.get("histograms")).is_some_and(Val::truthy);
    context.engine.observed.latencies.write(out, histograms);
}

/// The number of runs of each command.
fn command_runs(context: &Context<'_>, out: &mut Writer<'_>) {
    let metrics = &context.engine.observed.metrics;
    put(out, "<UNKNOWN>", &metrics.unknown_commands);
    for (place, command) in super::ALL.iter().enumerate() {
        let Some(runs) = metrics.runs.of(place).filter(|_| !command.test) else { continue };
        out.doc(command.name, |out| {
            if command.takes_updates {
                put(out, "arrayFilters", &runs.array_filters);
            }
            put(out, "failed", &runs.failed);
            if command.takes_updates {
                put(out, "pipeline", &runs.pipelines);
            }
            put(out, "total", &runs.total);
        });
    }
}

fn operation_counters(context: &Context<'_>, out: &mut Writer<'_>) {
    let metrics = &context.engine.observed.metrics;
    put(out, "insert", &metrics.inserts);
    put(out, "query", &metrics.queries);
    put(out, "update", &metrics.updates);
    put(out, "delete", &metrics.deletes);
    put(out, "getmore", &metrics.get_mores);
    put(out, "command", &metrics.commands);
}

/// There is no replication to this server.
fn replicated_counters(_: &Context<'_>, out: &mut Writer<'_>) {
    for name in ["insert", "query", "update", "delete", "getmore", "command"] {
        out.i64(name, 0);
    }
}

fn replica_set(context: &Context<'_>, out: &mut Writer<'_>) {
    let address = hello::address(context);
    out.array("hosts", |hosts| hosts.push(Val::String(address)));
    out.str("setName", hello::set_name(context)).i32("setVersion", 1);
    out.bool("isWritablePrimary", true).bool("secondary", false);
    out.str("primary", address).str("me", address);
    out.append("electionId", Val::ObjectId(hello::election_id()));
}

fn storage_engine(context: &Context<'_>, out: &mut Writer<'_>) {
    let options = &context.engine.data.options;
    out.str("name", "motif");
    out.bool("supportsCommittedReads", true);
    out.bool("readOnly", options.read_only);
    out.bool("persistent", matches!(options.storage, Storage::Disk(_)));
}

fn store(context: &Context<'_>, out: &mut Writer<'_>) {
    let stats = context.engine.data.store.stats();
    for space in Space::ALL {
        let sizes = stats.space(space);
        out.doc(space.name(), |out| {
            long(out, "diskBytes", sizes.disk_bytes);
            long(out, "memoryBytes", sizes.memtable_bytes);
            long(out, "entries", sizes.entries);
            long(out, "tables", sizes.tables);
            long(out, "youngTables", sizes.young_tables);
        });
    }
    for (name, value) in [
        ("logBytes", stats.log_bytes),
        ("logSegments", stats.log_segments),
        ("logWrittenBytes", stats.log_written_bytes),
        ("openSnapshots", stats.open_snapshots),
        ("published", stats.published),
        ("durable", stats.durable),
        ("writes", stats.writes),
        ("syncs", stats.syncs),
        ("syncedBatches", stats.synced_batches),
        ("flushes", stats.flushes),
        ("compactions", stats.compactions),
        ("stalls", stats.stalls),
        ("pauses", stats.pauses),
        ("pausedMicros", stats.paused.as_micros() as u64),
        ("longestWaitMicros", stats.longest_wait.as_micros() as u64),
        ("largeWaits", stats.large_waits),
        ("longestLargeWaitMicros", stats.longest_large_wait.as_micros() as u64),
        ("pinnedBytes", stats.history_bytes),
        ("pinnedStates", stats.history_states),
        ("oldestPinnedSeconds", stats.oldest_pinned.unwrap_or_default().as_secs()),
        ("expiredSnapshots", stats.expired_snapshots),
        ("cacheBytes", stats.cache_bytes),
        ("cacheCapacityBytes", stats.cache_capacity_bytes),
        ("pageCacheBytes", stats.page_bytes),
        ("pageCacheCapacityBytes", stats.page_capacity_bytes),
        ("pageCacheHits", stats.page_hits),
        ("pageCacheMisses", stats.page_misses),
        ("droppedRanges", context.engine.data.trash.count() as u64),
    ] {
        long(out, name, value);
    }
    out.array("mergeFailures", |out| {
        for failure in &stats.merge_failures {
            out.push_doc(|out| {
                out.str("tree", failure.space.name());
                out.str("error", &failure.error.to_string());
                long(out, "tries", u64::from(failure.tries));
            });
        }
    });
}

/// The store's figures under the names by which monitoring tools look for those of MongoDB's: `used` and
/// `dirty` of mongostat, and the cache of exporters.
fn cache(context: &Context<'_>, out: &mut Writer<'_>) {
    let data = &context.engine.data;
    let stats = data.store.stats();
    let unwritten: u64 = stats.spaces.iter().map(|space| space.memtable_bytes).sum();
    let limit = data.options.cache_bytes.saturating_add(data.options.memtable_bytes());
    out.doc("cache", |out| {
        for (name, value) in [
            ("bytes currently in the cache", stats.cache_bytes + stats.page_bytes + unwritten),
            ("bytes dirty in the cache cumulative", stats.log_written_bytes),
            ("maximum bytes configured", limit),
            ("pages read into cache", stats.page_misses),
            ("pages requested from the cache", stats.page_hits + stats.page_misses),
            ("tracked dirty bytes in the cache", unwritten),
        ] {
            long(out, name, value);
        }
    });
    out.doc("log", |out| {
        long(out, "log bytes written", stats.log_written_bytes);
        long(out, "log sync operations", stats.syncs);
    });
    out.doc("snapshot-window-settings", |out| {
        let seconds = data.past.window_seconds.load(Ordering::Relaxed);
        out.i32(
            "current available snapshot window size in seconds",
            i32::try_from(seconds).unwrap_or(i32::MAX),
        );
    });
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use value::{RawDoc, Val, ejson};

    #[test]
    fn sections_can_be_left_out_and_counters_count() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("admin", command.as_doc()).expect("answers")
        };
        run("{insert: 'c', documents: [{_id: 1}, {_id: 2}]}");
        let status = run("{serverStatus: 1, store: 0}");
        let status = status.as_doc();
        assert!(status.get("store").is_none());
        let inner = |doc: RawDoc<'_>, path: &[&str]| {
            let mut value = Val::Document(doc);
            for name in path {
                value = value.as_doc().and_then(|d| d.get(name)).unwrap_or(Val::Missing);
            }
            value.as_i64_exact()
        };
        assert_eq!(inner(status, &["opcounters", "insert"]), Some(2));
        assert_eq!(inner(status, &["metrics", "document", "inserted"]), Some(2));
        assert_eq!(inner(status, &["catalogStats", "collections"]), Some(1));
        let cache = |name: &str| inner(status, &["wiredTiger", "cache", name]).expect("a number");
        let used = cache("bytes currently in the cache");
        assert!(cache("tracked dirty bytes in the cache") <= used);
        assert!(used <= cache("maximum bytes configured"));
        // The first document fails; the one behind it is not tried.
        run("{insert: 'c', documents: [{_id: 1}, {_id: 3}]}");
        run("{update: 'c', updates: [{q: {_id: 1}, u: [{$set: {l: [1, 2]}}]}, \
             {q: {}, u: {$set: {'l.$[x]': 3}}, arrayFilters: [{x: 1}]}]}");
        run("{findAndModify: 'c', query: {_id: 1}, update: {$set: {z: 1}}}");
        run("{findAndModify: 'c', query: {_id: 2}, remove: true}");
        let status = run("{serverStatus: 1}");
        let status = status.as_doc();
        for (path, count) in [
            (["opcounters", "insert", ""], 3),
            (["opcounters", "update", ""], 2),
            (["metrics", "document", "updated"], 3),
            (["metrics", "document", "deleted"], 1),
        ] {
            let path: Vec<&str> = path.into_iter().filter(|name| !name.is_empty()).collect();
            assert_eq!(inner(status, &path), Some(count), "{path:?}");
        }
        for (command, field, count) in [
            ("insert", "total", 2),
            ("update", "total", 1),
            ("update", "pipeline", 1),
            ("update", "arrayFilters", 1),
            ("findAndModify", "total", 2),
            ("findAndModify", "pipeline", 0),
            ("serverStatus", "failed", 0),
        ] {
            let counted = inner(status, &["metrics", "commands", command, field]);
            assert_eq!(counted, Some(count), "{command} {field}");
        }
        assert!(inner(status, &["opLatencies", "writes", "ops"]) >= Some(5));
    }
}
