//! `killCursors`: closes open cursors.

use super::row::{Required, StableApi, Transactions};
use super::{Command, Context};
use access::Action;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "killCursors",
    help: "Closes open cursors.",
    fields: Some(&["killCursors", "cursors"]),
    privilege: Required::Login,
    transactions: Transactions::NotFirst,
    stable_api: StableApi::Included,
    run: kill_cursors,
    ..Command::BASE
};

fn kill_cursors(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let ids = context.args.optional_array("cursors")?;
    let ids = ids.ok_or_else(|| context.args.missing("cursors"))?;
    let namespace = format!("{}.{name}", context.db);
    let mut killed = Vec::new();
    let mut missing = Vec::new();
    for (at, id) in ids {
        let Val::Int64(id) = id.get() else {
            return Err(context.args.wrong_type(&format!("cursors.{at}"), id.get(), "long"));
        };
        if let Some(owner) = context.engine.service.cursors.owner(id)
            && !context.client.login.may_touch(owner.as_deref(), Action::KillAnyCursor)
        {
            return Err(Error::new(
                Code::UNAUTHORIZED,
                format!("not authorized to kill cursor {id}"),
            ));
        }
        if context.engine.service.cursors.kill(id, &namespace) {
            &mut killed
        } else {
            &mut missing
        }
        .push(id);
    }
    let mut list = |name: &str, ids: &[i64]| {
        out.array(name, |out| ids.iter().for_each(|id| out.push(Val::Int64(*id))));
    };
    list("cursorsKilled", &killed);
    list("cursorsNotFound", &missing);
    list("cursorsAlive", &[]);
    list("cursorsUnknown", &[]);
    Ok(())
}
