//! The log's lines about commands: who did what, from where, for how long, and whether it worked.
//!
//! Names only. What a command carries, what documents hold, and messages of errors (which repeat
//! values) never come here; `profiler` decides which operations are slow.

use crate::operation::Operation;
use crate::profiler::Ended;
use value::{Code, RawDoc, Val};

/// Writes a line about a command that ended: at `warn` when somebody was refused, at `info` when it
/// changed who may do what or took something away, else at `debug`.
pub(crate) fn note(op: &Operation, ended: &Ended<'_>) {
    let refused = ended.error.is_some_and(|error| {
        matches!(error.code(), Code::UNAUTHORIZED | Code::AUTHENTICATION_FAILED)
    });
    let important = is_important(ended.name);
    if !refused && !important && !tracing::enabled!(tracing::Level::DEBUG) {
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
    } else if important {
        tracing::info!(connection, client, user, command, namespace, code, duration_ms, "command");
    } else {
        tracing::debug!(connection, client, user, command, namespace, code, duration_ms, "command");
    }
}

/// Writes a line about an operation that took long.
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

/// Commands after which something is gone, or somebody may do other things than before.
fn is_important(command: &str) -> bool {
    // Most commands are one of these.
    if matches!(command, "find" | "insert" | "update" | "delete" | "getMore" | "aggregate") {
        return false;
    }
    matches!(
        command,
        "drop"
            | "dropDatabase"
            | "dropIndexes"
            | "renameCollection"
            | "setParameter"
            | "shutdown"
            | "logRotate"
            | "profile"
            | "dropPatterns"
            | "replSetResizeOplog"
            | "killAllSessions"
    ) || ["User", "Role", "Privileges"].iter().any(|word| command.contains(word))
        && !command.ends_with("Info")
}

/// The database and collection that a command is about.
pub(crate) fn namespace(ended: &Ended<'_>) -> String {
    let name = match ended.name {
        "getMore" => ended.body.get("collection"),
        name if names_no_collection(name) => None,
        _ => ended.body.first().map(|(_, value)| value.get()),
    };
    match name {
        Some(Val::String(name)) => format!("{}.{name}", ended.db),
        _ => format!("{}.$cmd", ended.db),
    }
}

/// Commands whose first value is a word of another kind, such as the name of a user.
fn names_no_collection(command: &str) -> bool {
    command.contains("User")
        || command.contains("Role")
        || matches!(
            command,
            "" | "getLog"
                | "getParameter"
                | "configureFailPoint"
                | "filemd5"
                | "renameCollection"
                | "explain"
        )
}

/// The command that a request names, if there is such a command; what a client invents is not
/// written anywhere.
pub(crate) fn known_name(body: RawDoc<'_>) -> &'static str {
    body.first().and_then(|(name, _)| crate::commands::find(name)).map_or("unknown", |row| row.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use value::ejson;

    #[test]
    fn a_namespace_names_collections_and_nothing_else() {
        let shown = |name, text: &str| {
            let body = ejson::parse_doc(text).expect("readable");
            let (body, db) = (body.as_doc(), "shop");
            let elapsed = Duration::ZERO;
            namespace(&Ended { name, body, db, elapsed, error: None, reply_bytes: 0 })
        };
        assert_eq!(shown("find", "{find: 'orders'}"), "shop.orders");
        assert_eq!(shown("getMore", "{getMore: 5, collection: 'orders'}"), "shop.orders");
        assert_eq!(shown("createUser", "{createUser: 'ada', pwd: 'x'}"), "shop.$cmd");
        assert_eq!(shown("aggregate", "{aggregate: 1}"), "shop.$cmd");
    }

    #[test]
    fn lines_about_rights_are_important_and_those_about_reading_are_not() {
        for name in ["createUser", "grantRolesToUser", "revokePrivilegesFromRole", "dropDatabase"] {
            assert!(is_important(name), "{name}");
        }
        for name in ["find", "usersInfo", "rolesInfo", "insert", "hello"] {
            assert!(!is_important(name), "{name}");
        }
    }
}
