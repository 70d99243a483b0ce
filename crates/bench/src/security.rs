//! The cost of security: encryption of point reads (`tls`), checks of privileges and logins
//! (`access`).

use super::bar::Bar;
use super::drive::{self, Drive, Target};
use super::process::{Program, Server};
use super::{Notes, Results, workload};
use ::access::scram::{Credentials, Mechanism, Proof};
use anyhow::{Context, Result, anyhow, bail};
use client::Client;
use motifdb::{Engine, Options, Peer};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use value::{DocBuf, Val, Writer};

/// Documents that point reads choose from.
const DOCUMENTS: u64 = 50_000;
/// Rounds, in which the variants take turns; the best of each counts.
const ROUNDS: u32 = 5;
/// Point reads of a round inside the process.
const READS: u32 = 20_000;
/// Logins of a round.
const LOGINS: u32 = 100;

/// Point reads on one connection, plain and encrypted.
pub(crate) struct Encryption {
    pub(crate) connections: usize,
    /// Operations per second.
    pub(crate) plain_rate: f64,
    pub(crate) tls_rate: f64,
    /// Server CPU for each read.
    pub(crate) plain_cpu_us: f64,
    pub(crate) tls_cpu_us: f64,
}

/// The cost of privileges and logins.
pub(crate) struct Access {
    /// A point read inside the process: without access control, and by a user.
    pub(crate) open_ns: f64,
    pub(crate) checked_ns: f64,
    /// Opening a connection and logging in.
    pub(crate) login_us: f64,
    /// The iterations of the password hash alone.
    pub(crate) iterations_us: f64,
    /// Server CPU for a new connection that logs in.
    pub(crate) login_cpu_us: f64,
}

impl Encryption {
    fn ratio(&self) -> f64 {
        self.tls_rate / self.plain_rate.max(1e-9)
    }
}

/// Prints the results as text.
pub(crate) fn table(out: &mut String, results: &Results) -> Result<()> {
    for found in &results.encryption {
        writeln!(
            out,
            "point reads, {} connections: plain {:.0}/s, {:.1} us CPU; TLS {:.0}/s, {:.1} us CPU",
            found.connections,
            found.plain_rate,
            found.plain_cpu_us,
            found.tls_rate,
            found.tls_cpu_us
        )?;
    }
    if let Some(found) = &results.access {
        writeln!(
            out,
            "point read in the process: {:.0} ns without privileges, {:.0} ns with them\n\
             new connection with login: {:.0} us, of which iterations {:.0} us; server CPU {:.0} us",
            found.open_ns,
            found.checked_ns,
            found.login_us,
            found.iterations_us,
            found.login_cpu_us
        )?;
    }
    Ok(())
}

/// Compares the results with their targets.
pub(crate) fn bars(results: &Results, bars: &mut Vec<Bar>) {
    for found in results.encryption.iter().filter(|found| found.connections == 1) {
        let ratio = found.ratio();
        let text = format!("encrypted point reads: {ratio:.2} of the plain rate (bar 0.70)");
        bars.push(Bar { text, reached: ratio >= 0.7 });
    }
    if let Some(found) = &results.access {
        let check_ns = found.checked_ns - found.open_ns;
        bars.push(Bar {
            text: format!("check of privileges on a point read: {check_ns:.0} ns (bar 1000)"),
            reached: check_ns < 1000.0,
        });
        let ratio = found.login_us / found.iterations_us.max(1e-9);
        bars.push(Bar {
            text: format!("login: {ratio:.2} times the iterations alone (bar 1.50)"),
            reached: ratio < 1.5,
        });
    }
}

/// Writes the results as JSON.
pub(crate) fn json(out: &mut Writer<'_>, results: &Results) {
    out.array("encryption", |list| {
        for found in &results.encryption {
            list.push_doc(|out| {
                out.count("connections", found.connections as u64);
                out.f64("plainRate", found.plain_rate).f64("tlsRate", found.tls_rate);
                out.f64("plainCpuUs", found.plain_cpu_us).f64("tlsCpuUs", found.tls_cpu_us);
            });
        }
    });
    if let Some(found) = &results.access {
        out.doc("access", |out| {
            out.f64("openNs", found.open_ns).f64("checkedNs", found.checked_ns);
            out.f64("loginUs", found.login_us).f64("iterationsUs", found.iterations_us);
            out.f64("loginCpuUs", found.login_cpu_us);
        });
    }
}

/// Measures encryption on one server, with plain and encrypted connections.
pub(crate) fn encryption(
    connections: &[usize],
    duration: Duration,
    parent: Option<&Path>,
    note: &Notes,
) -> Result<Vec<Encryption>> {
    let folder = TempDir::with_prefix("motif-bench-").context("cannot create a folder")?;
    let certificate = certificate(folder.path())?;
    let file = certificate.to_string_lossy();
    let options = ["--tls-mode", "allowTLS", "--tls-certificate-key-file", &file];
    let server = Server::start_with(&Program::Motif, parent, &options)?;
    let target = |name: &str, options: &str| Target {
        name: name.to_owned(),
        uri: format!("{}/?{options}", server.uri()),
        process: Some(server.process()),
    };
    let plain = target("plain", "tls=false");
    let encrypted = target("tls", &format!("tlsCAFile={file}"));
    workload::load_orders(&plain.uri, DOCUMENTS, &|_| ())?;
    server.process().settle(Duration::from_secs(10))?;
    let point = workload::by_name("point").context("there is a workload of point reads")?;
    let mut found = Vec::new();
    for &connections in connections {
        let (mut rates, mut cpus) = ([0f64; 2], [f64::INFINITY; 2]);
        for round in 0..ROUNDS {
            note.say(format!("point reads on {connections} connections, round {}", round + 1));
            for (at, target) in [&plain, &encrypted].into_iter().enumerate() {
                let seed = u64::from(round);
                let drive = Drive { connections, docs: DOCUMENTS, duration, seed };
                let outcome = drive::run(target, point, drive)?;
                rates[at] = rates[at].max(outcome.rate());
                cpus[at] = cpus[at].min(outcome.cpu_us().unwrap_or(f64::INFINITY));
            }
        }
        let ([plain_rate, tls_rate], [plain_cpu_us, tls_cpu_us]) = (rates, cpus);
        found.push(Encryption { connections, plain_rate, tls_rate, plain_cpu_us, tls_cpu_us });
    }
    Ok(found)
}

/// Creates a self-signed certificate with its key; returns its file.
fn certificate(folder: &Path) -> Result<std::path::PathBuf> {
    let file = folder.join("server.pem");
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&file)
        .arg("-out")
        .arg(folder.join("certificate.pem"))
        .output()
        .context("`tls` makes its certificate by the program openssl, which is not there")?;
    if !made.status.success() {
        bail!("openssl cannot make a certificate: {}", String::from_utf8_lossy(&made.stderr));
    }
    let mut whole = std::fs::read(folder.join("certificate.pem"))?;
    whole.extend(std::fs::read(&file)?);
    std::fs::write(&file, whole)?;
    Ok(file)
}

/// Measures the check of privileges and a login.
pub(crate) fn access(parent: Option<&Path>, note: &Notes) -> Result<Access> {
    note.say("point reads with and without privileges".to_owned());
    let (open_ns, checked_ns) = check()?;
    let mut iterations_us = f64::INFINITY;
    for _ in 0..LOGINS {
        let begin = Instant::now();
        let kept = Credentials::new(Mechanism::Sha256, "ada", "secret", iterations())
            .map_err(|error| anyhow!("{}", error.message()))?;
        iterations_us = iterations_us.min(begin.elapsed().as_secs_f64() * 1e6);
        drop(kept);
    }
    note.say("logins".to_owned());
    let server = Server::start_with(&Program::Motif, parent, &["--auth"])?;
    let mut first = Client::connect(&server.uri())?;
    first.run("admin", &create_user()).context("cannot make a user")?;
    let uri = server.uri().replacen("mongodb://", "mongodb://ada:secret@", 1);
    let (mut login_us, mut spent) = (f64::INFINITY, Duration::ZERO);
    for _ in 0..ROUNDS {
        server.process().settle(Duration::from_secs(3))?;
        let before = server.process().cpu()?;
        for _ in 0..LOGINS {
            let begin = Instant::now();
            Client::connect(&uri)?;
            login_us = login_us.min(begin.elapsed().as_secs_f64() * 1e6);
        }
        spent += server.process().cpu()?.saturating_sub(before);
    }
    // The kernel counts in hundredths of a second, too coarse for one round.
    let login_cpu_us = spent.as_secs_f64() * 1e6 / f64::from(LOGINS * ROUNDS);
    Ok(Access { open_ns, checked_ns, login_us, iterations_us, login_cpu_us })
}

fn iterations() -> u32 {
    Mechanism::Sha256.usual_iterations()
}

fn create_user() -> DocBuf {
    DocBuf::build(|out| {
        out.str("createUser", "ada").str("pwd", "secret");
        out.array("roles", |roles| roles.push(Val::String("root")));
    })
}

/// Nanoseconds of a point read inside the process: without access control, and by a user.
fn check() -> Result<(f64, f64)> {
    let said = |error: value::Error| anyhow!("{}", error.message());
    let engine = Engine::open(Options::default()).map_err(said)?;
    let mut open = engine.connect(Peer::default());
    let insert = DocBuf::build(|out| {
        out.str("insert", "orders").array("documents", |documents| {
            for id in 0..1000 {
                documents.push_doc(|doc| {
                    doc.i32("_id", id).str("what", "something that is read by its id");
                });
            }
        });
    });
    open.run_command("shop", insert.as_doc()).map_err(said)?;
    open.run_command("admin", create_user().as_doc()).map_err(said)?;
    // Two roles, as a typical application has.
    let user = DocBuf::build(|out| {
        out.str("createUser", "app").str("pwd", "secret");
        out.array("roles", |roles| {
            for db in ["shop", "stock"] {
                roles.push_doc(|role| {
                    role.str("role", "readWrite").str("db", db);
                });
            }
        });
    });
    open.run_command("admin", user.as_doc()).map_err(said)?;
    let peer = Peer { authenticate: true, connection_id: 2, ..Peer::default() };
    let mut checked = engine.connect(peer);
    log_in(&mut checked, "app", "secret").map_err(said)?;
    let finds: Vec<DocBuf> = (0..1000)
        .map(|id| {
            DocBuf::build(|out| {
                out.str("find", "orders").doc("filter", |filter| {
                    filter.i32("_id", id);
                });
                out.i32("limit", 1).bool("singleBatch", true).str("$db", "shop");
            })
        })
        .collect();
    let mut best = [f64::INFINITY; 2];
    let mut reply = Vec::new();
    for _ in 0..ROUNDS * 4 {
        for (at, client) in [&mut open, &mut checked].into_iter().enumerate() {
            let begin = Instant::now();
            for find in finds.iter().cycle().take(READS as usize) {
                reply.clear();
                client.run(&motifdb::Request::new(find.as_doc()), &mut reply);
            }
            let each = begin.elapsed().as_secs_f64() * 1e9 / f64::from(READS);
            best[at] = best[at].min(each);
        }
    }
    let shown = value::RawDoc::new(&reply);
    if !shown.get("ok").is_some_and(Val::truthy) {
        bail!("the user may not read");
    }
    Ok((best[0], best[1]))
}

/// Logs in without a socket.
fn log_in(client: &mut motifdb::Client, user: &str, password: &str) -> value::Result<()> {
    let (mut proof, first) = Proof::start(Mechanism::Sha256, user, password)?;
    let start = DocBuf::build(|out| {
        out.i32("saslStart", 1).str("mechanism", Mechanism::Sha256.name());
        out.append("payload", Val::Binary(0, first.as_bytes()));
        out.doc("options", |out| {
            out.bool("skipEmptyExchange", true);
        });
    });
    let reply = client.run_command("admin", start.as_doc())?;
    let payload = |reply: &DocBuf| match reply.as_doc().get("payload") {
        Some(Val::Binary(_, bytes)) => bytes.to_vec(),
        _ => Vec::new(),
    };
    let last = proof.answer(&payload(&reply))?;
    let go_on = DocBuf::build(|out| {
        out.i32("saslContinue", 1).i32("conversationId", 1);
        out.append("payload", Val::Binary(0, last.as_bytes()));
    });
    let reply = client.run_command("admin", go_on.as_doc())?;
    proof.verify(&payload(&reply))
}
