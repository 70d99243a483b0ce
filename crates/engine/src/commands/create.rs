//! `create`: creates a collection or a view. Also creates collections on their first insert.

use super::patterns;
use super::row::{Required, StableApi, Transactions};
use super::{Command, Context, in_transaction, stable_api, time_series, view_graph};
use crate::access::Authorization;
use crate::args::Args;
use crate::catalog::{Collection, TimeSeries, change};
use crate::index::options::is_own_engine;
use crate::namespace;
use crate::records::create_collection::create_within;
use crate::stages::PipelinePrivileges;
use crate::upkeep::declare::Reason;
use ::access::Action;
use ::access::Actions;
use query::Javascript;
use std::sync::Arc;
use value::collation::CollationSource;
use value::{Code, Collation, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "create",
    help: "Creates a collection or a view.",
    fields: Some(&[
        "create",
        "capped",
        "autoIndexId",
        "idIndex",
        "size",
        "max",
        "storageEngine",
        "validator",
        "validationLevel",
        "validationAction",
        "indexOptionDefaults",
        "viewOn",
        "pipeline",
        "collation",
        "timeseries",
        "clusteredIndex",
        "expireAfterSeconds",
        "encryptedFields",
        "changeStreamPreAndPostImages",
        "recordIdsReplicated",
        "temp",
        "flags",
        "patterns",
    ]),
    privilege: Required::Custom(allowed),
    transactions: Transactions::AllowedForUsers,
    stable_api: StableApi::Checked(check_stable_options),
    run,
    ..Command::BASE
};

/// Options that are not in version 1 of the stable API.
static UNSTABLE_OPTIONS: &[&str] =
    &["size", "max", "autoIndexId", "idIndex", "storageEngine", "indexOptionDefaults"];

fn check_stable_options(body: RawDoc<'_>) -> Result<()> {
    if body.get("capped").is_some_and(Val::truthy) {
        stable_api::refuse_fields(body, "create", &["capped"])?;
    }
    stable_api::refuse_fields(body, "create", UNSTABLE_OPTIONS)?;
    stable_api::check_pipeline(body)
}

/// The largest size of a capped collection, in bytes.
pub(super) const SIZE_MAX: i64 = 1 << 50;

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    if let Some((_, name)) = context.args.doc.first()
        && name.get().as_str().is_none()
    {
        let kind = name.kind().name();
        return Err(Error::bad_value(format!("collection name has invalid type {kind}")));
    }
    let name = context.collection_name()?;
    let concern = context.write_concern()?;
    let db = context.db;
    namespace::check_new_collection(db, name)?;
    if context.args.get("viewOn").is_some() && name.starts_with("system.") {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            format!("Cannot create a view called '{name}': invalid collection name"),
        ));
    }
    let options = read_options(&context.args, db, name, context.javascript())?;
    let series = TimeSeries::of(options.as_doc());
    let stored = series.as_deref().map(time_series::declaration_of);
    let declarations = match (&stored, super::patterns::declarations(&context.args)?) {
        (None, declarations) => declarations,
        (Some(stored), others) => {
            let mut all = vec![stored.as_doc()];
            all.extend(others.unwrap_or_default());
            Some(all)
        }
    };
    if context.op.is_in_transaction() {
        in_transaction::refuse_snapshot(&context.args)?;
        if series.is_some() {
            return Err(Error::new(
                Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                "Cannot create a time-series collection in a multi-document transaction.",
            ));
        }
        if declarations.is_some() {
            return Err(Error::new(
                Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                "Cannot declare patterns in a multi-document transaction.",
            ));
        }
        let view = options.as_doc().find("viewOn").is_some();
        let newest = context.engine.data.collection(db, name);
        return context.op.with_transaction(|txn| {
            match txn.catalog.get(db, name).or(newest.as_ref()) {
                Some(existing) => Err(already_exists(existing)),
                None if view => Err(Error::new(
                    Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                    format!("Cannot create a view in a multi-document transaction: {db}.{name}"),
                )),
                None => create_within(&context.engine.data, txn, db, name, options).map(|_| ()),
            }
        });
    }
    context.engine.data.change_catalog(|catalog, batch| {
        if let Some(existing) = catalog.get(db, name) {
            if existing.options == options {
                return Ok(());
            }
            return Err(already_exists(existing));
        }
        if let Some(on) = options.as_doc().get("viewOn").and_then(Val::as_str) {
            view_graph::check(catalog, db, name, on, options.as_doc())?;
        }
        change::create(&context.engine.data.ids, catalog, batch, db, name, options)?;
        Ok(())
    })?;
    if let Some(declarations) = declarations {
        super::patterns::declare_all(context, name, &declarations, Reason::Copy, true)?;
    }
    concern.write_error(out);
    Ok(())
}

fn already_exists(existing: &Collection) -> Error {
    let message = if existing.view().is_some() {
        "Namespace already exists".to_owned()
    } else if existing.time_series.is_some() {
        format!("A timeseries collection already exists. NS: {}", existing.namespace())
    } else {
        format!("Collection {} already exists.", existing.namespace())
    };
    Error::new(Code::NAMESPACE_EXISTS, message)
}

/// Checks the options and converts them to the form that `listCollections` shows.
fn read_options(args: &Args<'_>, db: &str, name: &str, javascript: Javascript) -> Result<DocBuf> {
    let series = time_series::options(args, db)?;
    if args.get("clusteredIndex").is_some() {
        check_beside_clustered_index(args)?;
    }
    refuse_unavailable(args)?;
    if args.optional_string("viewOn")?.is_some() || args.get("pipeline").is_some() {
        return view_options(args, db, javascript);
    }
    let capped = args.bool("capped")?;
    let size = positive(args, "size", SIZE_MAX)?;
    let max = args.optional_i64("max")?;
    if capped && size.is_none() {
        return Err(invalid("the 'size' field is required when 'capped' is true"));
    }
    if !capped && (size.is_some() || max.is_some()) {
        return Err(invalid(
            "the 'capped' field needs to be true when either the 'size' or 'max' fields are present",
        ));
    }
    let clustered = clustered_index(args)?;
    let expire = expire_seconds(args)?;
    let validator = args.optional_doc("validator")?;
    let images = read_images(args, db)?;
    if let Some(validator) = validator {
        check_validated(db, name)?;
        crate::validation::check(validator, javascript)?;
    }
    let collation = read_collation(args)?;
    let level = choice(args, "validationLevel", &["off", "strict", "moderate"])?;
    let action = choice(args, "validationAction", &["error", "warn"])?;
    Ok(DocBuf::build(|out| {
        if let Some(size) = size {
            out.bool("capped", true);
            out.count("size", rounded_size(size) as u64);
            if let Some(max) = max {
                let bounded =
                    if max > 0 { max.min(i64::from(i32::MAX)) } else { i64::from(i32::MAX) };
                out.count("max", bounded as u64);
            }
        }
        if let Some(clustered) = &clustered {
            out.append("clusteredIndex", Val::Document(clustered.as_doc()));
        }
        if let Some(seconds) = expire {
            out.i64("expireAfterSeconds", i64::try_from(seconds).unwrap_or(i64::MAX));
        }
        for name in ["storageEngine", "indexOptionDefaults"] {
            if let Some(options) =
                args.get(name).and_then(Val::as_doc).filter(|doc| !doc.is_empty())
            {
                out.append(name, Val::Document(options));
            }
        }
        if let Some(validator) = validator.filter(|doc| !doc.is_empty()) {
            out.append("validator", Val::Document(validator));
        }
        if let Some(level) = level {
            out.str("validationLevel", level);
        }
        if let Some(action) = action {
            out.str("validationAction", action);
        }
        if let Some(collation) = &collation {
            out.append("collation", Val::Document(collation.document()));
        }
        if images == Some(true) {
            write_images(out);
        }
        if let Some(series) = &series {
            out.append("timeseries", Val::Document(series.as_doc()));
        }
    }))
}

/// Refuses options that a clustered collection cannot have.
fn check_beside_clustered_index(args: &Args<'_>) -> Result<()> {
    let no_cap = |name: &str| {
        format!(
            "'{name}' field for capped collections is not allowed on clustered collections. Did you \
             mean 'capped: true' with 'expireAfterSeconds'?"
        )
    };
    let refuse = |code: i32, message: &str| Err(Error::new(Code(code), message));
    if args.get("viewOn").is_some() {
        return refuse(6026500, "The 'clusteredIndex' option is not supported with views");
    }
    if args.get("idIndex").is_some() {
        return Err(invalid(
            "The 'clusteredIndex' option is not supported with the 'idIndex' option",
        ));
    }
    if args.get("autoIndexId").is_some() && !args.bool("autoIndexId")? {
        return refuse(
            6026501,
            "The 'clusteredIndex' option does not support {autoIndexId: false}",
        );
    }
    if args.get("size").is_some() {
        return refuse(6049200, &no_cap("size"));
    }
    if args.get("max").is_some() {
        return refuse(6049204, &no_cap("max"));
    }
    match args.bool("capped")? {
        true if args.get("expireAfterSeconds").is_none() => {
            refuse(6049201, "A capped clustered collection requires the 'expireAfterSeconds' field")
        }
        true => Err(invalid("clusteredIndex cannot be specified together with capped")),
        false => Ok(()),
    }
}

/// Refuses a validator in a database of the server, and of a collection of the system.
///
/// # Errors
/// InvalidOptions.
pub(super) fn check_validated(db: &str, name: &str) -> Result<()> {
    if is_database_of_server(db) {
        return Err(invalid(&format!(
            "Document validators are not allowed on collections in the {db} database"
        )));
    }
    if name.starts_with("system.") {
        return Err(invalid(&format!(
            "Document validators not allowed on system collection {db}.{name}"
        )));
    }
    Ok(())
}

fn is_database_of_server(db: &str) -> bool {
    matches!(db, "admin" | "local" | "config")
}

/// Reads whether change streams need images of changed documents.
///
/// # Errors
/// InvalidOptions in a database of the server.
pub(super) fn read_images(args: &Args<'_>, db: &str) -> Result<Option<bool>> {
    let Some(images) = args.optional_doc("changeStreamPreAndPostImages")? else { return Ok(None) };
    let images = Args::new("changeStreamPreAndPostImages", images);
    images.check_fields(&["enabled"], false)?;
    if images.get("enabled").is_none() {
        return Err(images.missing("enabled"));
    }
    let enabled = images.bool("enabled")?;
    if enabled && is_database_of_server(db) {
        return Err(invalid(&format!(
            "changeStreamPreAndPostImages collection option is not supported on the {db} database"
        )));
    }
    Ok(Some(enabled))
}

/// Writes the option that `read_images` reads.
pub(super) fn write_images(out: &mut Writer<'_>) {
    out.doc("changeStreamPreAndPostImages", |out| {
        out.bool("enabled", true);
    });
}

/// Whether a collation is the simple one, which is the default.
pub(super) fn is_simple(collation: RawDoc<'_>) -> bool {
    collation.count() == 1 && collation.get("locale") == Some(Val::String("simple"))
}

/// The default collation; `None` for the simple one.
fn read_collation(args: &Args<'_>) -> Result<Option<Arc<Collation>>> {
    match args.optional_doc("collation")? {
        None => Ok(None),
        Some(collation) => Collation::parse(collation, CollationSource::Create),
    }
}

/// After how many seconds documents of a clustered or a time-series collection expire.
///
/// # Errors
/// InvalidOptions when the value is negative or too large.
pub(super) fn expire_seconds(args: &Args<'_>) -> Result<Option<u64>> {
    let Some(seconds) = args.optional_i64("expireAfterSeconds")? else { return Ok(None) };
    let Ok(seconds) = u64::try_from(seconds) else {
        return Err(invalid("TTL index 'expireAfterSeconds' option cannot be less than 0"));
    };
    if seconds > i32::MAX as u64 {
        return Err(invalid("TTL index 'expireAfterSeconds' option is out of range"));
    }
    Ok(Some(seconds))
}

/// Rounds the size of a capped collection up to a multiple of 256 bytes, as MongoDB does.
pub(super) fn rounded_size(size: i64) -> i64 {
    size.checked_add(255).map_or(i64::MAX, |size| size & !255)
}

/// Refuses options that are not supported and must not be ignored.
fn refuse_unavailable(args: &Args<'_>) -> Result<()> {
    for name in ["encryptedFields", "recordIdsReplicated"] {
        if args.get(name).is_some() {
            return Err(unavailable(name));
        }
    }
    if args.bool("temp")? {
        return Err(unavailable("temp"));
    }
    let expires = expire_seconds(args)?.is_some();
    if expires && args.get("clusteredIndex").is_none() && args.get("timeseries").is_none() {
        return Err(invalid(
            "'expireAfterSeconds' is only supported on time-series collections or when the \
             'clusteredIndex' option is specified",
        ));
    }
    if args.get("autoIndexId").is_some() && !args.bool("autoIndexId")? {
        return Err(Error::new(Code(50001), "autoIndexId:false is not allowed"));
    }
    // Options of storage engines are kept and have no effect.
    if let Some(engines) = args.optional_doc("storageEngine")? {
        check_engines(engines)?;
    }
    if let Some(defaults) = args.optional_doc("indexOptionDefaults")? {
        let defaults = Args::new("create.indexOptionDefaults", defaults);
        defaults.check_fields(&["storageEngine"], false)?;
        check_engines(defaults.optional_doc("storageEngine")?.unwrap_or(RawDoc::empty()))?;
    }
    match args.optional_doc("idIndex")? {
        Some(_) if args.get("viewOn").is_some() => {
            Err(invalid("'idIndex' is not allowed with 'viewOn'"))
        }
        Some(id_index) => check_id_index(args, id_index),
        None => Ok(()),
    }
}

/// Checks options of storage engines.
fn check_engines(engines: RawDoc<'_>) -> Result<()> {
    for (engine, options) in engines {
        if options.as_doc().is_none() {
            return Err(Error::bad_value(format!("'storageEngine.{engine}' must be a document")));
        }
        if !is_own_engine(engine) {
            return Err(invalid(&format!(
                "{engine} is not a registered storage engine for this server"
            )));
        }
    }
    Ok(())
}

/// Refuses an `_id` index with another key or collation than it will have.
fn check_id_index(args: &Args<'_>, id_index: RawDoc<'_>) -> Result<()> {
    let spec = crate::index::spec::parse(id_index, false)?;
    if !spec.is_id() {
        return Err(Error::bad_value("The field 'key' for an _id index must be {_id: 1}"));
    }
    let Some(collation) = id_index.get("collation").and_then(Val::as_doc) else { return Ok(()) };
    if Collation::parse(collation, CollationSource::Create)? != read_collation(args)? {
        return Err(Error::bad_value(
            "The _id index must have the same collation as the collection",
        ));
    }
    Ok(())
}

/// Reads `clusteredIndex` into its stored form. All plain collections are clustered by `_id`.
fn clustered_index(args: &Args<'_>) -> Result<Option<DocBuf>> {
    let spec = match args.get("clusteredIndex") {
        None => return Ok(None),
        Some(Val::Bool(_)) => {
            return Err(Error::new(
                Code(5979703),
                "The 'clusteredIndex' legacy format {clusteredIndex: <bool>} is only supported for \
                 specific internal collections and vice versa",
            ));
        }
        Some(Val::Document(spec)) => Args::new("create", spec),
        Some(other) => return Err(args.wrong_type("clusteredIndex", other, "object")),
    };
    spec.check_fields(&["key", "name", "unique", "v"], false)?;
    let key = spec.doc("key")?;
    let by_id = key.count() == 1 && key.get("_id").and_then(Val::as_f64) == Some(1.0);
    let refuse = |message: &str| Err(Error::new(Code::INVALID_INDEX_SPECIFICATION_OPTION, message));
    if !by_id {
        return refuse("The clusteredIndex option is only supported for key: {_id: 1}");
    }
    if spec.get("unique").is_none() {
        return Err(spec.missing("unique"));
    }
    if !spec.bool("unique")? {
        return Err(Error::new(
            Code(5979700),
            "The clusteredIndex option requires unique: true to be specified",
        ));
    }
    if spec.optional_i64("v")?.is_some_and(|version| version != 2) {
        return Err(Error::new(
            Code(5979704),
            "cannot create a clusteredIndex with v other than 2",
        ));
    }
    let name = spec.optional_string("name")?.unwrap_or("_id_");
    Ok(Some(DocBuf::build(|out| {
        out.i32("v", 2);
        out.append("key", Val::Document(key));
        out.str("name", name).bool("unique", true);
    })))
}

fn view_options(args: &Args<'_>, db: &str, javascript: Javascript) -> Result<DocBuf> {
    let Some(on) = args.optional_string("viewOn")? else {
        return Err(invalid("'pipeline' requires 'viewOn' to also be specified"));
    };
    namespace::check_collection(db, on)?;
    let pipeline = args.optional_array("pipeline")?.unwrap_or(RawDoc::empty());
    check_pipeline(pipeline, javascript)?;
    let collation = read_collation(args)?;
    Ok(DocBuf::build(|out| {
        out.str("viewOn", on);
        out.append("pipeline", Val::Array(pipeline));
        if let Some(collation) = &collation {
            out.append("collation", Val::Document(collation.document()));
        }
    }))
}

/// Refuses a pipeline that a view cannot have.
///
/// # Errors
/// Errors of stages that do not compile; OptionNotSupportedOnView for stages that write.
pub(super) fn check_pipeline(pipeline: RawDoc<'_>, javascript: Javascript) -> Result<()> {
    for (_, stage) in pipeline {
        let Some(stage) = stage.as_doc() else {
            return Err(Error::type_mismatch(
                "Each element of the 'pipeline' array must be an object",
            ));
        };
        let (Some((name, _)), 1) = (stage.first(), stage.count()) else {
            return Err(Error::new(
                Code(40323),
                "A pipeline stage specification object must contain exactly one field.",
            ));
        };
        if matches!(name, "$out" | "$merge") {
            return Err(Error::new(
                Code::OPTION_NOT_SUPPORTED_ON_VIEW,
                format!("The aggregation stage {name} cannot be used in a view definition"),
            ));
        }
    }
    crate::stages::check(pipeline, javascript)
}

/// Reads a field that takes one of a few words.
///
/// # Errors
/// BadValue for any other word.
pub(super) fn choice<'a>(args: &Args<'a>, name: &str, words: &[&str]) -> Result<Option<&'a str>> {
    let Some(word) = args.optional_string(name)? else { return Ok(None) };
    if words.contains(&word) {
        return Ok(Some(word));
    }
    Err(Error::bad_value(format!(
        "Enumeration value '{word}' for field '{}.{name}' is not a valid value.",
        args.place
    )))
}

/// Reads a number from 1 to `most`.
///
/// # Errors
/// 51024 for any other number.
pub(super) fn positive(args: &Args<'_>, name: &str, most: i64) -> Result<Option<i64>> {
    match args.optional_i64(name)? {
        Some(n) if n > most => Err(Error::new(
            Code(51024),
            format!("BSON field '{name}' value must be <= {most}, actual value '{n}'"),
        )),
        Some(n) if n < 1 => Err(Error::new(
            Code(51024),
            format!("BSON field '{name}' value must be >= 1, actual value '{n}'"),
        )),
        n => Ok(n),
    }
}

fn invalid(message: &str) -> Error {
    Error::new(Code::INVALID_OPTIONS, message)
}

fn unavailable(name: &str) -> Error {
    invalid(&format!("the option '{name}' is not available in this version"))
}

fn allowed(auth: &Authorization<'_>) -> bool {
    let name = auth.collection();
    let makes = if auth.flag("capped") {
        auth.on_collection(name, &[Action::ConvertToCapped])
            && (auth.on_collection(name, &[Action::CreateCollection])
                || auth.on_collection(name, &[Action::Insert]))
    } else {
        auth.on_collection(name, &[Action::CreateCollection])
            || auth.on_collection(name, &[Action::Insert])
    };
    let declares = auth.body.find("patterns").is_none() || patterns::may_declare_all(auth);
    makes && declares && view_allowed(auth)
}

/// Requires the right to read the collections that a view reads; otherwise views would bypass it.
pub(super) fn view_allowed(auth: &Authorization<'_>) -> bool {
    if !auth.on_collection(auth.collection(), &[Action::Find]) {
        return true;
    }
    let on = auth.body.get("viewOn").and_then(Val::as_str);
    let stages = auth.body.get("pipeline").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let (privileges, beside) = (auth.privileges, Actions::default());
    let pipeline = PipelinePrivileges { privileges, db: auth.db, beside };
    match on {
        Some(on) => pipeline.is_allowed(Some(on), stages),
        // A view may get another pipeline over its present source.
        None => pipeline.stages_allowed(stages, 0),
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use value::ejson;

    fn run(engine: &Engine, text: &str) -> i32 {
        let command = ejson::parse_doc(text).expect("test text");
        engine.run_command("t", command.as_doc()).map_or_else(|error| error.code().0, |_| 0)
    }

    #[test]
    fn options_are_checked_as_mongodb_does() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        for (text, code) in [
            ("{create: 'a'}", 0),
            ("{create: 'a'}", 0),
            ("{create: 'a', capped: true, size: 4096}", 48),
            ("{create: 'cap', capped: true}", 72),
            ("{create: 'cap', size: 100}", 72),
            ("{create: 'cap', capped: true, size: 1000.0, max: 5}", 0),
            ("{create: 'cap', capped: true, size: -1}", 51024),
            ("{create: 'x', validator: {a: {$gt: 1}}, validationLevel: 'bad'}", 2),
            ("{create: 'x', validator: {$near: 1}}", 2),
            ("{create: 'x', validator: {a: {$gt: 1}}}", 0),
            ("{create: 'clu', clusteredIndex: {key: {_id: 1}, unique: true}}", 0),
            ("{create: 'clu2', clusteredIndex: {key: {a: 1}, unique: true}}", 197),
            ("{create: 'y', foo: 1}", 40415),
            ("{create: ''}", 73),
            ("{create: 'a$b'}", 73),
            ("{create: 'system.foo'}", 73),
            ("{create: 'z', collation: {locale: 'xx'}}", 2),
            ("{create: 'z', collation: {}}", 40414),
            ("{create: 'z', collation: {locale: 'simple'}}", 0),
            ("{create: 'v3', pipeline: []}", 72),
            ("{create: 'v1', viewOn: 'v2', pipeline: []}", 0),
            ("{create: 'v2', viewOn: 'v1', pipeline: []}", 5),
            ("{create: 'v4', viewOn: 'a', pipeline: [{$out: 'b'}]}", 167),
        ] {
            assert_eq!(run(&engine, text), code, "{text}");
        }
        let capped = engine.inner().data.collection("t", "cap").and_then(|c| c.capped());
        assert_eq!(capped.map(|capped| capped.bytes_max), Some(1024));
    }

    #[test]
    fn databases_differ_by_more_than_case() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        assert_eq!(run(&engine, "{create: 'a'}"), 0);
        let command = ejson::parse_doc("{create: 'a'}").expect("test text");
        let error = engine.run_command("T", command.as_doc()).expect_err("is refused");
        assert_eq!(error.code().0, 13297);
    }
}
