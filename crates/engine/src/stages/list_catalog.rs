//! `$listCatalog`: returns the catalog entries of one collection or of all.

use super::StageRow;
use super::diagnostics::Server;
use super::privileges::{PipelinePrivileges, Privilege};
use super::row::Runs;
use crate::catalog::{Collection, IndexState};
use ::access::{Action, Actions};
use value::{Code, DocBuf, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$listCatalog",
    help: "Returns the catalog entries of one collection or of all.",
    in_transactions: true,
    runs: Runs::AtOnce(make),
    privilege: Privilege::Source(privilege),
    ..StageRow::DIAGNOSTIC
};

fn privilege(client: &PipelinePrivileges<'_>, collection: Option<&str>, _: Val<'_>) -> bool {
    let both = [Action::ListCollections, Action::ListIndexes];
    match collection {
        Some(_) => both.into_iter().all(|action| client.on_collection(collection, action)),
        None => client.privileges.on_anything().contains(Actions::of(&both)),
    }
}

fn make(server: &dyn Server, value: Val<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    if !matches!(value, Val::Document(doc) if doc.is_empty()) {
        return Err(Error::new(
            Code(6_200_600),
            "The $listCatalog stage specification must be an empty object",
        ));
    }
    let catalog = server.data().catalog.load_full();
    if let Some(name) = name {
        let found = catalog.get(server.db(), name);
        return Ok(found.map(|collection| catalog_entry(collection)).into_iter().collect());
    }
    if server.db() != "admin" {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            "Collectionless $listCatalog must be run against the 'admin' database with \
             {aggregate: 1}",
        ));
    }
    Ok(catalog.collections().map(|collection| catalog_entry(collection)).collect())
}

fn catalog_entry(collection: &Collection) -> DocBuf {
    DocBuf::build(|out| {
        out.str("db", &collection.db);
        out.str("name", &collection.name);
        out.str("type", if collection.view().is_some() { "view" } else { "collection" });
        out.str("ns", &collection.namespace());
        if collection.view().is_some() {
            out.str("_id", &collection.namespace());
            out.extend(collection.options.as_doc());
            return;
        }
        out.doc("md", |out| {
            out.str("ns", &collection.namespace());
            out.doc("options", |out| {
                out.append("uuid", Val::Binary(4, &collection.uuid));
                out.extend(collection.options.as_doc());
            });
            out.array("indexes", |list| {
                for index in &collection.indexes {
                    list.push_doc(|out| {
                        out.append("spec", Val::Document(index.spec.as_doc()));
                        out.bool("ready", index.state == IndexState::Ready);
                        out.bool("multikey", index.is_multikey());
                    });
                }
            });
        });
    })
}
