//! `$listLocalSessions`: lists the sessions in memory.

use super::StageRow;
use super::diagnostics::{Server, SessionOwners};
use super::list_sessions::may_list_sessions;
use super::privileges::{PipelinePrivileges, Privilege};
use super::row::{Runs, Source};
use value::{Code, DocBuf, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$listLocalSessions",
    help: "Lists the sessions in memory.",
    source: Source::Nothing,
    runs: Runs::AtOnce(make),
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

fn privilege(client: &PipelinePrivileges<'_>, _: Option<&str>, spec: Val<'_>) -> bool {
    may_list_sessions(client, spec)
}

fn make(server: &dyn Server, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let owners = SessionOwners::parse("$listLocalSessions", value)?;
    if name.is_some() {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            "$listLocalSessions must be run against the database with {aggregate: 1}, not a \
             collection",
        ));
    }
    Ok(server.sessions(&owners))
}
