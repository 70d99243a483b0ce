//! `cloneCollectionAsCapped`: copies the newest documents of a collection into a new capped one.

use super::capped::{copy, options, size, source};
use super::row::Required;
use super::{Command, Context};
use crate::access::Authorization;
use crate::catalog::change;
use crate::namespace;
use crate::records::temporary::clean_up;
use ::access::Action;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "cloneCollectionAsCapped",
    help: "Copies the newest documents of a collection into a new capped one.",
    fields: Some(&["cloneCollectionAsCapped", "toCollection", "size"]),
    privilege: Required::Custom(may_clone),
    run: clone,
    ..Command::BASE
};

fn clone(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let concern = context.write_concern()?;
    let Some(Val::String(to)) = context.args.get("toCollection") else {
        return Err(Error::type_mismatch("'toCollection' must be of type String"));
    };
    let size = size(context)?;
    let source = source(context)?;
    namespace::check_new_collection(context.db, to)?;
    let engine = context.engine;
    let made = engine.data.change_catalog(|catalog, batch| {
        if catalog.get(context.db, to).is_some() {
            return Err(Error::new(
                Code::NAMESPACE_EXISTS,
                format!(
                    "cloneCollectionAsCapped failed - destination collection {}.{to} already \
                     exists. source collection: {}",
                    context.db,
                    source.namespace()
                ),
            ));
        }
        change::create(&engine.data.ids, catalog, batch, context.db, to, options(&source, size))
    })?;
    let copied = copy(engine, context.op, &source, &engine.data.store.snapshot(), &made, false);
    if copied.is_err() {
        clean_up(&engine.data, &made);
    }
    copied?;
    concern.write_error(out);
    Ok(())
}

fn may_clone(auth: &Authorization<'_>) -> bool {
    let target = auth.body.get("toCollection").and_then(Val::as_str).unwrap_or("");
    auth.on_collection(auth.collection(), &[Action::Find])
        && auth
            .on_collection(target, &[Action::Insert, Action::CreateIndex, Action::ConvertToCapped])
}
