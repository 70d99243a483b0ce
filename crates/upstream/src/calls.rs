//! How commands are handled: which go to the cluster, to which members, and which do not.

use value::{Code, Error, RawDoc, Val};

/// How a command is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handling {
    /// The primary runs it.
    Primary,
    /// A member that the read preference selects runs it.
    Read,
    /// The member with its cursor runs it.
    GetMore,
    /// The members with its cursors run it.
    KillCursors,
    /// It is part of a login: all later commands take the same connection.
    Login,
    /// It is refused.
    Refused(&'static str),
}

/// The commands that a secondary can run.
const READS: &[&str] = &[
    "aggregate",
    "collStats",
    "count",
    "dataSize",
    "dbHash",
    "dbStats",
    "distinct",
    "explain",
    "find",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "mapReduce",
    "validate",
];

/// The commands about patterns, which need the embedded engine.
const PATTERN_COMMANDS: &[&str] = &[
    "applyPatterns",
    "createPatterns",
    "dropPatterns",
    "listPatterns",
    "modifyPattern",
    "resumePatterns",
    "suspendPatterns",
    "validatePatterns",
];

const NO_PATTERNS: &str =
    "patterns are not available with --upstream: this server passes commands on to a cluster";
const NO_SHUTDOWN: &str = "this server passes commands on to a cluster and would stop a member of it; \
                           end the server with a signal, or connect to the member";

/// How a command is handled.
pub(crate) fn handling(command: RawDoc<'_>) -> Handling {
    let name = command.first().map_or("", |(name, _)| name);
    match name {
        "getMore" => Handling::GetMore,
        "killCursors" => Handling::KillCursors,
        "saslStart" | "saslContinue" | "authenticate" | "logout" => Handling::Login,
        "shutdown" => Handling::Refused(NO_SHUTDOWN),
        _ if PATTERN_COMMANDS.contains(&name) => Handling::Refused(NO_PATTERNS),
        _ if READS.contains(&name) && !writes(command) && !is_in_transaction(command) => {
            Handling::Read
        }
        _ => Handling::Primary,
    }
}

/// The error of a command that is refused.
pub(crate) fn refusal(reason: &'static str) -> Error {
    Error::new(Code::COMMAND_NOT_SUPPORTED, reason)
}

/// Whether a command is a statement of a transaction.
pub(crate) fn is_in_transaction(command: RawDoc<'_>) -> bool {
    command.get("autocommit") == Some(Val::Bool(false))
}

/// Whether an aggregation or a map-reduce writes.
fn writes(command: RawDoc<'_>) -> bool {
    let out = command.get("out").and_then(Val::as_doc);
    if command.find("mapReduce").is_some() {
        return out.is_none_or(|out| out.find("inline").is_none());
    }
    let inner = command.get("explain").and_then(Val::as_doc).unwrap_or(command);
    let stages = inner.get("pipeline").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let last = stages.iter().last().and_then(|(_, stage)| stage.as_doc());
    let name = last.and_then(|stage| stage.first()).map(|(name, _)| name);
    matches!(name, Some("$out" | "$merge"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn of(command: &str) -> Handling {
        handling(ejson::parse_doc(command).expect("a document").as_doc())
    }

    #[test]
    fn reads_may_go_to_secondaries_and_writes_may_not() {
        assert_eq!(of("{find: 'c'}"), Handling::Read);
        assert_eq!(of("{aggregate: 'c', pipeline: [{$match: {}}]}"), Handling::Read);
        assert_eq!(
            of("{aggregate: 'c', pipeline: [{$match: {}}, {$out: 'd'}]}"),
            Handling::Primary
        );
        assert_eq!(of("{aggregate: 'c', pipeline: [{$merge: 'd'}]}"), Handling::Primary);
        assert_eq!(of("{mapReduce: 'c', out: {inline: 1}}"), Handling::Read);
        assert_eq!(of("{mapReduce: 'c', out: 'd'}"), Handling::Primary);
        assert_eq!(of("{insert: 'c'}"), Handling::Primary);
        assert_eq!(of("{ping: 1}"), Handling::Primary);
        assert_eq!(of("{find: 'c', autocommit: false, txnNumber: 1}"), Handling::Primary);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        assert!(matches!(of("{createPatterns: 'c', patterns: []}"), Handling::Refused(_)));
        assert!(matches!(of("{shutdown: 1}"), Handling::Refused(_)));
    }
}
