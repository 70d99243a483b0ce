//! The processing of one document in a `$group`: which fields are read, how values are computed,
//! and which group the document belongs to.
//!
//! A program replaces the stage itself and, where the result is the same, the `$unwind` or
//! `$project` before it: then no documents are built between them.

use super::Spec;
use super::table::Table;
use crate::exec::FieldRead;
use crate::stages::UnwindSpec;
use bumpalo::Bump;
use query::accumulate::AccumulatorSpec;
use query::expr::{Env, Expr};
use query::interrupt;
use query::project::Projection;
use query::slots::{MISSING, Paths, Slots};
use std::sync::Arc;
use value::{Collation, DocBuf, OwnedVal, RawDoc, RawVal, Result, Val, keys};

/// A compiled group.
pub(super) struct Program {
    slots: Slots,
    unwind: Option<Unwound>,
    key: Key,
    pub(super) fields: Vec<(String, AccumulatorSpec)>,
    /// The input of each accumulator.
    pub(super) feeds: Vec<Feed>,
    /// The fields of the input that are read, by slot; `None` for possibly all.
    pub(super) reads: Option<Vec<FieldRead>>,
    pub(super) collation: Option<Arc<Collation>>,
}

/// The slots of a program as one thread fills them.
pub(super) struct ThreadSlots {
    /// Slots of the document.
    outer: Slots,
    /// Slots of the elements of its array.
    inner: Slots,
}

/// The input of an accumulator. Most are a field or a number, which need no evaluation.
pub(super) enum Feed {
    Number(Val<'static>),
    Slot(usize),
    /// The key of a field: values that are only counted need not be decoded.
    Key(usize),
    Argument,
    /// The same input as the previous accumulator that has an argument.
    Again,
}

impl Feed {
    fn new(spec: &AccumulatorSpec) -> Feed {
        match (spec.is_sorted(), spec.expression().as_constant(), spec.expression().as_slot()) {
            (false, Some(Val::Int32(n)), _) => Feed::Number(Val::Int32(n)),
            (false, _, Some(slot)) if spec.takes_keys() => Feed::Key(slot),
            (false, _, Some(slot)) => Feed::Slot(slot),
            _ => Feed::Argument,
        }
    }

    /// The inputs of all accumulators. An argument that repeats consecutively is evaluated once.
    fn all(fields: &[(String, AccumulatorSpec)]) -> Vec<Feed> {
        let mut last: Option<&AccumulatorSpec> = None;
        let mut feeds = Vec::with_capacity(fields.len());
        for (_, spec) in fields {
            feeds.push(match Feed::new(spec) {
                Feed::Argument if last.is_some_and(|last| last.has_argument_of(spec)) => {
                    Feed::Again
                }
                Feed::Argument => {
                    last = Some(spec);
                    Feed::Argument
                }
                feed => feed,
            });
        }
        feeds
    }
}

/// Slots that need no memory.
const VALUES: usize = 4;

/// Space for the values of slots, all missing.
#[inline]
fn slot_values<'r, 'v>(
    few: &'r mut [RawVal<'v>; VALUES],
    many: &'r mut Vec<RawVal<'v>>,
    count: usize,
) -> &'r mut [RawVal<'v>] {
    if count <= VALUES {
        return few.get_mut(..count).unwrap_or(&mut []);
    }
    many.resize(count, MISSING);
    many
}

/// How the key of a group is computed.
enum Key {
    /// The same for all documents.
    Constant(OwnedVal),
    /// One field.
    Slot(usize),
    /// A document of fields.
    Fields(Vec<(Box<str>, Expr)>),
    /// Anything else.
    Computed(Expr),
}

/// An array whose elements are grouped one by one.
struct Unwound {
    /// Where the array is.
    slot: usize,
    /// The slots of the element itself.
    whole: Vec<usize>,
    /// The slots of fields of the element.
    inner: Slots,
    /// Those slots with the paths inside the element, for elements that are arrays.
    below: Vec<usize>,
    keep_empty: bool,
}

impl Program {
    /// The program of a group alone.
    pub(super) fn new(spec: &Spec) -> Program {
        Program::compile(spec, None, None, &[]).unwrap_or_else(|| Program::plain(spec))
    }

    /// The program of a group with a `$unwind` and then a `$project` before it; `counted` are the
    /// sets of which only the size is needed. `None` if the result would differ.
    pub(super) fn compile(
        spec: &Spec,
        unwind: Option<&UnwindSpec>,
        project: Option<&Projection>,
        counted: &[&str],
    ) -> Option<Program> {
        let made = match project {
            None => None,
            Some(projection) => Some(projection.computed_fields()?),
        };
        let over = |expr: &Expr| match &made {
            None => Some(expr.clone()),
            Some(made) => {
                expr.over(&|name| made.iter().find(|(known, _)| known == name).map(|(_, e)| e))
            }
        };
        if made.as_ref().is_some_and(|made| !spec.reads_all(made)) {
            return None;
        }
        let key = over(&spec.key)?;
        let mut fields = Vec::with_capacity(spec.fields.len());
        for (name, spec) in &spec.fields {
            if made.is_some() && spec.reads_root() {
                return None;
            }
            let spec = spec.with_argument(over(spec.expression())?);
            let counting = counted.contains(&name.as_str());
            fields.push((name.clone(), if counting { spec.counting()? } else { spec }));
        }
        let reads_root = key.reads_root() || fields.iter().any(|(_, field)| field.reads_root());
        if unwind.is_some() && reads_root {
            return None;
        }
        let mut paths = Paths::default();
        let key = key.in_slots(&mut paths);
        for (_, field) in &mut fields {
            let argument = field.expression().in_slots(&mut paths);
            *field = field.with_argument(argument);
        }
        let unwound = match unwind {
            None => None,
            Some(unwind) => Some(Unwound::new(unwind, &mut paths)?),
        };
        let outer = paths.iter().enumerate().filter(|(slot, _)| match &unwound {
            None => true,
            Some(unwound) => !unwound.is_inner(*slot),
        });
        let slots = Slots::new(outer, paths.len())?;
        let collation = key.collation().cloned();
        let (key, feeds) = (Key::new(key), Feed::all(&fields));
        let mut read = Vec::new();
        if let (Key::Slot(slot), Some(_)) = (&key, &collation) {
            read.push(*slot);
        }
        let values = decoded(read, &key, (&fields, &feeds), paths.len());
        let read = |(path, value): (&[Box<str>], bool)| FieldRead { path: path.join("."), value };
        let reads = (!reads_root).then(|| paths.iter().zip(values).map(read).collect());
        Some(Program { slots, unwind: unwound, collation, key, feeds, fields, reads })
    }

    /// A program that looks up every path separately.
    pub(super) fn plain(spec: &Spec) -> Program {
        Program {
            slots: Slots::none(),
            unwind: None,
            key: Key::Computed(spec.key.clone()),
            feeds: spec.fields.iter().map(|_| Feed::Argument).collect(),
            fields: spec.fields.clone(),
            reads: None,
            collation: spec.key.collation().cloned(),
        }
    }

    /// The key field, if the key is its encoded value.
    pub(super) fn key_slot(&self) -> Option<usize> {
        match &self.key {
            Key::Slot(slot) if self.collation.is_none() => Some(*slot),
            _ => None,
        }
    }

    /// The path of the key field: documents sorted by this field have consecutive groups. `None` if
    /// the key is more than a field, or a collation applies. A key document distinguishes missing
    /// from null, which no sort order does.
    pub(super) fn key_path(&self) -> Option<&str> {
        let reads = self.reads.as_ref().filter(|_| self.collation.is_none())?;
        match &self.key {
            Key::Slot(slot) => reads.get(*slot).map(|read| read.path.as_str()),
            Key::Fields(_) | Key::Constant(_) | Key::Computed(_) => None,
        }
    }

    /// Whether elements of arrays are grouped instead of documents.
    pub(super) fn unwinds(&self) -> bool {
        self.unwind.is_some()
    }

    /// The state that one thread needs to read documents.
    pub(super) fn thread_slots(&self) -> ThreadSlots {
        let inner = self.unwind.as_ref().map_or_else(Slots::none, |unwound| unwound.inner.clone());
        ThreadSlots { outer: self.slots.clone(), inner }
    }

    /// Adds a document, or each element of its array, to its group. `meta` is the document's
    /// metadata.
    #[inline]
    pub(super) fn take(
        &self,
        slots: &mut ThreadSlots,
        (doc, meta): (RawDoc<'_>, RawDoc<'_>),
        arena: &Bump,
        table: &mut Table,
    ) -> Result<()> {
        let (mut few, mut many) = ([MISSING; VALUES], Vec::new());
        let values = slot_values(&mut few, &mut many, self.slots.len());
        slots.outer.fill(doc, arena, values);
        let values = &*values;
        let Some(unwound) = &self.unwind else {
            return table.add(self, &Env::new(doc, arena).with_meta(meta).with_slots(values));
        };
        let array = values.get(unwound.slot).copied().unwrap_or(MISSING);
        match array.get() {
            Val::Array(elements) if !elements.is_empty() => {
                let mut elements = elements.iter();
                while let Some((_, element)) = elements.next_bytes() {
                    interrupt::check()?;
                    self.take_element(slots, element, (doc, meta), values, arena, table)?;
                }
                Ok(())
            }
            Val::Array(_) if unwound.keep_empty => {
                self.take_element(slots, MISSING, (doc, meta), values, arena, table)
            }
            Val::Array(_) => Ok(()),
            value if value.is_nullish() && !unwound.keep_empty => Ok(()),
            _ => self.take_element(slots, array, (doc, meta), values, arena, table),
        }
    }

    /// Adds one element of a document's array to its group; `outer` are the document's slots.
    fn take_element<'a>(
        &'a self,
        slots: &mut ThreadSlots,
        element: RawVal<'a>,
        (doc, meta): (RawDoc<'a>, RawDoc<'a>),
        outer: &[RawVal<'a>],
        arena: &'a Bump,
        table: &mut Table,
    ) -> Result<()> {
        let (mut few, mut many) = ([MISSING; VALUES], Vec::new());
        let values = slot_values(&mut few, &mut many, outer.len());
        values.copy_from_slice(outer);
        if let Some(unwound) = &self.unwind {
            unwound.fill(&mut slots.inner, element, arena, values);
        }
        table.add(self, &Env::new(doc, arena).with_meta(meta).with_slots(values))
    }

    /// Appends the key of the document's group.
    #[inline]
    pub(super) fn write_key<'a>(&'a self, env: &Env<'a>, out: &mut Vec<u8>) -> Result<()> {
        let collation = self.collation.as_deref();
        match &self.key {
            Key::Constant(_) => {}
            Key::Slot(slot) if collation.is_none() => keys::encode_raw(out, env.raw_slot(*slot)),
            Key::Slot(slot) => {
                keys::encode_with(out, env.raw_slot(*slot).get(), false, collation);
            }
            Key::Fields(fields) => {
                keys::open_document(out);
                for (name, expr) in fields {
                    keys::field(out, name, of_fields(fields, expr.eval(env)?), collation);
                }
                keys::close_document(out);
            }
            Key::Computed(expr) => keys::encode_with(out, expr.eval(env)?, false, collation),
        }
        Ok(())
    }

    /// Appends the bytes of the group's `_id`; returns its type.
    pub(super) fn write_id<'a>(&'a self, env: &Env<'a>, out: &mut Vec<u8>) -> Result<u8> {
        let value = match &self.key {
            Key::Constant(value) => {
                out.extend_from_slice(value.raw().bytes);
                return Ok(value.raw().kind);
            }
            Key::Slot(slot) => env.raw_slot(*slot).get(),
            Key::Fields(fields) => {
                let mut values = Vec::with_capacity(fields.len());
                for (name, expr) in fields {
                    values.push((name, of_fields(fields, expr.eval(env)?)));
                }
                let doc = DocBuf::build(|out| {
                    values.iter().for_each(|(name, value)| {
                        out.append(name, *value);
                    });
                });
                out.extend_from_slice(doc.bytes());
                return Ok(value::Type::Document as u8);
            }
            Key::Computed(expr) => expr.eval(env)?,
        };
        let value = if value.is_missing() { Val::Null } else { value };
        value::writer::write_value(out, value);
        Ok(value.kind() as u8)
    }
}

/// A value in a key of these fields. In a key of one field a missing value is null, as in MongoDB.
fn of_fields<'a>(fields: &[(Box<str>, Expr)], value: Val<'a>) -> Val<'a> {
    if value.is_missing() && fields.len() == 1 { Val::Null } else { value }
}

/// Which additional slots must hold values; for the others, keys are enough.
fn decoded(
    mut read: Vec<usize>,
    key: &Key,
    (fields, feeds): (&[(String, AccumulatorSpec)], &[Feed]),
    count: usize,
) -> Vec<bool> {
    match key {
        Key::Constant(_) | Key::Slot(_) => {}
        Key::Fields(fields) => fields.iter().for_each(|(_, expr)| expr.slots(&mut read)),
        Key::Computed(expr) => expr.slots(&mut read),
    }
    for ((_, spec), feed) in fields.iter().zip(feeds) {
        match feed {
            Feed::Number(_) | Feed::Key(_) | Feed::Again => {}
            Feed::Slot(slot) => read.push(*slot),
            Feed::Argument => spec.expression().slots(&mut read),
        }
    }
    (0..count).map(|slot| read.contains(&slot)).collect()
}

impl Key {
    fn new(expr: Expr) -> Key {
        if let Some(value) = expr.as_constant() {
            let value = if value.is_missing() { Val::Null } else { value };
            return Key::Constant(OwnedVal::new(value));
        }
        if let Some(slot) = expr.as_slot() {
            return Key::Slot(slot);
        }
        match expr.as_document() {
            Some(fields) => {
                Key::Fields(fields.into_iter().map(|(name, expr)| (name.into(), expr)).collect())
            }
            None => Key::Computed(expr),
        }
    }
}

impl Unwound {
    /// Determines which of the paths lead into the elements.
    fn new(unwind: &UnwindSpec, paths: &mut Paths) -> Option<Unwound> {
        // A path of several names may lead through other fields that are read, and a number may be
        // an array index.
        let [part] = unwind.path.parts() else { return None };
        if part.index.is_some() || unwind.index.is_some() {
            return None;
        }
        let path = [part.name.clone()];
        let slot = paths.slot(&path);
        let mut whole = Vec::new();
        let mut below: Vec<(usize, Vec<Box<str>>)> = Vec::new();
        for (at, known) in paths.iter().enumerate() {
            match known.strip_prefix(path.as_slice()) {
                Some([]) => whole.push(at),
                Some(rest) => below.push((at, rest.to_vec())),
                None => {}
            }
        }
        let inner = below.iter().map(|(slot, rest)| (*slot, rest.as_slice()));
        let inner = Slots::new(inner, paths.len())?;
        let below = below.into_iter().map(|(slot, _)| slot).collect();
        Some(Unwound { slot, whole, inner, below, keep_empty: unwind.keep_empty })
    }

    /// Whether a slot is filled from elements.
    fn is_inner(&self, slot: usize) -> bool {
        self.below.contains(&slot)
    }

    fn fill<'a>(
        &self,
        inner: &mut Slots,
        element: RawVal<'a>,
        arena: &'a Bump,
        values: &mut [RawVal<'a>],
    ) {
        for slot in &self.whole {
            if let Some(place) = values.get_mut(*slot) {
                *place = element;
            }
        }
        if let Some(doc) = element.as_doc() {
            inner.fill(doc, arena, values);
        } else if let Some(array) = element.as_array() {
            inner.fill_through(array, arena, values);
        }
    }
}
