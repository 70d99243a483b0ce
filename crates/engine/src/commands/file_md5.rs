//! `filemd5`: returns the digest of a GridFS file.

use super::digests::hex;
use super::row::{NamedIn, Required};
use super::{Command, Context};
use crate::access::Authorization;
use crate::planner::restrictions::Restrictions;
use ::access::Action;
use query::expr::Md5;
use value::{Code, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "filemd5",
    help: "Returns the digest of a GridFS file.",
    fields: Some(&["filemd5", "root", "partialOk", "md5state"]),
    privilege: Required::Custom(may_read_chunks),
    namespace: NamedIn::None,
    run: file_md5,
    ..Command::BASE
};

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
    let mut stream = {
        // As in MongoDB, the chunks are not searched for without an index.
        let _restricted = Restrictions { no_scans: true, ..Restrictions::current() }.enter();
        super::aggregate::open_pipeline(context, &name, RawDoc::new(&stages))?
    };
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
