//! `listCollections`: the collections and views of a database.

use super::row::{Required, StableApi};
use super::{Command, Context, listing, oplog, replica_set};
use crate::access::Authorization;
use crate::catalog::{Catalog, Collection, Kind};
use ::access::Action;
use ::patterns::Pattern;
use query::ParseContext;
use query::filter::Filter;
use value::{DocBuf, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "listCollections",
    help: "Lists the collections and views of a database.",
    fields: Some(&["listCollections", "cursor", "filter", "nameOnly", "authorizedCollections"]),
    privilege: Required::Custom(allowed),
    stable_api: StableApi::Included,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    // MongoDB profiles only commands on collections.
    context.op.report(|report| report.is_left_out = true);
    let args = &context.args;
    let batch_size = listing::batch_size(args, "listCollections.cursor")?;
    let name_only = args.bool("nameOnly")?;
    let own_only = args.bool("authorizedCollections")? && context.client.login.required;
    let privileges = context.client.login.privileges();
    let visible = |name: &str| {
        let find = access::Actions::of(&[access::Action::Find]);
        !own_only || privileges.on_collection(context.db, name).contains(find)
    };
    let filter = args.optional_doc("filter")?.unwrap_or(RawDoc::empty());
    let filter = Filter::parse_for_documents(filter, &ParseContext::new(crate::clock::now_ms()))?;
    let catalog = context.engine.data.catalog.load_full();
    let mut documents = Vec::new();
    if let Some(database) = catalog.databases.get(context.db) {
        for collection in database.collections.values().filter(|one| visible(&one.name)) {
            let patterns = declared(&catalog, collection);
            let whole = describe(collection, &patterns, context.engine.data.options.read_only);
            // With `nameOnly` the filter sees names and types only, as in MongoDB.
            let entry = if name_only { names(whole.as_doc()) } else { whole };
            if filter.matches(entry.as_doc())? {
                documents.push(entry);
            }
        }
    }
    if context.db == "local" {
        let made_up = [
            visible("oplog.rs").then(|| oplog::describe(context.engine)),
            replica_set::describe(context).filter(|_| visible("system.replset")),
        ];
        for whole in made_up.into_iter().flatten() {
            let entry = if name_only { names(whole.as_doc()) } else { whole };
            if filter.matches(entry.as_doc())? {
                documents.push(entry);
            }
        }
    }
    let namespace = format!("{}.$cmd.listCollections", context.db);
    listing::reply(context, out, namespace, documents, batch_size)
}

/// The declarations of a collection's patterns. They are not among its options: tools copy those to
/// servers that do not know patterns.
fn declared<'c>(catalog: &'c Catalog, collection: &Collection) -> Vec<&'c Pattern> {
    let all = catalog.patterns(&collection.db).iter().map(|pattern| &**pattern);
    all.filter(|p| *p.collection == *collection.name && p.phase.is_current()).collect()
}

fn describe(collection: &Collection, patterns: &[&Pattern], read_only: bool) -> DocBuf {
    let view = matches!(collection.kind, Kind::View(_));
    DocBuf::build(|out| {
        out.str("name", &collection.name);
        out.str("type", if view { "view" } else { "collection" });
        out.doc("options", |out| {
            out.extend(collection.options.as_doc());
        });
        out.doc("info", |out| {
            out.bool("readOnly", view || read_only);
            if !view {
                out.append("uuid", Val::Binary(4, &collection.uuid));
            }
            if !patterns.is_empty() {
                out.array("patterns", |list| {
                    for pattern in patterns {
                        list.push_doc_bytes(pattern.declaration.bytes());
                    }
                });
            }
        });
        let clustered = collection.options.as_doc().find("clusteredIndex").is_some();
        if let Some(index) = collection.indexes.first().filter(|_| !clustered) {
            out.append("idIndex", Val::Document(index.spec.as_doc()));
        }
    })
}

fn names(whole: RawDoc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        for (name, value) in whole {
            if matches!(name, "name" | "type") {
                out.raw(name, value);
            }
        }
    })
}

fn allowed(auth: &Authorization<'_>) -> bool {
    auth.on_database(&[Action::ListCollections])
        || (auth.flag("authorizedCollections")
            && auth.flag("nameOnly")
            && auth.privileges.reaches_database(auth.db))
}
