//! `listCollections`: the collections and views of a database.

use super::row::{Required, StableApi};
use super::{Command, Context, listing, oplog, replica_set};
use crate::access::Authorization;
use crate::catalog::time_series::{BUCKETS, PATTERN};
use crate::catalog::{Catalog, Collection, Kind};
use ::access::Action;
use ::patterns::Pattern;
use query::ParseContext;
use query::filter::Filter;
use std::iter;
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
            let read_only = context.engine.data.options.read_only;
            let buckets = collection.time_series.is_some().then(|| buckets(collection, read_only));
            for whole in iter::once(describe(collection, &patterns, read_only)).chain(buckets) {
                // With `nameOnly` the filter sees names and types only, as in MongoDB.
                let entry = if name_only { names(whole.as_doc()) } else { whole };
                if filter.matches(entry.as_doc())? {
                    documents.push(entry);
                }
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
/// servers that do not know patterns. The one of a time-series collection follows from its options.
fn declared<'c>(catalog: &'c Catalog, collection: &Collection) -> Vec<&'c Pattern> {
    let all = catalog.patterns(&collection.db).iter().map(|pattern| &**pattern);
    let is_option = |p: &Pattern| collection.time_series.is_some() && p.name == PATTERN;
    all.filter(|p| *p.collection == *collection.name && p.phase.is_current() && !is_option(p))
        .collect()
}

/// The collection of buckets that MongoDB has for a time-series collection.
fn buckets(collection: &Collection, read_only: bool) -> DocBuf {
    DocBuf::build(|out| {
        out.str("name", &format!("{BUCKETS}{}", collection.name)).str("type", "collection");
        out.doc("options", |out| {
            out.bool("clusteredIndex", true).extend(collection.options.as_doc());
        });
        out.doc("info", |out| {
            out.bool("readOnly", read_only).append("uuid", Val::Binary(4, &collection.uuid));
        });
    })
}

fn describe(collection: &Collection, patterns: &[&Pattern], read_only: bool) -> DocBuf {
    let view = matches!(collection.kind, Kind::View(_));
    let series = collection.time_series.is_some();
    DocBuf::build(|out| {
        out.str("name", &collection.name);
        out.str(
            "type",
            if view {
                "view"
            } else if series {
                "timeseries"
            } else {
                "collection"
            },
        );
        out.doc("options", |out| {
            out.extend(collection.options.as_doc());
        });
        out.doc("info", |out| {
            out.bool("readOnly", view || read_only);
            if !view && !series {
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
        if let Some(index) = collection.indexes.first().filter(|_| !clustered && !series) {
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
