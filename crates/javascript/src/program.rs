//! Functions and the contexts that run them.

use crate::enter::This;
use crate::machine::Machine;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use value::{DocBuf, OwnedVal, RawDoc, Result, Val};

/// The functions of one operation. Calls that do not overlap in time share their global variables.
pub struct Program {
    /// Their source.
    functions: Vec<String>,
    /// Global variables that exist at the start.
    scope: Option<DocBuf>,
    /// Returns whether the running operation must stop.
    stops: fn() -> bool,
    /// Unused contexts.
    idle: Mutex<Vec<Machine>>,
}

impl Program {
    /// Creates a program of functions, which are compiled when they are needed. `stops` is called while
    /// they run; if it returns true, they end with an error.
    #[must_use]
    pub fn new(functions: Vec<String>, scope: Option<RawDoc<'_>>, stops: fn() -> bool) -> Program {
        let scope = scope.map(DocBuf::from);
        Program { functions, scope, stops, idle: Mutex::default() }
    }

    /// The sources of its functions.
    #[must_use]
    pub fn functions(&self) -> &[String] {
        &self.functions
    }

    /// The initial global variables.
    #[must_use]
    pub fn scope(&self) -> Option<RawDoc<'_>> {
        self.scope.as_ref().map(DocBuf::as_doc)
    }

    /// Compiles all functions.
    ///
    /// # Errors
    /// JSInterpreterFailure, if the source of one is not correct.
    pub fn check(&self) -> Result<()> {
        self.run(|_| Ok(()))
    }

    /// Calls the function with this index.
    ///
    /// # Errors
    /// Exceptions of the function, and exceeded limits of the sandbox.
    pub fn call(&self, function: usize, this: This<'_>, args: &[Val<'_>]) -> Result<OwnedVal> {
        self.run(|machine| machine.call(function, this, args))
    }

    /// Calls a function. Returns whether its result is truthy.
    ///
    /// # Errors
    /// As `call`.
    pub fn truth(&self, function: usize, this: This<'_>) -> Result<bool> {
        self.run(|machine| machine.truth(function, this))
    }

    /// Calls a function. Returns what it has emitted, as an array of `{k: key, v: value}`.
    ///
    /// # Errors
    /// As `call`.
    pub fn emitted(&self, function: usize, this: This<'_>) -> Result<OwnedVal> {
        self.run(|machine| machine.emitted(function, this))
    }

    fn run<T>(&self, run: impl FnOnce(&Machine) -> Result<T>) -> Result<T> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let machine = idle().pop();
        let machine = match machine {
            Some(machine) => machine,
            None => Machine::new(&self.functions, self.scope(), self.stops)?,
        };
        // A context in which a function failed may be in any state, so it is not used again.
        let result = run(&machine)?;
        idle().push(machine);
        Ok(result)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("functions", &self.functions)
            .field("scope", &self.scope)
            .finish()
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        self.functions == other.functions && self.scope == other.scope
    }
}
