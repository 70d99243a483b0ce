//! `mapReduce`: a pipeline of functions in JavaScript.
//!
//! `map` becomes an expression that gives an array of what the function emits, `reduce` an
//! accumulator, `finalize` a `$function`; `out` becomes `$out` or `$merge`.

use super::aggregate::{self, resolve};
use super::query::Constants;
use super::row::{Kind, ReadConcerns, Reads, Required};
use super::{Command, Context};
use crate::access::Authorization;
use crate::stages::{self, PipelinePrivileges, Role, StageContext};
use value::writer::{ArrayWriter, write_array};
use value::{Code, Error, RawDoc, Result, Val, Writer, limits};

pub(super) static COMMAND: Command = Command {
    name: "mapReduce",
    aliases: &["mapreduce"],
    help: "Runs functions in JavaScript over the documents of a collection.",
    fields: Some(&[
        "mapReduce",
        "mapreduce",
        "map",
        "reduce",
        "out",
        "query",
        "sort",
        "limit",
        "finalize",
        "scope",
        "jsMode",
        "verbose",
        "bypassDocumentValidation",
        "collation",
    ]),
    javascript: true,
    privilege: Required::Custom(allowed),
    read_concern: ReadConcerns::Majority,
    usage: Kind::Command,
    reads: Reads::Collection,
    mistyped_name: Code::INVALID_NAMESPACE,
    run,
    ..Command::BASE
};

/// Where results go.
enum Output<'a> {
    /// Into the reply.
    Inline,
    /// Into a collection, of this database or another one.
    Collection { name: &'a str, db: Option<&'a str>, mode: OutputMode },
}

/// What happens to documents that are in the collection already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputMode {
    Replace,
    Merge,
    Reduce,
}

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let args = context.args;
    let map = function(&args, "map")?.ok_or_else(|| args.missing("map"))?;
    let reduce = function(&args, "reduce")?.ok_or_else(|| args.missing("reduce"))?;
    let finalize = function(&args, "finalize")?;
    let output = output(args.doc.get("out").ok_or_else(|| args.missing("out"))?)?;
    let limit = args.optional_i64("limit")?.unwrap_or(0);
    if limit < 0 {
        return Err(Error::new(Code(15958), "The limit specified to mapReduce must be positive"));
    }
    let query = args.optional_doc("query")?;
    let sort = args.optional_doc("sort")?;
    let mut pipeline = Vec::new();
    write_array(&mut pipeline, |out| {
        let mut stage =
            |name: &str, value: Val<'_>| out.push_doc(|out| _ = out.append(name, value));
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            stage("$match", Val::Document(query));
        }
        if let Some(sort) = sort.filter(|sort| !sort.is_empty()) {
            stage("$sort", Val::Document(sort));
        }
        if limit > 0 {
            stage("$limit", Val::Int64(limit));
        }
        write_functions(out, map, reduce, finalize);
        write_output_stage(out, &output, context.db, reduce, finalize);
    });
    let constants = Constants::new(context)?.with_scope(args.optional_doc("scope")?);
    let scope = aggregate::scope(context);
    scope.catalog.check(context.db, name)?;
    if scope.catalog.get(context.db, name).is_some_and(|collection| collection.view().is_some()) {
        return Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {}.{name} is a view, not a collection", context.db),
        ));
    }
    let resolved = resolve(&scope, context.db, Some(name), RawDoc::new(&pipeline))?;
    let stage_context = StageContext::new(constants.context(), &scope, context.db);
    let parsed = stages::parse(resolved.pipeline.as_doc(), &stage_context)?;
    if let Some((last, before)) = parsed.split_last()
        && matches!(last.role(), Role::Output(_))
    {
        let stream = aggregate::open(context, &resolved, before, &scope, None)?;
        let mut reply = Vec::new();
        let mut inner = Writer::start(&mut reply);
        aggregate::write_output(context, &**last, stream, "", &mut inner)?;
        inner.finish();
        write_target(&output, out);
        if let Some(error) = RawDoc::new(&reply).find("writeConcernError") {
            out.raw("writeConcernError", error);
        }
        return Ok(());
    }
    let mut stream = aggregate::open(context, &resolved, &parsed, &scope, None)?;
    let token = out.open("results", true);
    let (start, mut count) = (out.len(), 0_usize);
    while let Some(doc) = stream.next(context.op)? {
        if out.len() - start + doc.raw().bytes().len() > limits::DOCUMENT_BYTES_MAX {
            return Err(Error::new(
                Code::BSON_OBJECT_TOO_LARGE,
                "the results of mapReduce are too large for one reply",
            ));
        }
        out.append(&count.to_string(), Val::Document(doc.raw()));
        count += 1;
    }
    out.close(token);
    Ok(())
}

/// The function in a field; null is none.
fn function<'a>(args: &crate::args::Args<'a>, name: &str) -> Result<Option<Val<'a>>> {
    match args.doc.get(name) {
        None | Some(Val::Null) => Ok(None),
        Some(code @ (Val::String(_) | Val::Code(_))) => Ok(Some(code)),
        Some(_) => Err(Error::bad_value(format!("'{name}' must be of string or code type"))),
    }
}

/// Reads `out`.
fn output(value: Val<'_>) -> Result<Output<'_>> {
    let doc = match value {
        Val::String(name) => {
            return Ok(Output::Collection { name, db: None, mode: OutputMode::Replace });
        }
        Val::Document(doc) => doc,
        _ => return Err(Error::bad_value("'out' must be either a string or an object")),
    };
    if let Some(inline) = doc.get("inline") {
        if doc.count() != 1 {
            return Err(Error::new(Code::INVALID_OPTIONS, "'inline' must be specified alone"));
        }
        if inline.as_f64() != Some(1.0) {
            return Err(Error::bad_value("'inline' takes only numeric '1'"));
        }
        return Ok(Output::Inline);
    }
    let modes = [
        ("replace", OutputMode::Replace),
        ("merge", OutputMode::Merge),
        ("reduce", OutputMode::Reduce),
    ];
    let found = modes.iter().find_map(|(name, mode)| Some((doc.get(name)?, *mode)));
    let Some((Val::String(name), mode)) = found else {
        return Err(Error::bad_value("'out' requires 'replace', 'merge' or 'reduce'"));
    };
    if doc.get("sharded").is_some_and(Val::truthy) {
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            "'out.sharded' is not possible: there is no sharded collection",
        ));
    }
    Ok(Output::Collection { name, db: doc.get("db").and_then(Val::as_str), mode })
}

fn write_functions(
    out: &mut ArrayWriter<'_>,
    map: Val<'_>,
    reduce: Val<'_>,
    finalize: Option<Val<'_>>,
) {
    out.push_doc(|out| {
        out.doc("$project", |out| {
            out.i32("_id", 0);
            out.doc("emits", |out| {
                _ = out.doc("$_internalJsEmit", |out| _ = out.append("eval", map))
            });
        });
    });
    // Each document is mapped once, whatever reads the result.
    out.push_doc(|out| _ = out.doc("$_internalInhibitOptimization", |_| {}));
    out.push_doc(|out| _ = out.str("$unwind", "$emits"));
    out.push_doc(|out| {
        out.doc("$group", |out| {
            out.str("_id", "$emits.k");
            out.doc("value", |out| {
                out.doc("$_internalJsReduce", |out| {
                    out.str("data", "$emits.v");
                    out.append("eval", reduce);
                });
            });
        });
    });
    if let Some(finalize) = finalize {
        out.push_doc(|out| {
            out.doc("$project", |out| {
                out.doc("value", |out| {
                    write_call(out, finalize, |args| args.push(Val::String("$value")));
                });
            });
        });
    }
}

/// A call of a function with the key and another argument.
fn write_call(out: &mut Writer<'_>, body: Val<'_>, value: impl FnOnce(&mut ArrayWriter<'_>)) {
    out.doc("$function", |out| {
        out.append("body", body);
        out.array("args", |args| {
            args.push(Val::String("$_id"));
            value(args);
        });
        out.str("lang", "js");
    });
}

fn write_output_stage(
    out: &mut ArrayWriter<'_>,
    output: &Output<'_>,
    db: &str,
    reduce: Val<'_>,
    finalize: Option<Val<'_>>,
) {
    let Output::Collection { name, db: other, mode } = output else { return };
    let target = |out: &mut Writer<'_>| {
        out.str("db", other.unwrap_or(db));
        out.str("coll", name);
    };
    if *mode == OutputMode::Replace {
        out.push_doc(|out| _ = out.doc("$out", target));
        return;
    }
    out.push_doc(|out| {
        out.doc("$merge", |out| {
            out.doc("into", target);
            out.str("whenNotMatched", "insert");
            if *mode == OutputMode::Merge {
                out.str("whenMatched", "replace");
                return;
            }
            let both = |args: &mut ArrayWriter<'_>| {
                args.push_array(|values| {
                    values.push(Val::String("$value"));
                    values.push(Val::String("$$new.value"));
                });
            };
            out.array("whenMatched", |stages| {
                stages.push_doc(|out| {
                    out.doc("$project", |out| {
                        out.doc("value", |out| match finalize {
                            None => write_call(out, reduce, both),
                            Some(finalize) => write_call(out, finalize, |args| {
                                args.push_doc(|out| write_call(out, reduce, both));
                            }),
                        });
                    });
                });
            });
        });
    });
}

/// Writes where the results are.
fn write_target(output: &Output<'_>, out: &mut Writer<'_>) {
    match output {
        Output::Inline => {}
        Output::Collection { name, db: None, .. } => _ = out.str("result", name),
        Output::Collection { name, db: Some(db), .. } => {
            out.doc("result", |out| {
                out.str("db", db);
                out.str("collection", name);
            });
        }
    }
}

fn allowed(auth: &Authorization<'_>) -> bool {
    let collection = auth.body.first().and_then(|(_, value)| value.get().as_str());
    let Ok(output) = output(auth.body.get("out").unwrap_or(Val::Missing)) else {
        // What it would write is not known: it may read, and then fails.
        return reads(auth, collection, RawDoc::empty());
    };
    let mut stage = Vec::new();
    write_array(&mut stage, |out| {
        write_output_stage(out, &output, auth.db, Val::String(""), None);
    });
    reads(auth, collection, RawDoc::new(&stage))
}

fn reads(auth: &Authorization<'_>, collection: Option<&str>, stages: RawDoc<'_>) -> bool {
    let beside = auth.skips();
    PipelinePrivileges { privileges: auth.privileges, db: auth.db, beside }
        .is_allowed(collection, stages)
}
