//! Groups whose target holds everything that their record would hold: the number of children, and
//! sums of whole numbers of one type to which every child contributes.
//!
//! For such a group only the key and the types are stored. The write of a child reads the numbers
//! from the target that it writes, so that one document changes instead of two. If a target cannot
//! hold the state (numbers of other types, a child without one, a sum beyond 64 bits), the group
//! gets a record again. The same happens when the target is deleted or written without its
//! patterns. So a target that replaces a record always exists and is correct.

use super::accumulators::{Accumulator, AccumulatorState, Contribution};
use super::grouped::{Field, Fold, Value};
use super::groups::Group;
use super::record::{Record, record_key};
use super::tally::Tally;
use crate::documents::{Documents, Key};
use crate::edit;
use crate::pattern::{Pattern, Phase};
use smallvec::SmallVec;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val};

/// Types of fields: a count, a sum of 32-bit numbers, a sum of 64-bit numbers.
const COUNT: u8 = b'c';
pub(super) const INTS: u8 = b'i';
const LONGS: u8 = b'l';

/// The type of each field.
pub(super) type Sums = SmallVec<[u8; 16]>;

impl Fold {
    /// Whether the fold may have groups without a record.
    fn fits_target(&self) -> bool {
        let counts = |fold: &Accumulator| matches!(fold, Accumulator::Count);
        self.has_one_target()
            && !self.bounds
            && self.flush.is_none()
            && self.window.is_none()
            && self.fields.iter().any(|field| counts(&field.accumulator))
            && self
                .fields
                .iter()
                .all(|f| counts(&f.accumulator) || matches!(f.accumulator, Accumulator::Sum(_)))
    }

    /// Whether a target may replace a record now.
    pub(super) fn may_leave(&self, pattern: &Pattern) -> bool {
        pattern.phase == Phase::Ready && !pattern.is_deferred() && self.fits_target()
    }

    /// The type of each field; `None` if a target cannot hold one of them.
    pub(super) fn sums(&self, mut sum: impl FnMut(usize) -> Option<u8>) -> Option<Sums> {
        let letter = |(number, field): (usize, &Field)| match field.accumulator {
            Accumulator::Count => Some(COUNT),
            _ => sum(number),
        };
        self.fields.iter().enumerate().map(letter).collect()
    }

    /// The types of a record's fields, if a target can hold all of it.
    pub(super) fn target_sums(&self, record: &Record) -> Option<Sums> {
        if record.children <= 0 {
            return None;
        }
        self.sums(|number| {
            let Some(AccumulatorState::Tally(tally)) = record.states.get(number) else {
                return None;
            };
            let (Val::Int32(_) | Val::Int64(_)) = tally.total() else { return None };
            let sum = tally.total().as_i64_exact()?;
            let is = |long| *tally == Tally::of_whole(sum, record.children, long);
            if is(false) { Some(INTS) } else { is(true).then_some(LONGS) }
        })
    }

    /// The record that a target holds.
    fn record_in_target(&self, target: RawDoc<'_>, sums: &[u8]) -> Option<Record> {
        let shown = |field: &Field| field.path.find(target)?.get().as_i64_exact();
        let count =
            self.fields.iter().find(|field| matches!(field.accumulator, Accumulator::Count));
        let children = count.and_then(shown)?;
        let state = |(field, letter): (&Field, u8)| match letter {
            COUNT => Some(AccumulatorState::Empty),
            _ => Some(AccumulatorState::Tally(Tally::of_whole(
                shown(field)?,
                children,
                letter == LONGS,
            ))),
        };
        let states =
            self.fields.iter().zip(sums.iter().copied()).map(state).collect::<Option<_>>()?;
        Some(Record { children, states, at: None, held: 0 })
    }

    /// The key of a group whose record is in its target.
    #[must_use]
    pub fn target_key(stored: RawDoc<'_>) -> Option<Val<'_>> {
        Record::as_in_target(stored).map(|(key, _)| key)
    }

    /// The number of such a group's children and the values of its fields, from its target.
    #[must_use]
    pub fn values_in_target(
        &self,
        stored: RawDoc<'_>,
        target: Option<RawDoc<'_>>,
    ) -> (i64, Vec<OwnedVal>) {
        let sums = Record::as_in_target(stored).map_or(&[][..], |(_, sums)| sums);
        let record = target.and_then(|target| self.record_in_target(target, sums));
        self.values_of(&record.unwrap_or_else(|| self.empty_record()))
    }

    /// The record of a group, from its own record or from its target.
    pub(super) fn record_of(
        &self,
        documents: &mut dyn Documents,
        stored: Option<DocBuf>,
    ) -> Result<Record> {
        let Some(stored) = stored else { return Ok(self.empty_record()) };
        let Some((key, sums)) = Record::as_in_target(stored.as_doc()) else {
            return Ok(Record::of(stored.as_doc(), self.fields.len()));
        };
        let target = documents.get(&self.target, key)?;
        let shown = target.and_then(|target| self.record_in_target(target.as_doc(), sums));
        Ok(shown.unwrap_or_else(|| self.empty_record()))
    }

    /// The record of a group as it would be stored without using the target.
    ///
    /// # Errors
    /// When the store fails.
    pub fn whole_record(
        &self,
        documents: &mut dyn Documents,
        stored: RawDoc<'_>,
    ) -> Result<DocBuf> {
        let Some(key) = Fold::target_key(stored) else { return Ok(stored.into()) };
        Ok(self.record_of(documents, Some(stored.into()))?.to_doc(key))
    }

    /// Stores the record of a group whose target is about to be deleted, or written without this
    /// pattern.
    ///
    /// # Errors
    /// When the store fails.
    pub fn keep_record(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<()> {
        if !pattern.phase.is_built() || !self.fits_target() {
            return Ok(());
        }
        let Some(encoded) = self.local_key(target) else { return Ok(()) };
        let key = record_key(&encoded);
        let Some(stored) = documents.state(pattern.id, &key)? else { return Ok(()) };
        if Fold::target_key(stored.as_doc()).is_none() {
            return Ok(());
        }
        let record = self.whole_record(documents, stored.as_doc())?;
        documents.set_state(pattern.id, &key, Some(record))
    }

    /// Applies a group's changes directly to the target that holds its state. Returns false if
    /// that needs a record.
    pub(super) fn update_in_target(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Key<'_>,
        sums: &[u8],
        group: &Group,
    ) -> Result<bool> {
        let mut followed = false;
        documents.edit(pattern.id, &self.target, key, &mut |target| {
            let Some(values) = self.changed(target, sums, group) else { return Ok(None) };
            followed = true;
            edit::edited(target, &values)
        })?;
        Ok(followed)
    }

    /// The values of a target after its group's changes.
    fn changed(&self, target: RawDoc<'_>, sums: &[u8], group: &Group) -> Option<Vec<Value<'_>>> {
        let mut values = Vec::with_capacity(self.fields.len());
        for (number, (field, letter)) in self.fields.iter().zip(sums.iter().copied()).enumerate() {
            let shown = field.path.find(target)?.get().as_i64_exact()?;
            let value = match letter {
                COUNT => {
                    let children = shown.checked_add(group.gain()).filter(|count| *count > 0)?;
                    field.accumulator.value(children, &AccumulatorState::Empty)
                }
                _ => {
                    let mut sum = shown;
                    for (parts, adds) in &group.changes {
                        let Some(Contribution::Value(value)) = parts.get(number) else {
                            return None;
                        };
                        let value = match (value.get(), letter) {
                            (Val::Int32(value), INTS) => i64::from(value),
                            (Val::Int64(value), LONGS) => value,
                            _ => return None,
                        };
                        sum = match adds {
                            true => sum.checked_add(value)?,
                            false => sum.checked_sub(value)?,
                        };
                    }
                    OwnedVal::new(match i32::try_from(sum) {
                        Ok(sum) if letter == INTS => Val::Int32(sum),
                        _ => Val::Int64(sum),
                    })
                }
            };
            values.push((&field.path, Some(value)));
        }
        (values.len() == self.fields.len()).then_some(values)
    }
}
