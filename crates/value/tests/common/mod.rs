//! Random values of every BSON type, with a taste for the edges: numbers near the limits of their
//! types, text with zero bytes, nested and empty documents.
#![allow(dead_code, reason = "each test binary uses its part")]

use proptest::prelude::*;
use value::decimal::Parts;
use value::ejson::OwnedVal;
use value::{Decimal128, DocBuf, ObjectId, Val};

pub(crate) fn any_double() -> impl Strategy<Value = f64> {
    let edge = prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
        Just(5e-324),
        Just(0.1),
        Just(0.5),
        Just(1.5),
        Just(9_007_199_254_740_992.0),
        Just(9_223_372_036_854_775_808.0),
        Just(-9_223_372_036_854_775_808.0),
    ];
    let near = (edge.clone(), -3i64..=3).prop_map(|(n, steps)| step(n, steps));
    prop_oneof![2 => any::<f64>(), 2 => near, 1 => edge, 2 => (-20i32..20).prop_map(f64::from)]
}

fn step(mut n: f64, steps: i64) -> f64 {
    for _ in 0..steps.abs() {
        n = if steps > 0 { n.next_up() } else { n.next_down() };
    }
    n
}

pub(crate) fn any_long() -> impl Strategy<Value = i64> {
    let edge =
        prop_oneof![Just(0i64), Just(1 << 53), Just(i64::MAX), Just(i64::MIN), Just(1 << 31)];
    prop_oneof![
        any::<i64>(),
        -20i64..20,
        (edge, -3i64..=3, any::<bool>()).prop_map(|(n, step, minus)| if minus {
            n.wrapping_neg()
        } else {
            n
        }
        .wrapping_add(step)),
    ]
}

pub(crate) fn any_decimal() -> impl Strategy<Value = Decimal128> {
    let parts = (any::<bool>(), 0..10u128.pow(34), -6176..=6111i32, 0..34u32, any::<bool>())
        .prop_map(|(negative, coefficient, exponent, shorten, near)| {
            Decimal128::from_parts(Parts {
                negative,
                coefficient: coefficient / 10u128.pow(shorten),
                exponent: if near { exponent % 40 } else { exponent },
            })
        });
    prop_oneof![
        3 => parts,
        // Decimals that are exactly, or nearly, some double or long.
        2 => any_double().prop_map(Decimal128::from_f64_34_digits),
        1 => any_double().prop_map(Decimal128::from_f64),
        2 => (any_long(), -2i32..3).prop_map(|(n, last)| {
            let fraction = Parts { negative: last < 0, coefficient: last.unsigned_abs().into(), exponent: -14 };
            Decimal128::from_i64(n).add(Decimal128::from_parts(fraction))
        }),
        1 => prop_oneof![
            Just(Decimal128::NAN), Just(Decimal128::INFINITY), Just(Decimal128::NEG_INFINITY),
            Just(Decimal128::ZERO.neg()),
        ],
    ]
}

pub(crate) fn any_number() -> impl Strategy<Value = OwnedVal> {
    prop_oneof![
        any_long().prop_map(|n| OwnedVal::new(Val::Int32(n as i32))),
        any_long().prop_map(|n| OwnedVal::new(Val::Int64(n))),
        any_double().prop_map(|n| OwnedVal::new(Val::Double(n))),
        any_decimal().prop_map(|n| OwnedVal::new(Val::Decimal(n))),
    ]
}

pub(crate) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab]{0,3}",
        "[\u{0}\u{1}\u{2}a]{0,4}",
        "\\PC{0,6}",
        Just("quote \" slash / back \\ line \n ' end".to_owned()),
        Just("𝄞\u{7f}\u{ffff}".to_owned()),
    ]
}

/// Text without zero bytes: names and the parts of regular expressions.
pub(crate) fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[abc]{0,2}", 1 => "[a-z$_0-9.\u{1} é-]{0,5}"]
        // Wrappers of Extended JSON cannot be told from documents that look like them.
        .prop_map(|name| if name.starts_with('$') { format!("_{name}") } else { name })
}

fn any_plain() -> impl Strategy<Value = OwnedVal> {
    let id = any::<[u8; 12]>().prop_map(ObjectId);
    let small = prop_oneof![any_long(), -5i64..5];
    prop_oneof![
        6 => any_number(),
        3 => any_text().prop_map(|s| OwnedVal::new(Val::String(&s))),
        1 => any_text().prop_map(|s| OwnedVal::new(Val::Symbol(&s))),
        1 => any_text().prop_map(|s| OwnedVal::new(Val::Code(&s))),
        1 => prop_oneof![
            Just(Val::MinKey), Just(Val::MaxKey), Just(Val::Undefined), Just(Val::Null),
            Just(Val::Bool(true)), Just(Val::Bool(false)),
        ].prop_map(OwnedVal::new),
        1 => (prop_oneof![Just(0u8), Just(2), Just(4), Just(128)], prop::collection::vec(any::<u8>(), 0..18))
            .prop_map(|(kind, bytes)| OwnedVal::new(Val::Binary(kind, &bytes))),
        1 => any::<[u8; 16]>().prop_map(|bytes| OwnedVal::new(Val::Binary(4, &bytes))),
        1 => id.clone().prop_map(|id| OwnedVal::new(Val::ObjectId(id))),
        1 => small.clone().prop_map(|ms| OwnedVal::new(Val::DateTime(ms))),
        1 => (-100_000_000_000_000i64..300_000_000_000_000).prop_map(|ms| OwnedVal::new(Val::DateTime(ms))),
        1 => small.prop_map(|t| OwnedVal::new(Val::Timestamp(t as u64))),
        1 => (any_pattern(), "[imsx]{0,3}").prop_map(|(p, o)| {
            // The bson crate sorts options, so sorted ones survive it.
            let mut options: Vec<char> = o.chars().collect();
            options.sort_unstable();
            OwnedVal::new(Val::Regex(&p, &options.into_iter().collect::<String>()))
        }),
        1 => (any_name(), id).prop_map(|(n, id)| OwnedVal::new(Val::DbPointer(&n, id))),
    ]
}

fn any_pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        any_name(),
        "[a/\\[\\]*\\\\^$]{0,6}",
        Just("*".to_owned()),
        Just("/".to_owned()),
        Just("line\nend".to_owned()),
    ]
}

fn document(fields: &[(String, OwnedVal)]) -> DocBuf {
    DocBuf::build(|writer| {
        for (name, value) in fields {
            writer.append(name, value.get());
        }
    })
}

/// A value of any type, documents and arrays included.
pub(crate) fn any_value() -> impl Strategy<Value = OwnedVal> {
    any_plain().prop_recursive(3, 24, 4, |inner| {
        let fields = prop::collection::vec((any_name(), inner.clone()), 0..4).boxed();
        prop_oneof![
            3 => fields.clone().prop_map(|fields| {
                OwnedVal::new(Val::Document(document(&fields).as_doc()))
            }),
            3 => prop::collection::vec(inner, 0..4).prop_map(|elements| {
                let mut bytes = Vec::new();
                value::writer::write_array(&mut bytes, |writer| {
                    for element in &elements {
                        writer.push(element.get());
                    }
                });
                OwnedVal::new(Val::Array(value::RawDoc::new(&bytes)))
            }),
            1 => (any_text(), fields).prop_map(|(code, fields)| {
                OwnedVal::new(Val::CodeWithScope(&code, document(&fields).as_doc()))
            }),
        ]
    })
}

/// A document with distinct names, as the bson crate keeps only one field of each name.
pub(crate) fn any_document() -> impl Strategy<Value = DocBuf> {
    prop::collection::vec((any_name(), any_value()), 0..6).prop_map(|fields| document(&fields))
}
