//! Collections by UUID: the field `collectionUUID`, with which a command fails unless the collection
//! has this UUID, and commands that name their collection by its UUID (`{find: UUID(..)}`).

use super::{Context, find};
use crate::client::Client;
use crate::request::Request;
use crate::shared::Inner;
use ::access::Action;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Refuses the command when the collection of this name has another UUID.
///
/// # Errors
/// CollectionUUIDMismatch, with the current name of the collection that has the UUID.
pub(super) fn check(context: &Context<'_>, name: &str) -> Result<()> {
    check_in(context, context.db, name)
}

/// The same for a collection of another database than that of the command.
///
/// # Errors
/// CollectionUUIDMismatch.
pub(super) fn check_in(context: &Context<'_>, db: &str, name: &str) -> Result<()> {
    let wanted = match context.args.get("collectionUUID") {
        None => return Ok(()),
        Some(Val::Binary(4, bytes)) if bytes.len() == 16 => bytes,
        Some(other) => return Err(context.args.wrong_type("collectionUUID", other, "uuid")),
    };
    require(context, db, name, wanted)
}

/// Refuses a collection that has another UUID than this one.
///
/// # Errors
/// CollectionUUIDMismatch.
pub(super) fn require(context: &Context<'_>, db: &str, name: &str, wanted: &[u8]) -> Result<()> {
    let catalog = context.catalog();
    if catalog.get(db, name).is_some_and(|found| found.uuid.as_slice() == wanted) {
        return Ok(());
    }
    let database = catalog.databases.get(db);
    let actual = database
        .and_then(|database| database.collections.values().find(|c| c.uuid.as_slice() == wanted))
        .filter(|found| found.view().is_none())
        .map_or(Val::Null, |found| Val::String(&found.name));
    let info = DocBuf::build(|out| {
        out.str("db", db);
        out.append("collectionUUID", Val::Binary(4, wanted));
        out.str("expectedCollection", name);
        out.append("actualCollection", actual);
    });
    Err(Error::new(Code::COLLECTION_UUID_MISMATCH, "Collection UUID does not match that specified")
        .with_info(info))
}

/// The errors of a write command whose collection has another UUID: of its first statement, or of
/// all `count` if they are not ordered. Empty if the UUID is right or absent.
///
/// # Errors
/// CollectionUUIDMismatch in a transaction; TypeMismatch.
pub(super) fn refused_statements(
    context: &Context<'_>,
    name: &str,
    count: usize,
    ordered: bool,
) -> Result<Vec<(usize, Error)>> {
    match check(context, name) {
        Ok(()) => Ok(Vec::new()),
        Err(error)
            if error.code() == Code::COLLECTION_UUID_MISMATCH
                && !context.op.is_in_transaction() =>
        {
            let count = if ordered { 1 } else { count };
            Ok((0..count).map(|at| (at, error.clone())).collect())
        }
        Err(error) => Err(error),
    }
}

/// The command with the name of its collection, if it names it by UUID and may do so.
///
/// # Errors
/// NamespaceNotFound, Unauthorized.
pub(super) fn by_name(
    engine: &Inner,
    client: &mut Client,
    request: &Request<'_>,
) -> Result<Option<DocBuf>> {
    let Some((command, value)) = request.body.first() else { return Ok(None) };
    // The type of binaries; checked first, because every command passes here.
    if value.kind != 0x05 {
        return Ok(None);
    }
    let Val::Binary(4, uuid) = value.get() else { return Ok(None) };
    let Some(row) = find(command).filter(|row| row.by_uuid) else { return Ok(None) };
    let db = request.body.get("$db").and_then(Val::as_str).unwrap_or("");
    if client.login.required {
        let (login, shared) = client.login();
        let requirement = crate::access::Requirement {
            command: row.name,
            required: crate::access::Required::Cluster(&[Action::UseUUID]),
            first_user: false,
        };
        crate::access::check(shared, login, &requirement, db, request)?;
    }
    let catalog = engine.data.catalog.load();
    let mut all = catalog.databases.get(db).into_iter().flat_map(|db| db.collections.values());
    let found = all.find(|c| c.uuid.as_slice() == uuid && c.view().is_none()).ok_or_else(|| {
        let shown = value::ejson::print_value(Val::Binary(4, uuid), value::ejson::Format::Shell);
        Error::new(Code::NAMESPACE_NOT_FOUND, format!("Unable to resolve {shown}"))
    })?;
    Ok(Some(renamed(request.body, &found.name)))
}

/// The command with another value of its first field.
fn renamed(body: RawDoc<'_>, name: &str) -> DocBuf {
    DocBuf::build(|out| {
        for (at, (field, value)) in body.iter().enumerate() {
            match at {
                0 => {
                    out.str(field, name);
                }
                _ => {
                    out.raw(field, value);
                }
            }
        }
    })
}
