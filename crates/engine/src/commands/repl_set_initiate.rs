//! `replSetInitiate`: the replica set exists already.

use super::hello::set_name;
use super::row::Required;
use super::{Command, Context, replica_set};
use ::access::Action;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "replSetInitiate",
    help: "Answers that the replica set exists already.",
    fields: Some(&["replSetInitiate"]),
    admin: true,
    privilege: Required::Cluster(&[Action::ReplSetConfigure]),
    run: initiate,
    ..Command::BASE
};

fn initiate(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    replica_set::check(context)?;
    let own = set_name(context);
    let given = match context.args.get("replSetInitiate") {
        Some(Val::Document(config)) => config.get("_id"),
        _ => None,
    };
    match given {
        Some(Val::String(name)) if name != own => Err(Error::new(
            Code(93),
            format!("the replica set is named {own}, not {name} (--repl-set-name sets its name)"),
        )),
        _ => Err(Error::new(Code(23), "already initialized")),
    }
}
