//! After a restart: everything that was acknowledged is there, nothing else is, each document is
//! whole, each index agrees with its documents.

use crate::writer::{self, DATABASE, DocumentState, Pending, Writer};
use client::Client;
use std::collections::{BTreeMap, BTreeSet};
use value::{DocBuf, RawDoc, Val, ejson};

/// Makes the collections with their indexes.
pub(crate) fn create_collections(client: &mut Client) {
    run(
        client,
        "{createIndexes: 'docs', indexes: [\
            {key: {unique: 1}, name: 'unique', unique: true}, \
            {key: {w: 1, v: -1}, name: 'version'}, \
            {key: {w: 1, n: 1}, name: 'number'}, \
            {key: {keys: 1}, name: 'keys'}]}",
    );
    run(
        client,
        "{createIndexes: 'claims', indexes: [{key: {claim: 1}, name: 'claim', unique: true}]}",
    );
    run(client, "{create: 'counters'}");
}

/// Compares the database with what the writers know, and settles what was under way.
pub(crate) fn audit(client: &mut Client, writers: &mut [Writer]) {
    audit_documents(client, writers);
    audit_claims(client, writers);
    audit_counters(client, writers);
    for (collection, indexes) in [
        ("docs", &["unique", "version", "number", "keys"][..]),
        ("claims", &["claim"][..]),
        ("counters", &[][..]),
    ] {
        audit_indexes(client, collection, indexes);
    }
    for writer in writers {
        writer.pending = None;
    }
}

fn audit_documents(client: &mut Client, writers: &mut [Writer]) {
    let mut found: Vec<BTreeMap<i64, DocumentState>> = vec![BTreeMap::new(); writers.len()];
    for doc in all(client, "docs", "") {
        let (writer, number, state) = whole(doc.as_doc());
        let earlier = found[writer].insert(number, state);
        assert!(earlier.is_none(), "there are two documents {writer}-{number}");
    }
    for (writer, found) in writers.iter_mut().zip(found) {
        let pending = writer.pending.take();
        if let Some(pending) = &pending {
            settle(writer, pending, &found);
        }
        // What is left must be exactly what was acknowledged.
        let expected = &writer.documents;
        for (number, state) in expected {
            match found.get(number) {
                Some(other) if other == state => {}
                Some(other) => panic!(
                    "document {}-{number} has {other:?}, acknowledged was {state:?} \
                     ({pending:?} was under way)",
                    writer.number
                ),
                None => panic!(
                    "document {}-{number} was acknowledged and is gone ({pending:?} was under way)",
                    writer.number
                ),
            }
        }
        if let Some(number) = found.keys().find(|number| !expected.contains_key(number)) {
            panic!(
                "document {}-{number} is there and should not be ({pending:?} was under way)",
                writer.number
            );
        }
        writer.pending = pending;
    }
}

/// Takes over what a request without an answer did or did not do.
fn settle(writer: &mut Writer, pending: &Pending, found: &BTreeMap<i64, DocumentState>) {
    let mut applied = 0;
    let mut lost = 0;
    match pending {
        Pending::Insert(numbers) => {
            for number in numbers {
                if found.get(number) == Some(&DocumentState::default()) {
                    assert_eq!(lost, 0, "a batch in order was applied with a hole at {number}");
                    writer.documents.insert(*number, DocumentState::default());
                    applied += 1;
                } else {
                    lost += 1;
                }
            }
        }
        Pending::Update(number) => {
            let state = writer.known(*number);
            if found.get(number) == Some(&DocumentState { version: state.version + 1, ..*state }) {
                state.version += 1;
                applied += 1;
            } else {
                lost += 1;
            }
        }
        Pending::UpdateMany(numbers) => {
            for number in numbers {
                let state = writer.known(*number);
                if found.get(number) == Some(&DocumentState { bulk: state.bulk + 1, ..*state }) {
                    state.bulk += 1;
                    applied += 1;
                } else {
                    lost += 1;
                }
            }
        }
        Pending::Delete(number) => {
            if found.contains_key(number) {
                lost += 1;
            } else {
                writer.documents.remove(number);
                applied += 1;
            }
        }
        Pending::Refused(number) => {
            assert!(!found.contains_key(number), "the unique index let {number} in");
        }
        Pending::Claim(_) | Pending::Increment => {}
    }
    writer.applied_unacknowledged += applied;
    writer.lost_unacknowledged += lost;
}

/// Writer, number and state of a document whose fields all tell the same version.
fn whole(doc: RawDoc<'_>) -> (usize, i64, DocumentState) {
    let show = || ejson::print(doc, ejson::Format::Shell);
    let number = |name: &str| {
        doc.get(name).and_then(Val::as_i64_exact).unwrap_or_else(|| panic!("no {name}: {}", show()))
    };
    let (writer, n, v, bulk) = (number("w") as usize, number("n"), number("v"), number("bulk"));
    let expected = DocBuf::build(|out| writer::fill(out, writer, n, v));
    for (name, value) in expected.as_doc() {
        if name != "bulk" {
            assert_eq!(doc.find(name), Some(value), "{name} does not fit the version: {}", show());
        }
    }
    assert_eq!(doc.count(), expected.as_doc().count(), "other fields: {}", show());
    (writer, n, DocumentState { version: v, bulk })
}

fn audit_claims(client: &mut Client, writers: &mut [Writer]) {
    let mut owners = BTreeMap::new();
    for doc in all(client, "claims", "") {
        let doc = doc.as_doc();
        let claim = doc.get("claim").and_then(Val::as_i64_exact).expect("a claim has its number");
        let owner = doc.get("w").and_then(Val::as_i64_exact).expect("a claim has its owner");
        let owner = usize::try_from(owner).expect("owners are small numbers");
        let earlier = owners.insert(claim, owner);
        assert!(earlier.is_none(), "claim {claim} has two owners, in spite of its unique index");
    }
    let mut known = BTreeSet::new();
    for writer in writers.iter_mut() {
        if let Some(Pending::Claim(claim)) = writer.pending {
            let ours = owners.get(&claim) == Some(&writer.number);
            if ours && !writer.claimed.contains(&claim) {
                writer.claimed.push(claim);
                writer.applied_unacknowledged += 1;
            } else {
                writer.lost_unacknowledged += 1;
            }
        }
        for claim in &writer.claimed {
            assert_eq!(owners.get(claim), Some(&writer.number), "claim {claim} was acknowledged");
            known.insert(*claim);
        }
    }
    for (claim, owner) in owners {
        assert!(known.contains(&claim), "claim {claim} of {owner} was never made");
    }
}

/// Every increment counts once, also those that are sent again now.
fn audit_counters(client: &mut Client, writers: &mut [Writer]) {
    for writer in writers.iter_mut() {
        writer.retry_increment(client).expect("an increment can be sent again");
    }
    let counters: BTreeMap<i64, i64> = all(client, "counters", "")
        .iter()
        .map(|doc| {
            let number = |name| doc.as_doc().get(name).and_then(Val::as_i64_exact).unwrap_or(-1);
            (number("_id"), number("n"))
        })
        .collect();
    for writer in writers {
        let found = counters.get(&(writer.number as i64)).copied().unwrap_or(0);
        assert_eq!(
            found, writer.increments,
            "counter of writer {}: each retryable increment counts once ({:?} was under way)",
            writer.number, writer.pending
        );
    }
}

fn audit_indexes(client: &mut Client, collection: &str, indexes: &[&str]) {
    let ids = |docs: Vec<DocBuf>| -> BTreeSet<Vec<u8>> {
        let ids = docs.iter().filter_map(|doc| doc.as_doc().find("_id"));
        ids.map(|id| id.bytes.to_vec()).collect()
    };
    let documents = ids(all(client, collection, ", projection: {_id: 1}"));
    for index in indexes {
        // Read in the order of the index, so that it is the index which is read.
        let hint = format!(", hint: '{index}', projection: {{_id: 1}}");
        let through = ids(all(client, collection, &hint));
        assert!(
            through == documents,
            "index {index} of {collection} leads to {} documents, there are {}",
            through.len(),
            documents.len()
        );
    }
    let counted = run(client, &format!("{{count: '{collection}'}}"));
    let counted = counted.as_doc().get("n").and_then(Val::as_i64_exact);
    assert_eq!(counted, Some(documents.len() as i64), "the count of {collection}");
    let validated = run(client, &format!("{{validate: '{collection}', full: true}}"));
    let valid = validated.as_doc().get("valid") == Some(Val::Bool(true));
    let text = || ejson::print(validated.as_doc(), ejson::Format::Shell);
    assert!(valid, "validate finds fault with {collection}: {}", text());
}

/// All documents of a collection; `more` is appended to the command.
fn all(client: &mut Client, collection: &str, more: &str) -> Vec<DocBuf> {
    let command = parse(&format!("{{find: '{collection}'{more}}}"));
    let cursor = client.cursor(DATABASE, &command).expect("the collection can be read");
    cursor.collect().expect("the cursor can be read to its end")
}

fn run(client: &mut Client, command: &str) -> DocBuf {
    let reply = client.run(DATABASE, &parse(command));
    reply.unwrap_or_else(|error| panic!("{command}: {error}"))
}

fn parse(text: &str) -> DocBuf {
    ejson::parse_doc(text).expect("the command is well written")
}
