//! Log lines about commands: user, command, address, duration and outcome.
//!
//! Lines contain names only. Values of commands, contents of documents and error messages (which
//! repeat values) are never logged; `profiler` decides which operations are slow.
//!
//! Layer: service.

use crate::operation::{NamedIn, Operation};
use crate::usage::Kind;
use std::time::Duration;
use value::{Code, Error, RawDoc};

/// A command that has ended.
pub struct Ended<'a> {
    /// The command's name.
    pub name: &'static str,
    /// Its class in the statistics.
    pub(crate) kind: Kind,
    /// The command.
    pub body: RawDoc<'a>,
    /// Which field of the command names the collection.
    pub(crate) namespace: NamedIn,
    /// The database.
    pub db: &'a str,
    /// How long the command ran.
    pub elapsed: Duration,
    /// The error, if the command failed.
    pub error: Option<&'a Error>,
    /// Bytes of the reply.
    pub reply_bytes: usize,
    /// Whether the command may wait for changes.
    pub(crate) waits: bool,
}

/// Logs a command that has ended: at `warn` when access was denied, at `info` when the command is
/// `audited`, otherwise at `debug`.
pub(crate) fn note(op: &Operation, ended: &Ended<'_>, audited: bool) {
    let refused = ended.error.is_some_and(|error| {
        matches!(error.code(), Code::UNAUTHORIZED | Code::AUTHENTICATION_FAILED)
    });
    if !refused && !audited && !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let slot = op.slot();
    let user = slot.user.lock().clone().unwrap_or_default();
    let (connection, client) = (slot.connection_id, slot.remote.as_str());
    let (command, namespace) = (ended.name, namespace(ended));
    let code = ended.error.map_or(0, |error| error.code().0);
    let duration_ms = ended.elapsed.as_secs_f64() * 1000.0;
    if refused {
        tracing::warn!(connection, client, user, command, namespace, code, duration_ms, "refused");
    } else if audited {
        tracing::info!(connection, client, user, command, namespace, code, duration_ms, "command");
    } else {
        tracing::debug!(connection, client, user, command, namespace, code, duration_ms, "command");
    }
}

/// Logs a slow operation.
pub(crate) fn note_slow(op: &Operation, ended: &Ended<'_>) {
    let cost = op.cost();
    let slot = op.slot();
    tracing::warn!(
        connection = slot.connection_id,
        client = slot.remote,
        user = slot.user.lock().as_deref().unwrap_or_default(),
        command = ended.name,
        namespace = namespace(ended),
        plan = op.plan_summary().unwrap_or_default(),
        keys_examined = cost.keys,
        docs_examined = cost.documents,
        returned = cost.returned,
        code = ended.error.map_or(0, |error| error.code().0),
        duration_ms = ended.elapsed.as_secs_f64() * 1000.0,
        "slow operation"
    );
}

/// The namespace that a command refers to.
pub(crate) fn namespace(ended: &Ended<'_>) -> String {
    let name = ended.namespace.collection(ended.body).unwrap_or("$cmd");
    format!("{}.{name}", ended.db)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::NamedIn;
    use crate::usage::Kind;
    use std::time::Duration;
    use value::ejson;

    #[test]
    fn a_namespace_names_collections_and_nothing_else() {
        let shown = |namespace, text: &str| {
            let body = ejson::parse_doc(text).expect("readable");
            super::namespace(&Ended {
                name: "",
                kind: Kind::Command,
                body: body.as_doc(),
                namespace,
                db: "shop",
                elapsed: Duration::ZERO,
                error: None,
                reply_bytes: 0,
                waits: false,
            })
        };
        assert_eq!(shown(NamedIn::FirstField, "{find: 'orders'}"), "shop.orders");
        let more = "{getMore: 5, collection: 'orders'}";
        assert_eq!(shown(NamedIn::Field("collection"), more), "shop.orders");
        assert_eq!(shown(NamedIn::None, "{createUser: 'ada', pwd: 'x'}"), "shop.$cmd");
        assert_eq!(shown(NamedIn::FirstField, "{aggregate: 1}"), "shop.$cmd");
    }
}
