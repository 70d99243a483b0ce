//! Pending changes of a fold: what children add and remove, by group.

use super::accumulators::Contribution;
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use value::OwnedVal;

/// The contribution of a child to its groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// Its keys, encoded and as values.
    pub keys: Vec<(Vec<u8>, OwnedVal)>,
    /// Its contribution to each field; then, if there is a window, its position there.
    pub parts: Vec<Contribution>,
}

/// The changes of one group that are not settled yet.
#[derive(Debug)]
pub struct Group {
    pub(super) key: OwnedVal,
    /// Removed and added contributions, in order.
    pub(super) changes: SmallVec<[(Vec<Contribution>, bool); 1]>,
}

impl Group {
    /// A group of which one child changes.
    pub(super) fn new(key: OwnedVal, parts: Vec<Contribution>, adds: bool) -> Group {
        Group { key, changes: smallvec![(parts, adds)] }
    }

    /// The number of changes: a child that remains counts once, not as a removal and an addition.
    #[must_use]
    pub fn changes(&self) -> usize {
        let added = self.changes.iter().filter(|(_, adds)| *adds).count();
        added.max(self.changes.len() - added)
    }

    /// The change in the number of children.
    pub(super) fn gain(&self) -> i64 {
        self.changes.iter().map(|(_, adds)| if *adds { 1 } else { -1 }).sum()
    }
}

/// The groups with changes, by encoded key. A single write changes one and needs no map.
#[derive(Debug, Default)]
pub enum Groups {
    /// None yet.
    #[default]
    None,
    /// One.
    One(Vec<u8>, Group),
    /// More.
    Many(BTreeMap<Vec<u8>, Group>),
}

impl Groups {
    /// Adds a change of a child. `before` and `after` are its contributions before and after the
    /// change.
    pub fn note(&mut self, before: Option<Child>, after: Option<Child>) {
        if before == after {
            return;
        }
        for (child, adds) in [(before, false), (after, true)] {
            let Some(Child { keys, parts }) = child else { continue };
            let mut add = |(encoded, key), parts| self.add(encoded, Group::new(key, parts, adds));
            let mut keys = keys.into_iter();
            let last = keys.next_back();
            keys.for_each(|key| add(key, parts.clone()));
            if let Some(last) = last {
                add(last, parts);
            }
        }
    }

    /// Adds children that went, then those that came.
    pub fn note_all(&mut self, gone: Vec<Child>, come: Vec<Child>) {
        gone.into_iter().for_each(|child| self.note(Some(child), None));
        come.into_iter().for_each(|child| self.note(None, Some(child)));
    }

    /// Adds changes of a group after those already recorded.
    pub fn add(&mut self, encoded: Vec<u8>, group: Group) {
        match self {
            Groups::None => *self = Groups::One(encoded, group),
            Groups::One(known, all) if *known == encoded => all.changes.extend(group.changes),
            Groups::Many(map) => add_to(map, encoded, group),
            Groups::One(..) => {
                let mut map = BTreeMap::new();
                if let Groups::One(known, all) = std::mem::take(self) {
                    map.insert(known, all);
                }
                map.insert(encoded, group);
                *self = Groups::Many(map);
            }
        }
    }

    /// Adds later changes of groups.
    pub fn merge(&mut self, later: Groups) {
        match later {
            Groups::None => {}
            Groups::One(encoded, group) => self.add(encoded, group),
            Groups::Many(map) => map.into_iter().for_each(|(key, group)| self.add(key, group)),
        }
    }

    /// The groups in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Group)> {
        let (one, many) = match self {
            Groups::None => (None, None),
            Groups::One(key, group) => (Some((key.as_slice(), group)), None),
            Groups::Many(map) => (None, Some(map)),
        };
        let many = many.into_iter().flatten().map(|(key, group)| (key.as_slice(), group));
        one.into_iter().chain(many)
    }
}

fn add_to(map: &mut BTreeMap<Vec<u8>, Group>, encoded: Vec<u8>, group: Group) {
    match map.get_mut(&encoded) {
        Some(known) => known.changes.extend(group.changes),
        None => drop(map.insert(encoded, group)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::Val;

    fn group(number: i32, adds: bool) -> Group {
        let part = Contribution::Value(Val::Int32(number).into());
        Group::new(Val::Int32(0).into(), vec![part], adds)
    }

    fn shown(groups: &Groups) -> String {
        let changes = |group: &Group| {
            let show = |(parts, adds): &(Vec<Contribution>, bool)| {
                let sign = if *adds { '+' } else { '-' };
                parts.iter().map(|part| format!("{sign}{part:?} ")).collect::<String>()
            };
            group.changes.iter().map(show).collect::<String>()
        };
        groups.iter().map(|(key, group)| format!("{key:?}: {}", changes(group))).collect()
    }

    #[test]
    fn changes_of_a_group_stay_in_order_however_they_come_together() {
        let list = [(2_u8, 1, true), (2, 1, false), (1, 7, true), (2, 3, true), (9, 4, true)];
        let mut all = Groups::default();
        for (key, number, adds) in list {
            all.add(vec![key], group(number, adds));
        }
        assert_eq!(
            shown(&all),
            "[1]: +Value(Int32(7)) [2]: +Value(Int32(1)) -Value(Int32(1)) +Value(Int32(3)) [9]: \
             +Value(Int32(4)) "
        );
        for cut in 0..=list.len() {
            let (first, second) = list.split_at(cut);
            let part = |list: &[(u8, i32, bool)]| {
                let mut groups = Groups::default();
                for (key, number, adds) in list {
                    groups.add(vec![*key], group(*number, *adds));
                }
                groups
            };
            let mut merged = part(first);
            merged.merge(part(second));
            assert_eq!(shown(&merged), shown(&all), "{cut}");
        }
    }
}
