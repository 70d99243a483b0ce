//! `$queryStats`: returns statistics of query shapes, if internalQueryStatsRateLimit is set.

use super::StageRow;
use super::diagnostics::{Server, server_arguments};
use super::privileges::{PipelinePrivileges, Privilege};
use super::row::Runs;
use crate::args::Args;
use crate::query_stats::Names;
use ::access::Action;
use value::{DocBuf, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$queryStats",
    help: "Returns statistics of query shapes, if internalQueryStatsRateLimit is set.",
    in_transactions: true,
    runs: Runs::AtOnce(make),
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

fn privilege(client: &PipelinePrivileges<'_>, _: Option<&str>, spec: Val<'_>) -> bool {
    let hashed = spec.as_doc().and_then(|doc| doc.get("transformIdentifiers"));
    client.on_cluster(Action::QueryStatsRead)
        && (hashed.is_none() || client.on_cluster(Action::QueryStatsReadTransformed))
}

fn make(server: &dyn Server, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let args = server_arguments("$queryStats", server, value, name)?;
    args.check_fields(&["transformIdentifiers"], false)?;
    let names = match args.optional_doc("transformIdentifiers")? {
        None => Names::Plain,
        Some(how) => {
            let args = Args::new("$queryStats.transformIdentifiers", how);
            args.check_fields(&["algorithm", "hmacKey"], false)?;
            if args.string("algorithm")? != "hmac-sha-256" {
                return Err(Error::bad_value(
                    "the only algorithm of transformIdentifiers is 'hmac-sha-256'",
                ));
            }
            match args.get("hmacKey") {
                Some(Val::Binary(8, key)) => Names::Hashed(key),
                Some(Val::Binary(..)) => {
                    return Err(Error::bad_value(
                        "transformIdentifiers.hmacKey must be binData of subtype 8 (sensitive)",
                    ));
                }
                Some(other) => return Err(args.wrong_type("hmacKey", other, "binData")),
                None => return Err(args.missing("hmacKey")),
            }
        }
    };
    Ok(server.query_statistics(&names))
}
