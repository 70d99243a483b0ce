//! Intersection of predicates in an index whose entries begin with a path: besides the entry that
//! is read, a document must have entries of other paths with given values. Whether it has them is
//! looked up by their keys, before the document is fetched.

use super::bounds::Interval;
use super::facts::Fact;
use crate::catalog::Index;
use crate::operation::Examined;
use crate::store_failed;
use store::{Snapshot, Space};
use value::{Result, Val, Writer, keys};

/// The most predicates that are looked up, and the most values of each.
const PROBES_MAX: usize = 8;

/// The entries that a document must have besides the one that is read.
#[derive(Debug)]
pub struct Probes {
    /// Whether values are stored in descending order.
    descending: bool,
    list: Vec<Probe>,
}

#[derive(Debug)]
struct Probe {
    path: String,
    /// The beginnings of keys, of which one must exist: the index's prefix, path and value.
    keys: Vec<Vec<u8>>,
}

impl Probes {
    /// Returns the probes for predicates on paths other than the one whose entries are read.
    /// `certain` takes the predicates that need no further test.
    pub(super) fn of<'f>(
        index: &Index,
        facts: impl Iterator<Item = &'f Fact<'f>>,
        mut certain: impl FnMut(&Fact<'_>),
    ) -> Option<Probes> {
        let descending = *index.columns.get(1)?;
        let mut list = Vec::new();
        for fact in facts {
            let intervals = &fact.bounds.intervals;
            let few = (1..=PROBES_MAX).contains(&intervals.len());
            if !few || !intervals.iter().all(|only| only.point) || list.len() == PROBES_MAX {
                continue;
            }
            let path = Interval::point(Val::String(&fact.path));
            let keys = intervals.iter().map(|only| match descending {
                true => [&index.prefix(), &*path.from, &*only.descending().from].concat(),
                false => [&index.prefix(), &*path.from, &*only.from].concat(),
            });
            list.push(Probe { path: fact.path.clone(), keys: keys.collect() });
            certain(fact);
        }
        (!list.is_empty()).then_some(Probes { descending, list })
    }

    /// Writes the paths that are looked up.
    pub(super) fn explain(&self, out: &mut Writer<'_>) {
        out.array("intersectedWith", |out| {
            self.list.iter().for_each(|probe| out.push(Val::String(&probe.path)));
        });
    }

    /// Returns whether the document of an entry has all other entries; `None` if the entry is
    /// damaged. All entries of a document have the same bytes behind path and value.
    ///
    /// # Errors
    /// When the store fails.
    pub fn pass(
        &self,
        snapshot: &Snapshot,
        entry: &[u8],
        examined: &mut Examined,
    ) -> Result<Option<bool>> {
        let rest = entry.get(4..).and_then(|rest| rest.get(keys::skip(rest, false)?..));
        let rest = rest.and_then(|rest| rest.get(keys::skip(rest, self.descending)?..));
        let Some(rest) = rest else { return Ok(None) };
        let mut key = Vec::new();
        for probe in &self.list {
            let mut found = false;
            for start in &probe.keys {
                key.clear();
                key.extend_from_slice(start);
                key.extend_from_slice(rest);
                examined.keys += 1;
                found = snapshot.get(Space::Indexes, &key).map_err(store_failed)?.is_some();
                if found {
                    break;
                }
            }
            if !found {
                return Ok(Some(false));
            }
        }
        Ok(Some(true))
    }
}
