//! Whatever works on much data ends when its operation is killed: every operator that is
//! registered, filters, updates and regular expressions.

use bumpalo::Bump;
use query::expr::{Env, Expr, operators};
use query::filter::Filter;
use query::interrupt::{self, Killed, Watch};
use query::update::{Series, Update};
use query::{ParseContext, regex::Regex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use value::{Code, DocBuf, RawDoc, Result, ejson};

/// A kill that comes at the check after this number of them.
struct After(AtomicUsize);

impl Killed for After {
    fn is_killed(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }
}

fn killed_after(checks: usize) -> interrupt::Watching {
    let killed = Arc::new(After(AtomicUsize::new(checks)));
    interrupt::watch(Watch { killed, cursor_killed: None, deadline: None })
}

/// A time limit that has passed.
fn late() -> interrupt::Watching {
    let killed = Arc::new(After(AtomicUsize::new(usize::MAX)));
    let deadline = Some(std::time::Instant::now());
    interrupt::watch(Watch { killed, cursor_killed: None, deadline })
}

fn is_interrupted<T>(result: &Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.code() == Code::INTERRUPTED)
}

/// A document with long arrays, a long text and a large document.
fn large() -> DocBuf {
    DocBuf::build(|out| {
        out.i32("n", 30_000);
        out.array("array", |out| {
            (0..30_000).for_each(|n| out.push(value::Val::Int32(n * 7919 % 30_000)));
        });
        out.array("pairs", |out| {
            for n in 0..10_000 {
                out.push_array(|out| {
                    out.push(value::Val::String(&format!("k{n}")));
                    out.push(value::Val::Int32(n));
                });
            }
        });
        out.array("texts", |out| {
            (0..10_000).for_each(|n| out.push(value::Val::String(&format!("t{n}"))));
        });
        out.str("text", &"a bc ".repeat(30_000));
        out.doc("doc", |out| {
            for n in 0..15_000 {
                out.i32(&format!("f{n}"), n);
            }
        });
    })
}

/// How operands may be written; `X` stands for something large.
const OPERANDS: &[&str] = &[
    "X",
    "[X]",
    "[X, X]",
    "[X, X, X]",
    "[X, 0, 1]",
    "['a', X]",
    "{input: X}",
    "{input: X, as: 'e', in: '$$e'}",
    "{input: X, as: 'e', cond: true}",
    "{input: X, initialValue: 0, in: '$$value'}",
    "{input: X, sortBy: 1}",
    "{input: X, n: 3}",
    "{input: X, sortBy: 1, n: 3}",
    "{input: X, sortBy: {a: 1}, n: 3, output: '$$this'}",
    "{input: X, p: [0.5], method: 'approximate'}",
    "{input: X, method: 'approximate'}",
    "{input: X, regex: 'zz'}",
    "{input: X, chars: 'z'}",
    "{input: X, find: 'zz', replacement: 'y'}",
    "{input: X, to: 'int'}",
    "{input: X, field: 'zz'}",
    "{input: X, field: 'zz', value: 1}",
    "{input: X, unit: 'day'}",
    "{inputs: [X, X]}",
    "{vars: {v: X}, in: {$size: '$$v'}}",
    "{if: X, then: 1, else: 2}",
    "{branches: [{case: X, then: 1}], default: 0}",
    "{date: X}",
    "{date: X, unit: 'day'}",
    "{date: X, format: '%Y'}",
    "{dateString: X}",
    "{startDate: X, endDate: X, unit: 'day'}",
    "{startDate: X, unit: 'day', amount: 1}",
    "{year: X}",
    "{input: X, algorithm: 'sha256'}",
    "{input: X, seed: 1}",
    "{input: X, onError: null}",
    "{input: X, relaxed: true}",
    "{vectors: [X, X]}",
    "{a: X}",
    "X.zz",
];

/// Operators that have no operands, or do not look into them.
const WITHOUT_OPERANDS: &[&str] = &[
    "$add",
    "$and",
    "$const",
    "$createObjectId",
    "$createUUID",
    "$currentDate",
    "$expr",
    "$function",
    "$ifNull",
    "$literal",
    "$meta",
    "$multiply",
    "$or",
    "$rand",
    "$switch",
];

#[test]
fn every_operator_ends_on_large_operands() {
    let doc = large();
    let ctx = ParseContext::new(0);
    let mut failures = Vec::new();
    for name in operators() {
        if WITHOUT_OPERANDS.contains(&name) {
            continue;
        }
        let mut interrupted = 0;
        for operands in OPERANDS {
            for field in ["array", "text", "doc"] {
                let operand = operands.replace('X', &format!("'${field}'"));
                let text = format!("{{e: {{{name}: {operand}}}}}");
                let Ok(source) = ejson::parse_doc(&text) else { continue };
                let source = source.as_doc().get("e").expect("an expression");
                let Ok(expr) = Expr::parse(source, &ctx) else { continue };
                let arena = Bump::new();
                let watching = killed_after(0);
                let result = expr.eval(&Env::new(doc.as_doc(), &arena)).map(|_| ());
                drop(watching);
                if is_interrupted(&result) {
                    interrupted += 1;
                    // A time limit ends it as well.
                    let _watching = late();
                    let result = expr.eval(&Env::new(doc.as_doc(), &arena)).map(|_| ());
                    if result.as_ref().err().map(|error| error.code())
                        != Some(Code::MAX_TIME_MS_EXPIRED)
                    {
                        failures.push(format!("{name}: {operand}: {result:?} after its time"));
                    }
                } else if result.is_ok() {
                    failures.push(format!("{name}: {operand} ended by itself"));
                }
            }
        }
        if interrupted == 0 {
            failures.push(format!("{name} was never interrupted"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// How often a computation checks whether to stop.
fn checks(run: impl FnOnce()) -> usize {
    let killed = Arc::new(After(AtomicUsize::new(usize::MAX)));
    let watch = Watch { killed: killed.clone(), cursor_killed: None, deadline: None };
    let _watching = interrupt::watch(watch);
    run();
    usize::MAX - killed.0.load(Ordering::Relaxed)
}

fn parse(text: &str) -> Expr {
    let source = ejson::parse_doc(&format!("{{e: {text}}}")).expect("test text");
    let source = source.as_doc().get("e").expect("an expression");
    Expr::parse(source, &ParseContext::new(0)).expect("an expression")
}

fn eval(expr: &Expr, doc: RawDoc<'_>) -> Result<()> {
    expr.eval(&Env::new(doc, &Bump::new())).map(|_| ())
}

/// What does more work than its operands are long checks more often than at its start.
#[test]
fn loops_look_again_and_again() {
    let doc = large();
    for text in [
        "{$sortArray: {input: '$array', sortBy: 1}}",
        "{$map: {input: {$range: [0, '$n']}, in: '$$this'}}",
        "{$filter: {input: {$range: [0, '$n']}, cond: true}}",
        "{$reduce: {input: {$range: [0, '$n']}, initialValue: 0, in: '$$this'}}",
        "{$reduce: {input: {$range: [0, 600]}, initialValue: [], in: {$concatArrays: ['$$value', ['$$this']]}}}",
        "{$map: {input: {$range: [0, 40]}, in: {$in: [-1, '$array']}}}",
        "{$map: {input: {$range: [0, 8]}, in: {$size: {$setUnion: ['$array', '$texts']}}}}",
        "{$map: {input: {$range: [0, 30]}, in: {$indexOfCP: ['$text', 'zz']}}}",
        "{$regexFindAll: {input: '$text', regex: 'a'}}",
    ] {
        let expr = parse(text);
        let count = checks(|| eval(&expr, doc.as_doc()).expect("works"));
        assert!(count >= 7, "{text}: {count} checks");
        for after in [0, 3, count / 2] {
            let _watching = killed_after(after);
            assert!(is_interrupted(&eval(&expr, doc.as_doc())), "{text} after {after} checks");
        }
    }
}

#[test]
fn filters_end_on_large_documents_and_long_lists() {
    let doc = large();
    let patterns: Vec<String> = (0..5000).map(|n| format!("/x{n}y/")).collect();
    for text in [
        format!("{{text: {{$in: [{}]}}}}", patterns.join(", ")),
        "{array: {$elemMatch: {$lt: -1}}}".to_owned(),
        "{array: -1}".to_owned(),
        "{'pairs.zz': 1}".to_owned(),
        "{pairs: {$elemMatch: {zz: 1}}}".to_owned(),
        "{$expr: {$in: [-1, '$array']}}".to_owned(),
        "{$jsonSchema: {properties: {array: {uniqueItems: true}}}}".to_owned(),
        "{$jsonSchema: {properties: {array: {items: {bsonType: 'int'}}}}}".to_owned(),
    ] {
        let source = ejson::parse_doc(&text).expect("test text");
        let filter = Filter::parse(source.as_doc(), &ParseContext::new(0)).expect("a filter");
        let _watching = killed_after(1);
        let results: Vec<_> = (0..20).map(|_| filter.matches(doc.as_doc())).collect();
        assert!(results.iter().any(is_interrupted), "{:.60}", text);
    }
}

#[test]
fn updates_end_on_large_documents() {
    let doc = large();
    let values: Vec<String> = (0..2000).map(|n| format!("{}", -n - 1)).collect();
    let values = values.join(", ");
    for text in [
        "[{$set: {n: {$reduce: {input: '$array', initialValue: 0, in: {$add: ['$$value', 1]}}}}}]"
            .to_owned(),
        "{$push: {array: {$each: [], $sort: 1}}}".to_owned(),
        format!("{{$addToSet: {{array: {{$each: [{values}]}}}}}}"),
        format!("{{$pullAll: {{array: [{values}]}}}}"),
        "{$pull: {array: {$lt: -5}}}".to_owned(),
    ] {
        let source = ejson::parse_doc(&format!("{{u: {text}}}")).expect("test text");
        let source = source.as_doc().get("u").expect("an update");
        let update = Update::parse(source, &ParseContext::new(0), &[]).expect("an update");
        let _watching = killed_after(1);
        let result = Series::new(&update).apply(doc.as_doc(), None);
        assert!(is_interrupted(&result), "{text:.60}");
    }
}

#[test]
fn a_large_regular_expression_ends() {
    // So that no state of the automaton comes twice.
    let mut seed = 1u32;
    let text: String = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345);
        if seed & 0x10000 == 0 { '0' } else { '1' }
    })
    .take(1_000_000)
    .collect();
    for pattern in
        ["[01]*1[01]{5000}x", "1[01]{12,3000}x", "(?:[01]{1,50}){1,50}x", "(0|1)*1[01]{5000}"]
    {
        let regex = Regex::new(pattern, "").expect("a pattern");
        let _watching = killed_after(3);
        let result = regex.is_match(&text);
        assert!(is_interrupted(&result) || pattern.starts_with('('), "{pattern}: {result:?}");
        let result = regex.captures_at(&text, 0);
        assert!(is_interrupted(&result), "{pattern}: {result:?}");
    }
}

#[test]
fn a_regular_expression_that_looks_ahead_ends() {
    let text = "ab".repeat(200_000);
    for pattern in ["(?=.*x)(?=.*y)a", "(?:a(?=.*x)|b)*z", r"(a|b)*\1x", "(?<!a)(?=b.*x)b"] {
        let regex = Regex::new(pattern, "s").expect("a pattern");
        let _watching = killed_after(3);
        let result = regex.is_match(&text);
        assert!(is_interrupted(&result), "{pattern}: {result:?}");
    }
}
