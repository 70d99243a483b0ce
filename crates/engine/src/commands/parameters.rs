//! The parameters of the running server, which `getParameter` shows and `setParameter` changes.

use super::fixed_parameters::FIXED;
use super::{Context, log_components};
use crate::shared::Inner;
use std::sync::atomic::Ordering;
use std::time::Duration;
use value::ejson::{self, Format};
use value::{Code, Error, Result, Val, Writer};

/// The maximum of iterations for hashing a password: more would keep a login busy for seconds.
const ITERATIONS_MAX: u32 = 10_000_000;

/// A server parameter.
pub(super) struct Parameter {
    /// Its name.
    pub(super) name: &'static str,
    /// Writes the value as a field of this name.
    pub(super) write: fn(&Inner, &mut Writer<'_>, &str),
    /// Changes the value; `None` for parameters that are fixed at startup.
    pub(super) set: Option<fn(&Inner, Val<'_>) -> Option<()>>,
}

/// The parameters that can change or are facts of this process, sorted by name.
static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "allowDiskUseByDefault",
        write: |engine, out, name| {
            out.bool(name, engine.data.resources.disk_by_default.load(Ordering::Relaxed));
        },
        set: Some(|engine, value| {
            let Val::Bool(allowed) = value else { return None };
            engine.data.resources.disk_by_default.store(allowed, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "authSchemaVersion",
        write: |_, out, name| {
            out.i32(name, crate::access::directory::SCHEMA_VERSION);
        },
        set: None,
    },
    Parameter {
        name: "authenticationMechanisms",
        write: |_, out, name| {
            out.array(name, |names| {
                for name in ["MONGODB-X509", "SCRAM-SHA-1", "SCRAM-SHA-256"] {
                    names.push(Val::String(name));
                }
            });
        },
        set: None,
    },
    Parameter {
        name: "cursorTimeoutMillis",
        write: |engine, out, name| {
            out.i64(name, engine.service.cursors.timeout_ms.load(Ordering::Relaxed));
        },
        set: Some(|engine, value| {
            let millis = whole(value)?;
            engine.service.cursors.timeout_ms.store(millis, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "enableTestCommands",
        write: |engine, out, name| {
            out.bool(name, engine.data.options.test_commands);
        },
        set: None,
    },
    Parameter {
        name: "featureCompatibilityVersion",
        write: |_, out, name| {
            out.doc(name, |out| {
                out.str("version", super::build_info::FEATURE_VERSION);
            });
        },
        set: None,
    },
    Parameter {
        name: "internalDocumentSourceGroupMaxMemoryBytes",
        write: |engine, out, name| {
            out.count(name, engine.data.resources.group_bytes_max.load(Ordering::Relaxed) as u64);
        },
        set: Some(|engine, value| {
            let bytes = usize::try_from(whole(value)?).ok().filter(|bytes| *bytes > 0)?;
            engine.data.resources.group_bytes_max.store(bytes, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "internalQueryMaxBlockingSortMemoryUsageBytes",
        write: |engine, out, name| {
            out.count(name, engine.data.resources.sort_bytes_max.load(Ordering::Relaxed) as u64);
        },
        set: Some(|engine, value| {
            let bytes = usize::try_from(whole(value)?).ok()?;
            engine.data.resources.sort_bytes_max.store(bytes, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "internalQueryStatsRateLimit",
        write: |engine, out, name| {
            let limit = engine.observed.query_stats.rate_limit.load(Ordering::Relaxed);
            out.i32(name, i32::try_from(limit).unwrap_or(i32::MAX));
        },
        set: Some(|engine, value| {
            let limit = i32::try_from(whole(value)?).ok().filter(|limit| *limit >= -1)?;
            engine.observed.query_stats.rate_limit.store(i64::from(limit), Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "localLogicalSessionTimeoutMinutes",
        write: |_, out, name| {
            out.i32(name, 30);
        },
        set: None,
    },
    Parameter {
        name: "logComponentVerbosity",
        write: log_components::write,
        set: Some(log_components::set),
    },
    Parameter {
        name: "logLevel",
        write: |engine, out, name| {
            out.i32(name, engine.observed.parameters.levels.lock().default);
        },
        set: Some(|engine, value| {
            let level = i32::try_from(whole(value)?).ok().filter(|level| *level >= 0)?;
            log_components::set_default(&engine.observed.parameters, level);
            Some(())
        }),
    },
    Parameter {
        name: "maxIndexBuildMemoryUsageMegabytes",
        write: |engine, out, name| {
            let bytes = engine.data.resources.build_bytes_max.load(Ordering::Relaxed);
            out.i32(name, i32::try_from(bytes >> 20).unwrap_or(i32::MAX));
        },
        set: Some(|engine, value| {
            let megabytes = i32::try_from(whole(value)?).ok().filter(|number| *number >= 50)?;
            let bytes = usize::try_from(megabytes).ok()?.checked_mul(1 << 20)?;
            engine.data.resources.build_bytes_max.store(bytes, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "maxOpenCursors",
        write: |engine, out, name| {
            out.count(name, engine.service.cursors.open_max.load(Ordering::Relaxed) as u64);
        },
        set: Some(|engine, value| {
            let most = usize::try_from(whole(value)?).ok().filter(|most| *most > 0)?;
            engine.service.cursors.open_max.store(most, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "maxOpenTransactions",
        write: |engine, out, name| {
            out.count(
                name,
                engine.service.sessions.transactions.open_max.load(Ordering::Relaxed) as u64,
            );
        },
        set: Some(|engine, value| {
            let most = usize::try_from(whole(value)?).ok().filter(|most| *most > 0)?;
            engine.service.sessions.transactions.open_max.store(most, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "maxSessions",
        write: |engine, out, name| {
            out.count(name, engine.service.sessions.known_max.load(Ordering::Relaxed) as u64);
        },
        set: Some(|engine, value| {
            let most = usize::try_from(whole(value)?).ok().filter(|most| *most > 0)?;
            engine.service.sessions.known_max.store(most, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "maxSnapshotRetentionMegabytes",
        write: |engine, out, name| {
            out.count(name, engine.data.store.snapshot_limits().bytes >> 20);
        },
        set: Some(|engine, value| {
            let megabytes = u64::try_from(whole(value)?).ok().filter(|number| *number > 0)?;
            let mut limits = engine.data.store.snapshot_limits();
            limits.bytes = megabytes.checked_mul(1 << 20)?;
            engine.data.store.set_snapshot_limits(limits).then_some(())
        }),
    },
    Parameter {
        name: "minSnapshotHistoryWindowInSeconds",
        write: |engine, out, name| {
            let seconds = engine.data.past.window_seconds.load(Ordering::Relaxed);
            out.i32(name, i32::try_from(seconds).unwrap_or(i32::MAX));
        },
        set: Some(|engine, value| {
            let seconds =
                whole(value).filter(|seconds| (0..=i64::from(i32::MAX)).contains(seconds))?;
            engine.data.past.window_seconds.store(seconds, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "notablescan",
        write: |engine, out, name| {
            out.bool(name, engine.data.resources.no_scans.load(Ordering::Relaxed));
        },
        set: Some(|engine, value| {
            let Val::Bool(refused) = value else { return None };
            engine.data.resources.no_scans.store(refused, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "oplogMinRetentionHours",
        write: |engine, out, name| {
            out.f64(name, engine.data.changes.keep_hours());
        },
        set: None,
    },
    Parameter {
        name: "oplogSizeMB",
        write: |engine, out, name| {
            out.count(name, engine.data.changes.bytes_max() / (1024 * 1024));
        },
        set: None,
    },
    Parameter {
        name: "patternStrategyPeriodSecs",
        write: |engine, out, name| {
            let seconds = engine.background.upkeep.strategies.period_seconds();
            out.i32(name, i32::try_from(seconds).unwrap_or(i32::MAX));
        },
        set: Some(|engine, value| {
            let seconds =
                whole(value).filter(|seconds| (1..=i64::from(i32::MAX)).contains(seconds))?;
            engine.background.upkeep.strategies.set_period_seconds(seconds);
            Some(())
        }),
    },
    Parameter {
        name: "requireApiVersion",
        write: |_, out, name| {
            out.bool(name, false);
        },
        set: None,
    },
    Parameter {
        name: "scramIterationCount",
        write: |engine, out, name| {
            out.count(
                name,
                u64::from(engine.service.access.sha1_iterations.load(Ordering::Relaxed)),
            );
        },
        set: Some(|engine, value| {
            let count = u32::try_from(whole(value)?).ok();
            let count = count.filter(|count| (5_000..=ITERATIONS_MAX).contains(count))?;
            engine.service.access.sha1_iterations.store(count, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "scramSHA256IterationCount",
        write: |engine, out, name| {
            out.count(
                name,
                u64::from(engine.service.access.sha256_iterations.load(Ordering::Relaxed)),
            );
        },
        set: Some(|engine, value| {
            let count = u32::try_from(whole(value)?).ok();
            let count = count.filter(|count| (5_000..=ITERATIONS_MAX).contains(count))?;
            engine.service.access.sha256_iterations.store(count, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "snapshotLifetimeLimitSeconds",
        write: |engine, out, name| {
            out.count(name, engine.data.store.snapshot_limits().age.as_secs());
        },
        set: Some(|engine, value| {
            let seconds =
                whole(value).filter(|seconds| (1..=i64::from(i32::MAX)).contains(seconds))?;
            let mut limits = engine.data.store.snapshot_limits();
            limits.age = Duration::from_secs(seconds.unsigned_abs());
            engine.data.store.set_snapshot_limits(limits).then_some(())
        }),
    },
    Parameter {
        name: "transactionLifetimeLimitSeconds",
        write: |engine, out, name| {
            let transactions = &engine.service.sessions.transactions;
            out.count(name, transactions.lifetime_seconds.load(Ordering::Relaxed).unsigned_abs());
        },
        set: Some(|engine, value| {
            let seconds =
                whole(value).filter(|seconds| (1..=i64::from(i32::MAX)).contains(seconds))?;
            engine.service.sessions.transactions.lifetime_seconds.store(seconds, Ordering::Relaxed);
            Some(())
        }),
    },
    Parameter {
        name: "ttlMonitorSleepSecs",
        write: |engine, out, name| {
            out.i32(
                name,
                i32::try_from(engine.background.ttl.period_seconds()).unwrap_or(i32::MAX),
            );
        },
        set: Some(|engine, value| {
            let seconds =
                whole(value).filter(|seconds| (1..=i64::from(i32::MAX)).contains(seconds))?;
            engine.background.ttl.set_period_seconds(seconds);
            Some(())
        }),
    },
];

/// Reads a whole number; fractions are truncated, as in MongoDB.
fn whole(value: Val<'_>) -> Option<i64> {
    value.as_f64().filter(|n| n.is_finite()).map(|n| n as i64)
}

/// Whether a parameter cannot change while the server runs. Log levels need a log writer.
pub(super) fn is_fixed(engine: &Inner, parameter: &Parameter) -> bool {
    let unheard = matches!(parameter.name, "logLevel" | "logComponentVerbosity")
        && engine.observed.parameters.log_listener.lock().is_none();
    parameter.set.is_none() || unheard
}

/// All parameters, also those that never change.
pub(super) fn all() -> impl Iterator<Item = &'static Parameter> {
    PARAMETERS.iter().chain(FIXED)
}

fn find(name: &str) -> Option<&'static Parameter> {
    all().find(|parameter| parameter.name == name)
}

pub(super) fn set(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let generic = |name: &str| {
        name.starts_with('$')
            || matches!(
                name,
                "setParameter"
                    | "lsid"
                    | "comment"
                    | "writeConcern"
                    | "readConcern"
                    | "maxTimeMS"
                    | "apiVersion"
                    | "apiStrict"
                    | "apiDeprecationErrors"
                    | "txnNumber"
            )
    };
    let wanted: Vec<_> = context.args.doc.iter().filter(|(name, _)| !generic(name)).collect();
    let refuse = |message: String| Err(Error::new(Code::INVALID_OPTIONS, message));
    if wanted.is_empty() {
        return refuse("no option found to set, use help:true to see options ".to_owned());
    }
    // All names are checked before the first value changes.
    for (name, _) in &wanted {
        match find(name) {
            None => {
                return refuse(format!(
                    "attempted to set unrecognized parameter [{name}], use help:true to see \
                     options "
                ));
            }
            Some(parameter) if is_fixed(context.engine, parameter) => {
                return Err(Error::new(
                    Code::ILLEGAL_OPERATION,
                    format!("not allowed to change [{name}] at runtime"),
                ));
            }
            Some(_) => {}
        }
    }
    for (at, (name, value)) in wanted.iter().enumerate() {
        let Some(Parameter { write, set: Some(set), .. }) = find(name) else { continue };
        if at + 1 == wanted.len() {
            write(context.engine, out, "was");
        }
        if *name == "logComponentVerbosity" && value.as_doc().is_none() {
            return Err(Error::type_mismatch("log component verbosity is not a BSON object"));
        }
        if set(context.engine, value.get()).is_none() {
            return Err(Error::bad_value(format!(
                "Invalid value for {name}: {name}: {}",
                ejson::print_value(value.get(), Format::Shell)
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Options};

    #[test]
    fn parameters_are_sorted() {
        assert!(PARAMETERS.is_sorted_by_key(|parameter| parameter.name));
        assert!(FIXED.is_sorted_by_key(|parameter| parameter.name));
    }

    #[test]
    fn what_is_set_is_read_again() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("admin", command.as_doc())
        };
        let code = |text: &str| run(text).map_or_else(|error| error.code().0, |_| 0);
        let was = run("{setParameter: 1, cursorTimeoutMillis: 5000.5}").expect("works");
        assert_eq!(was.as_doc().get("was"), Some(Val::Int64(600_000)));
        let now = run("{getParameter: 1, cursorTimeoutMillis: 1}").expect("works");
        assert_eq!(now.as_doc().get("cursorTimeoutMillis"), Some(Val::Int64(5000)));
        assert_eq!(code("{getParameter: 'foo'}"), 72);
        assert_eq!(code("{getParameter: 1, nope: 1}"), 72);
        assert_eq!(code("{getParameter: '*'}"), 0);
        assert_eq!(code("{setParameter: 1, nope: 1}"), 72);
        assert_eq!(code("{setParameter: 1}"), 72);
        assert_eq!(code("{setParameter: 1, logLevel: 1}"), 20);
        engine.on_log_level(Box::new(|_| {}));
        assert_eq!(code("{setParameter: 1, logLevel: 1}"), 0);
        assert_eq!(code("{setParameter: 1, logLevel: 'a'}"), 2);
        assert_eq!(code("{setParameter: 1, ttlMonitorSleepSecs: 0}"), 2);
        assert_eq!(code("{setParameter: 1, ttlMonitorSleepSecs: 1}"), 0);
        assert_eq!(code("{setParameter: 1, featureCompatibilityVersion: '7.0'}"), 20);
        let details = run("{getParameter: {showDetails: true}, logLevel: 1}").expect("works");
        let level = details.as_doc().get("logLevel").and_then(Val::as_doc).expect("details");
        assert_eq!(level.get("settableAtRuntime"), Some(Val::Bool(true)));
    }
}
