//! Laws of the order: comparison is total, and keys order bytes as comparison orders values,
//! ascending, descending and compound.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod common;

use common::{any_number, any_text, any_value};
use proptest::prelude::*;
use std::cmp::Ordering;
use value::ejson::OwnedVal;
use value::{Val, compare, key_types, keys, number};

/// Values of one kind meet more often than values of any kind.
fn any_pair() -> impl Strategy<Value = (OwnedVal, OwnedVal)> {
    prop_oneof![
        2 => (any_number(), any_number()),
        2 => (any_value(), any_value()),
        1 => any_value().prop_map(|v| (v.clone(), v)),
        1 => (any_text(), any_text(), any::<bool>()).prop_map(|(a, b, continued)| {
            let b = if continued { format!("{a}{b}") } else { b };
            (OwnedVal::new(Val::String(&a)), OwnedVal::new(Val::String(&b)))
        }),
    ]
}

fn key(value: Val<'_>, descending: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    keys::encode(&mut bytes, value, descending);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(6000) })]

    #[test]
    fn comparison_is_reflexive_and_antisymmetric((a, b) in any_pair()) {
        prop_assert_eq!(compare::compare(a.get(), a.get()), Ordering::Equal);
        prop_assert_eq!(compare::compare(a.get(), b.get()), compare::compare(b.get(), a.get()).reverse());
    }

    #[test]
    fn comparison_is_transitive(a in any_value(), b in any_value(), c in any_value()) {
        transitive(a.get(), b.get(), c.get())?;
    }

    #[test]
    fn comparison_of_numbers_is_transitive(a in any_number(), b in any_number(), c in any_number()) {
        transitive(a.get(), b.get(), c.get())?;
    }

    #[test]
    fn keys_order_as_values_do((a, b) in any_pair()) {
        let order = compare::compare(a.get(), b.get());
        prop_assert_eq!(key(a.get(), false).cmp(&key(b.get(), false)), order, "{:?} {:?}", a, b);
        prop_assert_eq!(key(a.get(), true).cmp(&key(b.get(), true)), order.reverse(), "{:?} {:?}", a, b);
    }

    #[test]
    fn compound_keys_order_by_their_first_difference(
        (a, b) in any_pair(),
        (c, d) in any_pair(),
        descending in any::<(bool, bool)>(),
    ) {
        let compound = |first: &OwnedVal, second: &OwnedVal| {
            let mut bytes = Vec::new();
            keys::encode(&mut bytes, first.get(), descending.0);
            keys::encode(&mut bytes, second.get(), descending.1);
            bytes
        };
        let direction = |order: Ordering, descending: bool| if descending { order.reverse() } else { order };
        let expected = direction(compare::compare(a.get(), b.get()), descending.0)
            .then(direction(compare::compare(c.get(), d.get()), descending.1));
        prop_assert_eq!(compound(&a, &c).cmp(&compound(&b, &d)), expected);
    }

    #[test]
    fn keys_say_where_they_end(a in any_value(), b in any_value(), descending in any::<bool>()) {
        let first = key(a.get(), descending);
        let mut both = first.clone();
        keys::encode(&mut both, b.get(), descending);
        prop_assert_eq!(keys::skip(&both, descending), Some(first.len()), "{:?}", a);
        prop_assert_eq!(keys::skip(&first, descending), Some(first.len()));
    }

    #[test]
    fn no_key_is_a_prefix_of_another((a, b) in any_pair()) {
        let (first, second) = (key(a.get(), false), key(b.get(), false));
        prop_assert!(first == second || !second.starts_with(&first), "{:?} {:?}", a, b);
    }

    #[test]
    fn nothing_of_a_key_lies_above_its_end_mark((a, b) in any_pair()) {
        // Bounds are keys followed by FF: above all that continues the key, below all larger keys.
        let mut above = key(a.get(), false);
        let longer = [above.clone(), key(b.get(), false)].concat();
        above.push(0xFF);
        prop_assert!(longer < above);
        if compare::compare(b.get(), a.get()).is_gt() {
            prop_assert!(key(b.get(), false) > above);
        }
    }

    #[test]
    fn values_come_back_from_keys(a in any_value(), b in any_value(), descending in any::<bool>()) {
        let (mut bytes, mut types) = (Vec::new(), Vec::new());
        for value in [a.get(), b.get()] {
            keys::encode(&mut bytes, value, descending);
            key_types::append(&mut types, value);
        }
        key_types::trim(&mut types);
        let mut decoder = key_types::Decoder::new(&bytes, &types);
        for value in [a.get(), b.get()] {
            let mut decoded = Vec::new();
            let kind = match decoder.next(descending, &mut decoded) {
                Some(key_types::Decoded::Value(kind)) => Some(kind),
                _ => None,
            };
            let mut expected = Vec::new();
            value::writer::write_value(&mut expected, value);
            prop_assert_eq!((kind, decoded), (Some(value.kind()), expected));
        }
        prop_assert!(decoder.rest().is_empty());
    }

    #[test]
    fn any_bytes_can_be_decoded(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        types in prop::collection::vec(any::<u8>(), 0..10),
        descending in any::<bool>(),
    ) {
        let mut decoder = key_types::Decoder::new(&bytes, &types);
        let mut out = Vec::new();
        while decoder.next(descending, &mut out).is_some() {}
    }

    #[test]
    fn any_bytes_can_be_skipped(bytes in prop::collection::vec(any::<u8>(), 0..40), descending in any::<bool>()) {
        if let Some(length) = keys::skip(&bytes, descending) {
            prop_assert!(length <= bytes.len());
        }
    }

    #[test]
    fn numbers_compare_across_types_by_value(n in any::<i64>(), offset in -2i64..=2) {
        let other = n.wrapping_add(offset);
        let order = n.cmp(&other);
        let decimal = Val::Decimal(value::Decimal128::from_i64(other));
        prop_assert_eq!(number::compare(Val::Int64(n), decimal), Some(order));
        let exact = (other as f64) as i128 == i128::from(other);
        if exact {
            prop_assert_eq!(number::compare(Val::Int64(n), Val::Double(other as f64)), Some(order));
        }
    }
}

fn transitive(a: Val<'_>, b: Val<'_>, c: Val<'_>) -> Result<(), TestCaseError> {
    let (ab, bc, ac) = (compare::compare(a, b), compare::compare(b, c), compare::compare(a, c));
    if ab == bc {
        prop_assert_eq!(ac, ab, "{:?} {:?} {:?}", a, b, c);
    }
    if ab == Ordering::Equal {
        prop_assert_eq!(ac, bc, "{:?} {:?} {:?}", a, b, c);
    }
    Ok(())
}

#[test]
fn types_have_mongodbs_order() {
    let ascending = [
        "MinKey",
        "undefined",
        "null",
        "NaN",
        "-Infinity",
        "NumberLong(\"-9223372036854775808\")",
        "-1.5",
        "-1",
        "-0.5",
        "0",
        "5e-324",
        "0.1",
        "NumberDecimal(\"0.1000000000000000055511151231257828\")",
        "1",
        "NumberDecimal(\"1.00000000000000000000000001\")",
        "1.5",
        "9007199254740992.0",
        "NumberLong(\"9007199254740993\")",
        "9007199254740994.0",
        "NumberLong(\"9223372036854775807\")",
        "9223372036854775808.0",
        "NumberDecimal(\"1E+6000\")",
        "Infinity",
        "\"\"",
        "\"a\"",
        "\"a\\u0000\"",
        "\"b\"",
        "{}",
        "{ a: 1 }",
        "{ b: 1 }",
        "{ a: \"x\" }",
        "[]",
        "[1]",
        "[1, 1]",
        "[2]",
        "BinData(0, \"\")",
        "BinData(0, \"AA==\")",
        "BinData(4, \"AA==\")",
        "ObjectId(\"000000000000000000000000\")",
        "false",
        "true",
        "new Date(-1)",
        "new Date(0)",
        "Timestamp(0, 1)",
        "Timestamp(1, 0)",
        "/a/",
        "/a/i",
        "/b/",
        "DBPointer(\"a\", ObjectId(\"000000000000000000000000\"))",
        "Code(\"a\")",
        "Code(\"a\", {})",
        "MaxKey",
    ];
    let values: Vec<OwnedVal> =
        ascending.iter().map(|text| value::ejson::parse_value(text).unwrap()).collect();
    for (at, a) in values.iter().enumerate() {
        for (other, b) in values.iter().enumerate() {
            let order = at.cmp(&other);
            assert_eq!(
                compare::compare(a.get(), b.get()),
                order,
                "{} {}",
                ascending[at],
                ascending[other]
            );
            assert_eq!(
                key(a.get(), false).cmp(&key(b.get(), false)),
                order,
                "{} {}",
                ascending[at],
                ascending[other]
            );
            assert_eq!(key(a.get(), true).cmp(&key(b.get(), true)), order.reverse());
        }
    }
}

#[test]
fn equal_numbers_have_one_key() {
    for group in [
        ["1", "NumberLong(1)", "1.0", "NumberDecimal(\"1.00\")"],
        ["0", "-0.0", "NumberDecimal(\"-0E+5\")", "NumberDecimal(\"0.000\")"],
        ["0.5", "NumberDecimal(\"0.5\")", "NumberDecimal(\"0.50\")", "NumberDecimal(\"5E-1\")"],
        ["NaN", "NumberDecimal(\"NaN\")", "NaN", "NaN"],
        ["1e30", "NumberDecimal(\"1000000000000000019884624838656\")", "1e30", "1e30"],
        ["-2.25", "NumberDecimal(\"-2.25\")", "NumberDecimal(\"-2.250\")", "-2.25"],
    ] {
        let values = group.map(|text| value::ejson::parse_value(text).unwrap());
        for value in &values {
            assert!(compare::equal(values[0].get(), value.get()), "{value:?}");
            assert_eq!(key(values[0].get(), false), key(value.get(), false), "{value:?}");
        }
    }
}

#[test]
fn names_inside_arrays_do_not_count() {
    let named = value::ejson::parse_doc("{ x: 1, y: 2 }").unwrap();
    let plain = value::ejson::parse_value("[1, 2]").unwrap();
    assert!(compare::equal(Val::Array(named.as_doc()), plain.get()));
    assert_eq!(key(Val::Array(named.as_doc()), false), key(plain.get(), false));
}
