//! Shapes: readers that see the documents of a collection in a form of their own. The kind
//! `testShape`, which only tests declare, shows `name: {first, last}` of the present version as
//! `full: "first last"` to readers of the version before.

#[path = "../harness/mod.rs"]
mod harness;

mod differential;
mod scenarios;

use harness::{Server, print};
use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use motifdb::{Client, Peer};

/// The declaration: version 2 is canonical, the application `old` uses version 1.
const SHAPE: &str =
    "{name: 'names', kind: 'testShape', version: 2, field: 'name', as: 'full', clients: {old: 1}}";

/// A connection of an application with this name.
fn connect(server: &Server, application: &str) -> Client {
    let mut client = server.0.connect(Peer::default());
    let hello = format!(
        "{{hello: 1, client: {{application: {{name: '{application}'}}, driver: {{name: 'd', version: '1'}}, os: {{type: 'x'}}}}}}"
    );
    let hello = ejson::parse_doc(&hello).expect("test text");
    client.run_command("admin", hello.as_doc()).expect("works");
    client
}

/// The reply to a command without times and identifiers that differ by chance, or its error.
fn outcome(client: &mut Client, db: &str, text: &str) -> String {
    let command = ejson::parse_doc(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    match client.run_command(db, command.as_doc()) {
        Ok(reply) => seen(reply.as_doc()),
        Err(error) => format!("{} {error}", error.code().0),
    }
}

/// What a client sees of a reply.
fn seen(reply: RawDoc<'_>) -> String {
    let kept = DocBuf::build(|out| {
        for (name, value) in reply {
            match name {
                "operationTime" | "$clusterTime" => {}
                "cursor" => {
                    let cursor = value.as_doc().unwrap_or(RawDoc::empty());
                    out.doc("cursor", |out| {
                        for (name, value) in cursor {
                            if !matches!(name, "id" | "atClusterTime" | "postBatchResumeToken") {
                                out.raw(name, value);
                            }
                        }
                    });
                }
                _ => {
                    out.raw(name, value);
                }
            }
        }
    });
    print(kept.as_doc())
}

/// The reply to a command that must work.
fn run(client: &mut Client, text: &str) -> DocBuf {
    let command = ejson::parse_doc(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let reply = client.run_command("t", command.as_doc());
    let reply = reply.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert!(reply.as_doc().get("writeErrors").is_none(), "{text}: {reply:?}");
    reply
}

/// The documents of a first batch.
fn docs(client: &mut Client, text: &str) -> Vec<DocBuf> {
    harness::batch(&run(client, text)).into_iter().map(DocBuf::from).collect()
}

/// All documents of the collection `c`.
fn all(client: &mut Client) -> Vec<DocBuf> {
    docs(client, "{find: 'c', sort: {_id: 1}, batchSize: 1000}")
}

/// The names of the indexes that a command uses, and `COLLSCAN` for the collection itself.
fn access(client: &mut Client, command: &str) -> Vec<String> {
    fn walk(value: Val<'_>, found: &mut Vec<String>) {
        if let Val::Document(doc) | Val::Array(doc) = value {
            if doc.get("stage") == Some(Val::String("COLLSCAN")) {
                found.push("COLLSCAN".to_owned());
            }
            if let Some(Val::String(name)) = doc.get("indexName") {
                found.push(name.to_owned());
            }
            doc.iter().for_each(|(_, value)| walk(value.get(), found));
        }
    }
    let reply = run(client, &format!("{{explain: {command}, verbosity: 'queryPlanner'}}"));
    let mut found = Vec::new();
    let planner = reply.as_doc().get("queryPlanner").and_then(Val::as_doc);
    let plan = planner.and_then(|planner| planner.get("winningPlan"));
    walk(plan.unwrap_or(Val::Document(reply.as_doc())), &mut found);
    found
}

/// The value at a path, in which numbers are positions in arrays.
fn at<'d>(doc: &'d DocBuf, path: &str) -> Val<'d> {
    let mut value = Val::Document(doc.as_doc());
    for part in path.split('.') {
        value = match value {
            Val::Document(doc) | Val::Array(doc) => doc.get(part).unwrap_or(Val::Missing),
            _ => Val::Missing,
        };
    }
    value
}

/// The text at a path; empty if there is none.
fn text<'d>(doc: &'d DocBuf, path: &str) -> &'d str {
    match at(doc, path) {
        Val::String(text) => text,
        _ => "",
    }
}

/// The whole number at a path; -1 if there is none.
fn whole(doc: &DocBuf, path: &str) -> i64 {
    at(doc, path).as_i64_exact().unwrap_or(-1)
}

/// The id of the cursor that a reply opens.
fn cursor(reply: &DocBuf) -> i64 {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    cursor.get("id").and_then(Val::as_i64_exact).expect("an id")
}

/// The events of a change stream so far.
fn events(client: &mut Client, cursor: i64) -> Vec<DocBuf> {
    let mut found = Vec::new();
    loop {
        let reply = run(
            client,
            &format!("{{getMore: NumberLong({cursor}), collection: 'c', maxTimeMS: 1}}"),
        );
        let batch = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        let batch = batch.get("nextBatch").and_then(Val::as_array).expect("a batch");
        if batch.is_empty() {
            return found;
        }
        found.extend(batch.iter().filter_map(|(_, event)| event.as_doc()).map(DocBuf::from));
    }
}
