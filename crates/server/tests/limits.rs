//! What clients may cost before and after they have logged in: messages, memory, places.

mod client;

use client::*;
use motifdb::{Engine, Options};
use server::ServerOptions;
use std::io::Write;
use std::time::{Duration, Instant};
use value::DocBuf;

#[test]
fn who_has_not_logged_in_sends_small_messages_at_a_pace() {
    let options = ServerOptions {
        authenticate: true,
        stranger_messages_per_second: 20,
        ..ServerOptions::default()
    };
    let server = TestServer::with(options);
    let mut client = server.connect();
    let started = Instant::now();
    // The burst is eighty messages; the other forty take two seconds.
    for _ in 0..120 {
        assert!(client.call(&message(1, 0, &command("hello"))).is_ok());
    }
    let took = started.elapsed();
    assert!(took > Duration::from_millis(1500), "{took:?}");

    // All at once, as far as the server is concerned: answered in order, later.
    let many: Vec<u8> = (0..40).flat_map(|id| message(id, 0, &command("hello"))).collect();
    client.send(&many);
    for id in 0..40 {
        assert_eq!(client.receive().expect("a reply").response_to, id);
    }

    let mut large = server.connect();
    let _ = large.stream.write_all(&framed(1, OP_MSG, &vec![0; 100_000]));
    assert!(large.is_closed());
    assert!(server.connect().call(&message(1, 0, &command("hello"))).is_ok());
}

#[test]
fn without_authentication_there_is_no_pace() {
    let server = TestServer::with(ServerOptions {
        stranger_messages_per_second: 1,
        ..ServerOptions::default()
    });
    let mut client = server.connect();
    let started = Instant::now();
    (0..200).for_each(|_| client.ping().expect("a reply"));
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_connection_that_never_says_anything_is_closed() {
    let options =
        ServerOptions { message_timeout: Duration::from_secs(2), ..ServerOptions::default() };
    let server = TestServer::with(options);
    let mut talker = server.connect();
    talker.ping().expect("a reply");
    let started = Instant::now();
    let mut silent = server.connect();
    assert!(silent.is_closed());
    assert!(started.elapsed() > Duration::from_millis(1500));
    // Who has said something may be silent as long as it likes.
    talker.ping().expect("still there");
}

#[test]
fn silent_connections_make_room_for_new_ones() {
    let server = TestServer::with(ServerOptions { connections_max: 3, ..ServerOptions::default() });
    let mut good = server.connect();
    good.ping().expect("a reply");
    let silent: Vec<_> = (0..2).map(|_| server.connect()).collect();
    eventually("all are accepted", || server.handle.connections() == 3);
    std::thread::sleep(Duration::from_millis(2200));
    let mut new = server.connect();
    new.ping().expect("a place was made");
    good.ping().expect("nobody else was closed");
    drop(silent);
}

#[test]
fn large_messages_wait_for_memory_and_small_ones_do_not() {
    let engine = Options { operation_bytes: 64 * 1024 * 1024, ..Options::default() };
    let engine = Engine::open(engine).expect("an engine in memory");
    let options =
        ServerOptions { memory_timeout: Duration::from_millis(1500), ..ServerOptions::default() };
    let server = TestServer::over(engine.clone(), options);
    // Each sends 20 MB of 48 and keeps quiet; more than three do not fit.
    let part = framed(1, OP_MSG, &vec![0; 20_000_000]);
    let mut part = part;
    part[..4].copy_from_slice(&48_000_000i32.to_le_bytes());
    let senders: Vec<_> = (0..8)
        .map(|_| {
            let mut client = server.connect();
            let part = part.clone();
            std::thread::spawn(move || {
                let _ = client.stream.set_write_timeout(Some(Duration::from_secs(10)));
                let _ = client.stream.write_all(&part);
                client
            })
        })
        .collect();
    let mut good = server.connect();
    let started = Instant::now();
    let mut most = 0;
    // Longer than messages wait for memory, and until some have it, however slowly they are sent.
    while started.elapsed() < Duration::from_secs(3)
        || (most <= 20_000_000 && started.elapsed() < SOON)
    {
        good.ping().expect("small messages need no memory");
        most = most.max(engine.memory().used());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(most > 20_000_000, "{most} bytes were counted");
    assert!(most <= 64 * 1024 * 1024, "{most} bytes were held");
    // Those that found no memory are gone; the others may go on.
    let senders: Vec<_> = senders.into_iter().map(|sender| sender.join().expect("sent")).collect();
    eventually("some were closed", || server.handle.connections() < 9);
    drop(senders);
    eventually("all memory is given back", || engine.memory().used() == 0);
    good.ping().expect("still there");
}

/// More than there are threads for clients that have not logged in, on any machine with few cores.
const MANY: usize = 70;

fn locked_server() -> TestServer {
    TestServer::with(ServerOptions { authenticate: true, ..ServerOptions::default() })
}

/// Somebody new is answered, and soon.
fn takes_newcomers(server: &TestServer) {
    let started = Instant::now();
    let mut client = server.connect();
    assert!(client.call(&message(1, 0, &command("hello"))).is_ok());
    let took = started.elapsed();
    assert!(took < SOON, "{took:?}");
}

#[test]
fn strangers_that_do_not_read_do_not_keep_others_from_logging_in() {
    // Eight megabytes of replies: more than the system keeps for a client that does not read.
    let options = ServerOptions {
        authenticate: true,
        stranger_messages_per_second: 1000,
        ..ServerOptions::default()
    };
    let server = TestServer::with(options);
    let ask: Vec<u8> = (0..700).flat_map(|id| message(id, 0, &command("listCommands"))).collect();
    let mut deaf: Vec<_> = (0..MANY).map(|_| server.connect()).collect();
    for client in &mut deaf {
        client.send(&ask);
        takes_newcomers(&server);
    }
}

#[test]
fn strangers_that_send_byte_by_byte_do_not_keep_others_from_logging_in() {
    let server = locked_server();
    let hello = message(1, 0, &command("hello"));
    let mut slow: Vec<_> = (0..MANY).map(|_| server.connect()).collect();
    for byte in &hello[..hello.len() - 1] {
        slow.iter_mut().for_each(|client| client.send(&[*byte]));
        takes_newcomers(&server);
    }
    for client in &mut slow {
        assert!(client.call(&hello[hello.len() - 1..]).is_ok());
    }
}

/// A column of `/proc/PID/stat` for this process's threads that have this name, counted from behind
/// the name.
#[cfg(target_os = "linux")]
fn column_of(name: &str, column: usize) -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task")
        .expect("threads of this process")
        .filter_map(Result::ok);
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    // The name may have spaces in it.
    let parts = stats.filter_map(|stat| {
        let (front, behind) = stat.rsplit_once(") ")?;
        front.ends_with(&format!("({name}")).then_some(())?;
        behind.split(' ').nth(column)?.parse().ok()
    });
    parts.collect()
}

/// The niceness of this process's threads that have this name.
#[cfg(target_os = "linux")]
fn niceness_of(name: &str) -> Vec<i32> {
    column_of(name, 16)
}

/// What time of a processor threads of this name have used that exist now, in the system's ticks.
#[cfg(target_os = "linux")]
fn time_of(name: &str) -> i32 {
    column_of(name, 11).into_iter().chain(column_of(name, 12)).sum()
}

#[cfg(target_os = "linux")]
#[test]
fn a_large_command_runs_at_the_usual_priority() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.ping().expect("a reply");
    let (usual, humble) = (time_of("connection"), time_of("large"));
    // Each is two megabytes to read and validate, and much more work to insert.
    for turn in 0..3 {
        let documents: Vec<u8> = (0..50_000)
            .flat_map(|id| {
                let doc = DocBuf::build(|doc| {
                    doc.i32("_id", turn * 50_000 + id).i32("a", id).i32("b", -id);
                });
                doc.bytes().to_vec()
            })
            .collect();
        let body = DocBuf::build(|doc| {
            doc.str("insert", "c").str("$db", "test");
        });
        let mut content = vec![0; 5];
        content.extend_from_slice(body.bytes());
        content.push(1);
        let name = b"documents\0";
        let size = i32::try_from(4 + name.len() + documents.len()).unwrap();
        content.extend_from_slice(&size.to_le_bytes());
        content.extend_from_slice(name);
        content.extend_from_slice(&documents);
        let reply = client.call(&framed(turn, OP_MSG, &content));
        assert_eq!(reply.number("n"), 50_000.0);
    }
    let (usual, humble) = (time_of("connection") - usual, time_of("large") - humble);
    assert!(usual > 2 * humble, "{usual} ticks at the usual priority, {humble} at the lower one");
}

#[cfg(target_os = "linux")]
#[test]
fn strangers_and_large_messages_have_threads_of_low_priority() {
    let server = locked_server();
    let open = TestServer::start();
    let mut known = open.connect();
    takes_newcomers(&server);
    let large = DocBuf::build(|doc| {
        doc.i32("ping", 1).str("comment", &"x".repeat(3_000_000)).str("$db", "admin");
    });
    // Small and large ones come as they like, also together.
    for _ in 0..3 {
        known.ping().expect("a reply");
        known.send(
            &[message(9, 0, &large), message(10, 0, &ping()), message(11, 0, &large)].concat(),
        );
        for id in 9..=11 {
            assert_eq!(known.receive().expect("a reply").response_to, id);
        }
    }
    // Packed, though not smaller: it is unpacked by one thread and run by another.
    let inside = &message(12, 0, &large)[16..];
    let size = i32::try_from(inside.len()).unwrap();
    let packed = [&OP_MSG.to_le_bytes(), &size.to_le_bytes(), &[0][..], inside].concat();
    for id in 12..15 {
        let reply = known.call(&framed(id, OP_COMPRESSED, &packed));
        assert_eq!((reply.response_to, reply.opcode), (id, OP_COMPRESSED));
    }
    let usual = niceness_of("connection");
    assert!(!usual.is_empty());
    for name in ["background", "large", "accept"] {
        let humble = niceness_of(name);
        assert!(!humble.is_empty(), "there is no thread {name}");
        assert!(humble.iter().min() > usual.iter().max(), "{name}: {usual:?} {humble:?}");
    }
}
