//! `dbHash`: returns digests of the documents of a database.

use super::digests::hex;
use super::row::Required;
use super::{Command, Context, hello};
use crate::catalog::Collection;
use crate::layout;
use ::access::Action;
use query::expr::Md5;
use std::time::Instant;
use store::Snapshot;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "dbHash",
    aliases: &["dbhash"],
    help: "Returns digests of the documents of a database.",
    // MongoDB ignores unknown fields here.
    fields: None,
    privilege: Required::Database(&[Action::DbHash]),
    run: db_hash,
    ..Command::BASE
};

fn db_hash(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let started = Instant::now();
    if let Some(name) = context.args.doc.first().and_then(|(_, value)| value.get().as_str()) {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            format!("Invalid db name: {}.{name}", context.db),
        ));
    }
    let wanted: Vec<&str> = match context.args.get("collections") {
        Some(Val::Array(names)) => names
            .iter()
            .map(|(_, name)| match name.get() {
                Val::String(name) => Ok(name),
                _ => Err(Error::bad_value("collections entries have to be strings")),
            })
            .collect::<Result<_>>()?,
        _ => Vec::new(),
    };
    let snapshot = context.engine.data.store.snapshot();
    let catalog = crate::check::catalog_at(&snapshot)?;
    let database = catalog.databases.get(context.db);
    let all = database.into_iter().flat_map(|database| database.collections.values());
    let mut collections: Vec<&Collection> = all
        .map(|collection| &**collection)
        .filter(|collection| collection.view().is_none())
        .filter(|collection| !collection.name.starts_with("system.profile"))
        .filter(|collection| wanted.is_empty() || wanted.contains(&&*collection.name))
        .collect();
    collections.sort_by(|a, b| a.name.cmp(&b.name));
    let mut whole = Md5::default();
    let mut digests = Vec::new();
    for collection in &collections {
        let digest = hex(digest_of(context, &snapshot, collection)?);
        whole.update(digest.as_bytes());
        digests.push(digest);
    }
    out.str("host", hello::address(context));
    out.doc("collections", |out| {
        for (collection, digest) in collections.iter().zip(&digests) {
            out.str(&collection.name, digest);
        }
    });
    out.array("capped", |list| {
        for collection in collections.iter().filter(|collection| collection.capped().is_some()) {
            list.push(Val::String(&collection.name));
        }
    });
    out.doc("uuids", |out| {
        for collection in &collections {
            out.append(&collection.name, Val::Binary(4, &collection.uuid));
        }
    });
    out.str("md5", &hex(whole.finish()));
    out.count("timeMillis", u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
    Ok(())
}

/// The digest of all documents in the order of `_id`, or of insertion.
fn digest_of(
    context: &Context<'_>,
    snapshot: &Snapshot,
    collection: &Collection,
) -> Result<[u8; 16]> {
    let mut documents = layout::all(collection, snapshot)?;
    let mut digest = Md5::default();
    while let Some((_, doc)) = documents.next()? {
        context.op.check()?;
        digest.update(doc);
    }
    Ok(digest.finish())
}
