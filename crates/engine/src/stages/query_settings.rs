//! `$querySettings`: lists settings of queries, of which there are none.

use super::StageRow;
use super::diagnostics::{Server, server_arguments};
use super::privileges::{PipelinePrivileges, Privilege};
use super::row::Runs;
use ::access::Action;
use value::{DocBuf, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$querySettings",
    help: "Lists settings of queries, of which there are none.",
    in_transactions: true,
    runs: Runs::AtOnce(make),
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

fn privilege(client: &PipelinePrivileges<'_>, _: Option<&str>, _: Val<'_>) -> bool {
    client.on_cluster(Action::QuerySettings)
}

/// Nothing can be set yet (`setQuerySettings`), so nothing is.
fn make(server: &dyn Server, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let args = server_arguments("$querySettings", server, value, name)?;
    args.check_fields(&["showDebugQueryShape"], false)?;
    args.bool("showDebugQueryShape")?;
    Ok(Vec::new())
}
