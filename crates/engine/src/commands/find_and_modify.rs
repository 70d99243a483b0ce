//! `findAndModify`: changes or removes one document and returns it.

use super::explain::{Purpose, Query};
use super::heads::Heads;
use super::query::Find;
use super::query::{Constants, refuse_beside_position, writable};
use super::row::{Explain, Kind, Required, StableApi, Transactions};
use super::statements::{count_update, statement_id};
use super::update::array_filters;
use super::{Command, Context, named_faces, stable_api};
use crate::access::Authorization;
use crate::exec::metadata::write_distance;
use crate::exec::modify::{self, Chosen};
use crate::exec::parts::Reads;
use crate::metrics;
use crate::records::create_collection::ensure_collection;
use crate::report::Writes;
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
        "bypassEmptyTsReplacement",
        "bypassPatterns",
        "collation",
        "arrayFilters",
        "hint",
        "let",
        "read",
        "sampleId",
    ]),
    privilege: Required::Custom(allowed),
    transactions: Transactions::Allowed,
    retryable: true,
    stable_api: StableApi::Checked(|body| match body.first() {
        Some(("findandmodify", _)) => stable_api::refuse(
            "Provided apiStrict:true, but the command findandmodify is not in API Version 1",
        ),
        _ => Ok(()),
    }),
    usage: Kind::Write,
    takes_updates: true,
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
    let metrics = &engine.observed.metrics;
    let has_array_filters = context.args.get("arrayFilters").is_some();
    count_update(context, context.args.get("update"), has_array_filters);
    crate::namespace::check_written(context.db, request.name)?;
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
        if let Some((reply, writes)) = reply {
            metrics::add(&metrics.documents_updated, writes.modified.unwrap_or(0));
            metrics::add(&metrics.documents_deleted, writes.deleted.unwrap_or(0));
            context.op.report(|report| report.writes = writes);
            break (reply, seqno);
        }
    };
    concern.wait(engine, Some(seqno))?;
    out.extend(reply.as_doc());
    concern.write_error(out);
    Ok(())
}

fn parse<'a>(context: &Context<'a>) -> Result<FindAndModify<'a>> {
    let args = context.args;
    let name = context.collection_name()?;
    let constants = Constants::of_writes(context)?;
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
    if args.get("arrayFilters").is_some() && matches!(update, Some(Val::Array(_))) {
        return refuse("Cannot specify arrayFilters and a pipeline update");
    }
    let update = match update {
        Some(update) => Some(Update::parse(update, &constants.context(), &filters)?),
        None if args.get("arrayFilters").is_some() => {
            return refuse("Cannot specify arrayFilters and remove=true");
        }
        None => None,
    };
    let fields = args.optional_doc("fields")?.filter(|doc| !doc.is_empty());
    let hiding = named_faces::hiding(context.op, fields, &constants.context());
    let projection = match hiding.as_ref().map(DocBuf::as_doc).or(fields) {
        Some(fields) => {
            let projection = Projection::parse(fields, &constants.context(), Mode::Find)?;
            if projection.needs_position() {
                refuse_beside_position(args.optional_doc("query")?.unwrap_or(RawDoc::empty()))?;
            }
            if new && projection.needs_position() {
                return Err(Error::bad_value(
                    "cannot use a positional projection and return the new document",
                ));
            }
            let sort_key = fields.iter().any(|(_, value)| {
                let meta = value.as_doc().and_then(|doc| doc.get("$meta"));
                meta == Some(Val::String("sortKey"))
            });
            if sort_key {
                return Err(Error::bad_value(
                    "Cannot use a $meta sortKey projection in findAndModify commands.",
                ));
            }
            Some(projection)
        }
        None => None,
    };
    let query = args.optional_doc("query")?.unwrap_or(RawDoc::empty());
    let retryable = Retryable::of(&args, context.session)?;
    let statement = statement_id(args.doc)?;
    let sort = args.optional_doc("sort")?;
    let mut target = modify::target(&constants.context(), query, sort, args.hint()?)?;
    let (filter, sort) = (&target.filter, target.sort.as_ref());
    let reads = match &update {
        Some(update) => Reads::of(update, filter, sort),
        None => Reads::of_delete(filter, sort),
    };
    target.reads = reads.and_then(|reads| reads.returning(projection.as_ref()));
    Ok(FindAndModify {
        name,
        target,
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
    fn execute(
        &mut self,
        context: &Context<'_>,
        txn: &mut Transaction,
    ) -> Result<Option<(DocBuf, Writes)>> {
        let nothing = Writes::default();
        if let Some((retryable, statement)) = &mut self.retry
            && let Some(done) =
                retryable.begin(&context.engine.observed.metrics, txn, *statement)?
        {
            return Ok(done.detail.clone().map(|reply| (reply, nothing)));
        }
        let Some(collection) = writable(&txn.catalog, context.db, self.name)? else {
            if self.upsert {
                return Ok(None);
            }
            return self.reply(0, None, None, (None, None)).map(|reply| Some((reply, nothing)));
        };
        let collection = context.op.sees_to_write(collection)?;
        let fields = context.args.optional_doc("fields")?;
        let heads = Heads::of_find(context, &collection, &txn.snapshot, fields)?;
        let heads = heads.as_ref();
        let chosen = modify::choose_one(txn, context.op, &collection, &self.target)?;
        let mut writes = Writes::default();
        let reply = match (&self.update, chosen) {
            (None, None) => {
                writes.deleted = Some(0);
                self.reply(0, None, None, (None, None))?
            }
            (None, Some(chosen)) => {
                writes.deleted = Some(1);
                modify::delete_chosen(txn, &collection, &chosen)?;
                self.reply(1, None, Some(RawDoc::new(&chosen.doc)), (Some(&chosen), heads))?
            }
            (Some(update), Some(chosen)) => {
                let mut once = Series::new(update);
                let changed =
                    modify::update_chosen(txn, &collection, &mut once, &chosen, self.bypass)
                        .map_err(while_executing)?;
                let old = RawDoc::new(&chosen.doc);
                (writes.matched, writes.modified) = (Some(1), Some(u64::from(changed.is_some())));
                writes.upserted = Some(0);
                let value = match &changed {
                    Some(new) if self.new => new.as_doc(),
                    _ => old,
                };
                self.reply(1, Some(Val::Missing), Some(value), (Some(&chosen), heads))?
            }
            (Some(update), None) if self.upsert => {
                let doc = modify::upsert(txn, &collection, update, &self.target, self.bypass)
                    .map_err(while_executing)?;
                let id = doc.as_doc().get("_id").unwrap_or(Val::Null);
                (writes.matched, writes.modified) = (Some(0), Some(0));
                writes.upserted = Some(1);
                let value = self.new.then(|| doc.as_doc());
                self.reply(1, Some(id), value, (None, heads))?
            }
            (Some(_), None) => {
                (writes.matched, writes.modified) = (Some(0), Some(0));
                writes.upserted = Some(0);
                self.reply(0, Some(Val::Missing), None, (None, None))?
            }
        };
        if let Some((retryable, statement)) = &mut self.retry {
            let done = Done::one(*statement, 1, 0, Some(reply.clone()));
            retryable.store(&context.engine.observed.metrics, txn, vec![done]);
        }
        Ok(Some((reply, writes)))
    }

    /// Writes the reply. `upserted` is set for updates: the new `_id`, or missing when none was
    /// inserted. `matched` is the document that the filter selected, `heads` the arrays that are cut.
    fn reply(
        &self,
        n: i32,
        upserted: Option<Val<'_>>,
        doc: Option<RawDoc<'_>>,
        (matched, heads): (Option<&Chosen>, Option<&Heads>),
    ) -> Result<DocBuf> {
        let mut projected = Vec::new();
        let value = match (doc, &self.projection) {
            (None, _) => Val::Null,
            (Some(doc), None) => Val::Document(doc),
            (Some(doc), Some(projection)) => {
                let mut position = None;
                if let (true, Some(chosen)) = (projection.needs_position(), matched) {
                    let doc = RawDoc::new(&chosen.doc);
                    self.target.filter.matches_for_projection(doc, &mut position)?;
                }
                let arena = Bump::new();
                let filter = &self.target.filter;
                let special = filter.text().is_some() || filter.near().is_some();
                match matched.filter(|_| special) {
                    Some(chosen) => {
                        let found = RawDoc::new(&chosen.doc);
                        let mut failed = Ok(());
                        let meta = DocBuf::build(|out| {
                            if let Some(text) = filter.text() {
                                out.f64("textScore", text.score(found));
                            }
                            failed = write_distance(filter, found, out);
                        });
                        failed?;
                        let meta = meta.as_doc();
                        projection.apply_with_meta(doc, meta, position, &arena, &mut projected)?;
                    }
                    _ => projection.apply(doc, position, &arena, &mut projected)?,
                }
                Val::Document(RawDoc::new(&projected))
            }
        };
        let cut = match (value, heads) {
            (Val::Document(shown), Some(heads)) => heads.cut(shown)?,
            _ => None,
        };
        let value = cut.as_ref().map_or(value, |cut| Val::Document(cut.as_doc()));
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
    Ok(Query { find, purpose, returns: true, upserts: args.bool("upsert")? })
}
