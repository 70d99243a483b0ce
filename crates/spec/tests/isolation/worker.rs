//! One client: runs random transactions, and single writes between them, until it is told to stop
//! or the server is gone.

use super::doc;
use super::history::{Operation, Outcome, Transaction, number, numbers};
use super::random::Random;
use client::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Lists that all clients share: few, so that they meet.
const KEYS: u64 = 6;

/// Makes the lists, and the collection of rows with its index.
pub(crate) fn set_up(client: &mut Client) {
    let lists: Vec<String> = (0..KEYS).map(|key| format!("{{_id: {key}, list: []}}")).collect();
    let insert = format!("{{insert: 'a', documents: [{}]}}", lists.join(", "));
    client.run("t", &doc(&insert)).expect("works");
    let index = "{createIndexes: 'b', indexes: [{key: {group: 1}, name: 'group'}]}";
    client.run("t", &doc(index)).expect("works");
}

pub(crate) struct Worker {
    random: Random,
    group: u64,
    next: Arc<AtomicU64>,
    session: String,
    number: u64,
    pub(crate) transactions: Vec<Transaction>,
    /// A transaction whose commit was sent, but not answered.
    unknown: Option<Transaction>,
}

fn is_lost(error: &Error) -> bool {
    matches!(error.code(), Code::SOCKET_EXCEPTION | Code::HOST_UNREACHABLE)
        || error.code() == Code::SHUTDOWN_IN_PROGRESS
}

impl Worker {
    pub(crate) fn new(seed: u64, group: u64, next: Arc<AtomicU64>) -> Worker {
        let mut random = Random::new(seed);
        let session = format!("{:016x}{:016x}", random.next(), random.next());
        let (transactions, unknown) = (Vec::new(), None);
        Worker { random, group, next, session, number: 0, transactions, unknown }
    }

    pub(crate) fn work(&mut self, uri: &str, stop: &AtomicBool) {
        let Ok(mut client) = Client::connect(uri) else { return };
        while !stop.load(Ordering::Relaxed) {
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            let done = if self.random.below(6) == 0 {
                self.alone(&mut client, id)
            } else {
                self.transact(&mut client, id)
            };
            if !done {
                return;
            }
        }
    }

    /// One write outside of transactions: it never shows a conflict. False when the server is
    /// gone.
    fn alone(&mut self, client: &mut Client, id: u64) -> bool {
        let key = self.random.below(KEYS);
        let push = format!("{{q: {{_id: {key}}}, u: {{$push: {{list: {id}}}}}}}");
        match client.run("t", &doc(&format!("{{update: 'a', updates: [{push}]}}"))) {
            Ok(reply) => {
                assert_eq!(number(reply.as_doc(), "n"), 1, "{reply:?}");
                assert!(reply.as_doc().find("writeErrors").is_none(), "{reply:?}");
                let steps = vec![Operation::Append { key }];
                self.transactions.push(Transaction { id, steps, outcome: Outcome::Committed });
                true
            }
            Err(error) => {
                assert!(is_lost(&error), "a single write failed: {error}");
                // Whether it was written is not known, and it cannot be asked.
                false
            }
        }
    }

    fn transact(&mut self, client: &mut Client, id: u64) -> bool {
        self.number += 1;
        let mut transaction = Transaction { id, steps: Vec::new(), outcome: Outcome::Aborted };
        let steps = 2 + self.random.below(5);
        for at in 0..steps {
            let added = transaction.steps.iter().any(|step| matches!(step, Operation::Add { .. }));
            match self.step(client, id, at == 0, added) {
                Ok(step) => transaction.steps.push(step),
                Err(error) if is_lost(&error) => {
                    self.transactions.push(transaction);
                    return false;
                }
                Err(error) => {
                    assert_eq!(error.code(), Code::WRITE_CONFLICT, "{error}");
                    let labels = format!("{:?}", error.info());
                    assert!(labels.contains("TransientTransactionError"), "{labels}");
                    self.transactions.push(transaction);
                    return true;
                }
            }
        }
        let (command, outcome) = match self.random.below(8) {
            0 => ("abortTransaction", Outcome::Aborted),
            _ => ("commitTransaction", Outcome::Committed),
        };
        match client.run("admin", &self.placed(&format!("{command}: 1"), false)) {
            Ok(_) => {
                transaction.outcome = outcome;
                self.transactions.push(transaction);
                true
            }
            Err(error) if is_lost(&error) => {
                match outcome {
                    Outcome::Committed => self.unknown = Some(transaction),
                    _ => self.transactions.push(transaction),
                }
                false
            }
            Err(error) => panic!("{command}: {error}"),
        }
    }

    /// After a restart: asks for a commit that was not answered.
    pub(crate) fn ask_again(&mut self, client: &mut Client) {
        let Some(mut transaction) = self.unknown.take() else { return };
        transaction.outcome = match client.run("admin", &self.placed("commitTransaction: 1", false))
        {
            Ok(_) => Outcome::Committed,
            Err(error) => {
                assert_eq!(error.code(), Code::NO_SUCH_TRANSACTION, "{error}");
                Outcome::Lost
            }
        };
        self.transactions.push(transaction);
    }

    fn placed(&self, command: &str, start: bool) -> DocBuf {
        let (session, number) = (&self.session, self.number);
        let start = if start { ", startTransaction: true" } else { "" };
        doc(&format!(
            "{{{command}, lsid: {{id: UUID(\"{session}\")}}, txnNumber: NumberLong({number}), autocommit: false{start}}}"
        ))
    }

    /// One statement. A transaction adds one row at most, so that rows can be counted.
    fn step(
        &mut self,
        client: &mut Client,
        id: u64,
        start: bool,
        added: bool,
    ) -> Result<Operation> {
        let key = self.random.below(KEYS);
        let group = self.group;
        let choice = self.random.below(10);
        let mut run = |command: String| {
            let reply = client.run("t", &self.placed(&command, start))?;
            let failed = reply.as_doc().find("writeErrors").is_some();
            assert!(!failed, "{command}: {reply:?}");
            Ok::<DocBuf, Error>(reply)
        };
        Ok(match choice {
            0..4 => {
                let reply = run(format!("find: 'a', filter: {{_id: {key}}}"))?;
                let found = batch(&reply);
                let list = numbers(found.first().expect("the list is there").as_doc(), "list");
                Operation::Read { key, list }
            }
            4 => {
                let reply = run(format!(
                    "find: 'b', filter: {{group: {group}}}, hint: 'group', batchSize: 100000"
                ))?;
                let by = batch(&reply).iter().map(|row| number(row.as_doc(), "by")).collect();
                Operation::Rows { group, by }
            }
            5 => {
                // The same through a pipeline that reads the collection.
                let reply = run(format!(
                    "aggregate: 'b', pipeline: [{{$match: {{group: {group}}}}}, {{$group: {{_id: null, by: {{$push: '$by'}}}}}}], cursor: {{}}, hint: {{$natural: 1}}"
                ))?;
                let by = batch(&reply).first().map(|row| numbers(row.as_doc(), "by"));
                Operation::Rows { group, by: by.unwrap_or_default() }
            }
            6 if !added => {
                run(format!("insert: 'b', documents: [{{_id: {id}, group: {group}, by: {id}}}]"))?;
                Operation::Add { group }
            }
            7 => {
                run(format!(
                    "findAndModify: 'a', query: {{_id: {key}, list: {{$ne: {id}}}}}, update: {{$push: {{list: {id}}}}}"
                ))?;
                Operation::Append { key }
            }
            _ => {
                run(format!(
                    "update: 'a', updates: [{{q: {{_id: {key}, list: {{$ne: {id}}}}}, u: {{$push: {{list: {id}}}}}}}]"
                ))?;
                Operation::Append { key }
            }
        })
    }
}

fn batch(reply: &DocBuf) -> Vec<DocBuf> {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
    batch
        .iter()
        .filter_map(|(_, doc)| doc.as_doc())
        .map(|doc: RawDoc<'_>| DocBuf::from(doc))
        .collect()
}
