//! `listDatabases`: lists the databases and their sizes.

use super::row::{Required, StableApi};
use super::{Command, Context};
use crate::stages::sizes;
use query::ParseContext;
use query::filter::Filter;
use std::collections::BTreeSet;
use value::{DocBuf, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "listDatabases",
    help: "Lists the databases.",
    fields: Some(&["listDatabases", "filter", "nameOnly", "authorizedDatabases"]),
    admin: true,
    privilege: Required::Login,
    stable_api: StableApi::Included,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let name_only = args.bool("nameOnly")?;
    let own_only = args.get("authorizedDatabases").is_some() && args.bool("authorizedDatabases")?;
    let login = &context.client.login;
    let all =
        !login.required || (!own_only && login.may_touch(None, access::Action::ListDatabases));
    let filter = args.optional_doc("filter")?.unwrap_or(RawDoc::empty());
    let filter = Filter::parse_for_documents(filter, &ParseContext::new(crate::clock::now_ms()))?;
    let catalog = context.engine.data.catalog.load_full();
    let mut total = 0;
    let mut found = Vec::new();
    let mut names: BTreeSet<&str> = catalog.databases.keys().map(|name| &**name).collect();
    // The oplog always exists.
    names.insert("local");
    for name in names.into_iter().filter(|name| all || login.privileges().reaches_database(name)) {
        let collections = catalog.databases.get(name).into_iter();
        let collections = collections.flat_map(|database| database.collections.values());
        let sizes = collections.map(|collection| sizes::of(&context.engine.data, collection));
        let mut bytes: u64 = sizes.map(|size| size.documents_stored + size.indexes_stored()).sum();
        if name == "local" {
            bytes += context.engine.data.changes.sizes().0;
        }
        let whole = DocBuf::build(|out| {
            out.str("name", name);
            if !name_only {
                out.i64("sizeOnDisk", i64::try_from(bytes).unwrap_or(i64::MAX));
                out.bool("empty", false);
            }
        });
        if filter.matches(whole.as_doc())? {
            total += bytes;
            found.push(whole);
        }
    }
    out.array("databases", |databases| {
        for database in &found {
            databases.push(Val::Document(database.as_doc()));
        }
    });
    if !name_only {
        out.i64("totalSize", i64::try_from(total).unwrap_or(i64::MAX));
        out.i64("totalSizeMb", i64::try_from(total / (1024 * 1024)).unwrap_or(i64::MAX));
    }
    Ok(())
}
