//! Slow, silent, many and stopping connections: how they are served and how they end.

mod client;

use client::*;
use server::ServerOptions;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use value::{Val, ejson};

#[test]
fn the_rest_of_a_message_must_come_in_time() {
    let options = ServerOptions {
        linger: Duration::from_millis(50),
        message_timeout: Duration::from_secs(2),
        ..ServerOptions::default()
    };
    let server = TestServer::with(options);
    let bytes = message(1, 0, &ping());

    // A pause that is long enough to be parked, but not too long.
    let mut slow = server.connect();
    slow.send(&bytes[..20]);
    std::thread::sleep(Duration::from_millis(300));
    slow.send(&bytes[20..]);
    assert!(slow.receive().expect("a reply").is_ok());

    let started = Instant::now();
    let mut all_stuck: Vec<_> = [1, 10, 16, 20]
        .into_iter()
        .map(|cut| {
            let mut stuck = server.connect();
            stuck.send(&bytes[..cut]);
            stuck
        })
        .collect();
    for stuck in &mut all_stuck {
        assert!(stuck.is_closed());
        assert!(started.elapsed() > Duration::from_millis(1500));
        assert!(started.elapsed() < SOON);
    }

    // Always a little more, never all of it.
    let mut dripping = server.connect();
    let mut closed = false;
    for byte in framed(1, OP_MSG, &[0; 200]) {
        std::thread::sleep(Duration::from_millis(30));
        closed = dripping.stream.write_all(&[byte]).is_err();
        if closed {
            break;
        }
    }
    assert!(closed || dripping.is_closed());

    // Silence between messages is no fault.
    slow.ping().expect("still there");
}

#[test]
fn a_client_that_takes_no_replies_is_closed() {
    let options =
        ServerOptions { message_timeout: Duration::from_millis(300), ..ServerOptions::default() };
    let server = TestServer::with(options);
    let deaf = server.connect();
    let mut writer = deaf.stream.try_clone().expect("a second handle");
    writer.set_write_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let many: Vec<u8> = (0..5000).flat_map(|id| message(id, 0, &command("hello"))).collect();
    let started = Instant::now();
    while writer.write_all(&many).is_ok() {
        assert!(started.elapsed() < Duration::from_secs(60), "the server takes everything");
    }
    eventually("it is closed", || server.handle.connections() == 0);
    assert!(server.is_alive());
}

#[test]
fn connections_beyond_the_limit_are_closed_and_the_others_go_on() {
    let server = TestServer::with(ServerOptions { connections_max: 3, ..ServerOptions::default() });
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.ping().expect("a reply"));
    assert!(server.connect().is_closed());
    clients.iter_mut().for_each(|client| client.ping().expect("a reply"));
    clients.pop();
    eventually("there is room again", || server.handle.connections() == 2);
    server.connect().ping().expect("a reply");
}

#[test]
fn with_few_threads_all_clients_still_progress() {
    let server = TestServer::with(ServerOptions { threads_max: 2, ..ServerOptions::default() });
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    let started = Instant::now();
    for _ in 0..50 {
        for client in &mut clients {
            client.ping().expect("a reply");
        }
    }
    let threads: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            std::thread::spawn(move || {
                (0..300).for_each(|_| client.ping().expect("a reply"));
                // Messages in two parts, so that connections step back in the middle of one.
                let bytes = message(5, 0, &ping());
                for cut in 1..40 {
                    client.send(&bytes[..cut]);
                    std::thread::yield_now();
                    client.send(&bytes[cut..]);
                    assert!(client.receive().expect("a reply").is_ok());
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("all replies"));
    assert!(started.elapsed() < Duration::from_secs(120));
}

#[test]
fn a_stop_closes_connections_and_returns_soon() {
    let mut server = TestServer::start();
    let mut active = server.connect();
    active.ping().expect("a reply");
    let mut silent = server.connect();
    let mut half = server.connect();
    half.send(&message(1, 0, &ping())[..20]);
    eventually("all are accepted", || server.handle.connections() == 3);

    let started = Instant::now();
    server.stop();
    assert!(started.elapsed() < SOON);
    assert!(active.is_closed() && silent.is_closed() && half.is_closed());
    assert!(std::net::TcpStream::connect(server.address).is_err());
    server.handle.stop();
}

#[test]
fn a_stop_under_load_loses_no_reply_that_it_owes() {
    for _ in 0..5 {
        let mut server = TestServer::start();
        let counts: Vec<_> = (0..8).map(|_| Arc::new(AtomicUsize::new(0))).collect();
        let clients: Vec<_> = counts
            .iter()
            .map(|count| {
                let (mut client, count) = (server.connect(), count.clone());
                std::thread::spawn(move || {
                    while client.ping().is_ok() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let all_talk = || counts.iter().all(|count| count.load(Ordering::Relaxed) > 10);
        eventually("all clients are answered", all_talk);
        let started = Instant::now();
        server.stop();
        assert!(started.elapsed() < SOON);
        for client in clients {
            client.join().expect("no reply was wrong");
        }
    }
}

#[test]
fn a_stop_does_not_wait_for_clients_that_wait_for_news() {
    let mut server = TestServer::start();
    let mut client = server.connect();
    client.wait_for_news();
    let started = Instant::now();
    server.stop();
    assert!(started.elapsed() < SOON);
    let reply = client.receive().expect("it is told why");
    assert_eq!(reply.response_to, 4);
    assert!(!reply.is_ok());
    assert!(client.is_closed());
}

#[test]
fn a_client_that_goes_away_while_it_waits_is_noticed() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.wait_for_news();
    eventually("only this one is left", || server.handle.connections() == 1);
    drop(client);
    eventually("its connection ends", || server.handle.connections() == 0);
}

#[test]
fn a_client_that_goes_away_ends_its_operation_inside_of_one_expression() {
    // Loops in loops in loops, which take hours.
    let endless = "{$reduce: {input: {$range: [0, '$k']}, initialValue: 0, in:
        {$reduce: {input: {$range: [0, '$k']}, initialValue: 0, in:
        {$reduce: {input: {$range: [0, '$k']}, initialValue: 0, in: {$add: ['$$value', 1]}}}}}}}";
    let text = format!(
        "{{aggregate: 1, pipeline: [{{$documents: [{{k: 20000}}]}}, {{$project: {{v: {endless}}}}}],
            cursor: {{}}, comment: 'endless', $db: 'admin'}}"
    );
    let server = TestServer::start();
    let mut other = server.connect();
    let mut is_running = || {
        let reply = other.call(&message(1, 0, &command("currentOp")));
        let list = reply.body().get("inprog").and_then(Val::as_array).expect("a list");
        list.iter().filter_map(|(_, one)| one.as_doc()).any(|one| {
            let command = one.get("command").and_then(Val::as_doc);
            command.and_then(|command| command.get("comment")) == Some(Val::String("endless"))
        })
    };
    let mut client = server.connect();
    client.send(&message(2, 0, &ejson::parse_doc(&text).expect("a command")));
    eventually("it runs", &mut is_running);
    drop(client);
    eventually("it ends with its client", || !is_running());
    eventually("so does its connection", || server.handle.connections() == 1);
}

#[test]
fn a_shutdown_command_ends_the_server() {
    let mut server = TestServer::start();
    let mut client = server.connect();
    client.send(&message(1, 0, &command("shutdown")));
    let started = Instant::now();
    server.wait();
    assert!(started.elapsed() < SOON);
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn one_thread_reads_messages_that_come_in_parts() {
    let server = TestServer::with(ServerOptions { threads_max: 1, ..ServerOptions::default() });
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    let bytes = message(9, 0, &ping());
    for part in bytes.chunks(20) {
        for client in &mut clients {
            client.send(part);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    for client in &mut clients {
        assert!(client.receive().expect("a reply").is_ok());
    }
}
