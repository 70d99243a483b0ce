//! The list of starts of the server: `local.startup_log`.
//!
//! Layer: engine.

use crate::engine::Engine;
use crate::{host, own_log, store_failed};
use jiff::Zoned;
use value::{DocBuf, Result, Val};

const COLLECTION: &str = "startup_log";

/// Bytes of that collection.
const COLLECTION_BYTES: i64 = 10 * 1024 * 1024;

impl Engine {
    /// Adds this start of the server to `local.startup_log`: when, with which options, which
    /// version.
    ///
    /// # Errors
    /// Errors of the write.
    pub fn record_start(&self) -> Result<()> {
        let data = &self.inner().data;
        let of = |command: &str| {
            let command = DocBuf::build(|out| {
                out.i32(command, 1);
            });
            self.run_command("admin", command.as_doc())
        };
        let (options, build) = (of("getCmdLineOpts")?, of("buildInfo")?);
        let (now, name) = (crate::clock::now_ms(), host::name());
        let start = DocBuf::build(|out| {
            out.str("_id", &format!("{name}-{now}"));
            out.str("hostname", &name);
            out.append("startTime", Val::DateTime(now));
            out.str("startTimeLocal", &local_time());
            out.append("cmdLine", options.as_doc().get("parsed").unwrap_or(Val::Null));
            out.i64("pid", i64::from(std::process::id()));
            out.doc("buildinfo", |out| {
                // What follows the facts belongs to the reply.
                let facts = build.as_doc().iter().take_while(|(name, _)| *name != "ok");
                facts.for_each(|(name, value)| {
                    out.raw(name, value);
                });
            });
        });
        match own_log::append(data, "local", COLLECTION, COLLECTION_BYTES, &start)? {
            Some(seqno) => data.store.sync(seqno).map_err(store_failed),
            None => Ok(()),
        }
    }
}

/// The time in the zone of the machine, as `ctime` writes it, with milliseconds.
fn local_time() -> String {
    Zoned::now().strftime("%a %b %e %H:%M:%S%.3f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Options;
    use value::ejson;

    #[test]
    fn each_start_is_a_document() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        engine.record_start().expect("works");
        let find = ejson::parse_doc("{find: 'startup_log'}").expect("test text");
        let reply = engine.run_command("local", find.as_doc()).expect("works");
        let batch = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        let batch = batch.get("firstBatch").and_then(Val::as_array).expect("a batch");
        let (_, first) = batch.first().expect("a start");
        let first = first.as_doc().expect("a document");
        let names: Vec<&str> = first.iter().map(|(name, _)| name).collect();
        let known =
            ["_id", "hostname", "startTime", "startTimeLocal", "cmdLine", "pid", "buildinfo"];
        assert_eq!(names, known);
        let build = first.get("buildinfo").and_then(Val::as_doc).expect("a document");
        assert!(build.find("version").is_some() && build.find("ok").is_none());
        let local = first.get("startTimeLocal").and_then(Val::as_str).expect("a text");
        assert_eq!(local.len(), "Mon Nov 16 22:06:35.123".len(), "{local}");
    }
}
