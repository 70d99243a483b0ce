//! Information on the machine and the process for `serverStatus` and `hostInfo`. It is read from
//! `/proc` on Linux and absent on other systems.
//!
//! Layer: base.

use std::collections::BTreeSet;
use std::fs::read_to_string;

/// The name of the machine.
#[must_use]
pub fn name() -> String {
    let kernel = read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    name.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_else(|| "localhost".to_owned())
}

/// Memory of this process in bytes: resident and virtual.
#[must_use]
pub fn process_memory() -> Option<(u64, u64)> {
    let status = read_to_string("/proc/self/status").ok()?;
    Some((kilobytes(&status, "VmRSS:")?, kilobytes(&status, "VmSize:")?))
}

/// Memory of the machine in bytes.
#[must_use]
pub fn machine_memory() -> Option<u64> {
    kilobytes(&read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// Memory that this process may use, in bytes: that of the machine, or less if its control group has
/// a limit.
#[must_use]
pub fn memory_limit() -> Option<u64> {
    let machine = machine_memory()?;
    let limit = read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
    Some(limit.map_or(machine, |limit| limit.min(machine)))
}

fn kilobytes(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The number of major page faults of this process, which had to read the disk.
#[must_use]
pub fn page_faults() -> Option<u64> {
    let stat = read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain any character; the fields after it are numbers.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(9)?.parse().ok()
}

/// The version of the kernel.
#[must_use]
pub fn kernel() -> Option<String> {
    let release = read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(release.trim().to_owned())
}

/// The name of the distribution.
#[must_use]
pub fn distribution() -> Option<String> {
    let release = read_to_string("/etc/os-release").ok()?;
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// The number of processors with their own memory (NUMA nodes); 1 if that is not known.
#[must_use]
pub fn numa_nodes() -> usize {
    let names = std::fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    let is_node = |name: &str| {
        let number = name.strip_prefix("node");
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
    };
    names.filter(|entry| entry.file_name().to_str().is_some_and(is_node)).count().max(1)
}

/// The processors of the machine.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Processors {
    /// Their name.
    pub name: Option<String>,
    /// Their frequency in MHz, as the system says it.
    pub megahertz: Option<String>,
    /// What they can do.
    pub features: Option<String>,
    /// The number of cores; each may run several threads.
    pub cores: usize,
    /// The number of sockets.
    pub sockets: usize,
}

/// The processors of the machine, as far as the system tells.
#[must_use]
pub fn processors() -> Processors {
    processors_in(&read_to_string("/proc/cpuinfo").unwrap_or_default())
}

fn processors_in(text: &str) -> Processors {
    let fields = |label: &str| {
        let label = label.to_owned();
        text.lines().filter_map(move |line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == label).then(|| value.trim().to_owned())
        })
    };
    let sockets: BTreeSet<String> = fields("physical id").collect();
    let threads = fields("processor").count();
    // The cores of a socket are numbered from 0, so a core is a pair.
    let cores: BTreeSet<(String, String)> = fields("physical id").zip(fields("core id")).collect();
    Processors {
        name: fields("model name").next(),
        megahertz: fields("cpu MHz").next(),
        features: fields("flags").next(),
        cores: if cores.is_empty() { threads.max(1) } else { cores.len() },
        sockets: sockets.len().max(1),
    }
}

/// The first line that the kernel says about itself.
#[must_use]
pub fn kernel_text() -> Option<String> {
    Some(read_to_string("/proc/version").ok()?.trim().to_owned())
}

/// The most files that this process may open.
#[must_use]
pub fn open_files_max() -> Option<u64> {
    let limits = read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The size of a page of memory in bytes.
#[must_use]
pub fn page_bytes() -> Option<u64> {
    /// The entry of the size of a page among the facts that the kernel gives a process.
    const PAGE_SIZE: u64 = 6;
    let facts = std::fs::read("/proc/self/auxv").ok()?;
    let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_ne_bytes);
    facts.chunks_exact(16).find_map(|entry| {
        let (name, value) = entry.split_at(8);
        (number(name) == Some(PAGE_SIZE)).then(|| number(value)).flatten()
    })
}

/// The number of threads that can run in parallel.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn linux_tells_about_the_process() {
        let (resident, whole) = super::process_memory().expect("Linux tells");
        assert!(resident > 0 && whole >= resident);
        assert!(super::machine_memory().expect("Linux tells") > resident);
        assert!(super::page_faults().is_some());
        assert!(super::kernel().is_some_and(|version| version.contains('.')));
        assert!(super::open_files_max().is_some_and(|files| files > 0));
        assert!(super::numa_nodes() > 0);
        assert!(super::page_bytes().is_some_and(u64::is_power_of_two));
    }

    #[test]
    fn threads_of_one_core_are_one_core() {
        let thread = |n: u32, socket: u32, core: u32| {
            format!("processor\t: {n}\nphysical id\t: {socket}\ncore id\t\t: {core}\n\n")
        };
        let text = [thread(0, 0, 0), thread(1, 0, 0), thread(2, 1, 0), thread(3, 1, 1)].concat();
        let found = super::processors_in(&text);
        assert_eq!((found.cores, found.sockets), (3, 2));
        let unknown = super::processors_in("processor: 0\nprocessor: 1\n");
        assert_eq!((unknown.cores, unknown.sockets), (2, 1));
    }
}
