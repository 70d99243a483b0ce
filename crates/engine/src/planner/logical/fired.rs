//! The sets of rules that changed a query and the pipelines inside its stages.

use super::RULES;
use value::Writer;

/// A rule, by its position in `RULES`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleId(pub(super) usize);

/// A set of rules, by their position in `RULES`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Fired(u32);

impl From<RuleId> for Fired {
    fn from(rule: RuleId) -> Fired {
        Fired(1 << rule.0)
    }
}

impl Fired {
    /// Adds a rule.
    pub fn add(&mut self, rule: RuleId) {
        self.0 |= 1 << rule.0;
    }

    /// Adds the rules of another set.
    pub fn add_all(&mut self, other: Fired) {
        self.0 |= other.0;
    }

    /// Whether no rule fired.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names of the rules, in the order of `RULES`.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let fired = move |at: &usize| self.0 & (1 << at) != 0;
        (0..RULES.len()).filter(fired).filter_map(|at| Some(RULES.get(at)?.name))
    }

    /// Writes the names as `rulesFired`, unless there are none.
    pub fn explain(self, out: &mut Writer<'_>) {
        if self.is_empty() {
            return;
        }
        self.write(out, "rulesFired");
    }

    fn write(self, out: &mut Writer<'_>, field: &str) {
        out.array(field, |list| {
            self.names().for_each(|name| list.push(value::Val::String(name)));
        });
    }
}

/// The rules that changed pipelines inside stages (`$lookup`, `$facet`, `$unionWith`). The path of
/// a pipeline has the position and name of the stage and the field, such as `1.$lookup.pipeline`;
/// positions are those of the rewritten pipeline.
#[derive(Default)]
pub struct InnerFired(Vec<(String, Fired)>);

impl InnerFired {
    /// Adds the rules of one pipeline, unless there are none.
    pub fn add(&mut self, path: &str, fired: Fired) {
        if !fired.is_empty() {
            self.0.push((path.to_owned(), fired));
        }
    }

    /// Writes them as `innerRulesFired`, unless there are none.
    pub fn explain(&self, out: &mut Writer<'_>) {
        if self.0.is_empty() {
            return;
        }
        out.array("innerRulesFired", |list| {
            for (path, fired) in &self.0 {
                list.push_doc(|out| {
                    out.str("pipeline", path);
                    fired.write(out, "rules");
                });
            }
        });
    }
}
