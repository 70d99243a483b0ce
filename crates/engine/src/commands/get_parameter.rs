//! `getParameter`: returns settings of the server.

use super::parameters::{all as parameters, is_fixed};
use super::row::{NamedIn, Required};
use super::{Command, Context};
use ::access::Action;
use value::{Code, Error, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "getParameter",
    help: "Returns settings of the server.",
    fields: None,
    admin: true,
    privilege: Required::Cluster(&[Action::GetParameter]),
    namespace: NamedIn::None,
    run: get,
    ..Command::BASE
};

fn get(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let doc = context.args.doc;
    let (mut details, mut all) = (false, false);
    match doc.get("getParameter") {
        Some(Val::String("*")) => all = true,
        Some(Val::Document(options)) => {
            details = options.get("showDetails").is_some_and(Val::truthy);
            all = options.get("allParameters").is_some_and(Val::truthy);
        }
        _ => {}
    }
    let mut found = 0;
    for parameter in parameters() {
        let name = parameter.name;
        if !all && doc.find(name).is_none() {
            continue;
        }
        found += 1;
        if details {
            out.doc(name, |out| {
                (parameter.write)(context.engine, out, "value");
                out.bool("settableAtRuntime", !is_fixed(context.engine, parameter));
                out.bool("settableAtStartup", false);
            });
        } else {
            (parameter.write)(context.engine, out, name);
        }
    }
    if found == 0 {
        return Err(Error::new(Code::INVALID_OPTIONS, "no option found to get"));
    }
    Ok(())
}
