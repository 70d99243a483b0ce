//! Groups whose target shows all that their record would hold: how many children there are, and sums
//! of 32-bit whole numbers, to each of which every child adds one.
//!
//! Of such a group only the key is kept, once. A child's write reads the numbers where it writes them,
//! so that one place of the store changes and not two. What a target cannot show (numbers of other
//! types, a child without one, a sum that outgrows 32 bits) makes the group a record again, and so does
//! whoever takes the target away or writes past its patterns: a key alone always means that the
//! target is there and right.

use super::fold::{Fold, Part, State};
use super::grouped::{Field, Grouped, Value};
use super::groups::Group;
use super::record::{Record, record_key};
use super::tally::Tally;
use crate::documents::{Documents, Key};
use crate::edit;
use crate::pattern::{Pattern, Phase};
use value::{DocBuf, OwnedVal, RawDoc, Result, Val};

impl Grouped {
    /// Whether there may be groups of which only the key is kept.
    fn may_be_shown(&self) -> bool {
        let counts = |fold: &Fold| matches!(fold, Fold::Count);
        self.has_one_target()
            && self.window.is_none()
            && self.fields.iter().any(|field| counts(&field.fold))
            && self.fields.iter().all(|f| counts(&f.fold) || matches!(f.fold, Fold::Sum(_)))
    }

    /// Whether a record may be left to its target now.
    pub(super) fn may_leave(&self, pattern: &Pattern) -> bool {
        pattern.phase == Phase::Ready && !pattern.is_deferred() && self.may_be_shown()
    }

    /// Whether all of a record can be read from a target that shows it, given that its fields can.
    pub(super) fn is_shown(&self, record: &Record) -> bool {
        let whole = |(field, state): (&Field, &State)| match (&field.fold, state) {
            (Fold::Count, _) => true,
            (_, State::Tally(tally)) => match tally.total() {
                Val::Int32(sum) => *tally == Tally::of_ints(sum, record.children),
                _ => false,
            },
            _ => false,
        };
        record.children > 0 && self.fields.iter().zip(&record.states).all(whole)
    }

    /// The record that a target shows.
    fn shown_by(&self, target: RawDoc<'_>) -> Option<Record> {
        let shown = |field: &Field| Some(field.path.find(target)?.get());
        let count = self.fields.iter().find(|field| matches!(field.fold, Fold::Count));
        let children = count.and_then(shown)?.as_i64_exact()?;
        let state = |field| match (shown(field)?, &field.fold) {
            (_, Fold::Count) => Some(State::Empty),
            (Val::Int32(sum), _) => Some(State::Tally(Tally::of_ints(sum, children))),
            _ => None,
        };
        let states = self.fields.iter().map(state).collect::<Option<Vec<State>>>()?;
        Some(Record { children, states })
    }

    /// The key of a group of which nothing else is kept.
    #[must_use]
    pub fn shown_key(stored: RawDoc<'_>) -> Option<Val<'_>> {
        Record::key_alone(stored)
    }

    /// How many children such a group has, and what its fields show, from its target.
    #[must_use]
    pub fn shown_in(&self, target: Option<RawDoc<'_>>) -> (i64, Vec<OwnedVal>) {
        let record = target.and_then(|target| self.shown_by(target));
        self.listed(&record.unwrap_or_else(|| self.empty_record()))
    }

    /// The record of a group, be it kept or shown.
    pub(super) fn record_of(
        &self,
        documents: &mut dyn Documents,
        stored: Option<DocBuf>,
    ) -> Result<Record> {
        let Some(stored) = stored else { return Ok(self.empty_record()) };
        let Some(key) = Record::key_alone(stored.as_doc()) else {
            return Ok(Record::of(stored.as_doc(), self.fields.len()));
        };
        let target = documents.get(&self.target, key)?;
        let shown = target.and_then(|target| self.shown_by(target.as_doc()));
        Ok(shown.unwrap_or_else(|| self.empty_record()))
    }

    /// The record of a group as it would be kept if nothing of it were shown.
    ///
    /// # Errors
    /// When the store fails.
    pub fn whole_record(
        &self,
        documents: &mut dyn Documents,
        stored: RawDoc<'_>,
    ) -> Result<DocBuf> {
        let Some(key) = Record::key_alone(stored) else { return Ok(stored.into()) };
        Ok(self.record_of(documents, Some(stored.into()))?.to_doc(key))
    }

    /// Keeps the record of a group whose target is about to go, or to be written by somebody who does
    /// not heed what it shows.
    ///
    /// # Errors
    /// When the store fails.
    pub fn keep_record(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<()> {
        if !pattern.phase.is_built() || !self.may_be_shown() {
            return Ok(());
        }
        let Some(encoded) = self.local_key(target) else { return Ok(()) };
        let key = record_key(&encoded);
        let Some(stored) = documents.state(pattern.id, &key)? else { return Ok(()) };
        if Record::key_alone(stored.as_doc()).is_none() {
            return Ok(());
        }
        let record = self.whole_record(documents, stored.as_doc())?;
        documents.set_state(pattern.id, &key, Some(record))
    }

    /// Lets a target that shows its group follow the group's changes. False where that takes a record.
    pub(super) fn follow_shown(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Key<'_>,
        group: &Group,
    ) -> Result<bool> {
        let mut followed = false;
        documents.edit(pattern.id, &self.target, key, &mut |target| {
            let Some(values) = self.changed(target, group) else { return Ok(None) };
            followed = true;
            edit::edited(target, &values)
        })?;
        Ok(followed)
    }

    /// What a target shows after its group's changes.
    fn changed(&self, target: RawDoc<'_>, group: &Group) -> Option<Vec<Value<'_>>> {
        let mut values = Vec::with_capacity(self.fields.len());
        for (number, field) in self.fields.iter().enumerate() {
            let shown = field.path.find(target)?.get();
            let value = match (&field.fold, shown) {
                (Fold::Count, shown) => {
                    let children = shown.as_i64_exact()?.checked_add(group.gain())?;
                    (children > 0).then(|| field.fold.value(children, &State::Empty))?
                }
                (_, Val::Int32(sum)) => {
                    let mut sum = i64::from(sum);
                    for (parts, adds) in &group.changes {
                        let Some(Part::Value(value)) = parts.get(number) else { return None };
                        let Val::Int32(value) = value.get() else { return None };
                        let value = i64::from(value);
                        sum = sum.checked_add(if *adds { value } else { -value })?;
                    }
                    OwnedVal::new(Val::Int32(i32::try_from(sum).ok()?))
                }
                _ => return None,
            };
            values.push((&field.path, Some(value)));
        }
        Some(values)
    }
}
