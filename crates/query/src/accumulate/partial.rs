//! Partial states: saved when memory is short or when two threads share the work, and merged with
//! states that saw other documents.

use super::{Accumulator, AccumulatorState};
use value::writer::{ArrayWriter, write_array};
use value::{Error, RawDoc, Result, Val};

impl Accumulator {
    /// Appends everything that `absorb` needs, as a BSON array.
    pub fn save(&self, out: &mut Vec<u8>) {
        write_array(out, |out| self.write(out));
    }

    fn write(&self, out: &mut ArrayWriter<'_>) {
        match &self.state {
            AccumulatorState::Sum(sum) | AccumulatorState::Average(sum) => sum.save(out),
            AccumulatorState::Deviation(deviation, _) => deviation.save(out),
            AccumulatorState::Extreme(extreme) => out.push(extreme.result()),
            AccumulatorState::Edge(edge, _) => edge.values().for_each(|value| out.push(value)),
            AccumulatorState::Ranked(ranked, _) => ranked.save(out),
            AccumulatorState::Push(push) => out.push(Val::Array(RawDoc::new(&push.bytes()))),
            AccumulatorState::Set(set) | AccumulatorState::Union(set) => {
                set.values().for_each(|value| out.push(value))
            }
            AccumulatorState::Distinct(distinct) => distinct.save(out),
            AccumulatorState::Merge(merge) => out.push(Val::Document(RawDoc::new(&merge.bytes()))),
            AccumulatorState::Concat(concat) => out.push(Val::Array(RawDoc::new(&concat.bytes()))),
            AccumulatorState::Percentiles(percentiles, _) => percentiles.save(out),
            AccumulatorState::Scripted(scripted) => scripted.save(out),
        }
    }

    /// Merges the saved state of another instance of the same accumulator, as if its values came
    /// after those of this one.
    ///
    /// # Errors
    /// When the state needs more memory than it may have.
    pub fn absorb(&mut self, saved: RawDoc<'_>) -> Result<()> {
        let values = || saved.iter().map(|(_, value)| value.get());
        let first = || values().next().unwrap_or(Val::Missing);
        let elements = || first().as_array().unwrap_or(RawDoc::empty());
        match &mut self.state {
            AccumulatorState::Sum(sum) | AccumulatorState::Average(sum) => sum.absorb(saved),
            AccumulatorState::Deviation(deviation, _) => deviation.absorb(saved),
            AccumulatorState::Extreme(extreme) => extreme.add(first()),
            AccumulatorState::Edge(edge, _) => values().for_each(|value| edge.add(value)),
            AccumulatorState::Ranked(ranked, _) => ranked.absorb(saved),
            AccumulatorState::Push(push) => {
                elements().iter().for_each(|(_, value)| push.add(value.get()))
            }
            AccumulatorState::Set(set) | AccumulatorState::Union(set) => {
                values().for_each(|value| set.add(value))
            }
            AccumulatorState::Distinct(distinct) => distinct.absorb(saved),
            AccumulatorState::Merge(merge) => merge.add(first())?,
            AccumulatorState::Concat(concat) => {
                let array = first();
                if !matches!(array, Val::Array(_)) {
                    return Err(Error::internal("a saved state is not understood"));
                }
                concat.add(array)?;
            }
            AccumulatorState::Percentiles(percentiles, _) => percentiles.absorb(saved),
            AccumulatorState::Scripted(scripted) => scripted.absorb(saved)?,
        }
        self.check_memory()
    }
}

#[cfg(test)]
mod tests {
    use crate::ParseContext;
    use crate::accumulate::AccumulatorSpec;
    use bumpalo::Bump;
    use proptest::prelude::*;
    use value::{OwnedVal, Val, ejson};

    const SPECS: &[&str] = &[
        "{$sum: '$v'}",
        "{$avg: '$v'}",
        "{$min: '$v'}",
        "{$max: '$v'}",
        "{$first: '$v'}",
        "{$last: '$v'}",
        "{$firstN: {input: '$v', n: 3}}",
        "{$lastN: {input: '$v', n: 3}}",
        "{$minN: {input: '$v', n: 3}}",
        // Which of equal values stays depends on all that came: these have no other types.
        "{$maxN: {input: '$w', n: 3}}",
        "{$top: {output: '$v', sortBy: {v: 1}}}",
        "{$bottom: {output: '$w', sortBy: {w: 1}}}",
        "{$topN: {output: '$v', sortBy: {v: -1}, n: 2}}",
        "{$bottomN: {output: '$w', sortBy: {w: -1}, n: 2}}",
        "{$push: '$v'}",
        "{$addToSet: '$v'}",
        "{$count: {}}",
        "{$mergeObjects: '$o'}",
        "{$median: {input: '$v', method: 'approximate'}}",
    ];

    fn any_value() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("null".to_owned()),
            (-5_i32..5).prop_map(|n| n.to_string()),
            (-20_i32..20).prop_map(|n| format!("{}", f64::from(n) / 4.0)),
            (-5_i64..5).prop_map(|n| format!("NumberLong({n})")),
            (0..3_u8).prop_map(|n| format!("NumberDecimal('{n}.50')")),
            "[a-c]{0,2}".prop_map(|text| format!("'{text}'")),
            Just("[1, 'x']".to_owned()),
        ]
    }

    proptest! {
        /// Saving a state and absorbing it elsewhere gives what one state gives that saw all.
        #[test]
        fn states_that_unite_give_what_one_state_gives(
            values in proptest::collection::vec(proptest::option::of(any_value()), 0..30),
            cuts in proptest::collection::vec(0_usize..30, 0..3),
        ) {
            let context = ParseContext::new(0);
            let docs: Vec<_> = values
                .iter()
                .enumerate()
                .map(|(at, value)| {
                    let field = value.as_ref().map_or(String::new(), |v| format!("v: {v}, "));
                    ejson::parse_doc(&format!("{{{field}w: {}, o: {{k{}: {at}}}}}", at % 5, at % 4)).unwrap()
                })
                .collect();
            for text in SPECS {
                let source = ejson::parse_doc(text).unwrap();
                let spec =
                    AccumulatorSpec::parse("x", Val::Document(source.as_doc()), &context).unwrap();
                let arena = Bump::new();
                let finish = |parts: &[&[value::DocBuf]]| -> OwnedVal {
                    let mut all = spec.start(Val::Null).unwrap();
                    for part in parts {
                        let mut own = spec.start(Val::Null).unwrap();
                        for doc in *part {
                            let env = crate::expr::Env::new(doc.as_doc(), &arena);
                            own.process(spec.argument(&env).unwrap()).unwrap();
                        }
                        let mut saved = Vec::new();
                        own.save(&mut saved);
                        all.absorb(value::RawDoc::new(&saved)).unwrap();
                    }
                    OwnedVal::new(all.finish(&arena).unwrap())
                };
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| (*cut).min(docs.len())).collect();
                cuts.sort_unstable();
                let mut parts = Vec::new();
                let mut from = 0;
                for cut in cuts {
                    parts.push(&docs[from..cut]);
                    from = cut;
                }
                parts.push(&docs[from..]);
                let mut plain = spec.start(Val::Null).unwrap();
                for doc in &docs {
                    let env = crate::expr::Env::new(doc.as_doc(), &arena);
                    plain.process(spec.argument(&env).unwrap()).unwrap();
                }
                let plain = OwnedVal::new(plain.finish(&arena).unwrap());
                prop_assert_eq!(finish(&parts), plain, "{}", text);
            }
        }
    }
}
