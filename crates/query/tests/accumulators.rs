//! Accumulators against recorded answers: each line of `cases/accumulate.txt` is an accumulator and
//! what it gives for the documents of the first line.

use bumpalo::Bump;
use proptest::prelude::*;
use query::ParseContext;
use query::accumulate::AccumulatorSpec;
use query::expr::Env;
use value::ejson::{self, OwnedVal};
use value::{DocBuf, RawDoc, Result, Val, compare};

fn accumulate(spec: Val<'_>, docs: RawDoc<'_>) -> Result<OwnedVal> {
    let spec = AccumulatorSpec::parse("r", spec, &ParseContext::new(0))?;
    let mut state = spec.start(Val::Int32(1))?;
    for (_, doc) in docs {
        let arena = Bump::new();
        let env = Env::new(doc.as_doc().expect("the inputs are documents"), &arena);
        state.process(spec.argument(&env)?)?;
    }
    assert!(state.memory_bytes() > 0);
    let arena = Bump::new();
    Ok(OwnedVal::new(state.finish(&arena)?))
}

/// Sets have no order: compared sorted.
fn sorted(value: &OwnedVal) -> OwnedVal {
    let Val::Array(array) = value.get() else { return value.clone() };
    let mut elements: Vec<Val<'_>> = array.iter().map(|(_, element)| element.get()).collect();
    elements.sort_by(|a, b| compare::compare(*a, *b));
    let doc = DocBuf::build(|out| {
        out.array("", |array| elements.iter().for_each(|element| array.push(*element)));
    });
    OwnedVal::new(doc.as_doc().get("").expect("it was written"))
}

#[test]
fn recorded_accumulators() {
    let mut docs = DocBuf::new();
    let mut failures = Vec::new();
    let mut count = 0;
    let cases = include_str!("cases/accumulate.txt").lines();
    for line in cases.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(text) = line.strip_prefix("docs ") {
            docs = ejson::parse_doc(&format!("{{d: {text}}}")).expect("the documents are readable");
            continue;
        }
        count += 1;
        let (spec, expected) = line.split_once('\t').expect("a case has two columns");
        let value = ejson::parse_value(spec).expect("the accumulator is readable");
        let inputs = docs.as_doc().get("d").and_then(Val::as_array).expect("there are documents");
        let result = accumulate(value.get(), inputs);
        let right = match (&result, expected) {
            (Ok(found), text) if !text.starts_with("error ") => {
                let expected = ejson::parse_value(text).expect("the expectation is readable");
                if spec.contains("$addToSet") {
                    sorted(found) == sorted(&expected)
                } else {
                    *found == expected
                }
            }
            (Err(error), text) => text == format!("error {}", error.code().0),
            _ => false,
        };
        if !right {
            failures.push(format!("{spec}\n    expected {expected}\n    found    {result:?}"));
        }
    }
    assert!(count > 50, "only {count} cases were read");
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}

proptest! {
    #[test]
    fn extremes_and_counts_agree_with_the_values(values in prop::collection::vec(any::<i32>(), 1..20)) {
        let docs = DocBuf::build(|out| {
            out.array("d", |array| {
                for n in &values {
                    array.push_doc(|doc| { doc.i32("n", *n); });
                }
            });
        });
        let inputs = docs.as_doc().get("d").and_then(Val::as_array).expect("it was written");
        let of = |spec: &str| {
            let spec = ejson::parse_value(spec).expect("the accumulator is readable");
            accumulate(spec.get(), inputs).expect("numbers can be accumulated")
        };
        let sum: i64 = values.iter().map(|n| i64::from(*n)).sum();
        prop_assert_eq!(of("{$sum: '$n'}").get().as_i64_exact(), Some(sum));
        prop_assert_eq!(of("{$max: '$n'}").get().as_i64_exact(), values.iter().max().map(|n| i64::from(*n)));
        prop_assert_eq!(of("{$min: '$n'}").get().as_i64_exact(), values.iter().min().map(|n| i64::from(*n)));
        prop_assert_eq!(of("{$count: {}}").get().as_i64_exact(), i64::try_from(values.len()).ok());
        let median = of("{$median: {input: '$n', method: 'approximate'}}");
        let mut ordered = values.clone();
        ordered.sort_unstable();
        let middle = ordered.get(ordered.len().div_ceil(2) - 1).copied().map(f64::from);
        prop_assert_eq!(median.get().as_f64(), middle);
    }
}

/// Numbers of very different sizes, so that two doubles cannot carry their sum.
fn double() -> impl Strategy<Value = f64> {
    (-1.0e6..1.0e6f64, -200..200i32).prop_map(|(n, power)| n * 2f64.powi(power))
}

proptest! {
    /// The sum is that of the numbers, whatever their order: what is added and taken away again
    /// leaves nothing behind.
    #[test]
    fn sums_of_doubles_are_exact_in_every_order(
        numbers in prop::collection::vec(double(), 1..30),
        seed in any::<u64>(),
    ) {
        let sum = |numbers: &[f64], operator: &str| {
            let docs = DocBuf::build(|out| {
                out.array("d", |list| {
                    for n in numbers {
                        list.push_doc(|doc| {
                            doc.f64("n", *n);
                        });
                    }
                });
            });
            let spec = ejson::parse_value(&format!("{{{operator}: '$n'}}")).expect("it is readable");
            let docs = docs.as_doc().get("d").and_then(Val::as_array).expect("it was written");
            accumulate(spec.get(), docs).expect("numbers can be added").get().as_f64()
        };
        let mut shuffled = numbers.clone();
        shuffled.sort_by_key(|n| n.to_bits().wrapping_mul(seed | 1));
        for operator in ["$sum", "$avg"] {
            let (one, other) = (sum(&numbers, operator), sum(&shuffled, operator));
            prop_assert_eq!(one.map(f64::to_bits), other.map(f64::to_bits));
        }
        let taken: Vec<f64> =
            numbers.iter().copied().chain(shuffled.iter().map(|n| -n)).collect();
        prop_assert_eq!(sum(&taken, "$sum"), Some(0.0));
        let one_left: Vec<f64> = taken.iter().copied().chain([1.5]).collect();
        prop_assert_eq!(sum(&one_left, "$sum"), Some(1.5));
    }
}
