//! The environment of an evaluation: the document, the bound variables, an arena for results.

use bumpalo::Bump;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use value::compare::compare_with;
use value::writer::{write_array, write_doc};
use value::{Code, Collation, Error, RawDoc, RawVal, Result, Val, Writer, keys, limits};

/// The environment of one evaluation. Results are in the arena or borrow from the document and the
/// expression.
pub struct Env<'a> {
    root: RawDoc<'a>,
    arena: &'a Bump,
    variables: RefCell<Vec<Val<'a>>>,
    /// Values that were looked up before, for the expressions of `Expr::in_slots`.
    slots: &'a [RawVal<'a>],
    meta: RawDoc<'a>,
    collation: Cell<Option<&'a Collation>>,
}

impl<'a> Env<'a> {
    /// An evaluation over `root`, with results in `arena`.
    #[inline]
    #[must_use]
    pub fn new(root: RawDoc<'a>, arena: &'a Bump) -> Env<'a> {
        Env {
            root,
            arena,
            variables: RefCell::new(Vec::new()),
            slots: &[],
            meta: RawDoc::empty(),
            collation: Cell::new(None),
        }
    }

    /// The same with metadata for `$meta` (`textScore`, `recordId`, ...), by keyword.
    #[must_use]
    pub fn with_meta(mut self, meta: RawDoc<'a>) -> Env<'a> {
        self.meta = meta;
        self
    }

    /// The same with the values of the slots, for expressions that read them.
    #[inline]
    #[must_use]
    pub fn with_slots(mut self, slots: &'a [RawVal<'a>]) -> Env<'a> {
        self.slots = slots;
        self
    }

    /// The value of a slot, not decoded.
    #[inline]
    #[must_use]
    pub fn raw_slot(&self, at: usize) -> RawVal<'a> {
        self.slots.get(at).copied().unwrap_or(crate::slots::MISSING)
    }

    /// The value of a slot.
    #[inline]
    pub(crate) fn slot(&self, at: usize) -> Val<'a> {
        self.slots.get(at).map_or(Val::Missing, |value| value.get())
    }

    /// A copy of this environment with another arena, which may be freed earlier.
    pub(crate) fn child<'b>(&self, arena: &'b Bump) -> Env<'b>
    where
        'a: 'b,
    {
        let variables: Vec<Val<'b>> = self.variables.borrow().iter().copied().collect();
        let collation = Cell::new(self.collation.get().map(|collation| collation as &'b Collation));
        let variables = RefCell::new(variables);
        Env { root: self.root, arena, variables, slots: self.slots, meta: self.meta, collation }
    }

    /// Returns an error if results use too much memory, which loops and long lists of operands can
    /// do with a small request.
    #[inline]
    pub(crate) fn check_memory(&self) -> Result<()> {
        const BYTES_MAX: usize = 16 * limits::DOCUMENT_BYTES_MAX_INTERNAL;
        if self.arena.allocated_bytes() > BYTES_MAX {
            return Err(Error::new(
                Code::EXCEEDED_MEMORY_LIMIT,
                format!("an expression used more than {BYTES_MAX} bytes of memory"),
            ));
        }
        Ok(())
    }

    /// Sets the collation. All expressions of a request have the same one.
    #[inline]
    pub(crate) fn set_collation(&self, collation: &'a Collation) {
        self.collation.set(Some(collation));
    }

    /// Compares two values.
    #[inline]
    pub(crate) fn compare(&self, a: Val<'_>, b: Val<'_>) -> Ordering {
        compare_with(a, b, self.collation.get())
    }

    /// Bytes that are equal for equal values and in their order.
    pub(crate) fn key(&self, value: Val<'_>) -> Vec<u8> {
        keys::key_with(value, self.collation.get())
    }

    /// The document.
    #[inline]
    #[must_use]
    pub fn root(&self) -> RawDoc<'a> {
        self.root
    }

    /// Where results are allocated.
    #[inline]
    #[must_use]
    pub fn arena(&self) -> &'a Bump {
        self.arena
    }

    /// The metadata of the document by keyword.
    #[must_use]
    pub fn meta(&self) -> RawDoc<'a> {
        self.meta
    }

    /// Sets a variable. Slots are numbered by nesting, so an inner binding never hides a live one.
    pub(crate) fn bind(&self, slot: usize, value: Val<'a>) {
        let mut variables = self.variables.borrow_mut();
        if variables.len() <= slot {
            variables.resize(slot + 1, Val::Missing);
        }
        if let Some(place) = variables.get_mut(slot) {
            *place = value;
        }
    }

    /// The value of a variable.
    #[inline]
    pub(crate) fn variable(&self, slot: usize) -> Val<'a> {
        self.variables.borrow().get(slot).copied().unwrap_or(Val::Missing)
    }

    /// Text that lives in the arena.
    pub(crate) fn text(&self, text: &str) -> Val<'a> {
        Val::String(self.arena.alloc_str(text))
    }

    /// A document built in the arena.
    pub(crate) fn document(&self, fill: impl FnOnce(&mut Writer<'_>)) -> Result<Val<'a>> {
        let mut bytes = Vec::with_capacity(128);
        write_doc(&mut bytes, fill);
        Ok(Val::Document(self.keep(&bytes)?))
    }

    /// An array built in the arena; missing values become null.
    pub(crate) fn array(&self, values: impl Iterator<Item = Val<'a>>) -> Result<Val<'a>> {
        let mut bytes = Vec::with_capacity(128);
        write_array(&mut bytes, |writer| values.for_each(|value| writer.push(value)));
        Ok(Val::Array(self.keep(&bytes)?))
    }

    /// Copies the bytes of a finished document or array into the arena.
    pub(crate) fn keep(&self, bytes: &[u8]) -> Result<RawDoc<'a>> {
        check_size(bytes.len())?;
        Ok(RawDoc::new(self.arena.alloc_slice_copy(bytes)))
    }
}

/// Refuses intermediate values that no document could hold: they would exhaust the memory.
pub(crate) fn check_size(bytes: usize) -> Result<()> {
    // Larger than what an accumulator may hold: its result may be reduced by a later stage.
    const BYTES_MAX: usize = limits::BLOCKING_STAGE_BYTES_MAX + limits::DOCUMENT_BYTES_MAX;
    if bytes > BYTES_MAX {
        return Err(Error::new(
            Code::EXCEEDED_MEMORY_LIMIT,
            format!("an expression made a value of {bytes} bytes, more than {BYTES_MAX}"),
        ));
    }
    Ok(())
}
