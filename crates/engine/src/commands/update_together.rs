//! Statements of one `update` command that share a commit.
//!
//! A commit costs more than a small update, and a retryable write adds the session's record to each.
//! So consecutive statements for one document each run in one transaction, as the documents of an
//! insert do. If it conflicts, the next statements run alone and are repeated as usual. A statement
//! that is refused has written nothing, so the others can commit.

use super::Context;
use super::query::{Constants, writable};
use super::statements::fails_command;
use super::update::{Outcome, Prepared, again, change, done, prepare};
use crate::session::Retryable;
use crate::txn::Transaction;
use query::interrupt;
use value::{RawDoc, Result};

/// The maximum of statements per commit: enough to share its cost, few enough to conflict rarely.
const COMMIT_STATEMENTS: usize = 100;
/// A commit with this many bytes takes no further statement.
const COMMIT_BYTES: usize = 1 << 20;
/// How many statements run alone after a conflict.
const ALONE_AFTER_CONFLICT: usize = 20;

/// The statements of a command that may share commits.
pub(super) struct Together<'c, 'a> {
    pub(super) context: &'c Context<'a>,
    /// The name of the collection.
    pub(super) name: &'c str,
    pub(super) constants: &'c Constants,
    /// Whether validators are bypassed.
    pub(super) bypass: bool,
    /// Whether the first error ends the command.
    pub(super) ordered: bool,
    /// How many of the next statements run alone.
    pub(super) alone: usize,
}

impl Together<'_, '_> {
    /// Runs some of the first statements of `left` in one commit and returns their results; none if
    /// the first must run alone. `number` is the number of the first.
    ///
    /// # Errors
    /// Errors that fail the whole command; then none of them is committed.
    pub(super) fn commit<'d>(
        &mut self,
        left: &[RawDoc<'d>],
        retryable: Option<&mut Retryable>,
        number: i32,
    ) -> Result<Vec<Result<Outcome>>> {
        if self.alone > 0 || left.len() < 2 || !self.may_share() {
            self.alone = self.alone.saturating_sub(1);
            return Ok(Vec::new());
        }
        let mut statements: Vec<Result<Prepared<'d>>> = Vec::new();
        for doc in left.iter().take(COMMIT_STATEMENTS) {
            let is_retryable = retryable.is_some();
            let statement = prepare(self.context, self.name, *doc, self.constants, is_retryable);
            if statement.as_ref().is_ok_and(|statement| statement.multi) {
                break;
            }
            statements.push(statement);
        }
        let data = &self.context.engine.data;
        let committed = data
            .transact_once(self.context.op, |txn| self.run(txn, &statements, retryable, number))?;
        let Some((mut outcomes, seqno)) = committed else {
            self.alone = ALONE_AFTER_CONFLICT;
            return Ok(Vec::new());
        };
        for outcome in outcomes.iter_mut().flatten() {
            outcome.newest = Some(seqno);
        }
        Ok(outcomes)
    }

    /// Whether statements may share a commit: not in a transaction, which is one commit anyway, and
    /// not where each statement must see the newest state.
    fn may_share(&self) -> bool {
        let collection = self.context.catalog().get(self.context.db, self.name).cloned();
        !self.context.op.is_in_transaction()
            && collection.is_some_and(|collection| !collection.is_written_locked())
    }

    /// Runs statements until one must run alone, the commit is large, or the command ends.
    fn run(
        &self,
        txn: &mut Transaction,
        statements: &[Result<Prepared<'_>>],
        mut retryable: Option<&mut Retryable>,
        number: i32,
    ) -> Result<Vec<Result<Outcome>>> {
        let Context { engine, op, db, .. } = self.context;
        let metrics = &engine.observed.metrics;
        let mut outcomes = Vec::with_capacity(statements.len());
        let mut stored = Vec::new();
        let Some(collection) = writable(&txn.catalog, db, self.name)? else { return Ok(outcomes) };
        if collection.is_written_locked() {
            return Ok(outcomes);
        }
        let collection = op.sees_to_write(collection)?;
        if let Some(retryable) = &mut retryable {
            retryable.load(txn)?;
        }
        for (at, statement) in statements.iter().enumerate() {
            if txn.snapshot.written_bytes() > COMMIT_BYTES {
                break;
            }
            op.check_now()?;
            let number = number.wrapping_add(at as i32);
            if let Some(retryable) = &retryable
                && let Some(done) = retryable.next(metrics, txn, number)
            {
                outcomes.push(Ok(again(done)));
                continue;
            }
            let outcome = match statement {
                Err(error) => Err(error.clone()),
                Ok(Prepared { update, target, upsert, .. }) => {
                    change(txn, op, &collection, update, target, *upsert, self.bypass)
                }
            };
            match &outcome {
                Ok(outcome) if outcome.modified > 0 || outcome.upserted.is_some() => {
                    if retryable.is_some() {
                        stored.push(done(number, outcome));
                    }
                }
                Ok(_) => {}
                Err(error) if interrupt::ends_operation(error) || fails_command(op, error) => {
                    return Err(error.clone());
                }
                Err(_) if self.ordered => {
                    outcomes.push(outcome);
                    break;
                }
                Err(_) => {}
            }
            outcomes.push(outcome);
        }
        if let Some(retryable) = retryable {
            retryable.store(metrics, txn, stored);
        }
        Ok(outcomes)
    }
}
