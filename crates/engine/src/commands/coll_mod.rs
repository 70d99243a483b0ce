//! `collMod`: changes the options of a collection, a view or an index.

use super::create::{
    SIZE_MAX, check_pipeline, check_validated, choice, read_images, rounded_size, write_images,
};
use super::row::{Required, StableApi};
use super::stable_api;
use super::{Command, Context, create, time_series, view_graph};
use crate::access::Authorization;
use crate::args::Args;
use crate::catalog::{Collection, Index, TimeSeries, change, persist};
use crate::changes::Cause;
use crate::exec::scan::fetch;
use crate::index::maintain::record_of;
use crate::index::spec::same_key;
use crate::index_keys::doc_text;
use crate::operation::Operation;
use crate::validation::{self, Validator};
use ::access::Action;
use query::Javascript;
use std::ops::Bound;
use std::sync::Arc;
use store::{Direction, Snapshot, Space};
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "collMod",
    help: "Changes the options of a collection, a view or an index.",
    fields: Some(&[
        "collMod",
        "index",
        "validator",
        "validationLevel",
        "validationAction",
        "viewOn",
        "pipeline",
        "cappedSize",
        "cappedMax",
        "expireAfterSeconds",
        "timeseries",
        "changeStreamPreAndPostImages",
        "dryRun",
        "collectionUUID",
    ]),
    privilege: Required::Custom(allowed),
    stable_api: StableApi::Checked(|body| {
        stable_api::refuse_fields(body, "collMod", &["collectionUUID"])?;
        stable_api::check_pipeline(body)
    }),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let concern = context.write_concern()?;
    let (args, db) = (context.args, context.db);
    super::collection_uuid::check(context, name)?;
    context
        .engine
        .data
        .wait_for_writers(&|| context.op.check_now(), |c| *c.db == *db && *c.name == *name)?;
    let dry_run = args.bool("dryRun")?;
    let made_unique = becomes_unique(context, name)?;
    if dry_run {
        if made_unique.is_none() {
            return Err(invalid("dry run mode requires an valid index modification."));
        }
        return Ok(());
    }
    let fields = DocBuf::build(|out| {
        for (name, value) in args.doc.iter().skip(1) {
            if name != "collectionUUID"
                && COMMAND.fields.is_some_and(|fields| fields.contains(&name))
            {
                out.raw(name, value);
            }
        }
    });
    let cause = Cause::Modify { db, name, fields: fields.as_doc() };
    let changed = context.engine.data.change_catalog_for(cause, |catalog, batch| {
        let Some(collection) = catalog.get(db, name).cloned() else {
            return Err(Error::new(Code::NAMESPACE_NOT_FOUND, "ns does not exist"));
        };
        let options = match collection.view() {
            Some(_) => {
                super::drop::refuse_kept_view(catalog, db, name)?;
                let options = view_options(&args, &collection, context.javascript())?;
                if let Some(on) = options.as_doc().get("viewOn").and_then(Val::as_str) {
                    view_graph::check(catalog, db, name, on, options.as_doc())?;
                }
                options
            }
            None => collection_options(&args, &collection, context.javascript())?,
        };
        let index = match args.optional_doc("index")? {
            Some(index) => {
                let (old, new) = alter_index(Args::new("collMod.index", index), &collection)?;
                // The index that was checked for duplicates may have been replaced since.
                let unique = new.as_ref().is_some_and(|new| new.unique && !old.unique);
                if unique && made_unique != Some(old.id) {
                    return Err(Error::new(
                        Code::WRITE_CONFLICT,
                        "the index was changed while equal keys were looked for",
                    ));
                }
                Some((old, new))
            }
            None => None,
        };
        let unchanged = index.as_ref().is_none_or(|(_, new)| new.is_none());
        if options == collection.options && unchanged {
            return Ok(index.map(|(old, _)| (old, None)));
        }
        let altered = change::altered(&collection, |collection| {
            collection.kind = persist::kind_from_options(options.as_doc());
            collection.validator = Validator::of(options.as_doc());
            collection.time_series = TimeSeries::of(options.as_doc());
            collection.options = options;
            if let Some((old, Some(new))) = &index
                && let Some(slot) = collection.indexes.iter_mut().find(|i| i.id == old.id)
            {
                *slot = new.clone();
            }
        });
        change::put(catalog, batch, altered);
        Ok(index)
    })?;
    if let Some((old, Some(new))) = changed {
        let asked = context.args.optional_doc("index")?;
        let expires = asked.is_some_and(|index| index.find("expireAfterSeconds").is_some());
        write_index_change(&old, &new, expires, out);
    }
    if args.get("timeseries").is_some() {
        time_series::follow(context, name)?;
    }
    concern.write_error(out);
    Ok(())
}

fn view_options(
    args: &Args<'_>,
    collection: &Collection,
    javascript: Javascript,
) -> Result<DocBuf> {
    let fields = [
        "index",
        "timeseries",
        "validator",
        "validationLevel",
        "validationAction",
        "cappedSize",
        "cappedMax",
    ];
    for name in fields {
        if args.get(name).is_some() {
            return Err(invalid(format!("option not supported on a view: {name}")));
        }
    }
    let old = collection.options.as_doc();
    let on = args.optional_string("viewOn")?;
    let pipeline = args.optional_array("pipeline")?;
    if let Some(on) = on {
        crate::namespace::check_collection(&collection.db, on)?;
    }
    if let Some(pipeline) = pipeline {
        check_pipeline(pipeline, javascript)?;
    }
    Ok(DocBuf::build(|out| {
        out.append("viewOn", on.map(Val::String).or(old.get("viewOn")).unwrap_or(Val::Missing));
        let kept = old.get("pipeline").unwrap_or(Val::Missing);
        out.append("pipeline", pipeline.map_or(kept, Val::Array));
        if let Some(collation) = old.find("collation") {
            out.raw("collation", collation);
        }
    }))
}

fn collection_options(
    args: &Args<'_>,
    collection: &Collection,
    javascript: Javascript,
) -> Result<DocBuf> {
    for name in ["pipeline", "viewOn"] {
        if args.get(name).is_some() {
            return Err(invalid(format!("option only supported on a view: {name}")));
        }
    }
    let capped = collection.capped().is_some();
    let size = args.optional_i64("cappedSize")?;
    let max = args.optional_i64("cappedMax")?;
    if !capped && (size.is_some() || max.is_some()) {
        return Err(invalid("Collection must be capped."));
    }
    for (name, value, most) in
        [("cappedSize", size, SIZE_MAX), ("cappedMax", max, i64::from(i32::MAX))]
    {
        let least = if name == "cappedSize" { 1 } else { i64::MIN };
        if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
            return Err(Error::new(
                Code(51024),
                format!(
                    "BSON field '{name}' value must be between 1 and {most}, actual value '{value}'"
                ),
            ));
        }
    }
    let expire = expire_of(args, collection)?;
    let series = time_series::modified(args, collection)?;
    let validator = args.optional_doc("validator")?;
    let images = read_images(args, &collection.db)?;
    if let Some(validator) = validator {
        check_validated(&collection.db, &collection.name)?;
        validation::check(validator, javascript)?;
    }
    let level = choice(args, "validationLevel", &["off", "strict", "moderate"])?;
    let action = choice(args, "validationAction", &["error", "warn"])?;
    let touched = validator.is_some() || level.is_some() || action.is_some();
    let old = collection.options.as_doc();
    Ok(DocBuf::build(|out| {
        for (name, value) in old {
            match name {
                "size" => {
                    match size {
                        Some(size) => out.count(name, rounded_size(size) as u64),
                        None => out.raw(name, value),
                    };
                    if let Some(max) = max {
                        let most = i64::from(i32::MAX);
                        out.count("max", if max > 0 { max.min(most) } else { most } as u64);
                    }
                }
                // Stored together with the size.
                "max" if max.is_some() => {}
                "validator" | "validationLevel" | "validationAction" if touched => {}
                "changeStreamPreAndPostImages" if images.is_some() => {}
                "expireAfterSeconds" if expire.is_some() => {}
                "timeseries" if series.is_some() || expire.is_some() => {}
                _ => {
                    out.raw(name, value);
                }
            }
        }
        if touched {
            let old_validator = old.get("validator").and_then(Val::as_doc);
            if let Some(validator) = validator.or(old_validator).filter(|doc| !doc.is_empty()) {
                out.append("validator", Val::Document(validator));
            }
            let kept = |name, other| old.get(name).and_then(Val::as_str).unwrap_or(other);
            out.str("validationLevel", level.unwrap_or(kept("validationLevel", "strict")));
            out.str("validationAction", action.unwrap_or(kept("validationAction", "error")));
        }
        if images == Some(true) {
            write_images(out);
        }
        if let Some(Some(seconds)) = expire {
            out.i64("expireAfterSeconds", i64::try_from(seconds).unwrap_or(i64::MAX));
        }
        if let Some(series) = &series {
            out.append("timeseries", Val::Document(series.as_doc()));
        } else if let Some(known) = old.find("timeseries").filter(|_| expire.is_some()) {
            out.raw("timeseries", known);
        }
    }))
}

/// Reads after how many seconds documents of a clustered or a time-series collection expire; `Some(None)` for never.
fn expire_of(args: &Args<'_>, collection: &Collection) -> Result<Option<Option<u64>>> {
    let Some(value) = args.get("expireAfterSeconds") else { return Ok(None) };
    let clustered = collection.options.as_doc().find("clusteredIndex").is_some();
    if !clustered && collection.time_series.is_none() {
        return Err(invalid(
            "'expireAfterSeconds' option is only supported on collections clustered by _id",
        ));
    }
    match value {
        Val::String("off") => Ok(Some(None)),
        Val::String(text) => Err(invalid(format!(
            "Invalid string value for the 'clusteredIndex::expireAfterSeconds' option. Got: \
             '{text}'. Accepted value is 'off'"
        ))),
        _ => super::create::expire_seconds(args).map(Some),
    }
}

/// Returns the index to change, and its new definition if anything changes.
fn alter_index(
    args: Args<'_>,
    collection: &Collection,
) -> Result<(Arc<Index>, Option<Arc<Index>>)> {
    args.check_fields(
        &["name", "keyPattern", "hidden", "expireAfterSeconds", "unique", "prepareUnique"],
        false,
    )?;
    let index = find_index(&args, collection)?;
    let flag = |name| -> Result<Option<bool>> {
        if args.get(name).is_some() { args.bool(name).map(Some) } else { Ok(None) }
    };
    let (unique, prepare) = (flag("unique")?, flag("prepareUnique")?);
    let hidden = match args.get("hidden") {
        Some(_) => Some(args.bool("hidden")?),
        None => None,
    };
    let expire = args.optional_i64("expireAfterSeconds")?;
    let other = hidden.is_some() || expire.is_some();
    if prepare.is_some() && (other || unique.is_some()) {
        return Err(invalid("prepareUnique cannot be combined with any other modification."));
    }
    if unique == Some(false) {
        return Err(Error::bad_value("Cannot make index non-unique"));
    }
    let asked = unique.is_some() || prepare.is_some();
    // A unique index stays unique.
    let unique = unique.filter(|_| !index.unique);
    let prepare = prepare.filter(|_| !index.unique);
    if unique.is_some() && !index.prepare_unique {
        return Err(invalid(
            "Cannot make index unique with 'prepareUnique=false'. Run collMod to set it first.",
        ));
    }
    if !other && !asked {
        return Err(invalid("no expireAfterSeconds, hidden, unique, or prepareUnique field"));
    }
    if hidden.is_some() && index.is_named_clustered() {
        return Err(Error::new(
            Code(6011800),
            "The 'hidden' option is not supported for a clusteredIndex",
        ));
    }
    if hidden.is_some() && collection.name.starts_with("system.") {
        return Err(Error::bad_value("can't hide index on system collection"));
    }
    if hidden.is_some() && index.is_id() {
        return Err(Error::bad_value("can't hide _id index"));
    }
    if let Some(seconds) = expire {
        if index.is_id() {
            return Err(invalid("the _id field does not support TTL indexes"));
        }
        if index.fields.len() > 1 {
            return Err(invalid(
                "TTL indexes are single-field indexes, compound indexes do not support TTL",
            ));
        }
        if !(0..=i64::from(i32::MAX)).contains(&seconds) {
            return Err(invalid("TTL index 'expireAfterSeconds' option is out of range"));
        }
    }
    let old = index.spec.as_doc();
    let spec = DocBuf::build(|out| {
        for (name, value) in old {
            let replaced = (name == "hidden" && hidden.is_some())
                || (name == "expireAfterSeconds" && expire.is_some())
                || (name == "prepareUnique" && (prepare.is_some() || unique.is_some()));
            if !replaced {
                out.raw(name, value);
            }
        }
        if let Some(seconds) = expire {
            out.count("expireAfterSeconds", seconds as u64);
        }
        if hidden == Some(true) {
            out.bool("hidden", true);
        }
        if unique == Some(true) {
            out.bool("unique", true);
        }
        if prepare == Some(true) {
            out.bool("prepareUnique", true);
        }
    });
    // In the order of new specifications.
    let spec = DocBuf::build(|out| {
        out.extend_ordered(spec.as_doc(), &["v", "key", "name", "unique", "hidden"]);
    });
    let same = unique.is_none()
        && prepare.is_none_or(|prepare| prepare == index.prepare_unique)
        && hidden.is_none_or(|hidden| hidden == index.hidden)
        && expire.is_none();
    if same {
        return Ok((index, None));
    }
    let mut new = persist::index_from_spec(index.id, spec.as_doc(), index.state, 0)?;
    new.multikey = index.multikey.clone();
    new.uses = index.uses.clone();
    Ok((index, Some(Arc::new(new))))
}

fn find_index(args: &Args<'_>, collection: &Collection) -> Result<Arc<Index>> {
    let not_found = |what: &str| {
        let namespace = collection.namespace();
        Error::new(Code::INDEX_NOT_FOUND, format!("cannot find index {what} for ns {namespace}"))
    };
    match (args.optional_string("name")?, args.optional_doc("keyPattern")?) {
        (Some(_), Some(_)) => Err(invalid("Cannot specify both key pattern and name.")),
        (None, None) => Err(invalid("Must specify either index name or key pattern.")),
        (Some(name), None) => collection.index(name).cloned().ok_or_else(|| not_found(name)),
        (None, Some(key)) => {
            let mut found = collection.indexes.iter().filter(|i| same_key(i.key.as_doc(), key));
            match (found.next(), found.next()) {
                (Some(index), None) => Ok(index.clone()),
                (None, _) => Err(not_found(&doc_text(key))),
                (Some(_), Some(_)) => Err(Error::new(
                    Code::AMBIGUOUS_INDEX_KEY_PATTERN,
                    format!("several indexes have the key {}, name one instead", doc_text(key)),
                )),
            }
        }
    }
}

fn write_index_change(old: &Index, new: &Index, expires: bool, out: &mut Writer<'_>) {
    let expire = |index: &Index| {
        let spec: RawDoc<'_> = index.spec.as_doc();
        spec.get("expireAfterSeconds").and_then(Val::as_f64).map(|seconds| seconds as i64)
    };
    if expires {
        if let Some(seconds) = expire(old) {
            out.i64("expireAfterSeconds_old", seconds);
        }
        if let Some(seconds) = expire(new) {
            out.i64("expireAfterSeconds_new", seconds);
        }
    }
    if old.hidden != new.hidden {
        out.bool("hidden_old", old.hidden).bool("hidden_new", new.hidden);
    }
    if old.unique != new.unique {
        out.bool("unique_new", new.unique);
    } else if old.prepare_unique != new.prepare_unique {
        out.bool("prepareUnique_old", old.prepare_unique);
        out.bool("prepareUnique_new", new.prepare_unique);
    }
}

/// Returns the index that the command makes unique, if any, after checking that no two documents
/// have equal keys. New duplicates have been refused since `prepareUnique`.
fn becomes_unique(context: &Context<'_>, name: &str) -> Result<Option<u32>> {
    let Some(spec) = context.args.optional_doc("index")? else { return Ok(None) };
    let Some(collection) = context.engine.data.collection(context.db, name) else {
        return Ok(None);
    };
    if collection.view().is_some() {
        return Ok(None);
    }
    let (old, new) = alter_index(Args::new("collMod.index", spec), &collection)?;
    let Some(new) = new.filter(|new| new.unique && !old.unique) else { return Ok(None) };
    let snapshot = context.engine.data.store.snapshot();
    let violations = equal_keys(context.op, &snapshot, &collection, &new)?;
    if violations.is_empty() {
        return Ok(Some(old.id));
    }
    let info = DocBuf::build(|out| {
        out.array("violations", |list| {
            for ids in &violations {
                list.push_doc(|out| {
                    out.array("ids", |list| ids.iter().for_each(|id| list.push_raw(id.raw())));
                });
            }
        });
    });
    let message = "Cannot convert the index to unique. Please resolve conflicting documents before \
                   running collMod again.";
    Err(Error::new(Code(359), message).with_info(info))
}

/// Returns the `_id`s of documents with equal keys, up to about the size of a reply.
fn equal_keys(
    op: &Operation,
    snapshot: &Snapshot,
    collection: &Collection,
    index: &Index,
) -> Result<Vec<Vec<OwnedVal>>> {
    const BYTES_MAX: usize = 8 * 1024 * 1024;
    let (from, to) = (index.prefix(), (index.id + 1).to_be_bytes());
    let (from, to) = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
    let opened = snapshot.range(Space::Indexes, from, to, Direction::Forward);
    let mut entries = opened.map_err(crate::store_failed)?;
    let mut found: Vec<Vec<OwnedVal>> = Vec::new();
    let mut last: Option<(Vec<u8>, Vec<u8>)> = None;
    let mut open = false;
    let mut bytes = 0;
    while let Some((key, _)) = entries.next_entry().map_err(crate::store_failed)? {
        op.check()?;
        let record = record_of(index, &key).unwrap_or(&[]).to_vec();
        let values = key.get(..key.len() - record.len()).unwrap_or(&[]).to_vec();
        let same = last.as_ref().is_some_and(|(known, _)| *known == values);
        if same && bytes < BYTES_MAX {
            let mut add = |record: &[u8], ids: &mut Vec<OwnedVal>| -> Result<()> {
                let row = fetch(snapshot, collection, store::Bytes::copy_from(record))?;
                let id = row.and_then(|row| RawDoc::new(&row.doc).get("_id").map(OwnedVal::new));
                bytes += id.as_ref().map_or(0, |id| id.raw().bytes.len() + 16);
                ids.extend(id);
                Ok(())
            };
            if !open {
                let mut ids = Vec::new();
                if let Some((_, first)) = &last {
                    add(first, &mut ids)?;
                }
                found.push(ids);
            }
            if let Some(ids) = found.last_mut() {
                add(&record, ids)?;
            }
        }
        open = same;
        last = Some((values, record));
    }
    Ok(found)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::INVALID_OPTIONS, message)
}

fn allowed(auth: &Authorization<'_>) -> bool {
    auth.on_collection(auth.collection(), &[Action::CollMod]) && create::view_allowed(auth)
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use value::ejson;

    #[test]
    fn options_change_and_the_rest_stays() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc())
        };
        let code = |text: &str| run(text).map_or_else(|error| error.code().0, |_| 0);
        assert_eq!(code("{collMod: 'x'}"), 26);
        run("{create: 'x', validator: {a: 1}}").expect("works");
        run("{createIndexes: 'x', indexes: [{key: {a: 1}, name: 'a_1'}]}").expect("works");
        assert_eq!(code("{collMod: 'x'}"), 0);
        assert_eq!(code("{collMod: 'x', validationLevel: 'moderate'}"), 0);
        assert_eq!(code("{collMod: 'x', validationLevel: 'zzz'}"), 2);
        assert_eq!(code("{collMod: 'x', index: {name: 'no', hidden: true}}"), 27);
        assert_eq!(code("{collMod: 'x', index: {name: '_id_', hidden: true}}"), 2);
        assert_eq!(code("{collMod: 'x', index: {name: 'a_1'}}"), 72);
        assert_eq!(code("{collMod: 'x', cappedSize: 100}"), 72);
        assert_eq!(code("{collMod: 'x', viewOn: 'y'}"), 72);
        let reply =
            run("{collMod: 'x', index: {keyPattern: {a: 1}, hidden: true}}").expect("works");
        assert!(reply.as_doc().get("hidden_new").is_some_and(value::Val::truthy));
        let x = engine.inner().data.collection("t", "x").expect("is there");
        let options = ejson::print(x.options.as_doc(), ejson::Format::Shell);
        assert_eq!(
            options,
            r#"{ validator: { a: 1 }, validationLevel: "moderate", validationAction: "error" }"#
        );
        assert!(x.index("a_1").is_some_and(|index| index.hidden));
    }
}
