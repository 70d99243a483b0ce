//! `$listSessions`: lists the sessions in config.system.sessions.

use super::StageRow;
use super::diagnostics::{Server, SessionOwners};
use super::privileges::{PipelinePrivileges, Privilege, flag};
use super::row::Runs;
use ::access::Action;
use value::{Code, DocBuf, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$listSessions",
    help: "Lists the sessions in config.system.sessions.",
    runs: Runs::AtOnce(make),
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

fn privilege(client: &PipelinePrivileges<'_>, _: Option<&str>, spec: Val<'_>) -> bool {
    may_list_sessions(client, spec)
}

/// Every user may see their own sessions.
pub(super) fn may_list_sessions(client: &PipelinePrivileges<'_>, spec: Val<'_>) -> bool {
    let others = spec.as_doc().is_some_and(|doc| doc.find("users").is_some());
    !(others || flag(spec, "allUsers")) || client.on_cluster(Action::ListSessions)
}

fn make(server: &dyn Server, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let owners = SessionOwners::parse("$listSessions", value)?;
    if name != Some("system.sessions") || server.db() != "config" {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            "$listSessions may only be run against config.system.sessions",
        ));
    }
    // Sessions are in memory; the one server has all of them.
    Ok(server.sessions(&owners))
}
