//! `replSetReconfig`: the configuration is set by options of the server.

use super::row::Required;
use super::{Command, Context, replica_set};
use ::access::Action;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "replSetReconfig",
    help: "Accepts the configuration that the replica set has, and no other.",
    fields: Some(&["replSetReconfig", "force"]),
    admin: true,
    privilege: Required::Cluster(&[Action::ReplSetConfigure]),
    run: reconfigure,
    ..Command::BASE
};

fn reconfigure(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    replica_set::check(context)?;
    let wanted = context.args.doc("replSetReconfig")?;
    let current = DocBuf::build(|out| replica_set::write_config(context, out));
    let current = current.as_doc();
    let refuse = |what: &str| {
        Error::new(
            Code(103),
            format!("{what} of this replica set with one member is set by options of the server"),
        )
    };
    if wanted.get("_id") != current.get("_id") {
        return Err(refuse("the name (--repl-set-name)"));
    }
    let hosts = |config: RawDoc<'_>| -> Vec<String> {
        let members = config.get("members").and_then(Val::as_array).into_iter().flatten();
        let host = |member: RawDoc<'_>| member.get("host").and_then(Val::as_str).map(str::to_owned);
        members.filter_map(|(_, member)| host(member.as_doc()?)).collect()
    };
    if hosts(wanted) != hosts(current) {
        return Err(refuse("the address of the only member (--advertise)"));
    }
    Err(refuse("the configuration"))
}
