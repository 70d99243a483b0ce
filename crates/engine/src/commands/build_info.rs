//! `buildInfo`: the emulated version of MongoDB and the version of MotifDB.

use super::in_transaction;
use super::row::{Required, Transactions};
use super::{Command, Context};
use value::{Result, Val, Writer, limits};

pub(super) static COMMAND: Command = Command {
    name: "buildInfo",
    aliases: &["buildinfo"],
    help: "Returns the version of the server.",
    fields: Some(&["buildInfo", "buildinfo"]),
    privilege: Required::Nothing,
    transactions: Transactions::RefusedBecause(in_transaction::NOT_SUPPORTED),
    run,
    ..Command::BASE
};

/// The version of MongoDB whose behaviour this server emulates.
pub(super) const MONGODB_VERSION: &str = "8.0.0";

/// Its first two numbers, which say what features there are.
pub(super) const FEATURE_VERSION: &str = "8.0";

/// What stands for the revision of the source.
pub(super) const GIT_VERSION: &str = concat!("motif-", env!("CARGO_PKG_VERSION"));

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    out.str("version", MONGODB_VERSION);
    out.str("gitVersion", GIT_VERSION);
    out.array("modules", |_| {});
    out.str("sysInfo", "deprecated");
    out.array("versionArray", |numbers| {
        [8, 0, 0, 0].into_iter().for_each(|number| numbers.push(Val::Int32(number)));
    });
    out.doc("buildEnvironment", |out| {
        out.str("target_arch", std::env::consts::ARCH);
        out.str("target_os", std::env::consts::OS);
    });
    out.i32("bits", usize::BITS as i32);
    out.bool("debug", cfg!(debug_assertions));
    out.i32("maxBsonObjectSize", limits::DOCUMENT_BYTES_MAX as i32);
    out.array("storageEngines", |names| names.push(Val::String("motif")));
    out.str("motifVersion", crate::VERSION);
    out.doc("motif", |out| {
        out.str("version", env!("CARGO_PKG_VERSION"));
        out.bool("testCommands", context.engine.data.options.test_commands);
    });
    Ok(())
}
