//! `validateDBMetadata`: checks collections and indexes against the stable API. With `apiStrict`,
//! index types and options outside it are refused on creation; this command reports those that were
//! created without `apiStrict`.

use super::row::Required;
use super::{Command, Context};
use crate::catalog::{Collection, IndexKind};
use ::access::Action;
use value::{Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "validateDBMetadata",
    help: "Lists collections and indexes that are not part of the stable API.",
    fields: Some(&["validateDBMetadata", "apiParameters", "db", "collection"]),
    privilege: Required::Database(&[Action::Validate]),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let parameters = context.args.doc("apiParameters")?;
    let strict = parameters.get("strict").is_some_and(Val::truthy);
    let (db, collection) =
        (context.args.optional_string("db")?, context.args.optional_string("collection")?);
    let catalog = context.engine.data.catalog.load_full();
    let mut all: Vec<&Collection> = catalog
        .databases
        .values()
        .flat_map(|database| database.collections.values())
        .map(|collection| &**collection)
        // On databases other than admin, only the database itself is checked.
        .filter(|found| context.db == "admin" || *context.db == *found.db)
        .filter(|found| db.is_none_or(|db| *db == *found.db))
        .filter(|found| collection.is_none_or(|name| *name == *found.name))
        .collect();
    all.sort_by_key(|collection| collection.namespace());
    out.array("apiVersionErrors", |list| {
        for collection in all.into_iter().filter(|_| strict) {
            for index in &collection.indexes {
                let outside = match index.kind {
                    IndexKind::Text(_) => true,
                    _ => index.sparse,
                };
                if outside {
                    list.push_doc(|out| {
                        out.str("ns", &collection.namespace());
                        out.i32("code", value::Code::API_STRICT_ERROR.0);
                        out.str("codeName", "APIStrictError");
                        out.str(
                            "errmsg",
                            &format!(
                                "The index with name {} is not allowed in API version 1.",
                                index.name
                            ),
                        );
                    });
                }
            }
        }
    });
    Ok(())
}
