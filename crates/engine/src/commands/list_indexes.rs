//! `listIndexes`: the indexes of a collection.

use super::row::{Required, StableApi};
use super::{Command, Context, listing};
use crate::catalog::IndexState;
use crate::namespace::is_oplog;
use ::access::Action;
use value::{Code, DocBuf, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "listIndexes",
    help: "Lists the indexes of a collection.",
    fields: Some(&[
        "listIndexes",
        "cursor",
        "includeBuildUUIDs",
        "includeIndexBuildInfo",
        "isTimeseriesNamespace",
    ]),
    by_uuid: true,
    privilege: Required::Collection(&[Action::ListIndexes]),
    stable_api: StableApi::Included,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let args = &context.args;
    let batch_size = listing::batch_size(args, "listIndexes.cursor")?;
    let build_info = args.bool("includeIndexBuildInfo")?;
    let namespace = format!("{}.{name}", context.db);
    if is_oplog(context.db, name) {
        return listing::reply(context, out, namespace, Vec::new(), batch_size);
    }
    let Some(collection) = context.engine.data.collection(context.db, name) else {
        return Err(Error::new(
            Code::NAMESPACE_NOT_FOUND,
            format!("ns does not exist: {namespace}"),
        ));
    };
    super::query::writable(&context.engine.data.catalog.load(), context.db, name)?;
    let documents = collection
        .indexes
        .iter()
        .map(|index| match (build_info, index.state) {
            (false, _) => index.spec.clone(),
            (true, state) => DocBuf::build(|out| {
                out.append("spec", Val::Document(index.spec.as_doc()));
                if state == IndexState::Building {
                    out.doc("indexBuildInfo", |_| {});
                }
            }),
        })
        .collect();
    listing::reply(context, out, namespace, documents, batch_size)
}
