//! Accumulators of `$group`.
//!
//! A specification (`{$sum: "$price"}`) is compiled once; each group has a state to which values are
//! added. `order` keeps firsts, lasts, extremes and tops, `collect` arrays and sets, `partial` saves
//! and merges states, `scripted` runs functions of clients; sums are in `sums`, percentiles in `expr/percentile`. This file has the
//! registry and the interface of states.

mod collect;
mod order;
mod partial;
mod scripted;

use crate::ParseContext;
use crate::expr::number::check_count;
pub use crate::expr::percentile::rank_of;
use crate::expr::percentile::{self, Percentiles};
use crate::expr::{Env, Expr};
use crate::show::show;
use crate::sort::SortSpec;
use crate::sums::{Deviation, Sum};
use bumpalo::Bump;
use collect::{Concat, Distinct, Merge, Push, Set};
use order::{Edge, Extreme, Ranked};
use scripted::{Functions, Scripted};
use std::sync::Arc;
use value::{Code, Collation, Error, RawDoc, Result, Val};

/// Memory that one accumulator may take before it is refused, in bytes.
const STATE_BYTES_MAX: usize = value::limits::BLOCKING_STAGE_BYTES_MAX;

/// A compiled accumulator.
#[derive(Clone, Debug)]
pub struct AccumulatorSpec {
    kind: Kind,
    name: &'static str,
    argument: Expr,
    /// How many values `$firstN` and the like keep.
    count: Option<Expr>,
    /// The order of `$top` and the like.
    sort: Option<SortSpec>,
    /// The fields of that order, each with whether it descends.
    sort_paths: Vec<(Expr, bool)>,
    percentiles: Vec<f64>,
    /// The functions of `$accumulator`.
    functions: Option<Arc<Functions>>,
    collation: Option<Arc<Collation>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `$accumulator`, and the `reduce` of `mapReduce`, which has no public name.
    Functions,
    Reduce,
    AddToSet,
    /// The number of members that `$addToSet` would have. It has no name; rewritten queries use it.
    CountDistinct,
    Average,
    Bottom,
    BottomN,
    ConcatArrays,
    Count,
    First,
    FirstN,
    Last,
    LastN,
    Max,
    MaxN,
    Median,
    MergeObjects,
    Min,
    MinN,
    Percentile,
    Push,
    SetUnion,
    DeviationPopulation,
    DeviationSample,
    Sum,
    Top,
    TopN,
}

/// The registry, sorted by name.
static OPERATORS: &[(&str, Kind)] = &[
    (scripted::REDUCE, Kind::Reduce),
    ("$accumulator", Kind::Functions),
    ("$addToSet", Kind::AddToSet),
    ("$avg", Kind::Average),
    ("$bottom", Kind::Bottom),
    ("$bottomN", Kind::BottomN),
    ("$concatArrays", Kind::ConcatArrays),
    ("$count", Kind::Count),
    ("$first", Kind::First),
    ("$firstN", Kind::FirstN),
    ("$last", Kind::Last),
    ("$lastN", Kind::LastN),
    ("$max", Kind::Max),
    ("$maxN", Kind::MaxN),
    ("$median", Kind::Median),
    ("$mergeObjects", Kind::MergeObjects),
    ("$min", Kind::Min),
    ("$minN", Kind::MinN),
    ("$percentile", Kind::Percentile),
    ("$push", Kind::Push),
    ("$setUnion", Kind::SetUnion),
    ("$stdDevPop", Kind::DeviationPopulation),
    ("$stdDevSamp", Kind::DeviationSample),
    ("$sum", Kind::Sum),
    ("$top", Kind::Top),
    ("$topN", Kind::TopN),
];

impl Kind {
    /// The name of the accumulator; a set that is only counted has the name of the set.
    fn name(self) -> &'static str {
        let known = if self == Kind::CountDistinct { Kind::AddToSet } else { self };
        OPERATORS.iter().find(|(_, kind)| *kind == known).map_or("", |(name, _)| *name)
    }
}

/// The names of all accumulators for clients.
pub fn operators() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|(name, _)| *name).filter(|name| !name.starts_with("$_"))
}

impl AccumulatorSpec {
    /// Compiles the value of a `$group` field: `{$sum: ..}` and the like. `field` is its name, for
    /// messages.
    pub fn parse(field: &str, spec: Val<'_>, ctx: &ParseContext<'_>) -> Result<AccumulatorSpec> {
        let Some(doc) = spec.as_doc().filter(|doc| !doc.is_empty()) else {
            return Err(Error::new(
                Code(40234),
                format!("The field '{field}' must be an accumulator object"),
            ));
        };
        if doc.count() != 1 {
            return Err(Error::new(
                Code(40238),
                format!("The field '{field}' must specify one accumulator"),
            ));
        }
        let Some((operator, operand)) = doc.first() else {
            return Err(Error::internal("a document of one element has a first one"));
        };
        AccumulatorSpec::parse_operator(operator, operand.get(), ctx)
    }

    /// Compiles one accumulator given by its name and operand.
    pub fn parse_operator(
        operator: &str,
        operand: Val<'_>,
        ctx: &ParseContext<'_>,
    ) -> Result<AccumulatorSpec> {
        let Ok(at) = OPERATORS.binary_search_by(|(name, _)| (*name).cmp(operator)) else {
            return Err(Error::new(Code(15952), format!("unknown group operator '{operator}'")));
        };
        let Some((name, kind)) = OPERATORS.get(at).copied() else {
            return Err(Error::internal("a search finds places inside of the table"));
        };
        let mut spec = AccumulatorSpec {
            kind,
            name,
            argument: Expr::constant(Val::Missing),
            count: None,
            sort: None,
            sort_paths: Vec::new(),
            percentiles: Vec::new(),
            functions: None,
            collation: ctx.collation.cloned(),
        };
        match kind {
            Kind::Count => {
                if operand.as_array().is_some() {
                    return Err(Error::new(
                        Code(40237),
                        "The $count accumulator is a unary operator",
                    ));
                }
                if operand.as_doc().is_none_or(|doc| !doc.is_empty()) {
                    return Err(Error::type_mismatch("$count takes no arguments, i.e. $count:{}"));
                }
                spec.argument = Expr::constant(Val::Int32(1));
            }
            Kind::FirstN | Kind::LastN | Kind::MaxN | Kind::MinN => spec.parse_n(operand, ctx)?,
            Kind::Top | Kind::TopN | Kind::Bottom | Kind::BottomN => {
                spec.parse_top(operand, ctx)?;
            }
            Kind::Median | Kind::Percentile => {
                let (input, percentiles) =
                    percentile::parse(name, operand, kind == Kind::Percentile, ctx)?;
                spec.argument = Expr::parse(input, ctx)?;
                spec.percentiles = percentiles;
            }
            Kind::Functions | Kind::Reduce => {
                let (functions, argument) = if kind == Kind::Reduce {
                    Functions::parse_reduce(operand, ctx)?
                } else {
                    Functions::parse(operand, ctx)?
                };
                spec.functions = Some(Arc::new(functions));
                spec.argument = argument;
            }
            _ => spec.argument = Expr::parse(unary(name, operand)?, ctx)?,
        }
        Ok(spec)
    }

    /// `{input: .., n: ..}`.
    fn parse_n(&mut self, operand: Val<'_>, ctx: &ParseContext<'_>) -> Result<()> {
        let name = self.name;
        let Some(doc) = operand.as_doc() else {
            let extreme = matches!(self.kind, Kind::MaxN | Kind::MinN);
            return Err(Error::new(
                Code(if extreme { 5787900 } else { 5787801 }),
                format!("specification must be an object; found {name}: {}", show(operand)),
            ));
        };
        let (mut input, mut count) = (None, None);
        for (field, value) in doc {
            match field {
                "input" => input = Some(Expr::parse(value.get(), ctx)?),
                "n" => count = Some(Expr::parse(value.get(), ctx)?),
                other => {
                    return Err(Error::new(
                        Code(5787901),
                        format!("Unknown argument for 'n' operator: {other}"),
                    ));
                }
            }
        }
        let missing = |code, what| Error::new(Code(code), format!("Missing value for '{what}'"));
        if count.is_none() {
            return Err(missing(5787906, "n"));
        }
        self.argument = input.ok_or_else(|| missing(5787907, "input"))?;
        let count = count.ok_or_else(|| missing(5787906, "n"))?;
        if let Some(constant) = count.as_constant() {
            check_count(constant)?;
        }
        self.count = Some(count);
        Ok(())
    }

    /// `{sortBy: .., output: .., n: ..}`.
    fn parse_top(&mut self, operand: Val<'_>, ctx: &ParseContext<'_>) -> Result<()> {
        let name = self.name;
        let with_count = matches!(self.kind, Kind::TopN | Kind::BottomN);
        let Some(doc) = operand.as_doc() else {
            return Err(Error::new(
                Code(5788001),
                format!("specification must be an object; found {name}: {}", show(operand)),
            ));
        };
        let mut output = None;
        for (field, value) in doc {
            match field {
                "output" => output = Some(Expr::parse(value.get(), ctx)?),
                "n" if with_count => {
                    let count = Expr::parse(value.get(), ctx)?;
                    if let Some(constant) = count.as_constant() {
                        check_count(constant)?;
                    }
                    self.count = Some(count);
                }
                "sortBy" => {
                    let Some(sort) = value.as_doc() else {
                        return Err(Error::new(
                            Code(10065),
                            "invalid parameter: expected an object (sortBy)",
                        ));
                    };
                    self.sort = Some(SortSpec::parse(sort)?.with_collation(ctx.collation));
                    self.sort_paths.clear();
                    for (path, direction) in sort {
                        let value = Expr::parse(Val::String(&format!("${path}")), ctx)?;
                        let descending = direction.get().as_f64().is_some_and(|n| n < 0.0);
                        self.sort_paths.push((value, descending));
                    }
                }
                other => {
                    return Err(Error::new(
                        Code(5788002),
                        format!("Unknown argument to {name} '{other}'"),
                    ));
                }
            }
        }
        let missing = |code, what| Error::new(Code(code), format!("Missing value for '{what}'"));
        if with_count && self.count.is_none() {
            return Err(missing(5788003, "n"));
        }
        self.argument = output.ok_or_else(|| missing(5788004, "output"))?;
        if self.sort.is_none() {
            return Err(missing(5788005, "sortBy"));
        }
        Ok(())
    }

    /// The accumulator's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many values `$firstN` and the like keep, if that is a constant.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        match &self.count {
            None => Some(1),
            Some(count) => check_count(count.as_constant()?).ok(),
        }
    }

    /// The ranks that `$percentile` and `$median` return, from 0 to 1.
    #[must_use]
    pub fn percentiles(&self) -> &[f64] {
        &self.percentiles
    }

    /// The expression that is evaluated for each document.
    #[must_use]
    pub fn expression(&self) -> &Expr {
        &self.argument
    }

    /// Evaluates the value to add for the document of `env`.
    pub fn argument<'a>(&'a self, env: &Env<'a>) -> Result<Val<'a>> {
        let value = self.argument.eval(env)?;
        if self.kind == Kind::Functions {
            scripted::check_args(value)?;
        }
        let Some(sort) = &self.sort else { return Ok(value) };
        let mut key = Vec::new();
        let mut arrays = 0;
        for (path, descending) in &self.sort_paths {
            // Unlike in `$sort`, an array is compared as a whole; an empty one is less than null.
            let value = match path.eval(env)? {
                Val::Missing => Val::Null,
                Val::Array(array) => {
                    arrays += 1;
                    if array.is_empty() { Val::Undefined } else { Val::Array(array) }
                }
                value => value,
            };
            if arrays > 1 {
                return Err(Error::bad_value("cannot sort with keys that are parallel arrays"));
            }
            value::keys::encode_with(&mut key, value, *descending, sort.collation.as_deref());
        }
        // The state needs the order key and the value.
        env.array([Val::Binary(0, env.arena().alloc_slice_copy(&key)), value].into_iter())
    }

    /// The state of a new group. `group` is its `_id`, which `n` may depend on.
    pub fn start(&self, group: Val<'_>) -> Result<Accumulator> {
        let limit = match &self.count {
            None => 1,
            Some(count) => {
                let arena = Bump::new();
                let root = group.as_doc().unwrap_or(RawDoc::empty());
                check_count(count.eval(&Env::new(root, &arena))?)?
            }
        };
        if let Some(functions) = &self.functions {
            let state = Scripted::new(functions.clone(), group)?;
            let state = AccumulatorState::Scripted(Box::new(state));
            return Ok(Accumulator { state, kind: self.kind });
        }
        let ranked = |ranked: Ranked, shape| {
            AccumulatorState::Ranked(Box::new(ranked.with_collation(self.collation.clone())), shape)
        };
        let state = match self.kind {
            Kind::Functions | Kind::Reduce => {
                return Err(Error::internal("an accumulator of functions has them"));
            }
            Kind::Sum | Kind::Count => AccumulatorState::Sum(Sum::default()),
            Kind::Average => AccumulatorState::Average(Sum::default()),
            Kind::DeviationPopulation => AccumulatorState::Deviation(Deviation::default(), false),
            Kind::DeviationSample => AccumulatorState::Deviation(Deviation::default(), true),
            Kind::Min => AccumulatorState::Extreme(Extreme::new(false, self.collation.clone())),
            Kind::Max => AccumulatorState::Extreme(Extreme::new(true, self.collation.clone())),
            Kind::First => AccumulatorState::Edge(Edge::first(1), true),
            Kind::Last => AccumulatorState::Edge(Edge::last(1), true),
            Kind::FirstN => AccumulatorState::Edge(Edge::first(limit), false),
            Kind::LastN => AccumulatorState::Edge(Edge::last(limit), false),
            Kind::MinN => ranked(Ranked::smallest(limit), Shape::Values),
            Kind::MaxN => ranked(Ranked::largest(limit), Shape::Values),
            Kind::Top => ranked(Ranked::smallest(1), Shape::OneSorted),
            Kind::Bottom => ranked(Ranked::last(1), Shape::OneSorted),
            Kind::TopN => ranked(Ranked::smallest(limit), Shape::Sorted),
            Kind::BottomN => ranked(Ranked::last(limit), Shape::Sorted),
            Kind::Push => AccumulatorState::Push(Push::default()),
            Kind::CountDistinct => {
                AccumulatorState::Distinct(Box::new(Distinct::new(self.collation.clone())))
            }
            Kind::AddToSet => AccumulatorState::Set(Box::new(Set::new(self.collation.clone()))),
            Kind::MergeObjects => AccumulatorState::Merge(Box::default()),
            Kind::ConcatArrays => AccumulatorState::Concat(Concat::default()),
            Kind::SetUnion => AccumulatorState::Union(Box::new(Set::new(self.collation.clone()))),
            Kind::Median | Kind::Percentile => AccumulatorState::Percentiles(
                Box::new(Percentiles::new(self.percentiles.clone())),
                self.kind == Kind::Percentile,
            ),
        };
        Ok(Accumulator { state, kind: self.kind })
    }

    /// The same accumulator with another argument.
    #[must_use]
    pub fn with_argument(&self, argument: Expr) -> AccumulatorSpec {
        AccumulatorSpec { argument, ..self.clone() }
    }

    /// An accumulator that gives the size of the set that this one makes; `None` if it makes none.
    #[must_use]
    pub fn counting(&self) -> Option<AccumulatorSpec> {
        let makes_set = self.kind == Kind::AddToSet;
        makes_set.then(|| AccumulatorSpec { kind: Kind::CountDistinct, ..self.clone() })
    }

    /// Whether it needs only the keys of values, to compare them for equality.
    #[must_use]
    pub fn takes_keys(&self) -> bool {
        self.kind == Kind::CountDistinct && self.collation.is_none()
    }

    /// Whether it has the same argument as another accumulator.
    #[must_use]
    pub fn has_argument_of(&self, other: &AccumulatorSpec) -> bool {
        self.sort.is_none() && other.sort.is_none() && self.argument.is_same(&other.argument)
    }

    /// Whether `n` of `$minN` and the like is the same for all groups, or there is none.
    #[must_use]
    pub fn has_constant_count(&self) -> bool {
        self.count.as_ref().is_none_or(|count| count.as_constant().is_some())
    }

    /// Whether it needs an order key in addition to its argument.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        self.sort.is_some()
    }

    /// Whether it may read the whole document, not only the fields of its argument.
    #[must_use]
    pub fn reads_root(&self) -> bool {
        self.sort.is_some() || self.argument.reads_root()
    }

    /// Whether merging states of parts of the documents gives exactly the result of one state for
    /// all of them. This is false if doubles are rounded in between, or if the order of all
    /// documents decides which of equal values is kept.
    #[must_use]
    pub fn unites_exactly(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Functions
                | Kind::Reduce
                | Kind::DeviationPopulation
                | Kind::DeviationSample
                | Kind::MaxN
                | Kind::Bottom
                | Kind::BottomN
        )
    }

    /// Whether its state can grow beyond its first size.
    #[must_use]
    pub fn grows(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Sum
                | Kind::Count
                | Kind::Average
                | Kind::DeviationPopulation
                | Kind::DeviationSample
        )
    }
}

/// The single operand; an array of several is refused.
fn unary<'v>(name: &str, operand: Val<'v>) -> Result<Val<'v>> {
    if matches!(operand, Val::Array(_)) {
        return Err(Error::new(Code(40237), format!("The {name} accumulator is a unary operator")));
    }
    Ok(operand)
}

/// The state of one accumulator of one group.
#[derive(Debug)]
pub struct Accumulator {
    state: AccumulatorState,
    kind: Kind,
}

#[derive(Debug)]
enum AccumulatorState {
    Sum(Sum),
    Average(Sum),
    Deviation(Deviation, bool),
    Extreme(Extreme),
    /// True: one value, not an array.
    Edge(Edge, bool),
    Ranked(Box<Ranked>, Shape),
    Push(Push),
    Set(Box<Set>),
    Union(Box<Set>),
    Distinct(Box<Distinct>),
    Merge(Box<Merge>),
    Concat(Concat),
    Scripted(Box<Scripted>),
    /// True: an array of percentiles, not the median alone.
    Percentiles(Box<Percentiles>, bool),
}

/// The input and the result of a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Values that are ordered by themselves.
    Values,
    /// Values with an order key.
    Sorted,
    /// The same; the result is one value instead of an array.
    OneSorted,
}

impl Accumulator {
    /// Adds a value that `AccumulatorSpec::argument` returned.
    #[inline]
    pub fn process(&mut self, value: Val<'_>) -> Result<()> {
        // Sums are most common, and their memory does not grow.
        match &mut self.state {
            AccumulatorState::Sum(sum) | AccumulatorState::Average(sum) => {
                sum.add(value);
                Ok(())
            }
            _ => self.process_other(value),
        }
    }

    fn process_other(&mut self, value: Val<'_>) -> Result<()> {
        match &mut self.state {
            AccumulatorState::Sum(sum) | AccumulatorState::Average(sum) => sum.add(value),
            AccumulatorState::Deviation(deviation, _) => {
                deviation.add(value);
                return Ok(());
            }
            AccumulatorState::Extreme(extreme) => extreme.add(value),
            AccumulatorState::Edge(edge, _) => edge.add(value),
            AccumulatorState::Ranked(ranked, shape) => match (shape, value) {
                (Shape::Values, value) => {
                    if !value.is_nullish() {
                        let key = value::keys::key_with(value, ranked.collation());
                        ranked.add(&key, value);
                    }
                }
                (_, Val::Array(pair)) => {
                    let mut pair = pair.iter();
                    let key = pair.next().map_or(Val::Missing, |(_, key)| key.get());
                    let value = pair.next().map_or(Val::Null, |(_, value)| value.get());
                    if let Val::Binary(_, key) = key {
                        ranked.add(key, value);
                    }
                }
                _ => return Err(Error::internal("a sorted accumulator is fed with pairs")),
            },
            AccumulatorState::Push(push) => push.add(value),
            AccumulatorState::Set(set) => set.add(value),
            AccumulatorState::Distinct(distinct) => distinct.add(value),
            AccumulatorState::Union(set) => set.add_elements(self.kind.name(), value)?,
            AccumulatorState::Merge(merge) => merge.add(value)?,
            AccumulatorState::Concat(concat) => concat.add(value)?,
            AccumulatorState::Percentiles(percentiles, _) => percentiles.add(value),
            AccumulatorState::Scripted(scripted) => scripted.add(value)?,
        }
        self.check_memory()
    }

    /// Whether later values need not be computed: `$first` has its value, `$firstN` received one
    /// value more than it keeps (as in MongoDB).
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(&self.state, AccumulatorState::Edge(edge, single) if edge.is_settled(!single))
    }

    /// Adds a value by its key; only if `AccumulatorSpec::takes_keys`.
    pub fn process_key(&mut self, key: &[u8]) -> Result<()> {
        match &mut self.state {
            AccumulatorState::Distinct(distinct) => distinct.add_key(key),
            _ => return Err(Error::internal("an accumulator is fed with values")),
        }
        self.check_memory()
    }

    fn check_memory(&self) -> Result<()> {
        let bytes = self.memory_bytes();
        if bytes > STATE_BYTES_MAX {
            return Err(Error::new(
                Code::EXCEEDED_MEMORY_LIMIT,
                format!(
                    "{} used too much memory and cannot spill to disk. Memory limit: \
                     {STATE_BYTES_MAX} bytes",
                    self.kind.name()
                ),
            ));
        }
        Ok(())
    }

    /// The result so far, in `arena`.
    pub fn finish<'a>(&self, arena: &'a Bump) -> Result<Val<'a>> {
        let env = Env::new(RawDoc::empty(), arena);
        match &self.state {
            AccumulatorState::Sum(sum) => Ok(sum.total()),
            AccumulatorState::Average(sum) => Ok(sum.average()),
            AccumulatorState::Deviation(deviation, sample) => Ok(deviation.result(*sample)),
            AccumulatorState::Extreme(extreme) => copy(extreme.result(), &env),
            AccumulatorState::Edge(edge, true) => {
                copy(edge.values().next().unwrap_or(Val::Null), &env)
            }
            AccumulatorState::Edge(edge, false) => array(edge.values(), &env),
            AccumulatorState::Ranked(ranked, Shape::OneSorted) => {
                copy(ranked.values().next().unwrap_or(Val::Null), &env)
            }
            AccumulatorState::Ranked(ranked, _) => array(ranked.values(), &env),
            AccumulatorState::Push(push) => Ok(Val::Array(env.keep(&push.bytes())?)),
            AccumulatorState::Set(set) | AccumulatorState::Union(set) => array(set.values(), &env),
            AccumulatorState::Distinct(distinct) => Ok(count(distinct.count())),
            AccumulatorState::Merge(merge) => Ok(Val::Document(env.keep(&merge.bytes())?)),
            AccumulatorState::Concat(concat) => Ok(Val::Array(env.keep(&concat.bytes())?)),
            AccumulatorState::Scripted(scripted) => copy(scripted.result()?.get(), &env),
            AccumulatorState::Percentiles(percentiles, many) => {
                let results = percentiles.results();
                if *many {
                    env.array(results.into_iter())
                } else {
                    Ok(results.first().copied().unwrap_or(Val::Null))
                }
            }
        }
    }

    /// The approximate memory of the state, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Accumulator>()
            + match &self.state {
                AccumulatorState::Sum(_)
                | AccumulatorState::Average(_)
                | AccumulatorState::Deviation(..) => 0,
                AccumulatorState::Extreme(extreme) => extreme.memory_bytes(),
                AccumulatorState::Edge(edge, _) => edge.memory_bytes(),
                AccumulatorState::Ranked(ranked, _) => ranked.memory_bytes(),
                AccumulatorState::Push(push) => push.memory_bytes(),
                AccumulatorState::Set(set) | AccumulatorState::Union(set) => set.memory_bytes(),
                AccumulatorState::Distinct(distinct) => distinct.memory_bytes(),
                AccumulatorState::Merge(merge) => merge.memory_bytes(),
                AccumulatorState::Concat(concat) => concat.memory_bytes(),
                AccumulatorState::Percentiles(percentiles, _) => percentiles.memory_bytes(),
                AccumulatorState::Scripted(scripted) => scripted.memory_bytes(),
            }
    }
}

/// A number as `$size` gives it.
fn count(n: usize) -> Val<'static> {
    i32::try_from(n).map_or(Val::Int64(n as i64), Val::Int32)
}

/// Copies a value into the arena.
fn copy<'a>(value: Val<'_>, env: &Env<'a>) -> Result<Val<'a>> {
    Ok(crate::path_values::copy_into(value, env.arena()))
}

fn array<'a, 'v>(values: impl Iterator<Item = Val<'v>>, env: &Env<'a>) -> Result<Val<'a>> {
    let mut bytes = Vec::new();
    value::writer::write_array(&mut bytes, |out| values.for_each(|value| out.push(value)));
    Ok(Val::Array(env.keep(&bytes)?))
}
