//! `setIndexCommitQuorum`: how many members a running index build waits for. There is one.

use super::create_indexes::check_quorum;
use super::row::Required;
use super::{Command, Context};
use crate::catalog::IndexState;
use ::access::Action;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "setIndexCommitQuorum",
    help: "Accepts how many members a running index build waits for, of which there is one.",
    fields: Some(&["setIndexCommitQuorum", "indexNames", "commitQuorum"]),
    privilege: Required::Collection(&[Action::CreateIndex]),
    run: set,
    ..Command::BASE
};

fn set(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let name = context.collection_name()?;
    let names = args.optional_array("indexNames")?.ok_or_else(|| args.missing("indexNames"))?;
    let quorum = args.get("commitQuorum").ok_or_else(|| args.missing("commitQuorum"))?;
    let namespace = format!("{}.{name}", context.db);
    let Some(collection) = context.engine.data.collection(context.db, name) else {
        let message = format!("Collection '{namespace}' was not found.");
        return Err(Error::new(Code::NAMESPACE_NOT_FOUND, message));
    };
    let is_building = |wanted: Val<'_>| {
        collection.indexes.iter().any(|index| {
            index.state == IndexState::Building && wanted.as_str() == Some(&*index.name)
        })
    };
    if names.is_empty() || !names.iter().all(|(_, wanted)| is_building(wanted.get())) {
        return Err(Error::new(
            Code::INDEX_NOT_FOUND,
            format!("no index of '{namespace}' with one of these names is being built"),
        ));
    }
    check_quorum(quorum)
}
