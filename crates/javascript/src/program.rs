//! Functions and the contexts that run them.

use crate::enter::This;
use crate::machine::Machine;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use value::{DocBuf, OwnedVal, RawDoc, Result, Val};

/// Functions of one operation. They share their global variables, with each other and from call to
/// call, as far as calls are made by one thread after the other.
pub struct Program {
    /// Their source.
    functions: Vec<String>,
    /// Global variables that exist at the start.
    scope: Option<DocBuf>,
    /// Whether the operation that runs shall stop.
    stops: fn() -> bool,
    /// Contexts that no thread uses now.
    idle: Mutex<Vec<Machine>>,
}

impl Program {
    /// A program of functions, which are compiled when they are needed. `stops` is asked while they
    /// run; when it says true they end with an error.
    #[must_use]
    pub fn new(functions: Vec<String>, scope: Option<RawDoc<'_>>, stops: fn() -> bool) -> Program {
        let scope = scope.map(DocBuf::from);
        Program { functions, scope, stops, idle: Mutex::default() }
    }

    /// The source of its functions.
    #[must_use]
    pub fn functions(&self) -> &[String] {
        &self.functions
    }

    /// The global variables at its start.
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

    /// Calls a function, given by its place.
    ///
    /// # Errors
    /// What it throws, and what exceeds the bounds of the sandbox.
    pub fn call(&self, function: usize, this: This<'_>, args: &[Val<'_>]) -> Result<OwnedVal> {
        self.run(|machine| machine.call(function, this, args))
    }

    /// Calls a function and says whether JavaScript takes its result for true.
    ///
    /// # Errors
    /// As `call`.
    pub fn truth(&self, function: usize, this: This<'_>) -> Result<bool> {
        self.run(|machine| machine.truth(function, this))
    }

    /// Calls a function for what it emits: an array of `{k: key, v: value}`.
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
        // One that failed may be in any state: it is not used again.
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
