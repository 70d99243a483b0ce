//! `getClusterParameter`: returns settings that all servers of a cluster share. They are fixed here.

use super::row::{NamedIn, Required};
use super::{Command, Context};
use ::access::Action;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "getClusterParameter",
    help: "Returns settings that all servers of a cluster share.",
    fields: Some(&["getClusterParameter"]),
    admin: true,
    privilege: Required::Cluster(&[Action::GetClusterParameter]),
    namespace: NamedIn::None,
    run: get,
    ..Command::BASE
};

/// A parameter, and what writes the fields of its document behind `_id`.
type Parameter = (&'static str, fn(&mut Writer<'_>));

/// The parameters that concern a server like this one, sorted by name.
static PARAMETERS: &[Parameter] = &[
    ("changeStreamOptions", |out| {
        out.doc("preAndPostImages", |out| {
            out.str("expireAfterSeconds", "off");
        });
    }),
    ("defaultMaxTimeMS", |out| {
        out.i64("readOperations", 0);
    }),
];

fn get(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let find = |name: &str| {
        PARAMETERS.iter().find(|(known, _)| *known == name).ok_or_else(|| {
            Error::new(Code::NO_SUCH_KEY, format!("Unknown server parameter: {name}"))
        })
    };
    let wanted: Vec<&Parameter> = match args.get("getClusterParameter") {
        Some(Val::String("*")) => PARAMETERS.iter().collect(),
        Some(Val::String(name)) => vec![find(name)?],
        Some(Val::Array(names)) if !names.is_empty() => {
            let name = |value: Val<'_>| match value {
                Val::String(name) => find(name),
                other => Err(args.wrong_type("getClusterParameter.0", other, "string")),
            };
            names.iter().map(|(_, value)| name(value.get())).collect::<Result<_>>()?
        }
        Some(Val::Array(_)) => {
            return Err(Error::bad_value("Must supply at least one cluster server parameter name"));
        }
        Some(other) => {
            return Err(args.wrong_type("getClusterParameter", other, "[string, array]"));
        }
        None => return Err(args.missing("getClusterParameter")),
    };
    out.array("clusterParameters", |list| {
        for (name, write) in wanted {
            list.push_doc(|out| {
                // None of them was ever set.
                out.str("_id", name).append("clusterParameterTime", Val::Timestamp(0));
                write(out);
            });
        }
    });
    Ok(())
}
