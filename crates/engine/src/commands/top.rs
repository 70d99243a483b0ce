//! `top`: how long operations on each collection took.

use super::{Command, Context};
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "top",
    aliases: &[],
    help: "Tells how often each collection was used, and for how long.",
    fields: Some(&["top"]),
    admin: true,
    test: false,
    run,
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
