//! What idle connections cost. Alone in its file: it counts threads and memory of the process.

mod client;

use client::*;
use server::ServerOptions;
use std::time::Duration;

/// A figure of this process from the kernel, such as `Threads` or `VmRSS` (in kB).
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find(|line| line.starts_with(name)).expect("a known figure");
    line.split_whitespace().nth(1).and_then(|figure| figure.parse().ok()).expect("a number")
}

#[test]
fn a_thousand_idle_connections_cost_few_threads_and_little_memory() {
    let options = ServerOptions { linger: Duration::from_millis(200), ..ServerOptions::default() };
    let server = TestServer::with(options);
    server.connect().ping().expect("warm");
    let memory = status("VmRSS");

    // Each has talked, so that each once had a thread and buffers.
    let mut clients: Vec<_> = (0..1000).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.ping().expect("a reply");
    }
    eventually("silent connections leave their buffers", || {
        std::thread::sleep(Duration::from_millis(500));
        status("VmRSS").saturating_sub(memory) < 25_000
    });
    assert_eq!(server.handle.connections(), 1000);

    // Threads end after a while without work; the few that remain serve everybody.
    eventually("threads end", || status("Threads") < 60);
    let before = status("Threads");
    for client in &mut clients {
        client.ping().expect("a parked connection wakes up");
    }
    eventually("threads that woke up end again", || status("Threads") < before + 200);

    // Connections that never say anything need no thread at all.
    let threads = status("Threads");
    let silent: Vec<_> = (0..500).map(|_| server.connect()).collect();
    eventually("all are accepted", || server.handle.connections() == 1500);
    assert!(status("Threads") <= threads + 2);
    drop(silent);
    drop(clients);
    eventually("closed connections are forgotten", || server.handle.connections() == 0);
}
