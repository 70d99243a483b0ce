//! The pipeline of `$merge` that updates a matched document, with its variables.

use super::StageContext;
use bumpalo::Bump;
use query::expr::{Env, Expr};
use query::update::Update;
use query::{DeferredVariable, ParseContext};
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// A compiled pipeline that updates a matched document.
pub(super) struct Changes {
    update: Update,
    /// Each variable with the expression for its value for a new document.
    variables: Vec<(DeferredVariable, Expr)>,
}

impl Changes {
    /// Compiles the pipeline with the variables of `let`; `new` is the new document.
    ///
    /// # Errors
    /// A pipeline or an expression that does not compile.
    pub(super) fn new(
        stages: RawDoc<'_>,
        mut values: Vec<(String, Expr)>,
        context: &StageContext<'_>,
    ) -> Result<Changes> {
        values.retain(|(name, _)| name != "new");
        values.push(("new".to_owned(), Expr::parse(Val::String("$$ROOT"), context)?));
        let deferred: Vec<DeferredVariable> =
            values.iter().map(|(name, _)| DeferredVariable::new(name)).collect();
        let known: Vec<DeferredVariable> =
            context.parse.deferred.iter().chain(&deferred).cloned().collect();
        let context = ParseContext { deferred: &known, ..context.parse };
        let update = Update::parse(Val::Array(stages), &context, &[])?;
        let expressions = values.into_iter().map(|(_, expr)| expr);
        Ok(Changes { update, variables: deferred.into_iter().zip(expressions).collect() })
    }

    /// Applies the pipeline to a matched document; `None` when nothing changes.
    ///
    /// # Errors
    /// What the pipeline gives.
    pub(super) fn apply(&self, old: RawDoc<'_>, new: RawDoc<'_>) -> Result<Option<DocBuf>> {
        self.bind(new)?;
        self.update.apply(old, None, false, &Bump::new())
    }

    /// Sets the variables for a new document.
    ///
    /// # Errors
    /// 17276 for a variable without a value, and what its expression gives.
    pub(super) fn bind(&self, new: RawDoc<'_>) -> Result<()> {
        let arena = Bump::new();
        for (deferred, expr) in &self.variables {
            let value = expr.eval(&Env::new(new, &arena))?;
            if value.is_missing() && deferred.is_read() {
                // MongoDB passes no variable for a missing value.
                return Err(Error::new(
                    Code(17276),
                    format!("Use of undefined variable: {}", deferred.name()),
                ));
            }
            deferred.set(value);
        }
        Ok(())
    }
}
