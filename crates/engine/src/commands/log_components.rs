//! `logComponentVerbosity`: how much is logged by part of the server, as `db.setLogLevel` sets it and
//! `db.getLogComponents` shows it.

use crate::parameters::{LogLevels, Parameters};
use crate::shared::Inner;
use std::collections::BTreeMap;
use value::{RawDoc, Val, Writer};

/// The verbosity of a component that has none of its own: that of the component above it.
const INHERITED: i64 = -1;
/// The most; more counts as this.
const VERBOSITY_MAX: i64 = 5;

/// The components of MongoDB, with dots between the levels, and the modules whose lines belong to each.
/// Some have no lines here.
static COMPONENTS: &[(&str, &[&str])] = &[
    ("accessControl", &["motifdb::access"]),
    ("assert", &[]),
    ("command", &["motifdb::command_log", "motifdb::profiler"]),
    ("control", &["motif::", "motifdb::engine"]),
    ("executor", &[]),
    ("geo", &[]),
    ("index", &["motifdb::index"]),
    ("network", &["server"]),
    ("network.asio", &[]),
    ("network.bridge", &[]),
    ("network.connectionPool", &["server::pool"]),
    ("processHealth", &[]),
    ("query", &["motifdb::planner", "motifdb::exec", "motifdb::stages"]),
    ("replication", &["motifdb::change_streams", "motifdb::changes"]),
    ("replication.election", &[]),
    ("replication.heartbeats", &[]),
    ("replication.initialSync", &[]),
    ("replication.rollback", &[]),
    ("sharding", &[]),
    ("sharding.migration", &[]),
    ("sharding.migrationPerf", &[]),
    ("sharding.rangeDeleter", &[]),
    ("sharding.reshard", &[]),
    ("sharding.shardingCatalogRefresh", &[]),
    ("storage", &["store", "motifdb::trash", "motifdb::ttl"]),
    ("storage.journal", &["store::disk::log", "store::disk::segment"]),
    ("storage.recovery", &["store::disk::recover", "motifdb::repair"]),
    ("write", &["motifdb::records", "motifdb::upkeep", "motifdb::validation"]),
    ("ftdc", &[]),
    ("tracking", &[]),
    ("transaction", &["motifdb::session", "motifdb::txn"]),
    ("tenantMigration", &[]),
    ("test", &[]),
];

/// Writes the components as nested documents, each with its verbosity.
pub(super) fn write(engine: &Inner, out: &mut Writer<'_>, field: &str) {
    let levels = engine.observed.parameters.levels.lock();
    out.doc(field, |out| {
        out.i32("verbosity", levels.default);
        let top = COMPONENTS.iter().filter(|(name, _)| !name.contains('.'));
        for (name, _) in top {
            out.doc(name, |out| {
                out.i32("verbosity", verbosity(&levels, name));
                let inner = COMPONENTS.iter().filter_map(|(path, _)| {
                    let inner = path.strip_prefix(name)?.strip_prefix('.')?;
                    Some((inner, verbosity(&levels, path)))
                });
                for (inner, verbosity) in inner {
                    out.doc(inner, |out| {
                        out.i32("verbosity", verbosity);
                    });
                }
            });
        }
    });
}

fn verbosity(levels: &LogLevels, path: &str) -> i32 {
    levels.components.get(path).copied().unwrap_or(INHERITED as i32)
}

/// Sets the given components; those that are not named stay. Nothing changes if one of them is unknown
/// or a verbosity is none.
pub(super) fn set(engine: &Inner, value: Val<'_>) -> Option<()> {
    let Val::Document(doc) = value else { return None };
    let mut wanted = BTreeMap::new();
    read(doc, "", &mut wanted)?;
    let parameters = &engine.observed.parameters;
    let mut levels = parameters.levels.lock();
    for (path, verbosity) in wanted {
        match (path, verbosity) {
            // Nothing is above the whole.
            ("", verbosity) => levels.default = verbosity.max(0),
            (path, -1) => drop(levels.components.remove(path)),
            (path, verbosity) => drop(levels.components.insert(path, verbosity)),
        }
    }
    apply(parameters, &mut levels);
    Some(())
}

/// Sets the verbosity of what has none of its own.
pub(super) fn set_default(parameters: &Parameters, verbosity: i32) {
    let mut levels = parameters.levels.lock();
    levels.default = verbosity.min(VERBOSITY_MAX as i32);
    apply(parameters, &mut levels);
}

/// Passes the levels to the writer of the log.
fn apply(parameters: &Parameters, levels: &mut LogLevels) {
    levels.modules = COMPONENTS
        .iter()
        .filter_map(|(path, modules)| Some((*levels.components.get(path)?, modules)))
        .flat_map(|(verbosity, modules)| modules.iter().map(move |module| (*module, verbosity)))
        .collect();
    if let Some(listener) = &*parameters.log_listener.lock() {
        listener(levels);
    }
}

fn read(doc: RawDoc<'_>, above: &str, wanted: &mut BTreeMap<&'static str, i32>) -> Option<()> {
    for (name, value) in doc {
        let path = match (name, above) {
            ("verbosity", _) => above.to_owned(),
            (name, "") => name.to_owned(),
            (name, above) => format!("{above}.{name}"),
        };
        let known = COMPONENTS.iter().map(|(known, _)| *known).chain([""]);
        let known = known.into_iter().find(|known| *known == path)?;
        match value.get() {
            Val::Document(inner) if name != "verbosity" => read(inner, known, wanted)?,
            value => {
                // A fraction is cut off, as in MongoDB.
                let verbosity = value.as_f64().filter(|number| number.is_finite())? as i64;
                let verbosity = verbosity.clamp(INHERITED, VERBOSITY_MAX);
                wanted.insert(known, i32::try_from(verbosity).ok()?);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use std::sync::{Arc, Mutex};
    use value::{Val, ejson};

    #[test]
    fn components_are_set_and_shown() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("admin", command.as_doc())
        };
        let set = |text: &str| {
            let command = format!("{{setParameter: 1, logComponentVerbosity: {text}}}");
            run(&command).map_or_else(|error| error.code().0, |_| 0)
        };
        assert_eq!(set("{verbosity: 1}"), 20, "nobody writes a log");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&heard);
        engine.on_log_level(Box::new(move |levels| {
            *listener.lock().expect("is free") = levels.modules.clone();
        }));
        assert_eq!(set("{storage: {verbosity: 1, journal: {verbosity: 2}}, command: 3}"), 0);
        let modules = heard.lock().expect("is free").clone();
        assert!(modules.contains(&("store", 1)) && modules.contains(&("store::disk::log", 2)));
        assert!(modules.contains(&("motifdb::command_log", 3)));
        for wrong in ["{nope: 1}", "{storage: {nope: 1}}", "{command: 'a'}"] {
            assert_eq!(set(wrong), 2, "{wrong}");
        }
        assert_eq!(set("5"), 14);
        let shown = |path: &[&str]| {
            let reply = run("{getParameter: 1, logComponentVerbosity: 1}").expect("works");
            let mut value = Val::Document(reply.as_doc());
            for name in ["logComponentVerbosity"].iter().chain(path).chain(&["verbosity"]) {
                value = value.as_doc().and_then(|doc| doc.get(name)).expect("is shown");
            }
            value.as_i64_exact()
        };
        assert_eq!(shown(&["storage", "journal"]), Some(2));
        assert_eq!((shown(&["storage", "recovery"]), shown(&["geo"])), (Some(-1), Some(-1)));
        assert_eq!((set("{command: 9}"), shown(&["command"])), (0, Some(5)));
        assert_eq!(set("{command: -1, verbosity: 1}"), 0);
        assert_eq!((shown(&["command"]), shown(&[])), (Some(-1), Some(1)));
        let level = run("{getParameter: 1, logLevel: 1}").expect("works");
        assert_eq!(level.as_doc().get("logLevel"), Some(Val::Int32(1)));
    }
}
