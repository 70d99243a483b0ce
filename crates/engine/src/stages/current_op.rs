//! `$currentOp`: lists the running operations.

use super::StageRow;
use super::diagnostics::Server;
use super::privileges::{PipelinePrivileges, Privilege, flag};
use super::row::{Runs, Source};
use ::access::Action;
use value::{Code, DocBuf, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$currentOp",
    help: "Lists the running operations.",
    source: Source::Nothing,
    runs: Runs::AtOnce(make),
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

/// Every user may see their own operations.
fn privilege(client: &PipelinePrivileges<'_>, _: Option<&str>, spec: Val<'_>) -> bool {
    !flag(spec, "allUsers") || client.on_cluster(Action::Inprog)
}

fn make(server: &dyn Server, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let Val::Document(doc) = value else {
        return Err(Error::failed_to_parse(format!(
            "$currentOp options must be specified in an object, but found: {}",
            value.kind().name()
        )));
    };
    let (mut idle, mut idle_cursors, mut all_users) = (false, false, false);
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
            "idleCursors" => idle_cursors = on,
            "allUsers" => all_users = on,
            _ => {}
        }
    }
    if name.is_some() || server.db() != "admin" {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            "$currentOp must be run against the 'admin' database with {aggregate: 1}",
        ));
    }
    let mut rows = server.operations(idle, !all_users);
    if idle_cursors {
        rows.extend(server.idle_cursors(!all_users));
    }
    Ok(rows)
}
