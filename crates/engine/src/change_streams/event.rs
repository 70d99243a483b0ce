//! Change events: changes of the log in the form that a stream on a collection, a database or the
//! server returns.

use super::seen::Seen;
use super::token::Token;
use crate::changes::record::{Change, Kind};
use crate::exec::scan::Scan;
use crate::exec::write;
use crate::layout;
use crate::operation::Operation;
use crate::planner::Question;
use crate::planner::logical::{self, Needs};
use crate::planner::min_max::MinMax;
use crate::records::resolve;
use crate::txn::Data;
use query::ParseContext;
use query::filter::Filter;
use query::update::delta::describe;
use std::sync::Arc;
use store::Bytes;
use value::{Code, Error, RawDoc, Result, Val, Writer, writer};

/// What a stream watches.
pub(crate) enum Watched {
    Collection { db: String, name: String },
    Database(String),
    Server,
}

/// Whether events carry a document in addition to the change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Image {
    /// No document.
    Off,
    /// The document at the time the event is read.
    Lookup,
    /// The stored image, or null.
    WhenAvailable,
    /// The stored image; if it is missing the stream fails.
    Required,
}

/// The options of a stream.
pub(crate) struct StreamOptions {
    pub(crate) watched: Watched,
    pub(crate) full_document: Image,
    pub(crate) before: Image,
    /// Whether to include events on indexes and options.
    pub(crate) expanded: bool,
    /// Whether to include system collections.
    pub(crate) system: bool,
    /// Whether updates are described by their delta, as the log has it.
    pub(crate) raw_updates: bool,
}

/// The event of a change.
pub(super) struct Event {
    pub(super) bytes: Vec<u8>,
    /// Whether the stream ends after it.
    pub(super) ends: bool,
}

/// The kind of an event about a collection or database.
#[derive(Clone, Copy)]
struct Verb<'c> {
    name: &'static str,
    collection: &'c str,
    expanded: bool,
}

fn verb<'c>(command: RawDoc<'c>) -> Option<Verb<'c>> {
    let (first, value) = command.first()?;
    let (name, expanded) = match first {
        "create" => ("create", true),
        "createIndexes" | "commitIndexBuild" => ("createIndexes", true),
        "dropIndexes" => ("dropIndexes", true),
        "collMod" => ("modify", true),
        "drop" => ("drop", false),
        "renameCollection" => ("rename", false),
        "dropDatabase" => ("dropDatabase", false),
        _ => return None,
    };
    let text = value.get().as_str().unwrap_or("");
    let collection =
        if name == "rename" { text.split_once('.').map_or("", |(_, name)| name) } else { text };
    Some(Verb { name, collection, expanded })
}

/// The target of a rename: database and collection.
fn target<'c>(command: RawDoc<'c>) -> (&'c str, &'c str) {
    let to = command.get("to").and_then(Val::as_str).unwrap_or("");
    to.split_once('.').unwrap_or((to, ""))
}

impl StreamOptions {
    /// The event of a change, if the stream sees it.
    ///
    /// # Errors
    /// NoMatchingDocument when a required image is missing, and errors of the store.
    pub(super) fn event(
        &self,
        data: &Data,
        op: &Operation,
        change: &Change<'_>,
        token: &str,
    ) -> Result<Option<Event>> {
        match change.kind {
            Kind::Nothing => Ok(None),
            // Values that patterns maintain follow from other changes.
            _ if change.derived && !is_flagged(data, change) => Ok(None),
            Kind::Command => Ok(self.command_event(change, token)),
            _ => self.document_event(data, op, change, token),
        }
    }

    fn sees(&self, db: &str, name: &str) -> bool {
        let open = self.system || !name.starts_with("system.");
        match &self.watched {
            Watched::Collection { db: own, name: only } => own == db && only == name,
            Watched::Database(own) => own == db && open,
            Watched::Server => open && !matches!(db, "admin" | "config" | "local"),
        }
    }

    fn document_event(
        &self,
        data: &Data,
        op: &Operation,
        change: &Change<'_>,
        token: &str,
    ) -> Result<Option<Event>> {
        let (db, name) = change.names();
        if !self.sees(db, name) {
            return Ok(None);
        }
        let seen;
        let otherwise;
        let change = match Seen::of(data, op, change)? {
            Seen::AsLogged => change,
            Seen::Nothing => return Ok(None),
            Seen::Otherwise(parts) => {
                seen = parts;
                otherwise = seen.change(change);
                &otherwise
            }
        };
        let kind = match change.kind {
            Kind::Insert => "insert",
            Kind::Update => "update",
            Kind::Replace => "replace",
            _ => "delete",
        };
        let looked_up = match (change.kind, self.full_document) {
            (Kind::Update, Image::Lookup) => look_up(data, op, change)?,
            (Kind::Update, Image::Required) if change.after.is_none() => {
                return Err(missing_image(
                    change,
                    kind,
                    "post-image for all update events",
                    "post",
                ));
            }
            _ => None,
        };
        if change.kind != Kind::Insert && self.before == Image::Required && change.before.is_none()
        {
            let what = "pre-image for all update, delete and replace events";
            return Err(missing_image(change, kind, what, "pre"));
        }
        let size = change.doc.bytes().len() + change.more.map_or(0, |more| more.bytes().len());
        let mut bytes = Vec::with_capacity(size + 320);
        let mut out = Writer::start(&mut bytes);
        self.write_head(&mut out, change, token, kind);
        match (change.kind, self.full_document) {
            (Kind::Insert | Kind::Replace, _) => {
                out.append("fullDocument", Val::Document(change.doc));
            }
            (Kind::Update, Image::Lookup) => {
                let found = looked_up.as_ref().map(|doc| RawDoc::new(doc));
                out.append("fullDocument", found.map_or(Val::Null, Val::Document));
            }
            (Kind::Update, Image::WhenAvailable | Image::Required) => {
                out.append("fullDocument", change.after.map_or(Val::Null, Val::Document));
            }
            _ => {}
        }
        write_namespace(&mut out, "ns", db, name);
        change.write_key(&mut out, "documentKey");
        if change.derived {
            out.bool("patternUpdate", true);
        }
        if let (Kind::Update, Some(delta)) = (change.kind, change.more) {
            if self.raw_updates {
                out.doc("rawUpdateDescription", |out| {
                    out.i32("$v", 2).append("diff", Val::Document(delta));
                });
            } else {
                out.doc("updateDescription", |out| describe(delta).write(out, self.expanded));
            }
        }
        if change.kind != Kind::Insert && self.before != Image::Off {
            let before = change.before.map_or(Val::Null, Val::Document);
            out.append("fullDocumentBeforeChange", before);
        }
        out.finish();
        Ok(Some(Event { bytes, ends: false }))
    }

    fn write_head(&self, out: &mut Writer<'_>, change: &Change<'_>, token: &str, kind: &str) {
        if let (true, Some((session, number))) = (change.transaction, change.session) {
            out.i64("txnNumber", number);
            out.doc("lsid", |out| super::oplog::write_lsid(out, &session));
        }
        out.doc("_id", |out| {
            out.str("_data", token);
        });
        out.str("operationType", kind);
        out.append("clusterTime", Val::Timestamp(change.time));
        if self.expanded && change.uuid != [0; 16] {
            out.append("collectionUUID", Val::Binary(4, &change.uuid));
        }
        out.append("wallTime", Val::DateTime(change.wall_ms));
    }

    fn command_event(&self, change: &Change<'_>, token: &str) -> Option<Event> {
        let (db, _) = change.names();
        let command = change.doc;
        let mut verb = verb(command)?;
        // Views have no UUID; their drop is an expanded event like their creation.
        verb.expanded |= verb.name == "drop" && change.uuid == [0; 16];
        let renamed = (verb.name == "rename").then(|| target(command));
        let whole_database = verb.name == "dropDatabase";
        let concerned = if whole_database {
            match &self.watched {
                Watched::Collection { .. } => false,
                Watched::Database(own) => own == db,
                Watched::Server => true,
            }
        } else {
            self.sees(db, verb.collection) || renamed.is_some_and(|(db, name)| self.sees(db, name))
        };
        if !concerned || verb.expanded && !self.expanded {
            return None;
        }
        let mut bytes = Vec::with_capacity(command.bytes().len() + 320);
        let mut out = Writer::start(&mut bytes);
        if let Some((db, name)) = renamed {
            write_namespace(&mut out, "to", db, name);
        }
        self.write_head(&mut out, change, token, verb.name);
        if whole_database {
            out.doc("ns", |out| {
                out.str("db", db);
            });
        } else {
            write_namespace(&mut out, "ns", db, verb.collection);
        }
        if self.expanded {
            write_description(&mut out, &verb, command, change.more);
        }
        out.finish();
        let ends = match &self.watched {
            Watched::Collection { .. } => matches!(verb.name, "drop" | "rename"),
            Watched::Database(_) => whole_database,
            Watched::Server => false,
        };
        Some(Event { bytes, ends })
    }

    /// The invalidate event that follows the change that ended the stream.
    pub(super) fn invalidate(&self, change: &Change<'_>, token: &Token) -> Vec<u8> {
        let mut bytes = Vec::new();
        writer::write_doc(&mut bytes, |out| {
            out.doc("_id", |out| {
                out.str("_data", &token.text());
            });
            out.str("operationType", "invalidate");
            out.append("clusterTime", Val::Timestamp(change.time));
            out.append("wallTime", Val::DateTime(change.wall_ms));
        });
        bytes
    }
}

fn write_namespace(out: &mut Writer<'_>, field: &str, db: &str, name: &str) {
    out.doc(field, |out| {
        out.str("db", db).str("coll", name);
    });
}

/// Writes the description of a command in an expanded event.
fn write_description(
    out: &mut Writer<'_>,
    verb: &Verb<'_>,
    command: RawDoc<'_>,
    more: Option<RawDoc<'_>>,
) {
    let rest = || command.iter().skip(1);
    match verb.name {
        "create" => {
            out.doc("operationDescription", |out| {
                rest().for_each(|(name, value)| {
                    out.raw(name, value);
                });
            });
        }
        "createIndexes" => {
            let built = command.get("indexes").and_then(Val::as_array);
            out.doc("operationDescription", |out| {
                out.array("indexes", |list| match built {
                    Some(indexes) => indexes.iter().for_each(|(_, index)| list.push_raw(index)),
                    None => list.push_doc(|out| {
                        rest().for_each(|(name, value)| {
                            out.raw(name, value);
                        });
                    }),
                });
            });
        }
        "dropIndexes" => {
            out.doc("operationDescription", |out| {
                out.array("indexes", |list| {
                    list.push(more.map_or(Val::Missing, Val::Document));
                });
            });
        }
        "modify" => {
            out.doc("operationDescription", |out| {
                rest().for_each(|(name, value)| {
                    out.raw(name, value);
                });
            });
            let Some(more) = more else { return };
            let old = |name| more.get(name).unwrap_or(Val::Missing);
            out.doc("stateBeforeChange", |out| {
                out.append("collectionOptions", old("collectionOptions_old"));
                out.append("indexOptions", old("indexOptions_old"));
            });
        }
        "rename" => {
            let (db, name) = target(command);
            out.doc("operationDescription", |out| {
                write_namespace(out, "to", db, name);
                out.append("dropTarget", command.get("dropTarget").unwrap_or(Val::Missing));
            });
        }
        _ => {}
    }
}

/// Whether a pattern on the collection of a change requests that streams show its writes.
fn is_flagged(data: &Data, change: &Change<'_>) -> bool {
    let (db, name) = change.names();
    let catalog = data.catalog.load();
    catalog.patterns(db).iter().any(|p| p.target == name && p.common.flagged_events)
}

fn missing_image(change: &Change<'_>, kind: &str, what: &str, which: &str) -> Error {
    let (db, name) = change.names();
    Error::new(
        Code::NO_MATCHING_DOCUMENT,
        format!(
            "Change stream was configured to require a {what}, but the {which}-image was not found \
             for event: {{operationType: \"{kind}\", ns: {{db: \"{db}\", coll: \"{name}\"}}, \
             clusterTime: Timestamp({}, {})}}",
            change.time >> 32,
            change.time & 0xFFFF_FFFF
        ),
    )
}

/// The current version of the changed document, if it still exists in the same collection.
fn look_up(data: &Data, op: &Operation, change: &Change<'_>) -> Result<Option<Bytes>> {
    let (db, name) = change.names();
    let collection = data.collection(db, name).filter(|found| found.uuid == change.uuid);
    let Some(collection) = collection else { return Ok(None) };
    let collection = op.sees(collection)?;
    let id = change.doc.get("_id").unwrap_or(Val::Null);
    let snapshot = data.store.snapshot();
    if collection.capped().is_none() {
        let record = write::record_of_id(&collection, id);
        let key = write::document_key(&collection, &record);
        let Some(doc) = layout::get(&collection, &snapshot, &key)? else {
            return Ok(None);
        };
        return resolve::resolve_document(&collection, &snapshot, doc).map(Some);
    }
    let filter = Arc::new(Filter::parse(change.doc, &ParseContext::new(0))?);
    let question = Question {
        collection: &collection,
        filter: &filter,
        sort: None,
        hint: None,
        snapshot: &snapshot,
        projection: None,
        written: None,
    };
    let plan = logical::decide(&question, &Needs::Documents, MinMax::default())?.plan;
    let mut scan = Scan::new(snapshot.clone(), collection, &plan.access);
    while let Some(row) = scan.next(op)? {
        if filter.matches(RawDoc::new(&row.doc))? {
            return Ok(Some(row.doc));
        }
    }
    Ok(None)
}
