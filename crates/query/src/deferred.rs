//! Variables whose values are known only after compiling: those of a `$lookup`'s `let`, which each
//! document of the outer pipeline sets again. A compiled expression refers to the slot of the value,
//! so that it is compiled once.

use crate::path_values::{copy_into, path_in};
use bumpalo::Bump;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use value::{OwnedVal, Val};

/// A variable and the slot of its value. Clones share the slot.
#[derive(Clone, Debug)]
pub struct DeferredVariable {
    name: Arc<str>,
    place: Arc<ValueSlot>,
}

/// Holds the value that the variable has for the current outer document.
#[derive(Debug)]
pub(crate) struct ValueSlot {
    /// `None` is a missing value.
    value: RwLock<Option<OwnedVal>>,
    /// Whether something that was compiled reads it.
    read: AtomicBool,
}

impl DeferredVariable {
    /// A variable without a value.
    #[must_use]
    pub fn new(name: &str) -> DeferredVariable {
        let place = ValueSlot { value: RwLock::new(None), read: AtomicBool::new(false) };
        DeferredVariable { name: name.into(), place: Arc::new(place) }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether something that was compiled reads it.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.place.read.load(Ordering::Relaxed)
    }

    /// Sets its value, for everything that was compiled with it.
    pub fn set(&self, value: Val<'_>) {
        let value = (!value.is_missing()).then(|| OwnedVal::new(value));
        *self.place.value.write().unwrap_or_else(PoisonError::into_inner) = value;
    }

    /// Compiles something. Returns whether it reads one of the variables.
    pub fn watch<T>(variables: &[DeferredVariable], compile: impl FnOnce() -> T) -> (T, bool) {
        let flags = || variables.iter().map(|deferred| &deferred.place.read);
        let before: Vec<bool> = flags().map(|read| read.swap(false, Ordering::Relaxed)).collect();
        let compiled = compile();
        let mut any = false;
        for (read, before) in flags().zip(before) {
            // An outer watch must see it as well.
            any |= read.fetch_or(before, Ordering::Relaxed);
        }
        (compiled, any)
    }

    /// The slot, for an expression that reads it.
    pub(crate) fn slot(&self) -> Arc<ValueSlot> {
        self.place.read.store(true, Ordering::Relaxed);
        self.place.clone()
    }
}

impl ValueSlot {
    /// The value of a path from the value, copied into an arena.
    pub(crate) fn get<'a>(&self, path: &[Box<str>], arena: &'a Bump) -> Val<'a> {
        let held = self.value.read().unwrap_or_else(PoisonError::into_inner);
        let mut value = held.as_ref().map_or(Val::Missing, OwnedVal::get);
        let mut path = path;
        // Only the value at the end of the path is copied.
        while let (Val::Document(doc), Some((name, rest))) = (value, path.split_first()) {
            value = doc.get(name).unwrap_or(Val::Missing);
            path = rest;
        }
        path_in(copy_into(value, arena), path, arena)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParseContext;
    use crate::expr::{Env, Expr};
    use value::{DocBuf, RawDoc};

    #[test]
    fn an_expression_sees_each_value_that_is_set() {
        let deferred = [DeferredVariable::new("x")];
        let context = ParseContext { deferred: &deferred, ..ParseContext::new(0) };
        let (expr, reads) = DeferredVariable::watch(&deferred, || {
            Expr::parse(Val::String("$$x.a.b"), &context).expect("compiles")
        });
        assert!(reads);
        let (_, reads) =
            DeferredVariable::watch(&deferred, || Expr::parse(Val::String("$x"), &context));
        assert!(!reads);
        let arena = bumpalo::Bump::new();
        let eval = || expr.eval(&Env::new(RawDoc::empty(), &arena)).expect("runs");
        assert_eq!(eval(), Val::Missing);
        for number in [1, 2] {
            let doc = DocBuf::build(|out| {
                out.doc("a", |out| {
                    out.i32("b", number);
                });
            });
            deferred[0].set(Val::Document(doc.as_doc()));
            assert_eq!(eval(), Val::Int32(number));
        }
        deferred[0].set(Val::Missing);
        assert_eq!(eval(), Val::Missing);
    }
}
