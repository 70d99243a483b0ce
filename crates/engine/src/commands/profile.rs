//! `profile`: the profiler is not there yet, so its level is always 0.

use super::{Command, Context};
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "profile",
    aliases: &[],
    help: "Tells the level of the profiler, which is 0.",
    fields: Some(&["profile", "slowms", "sampleRate", "filter"]),
    admin: false,
    test: false,
    run,
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let level = args.optional_i64("profile")?.ok_or_else(|| args.missing("profile"))?;
    let settings = ["slowms", "sampleRate", "filter"];
    if matches!(level, 1 | 2) || settings.iter().any(|name| args.get(name).is_some()) {
        return Err(Error::new(
            Code::NOT_IMPLEMENTED,
            "the profiler is not available in this version",
        ));
    }
    out.i32("was", 0).i32("slowms", 100).f64("sampleRate", 1.0);
    Ok(())
}
