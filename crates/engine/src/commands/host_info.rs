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
    let (processors, nodes) = (host::processors(), host::numa_nodes());
    out.doc("system", |out| {
        out.append("currentTime", Val::DateTime(crate::clock::now_ms()));
        out.str("hostname", &host::name());
        out.i32("cpuAddrSize", usize::BITS as i32);
        if let Some(bytes) = host::machine_memory() {
            out.i64("memSizeMB", (bytes / (1024 * 1024)) as i64);
        }
        if let Some(bytes) = host::memory_limit() {
            out.i64("memLimitMB", (bytes / (1024 * 1024)) as i64);
        }
        out.count("numCores", host::cores() as u64);
        out.count("numPhysicalCores", processors.cores as u64);
        out.count("numCpuSockets", processors.sockets as u64);
        out.str("cpuArch", std::env::consts::ARCH);
        out.bool("numaEnabled", nodes > 1);
        out.count("numNumaNodes", nodes as u64);
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
    out.doc("extra", |out| {
        for (name, text) in [
            ("versionString", host::kernel_text()),
            ("kernelVersion", host::kernel()),
            ("cpuString", processors.name),
            ("cpuFrequencyMHz", processors.megahertz),
            ("cpuFeatures", processors.features),
        ] {
            if let Some(text) = text {
                out.str(name, &text);
            }
        }
        if let Some(page) = host::page_bytes() {
            out.i64("pageSize", page as i64);
            if let Some(bytes) = host::machine_memory() {
                out.count("numPages", bytes / page.max(1));
            }
        }
        if let Some(files) = host::open_files_max() {
            out.count("maxOpenFiles", files);
        }
        out.count("physicalCores", processors.cores as u64);
    });
    Ok(())
}
