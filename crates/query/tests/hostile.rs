//! Whatever a client writes must give a value or an error, never a panic: random operands for every
//! operator, and updates with random paths and values.

use bumpalo::Bump;
use proptest::prelude::*;
use proptest::sample::select;
use query::ParseContext;
use query::expr::{Env, Expr, operators};
use query::update::Update;
use value::{DocBuf, RawDoc, Val, ejson};

/// Values at the edges of their types.
static VALUES: &[&str] = &[
    "null",
    "true",
    "0",
    "1",
    "-1",
    "2147483647",
    "-2147483648",
    "NumberLong('9223372036854775807')",
    "NumberLong('-9223372036854775808')",
    "1.5",
    "-0.0",
    "1e308",
    "NumberDecimal('9.9E+6144')",
    "NumberDecimal('NaN')",
    "NumberDecimal('-1E-6176')",
    "{$numberDouble: 'NaN'}",
    "{$numberDouble: '-Infinity'}",
    "''",
    "'h\u{e9}llo'",
    "'%Y-%m'",
    "'UTC'",
    "'+99:99'",
    "'Europe/Berlin'",
    "'day'",
    "'month'",
    "'millisecond'",
    "'hour'",
    "'$a'",
    "'$$ROOT'",
    "'$d.e'",
    "'2024-02-30'",
    "'99999999-'",
    "'((('",
    "'int'",
    "'date'",
    "[]",
    "[1, 'x', null]",
    "[[1, 2], [3]]",
    "[{k: 'a', v: 1}]",
    "{}",
    "{a: 1}",
    "{$literal: '$'}",
    "{$date: {$numberLong: '0'}}",
    "{$date: {$numberLong: '9223372036854775807'}}",
    "{$date: {$numberLong: '-9223372036854775808'}}",
    "{$timestamp: {t: 4294967295, i: 1}}",
    "ObjectId('64b7f0a1c2d3e4f5a6b7c8d9')",
    "/x+/i",
    "{$minKey: 1}",
    "{$maxKey: 1}",
];

/// The names under which operators take their operands.
static NAMES: &[&[&str]] = &[
    &["startDate", "unit", "amount", "timezone"],
    &["startDate", "endDate", "unit", "timezone", "startOfWeek"],
    &["date", "unit", "binSize", "timezone", "startOfWeek"],
    &["date", "format", "timezone", "onNull"],
    &["date", "timezone", "iso8601"],
    &["date", "timezone"],
    &["dateString", "format", "timezone", "onNull", "onError"],
    &["year", "month", "day", "hour", "minute", "second", "millisecond", "timezone"],
    &["isoWeekYear", "isoWeek", "isoDayOfWeek", "timezone"],
    &["input", "to", "onError", "onNull"],
    &["input", "chars"],
    &["input", "find", "replacement"],
    &["input", "regex", "options"],
    &["input", "as", "in"],
    &["input", "as", "cond", "limit"],
    &["input", "initialValue", "in"],
    &["input", "n"],
    &["input", "sortBy"],
    &["input", "p", "method"],
    &["inputs", "defaults", "useLongestLength"],
    &["field", "input", "value"],
    &["if", "then", "else"],
    &["branches", "default"],
    &["vars", "in"],
];

fn evaluate(text: &str, doc: RawDoc<'_>) {
    let value = ejson::parse_value(text).expect("the expression is readable");
    if let Ok(expression) = Expr::parse(value.get(), &ParseContext::new(0)) {
        let arena = Bump::new();
        let result = expression.eval(&Env::new(doc, &arena));
        if let Ok(value) = result {
            // What comes out must be proper BSON.
            let doc = DocBuf::build(|out| {
                out.append("v", value);
            });
            value::validate::validate(doc.bytes(), 180).expect("results are proper documents");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn positional_operands(
        operator in select(operators().collect::<Vec<_>>()),
        operands in prop::collection::vec(select(VALUES), 0..5),
    ) {
        let doc = ejson::parse_doc("{a: [1, {b: 2}], d: {e: 5}}").expect("it is readable");
        evaluate(&format!("{{{operator}: [{}]}}", operands.join(", ")), doc.as_doc());
        if let [one, ..] = operands.as_slice() {
            evaluate(&format!("{{{operator}: {one}}}"), doc.as_doc());
        }
    }

    #[test]
    fn named_operands(
        operator in select(operators().collect::<Vec<_>>()),
        names in select(NAMES),
        operands in prop::collection::vec(select(VALUES), 8),
        count in 1..9usize,
    ) {
        let doc = ejson::parse_doc("{a: [1, {b: 2}], d: {e: 5}}").expect("it is readable");
        let pairs: Vec<String> =
            names.iter().zip(&operands).take(count).map(|(n, v)| format!("{n}: {v}")).collect();
        evaluate(&format!("{{{operator}: {{{}}}}}", pairs.join(", ")), doc.as_doc());
    }

    #[test]
    fn updates(
        operator in select(query::update::operators().collect::<Vec<_>>()),
        paths in prop::collection::vec("(a|b|_id|\\$|\\$\\[\\]|0|3|99|)(\\.(a|b|\\$|\\$\\[\\]|1|07|)){0,3}", 1..4),
        values in prop::collection::vec(select(VALUES), 3),
        position in prop::option::of(0..4usize),
        inserting: bool,
    ) {
        let pairs: Vec<String> =
            paths.iter().zip(&values).map(|(path, value)| format!("'{path}': {value}")).collect();
        let update = ejson::parse_doc(&format!("{{{operator}: {{{}}}}}", pairs.join(", ")));
        let update = update.expect("the update is readable");
        let doc = "{_id: 1, a: [1, [2, 3], {b: 4, a: null}], b: {a: {b: 5}}}";
        let doc = ejson::parse_doc(doc).expect("the document is readable");
        let update = Update::parse(Val::Document(update.as_doc()), &ParseContext::new(0), &[]);
        if let Ok(update) = update {
            let result = update.apply(doc.as_doc(), position, inserting, &Bump::new());
            if let Ok(Some(new)) = result {
                value::validate::validate(new.bytes(), 180).expect("results are proper documents");
                prop_assert_eq!(new.as_doc().get("_id"), Some(Val::Int32(1)));
            }
        }
    }
}

#[test]
fn long_paths_and_growing_values_are_refused() {
    let deep = vec!["a"; 100_000].join(".");
    let update = DocBuf::build(|out| {
        out.doc("$set", |set| {
            set.i32(&deep, 1);
        });
    });
    assert!(Update::parse(Val::Document(update.as_doc()), &ParseContext::new(0), &[]).is_err());
    let doubling = "{$reduce: {input: {$range: [0, 64]}, initialValue: 'x', in: {$concat: ['$$value', \
                    '$$value']}}}";
    let value = ejson::parse_value(doubling).expect("it is readable");
    let expression = Expr::parse(value.get(), &ParseContext::new(0)).expect("it compiles");
    let arena = Bump::new();
    assert!(expression.eval(&Env::new(RawDoc::empty(), &arena)).is_err());
}
