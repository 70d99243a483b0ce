//! What transactions wrote and read, and the search for anomalies that snapshot isolation forbids.
//!
//! Every document of `a` is a list to which a transaction appends its own number, so that a list
//! shows its writers in order. Documents of `b` are rows that transactions add to a group. A
//! transaction that read a number saw the transaction of that number; if it did not read a number that
//! was there in the end, it did not see that transaction.

use client::Client;
use std::collections::{HashMap, HashSet, VecDeque};
use value::{RawDoc, Val};

/// How a transaction ended, as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Committed,
    Aborted,
    /// Its commit was not answered before the server was killed, and is not there.
    Lost,
}

/// One thing that a transaction did.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Read a list.
    Read { key: u64, list: Vec<u64> },
    /// Read the rows of a group: who added them.
    Rows { group: u64, by: Vec<u64> },
    /// Appended its number to a list.
    Append { key: u64 },
    /// Added a row to a group.
    Add { group: u64 },
}

/// A transaction.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) id: u64,
    pub(crate) steps: Vec<Operation>,
    pub(crate) outcome: Outcome,
}

/// All transactions, and what is there in the end.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) transactions: Vec<Transaction>,
    pub(crate) lists: HashMap<u64, Vec<u64>>,
    pub(crate) rows: HashMap<u64, Vec<u64>>,
}

/// A number field.
pub(crate) fn number(doc: RawDoc<'_>, name: &str) -> u64 {
    doc.get(name).and_then(Val::as_i64_exact).and_then(|n| u64::try_from(n).ok()).expect("a number")
}

/// The numbers of an array field.
pub(crate) fn numbers(doc: RawDoc<'_>, name: &str) -> Vec<u64> {
    let array = doc.get(name).and_then(Val::as_array).expect("an array");
    let number = |value: Val<'_>| value.as_i64_exact().and_then(|n| u64::try_from(n).ok());
    array.iter().map(|(_, value)| number(value.get()).expect("a number")).collect()
}

impl History {
    /// Reads what is there now.
    pub(crate) fn read_final(&mut self, client: &mut Client) {
        let all = |client: &mut Client, name: &str| {
            let find = super::doc(&format!("{{find: '{name}', batchSize: 100000}}"));
            client.cursor("t", &find).and_then(client::Cursor::collect).expect("a result")
        };
        self.lists.clear();
        self.rows.clear();
        for doc in all(client, "a") {
            self.lists.insert(number(doc.as_doc(), "_id"), numbers(doc.as_doc(), "list"));
        }
        for doc in all(client, "b") {
            let group = number(doc.as_doc(), "group");
            self.rows.entry(group).or_default().push(number(doc.as_doc(), "by"));
        }
    }

    /// All anomalies.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for transaction in &self.transactions {
            self.check_effects(transaction, &mut problems);
            if !self.saw_lost(transaction) {
                self.check_reads(transaction, &mut problems);
            }
        }
        let edges = self.edges();
        let Some(order) = order(&edges) else {
            problems.push("transactions saw each other in a circle".to_owned());
            return problems;
        };
        for transaction in self.transactions.iter().filter(|t| !self.saw_lost(t)) {
            self.check_moment(transaction, &edges, &order, &mut problems);
        }
        problems.truncate(20);
        problems
    }

    /// Whether a transaction that did not commit saw something that was not on disk yet when the
    /// server was killed. One that committed cannot have: its commit waited for that.
    fn saw_lost(&self, transaction: &Transaction) -> bool {
        let there = |id: &u64| {
            let known = self.transactions.iter().find(|other| other.id == *id);
            known.is_some_and(|other| other.outcome != Outcome::Lost)
        };
        let lost = |ids: &[u64], whole: Option<&Vec<u64>>| {
            let whole = whole.map_or(&[][..], Vec::as_slice);
            ids.iter().any(|id| *id != transaction.id && !whole.contains(id) && !there(id))
        };
        transaction.outcome != Outcome::Committed
            && transaction.steps.iter().any(|step| match step {
                Operation::Read { key, list } => lost(list, self.lists.get(key)),
                Operation::Rows { group, by } => lost(by, self.rows.get(group)),
                Operation::Append { .. } | Operation::Add { .. } => false,
            })
    }

    /// Writes are there once if the transaction committed, else not at all.
    fn check_effects(&self, transaction: &Transaction, problems: &mut Vec<String>) {
        let expected = usize::from(transaction.outcome == Outcome::Committed);
        for step in &transaction.steps {
            let (place, found) = match step {
                Operation::Append { key } => (format!("list {key}"), self.lists.get(key)),
                Operation::Add { group } => (format!("group {group}"), self.rows.get(group)),
                Operation::Read { .. } | Operation::Rows { .. } => continue,
            };
            let found =
                found.map_or(0, |ids| ids.iter().filter(|id| **id == transaction.id).count());
            if found != expected {
                let (id, outcome) = (transaction.id, transaction.outcome);
                problems.push(format!("{id} {outcome:?} but is {found} times in {place}"));
            }
        }
    }

    /// A list that was read is a beginning of the final one, with own appends behind it, and the
    /// same each time; so are the rows of a group.
    fn check_reads(&self, transaction: &Transaction, problems: &mut Vec<String>) {
        let id = transaction.id;
        let mut appended: HashSet<u64> = HashSet::new();
        let mut added: HashSet<u64> = HashSet::new();
        let mut lists: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut rows: HashMap<u64, Vec<u64>> = HashMap::new();
        for step in &transaction.steps {
            match step {
                Operation::Append { key } => _ = appended.insert(*key),
                Operation::Add { group } => _ = added.insert(*group),
                Operation::Read { key, list } => {
                    let own = list.last() == Some(&id);
                    let others = &list[..list.len() - usize::from(own)];
                    let whole = self.lists.get(key).map_or(&[][..], Vec::as_slice);
                    if own != appended.contains(key) {
                        problems.push(format!("{id} does not see its own append to {key}"));
                    }
                    if !whole.starts_with(others) {
                        problems.push(format!("{id} read {list:?} of {key}, a dirty read"));
                    }
                    let before = lists.entry(*key).or_insert_with(|| others.to_vec());
                    if before != others {
                        problems.push(format!("{id} read {key} twice: {before:?}, {others:?}"));
                    }
                }
                Operation::Rows { group, by } => {
                    let whole = self.rows.get(group).map_or(&[][..], Vec::as_slice);
                    let mut others: Vec<u64> = by.iter().copied().filter(|by| *by != id).collect();
                    others.sort_unstable();
                    if by.contains(&id) != added.contains(group) {
                        problems.push(format!("{id} does not see its own row in {group}"));
                    }
                    if let Some(stranger) = others.iter().find(|by| !whole.contains(by)) {
                        problems.push(format!("{id} saw a row of {stranger}, a dirty read"));
                    }
                    let before = rows.entry(*group).or_insert_with(|| others.clone());
                    if *before != others {
                        problems.push(format!("{id} read group {group} twice: a phantom"));
                    }
                }
            }
        }
    }

    /// Which transactions a transaction saw, and which it did not.
    fn seen(&self, transaction: &Transaction) -> (HashSet<u64>, HashSet<u64>) {
        let (mut seen, mut unseen) = (HashSet::new(), HashSet::new());
        let mut list = |whole: &[u64], count: usize| {
            seen.extend(&whole[..count.min(whole.len())]);
            unseen.extend(whole.get(count).filter(|next| **next != transaction.id));
        };
        for step in &transaction.steps {
            match step {
                Operation::Read { key, list: read } => {
                    let own = usize::from(read.last() == Some(&transaction.id));
                    list(self.lists.get(key).map_or(&[], Vec::as_slice), read.len() - own);
                }
                // A transaction that appends after another must have seen it; otherwise that update is lost.
                Operation::Append { key } => {
                    let whole = self.lists.get(key).map_or(&[][..], Vec::as_slice);
                    if let Some(at) = whole.iter().position(|id| *id == transaction.id) {
                        list(whole, at);
                    }
                }
                Operation::Rows { .. } | Operation::Add { .. } => {}
            }
        }
        for step in &transaction.steps {
            if let Operation::Rows { group, by } = step {
                let whole = self.rows.get(group).map_or(&[][..], Vec::as_slice);
                seen.extend(by);
                unseen.extend(whole.iter().filter(|id| !by.contains(id)));
            }
        }
        seen.remove(&transaction.id);
        unseen.remove(&transaction.id);
        (seen, unseen)
    }

    /// The known order of commits. Of a list, the last number that was read is enough: the others are
    /// before it.
    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for list in self.lists.values() {
            for pair in list.windows(2) {
                edges.entry(pair[0]).or_default().insert(pair[1]);
            }
        }
        let committed = self.transactions.iter().filter(|t| t.outcome == Outcome::Committed);
        for Transaction { id, steps, .. } in committed {
            let mut seen = |other: Option<&u64>| {
                if let Some(other) = other.filter(|other| *other != id) {
                    edges.entry(*other).or_default().insert(*id);
                }
            };
            for step in steps {
                match step {
                    Operation::Read { list, .. } => seen(list.iter().rfind(|other| *other != id)),
                    Operation::Rows { by, .. } => by.iter().for_each(|other| seen(Some(other))),
                    Operation::Append { .. } | Operation::Add { .. } => {}
                }
            }
        }
        edges
    }

    /// All reads are from one snapshot: no transaction that was seen committed after one that was not.
    fn check_moment(
        &self,
        transaction: &Transaction,
        edges: &Edges,
        order: &HashMap<u64, usize>,
        problems: &mut Vec<String>,
    ) {
        let (seen, unseen) = self.seen(transaction);
        let place = |id: &u64| order.get(id).copied().unwrap_or(0);
        // Nothing behind the last that was seen can lead to it.
        let last = seen.iter().map(place).max().unwrap_or(0);
        let mut queue: VecDeque<u64> = unseen.iter().copied().collect();
        let mut reached = unseen;
        while let Some(id) = queue.pop_front() {
            if seen.contains(&id) {
                let own = transaction.id;
                problems.push(format!("{own} saw {id} but not what came before: {transaction:?}"));
                return;
            }
            let next = edges.get(&id).into_iter().flatten();
            for next in next.filter(|next| place(next) <= last) {
                if reached.insert(*next) {
                    queue.push_back(*next);
                }
            }
        }
    }
}

/// For each transaction those that committed later.
type Edges = HashMap<u64, HashSet<u64>>;

/// The place of each transaction in an order that all edges follow; nothing if there is none.
fn order(edges: &Edges) -> Option<HashMap<u64, usize>> {
    let mut before: HashMap<u64, usize> = HashMap::new();
    for (id, later) in edges {
        before.entry(*id).or_default();
        later.iter().for_each(|later| *before.entry(*later).or_default() += 1);
    }
    let mut free: Vec<u64> =
        before.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id).collect();
    let mut order = HashMap::new();
    while let Some(id) = free.pop() {
        order.insert(id, order.len());
        for later in edges.get(&id).into_iter().flatten() {
            let left = before.get_mut(later)?;
            *left -= 1;
            if *left == 0 {
                free.push(*later);
            }
        }
    }
    (order.len() == before.len()).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(lists: &[(u64, &[u64])], transactions: &[(u64, Outcome, &[Operation])]) -> History {
        History {
            transactions: transactions
                .iter()
                .map(|(id, outcome, steps)| Transaction {
                    id: *id,
                    steps: steps.to_vec(),
                    outcome: *outcome,
                })
                .collect(),
            lists: lists.iter().map(|(key, list)| (*key, list.to_vec())).collect(),
            rows: HashMap::new(),
        }
    }

    fn read(key: u64, list: &[u64]) -> Operation {
        Operation::Read { key, list: list.to_vec() }
    }

    #[test]
    fn the_search_finds_what_is_wrong() {
        use Outcome::{Aborted, Committed};
        let append = |key| Operation::Append { key };
        let two = (7, Committed, &[append(1), append(2)][..]);
        let lists: &[(u64, &[u64])] = &[(1, &[7]), (2, &[7])];
        let wrong = [
            ("fractured", history(lists, &[two, (8, Committed, &[read(1, &[7]), read(2, &[])])])),
            ("repeated", history(lists, &[two, (8, Aborted, &[read(1, &[]), read(1, &[7])])])),
            ("dirty", history(lists, &[two, (8, Committed, &[read(1, &[7, 9])])])),
            ("lost", history(&[(1, &[7])], &[two])),
            ("undone", history(lists, &[(7, Aborted, &[append(1)])])),
            (
                "overwritten unseen",
                history(
                    &[(1, &[7, 8]), (2, &[7])],
                    &[two, (8, Committed, &[read(2, &[]), append(1)])],
                ),
            ),
        ];
        for (name, history) in wrong {
            assert!(!history.problems().is_empty(), "{name}");
        }
        let right = history(
            &[(1, &[7, 8]), (2, &[7, 9])],
            &[
                two,
                (8, Committed, &[read(2, &[7]), append(1), read(1, &[7, 8])]),
                (9, Committed, &[read(1, &[7]), append(2)]),
            ],
        );
        assert_eq!(right.problems(), Vec::<String>::new(), "write skew is allowed");
    }
}
