//! Log lines for `getLog`, in the format of MongoDB's log: one JSON document per line. Messages that
//! MongoDB has too have its number in `id`, because tools search for these.

use motifdb::Engine;
use std::sync::OnceLock;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use value::ejson::{self, Format};
use value::{DocBuf, OwnedVal, Val};

/// The engine that keeps log lines, once it is open. Logging starts earlier.
pub(crate) static SERVED: OnceLock<Engine> = OnceLock::new();

/// A log layer that passes every event to the engine.
pub(crate) struct LogMemory;

impl<S: Subscriber> Layer<S> for LogMemory {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if let Some(engine) = SERVED.get() {
            engine.remember_log_line(line(event));
        }
    }
}

/// The values of an event.
#[derive(Default)]
struct Values {
    id: i64,
    message: String,
    others: Vec<(&'static str, OwnedVal)>,
}

impl Values {
    fn add(&mut self, field: &Field, value: Val<'_>) {
        match (field.name(), value) {
            ("id", Val::Int64(id)) => self.id = id,
            (name, value) => self.others.push((name, OwnedVal::new(value))),
        }
    }
}

impl Visit for Values {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Val::Double(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Val::Int64(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Val::Int64(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Val::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Val::String(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            _ => self.add(field, Val::String(&text)),
        }
    }
}

/// An event as a line.
fn line(event: &Event<'_>) -> String {
    let mut values = Values::default();
    event.record(&mut values);
    let severity = match *event.metadata().level() {
        Level::ERROR => "E",
        Level::WARN => "W",
        Level::INFO => "I",
        Level::DEBUG => "D1",
        Level::TRACE => "D2",
    };
    let thread = std::thread::current();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    let doc = DocBuf::build(|out| {
        out.append("t", Val::DateTime(now));
        out.str("s", severity).str("c", component(event.metadata().target()));
        out.i32("id", i32::try_from(values.id).unwrap_or(0));
        out.str("ctx", thread.name().unwrap_or("-")).str("msg", &values.message);
        if !values.others.is_empty() {
            out.doc("attr", |out| {
                for (name, value) in &values.others {
                    out.raw(name, value.raw());
                }
            });
        }
    });
    ejson::print(doc.as_doc(), Format::Relaxed)
}

/// The component of a line, by the module that logs it.
fn component(target: &str) -> &'static str {
    let has = |part: &str| target.split("::").any(|module| module == part);
    match () {
        () if has("access") => "ACCESS",
        () if has("commands") || has("command_log") => "COMMAND",
        () if has("index") => "INDEX",
        () if has("server") => "NETWORK",
        () if has("store") || has("catalog") || has("validation") => "STORAGE",
        () => "-",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::layer::SubscriberExt;

    struct Lines(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(line(event));
        }
    }

    #[test]
    fn a_line_is_a_document_with_the_number_of_its_message() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = tracing_subscriber::registry().with(Lines(lines.clone()));
        tracing::subscriber::with_default(log, || {
            tracing::warn!(id = 20294, namespace = "a.b", rows = 3_u64, "Document \"would\" fail");
            tracing::info!("plain");
        });
        let lines = lines.lock().unwrap();
        let [first, second] = lines.as_slice() else { panic!("two lines: {lines:?}") };
        let first = ejson::parse_doc(first).unwrap();
        let first = first.as_doc();
        assert_eq!(first.get("s"), Some(Val::String("W")));
        assert_eq!(first.get("id"), Some(Val::Int32(20294)));
        assert_eq!(first.get("msg"), Some(Val::String("Document \"would\" fail")));
        let attributes = first.get("attr").and_then(Val::as_doc).unwrap();
        assert_eq!(attributes.get("namespace"), Some(Val::String("a.b")));
        assert!(second.contains("\"msg\"") && !second.contains("\"attr\""));
    }
}
