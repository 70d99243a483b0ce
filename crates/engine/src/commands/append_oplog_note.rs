//! `appendOplogNote`: adds an entry without a change to the oplog. Backup and copying tools mark points in
//! time with it.

use super::row::{NamedIn, Required};
use super::{Command, Context};
use crate::changes::log::INITIATING;
use ::access::Action;
use value::{Code, DocBuf, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "appendOplogNote",
    help: "Adds an entry without a change to the oplog.",
    fields: None,
    admin: true,
    privilege: Required::Cluster(&[Action::AppendOplogNote]),
    namespace: NamedIn::None,
    run: append,
    ..Command::BASE
};

fn append(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let data = match context.args.doc.get("data") {
        Some(Val::Document(data)) => DocBuf::from(data),
        Some(other) => {
            return Err(Error::type_mismatch(format!(
                "\"data\" had the wrong type. Expected object, found {}",
                other.kind().name()
            )));
        }
        None => return Err(Error::new(Code(4), "Missing expected field \"data\"")),
    };
    if data.as_doc().get("msg") == Some(Val::String(INITIATING)) {
        return Err(Error::bad_value("this note marks the beginning of the oplog"));
    }
    let engine = context.engine;
    if let Some(most) = context.args.get("maxClusterTime") {
        let Val::Timestamp(most) = most else {
            return Err(context.args.wrong_type("maxClusterTime", most, "timestamp"));
        };
        if most <= engine.data.changes.newest().0 {
            return Err(Error::new(
                Code(209),
                "maxClusterTime is not after the newest entry of the oplog",
            ));
        }
    }
    engine.data.append_note(&data)
}
