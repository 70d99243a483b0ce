//! The field `collectionUUID`: a command fails unless the collection has this UUID.

use super::Context;
use value::{Code, DocBuf, Error, Result, Val};

/// Refuses the command when the collection of this name has another UUID.
///
/// # Errors
/// CollectionUUIDMismatch, with the current name of the collection that has the UUID.
pub(super) fn check(context: &Context<'_>, name: &str) -> Result<()> {
    let wanted = match context.args.get("collectionUUID") {
        None => return Ok(()),
        Some(Val::Binary(4, bytes)) if bytes.len() == 16 => bytes,
        Some(other) => return Err(context.args.wrong_type("collectionUUID", other, "uuid")),
    };
    let catalog = context.engine.data.catalog.load();
    if catalog.get(context.db, name).is_some_and(|found| found.uuid.as_slice() == wanted) {
        return Ok(());
    }
    let database = catalog.databases.get(context.db);
    let actual = database
        .and_then(|database| database.collections.values().find(|c| c.uuid.as_slice() == wanted))
        .map_or(Val::Null, |found| Val::String(&found.name));
    let info = DocBuf::build(|out| {
        out.str("db", context.db);
        out.append("collectionUUID", Val::Binary(4, wanted));
        out.str("expectedCollection", name);
        out.append("actualCollection", actual);
    });
    Err(Error::new(Code::COLLECTION_UUID_MISMATCH, "Collection UUID does not match that specified")
        .with_info(info))
}
