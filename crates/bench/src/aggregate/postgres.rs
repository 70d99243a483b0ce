//! A PostgreSQL to compare with: a temporary cluster, driven through `psql`. Its CPU time is that of
//! its processes.

use super::data::Table;
use anyhow::{Context, Result, anyhow, bail};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use value::{RawDoc, ejson};

/// A running cluster; dropping it ends the processes and removes its folder.
pub(super) struct Postgres {
    child: Child,
    programs: PathBuf,
    owner: Option<(u32, u32)>,
    folder: TempDir,
}

impl Postgres {
    /// Creates a cluster in a folder inside `parent` and starts it. `programs` is the folder of
    /// `initdb`, `postgres` and `psql`.
    pub(super) fn start(programs: &Path, parent: Option<&Path>) -> Result<Postgres> {
        let folder = match parent {
            Some(parent) => TempDir::with_prefix_in("motif-bench-pg-", parent),
            None => TempDir::with_prefix("motif-bench-pg-"),
        }
        .context("cannot create a temporary folder")?;
        let owner = owner()?;
        if let Some((user, group)) = owner {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group))
                .context("cannot give the folder to the user postgres")?;
        }
        let log = File::create(folder.path().join("log")).context("cannot create the log file")?;
        let data = folder.path().join("data");
        let mut init = program(&programs.join("initdb"), owner, folder.path());
        init.arg("-D").arg(&data).args([
            "-U",
            "bench",
            "--auth=trust",
            "--no-locale",
            "-E",
            "UTF8",
        ]);
        init.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
        if !init.status().context("cannot run initdb")?.success() {
            bail!("initdb failed");
        }
        let mut serve = program(&programs.join("postgres"), owner, folder.path());
        serve.arg("-D").arg(&data).arg("-k").arg(folder.path());
        for setting in [
            "listen_addresses=",
            "shared_buffers=2GB",
            "work_mem=256MB",
            "maintenance_work_mem=512MB",
            "max_wal_size=8GB",
            "synchronous_commit=off",
            "max_parallel_workers_per_gather=0",
            "autovacuum=off",
        ] {
            serve.arg("-c").arg(setting);
        }
        serve.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = serve.spawn().context("cannot start postgres")?;
        let server = Postgres { child, programs: programs.to_owned(), owner, folder };
        let begin = Instant::now();
        while server.sql("SELECT 1").is_err() {
            if begin.elapsed() > Duration::from_secs(30) {
                bail!("postgres does not answer");
            }
            sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    fn psql(&self) -> Command {
        let mut command = program(&self.programs.join("psql"), self.owner, self.folder.path());
        command.arg("-h").arg(self.folder.path());
        command.args(["-U", "bench", "-d", "postgres", "-X", "-q", "-v", "ON_ERROR_STOP=1"]);
        command
    }

    /// Runs SQL and discards the result.
    fn sql(&self, sql: &str) -> Result<()> {
        let mut command = self.psql();
        command.args(["-o", "/dev/null", "-c", sql]).stdin(Stdio::null()).stderr(Stdio::null());
        match command.status().context("cannot run psql")?.success() {
            true => Ok(()),
            false => Err(anyhow!("psql failed: {sql}")),
        }
    }

    /// Creates and fills a table.
    pub(super) fn load(&self, table: &Table, documents: u64) -> Result<()> {
        let name = table.name;
        self.sql(&format!("CREATE TABLE {name} (id bigint PRIMARY KEY, d jsonb)"))?;
        let mut command = self.psql();
        command.args(["-c", &format!("COPY {name} FROM STDIN")]).stdin(Stdio::piped());
        let mut copy = command.spawn().context("cannot run psql")?;
        {
            let input = copy.stdin.take().context("psql takes no input")?;
            let mut input = BufWriter::with_capacity(1 << 20, input);
            let mut bytes = Vec::new();
            for id in 0..(table.count)(documents) {
                bytes.clear();
                (table.write)(&mut bytes, id, documents);
                let text = ejson::print(RawDoc::new(&bytes), ejson::Format::Relaxed);
                // A backslash is COPY's own escape.
                writeln!(input, "{id}\t{}", text.replace('\\', "\\\\"))?;
            }
            input.flush()?;
        }
        if !copy.wait()?.success() {
            bail!("cannot fill the table {name}");
        }
        if let Some(index) = table.sql_index {
            self.sql(&format!("CREATE INDEX ON {name} ({index})"))?;
        }
        self.sql(&format!("VACUUM ANALYZE {name}"))
    }

    /// CPU and wall time of one run of a query in milliseconds.
    pub(super) fn measure(&self, sql: &str) -> Result<(f64, f64)> {
        self.sql(sql)?;
        let before = self.cpu()?;
        let begin = Instant::now();
        let mut runs = 0_u32;
        while runs == 0 || begin.elapsed() < super::LEAST {
            self.sql(sql)?;
            runs += 1;
        }
        let wall = begin.elapsed().as_secs_f64() * 1e3 / f64::from(runs);
        let cpu = self.cpu()?.saturating_sub(before).as_secs_f64() * 1e3 / f64::from(runs);
        Ok((cpu, wall))
    }

    /// CPU time of the server and of its ended sessions.
    fn cpu(&self) -> Result<Duration> {
        // The time of a session is added to that of the server once the server has noticed its end.
        sleep(Duration::from_millis(200));
        let path = format!("/proc/{}/stat", self.child.id());
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))?;
        let (_, rest) = text.rsplit_once(')').context("a process has no name")?;
        let ticks: u64 = rest
            .split_ascii_whitespace()
            .skip(11)
            .take(4)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Ok(Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / per_second)))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its children notice that their parent has ended, and end too.
        let _ = self.child.kill();
        let _ = self.child.wait();
        sleep(Duration::from_millis(300));
    }
}

fn program(path: &Path, owner: Option<(u32, u32)>, folder: &Path) -> Command {
    let mut command = Command::new(path);
    command.current_dir(folder);
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command
}

/// The user and group to run as if this process runs as root, which PostgreSQL refuses.
fn owner() -> Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").context("cannot read `/etc/passwd`")?;
    let line = users.lines().find(|line| line.starts_with("postgres:"));
    let line = line.context("PostgreSQL does not run as root, and there is no user postgres")?;
    let mut ids = line.split(':').skip(2).filter_map(|field| field.parse().ok());
    Ok(Some((ids.next().unwrap_or(0), ids.next().unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_become_json_that_copy_takes() {
        let mut bytes = Vec::new();
        value::writer::write_doc(&mut bytes, |out| {
            out.append("text", value::Val::String("a\\b\tc"));
        });
        let text = ejson::print(RawDoc::new(&bytes), ejson::Format::Relaxed);
        assert!(!text.contains('\t') && !text.contains('\n'), "{text}");
    }
}
