//! Servers that the benchmark starts itself, on a free port and in a temporary folder. Their CPU
//! time and memory are read from `/proc`; they end with the benchmark.

use anyhow::{Context, Result, anyhow, bail};
use client::Client;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The default cache of every server.
const CACHE_MIB: u64 = 2048;
/// The longest accepted start. Recovery after a kill reads the log.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The name in tables of a mongod that is a replica set of one.
pub(crate) const MONGOD_SET: &str = "mongod-rs";

/// A kind of server.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    /// This executable's `serve`.
    Motif,
    /// A `mongod` at this path.
    Mongod(PathBuf),
    /// Another build of MotifDB at this path, usually an earlier one.
    Before(PathBuf),
}

/// The name in tables of another build of MotifDB.
pub(crate) const BEFORE: &str = "before";

impl Program {
    /// The name in tables.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Program::Motif => "motif",
            Program::Mongod(_) => "mongod",
            Program::Before(_) => BEFORE,
        }
    }

    /// Whether it is MotifDB, of this build or another.
    pub(crate) fn has_patterns(&self) -> bool {
        !matches!(self, Program::Mongod(_))
    }

    fn command(&self, port: u16, folder: &Path, cache_mib: u64) -> Result<Command> {
        let data = folder.join("data");
        fs::create_dir_all(&data).with_context(|| format!("cannot create `{}`", data.display()))?;
        Ok(match self {
            Program::Motif | Program::Before(_) => {
                let executable = match self {
                    Program::Before(path) => path.clone(),
                    _ => std::env::current_exe().context("cannot find this executable")?,
                };
                let mut command = Command::new(executable);
                command.arg("serve").arg("--listen").arg(format!("127.0.0.1:{port}"));
                command.arg("--data").arg(data);
                command.arg("--cache").arg(format!("{cache_mib}MiB"));
                // Settings from the environment must not reach the measured server.
                for (name, _) in std::env::vars_os() {
                    if name.to_string_lossy().starts_with("MOTIF_") {
                        command.env_remove(name);
                    }
                }
                command
            }
            Program::Mongod(path) => {
                let mut command = Command::new(path);
                command.args(["--bind_ip", "127.0.0.1", "--nounixsocket", "--port"]);
                command.arg(port.to_string()).arg("--dbpath").arg(data);
                let gigabytes = cache_mib as f64 / 1024.0;
                command.arg("--wiredTigerCacheSizeGB").arg(gigabytes.to_string());
                command.args(["--setParameter", "diagnosticDataCollectionEnabled=false"]);
                command
            }
        })
    }
}

/// A running server; dropping it ends the process and removes its folder.
pub(crate) struct Server {
    child: Child,
    program: Program,
    port: u16,
    folder: TempDir,
    /// Additional flags, for a restart.
    extra: Vec<String>,
    cache_mib: u64,
    /// From starting the process to its first answer.
    pub(crate) startup: Duration,
}

impl Server {
    /// Starts a server on an empty folder inside `parent` and waits until it answers.
    pub(crate) fn start(program: &Program, parent: Option<&Path>) -> Result<Server> {
        Server::start_with(program, parent, &[])
    }

    /// As `start`, with more flags.
    pub(crate) fn start_with(
        program: &Program,
        parent: Option<&Path>,
        extra: &[&str],
    ) -> Result<Server> {
        Server::launch(program, parent, extra, CACHE_MIB)
    }

    /// As `start_with`, with a cache of another size.
    pub(crate) fn start_with_cache(
        program: &Program,
        parent: Option<&Path>,
        extra: &[&str],
        cache_mib: u64,
    ) -> Result<Server> {
        Server::launch(program, parent, extra, cache_mib)
    }

    /// Ends the process at once (SIGKILL); it writes nothing more.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("cannot kill the server")?;
        self.child.wait().context("cannot wait for the end of the server")?;
        Ok(())
    }

    /// Starts a killed server again on the same folder and port, and waits until it answers.
    pub(crate) fn restart(&mut self) -> Result<()> {
        let begin = Instant::now();
        self.child =
            spawn(&self.program, self.port, self.folder.path(), &self.extra, self.cache_mib)?;
        self.wait_until_it_answers(begin)?;
        self.startup = begin.elapsed();
        Ok(())
    }

    /// Fails with the end of the log if the process has ended by itself.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                bail!("{} ended by itself ({status}):\n{}", self.program.name(), self.log_end())
            }
        }
    }

    /// Bytes of all files in the data folder.
    pub(crate) fn space(&self) -> u64 {
        bytes_of(&self.folder.path().join("data"))
    }

    fn launch(
        program: &Program,
        parent: Option<&Path>,
        extra: &[&str],
        cache_mib: u64,
    ) -> Result<Server> {
        let folder = match parent {
            Some(parent) => TempDir::with_prefix_in("motif-bench-", parent),
            None => TempDir::with_prefix("motif-bench-"),
        }
        .context("cannot create a temporary folder")?;
        let port = free_port()?;
        let extra: Vec<String> = extra.iter().map(|&flag| flag.to_owned()).collect();
        let begin = Instant::now();
        let child = spawn(program, port, folder.path(), &extra, cache_mib)?;
        let mut server = Server {
            child,
            program: program.clone(),
            port,
            folder,
            extra,
            cache_mib,
            startup: Duration::ZERO,
        };
        server.wait_until_it_answers(begin)?;
        server.startup = begin.elapsed();
        Ok(server)
    }

    /// Starts a server as a replica set of one. MotifDB always is one.
    pub(crate) fn start_in_set(program: &Program, parent: Option<&Path>) -> Result<Server> {
        let Program::Mongod(_) = program else { return Server::start(program, parent) };
        let server = Server::start_with(program, parent, &["--replSet", "rs0"])?;
        let mut client = Client::connect(&server.uri())?;
        let initiate = value::DocBuf::build(|out| {
            out.doc("replSetInitiate", |out| {
                out.str("_id", "rs0").array("members", |members| {
                    members.push_doc(|out| {
                        out.i32("_id", 0).str("host", &format!("127.0.0.1:{}", server.port));
                    });
                });
            });
        });
        client.run("admin", &initiate).context("cannot make mongod a replica set")?;
        let hello = value::DocBuf::build(|out| {
            out.i32("hello", 1);
        });
        let begin = Instant::now();
        while begin.elapsed() < START_TIMEOUT {
            let reply = client.run("admin", &hello)?;
            if reply.as_doc().get("isWritablePrimary").is_some_and(value::Val::truthy) {
                return Ok(server);
            }
            sleep(Duration::from_millis(20));
        }
        bail!("mongod does not become primary:\n{}", server.log_end());
    }

    fn wait_until_it_answers(&mut self, begin: Instant) -> Result<()> {
        let ping = value::DocBuf::build(|ping| {
            ping.i32("ping", 1);
        });
        loop {
            if let Ok(mut client) = Client::connect(&self.uri())
                && client.run("admin", &ping).is_ok()
            {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at once ({status}):\n{}", self.program.name(), self.log_end());
            }
            if begin.elapsed() > START_TIMEOUT {
                bail!("{} does not answer:\n{}", self.program.name(), self.log_end());
            }
            sleep(Duration::from_millis(1));
        }
    }

    /// The last lines that the server wrote.
    pub(crate) fn log_end(&self) -> String {
        let text = fs::read(self.folder.path().join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines.iter().skip(lines.len().saturating_sub(15)).copied().collect::<Vec<_>>().join("\n")
    }

    /// Keeps the folder when the server ends, and returns its path.
    pub(crate) fn keep_folder(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    /// The connection string.
    pub(crate) fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}", self.port)
    }

    /// The process.
    pub(crate) fn process(&self) -> Process {
        Process(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The folder is removed too, so a clean stop would have no use.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the process. Its output is appended to the log of the folder.
fn spawn(
    program: &Program,
    port: u16,
    folder: &Path,
    extra: &[String],
    cache_mib: u64,
) -> Result<Child> {
    let log = File::options().create(true).append(true).open(folder.join("log"));
    let log = log.context("cannot create the log file")?;
    let mut command = program.command(port, folder, cache_mib)?;
    command.args(extra).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("cannot start `{}`", command.get_program().display()))
}

/// Bytes of all files below a folder, as far as they can be read.
fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => bytes_of(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot find a free port")?;
    Ok(listener.local_addr()?.port())
}

/// A process on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// CPU time that the process used so far, in user and kernel mode, all threads.
    pub(crate) fn cpu(self) -> Result<Duration> {
        let path = format!("/proc/{}/stat", self.0);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))?;
        cpu_of_stat(&text).ok_or_else(|| anyhow!("`{path}` is not as expected"))
    }

    /// CPU time of every thread so far: finer than `cpu`, whose clock ticks a hundred times a second.
    pub(crate) fn threads(self) -> Result<Threads> {
        let path = format!("/proc/{}/task", self.0);
        let tasks = fs::read_dir(&path).with_context(|| format!("cannot read `{path}`"))?;
        let threads: BTreeMap<u32, u64> = tasks
            .filter_map(|task| {
                let task = task.ok()?;
                let number = task.file_name().to_str()?.parse().ok()?;
                // A thread that ended meanwhile has no file.
                let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
                Some((number, text.split_ascii_whitespace().next()?.parse().ok()?))
            })
            .collect();
        if threads.is_empty() {
            // This kernel has no such counter.
            let all = u64::try_from(self.cpu()?.as_nanos()).unwrap_or(u64::MAX);
            return Ok(Threads(BTreeMap::from([(0, all)])));
        }
        Ok(Threads(threads))
    }

    /// Resident memory in bytes.
    pub(crate) fn memory(self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.0);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))?;
        memory_of_status(&text).ok_or_else(|| anyhow!("`{path}` is not as expected"))
    }

    /// Bytes that the process has read from disks and written to files, if the kernel counts them.
    ///
    /// Written bytes are those of write calls, not `write_bytes`: for a small write into a large
    /// folio of the page cache, Linux counts the whole folio there, which makes a log look a
    /// hundred times as large. Sent messages do not count.
    pub(crate) fn io(self) -> Option<(u64, u64)> {
        io_of(&fs::read_to_string(format!("/proc/{}/io", self.0)).ok()?)
    }

    /// Waits until background work is over (below 5 % of a core), at most `limit`.
    pub(crate) fn settle(self, limit: Duration) -> Result<()> {
        let begin = Instant::now();
        let step = Duration::from_millis(400);
        while begin.elapsed() < limit {
            let before = self.cpu()?;
            sleep(step);
            if self.cpu()?.saturating_sub(before) <= step / 20 {
                break;
            }
        }
        Ok(())
    }
}

/// CPU time of the threads of a process, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Threads(BTreeMap<u32, u64>);

impl Threads {
    /// CPU time of all threads since `earlier`. Threads that ended in between do not count.
    pub(crate) fn since(&self, earlier: &Threads) -> Duration {
        let spent = self
            .0
            .iter()
            .map(|(thread, now)| now.saturating_sub(earlier.0.get(thread).copied().unwrap_or(0)));
        Duration::from_nanos(spent.sum())
    }
}

/// Reads utime + stime from the text of `/proc/PID/stat`. The command's name is in parentheses and
/// may contain any character, so fields are counted from the last parenthesis.
fn cpu_of_stat(text: &str) -> Option<Duration> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_nanos((user + system).saturating_mul(1_000_000_000 / per_second)))
}

fn io_of(text: &str) -> Option<(u64, u64)> {
    let number = |name| text.lines().find_map(|line| line.strip_prefix(name))?.parse().ok();
    Some((number("read_bytes: ")?, number("wchar: ")?))
}

fn memory_of_status(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_a_name_with_spaces_and_parentheses() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 1 1 1";
        let per_second = rustix::param::clock_ticks_per_second();
        assert_eq!(cpu_of_stat(stat), Some(Duration::from_millis(200_000 / per_second)));
        assert_eq!(cpu_of_stat("42 (a) S"), None);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(memory_of_status("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2_097_152));
        assert_eq!(memory_of_status("Name:\tx\n"), None);
    }

    #[test]
    fn read_bytes_of_the_disk_and_bytes_of_write_calls_are_counted() {
        let text = "rchar: 9\nwchar: 70\nsyscr: 1\nread_bytes: 4096\nwrite_bytes: 1048576\n";
        assert_eq!(io_of(text), Some((4096, 70)));
        assert_eq!(io_of("rchar: 9\n"), None);
    }

    #[test]
    fn this_process_has_a_cost() {
        let this = Process(std::process::id());
        assert!(this.memory().unwrap() > 100_000);
        this.cpu().unwrap();
        let before = this.threads().unwrap();
        let mut number = 1_u64;
        while this.threads().unwrap().since(&before) < Duration::from_millis(2) {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
    }

    #[test]
    fn threads_that_began_count_whole_and_those_that_ended_not_at_all() {
        let before = Threads(BTreeMap::from([(1, 100), (2, 50)]));
        let after = Threads(BTreeMap::from([(1, 130), (3, 7)]));
        assert_eq!(after.since(&before), Duration::from_nanos(37));
    }
}
