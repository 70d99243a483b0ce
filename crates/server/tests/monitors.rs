//! Monitors of drivers: a `hello` that waits for a change of the topology, and streams of them. Alone in
//! its file: it counts threads of the process.

mod client;

use client::*;
use std::time::Instant;
use value::{DocBuf, RawDoc, Val};

const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;

/// A `hello` that waits at most so many milliseconds, if the version is the current one.
fn hello(version: RawDoc<'_>, wait_ms: i32) -> DocBuf {
    DocBuf::build(|doc| {
        doc.i32("hello", 1).append("topologyVersion", Val::Document(version));
        doc.i32("maxAwaitTimeMS", wait_ms).str("$db", "admin");
    })
}

fn version(client: &mut RawClient) -> DocBuf {
    let reply = client.call(&message(1, 0, &command("hello")));
    let version = reply.body().get("topologyVersion").and_then(Val::as_doc).expect("a version");
    DocBuf::from(version)
}

fn threads() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find(|line| line.starts_with("Threads")).expect("a known figure");
    line.split_whitespace().nth(1).and_then(|figure| figure.parse().ok()).expect("a number")
}

#[test]
fn a_monitor_waits_for_its_time_and_then_has_its_reply() {
    let server = TestServer::start();
    let mut client = server.connect();
    let version = version(&mut client);
    let begin = Instant::now();
    let reply = client.call(&message(7, 0, &hello(version.as_doc(), 300)));
    assert!(begin.elapsed().as_millis() >= 300, "it waits");
    assert!(reply.is_ok() && reply.response_to == 7);
    assert_eq!(reply.flags() & MORE_TO_COME, 0);
    assert_eq!(reply.body().get("isWritablePrimary"), Some(Val::Bool(true)));
    client.ping().expect("the connection is as before");
    // Whoever has seen another process, or an older state, is told at once.
    let other = DocBuf::build(|doc| {
        doc.append("processId", Val::ObjectId(value::ObjectId([1; 12]))).i64("counter", 5);
    });
    let reply = client.call(&message(8, 0, &hello(other.as_doc(), 3_600_000)));
    assert!(reply.is_ok());
    assert_eq!(reply.body().get("topologyVersion"), Some(Val::Document(version.as_doc())));
}

#[test]
fn a_stream_goes_on_without_requests() {
    let server = TestServer::start();
    let mut client = server.connect();
    let version = version(&mut client);
    client.send(&message(7, EXHAUST_ALLOWED, &hello(version.as_doc(), 60)));
    let mut previous = 7;
    for _ in 0..4 {
        let reply = client.receive().expect("a reply");
        assert!(reply.is_ok() && reply.response_to == previous);
        assert_eq!(reply.flags() & MORE_TO_COME, MORE_TO_COME);
        previous = reply.request_id;
    }
    drop(client);
    eventually("its end is noticed", || server.handle.connections() == 0);
}

#[test]
fn monitors_that_wait_need_no_threads_and_their_end_is_noticed_at_once() {
    let server = TestServer::start();
    let version = version(&mut server.connect());
    let before = threads();
    let mut clients: Vec<_> = (0..300).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(&message(7, EXHAUST_ALLOWED, &hello(version.as_doc(), 600_000)));
    }
    // One more than that is or was the first client.
    eventually("all are there", || server.handle.connections() >= 300);
    eventually("threads end", || threads() < before + 60);
    assert!(server.is_alive());
    drop(clients);
    eventually("closed connections are forgotten", || server.handle.connections() == 0);
}

#[test]
fn what_a_client_sends_while_it_waits_is_answered_afterwards() {
    let server = TestServer::start();
    let mut client = server.connect();
    let version = version(&mut client);
    client.send(&message(7, 0, &hello(version.as_doc(), 200)));
    client.send(&message(8, 0, &ping()));
    for expected in [7, 8] {
        assert_eq!(client.receive().expect("a reply").response_to, expected);
    }
}

#[test]
fn a_waiting_monitor_does_not_hold_up_the_end() {
    let mut server = TestServer::start();
    let mut client = server.connect();
    let version = version(&mut client);
    client.send(&message(7, EXHAUST_ALLOWED, &hello(version.as_doc(), 600_000)));
    let begin = Instant::now();
    server.stop();
    assert!(begin.elapsed() < SOON);
    assert!(client.is_closed());
}

#[test]
fn half_of_the_fields_is_refused() {
    let server = TestServer::start();
    let mut client = server.connect();
    let version = version(&mut client);
    let code =
        |client: &mut RawClient, body: &DocBuf| client.call(&message(7, 0, body)).number("code");
    let alone = DocBuf::build(|doc| {
        doc.i32("hello", 1).append("topologyVersion", Val::Document(version.as_doc()));
        doc.str("$db", "admin");
    });
    assert_eq!(code(&mut client, &alone), 31368.0);
    let alone = DocBuf::build(|doc| {
        doc.i32("hello", 1).i32("maxAwaitTimeMS", 5).str("$db", "admin");
    });
    assert_eq!(code(&mut client, &alone), 31368.0);
    assert_eq!(code(&mut client, &hello(version.as_doc(), -1)), 51024.0);
    assert_eq!(code(&mut client, &hello(RawDoc::empty(), 5)), 40414.0);
}
