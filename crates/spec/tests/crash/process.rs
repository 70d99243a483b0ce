//! The server process: building, starting, killing, and checking its folder.

use client::Client;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use value::DocBuf;

/// Of this number of starts one has a small cache, and little memory for commits: it flushes, merges
/// and reads from files all the time.
const SMALL_CACHE_EVERY: usize = 2;
/// How long a start may take, recovery included.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The server to test: the one that `MOTIF` names, or the `motif` of this build, made when it is
/// missing or old.
pub(crate) fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("MOTIF") {
        let named = PathBuf::from(named);
        assert!(named.exists(), "MOTIF names {}, which is missing", named.display());
        return named;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "motif-cli", "--bin", "motif"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo can be started");
    assert!(built.success(), "the server does not build");
    // …/target/debug/deps/crash-HASH -> …/target/debug/motif
    let own = std::env::current_exe().expect("this program knows where it is");
    let binary = own.ancestors().nth(2).expect("tests stand two folders deep").join("motif");
    assert!(binary.exists(), "{} is missing", binary.display());
    binary
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    port: u16,
    log: PathBuf,
    /// From the start of the process to its first answer.
    pub(crate) start_time: Duration,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub(crate) fn start(binary: &Path, folder: &Path) -> Server {
        let begin = Instant::now();
        let mut server = Server::spawn(binary, folder);
        loop {
            if let Ok(mut client) = Client::connect(&server.uri())
                && client.run("admin", &command("ping")).is_ok()
            {
                server.start_time = begin.elapsed();
                return server;
            }
            if let Ok(Some(status)) = server.child.try_wait() {
                // Between finding the port and using it another program has taken it.
                if server.log_end().contains(&format!("127.0.0.1:{} is in use", server.port)) {
                    server = Server::spawn(binary, folder);
                    continue;
                }
                panic!("the server ended by itself ({status}); its log:\n{}", server.log_end());
            }
            if begin.elapsed() > START_TIMEOUT {
                panic!("the server does not answer; its log:\n{}", server.log_end());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts the process and does not wait.
    pub(crate) fn spawn(binary: &Path, folder: &Path) -> Server {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("there is a free port")
            .port();
        let log = folder.join("log.txt");
        let output = std::fs::File::options().create(true).append(true).open(&log);
        let output = output.expect("the log can be written");
        static STARTS: AtomicUsize = AtomicUsize::new(0);
        let is_small = STARTS.fetch_add(1, Ordering::Relaxed).is_multiple_of(SMALL_CACHE_EVERY);
        let cache = if is_small { "4MiB" } else { "256MiB" };
        let child = Command::new(binary)
            .arg("serve")
            .args(["--cache", cache])
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .arg("--data")
            .arg(folder.join("data"))
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file can be opened twice"))
            .stderr(output)
            .spawn()
            .expect("the server can be started");
        Server { child, port, log, start_time: Duration::ZERO }
    }

    /// Where clients connect.
    pub(crate) fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}", self.port)
    }

    /// A connection.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.uri()).expect("the server takes connections")
    }

    /// SIGKILL: nothing of the process runs any more.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process has ended");
    }

    /// A clean stop.
    pub(crate) fn stop(mut self) {
        let _ = self.connect().run("admin", &command("shutdown"));
        let begin = Instant::now();
        while begin.elapsed() < START_TIMEOUT {
            if let Ok(Some(status)) = self.child.try_wait() {
                assert!(status.success(), "a clean stop ends with {status}");
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server does not stop; its log:\n{}", self.log_end());
    }

    fn log_end(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Server {
    /// A test that panics leaves no process behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `motif check`: checksums, indexes against documents, counts.
pub(crate) fn check_folder(binary: &Path, folder: &Path) {
    let output = Command::new(binary)
        .arg("check")
        .arg(folder.join("data"))
        .output()
        .expect("motif check can be started");
    assert!(
        output.status.success(),
        "motif check finds fault:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// `{name: 1}`.
fn command(name: &str) -> DocBuf {
    DocBuf::build(|out| {
        out.i32(name, 1);
    })
}
