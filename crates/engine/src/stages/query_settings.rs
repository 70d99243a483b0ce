//! `$querySettings`: lists settings of queries, of which there are none.

use super::StageRow;
use super::diagnostics::{Server, server_arguments};
use super::row::Runs;
use value::{DocBuf, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$querySettings",
    help: "Lists settings of queries, of which there are none.",
    in_transactions: true,
    runs: Runs::AtOnce(make),
    ..StageRow::DIAGNOSTIC
};

/// Nothing can be set yet (`setQuerySettings`), so nothing is.
fn make(server: &dyn Server, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let args = server_arguments("$querySettings", server, value, name)?;
    args.check_fields(&["showDebugQueryShape"], false)?;
    args.bool("showDebugQueryShape")?;
    Ok(Vec::new())
}
