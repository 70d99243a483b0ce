//! `$planCacheStats`: lists the cached plans of a collection.

use super::StageRow;
use super::diagnostics::{host, needs_collection};
use super::privileges::{PipelinePrivileges, Privilege};
use super::reported::Reported;
use super::row::Runs;
use crate::txn::Data;
use ::access::Action;
use value::{Code, DocBuf, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$planCacheStats",
    help: "Lists the cached plans of a collection.",
    runs: Runs::AtOnceOrCompiled(|server, value, name| {
        make(server.data(), server.db(), value, needs_collection("$planCacheStats", name)?)
    }),
    parse: |value, context| {
        check(value)?;
        Reported::parse(&ROW, make, value, context)
    },
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

fn privilege(client: &PipelinePrivileges<'_>, collection: Option<&str>, _: Val<'_>) -> bool {
    client.on_collection(collection, Action::PlanCacheRead)
}

fn check(value: Val<'_>) -> Result<()> {
    match value {
        Val::Document(doc) if doc.iter().all(|(name, _)| name == "allHosts") => Ok(()),
        _ => Err(Error::failed_to_parse(
            "$planCacheStats value must be an object with nothing but allHosts",
        )),
    }
}

fn make(data: &Data, db: &str, value: Val<'_>, name: &str) -> Result<Vec<DocBuf>> {
    check(value)?;
    match data.collection(db, name) {
        Some(collection) => Ok(collection.counters.plans.list(&host(data))),
        None => Err(Error::new(
            Code(50933),
            format!("$planCacheStats failed: collection {db}.{name} not found"),
        )),
    }
}
