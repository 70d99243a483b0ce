//! Information on the machine and the process for `serverStatus` and `hostInfo`. It is read from
//! `/proc` on Linux and absent on other systems.
//!
//! Layer: base.

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
    }
}
