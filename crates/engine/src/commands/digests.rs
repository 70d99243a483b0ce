//! `dbHash` and `filemd5`: digests of documents, by which copies are compared.

use super::row::{NamedIn, Required};
use super::{Command, Context, hello};
use crate::access::Authorization;
use crate::catalog::Collection;
use crate::layout;
use ::access::Action;
use query::expr::Md5;
use std::time::Instant;
use store::Snapshot;
use value::{Code, Error, RawDoc, Result, Val, Writer};

pub(super) static DB_HASH: Command = Command {
    name: "dbHash",
    aliases: &["dbhash"],
    help: "Returns digests of the documents of a database.",
    // MongoDB ignores what it does not know here.
    fields: None,
    privilege: Required::Database(&[Action::DbHash]),
    run: db_hash,
    ..Command::BASE
};

pub(super) static FILE_MD5: Command = Command {
    name: "filemd5",
    help: "Returns the digest of a GridFS file.",
    fields: Some(&["filemd5", "root", "partialOk", "md5state"]),
    privilege: Required::Custom(may_read_chunks),
    namespace: NamedIn::None,
    run: file_md5,
    ..Command::BASE
};

fn db_hash(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let started = Instant::now();
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

/// The digest of all documents in the order of `_id`, or in that of insertion.
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

fn hex(digest: [u8; 16]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn file_md5(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    if context.args.bool("partialOk")? || context.args.get("md5state").is_some() {
        return Err(Error::new(
            Code::NOT_IMPLEMENTED,
            "filemd5: the state of a digest is not handed out",
        ));
    }
    let root = context.args.optional_string("root")?.filter(|root| !root.is_empty());
    let name = format!("{}.chunks", root.unwrap_or("fs"));
    let file = context.args.get("filemd5").unwrap_or(Val::Null);
    let stages = pipeline_of(file);
    let mut digest = Md5::default();
    let mut count = 0_i64;
    let mut stream = super::aggregate::open_pipeline(context, &name, RawDoc::new(&stages))?;
    while let Some(chunk) = stream.next(context.op)? {
        let chunk = chunk.raw();
        if chunk.get("n").and_then(Val::as_i64_exact) != Some(count) {
            return Err(Error::new(Code(10040), "chunks out of order"));
        }
        match chunk.get("data") {
            Some(Val::Binary(_, data)) => digest.update(data),
            _ => return Err(Error::new(Code(50849), "the data of a chunk must be binary")),
        }
        count += 1;
    }
    out.i32("numChunks", i32::try_from(count).unwrap_or(i32::MAX));
    out.str("md5", &hex(digest.finish()));
    Ok(())
}

/// The chunks of a file, in order.
fn pipeline_of(file: Val<'_>) -> Vec<u8> {
    let mut stages = Vec::new();
    value::writer::write_array(&mut stages, |out| {
        out.push_doc(|out| {
            out.doc("$match", |out| {
                out.doc("files_id", |out| {
                    out.append("$eq", file);
                });
            });
        });
        out.push_doc(|out| {
            out.doc("$sort", |out| {
                out.i32("files_id", 1).i32("n", 1);
            });
        });
    });
    stages
}

fn may_read_chunks(auth: &Authorization<'_>) -> bool {
    let root = auth.body.get("root").and_then(Val::as_str).unwrap_or("fs");
    auth.on_collection(&format!("{root}.chunks"), &[Action::Find])
}
