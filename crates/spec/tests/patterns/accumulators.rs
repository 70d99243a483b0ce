//! What a fold may maintain, and how plain code computes it.

use crate::model::Child;
use value::Val;

/// What is expected of a value; numbers of every type are equal.
#[derive(Debug, PartialEq)]
pub(crate) enum Expect {
    Null,
    Number(f64),
    /// A number whose last digits depend on the order of the input.
    About(f64),
    List(Vec<Expect>),
    /// In any order.
    Set(Vec<f64>),
}

/// A field that a fold may maintain: its name, what declares it, and what it is of children in the
/// order of `x`, largest first, then of `_id`.
pub(crate) struct Accumulator {
    pub(crate) name: &'static str,
    pub(crate) spec: &'static str,
    /// Whether it depends on the order of the children.
    pub(crate) ordered: bool,
    pub(crate) of: fn(&[&Child]) -> Expect,
}

pub(crate) static ALL: &[Accumulator] = &[
    Accumulator {
        name: "n",
        spec: "{$count: {}}",
        ordered: false,
        of: |all| Expect::Number(all.len() as f64),
    },
    Accumulator {
        name: "s",
        spec: "{$sum: '$@x'}",
        ordered: false,
        of: |all| Expect::Number(sum(all)),
    },
    Accumulator {
        name: "a",
        spec: "{$avg: '$@x'}",
        ordered: false,
        of: |all| match xs(all).len() {
            0 => Expect::Null,
            count => Expect::Number(sum(all) / count as f64),
        },
    },
    Accumulator {
        name: "lo",
        spec: "{$min: '$@x'}",
        ordered: false,
        of: |all| one(xs(all).first().copied()),
    },
    Accumulator {
        name: "hi",
        spec: "{$max: '$@x'}",
        ordered: false,
        of: |all| one(xs(all).last().copied()),
    },
    Accumulator {
        name: "few",
        spec: "{$minN: {input: '$@x', n: 2}}",
        ordered: false,
        of: |all| list(xs(all).into_iter().take(2)),
    },
    Accumulator {
        name: "most",
        spec: "{$maxN: {input: '$@x', n: 3}}",
        ordered: false,
        of: |all| list(xs(all).into_iter().rev().take(3)),
    },
    Accumulator {
        name: "best",
        spec: "{$topN: {n: 2, sortBy: {'@x': -1, _id: 1}, output: '$_id'}}",
        ordered: false,
        of: |all| list(all.iter().take(2).map(|child| child.id as f64)),
    },
    Accumulator {
        name: "worst",
        spec: "{$bottom: {sortBy: {'@x': -1, _id: 1}, output: '$_id'}}",
        ordered: false,
        of: |all| one(all.last().map(|child| child.id as f64)),
    },
    Accumulator {
        name: "ks",
        spec: "{$addToSet: '$@k'}",
        ordered: false,
        of: |all| Expect::Set(ks(all)),
    },
    Accumulator {
        name: "kinds",
        spec: "{$size: {$addToSet: '$@k'}}",
        ordered: false,
        of: |all| Expect::Number(ks(all).len() as f64),
    },
    Accumulator {
        name: "spread",
        spec: "{$stdDevPop: '$@x'}",
        ordered: false,
        of: |all| {
            let xs = xs(all);
            let count = xs.len() as f64;
            let mean = xs.iter().sum::<f64>() / count;
            let squares: f64 = xs.iter().map(|x| (x - mean).powi(2)).sum();
            if xs.is_empty() { Expect::Null } else { Expect::About((squares / count).sqrt()) }
        },
    },
    Accumulator {
        name: "middle",
        spec: "{$median: {input: '$@x', method: 'approximate'}}",
        ordered: false,
        of: |all| at_rank(&xs(all), 0.5),
    },
    Accumulator {
        name: "tails",
        spec: "{$percentile: {input: '$@x', p: [0.1, 0.9], method: 'approximate'}}",
        ordered: false,
        of: |all| Expect::List(vec![at_rank(&xs(all), 0.1), at_rank(&xs(all), 0.9)]),
    },
    Accumulator {
        name: "union",
        spec: "{$setUnion: {$cond: [{$isNumber: '$@k'}, ['$@k'], []]}}",
        ordered: false,
        of: |all| Expect::Set(ks(all)),
    },
    Accumulator {
        name: "row",
        spec: "{$concatArrays: {$concatArrays: [['$_id'], ['$_id']]}}",
        ordered: true,
        of: |all| list(by_id(all).into_iter().flat_map(|id| [id as f64, id as f64])),
    },
    Accumulator {
        name: "opening",
        spec: "{$first: '$_id'}",
        ordered: true,
        of: |all| one(by_id(all).first().map(|id| *id as f64)),
    },
    Accumulator {
        name: "closing",
        spec: "{$lastN: {input: '$_id', n: 2}}",
        ordered: true,
        of: |all| {
            let ids = by_id(all);
            list(ids[ids.len().saturating_sub(2)..].iter().map(|id| *id as f64))
        },
    },
    Accumulator {
        name: "all",
        spec: "{$push: '$_id'}",
        ordered: true,
        of: |all| list(by_id(all).into_iter().map(|id| id as f64)),
    },
];

fn xs(all: &[&Child]) -> Vec<f64> {
    let mut xs: Vec<f64> = all.iter().filter_map(|child| child.x).collect();
    xs.sort_by(f64::total_cmp);
    xs
}

/// The least number that at least this part of all numbers does not exceed.
fn at_rank(sorted: &[f64], part: f64) -> Expect {
    let reached = |at: usize| (at + 1) as f64 >= part * sorted.len() as f64;
    one((0..sorted.len()).find(|at| reached(*at)).map(|at| sorted[at]))
}

fn sum(all: &[&Child]) -> f64 {
    // Quarters: exact in any order.
    xs(all).into_iter().fold(0.0, |sum, x| sum + x)
}

fn ks(all: &[&Child]) -> Vec<f64> {
    let mut ks: Vec<i64> = all.iter().filter_map(|child| child.k).collect();
    ks.sort_unstable();
    ks.dedup();
    ks.into_iter().map(|k| k as f64).collect()
}

fn by_id(all: &[&Child]) -> Vec<i64> {
    let mut ids: Vec<i64> = all.iter().map(|child| child.id).collect();
    ids.sort_unstable();
    ids
}

fn one(value: Option<f64>) -> Expect {
    value.map_or(Expect::Null, Expect::Number)
}

fn list(values: impl Iterator<Item = f64>) -> Expect {
    Expect::List(values.map(Expect::Number).collect())
}

impl Expect {
    /// Whether a value is what is expected.
    pub(crate) fn is(&self, found: Val<'_>) -> bool {
        match self {
            Expect::Null => matches!(found, Val::Null),
            Expect::Number(number) => found.is_number() && found.as_f64() == Some(*number),
            Expect::About(number) => {
                found.as_f64().is_some_and(|f| (f - number).abs() <= 1e-9 * number.abs().max(1.0))
            }
            Expect::List(expected) => found.as_array().is_some_and(|list| {
                list.iter().count() == expected.len()
                    && list.iter().zip(expected).all(|((_, found), expect)| expect.is(found.get()))
            }),
            Expect::Set(expected) => found.as_array().is_some_and(|list| {
                let mut found: Vec<f64> =
                    list.iter().filter_map(|(_, value)| value.get().as_f64()).collect();
                found.sort_by(f64::total_cmp);
                found == *expected
            }),
        }
    }
}
