//! What the running command forbids its plans: indexes that are not in the stable API (`apiStrict`),
//! and scans of whole collections (`notablescan`). They hold for all plans of its thread.

use super::{Access, Plan, Question};
use crate::catalog::{Index, IndexKind};
use std::cell::Cell;
use value::{Code, Error, Result};

/// What the plans of a command must not use.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Restrictions {
    /// Text and sparse indexes.
    pub stable_only: bool,
    /// Scans of a whole collection.
    pub no_scans: bool,
}

thread_local! {
    static CURRENT: Cell<Restrictions> = const {
        Cell::new(Restrictions { stable_only: false, no_scans: false })
    };
}

/// Restores the restrictions of the command around when it is dropped.
pub struct Entered(Restrictions);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl Restrictions {
    /// Makes the restrictions hold on this thread until the result is dropped.
    #[must_use]
    pub fn enter(self) -> Entered {
        Entered(CURRENT.replace(self))
    }

    /// The restrictions of the running command.
    #[must_use]
    pub fn current() -> Restrictions {
        CURRENT.get()
    }

    /// Whether plans may use an index.
    #[must_use]
    pub fn allow(self, index: &Index) -> bool {
        !self.stable_only || !(index.sparse || matches!(index.kind, IndexKind::Text(_)))
    }

    /// Refuses a plan that scans a collection. Queries without a filter may, and those on collections of the server.
    ///
    /// # Errors
    /// NoQueryExecutionPlans.
    pub(super) fn check(self, question: &Question<'_>, plan: &Plan) -> Result<()> {
        let scans = matches!(plan.access, Access::Collection(_));
        // An order by `_id` is that of its index.
        let ordered = question.sort.is_some() && plan.sorted;
        let collection = question.collection;
        let of_server = matches!(&*collection.db, "admin" | "config" | "local")
            || collection.name.starts_with("system.");
        if !self.no_scans || !scans || ordered || of_server || question.filter.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            Code::NO_QUERY_EXECUTION_PLANS,
            "error processing query: planner returned error :: caused by :: no index fits the \
             query, and 'notablescan' is set",
        ))
    }
}
