//! `$out`: atomically replaces the content of a collection with the documents.
//!
//! The documents go into a collection with a temporary name and the options and indexes of the
//! target; at the end one change of the catalog replaces the target by it. If patterns depend on
//! the target, the documents are exchanged instead (`exchange`).

use super::chunks::next_chunk;
use super::exchange::exchange;
use super::privileges::{PipelinePrivileges, Privilege};
use super::row::Position;
use super::{Output, Role, Stage, StageContext, StageRow};
use crate::catalog::{Collection, change};
use crate::exec::{Stream, write};
use crate::namespace;
use crate::operation::Operation;
use crate::records::temporary;
use crate::txn::Data;
use crate::upkeep::declare;
use ::access::{Action, Actions};
use std::sync::Arc;
use store::Seqno;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$out",
    help: "Replaces the content of a collection with the documents.",
    position: Position::Last,
    in_transactions: false,
    parse,
    privilege: Privilege::Beside(privilege),
    ..StageRow::BASE
};

fn privilege(client: &PipelinePrivileges<'_>, spec: Val<'_>, _: usize) -> bool {
    client.output_allowed(spec, Actions::of(&[Action::Insert, Action::Remove]))
}

struct Out {
    db: String,
    name: String,
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let (db, name) = match value {
        Val::String(name) => (context.db, name),
        Val::Document(doc) => {
            let (mut db, mut coll) = (None, None);
            for (name, value) in doc {
                let slot = match name {
                    "db" => &mut db,
                    "coll" => &mut coll,
                    _ => {
                        return Err(Error::new(
                            Code(16994),
                            format!(
                                "If an object is passed to $out it must have exactly 2 fields: 'db' \
                                 and 'coll'. Found: {name}"
                            ),
                        ));
                    }
                };
                *slot = value.get().as_str();
            }
            let (Some(db), Some(coll)) = (db, coll) else {
                return Err(Error::new(
                    Code(16994),
                    "If an object is passed to $out it must have exactly 2 fields: 'db' and 'coll'",
                ));
            };
            (db, coll)
        }
        other => {
            return Err(Error::new(
                Code(16990),
                format!(
                    "$out only supports a string or object argument, but found {}",
                    other.kind().name()
                ),
            ));
        }
    };
    check_target("$out", db, name)?;
    Ok(Box::new(Out { db: db.to_owned(), name: name.to_owned() }))
}

/// Refuses names that a pipeline may not write to.
pub(super) fn check_target(stage: &str, db: &str, name: &str) -> Result<()> {
    namespace::check_database(db).and_then(|()| namespace::check_collection(db, name)).map_err(
        |_| Error::new(Code::INVALID_NAMESPACE, format!("Invalid {stage} target: '{db}.{name}'")),
    )?;
    let (system, internal) = if stage == "$out" { (17385, 31321) } else { (31319, 31320) };
    if name.starts_with("system.") {
        return Err(Error::new(
            Code(system),
            format!("Can't {stage} to special collection: {name}"),
        ));
    }
    if matches!(db, "admin" | "config" | "local") {
        return Err(Error::new(
            Code(internal),
            format!("Can't {stage} to internal database: {db}"),
        ));
    }
    namespace::check_new_collection(db, name)
}

impl Stage for Out {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        input
    }

    fn role(&self) -> Role<'_> {
        Role::Output(self)
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.doc(ROW.name, |out| {
            out.str("db", &self.db).str("coll", &self.name);
        });
    }
}

impl Output for Out {
    fn write(
        &self,
        data: &Data,
        op: &Operation,
        bypass_validation: bool,
        input: &mut dyn Stream,
    ) -> Result<Option<Seqno>> {
        let target = data.collection(&self.db, &self.name);
        if let Some(target) = &target {
            self.check(target)?;
        }
        if declare::is_followed(&data.catalog.load(), &self.db, &self.name) {
            return exchange(data, op, (&self.db, &self.name), bypass_validation, input);
        }
        let options = target.as_ref().map_or_else(DocBuf::new, |target| target.options.clone());
        let name = format!("{}{:016x}", temporary::OUT, value::random::u64());
        let temporary = temporary::create(data, &self.db, &name, &options, target.as_deref())?;
        let filled = fill(data, op, &temporary, bypass_validation, input)
            .and_then(|seqno| self.put_in_place(data, target.as_ref(), &temporary).map(|()| seqno));
        if filled.is_err() {
            temporary::clean_up(data, &temporary);
        }
        filled
    }
}

impl Out {
    fn check(&self, target: &Collection) -> Result<()> {
        if target.view().is_some() {
            return Err(Error::new(
                Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                format!("Namespace {} is a view, not a collection", target.namespace()),
            ));
        }
        if target.capped().is_some() {
            return Err(Error::new(
                Code(17152),
                format!(
                    "namespace '{}' is capped so it can't be used for $out",
                    target.namespace()
                ),
            ));
        }
        Ok(())
    }

    /// Renames the temporary collection to the target, in one step.
    fn put_in_place(
        &self,
        data: &Data,
        target: Option<&Arc<Collection>>,
        temporary: &Arc<Collection>,
    ) -> Result<()> {
        let replaced = data.change_catalog(|catalog, batch| {
            let now = catalog.get(&self.db, &self.name).cloned();
            if now.as_ref().map(|now| now.version) != target.map(|target| target.version) {
                return Err(Error::new(
                    Code::COMMAND_FAILED,
                    format!(
                        "collection '{}.{}' was changed while $out was writing to it",
                        self.db, self.name
                    ),
                ));
            }
            if let Some(now) = &now {
                change::remove(catalog, batch, now);
            }
            temporary::put_in_place(catalog, batch, temporary, &self.name)?;
            Ok(now)
        })?;
        if let Some(replaced) = replaced {
            change::discard(&data.trash, &replaced);
        }
        Ok(())
    }
}

/// Inserts all documents of a stream into a collection that has no other writers.
fn fill(
    data: &Data,
    op: &Operation,
    temporary: &Arc<Collection>,
    bypass_validation: bool,
    input: &mut dyn Stream,
) -> Result<Option<Seqno>> {
    let mut newest = None;
    loop {
        let chunk = next_chunk(input, &mut None, op, |_| true)?;
        if chunk.is_empty() {
            return Ok(newest);
        }
        let mut prepared = Vec::with_capacity(chunk.len());
        for doc in &chunk {
            prepared.push(write::prepare(doc.raw())?);
        }
        let ((), seqno) = data.transact(op, false, |txn| {
            let collection =
                txn.catalog.get(&temporary.db, &temporary.name).cloned().ok_or_else(|| {
                    Error::new(
                        Code::COMMAND_FAILED,
                        "the result of $out was dropped before its end",
                    )
                })?;
            for doc in &prepared {
                let doc = RawDoc::new(doc);
                collection.validate(doc, bypass_validation)?;
                write::insert(txn, &collection, doc)?;
            }
            Ok(())
        })?;
        newest = Some(seqno);
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use value::ejson;

    #[test]
    fn a_failed_result_leaves_the_target_and_nothing_else() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            engine.run_command("t", ejson::parse_doc(text).expect("test text").as_doc())
        };
        run("{insert: 'a', documents: [{_id: 1, n: 1}, {_id: 2, n: 1}]}").expect("works");
        run("{insert: 'b', documents: [{_id: 7}]}").expect("works");
        run("{createIndexes: 'b', indexes: [{key: {n: 1}, name: 'n', unique: true}]}")
            .expect("works");
        let failed = run("{aggregate: 'a', pipeline: [{$out: 'b'}], cursor: {}}");
        assert_eq!(failed.expect_err("a duplicate").code().0, 11000);
        let names: Vec<String> = engine
            .inner()
            .data
            .catalog
            .load()
            .collections()
            .map(|collection| collection.name.to_string())
            .collect();
        assert_eq!(names, ["a", "b"]);
        let kept = engine.inner().data.collection("t", "b").expect("is there");
        assert_eq!((kept.counters.documents(), kept.indexes.len()), (1, 2));
        run("{aggregate: 'a', pipeline: [{$match: {_id: 1}}, {$out: 'b'}], cursor: {}}")
            .expect("works");
        let new = engine.inner().data.collection("t", "b").expect("is there");
        assert_eq!((new.counters.documents(), new.indexes.len()), (1, 2));
        assert!(engine.check(&mut |_, _, _| {}).expect("can be read").is_empty());
    }
}
