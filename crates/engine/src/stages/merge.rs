//! `$merge`: writes each document separately into a collection; `whenMatched` and `whenNotMatched`
//! set what happens to it.

use super::chunks::next_chunk;
use super::lookup::field;
use super::merge_changes::Changes;
use super::out::check_target;
use super::privileges::{PipelinePrivileges, Privilege};
use super::row::Position;
use super::{Output, OwnedContext, Role, Stage, StageContext, StageRow};
use crate::catalog::{Collection, IndexKind, IndexState};
use crate::exec::modify::{self, Chosen, Target};
use crate::exec::scan::Row;
use crate::exec::{Doc, Stream, write};
use crate::operation::Operation;
use crate::records::resolve;
use crate::txn::Data;
use crate::txn::Transaction;
use ::access::{Action, Actions};
use query::expr::Expr;
use query::filter::Filter;
use query::interrupt;
use query::update::delta::{LoggedUpdate, between};
use std::collections::HashSet;
use std::sync::Arc;
use store::Seqno;
use value::path::Path;
use value::{
    Code, DocBuf, Error, ObjectId, OwnedVal, RawDoc, RawVal, Result, Val, Writer, compare, keys,
};

pub(super) static ROW: StageRow = StageRow {
    name: "$merge",
    help: "Writes the documents into a collection.",
    position: Position::Last,
    in_transactions: false,
    parse,
    privilege: Privilege::Beside(privilege),
    ..StageRow::BASE
};

fn privilege(client: &PipelinePrivileges<'_>, spec: Val<'_>, _: usize) -> bool {
    let options = spec.as_doc();
    let into = options.and_then(|doc| doc.get("into")).unwrap_or(spec);
    let mode = |name| options.and_then(|doc| doc.get(name)).and_then(Val::as_str);
    let mut needed = Actions::default();
    match mode("whenMatched") {
        Some("fail") => needed.add(Action::Insert),
        _ => needed.add(Action::Update),
    }
    if mode("whenNotMatched").is_none_or(|mode| mode == "insert") {
        needed.add(Action::Insert);
    }
    client.output_allowed(into, needed)
}

struct Merge {
    db: String,
    name: String,
    on: Vec<Path>,
    matched: WhenMatched,
    unmatched: WhenNotMatched,
    changes: Option<Changes>,
    kept: OwnedContext,
    source: OwnedVal,
}

enum WhenMatched {
    Fail,
    KeepExisting,
    Merge,
    Replace,
    Pipeline,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WhenNotMatched {
    Discard,
    Fail,
    Insert,
}

fn refuse<T>(code: i32, message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code(code), message))
}

fn wrong_type<T>(name: &str, value: Val<'_>, expected: &str) -> Result<T> {
    Err(Error::type_mismatch(format!(
        "BSON field '$merge.{name}' is the wrong type '{}', expected type {expected}",
        value.kind().name()
    )))
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let (mut into, mut on, mut matched, mut unmatched, mut variables) =
        (None, None, None, None, None);
    match value {
        Val::String(_) => into = Some(value),
        Val::Document(doc) => {
            for (name, value) in doc {
                let slot = match name {
                    "into" => &mut into,
                    "on" => &mut on,
                    "whenMatched" => &mut matched,
                    "whenNotMatched" => &mut unmatched,
                    "let" => &mut variables,
                    _ => {
                        return refuse(
                            40415,
                            format!("BSON field '$merge.{name}' is an unknown field."),
                        );
                    }
                };
                *slot = Some(value.get());
            }
            if into == Some(Val::String("")) {
                return refuse(5786800, "$merge 'into' field cannot be an empty string");
            }
        }
        other => {
            return Err(Error::type_mismatch(format!(
                "$merge only supports a string or object argument, not {}",
                other.kind().name()
            )));
        }
    }
    let Some(into) = into else {
        return refuse(40414, "BSON field '$merge.into' is missing but a required field");
    };
    let (db, name) = target(into, context.db)?;
    let on = match on {
        None => vec![Path::new("_id")],
        Some(on) => join_fields(on)?,
    };
    let mode = match matched {
        None => WhenMatched::Merge,
        Some(Val::Array(_)) => WhenMatched::Pipeline,
        Some(Val::String("fail")) => WhenMatched::Fail,
        Some(Val::String("keepExisting")) => WhenMatched::KeepExisting,
        Some(Val::String("merge")) => WhenMatched::Merge,
        Some(Val::String("replace")) => WhenMatched::Replace,
        Some(Val::String(other)) => {
            return Err(Error::bad_value(format!(
                "Enumeration value '{other}' for field 'whenMatched' is not a valid value."
            )));
        }
        Some(other) => {
            return refuse(
                51191,
                format!(
                    "$merge 'whenMatched' field  must be either a string or an array, but found {}",
                    other.kind().name()
                ),
            );
        }
    };
    let unmatched = match unmatched {
        None | Some(Val::Null | Val::String("insert")) => WhenNotMatched::Insert,
        Some(Val::String("discard")) => WhenNotMatched::Discard,
        Some(Val::String("fail")) => WhenNotMatched::Fail,
        Some(Val::String(other)) => {
            return Err(Error::bad_value(format!(
                "Enumeration value '{other}' for field '$merge.whenNotMatched' is not a valid value."
            )));
        }
        Some(other) => return wrong_type("whenNotMatched", other, "'string'"),
    };
    let only_insert = matches!(mode, WhenMatched::Fail | WhenMatched::KeepExisting);
    if only_insert && unmatched != WhenNotMatched::Insert {
        return refuse(
            51181,
            "Combination of {whenMatched} and {whenNotMatched} modes is not supported",
        );
    }
    let mut compiled = Vec::new();
    if let Some(variables) = variables.filter(|variables| *variables != Val::Null) {
        let Val::Document(variables) = variables else {
            return wrong_type("let", variables, "'object'");
        };
        if !matches!(mode, WhenMatched::Pipeline) {
            return refuse(
                51199,
                "Cannot use 'let' variables with a 'whenMatched' mode that is not a pipeline",
            );
        }
        for (name, value) in variables {
            query::expr::check_variable_name(name)?;
            if name == "new" && value.get() != Val::String("$$ROOT") {
                return refuse(
                    51273,
                    "'let' may not define a value for the reserved 'new' variable",
                );
            }
            compiled.push((name.to_owned(), Expr::parse(value.get(), context)?));
        }
    }
    let changes = match matched {
        Some(Val::Array(stages)) => Some(Changes::new(stages, compiled, context)?),
        _ => None,
    };
    Ok(Box::new(Merge {
        db: db.to_owned(),
        name: name.to_owned(),
        on,
        matched: mode,
        unmatched,
        changes,
        kept: context.keep(),
        source: value.into(),
    }))
}

fn target<'v>(into: Val<'v>, db: &'v str) -> Result<(&'v str, &'v str)> {
    let (db, name) = match into {
        Val::String(name) => (db, name),
        Val::Document(doc) => {
            let (mut database, mut coll) = (db, None);
            for (name, value) in doc {
                match (name, value.get()) {
                    ("db", Val::String(text)) => database = text,
                    ("coll", Val::String(text)) => coll = Some(text),
                    ("db" | "coll", other) => {
                        return wrong_type(&format!("into.{name}"), other, "'string'");
                    }
                    _ => {
                        return refuse(
                            40415,
                            format!("BSON field 'into.{name}' is an unknown field."),
                        );
                    }
                }
            }
            let Some(coll) = coll else {
                return refuse(5786801, "$merge 'into' field is missing the required 'coll' field");
            };
            (database, coll)
        }
        other => {
            return refuse(
                51178,
                format!(
                    "$merge 'into' field  must be either a string or an object, but found {}",
                    other.kind().name()
                ),
            );
        }
    };
    check_target("$merge", db, name)?;
    Ok((db, name))
}

fn join_fields(on: Val<'_>) -> Result<Vec<Path>> {
    let mut fields: Vec<Path> = Vec::new();
    match on {
        Val::String(name) => fields.push(field(name)?),
        Val::Array(list) => {
            for (_, name) in list {
                let Val::String(name) = name.get() else {
                    return refuse(51134, "$merge 'on' array elements must be strings".to_owned());
                };
                if fields.iter().any(|known| known.text() == name) {
                    return refuse(
                        31465,
                        format!("Found a duplicate field in the $merge.on list: '{name}'"),
                    );
                }
                fields.push(field(name)?);
            }
            if fields.is_empty() {
                return refuse(
                    51187,
                    "If explicitly specifying $merge 'on', must include at least one field",
                );
            }
        }
        other => {
            return refuse(
                51186,
                format!(
                    "$merge 'on' field  must be either a string or an array of strings, but found {}",
                    other.kind().name()
                ),
            );
        }
    }
    // The order in which an inserted document gets them.
    fields.sort_by(|a, b| a.text().cmp(b.text()));
    Ok(fields)
}

impl Stage for Merge {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        input
    }

    fn role(&self) -> Role<'_> {
        Role::Output(self)
    }

    fn explain(&self, out: &mut Writer<'_>) {
        let given = match self.source.get() {
            Val::Document(doc) => doc,
            _ => RawDoc::empty(),
        };
        let or = |name: &str, default| given.get(name).unwrap_or(Val::String(default));
        out.doc(ROW.name, |out| {
            out.doc("into", |out| {
                out.str("db", &self.db).str("coll", &self.name);
            });
            out.append("on", or("on", "_id"));
            out.append("whenMatched", or("whenMatched", "merge"));
            out.append("let", given.get("let").unwrap_or(Val::Missing));
            out.append("whenNotMatched", or("whenNotMatched", "insert"));
        });
    }
}

impl Output for Merge {
    fn write(
        &self,
        data: &Data,
        op: &Operation,
        bypass_validation: bool,
        input: &mut dyn Stream,
    ) -> Result<Option<Seqno>> {
        let target = data.collection(&self.db, &self.name);
        let target = target.map(|target| op.sees_to_write(target)).transpose()?;
        self.check_index(target.as_deref())?;
        let (mut newest, mut left) = (None, None);
        loop {
            // Inside a commit, lookups read the state before it, so a commit must not hold two
            // documents that match the same one.
            let mut keys: HashSet<Vec<u8>> = HashSet::new();
            let chunk = next_chunk(input, &mut left, op, |doc| {
                self.gets_id(doc.raw()) || keys.insert(self.key(doc.raw()))
            })?;
            if chunk.is_empty() {
                return Ok(newest);
            }
            chunk.iter().try_for_each(|doc| self.check_on(doc.raw()))?;
            let mut rest = chunk.as_slice();
            let mut refused = None;
            // A collection that is dropped meanwhile is created again.
            while !rest.is_empty() {
                let collection = crate::records::create_collection::ensure_collection(
                    data, op, &self.db, &self.name,
                )?;
                let locked = collection.is_written_locked();
                let (written, seqno) = data.transact(op, locked, |txn| {
                    let Some(collection) = txn.catalog.get(&self.db, &self.name).cloned() else {
                        return Ok(Written::default());
                    };
                    let collection = op.sees_to_write(collection)?;
                    let written = self.write_some(txn, op, &collection, rest, bypass_validation);
                    write::trim_capped(txn, &collection)?;
                    Ok(written)
                })?;
                newest = Some(seqno);
                if let Some(error) = written.stopped {
                    return Err(error);
                }
                refused = refused.or(written.refused);
                rest = rest.get(written.documents..).unwrap_or(&[]);
            }
            if let Some(error) = refused {
                return Err(error);
            }
        }
    }
}

/// Adds to the error of an equal key what was to be done.
fn duplicate(error: Error, what: &str) -> Error {
    match error.code() {
        Code::DUPLICATE_KEY => error.context(format!("{what} :: caused by :: ")),
        _ => error,
    }
}

/// The result of one commit.
#[derive(Default)]
struct Written {
    documents: usize,
    /// The error of the first document that was refused. The others are written, as in MongoDB.
    refused: Option<Error>,
    /// The error that ends the operation.
    stopped: Option<Error>,
}

impl Merge {
    fn is_on_id(&self) -> bool {
        matches!(self.on.as_slice(), [one] if one.text() == "_id")
    }

    /// Requires a unique index on the `on` fields, so that they identify one document.
    fn check_index(&self, target: Option<&Collection>) -> Result<()> {
        if let Some(target) = target.filter(|target| target.view().is_some()) {
            return Err(Error::new(
                Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                format!("Namespace {} is a view, not a collection", target.namespace()),
            ));
        }
        if self.is_on_id() {
            return Ok(());
        }
        let suits = target.is_some_and(|target| {
            target.readable_indexes().any(|index| {
                index.unique
                    && index.state == IndexState::Ready
                    && index.partial.is_none()
                    && matches!(index.kind, IndexKind::Ordered)
                    && index.collation == self.kept.collation
                    && index.fields.len() == self.on.len()
                    && self
                        .on
                        .iter()
                        .all(|on| index.fields.iter().any(|field| field.path.text() == on.text()))
            })
        });
        if suits {
            return Ok(());
        }
        refuse(51183, "Cannot find index to verify that join fields will be unique")
    }

    /// Whether a document cannot match because its `_id` is new.
    fn gets_id(&self, doc: RawDoc<'_>) -> bool {
        doc.find("_id").is_none() && self.on.iter().any(|on| on.text() == "_id")
    }

    /// A key that is equal for documents that match the same one.
    fn key(&self, doc: RawDoc<'_>) -> Vec<u8> {
        let mut key = Vec::new();
        for on in &self.on {
            keys::encode_with(&mut key, on.get(doc), false, self.kept.collation.as_deref());
        }
        key
    }

    /// Writes documents until one changes what later ones could match.
    fn write_some(
        &self,
        txn: &mut Transaction,
        op: &Operation,
        collection: &Arc<Collection>,
        docs: &[Doc],
        bypass: bool,
    ) -> Written {
        let mut written = Written::default();
        for doc in docs {
            match self.write_one(txn, op, collection, doc.raw(), bypass) {
                Ok(moved) => {
                    written.documents += 1;
                    if moved {
                        break;
                    }
                }
                Err(error) if interrupt::ends_operation(&error) || txn.is_of_session() => {
                    written.stopped = Some(error);
                    break;
                }
                Err(error) => {
                    written.documents += 1;
                    written.refused.get_or_insert(error);
                }
            }
        }
        written
    }

    /// A document with the order of fields in which `$set` adds them, behind those of `on`: MongoDB
    /// merges by an update.
    fn ordered(&self, doc: RawDoc<'_>) -> DocBuf {
        let place = |name: &str| match name {
            "_id" => 0,
            name => {
                self.on.iter().position(|on| on.first() == name).map_or(usize::MAX, |at| at + 1)
            }
        };
        let mut fields: Vec<(&str, RawVal<'_>)> = doc.iter().collect();
        fields.sort_by(|(a, _), (b, _)| {
            place(a).cmp(&place(b)).then_with(|| query::update::field_order(a, b))
        });
        DocBuf::build(|out| {
            for (name, value) in fields {
                out.raw(name, value);
            }
        })
    }

    /// Writes a document. Returns true when other documents may now match its target.
    fn write_one(
        &self,
        txn: &mut Transaction,
        op: &Operation,
        collection: &Arc<Collection>,
        doc: RawDoc<'_>,
        bypass: bool,
    ) -> Result<bool> {
        let with_id;
        let mut doc = doc;
        if self.gets_id(doc) {
            with_id = DocBuf::build(|out| {
                out.append("_id", Val::ObjectId(ObjectId::generate())).extend(doc);
            });
            doc = with_id.as_doc();
        }
        if let Some(changes) = &self.changes {
            changes.bind(doc)?;
        }
        let ordered;
        if matches!(self.matched, WhenMatched::Merge | WhenMatched::KeepExisting) {
            ordered = self.ordered(doc);
            doc = ordered.as_doc();
        }
        let Some(chosen) = self.find(txn, op, collection, doc)? else {
            return self
                .insert(txn, collection, doc, bypass)
                .map(|()| false)
                .map_err(|error| duplicate(error, "$merge failed due to a DuplicateKey error"));
        };
        let old = RawDoc::new(&chosen.doc);
        let new = match &self.matched {
            WhenMatched::KeepExisting => return Ok(false),
            WhenMatched::Fail => {
                let text = "$merge with whenMatched: fail found an existing document with the \
                            same values for the 'on' fields";
                return self
                    .insert(txn, collection, doc, bypass)
                    .map(|()| false)
                    .map_err(|error| duplicate(error, text));
            }
            WhenMatched::Replace => replaced(old, doc, false),
            WhenMatched::Merge => replaced(old, doc, true),
            WhenMatched::Pipeline => {
                let Some(changes) = &self.changes else { return Ok(false) };
                match changes.apply(old, doc)? {
                    None => return Ok(false),
                    Some(new) => new,
                }
            }
        };
        let id = |doc: RawDoc<'_>| OwnedVal::new(doc.get("_id").unwrap_or(Val::Null));
        if !compare::equal(id(old).get(), id(new.as_doc()).get()) {
            return Err(Error::new(
                Code::IMMUTABLE_FIELD,
                "$merge failed to update the matching document, did you attempt to modify the _id or \
                 the shard key?",
            ));
        }
        if new.bytes() == old.bytes() {
            return Ok(false);
        }
        let logged = match self.matched {
            WhenMatched::Replace => LoggedUpdate::Replacement,
            _ => between(old, new.as_doc()),
        };
        let replaced = if collection.form.is_some() {
            modify::replace_seen(txn, collection, &chosen, new.as_doc(), &logged, bypass).map(drop)
        } else {
            collection.validate_update(old, new.as_doc(), bypass)?;
            write::replace(txn, collection, &chosen.record, old, &new, &logged).map(drop)
        };
        replaced.map_err(|error| duplicate(error, "$merge failed due to a DuplicateKey error"))?;
        Ok(!self.is_on_id() && self.key(old) != self.key(new.as_doc()))
    }

    fn insert(
        &self,
        txn: &mut Transaction,
        collection: &Arc<Collection>,
        doc: RawDoc<'_>,
        bypass: bool,
    ) -> Result<()> {
        match self.unmatched {
            WhenNotMatched::Discard => Ok(()),
            WhenNotMatched::Fail => Err(Error::new(
                Code::MERGE_STAGE_NO_MATCHING_DOCUMENT,
                "$merge could not find a matching document in the target collection for at least one \
                 document in the source collection",
            )),
            WhenNotMatched::Insert => {
                let doc = write::prepare(doc)?;
                let doc = modify::accept_new(collection, RawDoc::new(&doc))?;
                let doc = RawDoc::new(&doc);
                collection.validate(doc, bypass)?;
                write::insert(txn, collection, doc)
            }
        }
    }

    /// Refuses a document that has no single value in one of the `on` fields.
    fn check_on(&self, doc: RawDoc<'_>) -> Result<()> {
        let generated = self.gets_id(doc);
        for on in &self.on {
            if generated && on.text() == "_id" {
                continue;
            }
            let (code, what) = match on.get(doc) {
                Val::Array(_) => (51185, "an array"),
                Val::Missing | Val::Null | Val::Undefined => {
                    (51132, "missing, null, undefined or an array")
                }
                _ => continue,
            };
            return refuse(
                code,
                format!("$merge write error: 'on' field '{}' cannot be {what}", on.text()),
            );
        }
        Ok(())
    }

    /// Finds the target document with the same values of the `on` fields.
    fn find(
        &self,
        txn: &Transaction,
        op: &Operation,
        collection: &Arc<Collection>,
        doc: RawDoc<'_>,
    ) -> Result<Option<Chosen>> {
        if self.is_on_id() && collection.capped().is_none() {
            let record = write::record_of_id(collection, doc.get("_id").unwrap_or(Val::Null));
            let key = write::document_key(collection, &record);
            let Some(doc) = txn.document(collection, &key)? else { return Ok(None) };
            let doc = resolve::resolve_document(collection, &txn.snapshot, doc)?;
            let row = Row { record: record.into(), doc };
            return Chosen::new(txn, collection, row, None).map(Some);
        }
        let query = DocBuf::build(|out| {
            for on in &self.on {
                out.doc(on.text(), |out| {
                    out.append("$eq", on.get(doc));
                });
            }
        });
        let filter = Arc::new(Filter::parse(query.as_doc(), &self.kept.get())?);
        let target = Target { query: query.as_doc(), filter, sort: None, hint: None, reads: None };
        modify::choose_one(txn, op, collection, &target)
    }
}

/// Merges the fields of the new document into the old one, or returns the new one with the old
/// `_id`.
fn replaced(old: RawDoc<'_>, new: RawDoc<'_>, keep_others: bool) -> DocBuf {
    DocBuf::build(|out| {
        if keep_others {
            for (name, value) in old {
                out.raw(name, new.find(name).unwrap_or(value));
            }
            for (name, value) in new {
                if old.find(name).is_none() {
                    out.raw(name, value);
                }
            }
            return;
        }
        if let Some(id) = new.find("_id").or(old.find("_id")) {
            out.raw("_id", id);
        }
        for (name, value) in new {
            if name != "_id" {
                out.raw(name, value);
            }
        }
    })
}
