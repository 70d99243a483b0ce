//! `$listSessions`: lists the sessions in config.system.sessions.

use super::StageRow;
use super::diagnostics::{Server, SessionOwners};
use super::row::Runs;
use value::{Code, DocBuf, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$listSessions",
    help: "Lists the sessions in config.system.sessions.",
    runs: Runs::AtOnce(make),
    ..StageRow::DIAGNOSTIC
};

fn make(server: &dyn Server, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let owners = SessionOwners::parse("$listSessions", value)?;
    if name != Some("system.sessions") || server.db() != "config" {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            "$listSessions may only be run against config.system.sessions",
        ));
    }
    // Sessions live in memory; there is one server, which knows all of them.
    Ok(server.sessions(&owners))
}
