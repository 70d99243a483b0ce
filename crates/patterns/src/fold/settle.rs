//! Applies the changes of children to a group: to its record and its targets.

use super::accumulators::{Accumulator, AccumulatorState, Contribution};
use super::entries;
use super::grouped::{Fold, Keys, MissingParent, Value};
use super::groups::Group;
use super::in_target::{INTS, Sums};
use super::ranks;
use super::record::{GROUP, MEMBER, PLACE, Record, entry_prefix, record_key};
use super::tally;
use super::window;
use crate::documents::{Documents, Key};
use crate::edit::{self, Image, Patch};
use crate::error_context::on_document;
use crate::pattern::{Pattern, Phase, Progress};
use crate::queue;
use crate::stats::Stats;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val, keys};

impl Fold {
    /// Applies the changes of a group and writes its targets.
    ///
    /// # Errors
    /// When the store fails or a target cannot be written.
    pub fn settle(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        encoded: &[u8],
        group: &Group,
    ) -> Result<()> {
        let own_key = record_key(encoded);
        if self.window.is_some() {
            for (parts, adds) in &group.changes {
                let Some(part) = parts.get(self.fields.len()) else { continue };
                window::keep(pattern, documents, part, (encoded, group.key.get()), *adds)?;
            }
        }
        // Most changes need only a few bytes of a record.
        let plain = !self.bounds && self.flush.is_none();
        let in_place = plain && pattern.phase.is_built() && !pattern.is_deferred();
        let (mut behind, mut grown, mut stored) = (false, None, None);
        let mut shown = None;
        documents.change_state(pattern.id, &own_key, &mut |record| {
            let record = record?;
            if let Some((_, sums)) = Record::as_in_target(record) {
                shown = Some(Sums::from_slice(sums));
                return None;
            }
            if self.is_behind(record, group) {
                behind = true;
                return if self.counts_children() { self.counted(record, group) } else { None };
            }
            if in_place && let Some((kept, values, whole)) = self.grown(record, group) {
                grown = Some((values, whole));
                return Some(kept);
            }
            stored = Some(DocBuf::from(record));
            None
        })?;
        let key = Key { encoded, value: group.key.get() };
        if behind {
            for (number, _) in self.fields.iter().enumerate() {
                let prefix = entry_prefix(PLACE, number, encoded);
                for (parts, adds) in &group.changes {
                    let Some(Contribution::Ranked(place, value)) = parts.get(number) else {
                        continue;
                    };
                    entries::keep(pattern, documents, &prefix, place, adds.then_some(value))?;
                }
            }
            return Ok(());
        }
        let leave = |documents: &mut dyn Documents, sums: &[u8]| {
            documents.set_state(pattern.id, &own_key, Some(Record::in_target(key.value, sums)))
        };
        if let Some((values, whole)) = grown {
            let found = self.write_values(pattern, documents, key, &values, true, None)?;
            if found && whole && self.may_leave(pattern) {
                leave(documents, &self.sums(|_| Some(INTS)).unwrap_or_default())?;
            }
            return Ok(());
        }
        let mut record = if let Some(sums) = shown {
            if in_place && self.update_in_target(pattern, documents, key, &sums, group)? {
                return Ok(());
            }
            self.record(pattern, documents, encoded)?
        } else {
            self.record_of(documents, stored)?
        };
        let anew = self.is_read_anew(&record, group);
        if anew && pattern.phase.is_built() {
            Stats::add(&pattern.stats.recomputed, 1);
        }
        record.children += group.gain();
        if self.bounds {
            record.at = Some(documents.now());
        }
        for (number, field) in self.fields.iter().enumerate() {
            let Some(state) = record.states.get_mut(number) else { break };
            let changes = group
                .changes
                .iter()
                .filter_map(|(parts, adds)| parts.get(number).map(|part| (part, *adds)));
            if let Some(limit) = field.accumulator.limit() {
                let prefix = entry_prefix(PLACE, number, encoded);
                entries::rank(pattern, documents, &prefix, limit, anew, state, changes)?;
            } else if let Some(wanted) = field.accumulator.percentiles() {
                let prefix = entry_prefix(PLACE, number, encoded);
                ranks::apply_changes(pattern, documents, &prefix, wanted, state, changes)?;
            } else if let Accumulator::Sketch(sketch) = &field.accumulator {
                let place = (number, encoded);
                sketch.apply_changes(pattern, documents, place, state, changes)?;
            } else if field.accumulator.is_set() {
                let listed = matches!(field.accumulator, Accumulator::Set(_));
                let prefix = entry_prefix(MEMBER, number, encoded);
                entries::collect(pattern, documents, &prefix, listed, state, changes)?;
            } else {
                for (part, adds) in changes {
                    if let Contribution::Value(value) = part {
                        field.accumulator.change(state, value.get(), adds);
                    }
                }
            }
        }
        if !self.counts_children() {
            record.children = record.states.first().map_or(0, AccumulatorState::listed);
        }
        let waits = self.holds_back(pattern, &mut record, group);
        let kept = (record.children > 0).then(|| record.to_doc(key.value));
        documents.set_state(pattern.id, &own_key, kept)?;
        if record.children <= 0 {
            record = self.empty_record();
        }
        if waits {
            return self.hold_back(pattern, documents, key, &record);
        }
        if self.flush.is_some() {
            queue::remove(pattern, documents, encoded)?;
        }
        if pattern.is_deferred() {
            return queue::put(pattern, documents, encoded, key.value);
        }
        let progress = pattern.progress(documents)?;
        let targets = progress.as_ref().is_some_and(|p| p.targets);
        if pattern.phase == Phase::Preparing || (pattern.phase == Phase::Building && !targets) {
            return Ok(());
        }
        let found = self.write_targets(pattern, documents, key, &record, progress.as_ref())?;
        if found
            && self.may_leave(pattern)
            && let Some(sums) = self.target_sums(&record)
        {
            leave(documents, &sums)?;
        }
        Ok(())
    }

    /// Whether so many of a group's children change at once that its lists are rebuilt from its
    /// entries: more than a fifth of them. Sums gain nothing by that, since each change is one
    /// addition.
    fn is_read_anew(&self, record: &Record, group: &Group) -> bool {
        /// Fewer changes than this are applied one by one, however few children there are.
        const CHANGES_MIN: usize = 10;
        if group.changes.len() < CHANGES_MIN {
            return false;
        }
        let changes = group.changes();
        let most = record.children.max(record.children + group.gain()).max(0) as usize;
        let lists = || self.fields.iter().any(|field| field.accumulator.limit().is_some());
        changes >= CHANGES_MIN && changes * 5 > most && lists()
    }

    /// Whether all changed children are after the results of the group's rankings, so that only
    /// the number of children changes.
    fn is_behind(&self, record: RawDoc<'_>, group: &Group) -> bool {
        if self.missing == MissingParent::Create {
            return false;
        }
        let Some((_, states)) = Record::count_and_states(record) else { return false };
        let mut states = states.iter();
        self.fields.iter().enumerate().all(|(number, field)| {
            let (Some(limit), Some((_, state))) = (field.accumulator.limit(), states.next_bytes())
            else {
                return false;
            };
            let list = state.as_array();
            let Some(last) = list.and_then(|list| entries::last_listed(list, limit)) else {
                return false;
            };
            let unseen = |part: &Contribution| match part {
                Contribution::Nothing => true,
                Contribution::Ranked(place, _) => place.as_slice() > last,
                Contribution::Value(_) => false,
            };
            group.changes.iter().all(|(parts, _)| parts.get(number).is_some_and(unseen))
        })
    }

    /// The record of a group with an updated number of children.
    fn counted(&self, record: RawDoc<'_>, group: &Group) -> Option<Image> {
        let (children, _) = Record::count_and_states(record)?;
        let count = children.get().as_i64_exact()?.checked_add(group.gain())?;
        let mut patch = Patch::new(record);
        patch.set_i64(children, count)?;
        Some(patch.into_image())
    }

    /// The record of a group after one child was added, and the new values of the fields, if all
    /// of them are counts and sums of whole numbers: only a few bytes of the record change. Also
    /// whether a target can hold all of the record. `None` in all other cases.
    fn grown(&self, record: RawDoc<'_>, group: &Group) -> Option<(Image, Vec<Value<'_>>, bool)> {
        let [(parts, true)] = group.changes.as_slice() else { return None };
        let (children, states) = Record::count_and_states(record)?;
        let count = children.get().as_i64_exact()?.checked_add(1)?;
        let mut patch = Patch::new(record);
        patch.set_i64(children, count)?;
        let mut states = states.iter();
        let mut values = Vec::with_capacity(self.fields.len());
        let mut whole = true;
        for (field, part) in self.fields.iter().zip(parts) {
            let (_, state) = states.next_bytes()?;
            let shown = match (&field.accumulator, part) {
                (Accumulator::Count, _) => field.accumulator.value(count, &AccumulatorState::Empty),
                (Accumulator::Sum(_), Contribution::Value(value)) => {
                    let tally = state.as_doc()?;
                    let (sum, ints) = tally::add_in_place(&mut patch, tally, value.get())?;
                    whole &= ints == count;
                    OwnedVal::new(sum)
                }
                _ => return None,
            };
            values.push((&field.path, Some(shown)));
        }
        (values.len() == self.fields.len()).then(|| (patch.into_image(), values, whole))
    }

    /// Updates the targets of a group from its record. Returns the number of groups: one.
    ///
    /// # Errors
    /// When the store fails or a target cannot be written.
    pub fn follow_group(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
    ) -> Result<usize> {
        let encoded = keys::key(key);
        let mut record = self.record(pattern, documents, &encoded)?;
        if record.held != 0 {
            record.held = 0;
            let own_key = record_key(&encoded);
            documents.set_state(pattern.id, &own_key, Some(record.to_doc(key)))?;
        }
        let key = Key { encoded: &encoded, value: key };
        self.write_targets(pattern, documents, key, &record, None)?;
        Ok(1)
    }

    fn write_targets(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Key<'_>,
        record: &Record,
        progress: Option<&Progress>,
    ) -> Result<bool> {
        let values = self.values(record);
        self.write_values(pattern, documents, key, &values, record.children > 0, progress)
    }

    /// Writes the values to the targets of a group; `living` if it has children. Returns whether
    /// it is known to have exactly one target, which exists.
    pub(super) fn write_values(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Key<'_>,
        values: &[Value<'_>],
        living: bool,
        progress: Option<&Progress>,
    ) -> Result<bool> {
        let makes = match self.keys {
            Keys::Groups(_) => true,
            Keys::Parents { .. } => self.missing == MissingParent::Create,
        };
        let make = |documents: &mut dyn Documents| {
            let start = DocBuf::build(|out| {
                out.append("_id", key.value);
            });
            let made = edit::assign(start.as_doc(), values)?;
            documents.insert(pattern.id, &self.target, &made)
        };
        if progress.is_none() && self.has_one_target() && (living || !self.is_own()) {
            let mut edit = |target: RawDoc<'_>| {
                edit::edited(target, values).map_err(|error| on_document(target, error))
            };
            let found = documents.edit(pattern.id, &self.target, key, &mut edit)?;
            if !found && makes && living {
                make(documents)?;
            }
            return Ok(found);
        }
        let reached = |id: Val<'_>| progress.is_none_or(|p| p.has_reached(&keys::key(id)));
        let targets = self.targets(documents, key.value)?;
        if targets.is_empty() && makes && living && reached(key.value) {
            make(documents)?;
            return Ok(false);
        }
        for target in targets {
            let id = target.as_doc().get("_id").unwrap_or(Val::Null);
            if !reached(id) {
                continue;
            }
            if self.is_own() && !living {
                documents.delete(pattern.id, &self.target, target.as_doc())?;
                continue;
            }
            let image = edit::assign(target.as_doc(), values);
            let image = image.map_err(|error| on_document(target.as_doc(), error))?;
            if image != target {
                documents.replace(pattern.id, &self.target, target.as_doc(), &image)?;
            }
        }
        Ok(false)
    }

    /// Creates the documents of at most `batch` groups after `after`. Returns the last one.
    ///
    /// # Errors
    /// When the store fails.
    pub fn write_groups(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        after: &[u8],
        batch: usize,
    ) -> Result<Option<(Vec<u8>, usize)>> {
        let mut groups: Vec<(Vec<u8>, OwnedVal, Record)> = Vec::new();
        let start = if after.is_empty() { Vec::new() } else { record_key(after).to_vec() };
        documents.states(pattern.id, &[GROUP], &start, &mut |key, doc| {
            let encoded = key.get(1..).unwrap_or(&[]);
            let shown = OwnedVal::new(doc.get("k").unwrap_or(Val::Null));
            groups.push((encoded.to_vec(), shown, Record::of(doc, self.fields.len())));
            Ok(groups.len() < batch)
        })?;
        let count = groups.len();
        let last = groups.last().map(|(encoded, _, _)| (encoded.clone(), count));
        for (encoded, key, record) in groups {
            let key = Key { encoded: &encoded, value: key.get() };
            self.write_targets(pattern, documents, key, &record, None)?;
        }
        Ok(last)
    }
}
