//! The optimiser rules that fired in the pipelines inside stages, for explain.

use super::Stage;
use crate::planner::logical::{Fired, InnerFired};
use value::Result;

/// What the optimiser did to a pipeline before it runs.
#[derive(Default)]
pub struct Rewriting {
    /// The rules that changed it.
    pub fired: Fired,
    /// The positions of the stages that the stage before them absorbed, ascending.
    pub absorbed: Vec<usize>,
}

impl Rewriting {
    /// Adds the rules of a pipeline and of all pipelines inside its stages. `fired` are the rules
    /// that decide how the compiled stages run.
    ///
    /// # Errors
    /// Errors of the planner.
    pub(super) fn collect(
        &self,
        stages: &[Box<dyn Stage>],
        mut fired: Fired,
        path: &str,
        inner: &mut InnerFired,
    ) -> Result<()> {
        fired.add_all(self.fired);
        inner.add(path, fired);
        self.collect_inside(stages, &format!("{path}."), inner)
    }

    /// Adds the rules of the pipelines inside stages, whose paths begin with `prefix`.
    ///
    /// # Errors
    /// Errors of the planner.
    pub(crate) fn collect_inside(
        &self,
        stages: &[Box<dyn Stage>],
        prefix: &str,
        inner: &mut InnerFired,
    ) -> Result<()> {
        let mut absorbed = self.absorbed.iter().peekable();
        let mut position = 0;
        for stage in stages {
            stage.inner_rules(&format!("{prefix}{position}"), inner)?;
            position += 1;
            while absorbed.next_if(|at| **at == position).is_some() {
                position += 1;
            }
        }
        Ok(())
    }
}
