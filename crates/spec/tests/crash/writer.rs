//! One client: it writes documents of its own until the connection breaks, and remembers what
//! was acknowledged and the one request that was under way.

use crate::random::Random;
use client::Client;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use value::{DocBuf, Result, Val, Writer as Out};

/// The database of this test.
pub(crate) const DATABASE: &str = "crash";
/// Documents that one writer keeps at most: the audit reads them all.
const DOCUMENTS_MAX: usize = 300;
/// The code of the client for a broken connection.
const CONNECTION_BROKE: value::Code = value::Code(9001);
/// The code of a duplicate key.
const DUPLICATE: i32 = 11000;

/// A request without an answer: it may have been carried out or not.
#[derive(Debug)]
pub(crate) enum Pending {
    /// Documents with these numbers; any first part of them may be there.
    Insert(Vec<i64>),
    /// This document may have one version more.
    Update(i64),
    /// These documents may be counted once more, each for itself.
    UpdateMany(Vec<i64>),
    /// This document may be gone.
    Delete(i64),
    /// A document of this number that the unique index must refuse.
    Refused(i64),
    /// This claim may be ours.
    Claim(i64),
    /// The counter's retryable increment.
    Increment,
}

/// What is known of a document: its version, and how many bulk updates counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DocumentState {
    pub(crate) version: i64,
    pub(crate) bulk: i64,
}

/// A writer and what it knows.
pub(crate) struct Writer {
    pub(crate) number: usize,
    random: Random,
    claims: Arc<AtomicI64>,
    /// Replies that all writers together have got.
    replies: Arc<AtomicU64>,
    /// Acknowledged documents by number.
    pub(crate) documents: BTreeMap<i64, DocumentState>,
    next: i64,
    /// Claims that were acknowledged as ours.
    pub(crate) claimed: Vec<i64>,
    /// Retryable increments that were sent, the last of them perhaps in vain.
    pub(crate) increments: i64,
    pub(crate) pending: Option<Pending>,
    pub(crate) acknowledged: u64,
    pub(crate) applied_unacknowledged: u64,
    pub(crate) lost_unacknowledged: u64,
    pub(crate) retried: u64,
}

impl Writer {
    pub(crate) fn new(
        number: usize,
        seed: u64,
        claims: Arc<AtomicI64>,
        replies: Arc<AtomicU64>,
    ) -> Writer {
        Writer {
            number,
            random: Random::new(seed),
            claims,
            replies,
            documents: BTreeMap::new(),
            next: 0,
            claimed: Vec::new(),
            increments: 0,
            pending: None,
            acknowledged: 0,
            applied_unacknowledged: 0,
            lost_unacknowledged: 0,
            retried: 0,
        }
    }

    /// Writes until the connection breaks or `stop` is set.
    pub(crate) fn work(&mut self, uri: &str, stop: &AtomicBool) {
        // The server may be dead before the first request.
        let Ok(mut client) = Client::connect(uri) else { return };
        assert!(self.pending.is_none(), "the audit settles what was under way");
        while !stop.load(Ordering::Relaxed) {
            let (pending, command) = self.choose();
            self.pending = Some(pending);
            let reply = match client.run(DATABASE, &command) {
                Ok(reply) => reply,
                Err(error) if error.code() == CONNECTION_BROKE => return,
                Err(error) => panic!("{:?}: {error}", self.pending),
            };
            let pending = self.pending.take().expect("it was set above");
            self.acknowledge(pending, &reply);
            self.acknowledged += 1;
            self.replies.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn choose(&mut self) -> (Pending, DocBuf) {
        if self.documents.is_empty() {
            return self.insert(5);
        }
        if self.documents.len() > DOCUMENTS_MAX {
            return self.delete();
        }
        match self.random.below(20) {
            0..4 => self.insert(1),
            4..6 => {
                let count = 2 + self.random.below(15);
                self.insert(count)
            }
            6..11 => self.update(),
            11 => self.update_many(),
            12..14 => self.delete(),
            14 => self.refused(),
            15..17 => self.claim(),
            _ => self.increment(),
        }
    }

    fn insert(&mut self, count: u64) -> (Pending, DocBuf) {
        let from = self.next;
        self.next += count as i64;
        let numbers: Vec<i64> = (from..self.next).collect();
        let command = DocBuf::build(|out| {
            out.str("insert", "docs");
            out.array("documents", |list| {
                for number in &numbers {
                    list.push_doc(|doc| fill(doc, self.number, *number, 0));
                }
            });
        });
        (Pending::Insert(numbers), command)
    }

    /// One document, by values: the version and everything that depends on it change together.
    fn update(&mut self) -> (Pending, DocBuf) {
        let (number, state) = self.any();
        let version = state.version + 1;
        let command = update_command(false, |update| {
            update.doc("q", |q| {
                q.str("_id", &id(self.number, number));
            });
            update.doc("u", |u| {
                u.doc("$inc", |inc| {
                    inc.i64("v", 1);
                });
                u.doc("$set", |set| {
                    set.str("check", &check(self.number, number, version));
                    set.str("pad", &pad(number, version));
                    set.array("keys", |list| keys(list, number, version));
                });
            });
        });
        (Pending::Update(number), command)
    }

    /// Many documents by one statement: each for itself is whole.
    fn update_many(&mut self) -> (Pending, DocBuf) {
        let (from, _) = self.any();
        let to = from + 20;
        let numbers = self.documents.range(from..to).map(|(number, _)| *number).collect();
        let command = update_command(true, |update| {
            update.doc("q", |q| {
                q.i32("w", self.number as i32);
                q.doc("n", |n| {
                    n.i64("$gte", from).i64("$lt", to);
                });
            });
            update.doc("u", |u| {
                u.doc("$inc", |inc| {
                    inc.i64("bulk", 1);
                });
            });
        });
        (Pending::UpdateMany(numbers), command)
    }

    fn delete(&mut self) -> (Pending, DocBuf) {
        let (number, _) = self.any();
        let command = DocBuf::build(|out| {
            out.str("delete", "docs");
            out.array("deletes", |list| {
                list.push_doc(|delete| {
                    delete.doc("q", |q| {
                        q.str("_id", &id(self.number, number));
                    });
                    delete.i32("limit", 1);
                });
            });
        });
        (Pending::Delete(number), command)
    }

    /// A new document with the unique value of an old one.
    fn refused(&mut self) -> (Pending, DocBuf) {
        let (taken, _) = self.any();
        let number = self.next;
        self.next += 1;
        let command = DocBuf::build(|out| {
            out.str("insert", "docs");
            out.array("documents", |list| {
                list.push_doc(|doc| {
                    doc.str("_id", &id(self.number, number));
                    doc.str("unique", &unique(self.number, taken));
                });
            });
        });
        (Pending::Refused(number), command)
    }

    /// One of the newest claims, for which all writers compete.
    fn claim(&mut self) -> (Pending, DocBuf) {
        let newest = self.claims.fetch_add(i64::from(self.random.below(3) == 0), Ordering::Relaxed);
        let claim = newest + self.random.below(2) as i64;
        let command = DocBuf::build(|out| {
            out.str("insert", "claims");
            out.array("documents", |list| {
                list.push_doc(|doc| {
                    doc.str("_id", &id(self.number, claim));
                    doc.i64("claim", claim).i32("w", self.number as i32);
                });
            });
        });
        (Pending::Claim(claim), command)
    }

    fn increment(&mut self) -> (Pending, DocBuf) {
        self.increments += 1;
        (Pending::Increment, self.increment_command(self.increments))
    }

    /// The retryable increment with this number, always the same bytes.
    pub(crate) fn increment_command(&self, number: i64) -> DocBuf {
        DocBuf::build(|out| {
            out.str("update", "counters");
            out.array("updates", |list| {
                list.push_doc(|update| {
                    update.doc("q", |q| {
                        q.i32("_id", self.number as i32);
                    });
                    update.doc("u", |u| {
                        u.doc("$inc", |inc| {
                            inc.i64("n", 1);
                        });
                    });
                    update.bool("upsert", true);
                });
            });
            out.doc("lsid", |lsid| {
                lsid.append("id", Val::Binary(4, &[self.number as u8 + 1; 16]));
            });
            out.i64("txnNumber", number);
        })
    }

    fn any(&mut self) -> (i64, DocumentState) {
        let place = self.random.below(self.documents.len() as u64) as usize;
        let (number, state) = self.documents.iter().nth(place).expect("the place exists");
        (*number, *state)
    }

    /// What is known of a document that was chosen before.
    pub(crate) fn known(&mut self, number: i64) -> &mut DocumentState {
        self.documents.get_mut(&number).expect("it was chosen from these")
    }

    fn acknowledge(&mut self, pending: Pending, reply: &DocBuf) {
        let refusal = duplicate(reply);
        let text = || value::ejson::print(reply.as_doc(), value::ejson::Format::Shell);
        if !matches!(pending, Pending::Refused(_) | Pending::Claim(_)) {
            assert!(reply.as_doc().find("writeErrors").is_none(), "{pending:?}: {}", text());
        }
        let count = reply.as_doc().get("n").and_then(Val::as_i64_exact);
        match pending {
            Pending::Insert(numbers) => {
                assert_eq!(count, Some(numbers.len() as i64), "{}", text());
                let fresh = numbers.into_iter().map(|number| (number, DocumentState::default()));
                self.documents.extend(fresh);
            }
            Pending::Update(number) => {
                assert_eq!(count, Some(1), "{number}: {}", text());
                self.known(number).version += 1;
            }
            Pending::UpdateMany(numbers) => {
                assert_eq!(count, Some(numbers.len() as i64), "{numbers:?}: {}", text());
                for number in numbers {
                    self.known(number).bulk += 1;
                }
            }
            Pending::Delete(number) => {
                assert_eq!(count, Some(1), "{}", text());
                self.documents.remove(&number);
            }
            Pending::Refused(_) => assert!(refusal, "a duplicate was taken: {}", text()),
            Pending::Claim(claim) => match (count, refusal) {
                (Some(1), false) => self.claimed.push(claim),
                (Some(0), true) => {}
                _ => panic!("a claim is neither ours nor another's: {}", text()),
            },
            Pending::Increment => assert_eq!(count, Some(1), "{}", text()),
        }
    }

    /// Sends the last increment again: whether it was carried out before or not, it is now, once.
    pub(crate) fn retry_increment(&mut self, client: &mut Client) -> Result<()> {
        if self.increments > 0 {
            for _ in 0..2 {
                client.run(DATABASE, &self.increment_command(self.increments))?;
                self.retried += 1;
            }
        }
        Ok(())
    }
}

fn update_command(multi: bool, fill: impl FnOnce(&mut Out<'_>)) -> DocBuf {
    DocBuf::build(|out| {
        out.str("update", "docs");
        out.array("updates", |list| {
            list.push_doc(|update| {
                fill(update);
                update.bool("multi", multi);
            });
        });
    })
}

/// Whether the only write error of a reply is a duplicate key.
fn duplicate(reply: &DocBuf) -> bool {
    let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array);
    let first = errors.and_then(value::RawDoc::first).and_then(|(_, error)| error.as_doc());
    let code = first.and_then(|error| error.get("code")).and_then(Val::as_i64_exact);
    code == Some(i64::from(DUPLICATE))
}

/// `_id` of a writer's document.
pub(crate) fn id(writer: usize, number: i64) -> String {
    format!("{writer}-{number}")
}

/// The value of the unique index.
pub(crate) fn unique(writer: usize, number: i64) -> String {
    format!("unique {writer} {number}")
}

/// A field that must follow the version.
pub(crate) fn check(writer: usize, number: i64, version: i64) -> String {
    format!("{writer}/{number}/{version}")
}

/// Another one, of a length that changes with the version, now and then a long one.
pub(crate) fn pad(number: i64, version: i64) -> String {
    let length = if version % 7 == 3 { 3000 } else { (number * 31 + version * 17).rem_euclid(200) };
    "p".repeat(length as usize)
}

/// Entries of the multikey index.
fn keys(list: &mut value::writer::ArrayWriter<'_>, number: i64, version: i64) {
    for step in 0..3 {
        list.push(Val::Int64(number * 10 + (version + step) % 10));
    }
}

/// Writes a whole document.
pub(crate) fn fill(doc: &mut Out<'_>, writer: usize, number: i64, version: i64) {
    doc.str("_id", &id(writer, number));
    doc.i32("w", writer as i32).i64("n", number);
    doc.str("unique", &unique(writer, number));
    doc.i64("v", version).i64("bulk", 0);
    doc.str("check", &check(writer, number, version));
    doc.str("pad", &pad(number, version));
    doc.array("keys", |list| keys(list, number, version));
}
