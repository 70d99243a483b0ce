//! Expressions against recorded answers: each line of `cases/expr.txt` is an expression and what it
//! must give, types and field order included.

use bumpalo::Bump;
use query::ParseContext;
use query::expr::{Env, Expr};
use value::ejson::{self, OwnedVal};
use value::{DocBuf, Error, Val};

fn evaluate(text: &str, doc: &DocBuf) -> Result<OwnedVal, Error> {
    let value = ejson::parse_value(text)?;
    let expression = {
        let variables = ejson::parse_doc("{v: 1}")?;
        let context = ParseContext::new(1_700_000_000_000);
        Expr::parse(value.get(), &context.with_variables(variables.as_doc()))?
    };
    let arena = Bump::new();
    let env = Env::new(doc.as_doc(), &arena);
    expression.eval(&env).map(OwnedVal::new)
}

/// Doubles that differ in the last digits count as equal: libraries round functions differently.
fn same(found: &OwnedVal, expected: &OwnedVal) -> bool {
    match (found.get(), expected.get()) {
        (Val::Double(a), Val::Double(b)) => {
            a.to_bits() == b.to_bits()
                || (a.is_nan() && b.is_nan())
                || (a - b).abs() <= a.abs() * 1e-15
        }
        _ => found == expected,
    }
}

#[test]
fn recorded_expressions() {
    let cases = include_str!("cases/expr.txt");
    let mut doc = DocBuf::new();
    let mut failures = Vec::new();
    let mut count = 0;
    for line in cases.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(text) = line.strip_prefix("doc ") {
            doc = ejson::parse_doc(text).expect("the document of the cases is readable");
            continue;
        }
        count += 1;
        let (expression, expected) = line.split_once('\t').expect("a case has two columns");
        let result = evaluate(expression, &doc);
        let right = match (&result, expected) {
            (Ok(value), "missing") => value.get().is_missing(),
            (Ok(value), text) if !text.starts_with("error ") => {
                same(value, &ejson::parse_value(text).expect("the expectation is readable"))
            }
            (Err(error), text) => text == format!("error {}", error.code().0),
            _ => false,
        };
        if !right {
            failures
                .push(format!("{expression}\n    expected {expected}\n    found    {result:?}"));
        }
    }
    assert!(count > 400, "only {count} cases were read");
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}
