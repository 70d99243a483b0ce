//! `$planCacheStats`: lists the cached plans of a collection.

use super::StageRow;
use super::diagnostics::{Server, needs_collection};
use super::privileges::{PipelinePrivileges, Privilege};
use super::row::Runs;
use ::access::Action;
use value::{Code, DocBuf, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$planCacheStats",
    help: "Lists the cached plans of a collection.",
    runs: Runs::AtOnce(make),
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

fn privilege(client: &PipelinePrivileges<'_>, collection: Option<&str>, _: Val<'_>) -> bool {
    client.on_collection(collection, Action::PlanCacheRead)
}

fn make(server: &dyn Server, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let name = needs_collection("$planCacheStats", name)?;
    let empty =
        matches!(value, Val::Document(doc) if doc.iter().all(|(name, _)| name == "allHosts"));
    if !empty {
        return Err(Error::failed_to_parse(
            "$planCacheStats value must be an object with nothing but allHosts",
        ));
    }
    let collection = server.data().collection(server.db(), name);
    let host = server.host();
    let Some(collection) = collection else {
        return Err(Error::new(
            Code(50933),
            format!("$planCacheStats failed: collection {}.{name} not found", server.db()),
        ));
    };
    Ok(collection.counters.plans.list(&host))
}
