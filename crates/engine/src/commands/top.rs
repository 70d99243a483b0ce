//! `top`: time and number of operations on each collection.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "top",
    help: "Returns the number of operations on each collection and their time.",
    fields: Some(&["top"]),
    admin: true,
    privilege: Required::Cluster(&[Action::Top]),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let catalog = context.engine.data.catalog.load_full();
    out.doc("totals", |out| {
        out.str("note", "all times in microseconds");
        let databases = catalog.databases.values();
        let mut all: Vec<_> =
            databases.flat_map(|database| database.collections.values()).collect();
        all.sort_by_key(|collection| collection.namespace());
        for collection in all {
            collection.counters.usage.write_top(out, &collection.namespace());
        }
    });
    Ok(())
}
