//! Which rules changed a query.

use super::RULES;
use value::Writer;

/// A set of rules, by their position in `RULES`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Fired(u32);

impl Fired {
    /// Adds the rule at a position of `RULES`.
    pub(super) fn add(&mut self, at: usize) {
        self.0 |= 1 << at;
    }

    /// The names of the rules, in the order of `RULES`.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let fired = move |at: &usize| self.0 & (1 << at) != 0;
        (0..RULES.len()).filter(fired).filter_map(|at| Some(RULES.get(at)?.name))
    }

    /// Writes the names as `rulesFired`, unless there are none.
    pub fn explain(self, out: &mut Writer<'_>) {
        if self.0 == 0 {
            return;
        }
        out.array("rulesFired", |list| {
            self.names().for_each(|name| list.push(value::Val::String(name)));
        });
    }
}
