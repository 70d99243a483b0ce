//! The groups found so far: a hash table of their keys, their `_id`s in one buffer, and their
//! accumulators. Groups that do not fit into memory go to `spill`.

use super::program::{Feed, Program};
use super::spill::Spill;
use super::states::States;
use crate::exec::columns::Columns;
use crate::operation::Operation;
use bumpalo::Bump;
use query::accumulate::Accumulator;
use query::expr::Env;
use query::key_table::{Insertion, KeyTable};
use smallvec::SmallVec;
use value::key_types::{Decoded, Decoder};
use value::{Code, Error, RawDoc, RawVal, Result, Val, Writer};

/// All groups in memory.
pub(super) struct Table {
    pub(super) keys: KeyTable,
    ids: Vec<u8>,
    heads: Vec<Head>,
    states: States,
    /// Heap bytes of accumulators.
    grown: usize,
    /// The key of the current document.
    key: Vec<u8>,
    /// Whether the documents of a group are consecutive.
    ordered: bool,
}

struct Head {
    /// Type of the `_id`.
    kind: u8,
    /// Where its bytes end.
    end: usize,
}

impl Table {
    /// No groups yet.
    pub(super) fn new(program: &Program) -> Table {
        Table {
            keys: KeyTable::default(),
            ids: Vec::new(),
            heads: Vec::new(),
            states: States::new(program.fields.len()),
            grown: 0,
            key: Vec::new(),
            ordered: false,
        }
    }

    /// Memory that the groups take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes()
            + self.ids.capacity()
            + self.heads.capacity() * size_of::<Head>()
            + self.states.memory_bytes()
            + self.grown
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    /// A table of groups whose documents are consecutive.
    pub(super) fn ordered(program: &Program) -> Table {
        Table { ordered: true, ..Table::new(program) }
    }

    #[inline]
    fn get_or_insert(&mut self, key: &[u8]) -> Insertion {
        match self.ordered {
            true => self.keys.get_last_or_insert(key),
            false => self.keys.get_or_insert(key),
        }
    }

    /// Adds the document of `env` to its group.
    #[inline]
    pub(super) fn add<'a>(&mut self, program: &'a Program, env: &Env<'a>) -> Result<()> {
        let at = self.group_of(program, env)?;
        self.feed(at, program, env, None)
    }

    /// Adds a document that is read from an index entry to its group.
    #[inline]
    pub(super) fn add_entry<'a>(
        &mut self,
        program: &'a Program,
        columns: &Columns<'a>,
        arena: &'a Bump,
    ) -> Result<()> {
        let env = Env::new(RawDoc::empty(), arena).with_slots(columns.values);
        let key = program.key_slot().and_then(|slot| columns.keys.get(slot));
        let at = match key.map(|key| (key, self.get_or_insert(key))) {
            None => self.group_of(program, &env)?,
            Some((_, Insertion::Known(at))) => at,
            Some((_, Insertion::Full)) => return Err(too_many()),
            Some((key, Insertion::New(at))) => {
                let damaged = || Error::internal("a key that was read is none");
                match Decoder::new(key, &[]).next(false, &mut self.ids).ok_or_else(damaged)? {
                    Decoded::Value(kind) => self.start(program, kind as u8)?,
                    Decoded::Missing => return Err(damaged()),
                }
                at
            }
        };
        self.feed(at, program, &env, Some(columns))
    }

    /// The group of the document of `env`; begins it if the document is the first.
    #[inline]
    fn group_of<'a>(&mut self, program: &'a Program, env: &Env<'a>) -> Result<usize> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        program.write_key(env, &mut key)?;
        let place = self.get_or_insert(&key);
        self.key = key;
        match place {
            Insertion::Known(at) => Ok(at),
            Insertion::New(at) => {
                let kind = program.write_id(env, &mut self.ids)?;
                self.start(program, kind)?;
                Ok(at)
            }
            Insertion::Full => Err(too_many()),
        }
    }

    /// Updates the accumulators of a group.
    #[inline]
    fn feed<'a>(
        &mut self,
        at: usize,
        program: &'a Program,
        env: &Env<'a>,
        columns: Option<&Columns<'a>>,
    ) -> Result<()> {
        let states = self.states.get_mut(at);
        let mut argument: Option<Val<'a>> = None;
        for (((_, spec), feed), state) in program.fields.iter().zip(&program.feeds).zip(states) {
            if spec.grows() && state.is_settled() {
                // A settled accumulator does not evaluate later arguments, which could fail.
                if matches!(feed, Feed::Argument) {
                    argument = None;
                }
                continue;
            }
            let before = if spec.grows() { state.memory_bytes() } else { 0 };
            match (feed, columns) {
                (Feed::Number(number), _) => state.process(*number)?,
                (Feed::Key(slot), Some(columns)) => {
                    state.process_key(columns.keys.get(*slot).copied().unwrap_or(&[]))?;
                }
                (Feed::Slot(slot) | Feed::Key(slot), _) => {
                    state.process(env.raw_slot(*slot).get())?;
                }
                (Feed::Argument | Feed::Again, _) => {
                    let known = argument.filter(|_| matches!(feed, Feed::Again));
                    let value = known.map_or_else(|| spec.argument(env), Ok)?;
                    argument = Some(value);
                    state.process(value)?;
                }
            }
            if spec.grows() {
                self.grown = (self.grown + state.memory_bytes()).saturating_sub(before);
            }
        }
        Ok(())
    }

    /// Removes all groups but the last, which may still grow.
    pub(super) fn keep_last(&mut self) {
        let Some(last) = self.len().checked_sub(1) else { return };
        let (key, id) = (self.keys.key(last).to_vec(), self.id(last));
        let (kind, id) = (id.kind, id.bytes.to_vec());
        self.states.keep_last();
        self.keys.clear();
        self.ids.clear();
        self.heads.clear();
        self.keys.get_last_or_insert(&key);
        self.ids.extend_from_slice(&id);
        self.heads.push(Head { kind, end: self.ids.len() });
        self.grown = self.states.get(0).iter().map(Accumulator::memory_bytes).sum();
    }

    /// Begins a group; its `_id` is already appended.
    fn start(&mut self, program: &Program, kind: u8) -> Result<()> {
        self.heads.push(Head { kind, end: self.ids.len() });
        let id = id_at(&self.heads, &self.ids, self.heads.len() - 1).get();
        let mut states = SmallVec::<[Accumulator; 4]>::new();
        for (_, spec) in &program.fields {
            states.push(spec.start(id)?);
        }
        self.states.push(states.into_iter());
        Ok(())
    }

    /// The `_id` of a group.
    fn id(&self, at: usize) -> RawVal<'_> {
        id_at(&self.heads, &self.ids, at)
    }

    /// Appends the document of a group.
    pub(super) fn document(
        &self,
        program: &Program,
        at: usize,
        arena: &Bump,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut out = Writer::start(out);
        out.raw("_id", self.id(at));
        for ((name, _), state) in program.fields.iter().zip(self.states.get(at)) {
            out.append(name, state.finish(arena)?);
        }
        out.finish();
        Ok(())
    }

    /// Appends the state of a group, for `absorb`.
    pub(super) fn save(&self, at: usize, out: &mut Vec<u8>) {
        let id = self.id(at);
        out.push(id.kind);
        out.extend_from_slice(&(id.bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(id.bytes);
        self.states.get(at).iter().for_each(|state| state.save(out));
    }

    /// Merges a saved group, as if its documents came after those seen so far.
    pub(super) fn absorb(&mut self, program: &Program, key: &[u8], saved: &[u8]) -> Result<()> {
        let damaged = || Error::internal("a saved group is not understood");
        let (&kind, rest) = saved.split_first().ok_or_else(damaged)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (id, mut rest) = rest.split_at_checked(length).ok_or_else(damaged)?;
        let at = match self.get_or_insert(key) {
            Insertion::Known(at) => at,
            Insertion::New(at) => {
                self.ids.extend_from_slice(id);
                self.start(program, kind)?;
                at
            }
            Insertion::Full => return Err(too_many()),
        };
        for state in self.states.get_mut(at) {
            let length = rest.first_chunk::<4>().ok_or_else(damaged)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (own, after) = rest.split_at_checked(length).ok_or_else(damaged)?;
            let before = state.memory_bytes();
            state.absorb(RawDoc::new(own))?;
            self.grown = (self.grown + state.memory_bytes()).saturating_sub(before);
            rest = after;
        }
        Ok(())
    }

    /// Moves all groups to disk if they exceed the memory limit.
    pub(super) fn check_memory(
        &mut self,
        program: &Program,
        spill: &mut Spill,
        op: &Operation,
    ) -> Result<()> {
        let held = self.memory_bytes();
        let fits =
            held <= spill.bytes_max && spill.share.get_or_insert_with(|| op.share()).covers(held);
        if fits || self.len() == 0 || !spill.can_divide() {
            return Ok(());
        }
        if !op.may_use_disk() {
            return Err(Error::new(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Exceeded memory limit for $group, but didn't allow external spilling; pass \
                 allowDiskUse:true to opt in",
            ));
        }
        spill.write(self, program, op)
    }
}

fn id_at<'i>(heads: &[Head], ids: &'i [u8], at: usize) -> RawVal<'i> {
    let from = match at.checked_sub(1) {
        Some(before) => heads.get(before).map_or(0, |head| head.end),
        None => 0,
    };
    let (kind, to) = heads.get(at).map_or((0, from), |head| (head.kind, head.end));
    RawVal { kind, bytes: ids.get(from..to).unwrap_or(&[]) }
}

fn too_many() -> Error {
    Error::new(Code::EXCEEDED_MEMORY_LIMIT, "$group has too many groups")
}
