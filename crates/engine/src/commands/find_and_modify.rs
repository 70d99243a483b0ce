//! `findAndModify`: changes or removes one document and returns it.

use super::explain::{Purpose, Query};
use super::query::Find;
use super::query::{Constants, writable};
use super::row::{Explain, Kind, Required, StableApi, Transactions};
use super::statements::statement_id;
use super::update::array_filters;
use super::{Command, Context};
use crate::access::Authorization;
use crate::exec::modify::{self, Chosen};
use crate::exec::write;
use crate::metrics;
use crate::records::create_collection::ensure_collection;
use crate::session::{Done, Retryable};
use crate::txn::Transaction;
use ::access::Action;
use ::access::Actions;
use bumpalo::Bump;
use query::project::{Mode, Projection};
use query::update::{Series, Update};
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "findAndModify",
    aliases: &["findandmodify"],
    help: "Changes or removes one document and returns it.",
    fields: Some(&[
        "findAndModify",
        "findandmodify",
        "query",
        "sort",
        "remove",
        "update",
        "new",
        "fields",
        "upsert",
        "bypassDocumentValidation",
        "bypassPatterns",
        "collation",
        "arrayFilters",
        "hint",
        "let",
        "sampleId",
    ]),
    privilege: Required::Custom(allowed),
    transactions: Transactions::Allowed,
    retryable: true,
    stable_api: StableApi::Included,
    usage: Kind::Write,
    explain: Explain::Query(explained),
    run,
    ..Command::BASE
};

struct FindAndModify<'a> {
    name: &'a str,
    target: modify::Target<'a>,
    update: Option<Update>,
    upsert: bool,
    new: bool,
    bypass: bool,
    projection: Option<Projection>,
    retry: Option<(Retryable, i32)>,
}

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let mut request = parse(context)?;
    let concern = context.write_concern()?;
    let engine = context.engine;
    writable(&context.catalog(), context.db, request.name)?;
    let (reply, seqno) = loop {
        let collection = if request.upsert {
            Some(ensure_collection(&engine.data, context.op, context.db, request.name)?)
        } else {
            context.catalog().get(context.db, request.name).cloned()
        };
        let capped = collection.is_some_and(|collection| collection.is_written_locked());
        let (reply, seqno) =
            engine.data.transact(context.op, capped, |txn| request.execute(context, txn))?;
        if let Some(reply) = reply {
            break (reply, seqno);
        }
    };
    metrics::add(&engine.observed.metrics.updates, 1);
    concern.wait(engine, Some(seqno))?;
    out.extend(reply.as_doc());
    concern.write_error(out);
    Ok(())
}

fn parse<'a>(context: &Context<'a>) -> Result<FindAndModify<'a>> {
    let args = context.args;
    let name = context.collection_name()?;
    let constants = Constants::new(context)?;
    let remove = args.bool("remove")?;
    let upsert = args.bool("upsert")?;
    let new = args.bool("new")?;
    let update = args.get("update");
    let refuse = |message: &str| Err(Error::new(Code::FAILED_TO_PARSE, message));
    match (remove, update.is_some()) {
        (true, true) => return refuse("Cannot specify both an update and remove=true"),
        (false, false) => {
            return refuse("Either an update or remove=true must be specified");
        }
        (true, _) if upsert => return refuse("Cannot specify both upsert=true and remove=true "),
        (true, _) if new => {
            return refuse(
                "Cannot specify both new=true and remove=true; 'remove' always returns the deleted \
                 document",
            );
        }
        _ => {}
    }
    let filters = array_filters(&args)?;
    let update = match update {
        Some(update) => Some(Update::parse(update, &constants.context(), &filters)?),
        None if !filters.is_empty() => {
            return refuse("Cannot specify arrayFilters and remove=true");
        }
        None => None,
    };
    let projection = match args.optional_doc("fields")?.filter(|doc| !doc.is_empty()) {
        Some(fields) => Some(Projection::parse(fields, &constants.context(), Mode::Find)?),
        None => None,
    };
    let query = args.optional_doc("query")?.unwrap_or(RawDoc::empty());
    let retryable = Retryable::of(args.doc, context.session)?;
    let statement = statement_id(args.doc)?;
    Ok(FindAndModify {
        name,
        target: modify::target(
            &constants.context(),
            query,
            args.optional_doc("sort")?,
            args.hint()?,
        )?,
        update,
        upsert,
        new,
        bypass: args.bool("bypassDocumentValidation")?,
        projection,
        retry: retryable.map(|retryable| (retryable, statement)),
    })
}

/// Adds to an error where it occurred, as MongoDB does.
fn while_executing(error: Error) -> Error {
    error.context("Plan executor error during findAndModify :: caused by :: ".to_owned())
}

impl FindAndModify<'_> {
    /// Runs inside a transaction; `None` when the collection must be created first.
    fn execute(&mut self, context: &Context<'_>, txn: &mut Transaction) -> Result<Option<DocBuf>> {
        if let Some((retryable, statement)) = &mut self.retry
            && let Some(done) =
                retryable.begin(&context.engine.observed.metrics, txn, *statement)?
        {
            return Ok(done.detail.clone());
        }
        let Some(collection) = writable(&txn.catalog, context.db, self.name)? else {
            return if self.upsert { Ok(None) } else { self.reply(0, None, None, None).map(Some) };
        };
        let collection = context.op.sees_to_write(collection)?;
        let chosen = modify::choose_one(txn, context.op, &collection, &self.target)?;
        let reply = match (&self.update, chosen) {
            (None, None) => self.reply(0, None, None, None)?,
            (None, Some(chosen)) => {
                write::delete(txn, &collection, &chosen.record, chosen.canonical())?;
                self.reply(1, None, Some(RawDoc::new(&chosen.doc)), Some(&chosen))?
            }
            (Some(update), Some(chosen)) => {
                let mut once = Series::new(update);
                let changed =
                    modify::update_chosen(txn, &collection, &mut once, &chosen, self.bypass)
                        .map_err(while_executing)?;
                let old = RawDoc::new(&chosen.doc);
                let value = match &changed {
                    Some(new) if self.new => new.as_doc(),
                    _ => old,
                };
                self.reply(1, Some(Val::Missing), Some(value), Some(&chosen))?
            }
            (Some(update), None) if self.upsert => {
                let doc = modify::upsert(txn, &collection, update, &self.target, self.bypass)
                    .map_err(while_executing)?;
                let id = doc.as_doc().get("_id").unwrap_or(Val::Null);
                let value = self.new.then(|| doc.as_doc());
                self.reply(1, Some(id), value, None)?
            }
            (Some(_), None) => self.reply(0, Some(Val::Missing), None, None)?,
        };
        if let Some((retryable, statement)) = &mut self.retry {
            let done = Done::one(*statement, 1, 0, Some(reply.clone()));
            retryable.store(&context.engine.observed.metrics, txn, vec![done]);
        }
        Ok(Some(reply))
    }

    /// Writes the reply. `upserted` is set for updates: the new `_id`, or missing when none was
    /// inserted. `matched` is the document that the filter selected.
    fn reply(
        &self,
        n: i32,
        upserted: Option<Val<'_>>,
        doc: Option<RawDoc<'_>>,
        matched: Option<&Chosen>,
    ) -> Result<DocBuf> {
        let mut projected = Vec::new();
        let value = match (doc, &self.projection) {
            (None, _) => Val::Null,
            (Some(doc), None) => Val::Document(doc),
            (Some(doc), Some(projection)) => {
                let position = matched.and_then(|chosen| chosen.position);
                let arena = Bump::new();
                match (self.target.filter.text(), matched) {
                    (Some(text), Some(chosen)) => {
                        let score = text.score(RawDoc::new(&chosen.doc));
                        let meta = DocBuf::build(|out| {
                            out.f64("textScore", score);
                        });
                        let meta = meta.as_doc();
                        projection.apply_with_meta(doc, meta, position, &arena, &mut projected)?;
                    }
                    _ => projection.apply(doc, position, &arena, &mut projected)?,
                }
                Val::Document(RawDoc::new(&projected))
            }
        };
        Ok(DocBuf::build(|out| {
            out.doc("lastErrorObject", |out| {
                out.i32("n", n);
                if self.update.is_some() {
                    let id = upserted.unwrap_or(Val::Missing);
                    out.bool("updatedExisting", n > 0 && id.is_missing());
                    out.append("upserted", id);
                }
            });
            out.append("value", value);
        }))
    }
}

fn allowed(auth: &Authorization<'_>) -> bool {
    let mut needed = Actions::of(&[Action::Find]);
    if auth.flag("remove") {
        needed.add(Action::Remove);
    } else {
        needed.add(Action::Update);
        if auth.flag("upsert") {
            needed.add(Action::Insert);
        }
    }
    auth.writes(needed)
}

/// Returns the query for `explain`.
fn explained<'a>(context: &Context<'a>) -> Result<Query<'a>> {
    let args = &context.args;
    let purpose = if args.bool("remove")? { Purpose::Delete } else { Purpose::Update };
    let find = Find {
        filter: args.optional_doc("query")?,
        sort: args.optional_doc("sort")?,
        hint: args.hint()?,
        limit: Some(1),
        ..Find::default()
    };
    Ok(Query { find, purpose })
}
