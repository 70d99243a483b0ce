//! The groups found so far: a table of their keys, their `_id`s in one buffer, their accumulators
//! side by side. What does not fit into memory goes to `spill`.

use super::program::{Feed, Program};
use super::spill::Spill;
use crate::operation::Operation;
use bumpalo::Bump;
use query::accumulate::Accumulator;
use query::expr::Env;
use query::key_table::{KeyTable, Place};
use value::{Code, Error, RawDoc, RawVal, Result, Writer};

/// All groups in memory.
#[derive(Default)]
pub(super) struct Table {
    pub(super) keys: KeyTable,
    ids: Vec<u8>,
    heads: Vec<Head>,
    /// For each group as many as the stage has.
    states: Vec<Accumulator>,
    /// Bytes of accumulators beyond their own size.
    grown: usize,
    /// The key of the document at hand.
    key: Vec<u8>,
}

struct Head {
    /// Type of the `_id`.
    kind: u8,
    /// Where its bytes end.
    end: usize,
}

impl Table {
    pub(super) fn new() -> Table {
        Table::default()
    }

    /// Memory that the groups take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes()
            + self.ids.capacity()
            + self.heads.capacity() * size_of::<Head>()
            + self.states.capacity() * size_of::<Accumulator>()
            + self.grown
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Takes the document of `env` into its group.
    #[inline]
    pub(super) fn add<'a>(&mut self, program: &'a Program, env: &Env<'a>) -> Result<()> {
        self.key.clear();
        program.write_key(env, &mut self.key)?;
        let at = match self.keys.place(&self.key) {
            Place::Known(at) => at,
            Place::New(at) => {
                let kind = program.write_id(env, &mut self.ids)?;
                self.start(program, kind)?;
                at
            }
            Place::Full => return Err(too_many()),
        };
        let count = program.fields.len();
        let states = self.states.get_mut(at * count..(at + 1) * count).unwrap_or(&mut []);
        for (((_, spec), feed), state) in program.fields.iter().zip(&program.feeds).zip(states) {
            if spec.grows() && state.is_settled() {
                // What could fail in later documents is not even computed.
                continue;
            }
            let value = match feed {
                Feed::Number(number) => *number,
                Feed::Slot(slot) => env.raw_slot(*slot).get(),
                Feed::Argument => spec.argument(env)?,
            };
            if spec.grows() {
                let before = state.memory_bytes();
                state.process(value)?;
                self.grown = (self.grown + state.memory_bytes()).saturating_sub(before);
            } else {
                state.process(value)?;
            }
        }
        Ok(())
    }

    /// Begins a group whose `_id` was appended.
    fn start(&mut self, program: &Program, kind: u8) -> Result<()> {
        self.heads.push(Head { kind, end: self.ids.len() });
        let id = self.id(self.heads.len() - 1).get();
        let mut states = Vec::with_capacity(program.fields.len());
        for (_, spec) in &program.fields {
            states.push(spec.start(id)?);
        }
        self.states.append(&mut states);
        Ok(())
    }

    /// The `_id` of a group.
    fn id(&self, at: usize) -> RawVal<'_> {
        let from = match at.checked_sub(1) {
            Some(before) => self.heads.get(before).map_or(0, |head| head.end),
            None => 0,
        };
        let (kind, to) = self.heads.get(at).map_or((0, from), |head| (head.kind, head.end));
        RawVal { kind, bytes: self.ids.get(from..to).unwrap_or(&[]) }
    }

    fn states(&self, program: &Program, at: usize) -> &[Accumulator] {
        let count = program.fields.len();
        self.states.get(at * count..(at + 1) * count).unwrap_or(&[])
    }

    /// The document of a group.
    pub(super) fn document(&self, program: &Program, at: usize, arena: &Bump) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut out = Writer::start(&mut bytes);
        out.raw("_id", self.id(at));
        for ((name, _), state) in program.fields.iter().zip(self.states(program, at)) {
            out.append(name, state.finish(arena)?);
        }
        out.finish();
        Ok(bytes)
    }

    /// Appends everything that `absorb` needs of a group.
    pub(super) fn save(&self, program: &Program, at: usize, out: &mut Vec<u8>) {
        let id = self.id(at);
        out.push(id.kind);
        out.extend_from_slice(&(id.bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(id.bytes);
        self.states(program, at).iter().for_each(|state| state.save(out));
    }

    /// Takes a group that was saved, as if its documents came behind those seen so far.
    pub(super) fn absorb(&mut self, program: &Program, key: &[u8], saved: &[u8]) -> Result<()> {
        let damaged = || Error::internal("a saved group is not understood");
        let (&kind, rest) = saved.split_first().ok_or_else(damaged)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (id, mut rest) = rest.split_at_checked(length).ok_or_else(damaged)?;
        let at = match self.keys.place(key) {
            Place::Known(at) => at,
            Place::New(at) => {
                self.ids.extend_from_slice(id);
                self.start(program, kind)?;
                at
            }
            Place::Full => return Err(too_many()),
        };
        let count = program.fields.len();
        for state in self.states.get_mut(at * count..(at + 1) * count).unwrap_or(&mut []) {
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

    /// Moves all groups to the disk if they take more memory than they may.
    pub(super) fn check_memory(
        &mut self,
        program: &Program,
        spill: &mut Spill,
        op: &Operation,
    ) -> Result<()> {
        if self.memory_bytes() <= spill.bytes_max || self.len() == 0 || !spill.can_divide() {
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

fn too_many() -> Error {
    Error::new(Code::EXCEEDED_MEMORY_LIMIT, "$group has too many groups")
}
