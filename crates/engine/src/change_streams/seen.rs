//! Changes as a watcher sees them. The log holds canonical documents; a watcher with a form of its own
//! (`Collection::form`) gets events in that form.

use crate::catalog::ReaderForm;
use crate::changes::keeps_images;
use crate::changes::record::{Change, Kind};
use crate::operation::Operation;
use crate::txn::Data;
use query::update::delta::between;
use value::{DocBuf, RawDoc, Result};

/// The parts of a change that a watcher sees otherwise than they are in the log.
#[derive(Default)]
pub(super) struct SeenChange {
    kind: Option<Kind>,
    doc: Option<DocBuf>,
    delta: Option<DocBuf>,
    before: Option<DocBuf>,
    after: Option<DocBuf>,
    /// Whether the images in the log are those of its collection's option.
    has_images: bool,
}

/// What a watcher sees of a change.
pub(super) enum Seen {
    /// The change as it is in the log.
    AsLogged,
    /// The change with other parts.
    Otherwise(Box<SeenChange>),
    /// Nothing: the documents before and after it are the same in the watcher's form.
    Nothing,
}

impl Seen {
    /// What the reader of an operation sees of a change of a document.
    ///
    /// # Errors
    /// When documents cannot be shown in the reader's form.
    pub(super) fn of(data: &Data, op: &Operation, change: &Change<'_>) -> Result<Seen> {
        let catalog = data.catalog.load();
        if !catalog.is_shaped {
            return Ok(Seen::AsLogged);
        }
        let (db, name) = change.names();
        let found = catalog.get(db, name).filter(|found| found.uuid == change.uuid);
        let Some(collection) = found.filter(|found| found.shapes.is_some()) else {
            return Ok(Seen::AsLogged);
        };
        let has_images = keeps_images(collection);
        match collection.seen_by(&op.reader())?.as_ref().and_then(|seen| seen.form.as_deref()) {
            Some(form) => in_form(form, change, has_images),
            None if has_images => Ok(Seen::AsLogged),
            None => Ok(Seen::Otherwise(Box::default())),
        }
    }
}

/// The change in the form of a reader.
fn in_form(form: &ReaderForm, change: &Change<'_>, has_images: bool) -> Result<Seen> {
    let shown = |doc: Option<RawDoc<'_>>| match doc {
        None => Ok(None),
        Some(doc) => form.show(doc).map(|shown| Some(shown.unwrap_or_else(|| doc.into()))),
    };
    let before = shown(change.before)?;
    let mut seen = SeenChange { has_images, ..SeenChange::default() };
    match change.kind {
        Kind::Insert | Kind::Replace => seen.doc = shown(Some(change.doc))?,
        Kind::Update => seen.after = shown(change.after)?,
        _ => {}
    }
    let after = seen.doc.as_ref().or(seen.after.as_ref());
    if let (Kind::Update | Kind::Replace, Some(before), Some(after)) = (change.kind, &before, after)
    {
        if before == after {
            return Ok(Seen::Nothing);
        }
        // Without images, from before the shape was declared, the delta stays as it is.
        if matches!(change.kind, Kind::Update) {
            match between(before.as_doc(), after.as_doc()).delta() {
                Some(delta) => seen.delta = Some(DocBuf::from_bytes(delta.to_vec())),
                None => {
                    seen.kind = Some(Kind::Replace);
                    seen.doc = Some(after.clone());
                }
            }
        }
    }
    seen.before = before;
    Ok(Seen::Otherwise(Box::new(seen)))
}

impl SeenChange {
    /// The change with the parts that the watcher sees.
    pub(super) fn change<'c>(&'c self, logged: &Change<'c>) -> Change<'c> {
        let part = |seen: &'c Option<DocBuf>, logged| seen.as_ref().map(DocBuf::as_doc).or(logged);
        Change {
            kind: self.kind.unwrap_or(logged.kind),
            doc: part(&self.doc, None).unwrap_or(logged.doc),
            more: part(&self.delta, logged.more),
            before: part(&self.before, logged.before).filter(|_| self.has_images),
            after: part(&self.after, logged.after).filter(|_| self.has_images),
            ..*logged
        }
    }
}
