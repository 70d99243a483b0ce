//! Limits that the operating system sets: open files, memory, permissions of new files.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

/// Raises the limit of open files to the maximum. Each connection takes one, and the usual soft limit
/// of 1024 is too low for a server.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, wanted) {
            tracing::debug!(%error, "cannot raise the limit of open files");
        }
    }
}

/// Makes all files that this process creates from now on accessible to their owner only. For
/// commands that write to a data folder.
pub(crate) fn make_private_files() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// The memory of the machine, or the limit of the control group if that is less. One gibibyte if
/// neither is known.
pub(crate) fn memory_bytes() -> u64 {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        number(line.trim().strip_suffix("kB")?).map(|kilobytes| kilobytes * 1024)
    });
    let group =
        std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| number(&text));
    machine.into_iter().chain(group).min().unwrap_or(1 << 30)
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_memory() {
        assert!(super::memory_bytes() > 16 << 20);
    }
}
