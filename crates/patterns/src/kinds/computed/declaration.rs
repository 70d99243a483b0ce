//! Declarations of the kind `computed`: over children, in the same document, or by group into a
//! separate collection.

use super::{Accumulators, Same};
use crate::declaration::Parsed;
use crate::declaration::common::milliseconds;
use crate::declaration::options::Options;
use crate::fold::{
    Accumulator, Field, Fold, Folded, GroupKey, Keys, MissingParent, Siblings, Unwind, Window,
};
use crate::paths;
use query::ParseContext;
use query::expr::Expr;
use query::filter::Filter;
use value::path::Path;
use value::{DocBuf, Error, RawDoc, Result, Val};

/// The most fields of one pattern.
const FIELDS_MAX: usize = 200;

pub(crate) fn parse(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let fields = fields_of(options)?;
    for (path, spec) in fields {
        paths::check_deterministic(spec.get(), &format!("fields.{path}"))?;
    }
    let form = FieldForm {
        fields,
        skip_errors: skips_errors(options)?,
        ordered: true,
        parse: &|path, spec, order| {
            Accumulator::parse(path, spec, order)
                .map_err(|error| error.context(format!("fields.{path}: ")))
        },
    };
    let Some((fold, declared)) = fold(options, collection, &form)? else {
        return same(options, collection, fields, form.skip_errors);
    };
    let target = fold.target.clone();
    Ok(Parsed { kind: Box::new(Folded { fold, form: Accumulators }), target, declared })
}

/// The option `fields`: for each path how it is maintained.
pub(crate) fn fields_of<'a>(options: &mut Options<'a>) -> Result<RawDoc<'a>> {
    let fields = options.document("fields")?.ok_or_else(|| options.missing("fields"))?;
    let count = fields.count();
    if count == 0 || count > FIELDS_MAX {
        return Err(options.bad(format!("'fields' must have 1 to {FIELDS_MAX} fields")));
    }
    for (path, _) in fields {
        options.check_path("fields", path)?;
    }
    Ok(fields)
}

/// Whether children on which an expression fails add nothing.
pub(crate) fn skips_errors(options: &mut Options<'_>) -> Result<bool> {
    Ok(options.choice("onError", &["reject", "skip"], &[])? == "skip")
}

/// Compiles the declaration of a field; with the order, if there is one.
type ParseField<'f> = dyn Fn(&str, Val<'_>, Option<RawDoc<'_>>) -> Result<Accumulator> + 'f;

/// The fields of a fold, and how they are read.
pub(crate) struct FieldForm<'f> {
    /// The fields, as they are declared.
    pub fields: RawDoc<'f>,
    /// Whether children on which an expression fails add nothing.
    pub skip_errors: bool,
    /// Whether a field may depend on an order of the children.
    pub ordered: bool,
    /// Reads one of them.
    pub parse: &'f ParseField<'f>,
}

/// Reads the options of a fold, over children of a parent or by groups; `None` without the options
/// of either. Returns the options as read, too.
pub(crate) fn fold(
    options: &mut Options<'_>,
    collection: &str,
    form: &FieldForm<'_>,
) -> Result<Option<(Fold, DocBuf)>> {
    let from = options.text("from")?;
    let group_by = options.get("groupBy");
    let into = options.text("into")?;
    match (from, group_by, into) {
        (None, None, None) => Ok(None),
        (Some(from), None, None) => children(options, collection, from, form).map(Some),
        (from, Some(group_by), Some(into)) => {
            if from.is_some_and(|from| from != collection) {
                return Err(options.bad(
                    "with 'groupBy' the pattern is declared on the collection that it reads: \
                     leave 'from' out",
                ));
            }
            groups(options, collection, into, group_by, form).map(Some)
        }
        (_, Some(_), None) => {
            Err(options.bad("'groupBy' needs 'into', the collection of the groups"))
        }
        (_, None, Some(_)) => Err(options.bad("'into' needs 'groupBy', the key of the groups")),
    }
}

fn same(
    options: &mut Options<'_>,
    collection: &str,
    fields: RawDoc<'_>,
    skip_errors: bool,
) -> Result<Parsed> {
    for name in ["on", "unwind", "filter", "window", "order", "onMissingParent"] {
        if options.get(name).is_some() {
            return Err(options.bad(format!(
                "'{name}' needs 'from'{}: without it fields are computed from the same document",
                options.meant("from")
            )));
        }
    }
    let context = ParseContext::new(0);
    let mut parsed = Vec::new();
    let mut read_by: Vec<(&str, Vec<String>)> = Vec::new();
    for (path, spec) in fields {
        let expression = Expr::parse(spec.get(), &context)
            .map_err(|error| error.context(format!("fields.{path}: ")))?;
        parsed.push((Path::new(path), expression));
        let mut reads = Vec::new();
        paths::of_expression(spec.get(), &mut reads);
        read_by.push((path, reads));
    }
    let steps = match super::same::steps(&read_by) {
        Ok(steps) => steps,
        Err(cycle) => return Err(options.bad(told_cycle(&cycle))),
    };
    let reads = read_by.into_iter().flat_map(|(_, reads)| reads).collect();
    let declared = DocBuf::build(|out| {
        out.append("fields", Val::Document(fields));
        out.str("onError", if skip_errors { "skip" } else { "reject" });
    });
    let kind = Box::new(Same { fields: parsed, steps, reads, skip_errors });
    Ok(Parsed { kind, target: collection.to_owned(), declared })
}

/// The message for fields that read each other in a cycle.
fn told_cycle(fields: &[String]) -> String {
    match fields {
        [field] => format!("it reads '{field}', which it maintains itself (a cycle)"),
        _ => {
            let names = fields.iter().chain(fields.first()).map(|field| format!("'{field}'"));
            let names = names.collect::<Vec<_>>().join(" -> ");
            format!("its fields would depend on each other in a cycle: {names}")
        }
    }
}

/// The filter and the maintained fields of a fold, and the paths that they read.
struct Body<'a> {
    /// The path of the array whose elements are folded.
    unwind: Option<&'a str>,
    filter: Option<RawDoc<'a>>,
    compiled: Option<Filter>,
    /// The window as declared, and compiled.
    window: Option<(RawDoc<'a>, Window)>,
    fields: Vec<Field>,
    order: Option<RawDoc<'a>>,
    /// The paths that the fields and the order read.
    derived_from: Vec<String>,
    /// All paths that are read.
    reads: Vec<String>,
}

impl Body<'_> {
    /// Compiles the array, when all other paths that are read are known.
    fn compile_unwind(&mut self) -> Option<Unwind> {
        let path = self.unwind?;
        // Fields of the elements that are not read may be maintained by others.
        if !self.reads.iter().any(|read| paths::is_within(read, path)) {
            self.reads.push(path.to_owned());
        }
        Some(Unwind::new(path, &self.reads))
    }
}

fn body<'a>(options: &mut Options<'a>, form: &FieldForm<'_>) -> Result<Body<'a>> {
    let fields = form.fields;
    let unwind = options.text("unwind")?.map(|path| path.strip_prefix('$').unwrap_or(path));
    if let Some(path) = unwind {
        options.check_path("unwind", path)?;
    }
    let filter = options.document("filter")?;
    let order = if form.ordered { options.document("order")? } else { None };
    let mut reads = Vec::new();
    let compiled = filter_of(filter, &mut reads)?;
    let window = window_of(options, &mut reads)?;
    let mut derived_from = Vec::new();
    if let Some(order) = order {
        check_order(options, order, fields)?;
        derived_from.extend(order.iter().map(|(path, _)| path.to_owned()));
    }
    let mut parsed = Vec::new();
    for (path, spec) in fields {
        let accumulator = (form.parse)(path, spec.get(), order)?;
        parsed.push(Field { path: Path::new(path), accumulator });
        paths::of_expression(spec.get(), &mut derived_from);
    }
    reads.extend(derived_from.iter().cloned());
    Ok(Body { unwind, filter, compiled, window, fields: parsed, order, derived_from, reads })
}

/// Refuses an invalid order, or one that no accumulator needs.
fn check_order(options: &Options<'_>, order: RawDoc<'_>, fields: RawDoc<'_>) -> Result<()> {
    options.check_sort("order", order)?;
    let ordered =
        ["$first", "$last", "$firstN", "$lastN", "$push", "$mergeObjects", "$concatArrays"];
    let asks = |spec: Val<'_>| {
        let name = spec.as_doc().and_then(RawDoc::first).map(|(name, _)| name);
        name.is_some_and(|name| ordered.contains(&name))
    };
    if !fields.iter().any(|(_, spec)| asks(spec.get())) {
        return Err(options.bad(
            "'order' is used by none of the fields: it is for $first, $last, $firstN, $lastN, $push, \
             $mergeObjects and $concatArrays",
        ));
    }
    Ok(())
}

/// Compiles a filter over children.
pub(crate) fn filter_of(
    filter: Option<RawDoc<'_>>,
    reads: &mut Vec<String>,
) -> Result<Option<Filter>> {
    let Some(filter) = filter else { return Ok(None) };
    paths::check_deterministic(Val::Document(filter), "filter")?;
    paths::of_filter(filter, reads);
    let compiled = Filter::parse_for_documents(filter, &ParseContext::new(0))
        .map_err(|error| error.context("filter: "))?;
    Ok(Some(compiled))
}

/// The window `{field, last}` in which children count.
pub(crate) fn window_of<'a>(
    options: &mut Options<'a>,
    reads: &mut Vec<String>,
) -> Result<Option<(RawDoc<'a>, Window)>> {
    let Some(doc) = options.document("window")? else { return Ok(None) };
    let (mut field, mut span) = (None, None);
    for (name, value) in doc {
        match (name, value.get()) {
            ("field", Val::String(path)) => {
                options.check_path("window.field", path)?;
                field = Some(path);
            }
            ("field", _) => return Err(options.bad("'window.field' must be a path")),
            ("last", Val::String(text)) => match milliseconds(text) {
                Some(ms) => span = Some(ms as i64),
                None => {
                    return Err(options.bad(format!(
                        "'window.last' must be a time like '12h' or '30d', found '{text}'"
                    )));
                }
            },
            ("last", _) => {
                return Err(options.bad("'window.last' must be a time like '12h' or '30d'"));
            }
            (other, _) => {
                return Err(options.unknown("window", other, &["field", "last"]));
            }
        }
    }
    let path = field.ok_or_else(|| options.missing("window.field"))?;
    let span = span.ok_or_else(|| options.missing("window.last"))?;
    reads.push(path.to_owned());
    Ok(Some((doc, Window { path: Path::new(path), span })))
}

/// The two sides of `on: {local, foreign}`. A path alone is the foreign one; the names of `$lookup`
/// are understood too.
pub(crate) fn relation<'a>(options: &mut Options<'a>) -> Result<(&'a str, &'a str)> {
    let on = match options.get("on").ok_or_else(|| options.missing("on"))? {
        Val::String(foreign) => {
            options.check_path("on", foreign)?;
            return Ok(("_id", foreign));
        }
        Val::Document(on) => on,
        other => {
            return Err(Error::type_mismatch(format!(
                "{}: 'on' must be a path or a document, found {}",
                options.place,
                other.kind().name()
            )));
        }
    };
    let (mut local, mut foreign) = (None, None);
    for (name, value) in on {
        let side = match name {
            "local" | "localField" => &mut local,
            "foreign" | "foreignField" => &mut foreign,
            _ => return Err(options.unknown("on", name, &["local", "foreign"])),
        };
        let Val::String(path) = value.get() else {
            return Err(options.bad(format!("'on.{name}' must be a path")));
        };
        options.check_path("on", path)?;
        if side.replace(path).is_some() {
            return Err(options.bad(format!("'on' names the side of '{name}' twice")));
        }
    }
    let foreign = foreign.ok_or_else(|| options.missing("on.foreign"))?;
    Ok((local.unwrap_or("_id"), foreign))
}

fn children(
    options: &mut Options<'_>,
    collection: &str,
    from: &str,
    form: &FieldForm<'_>,
) -> Result<(Fold, DocBuf)> {
    let (local, foreign) = relation(options)?;
    let word = options.choice("onMissingParent", &["ignore", "reject", "create"], &[])?;
    let missing = match word {
        "reject" => MissingParent::Reject,
        "create" => MissingParent::Create,
        _ => MissingParent::Ignore,
    };
    if missing == MissingParent::Create && local != "_id" {
        return Err(options.bad("onMissingParent: 'create' needs '_id' as 'on.local'"));
    }
    let mut body = body(options, form)?;
    body.reads.push(foreign.to_owned());
    let declared = DocBuf::build(|out| {
        out.str("from", from).doc("on", |out| {
            out.str("local", local).str("foreign", foreign);
        });
        write_body(out, &body, form);
        out.str("onMissingParent", word);
    });
    let keys = Keys::Parents { local: Path::new(local), foreign: Path::new(foreign) };
    let fold = Fold {
        source: from.to_owned(),
        target: collection.to_owned(),
        keys,
        unwind: body.compile_unwind(),
        siblings: body.unwind.is_none().then(|| Siblings::new(foreign, &body.derived_from)),
        filter: body.compiled,
        window: body.window.map(|(_, window)| window),
        fields: body.fields,
        missing,
        skip_errors: form.skip_errors,
        reads: body.reads,
        bounds: false,
        flush: None,
    };
    Ok((fold, declared))
}

fn groups(
    options: &mut Options<'_>,
    collection: &str,
    into: &str,
    group_by: Val<'_>,
    form: &FieldForm<'_>,
) -> Result<(Fold, DocBuf)> {
    for name in ["on", "onMissingParent"] {
        if options.get(name).is_some() {
            return Err(options.bad(format!("'{name}' makes no sense with 'groupBy'")));
        }
    }
    if into == collection {
        return Err(options.bad("'into' must be another collection than the one that is read"));
    }
    if matches!(group_by, Val::Array(_)) {
        return Err(options.bad("'groupBy' cannot be an array, since no _id can be one"));
    }
    paths::check_deterministic(group_by, "groupBy")?;
    let key = Expr::parse(group_by, &ParseContext::new(0))
        .map_err(|error: Error| error.context("groupBy: "))?;
    let mut body = body(options, form)?;
    paths::of_expression(group_by, &mut body.reads);
    let declared = DocBuf::build(|out| {
        out.str("into", into).append("groupBy", group_by);
        write_body(out, &body, form);
    });
    let fold = Fold {
        source: collection.to_owned(),
        target: into.to_owned(),
        keys: Keys::Groups(GroupKey::new(group_by, key)),
        unwind: body.compile_unwind(),
        siblings: None,
        filter: body.compiled,
        window: body.window.map(|(_, window)| window),
        fields: body.fields,
        missing: MissingParent::Ignore,
        skip_errors: form.skip_errors,
        reads: body.reads,
        bounds: false,
        flush: None,
    };
    Ok((fold, declared))
}

fn write_body(out: &mut value::Writer<'_>, body: &Body<'_>, form: &FieldForm<'_>) {
    if let Some(path) = body.unwind {
        out.str("unwind", path);
    }
    if let Some(filter) = body.filter {
        out.append("filter", Val::Document(filter));
    }
    if let Some((window, _)) = &body.window {
        out.append("window", Val::Document(*window));
    }
    if let Some(order) = body.order {
        out.append("order", Val::Document(order));
    }
    out.append("fields", Val::Document(form.fields));
    out.str("onError", if form.skip_errors { "skip" } else { "reject" });
}
