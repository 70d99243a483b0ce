//! `explain` of a find, count or distinct on a view: as the pipeline that the command runs.

use super::aggregate::find_stages;
use super::explain::Purpose;
use super::query::Find;
use super::{Context, explain_pipeline};
use crate::args::Args;
use value::{DocBuf, Error, Result, Val, Writer};

/// Fields of a find, count or distinct that an aggregate has, too.
const SHARED_FIELDS: [&str; 4] = ["collation", "let", "hint", "allowDiskUse"];

/// Explains a query on the view `name`.
///
/// # Errors
/// Errors of the planner, as an aggregate on the view; BadValue for writes.
pub(super) fn explain(
    context: &mut Context<'_>,
    name: &str,
    find: &Find<'_>,
    purpose: Purpose,
    verbosity: &str,
    out: &mut Writer<'_>,
) -> Result<()> {
    if matches!(purpose, Purpose::Update | Purpose::Delete) {
        return Err(Error::new(
            value::Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {}.{name} is a view, not a collection", context.db),
        ));
    }
    let args = context.args;
    // Only `distinct` has a key.
    let key = args.get("key").and_then(|key| key.as_str());
    let stages = find_stages(find, purpose == Purpose::Return && key.is_none());
    let command = DocBuf::build(|out| {
        out.str("aggregate", name).array("pipeline", |list| {
            for (_, stage) in stages.as_doc() {
                list.push(stage.get());
            }
            match (purpose, key) {
                (Purpose::Count, _) => list.push_doc(|stage| {
                    stage.str("$count", "count");
                }),
                (_, Some(key)) => {
                    let path = format!("${key}");
                    list.push_doc(|stage| {
                        stage.doc("$unwind", |unwind| {
                            unwind.str("path", &path).bool("preserveNullAndEmptyArrays", true);
                        });
                    });
                    list.push_doc(|stage| {
                        stage.doc("$group", |group| {
                            group.append("_id", Val::Null).doc("distinct", |set| {
                                set.str("$addToSet", &path);
                            });
                        });
                    });
                }
                _ => {}
            }
        });
        out.doc("cursor", |_| {});
        for name in SHARED_FIELDS {
            if let Some(value) = args.get(name) {
                out.append(name, value);
            }
        }
    });
    let mut inner = Context {
        engine: context.engine,
        client: &mut *context.client,
        op: context.op,
        request: context.request,
        name: "aggregate",
        args: Args::new("aggregate", command.as_doc()),
        db: context.db,
        session: context.session,
        transaction: context.transaction,
        flow: context.flow,
    };
    explain_pipeline::explain(&mut inner, verbosity, out)
}
