//! What the tests of the binary share: a server as a process, with its log.

#![allow(dead_code, reason = "not every test uses everything")]

use client::Client;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use value::{DocBuf, Val, ejson};

/// The binary, without settings from the environment.
pub fn motif() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_motif"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MOTIF_") {
            command.env_remove(name);
        }
    }
    command
}

/// A running server; it is killed when it is dropped.
pub struct Server {
    child: Child,
    /// What it prints for the person who started it.
    pub banner: String,
    /// Where it says that it can be reached.
    pub uri: String,
}

impl Server {
    /// Starts a server on a free port, with more arguments.
    pub fn start(folder: &Path, more: &[&str]) -> Server {
        let mut command = motif();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder).args(more);
        Server::spawn(command)
    }

    /// Runs a command that serves.
    pub fn spawn(mut command: Command) -> Server {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        let mut banner = String::new();
        while !banner.contains("\nAccess:") {
            let Some(line) = lines.next() else {
                let mut log = String::new();
                let _ = child.stderr.take().expect("is piped").read_to_string(&mut log);
                panic!("the server does not start: {log}");
            };
            banner.push_str(&line.expect("is text"));
            banner.push('\n');
        }
        let uri = banner
            .split_once("mongosh \"")
            .and_then(|(_, rest)| rest.split_once('"'))
            .map(|(uri, _)| uri.to_owned())
            .expect("the server says how to connect");
        Server { child, banner, uri }
    }

    /// Connects to it.
    pub fn client(&self) -> Client {
        Client::connect(&self.uri).expect("connects")
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops it by SIGTERM and returns its log.
    pub fn stop(mut self) -> String {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("runs").success());
        self.ended()
    }

    /// Kills it and returns its log.
    pub fn kill(mut self) -> String {
        self.child.kill().expect("is killed");
        self.ended()
    }

    fn ended(&mut self) -> String {
        let mut log = String::new();
        self.child.stderr.take().expect("is piped").read_to_string(&mut log).expect("is text");
        self.child.wait().expect("ends");
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A document.
pub fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).expect("test text")
}

/// A value inside of a reply, by its path.
pub fn at<'a>(reply: &'a DocBuf, path: &str) -> Option<Val<'a>> {
    let mut value = Val::Document(reply.as_doc());
    for name in path.split('.') {
        value = match value {
            Val::Document(doc) | Val::Array(doc) => doc.get(name)?,
            _ => return None,
        };
    }
    Some(value)
}
