//! `hostInfo`: the machine that the server runs on.

use super::row::Required;
use super::{Command, Context};
use crate::host;
use ::access::Action;
use value::{Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "hostInfo",
    aliases: &["hostinfo"],
    help: "Describes the machine that the server runs on.",
    fields: Some(&["hostInfo", "hostinfo"]),
    privilege: Required::Cluster(&[Action::HostInfo]),
    run,
    ..Command::BASE
};

fn run(_: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    out.doc("system", |out| {
        out.append("currentTime", Val::DateTime(crate::clock::now_ms()));
        out.str("hostname", &host::name());
        out.i32("cpuAddrSize", usize::BITS as i32);
        if let Some(bytes) = host::machine_memory() {
            out.i64("memSizeMB", (bytes / (1024 * 1024)) as i64);
        }
        out.count("numCores", host::cores() as u64);
        out.str("cpuArch", std::env::consts::ARCH);
    });
    out.doc("os", |out| {
        out.str("type", if cfg!(target_os = "linux") { "Linux" } else { std::env::consts::OS });
        if let Some(name) = host::distribution() {
            out.str("name", &name);
        }
        if let Some(version) = host::kernel() {
            out.str("version", &format!("Kernel {version}"));
        }
    });
    out.doc("extra", |_| {});
    Ok(())
}
