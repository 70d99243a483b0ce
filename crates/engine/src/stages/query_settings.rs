//! `$querySettings`: lists query settings. There are none.

use super::StageRow;
use super::diagnostics::{Server, server_arguments};
use super::privileges::{PipelinePrivileges, Privilege};
use super::row::Runs;
use ::access::Action;
use value::{DocBuf, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$querySettings",
    help: "Lists query settings. There are none.",
    in_transactions: true,
    runs: Runs::AtOnce(make),
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

fn privilege(client: &PipelinePrivileges<'_>, _: Option<&str>, _: Val<'_>) -> bool {
    client.on_cluster(Action::QuerySettings)
}

/// There is no `setQuerySettings` yet, so the list is empty.
fn make(server: &dyn Server, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let args = server_arguments("$querySettings", server, value, name)?;
    args.check_fields(&["showDebugQueryShape"], false)?;
    args.bool("showDebugQueryShape")?;
    Ok(Vec::new())
}
