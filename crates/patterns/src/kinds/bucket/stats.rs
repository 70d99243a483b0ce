//! Statistics of a group of points: how many there are, and the least value, the greatest value and
//! the sum of some fields, as `$min`, `$max` and `$sum` return them.

use super::settings::{Found, Settings, look};
use crate::fold::tally::Tally;
use std::cmp::Ordering;
use value::{DocBuf, OwnedVal, RawDoc, Val, compare};

/// The statistics of one field.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldStats {
    pub(super) min: Option<OwnedVal>,
    pub(super) max: Option<OwnedVal>,
    /// The number of values that are numbers.
    pub(super) numbers: u64,
    pub(super) sum: Tally,
}

/// The statistics of some points.
#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    pub(super) points: u64,
    /// In the order of the declaration.
    pub(super) fields: Vec<FieldStats>,
}

/// The value of a field in a point, if statistics count it.
fn counted<'d>(doc: RawDoc<'d>, field: &super::settings::RolledUp) -> Option<Val<'d>> {
    let Found::Value(value) = look(doc, &field.path) else { return None };
    Some(value.get()).filter(|value| !value.is_nullish())
}

impl FieldStats {
    fn widen(&mut self, value: Val<'_>) {
        let beats = |known: &Option<OwnedVal>, order| {
            known.as_ref().is_none_or(|known| compare::compare(value, known.get()) == order)
        };
        if beats(&self.min, Ordering::Less) {
            self.min = Some(OwnedVal::new(value));
        }
        if beats(&self.max, Ordering::Greater) {
            self.max = Some(OwnedVal::new(value));
        }
    }

    fn add(&mut self, value: Val<'_>) {
        self.widen(value);
        if value.is_number() {
            self.numbers += 1;
            self.sum.change(value, true);
        }
    }

    fn merge(&mut self, other: &FieldStats) {
        for bound in [&other.min, &other.max].into_iter().flatten() {
            self.widen(bound.get());
        }
        self.numbers += other.numbers;
        self.sum.merge(&other.sum);
    }
}

impl Stats {
    /// Statistics of no points.
    pub(super) fn none(settings: &Settings) -> Stats {
        Stats { points: 0, fields: vec![FieldStats::default(); settings.fields.len()] }
    }

    /// Adds a point.
    pub(super) fn add(&mut self, settings: &Settings, doc: RawDoc<'_>) {
        self.points += 1;
        for (field, stats) in settings.fields.iter().zip(&mut self.fields) {
            if let Some(value) = counted(doc, field) {
                stats.add(value);
            }
        }
    }

    /// Removes a point. False if its value was the least or the greatest: then the statistics have
    /// to be computed again.
    pub(super) fn remove(&mut self, settings: &Settings, doc: RawDoc<'_>) -> bool {
        self.points = self.points.saturating_sub(1);
        let mut exact = true;
        for (field, stats) in settings.fields.iter().zip(&mut self.fields) {
            let Some(value) = counted(doc, field) else { continue };
            let within = |bound: &Option<OwnedVal>| {
                bound.as_ref().is_some_and(|bound| compare::compare(value, bound.get()).is_ne())
            };
            exact &= within(&stats.min) && within(&stats.max);
            if value.is_number() {
                stats.numbers = stats.numbers.saturating_sub(1);
                stats.sum.change(value, false);
            }
        }
        exact
    }

    /// Adds the points of other statistics.
    pub(super) fn merge(&mut self, other: &Stats) {
        self.points += other.points;
        for (stats, other) in self.fields.iter_mut().zip(&other.fields) {
            stats.merge(other);
        }
    }

    /// The statistics as they are stored.
    pub(super) fn to_doc(&self) -> DocBuf {
        DocBuf::build(|out| {
            out.count("n", self.points);
            out.array("f", |list| {
                for field in &self.fields {
                    list.push_doc(|out| {
                        if let (Some(min), Some(max)) = (&field.min, &field.max) {
                            out.append("a", min.get()).append("z", max.get());
                        }
                        if field.numbers > 0 {
                            out.count("c", field.numbers);
                            out.doc("s", |out| field.sum.write(out));
                        }
                    });
                }
            });
        })
    }

    /// Reads stored statistics.
    pub(super) fn from_doc(settings: &Settings, doc: RawDoc<'_>) -> Stats {
        let mut stats = Stats::none(settings);
        let number = |value: Option<Val<'_>>| {
            value.and_then(Val::as_i64_exact).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
        };
        stats.points = number(doc.get("n"));
        let list = doc.get("f").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        for ((_, stored), field) in list.iter().zip(&mut stats.fields) {
            let stored = stored.as_doc().unwrap_or(RawDoc::empty());
            field.min = stored.get("a").map(OwnedVal::new);
            field.max = stored.get("z").map(OwnedVal::new);
            field.numbers = number(stored.get("c"));
            if let Some(Val::Document(sum)) = stored.get("s") {
                field.sum = Tally::from_doc(sum);
            }
        }
        stats
    }
}

impl Stats {
    /// Whether stored statistics say the same.
    pub(super) fn is_stored_as(&self, settings: &Settings, stored: RawDoc<'_>) -> bool {
        let other = Stats::from_doc(settings, stored);
        let same = |a: &Option<OwnedVal>, b: &Option<OwnedVal>| match (a, b) {
            (Some(a), Some(b)) => compare::equal(a.get(), b.get()),
            (None, None) => true,
            _ => false,
        };
        let total = |field: &FieldStats| OwnedVal::new(field.sum.total());
        self.points == other.points
            && self.fields.iter().zip(&other.fields).all(|(a, b)| {
                same(&a.min, &b.min)
                    && same(&a.max, &b.max)
                    && a.numbers == b.numbers
                    && compare::equal(total(a).get(), total(b).get())
            })
    }
}
