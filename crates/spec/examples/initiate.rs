//! Makes a new mongod a replica set of one and waits until it accepts writes, for
//! `scripts/spec-against-mongod`.

use client::{Client, Target};
use std::time::{Duration, Instant};
use value::{DocBuf, Error, Result, Val, ejson};

fn main() -> Result<()> {
    let uri = std::env::args().nth(1).ok_or_else(|| Error::bad_value("name a URI"))?;
    let address = Target::parse(&uri)?.address();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut client = loop {
        match Client::connect(&uri) {
            Ok(client) => break client,
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    };
    let members = format!("{{_id: 'rs0', members: [{{_id: 0, host: '{address}'}}]}}");
    let initiate = ejson::parse_doc(&format!("{{replSetInitiate: {members}}}"))?;
    // This fails if it is a member already; only whether it accepts writes matters.
    let started = client.run("admin", &initiate);
    let hello = DocBuf::build(|out| {
        out.i32("hello", 1);
    });
    while Instant::now() < deadline {
        let reply = client.run("admin", &hello)?;
        if reply.as_doc().get("isWritablePrimary").is_some_and(Val::truthy) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    started?;
    Err(Error::internal("the server does not become primary"))
}
