//! A server process under attack: thousands of connections, slow senders, huge and malformed messages,
//! compression bombs, endless logins, clients that do not read their replies. Meanwhile a normal client
//! reads documents by `_id`: all its reads must succeed, and the server's memory must stay bounded.
//!
//! The ignored test measures how much slower the normal client gets:
//! `cargo test --release -p motif-cli --test hostile -- --ignored --nocapture`. Real attackers have
//! machines of their own. Here they share one with the server and the normal client, so in that test
//! their threads run with `SCHED_IDLE`: they use only processor time that the other two leave. The work
//! of the server for them has its usual priority. `HOSTILE_SECONDS` is the duration of each attack (40),
//! `MOTIF` the program to attack.

#![allow(clippy::unwrap_used, reason = "in a test a failure is to be seen at once")]
#![allow(clippy::print_stdout, reason = "the measurement is read by people")]

use client::{Client, frame};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use value::{DocBuf, ejson};

const DOCUMENTS: i32 = 1000;
/// The limit of the server's memory: caches, messages, replies, the program itself and a few hundred
/// threads.
const MEMORY_MIB_MAX: u64 = 900;

/// A `motif serve` process with little memory; killed when dropped.
struct Server {
    child: Child,
    uri: String,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start(options: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        // Another build of the server may be measured.
        let program = std::env::var("MOTIF").unwrap_or(env!("CARGO_BIN_EXE_motif").to_owned());
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "error"]);
        command.args(["--cache", "64MiB", "--operation-memory", "256MiB"]).args(options);
        command.arg("--data").arg(folder.path()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let uri = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("Connect with: mongosh \"")?;
            Some(rest.trim_end_matches('"').to_owned())
        });
        Server { child, uri: uri.unwrap(), _folder: folder }
    }

    fn address(&self) -> SocketAddr {
        self.uri.strip_prefix("mongodb://").unwrap().parse().unwrap()
    }

    /// Memory that the process has, in MiB.
    fn memory_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).unwrap()
}

/// A command as a message.
fn message(text: &str) -> Vec<u8> {
    frame(1, 0, doc(text).as_doc())
}

/// A header and what follows.
fn framed(opcode: i32, length: usize, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [i32::try_from(length).unwrap(), 7, 0, opcode] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(content);
    bytes
}

/// A compressed message that unpacks to 47 MB: zstd frames of repeated bytes.
fn bomb() -> Vec<u8> {
    const BLOCK: u32 = 128 * 1024;
    const BLOCKS: u32 = 358;
    let size = BLOCK * BLOCKS;
    let mut content = Vec::new();
    content.extend_from_slice(&2013i32.to_le_bytes());
    content.extend_from_slice(&size.to_le_bytes());
    content.push(3);
    content.extend_from_slice(&[0x28, 0xB5, 0x2F, 0xFD, 0xA0]);
    content.extend_from_slice(&size.to_le_bytes());
    for block in 0..BLOCKS {
        let last = u32::from(block + 1 == BLOCKS);
        let head = (BLOCK << 3) | (1 << 1) | last;
        content.extend_from_slice(&head.to_le_bytes()[..3]);
        content.push(0);
    }
    framed(2012, 16 + content.len(), &content)
}

/// A message of 47 MB, all of it right: a command with a sequence of documents.
fn huge() -> Vec<u8> {
    let filler = DocBuf::build(|out| {
        out.str("x", &"y".repeat(1_000_000));
    });
    let mut sequence = b"things\0".to_vec();
    (0..46).for_each(|_| sequence.extend_from_slice(filler.bytes()));
    let mut content = vec![0, 0, 0, 0, 0];
    content.extend_from_slice(doc("{ping: 1, $db: 'admin'}").bytes());
    content.push(1);
    content.extend_from_slice(&i32::try_from(4 + sequence.len()).unwrap().to_le_bytes());
    content.extend_from_slice(&sequence);
    framed(2013, 16 + content.len(), &content)
}

/// A command in which documents are nested seven thousand times.
fn deep() -> Vec<u8> {
    let mut nested = Vec::new();
    for depth in (0..7_000u32).rev() {
        let length = depth * 8 + 5;
        let mut level = length.to_le_bytes().to_vec();
        if depth > 0 {
            level.extend_from_slice(&[3, b'a', 0]);
        }
        nested.extend(level);
    }
    nested.resize(nested.len() + 7_000, 0);
    let mut content = vec![0, 0, 0, 0, 0];
    content.extend_from_slice(&nested);
    framed(2013, 16 + content.len(), &content)
}

/// Where the attackers' threads run.
#[derive(Clone, Copy, PartialEq)]
enum AttackersRun {
    /// Beside the server and the good client.
    Here,
    /// As if on other machines: only when neither the server nor the good client has something to do.
    Elsewhere,
}

/// Makes the calling thread run only when no other thread is ready. The kernel compares threads of the
/// same session, as those of this process and of its child, the server, are.
fn yield_to_everybody() {
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let thread = thread.file_name().unwrap();
    let done = Command::new("chrt").args(["--idle", "--pid", "0"]).arg(thread).status();
    assert!(done.expect("chrt of util-linux").success(), "the thread may not have less priority");
}

/// Whom the attackers attack, and what came through to it.
#[derive(Clone)]
struct Target {
    address: SocketAddr,
    connections: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl Target {
    fn connect(&self) -> Option<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(5)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.set_write_timeout(Some(Duration::from_secs(5))).ok()?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        Some(stream)
    }

    /// Sends as much as is taken; whether that was all.
    fn send(&self, stream: &mut TcpStream, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while let Ok(count @ 1..) = stream.write(rest) {
            rest = &rest[count..];
            self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        }
        rest.is_empty()
    }

    /// Sends bytes on a new connection, and waits for an answer or the end.
    fn send_once(&self, bytes: &[u8]) {
        let Some(mut stream) = self.connect() else { return };
        if self.send(&mut stream, bytes) {
            let _ = stream.read(&mut [0; 64]);
        }
    }
}

/// The attackers, until they are told to stop.
struct Attack {
    target: Target,
    place: AttackersRun,
    stop: Arc<AtomicBool>,
    /// How often each attacker did what it does.
    counts: Vec<(&'static str, Arc<AtomicU64>)>,
    threads: Vec<JoinHandle<()>>,
}

impl Attack {
    fn new(address: SocketAddr, place: AttackersRun) -> Attack {
        let target = Target { address, connections: Arc::default(), bytes: Arc::default() };
        Attack { target, place, stop: Arc::default(), counts: Vec::new(), threads: Vec::new() }
    }

    /// Begins one kind of attack: `act` is done again and again, with what it left the last time.
    fn begin<S: Default + 'static>(
        &mut self,
        name: &'static str,
        act: impl Fn(&Target, &mut S) + Send + 'static,
    ) {
        let count = Arc::new(AtomicU64::new(0));
        self.counts.push((name, count.clone()));
        let (stop, target, place) = (self.stop.clone(), self.target.clone(), self.place);
        self.threads.push(std::thread::spawn(move || {
            if place == AttackersRun::Elsewhere {
                yield_to_everybody();
            }
            let mut state = S::default();
            while !stop.load(Ordering::Relaxed) {
                act(&target, &mut state);
                count.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }

    /// Ends it; gives how many connections were made, and how many bytes sent.
    fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        for (name, count) in &self.counts {
            let count = count.load(Ordering::Relaxed);
            println!("  {name}: {count} times");
            assert!(count > 0, "{name} was never done");
        }
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (count(&self.target.connections), count(&self.target.bytes))
    }
}

/// What needs no password.
fn attack_as_stranger(attack: &mut Attack, connections: usize) {
    attack.begin(
        "keeps thousands of connections open",
        move |target, open: &mut Vec<TcpStream>| {
            if open.len() < connections {
                open.extend((0..50).filter_map(|_| target.connect()));
            } else {
                open.drain(..10);
            }
            sleep(Duration::from_millis(5));
        },
    );
    attack.begin("sends a large message byte by byte", move |target, open: &mut Vec<TcpStream>| {
        while open.len() < 200 {
            open.extend(target.connect());
        }
        let promise = framed(2013, 48_000_000, &[0; 8]);
        for (at, stream) in open.iter_mut().enumerate() {
            let byte = promise[at % promise.len()];
            let bytes: &[u8] = if at % 3 == 0 { &promise } else { &[byte] };
            target.send(stream, bytes);
        }
        open.retain(|stream| stream.peer_addr().is_ok());
        open.drain(..20.min(open.len()));
        sleep(Duration::from_millis(20));
    });
    let deep = deep();
    attack.begin("nests deeply", move |target, (): &mut ()| {
        target.send_once(&deep);
        sleep(Duration::from_millis(5));
    });
    let half = message("{hello: 1, $db: 'admin'}");
    attack.begin("closes in the middle of a message", move |target, turn: &mut usize| {
        *turn += 1;
        if let Some(mut stream) = target.connect() {
            target.send(&mut stream, &half[..*turn % half.len()]);
        }
        sleep(Duration::from_millis(1));
    });
    attack.begin("begins logins and leaves them", move |target, open: &mut (Option<TcpStream>, u32)| {
        open.1 += 1;
        let payload = ejson::encode_base64(format!("n,,n=user{},r=abcdefgh", open.1).as_bytes());
        let start = message(&format!(
            "{{saslStart: 1, mechanism: 'SCRAM-SHA-256', payload: BinData(0, '{payload}'), $db: 'admin'}}"
        ));
        if open.1.is_multiple_of(500) {
            open.0 = None;
        }
        if open.0.is_none() {
            open.0 = target.connect();
        }
        let alive = open.0.as_mut().is_some_and(|stream| {
            target.send(stream, &start) && stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0)
        });
        if !alive {
            open.0 = None;
        }
    });
}

/// What only a client that may send commands can do.
fn attack_from_inside(attack: &mut Attack) {
    let huge = Arc::new(huge());
    for _ in 0..2 {
        let huge = huge.clone();
        attack.begin("sends messages of 47 MB", move |target, (): &mut ()| {
            target.send_once(&huge);
            sleep(Duration::from_millis(50));
        });
    }
    attack.begin("promises 48 MB and sends a part", move |target, open: &mut Vec<TcpStream>| {
        if open.len() > 40 {
            open.drain(..20);
        }
        if let Some(mut stream) = target.connect() {
            target.send(&mut stream, &framed(2013, 48_000_000, &vec![0; 20_000_000]));
            open.push(stream);
        }
        sleep(Duration::from_millis(50));
    });
    let bomb = bomb();
    attack.begin("sends bombs", move |target, (): &mut ()| {
        target.send_once(&bomb);
        sleep(Duration::from_millis(20));
    });
    let ask = message("{find: 'large', batchSize: 1000000, $db: 'test'}");
    attack.begin("asks for much and reads nothing", move |target, open: &mut Vec<TcpStream>| {
        if open.len() > 60 {
            open.drain(..10);
        }
        if let Some(mut stream) = target.connect() {
            target.send(&mut stream, &ask);
            open.push(stream);
        }
        sleep(Duration::from_millis(50));
    });
}

/// Documents to read, and some large ones.
fn fill(client: &mut Client) {
    let documents: Vec<String> =
        (0..DOCUMENTS).map(|id| format!("{{_id: {id}, a: 'some text'}}")).collect();
    let insert = format!("{{insert: 'c', documents: [{}]}}", documents.join(", "));
    client.run("test", &doc(&insert)).unwrap();
    let text = "x".repeat(1_000_000);
    for id in 0..14 {
        let insert = format!("{{insert: 'large', documents: [{{_id: {id}, text: '{text}'}}]}}");
        client.run("test", &doc(&insert)).unwrap();
    }
}

/// Reads documents for so long, at a steady pace; gives the times in microseconds, sorted.
fn read(client: &mut Client, time: Duration, reconnect: Option<&str>) -> Vec<u64> {
    let begin = Instant::now();
    let mut times = Vec::new();
    let mut id = 0;
    while begin.elapsed() < time {
        id = (id + 7) % DOCUMENTS;
        let find = doc(&format!("{{find: 'c', filter: {{_id: {id}}}}}"));
        let asked = Instant::now();
        let reply = client.run("test", &find).expect("the good client is answered");
        times.push(u64::try_from(asked.elapsed().as_micros()).unwrap());
        let batch = reply.as_doc().get("cursor").and_then(|cursor| cursor.as_doc()).unwrap();
        let batch = batch.get("firstBatch").and_then(|batch| batch.as_array()).unwrap();
        assert_eq!(batch.count(), 1);
        if let Some(uri) = reconnect
            && times.len() % 500 == 0
        {
            *client = Client::connect(uri).expect("the good client may come again");
        }
        sleep(Duration::from_millis(1));
    }
    times.sort_unstable();
    times
}

fn share(times: &[u64], part: f64) -> u64 {
    times[((times.len() - 1) as f64 * part) as usize]
}

/// What an attack came to: 99th percentiles of the good client's reads without and with it, in
/// microseconds, and the most memory that the server had, in MiB; what came through of the attack.
struct Outcome {
    calm: u64,
    attacked: u64,
    most: u64,
    connections: u64,
    bytes: u64,
}

/// A server with documents, its client, and how that client comes again.
fn prepare(auth: bool) -> (Server, Client, String) {
    let server = Server::start(if auth { &["--auth"] } else { &[] });
    let mut uri = server.uri.clone();
    if auth {
        let user = "{createUser: 'ada', pwd: 'countess', roles: ['root']}";
        Client::connect(&uri).unwrap().run("admin", &doc(user)).unwrap();
        uri = uri.replace("mongodb://", "mongodb://ada:countess@");
    }
    let mut client = Client::connect(&uri).unwrap();
    fill(&mut client);
    (server, client, uri)
}

/// Attacks a server for so long.
fn run(auth: bool, place: AttackersRun, time: Duration, connections: usize) -> Outcome {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let (server, mut client, uri) = prepare(auth);
    let calm = read(&mut client, time / 4, None);

    let mut attack = Attack::new(server.address(), place);
    attack_as_stranger(&mut attack, connections);
    if !auth {
        attack_from_inside(&mut attack);
    }
    sleep(Duration::from_secs(1));
    let done = Arc::new(AtomicBool::new(false));
    let (mut most, mut attacked) = (0, Vec::new());
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let times = read(&mut client, time, Some(&uri));
            done.store(true, Ordering::Relaxed);
            times
        });
        while !done.load(Ordering::Relaxed) && !reading.is_finished() {
            most = most.max(server.memory_mib());
            sleep(Duration::from_millis(50));
        }
        attacked = reading.join().unwrap();
    });
    println!(
        "{}: {} reads, half within {} us, 99 % within {} us (without attack {} us and {} us), most memory {most} MiB",
        if auth { "with --auth" } else { "without --auth" },
        attacked.len(),
        share(&attacked, 0.5),
        share(&attacked, 0.99),
        share(&calm, 0.5),
        share(&calm, 0.99),
    );
    let (connections, bytes) = attack.end();
    println!("  {connections} connections and {} MB came from the attackers", bytes / 1_000_000);
    // Whoever held something is gone; the server has it all back.
    let begin = Instant::now();
    loop {
        let status = client.run("admin", &doc("{serverStatus: 1}")).unwrap();
        let memory = status.as_doc().get("mem").and_then(|mem| mem.as_doc()).unwrap();
        let operations = memory.get("operations").and_then(|doc| doc.as_doc()).unwrap();
        let used = operations.get("usedBytes").and_then(|used| used.as_i64_exact()).unwrap();
        let open = status.as_doc().get("connections").and_then(|doc| doc.as_doc()).unwrap();
        let open = open.get("current").and_then(|count| count.as_i64_exact()).unwrap();
        if used == 0 && open < 10 {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(50), "{used} bytes, {open} connections left");
        sleep(Duration::from_millis(100));
    }
    let (calm, attacked) = (share(&calm, 0.99), share(&attacked, 0.99));
    Outcome { calm, attacked, most, connections, bytes }
}

#[test]
fn strangers_do_no_harm() {
    let outcome = run(true, AttackersRun::Here, Duration::from_secs(8), 2000);
    assert!(outcome.most < MEMORY_MIB_MAX, "{} MiB", outcome.most);
}

#[test]
fn clients_that_mean_harm_take_bounded_memory() {
    let outcome = run(false, AttackersRun::Here, Duration::from_secs(8), 1000);
    assert!(outcome.most < MEMORY_MIB_MAX, "{} MiB", outcome.most);
}

/// For a quiet machine with a release build.
#[test]
#[ignore = "measures times, which needs a quiet machine"]
fn a_good_client_stays_within_five_times() {
    let seconds = std::env::var("HOSTILE_SECONDS").map_or(40, |text| text.parse().unwrap());
    let outcomes = [true, false]
        .map(|auth| (auth, run(auth, AttackersRun::Elsewhere, Duration::from_secs(seconds), 5000)));
    for (auth, Outcome { calm, attacked, .. }) in &outcomes {
        let with = if *auth { "with" } else { "without" };
        let times = *attacked as f64 / *calm as f64;
        println!("{with} --auth: {calm} us calm, {attacked} us attacked, {times:.1} times");
    }
    for (auth, outcome) in outcomes {
        let Outcome { calm, attacked, most, connections, bytes } = outcome;
        assert!(most < MEMORY_MIB_MAX, "{most} MiB");
        // Those who yield to everybody must still have been able to attack.
        assert!(connections > 5000 + 100 * seconds, "only {connections} connections");
        assert!(auth || bytes > 20_000_000 * seconds, "only {bytes} bytes");
        assert!(attacked <= calm * 5, "{calm} us became {attacked} us");
    }
}
