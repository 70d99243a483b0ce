//! Functions in JavaScript, as filters, expressions and accumulators call them.

use crate::ParseContext;
use crate::context::Javascript;
use crate::interrupt;
use javascript::{Program, This};
use value::{Code, Error, OwnedVal, RawDoc, Result, Val};

/// The variable with the global variables of functions; a command sets it, clients cannot.
const SCOPE: &str = "JS_SCOPE";

/// Functions of a client, which stop with the operation that runs them.
#[derive(Debug)]
pub(crate) struct Script(Program);

impl Script {
    /// Functions by their source. They are compiled when the first one is called.
    pub(crate) fn new(functions: Vec<String>, ctx: &ParseContext<'_>) -> Script {
        let scope = ctx.variables.get(SCOPE).and_then(Val::as_doc);
        Script(Program::new(functions, scope, || interrupt::check_now().is_err()))
    }

    /// Compiles them now.
    pub(crate) fn check(&self) -> Result<()> {
        confirmed(self.0.check())
    }

    /// Calls one of them.
    pub(crate) fn call(&self, function: usize, args: &[Val<'_>]) -> Result<OwnedVal> {
        confirmed(self.0.call(function, This::Nothing, args))
    }

    /// Whether the first one returns a truthy value for a document.
    pub(crate) fn is_true_of(&self, doc: RawDoc<'_>) -> Result<bool> {
        confirmed(self.0.truth(0, This::Object(doc)))
    }

    /// What the first one emits for a document.
    pub(crate) fn emitted(&self, doc: RawDoc<'_>) -> Result<OwnedVal> {
        confirmed(self.0.emitted(0, This::Document(doc)))
    }
}

/// After an interruption returns the error of the operation in place of the function's result.
fn confirmed<T>(result: Result<T>) -> Result<T> {
    interrupt::confirm()?;
    result
}

/// Refuses JavaScript in expressions and accumulators where there is none.
///
/// # Errors
/// 31264, as a server without JavaScript answers.
pub(crate) fn check_enabled(ctx: &ParseContext<'_>) -> Result<()> {
    if ctx.javascript == Javascript::Off {
        return Err(Error::new(
            Code(31264),
            "Cannot run server-side javascript without the javascript engine enabled",
        ));
    }
    Ok(())
}

/// The source of a function, if a value is one.
pub(crate) fn source(value: Val<'_>) -> Option<String> {
    match value {
        Val::String(code) | Val::Code(code) => Some(code.to_owned()),
        _ => None,
    }
}
