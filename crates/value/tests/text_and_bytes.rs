//! Documents as text and as bytes: what is printed reads back, the bson crate agrees, and no bytes
//! whatever make the validator or the readers panic.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod common;

use common::any_document;
use proptest::prelude::*;
use value::ejson::{self, Format, Mode};
use value::validate::{validate, validate_prefix};
use value::{Code, RawDoc, Val};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn shell_text_reads_back_as_the_same_bytes(doc in any_document()) {
        let doc = canonical(doc.as_doc());
        let text = ejson::print(doc.as_doc(), Format::Shell);
        let read = ejson::parse_doc(&text).map_err(|e| TestCaseError::fail(format!("{e}: {text}")))?;
        prop_assert_eq!(read.bytes(), doc.bytes(), "{}", text);
        let pretty = ejson::print_pretty(doc.as_doc());
        let pretty_read = ejson::parse_doc(&pretty).unwrap();
        prop_assert_eq!(pretty_read.bytes(), doc.bytes(), "{}", pretty);
    }

    #[test]
    fn canonical_text_reads_back_as_the_same_bytes(doc in any_document()) {
        let doc = canonical(doc.as_doc());
        let text = ejson::print(doc.as_doc(), Format::Canonical);
        for mode in [Mode::Json, Mode::Shell] {
            let read = ejson::parse_doc_as(&text, mode).map_err(|e| TestCaseError::fail(format!("{e}: {text}")))?;
            prop_assert_eq!(read.bytes(), doc.bytes(), "{}", text);
        }
    }

    #[test]
    fn relaxed_text_reads_back_as_equal_values(doc in any_document()) {
        let doc = canonical(doc.as_doc());
        let text = ejson::print(doc.as_doc(), Format::Relaxed);
        let read = ejson::parse_doc_as(&text, Mode::Json).map_err(|e| TestCaseError::fail(format!("{e}: {text}")))?;
        prop_assert!(value::compare::documents(read.as_doc(), doc.as_doc()).is_eq(), "{}", text);
    }

    #[test]
    fn the_bson_crate_reads_and_writes_the_same(doc in any_document()) {
        prop_assert!(validate(doc.bytes(), 100).is_ok());
        if distinct_names(doc.as_doc()) {
            let theirs = bson::Document::from_reader(doc.bytes()).unwrap();
            prop_assert_eq!(theirs.to_vec().unwrap(), doc.bytes());
        }
    }

    #[test]
    fn copying_every_value_keeps_the_bytes(doc in any_document()) {
        let copied = canonical(doc.as_doc());
        prop_assert_eq!(copied.bytes(), doc.bytes());
    }

    #[test]
    fn damaged_bytes_never_panic(doc in any_document(), at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()) {
        let mut damaged = doc.bytes().to_vec();
        damaged[at.index(doc.bytes().len())] = byte;
        touch_unchecked(&damaged);
        let shorter = &damaged[..cut.index(damaged.len() + 1)];
        touch_unchecked(shorter);
        for bytes in [damaged.as_slice(), shorter] {
            match validate(bytes, 100) {
                Ok(doc) => {
                    // What was let in can be read to the end by us and by others.
                    touch(doc);
                    prop_assert_eq!(canonical(doc).bytes().len(), bytes.len());
                }
                Err(error) => prop_assert!(matches!(error.code(), Code::INVALID_BSON | Code::OVERFLOW)),
            }
        }
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        touch_unchecked(&bytes);
        let mut framed = (bytes.len() as u32 + 5).to_le_bytes().to_vec();
        framed.extend_from_slice(&bytes);
        framed.push(0);
        if let Ok(doc) = validate(&framed, 100) {
            touch(doc);
        }
        touch_unchecked(&framed);
    }

    #[test]
    fn any_text_never_panics(text in "\\PC{0,40}", noise in "[\\[\\]{}:,'\"/$a-z0-9(). \\\\-]{0,40}") {
        for text in [&text, &noise] {
            for mode in [Mode::Json, Mode::Shell] {
                let _ = ejson::parse_value_as(text, mode);
                let _ = ejson::parse_doc_as(text, mode);
            }
            let _ = (ejson::date::parse(text), ejson::decode_base64(text));
        }
    }

    #[test]
    fn dates_read_back(millis in any::<i64>()) {
        let millis = millis % 8_640_000_000_000_000;
        prop_assert_eq!(ejson::date::parse(&ejson::date::print(millis, false)), Some(millis));
    }

    #[test]
    fn base64_reads_back(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(ejson::decode_base64(&ejson::encode_base64(&bytes)), Some(bytes));
    }
}

/// Writes every value anew, through `Val`.
fn canonical(doc: RawDoc<'_>) -> value::DocBuf {
    value::DocBuf::build(|writer| {
        for (name, value) in doc {
            writer.append(name, rewritten(value.get()).get());
        }
    })
}

fn rewritten(value: Val<'_>) -> ejson::OwnedVal {
    match value {
        // Text cannot tell one NaN from another.
        Val::Double(n) if n.is_nan() => ejson::OwnedVal::new(Val::Double(f64::NAN)),
        Val::Document(doc) => ejson::OwnedVal::new(Val::Document(canonical(doc).as_doc())),
        Val::CodeWithScope(code, scope) => {
            ejson::OwnedVal::new(Val::CodeWithScope(code, canonical(scope).as_doc()))
        }
        Val::Array(array) => ejson::OwnedVal::new(Val::Array(canonical(array).as_doc())),
        value => ejson::OwnedVal::new(value),
    }
}

fn distinct_names(doc: RawDoc<'_>) -> bool {
    let mut names: Vec<&str> = doc.iter().map(|(name, _)| name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    names.len() == count
        && doc.iter().all(|(_, value)| match value.get() {
            Val::Document(doc) | Val::Array(doc) | Val::CodeWithScope(_, doc) => {
                distinct_names(doc)
            }
            _ => true,
        })
}

/// Reads everything of a valid document.
fn touch(doc: RawDoc<'_>) {
    let mut length = 5;
    for (name, value) in doc {
        assert!(!value.get().is_missing());
        length += name.len() + 2 + value.bytes.len();
        if let Val::Document(doc) | Val::Array(doc) | Val::CodeWithScope(_, doc) = value.get() {
            touch(doc);
        }
    }
    assert_eq!(length, doc.bytes().len());
    touch_unchecked(doc.bytes());
}

/// Reads whatever can be read without a check before.
fn touch_unchecked(bytes: &[u8]) {
    let doc = RawDoc::new(bytes);
    for format in [Format::Shell, Format::Canonical, Format::Relaxed] {
        let _ = ejson::print(doc, format);
    }
    let _ = (doc.first(), doc.get("a"), doc.count(), format!("{doc:?}"));
    for (_, value) in doc {
        let value = value.get();
        let _ = (value.as_f64(), value.as_i64_exact(), value.truthy(), value::keys::key(value));
        let _ = value::compare::compare(value, value);
    }
}

fn code_of(bytes: &[u8], depth_max: usize) -> Option<Code> {
    validate(bytes, depth_max).err().map(|error| error.code())
}

#[test]
fn nesting_is_limited_exactly() {
    let nested = |depth: usize| {
        let text = format!("{}{}", "{ a: ".repeat(depth - 1) + "{", "}".repeat(depth));
        ejson::parse_doc(&text).unwrap().into_bytes()
    };
    assert_eq!(code_of(&nested(100), 100), None);
    assert_eq!(code_of(&nested(101), 100), Some(Code::OVERFLOW));
    assert_eq!(code_of(&nested(1), 0), Some(Code::OVERFLOW));
    // A limit above the largest is the largest: no input can exhaust the stack.
    let mut deep = vec![5, 0, 0, 0, 0];
    for _ in 0..10_000 {
        let mut outer = (deep.len() as u32 + 8).to_le_bytes().to_vec();
        outer.extend_from_slice(&[3, b'a', 0]);
        outer.extend_from_slice(&deep);
        outer.push(0);
        deep = outer;
    }
    assert_eq!(code_of(&deep, usize::MAX), Some(Code::OVERFLOW));
}

#[test]
fn malformed_documents_are_refused() {
    let cases: &[(&str, &[u8])] = &[
        ("no bytes", &[]),
        ("too short", &[4, 0, 0, 0]),
        ("negative length", &[0xFF, 0xFF, 0xFF, 0xFF, 0]),
        ("length beyond the bytes", &[6, 0, 0, 0, 0]),
        ("length before the end", &[5, 0, 0, 0, 0, 0]),
        ("no terminator", &[5, 0, 0, 0, 1]),
        ("unknown type", &[8, 0, 0, 0, 0x20, b'a', 0, 0]),
        ("name without end", &[7, 0, 0, 0, 0x0A, b'a', b'b']),
        ("name that is not UTF-8", &[8, 0, 0, 0, 0x0A, 0xFF, 0, 0]),
        ("bool of 2", &[9, 0, 0, 0, 0x08, b'a', 0, 2, 0]),
        ("bool without value", &[7, 0, 0, 0, 0x08, b'a', 0]),
        ("int cut off", &[10, 0, 0, 0, 0x10, b'a', 0, 1, 0, 0]),
        ("string of length 0", &[12, 0, 0, 0, 2, b'a', 0, 0, 0, 0, 0, 0]),
        ("string without terminator", &[13, 0, 0, 0, 2, b'a', 0, 1, 0, 0, 0, b'x', 0]),
        ("string too long", &[13, 0, 0, 0, 2, b'a', 0, 9, 0, 0, 0, 0, 0]),
        ("string of negative length", &[13, 0, 0, 0, 2, b'a', 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0]),
        ("string that is not UTF-8", &[14, 0, 0, 0, 2, b'a', 0, 2, 0, 0, 0, 0xC0, 0, 0]),
        ("nested document beyond its parent", &[13, 0, 0, 0, 3, b'a', 0, 6, 0, 0, 0, 0, 0]),
        ("nested document of length 4", &[13, 0, 0, 0, 3, b'a', 0, 4, 0, 0, 0, 0, 0]),
        ("binary beyond its parent", &[14, 0, 0, 0, 5, b'a', 0, 2, 0, 0, 0, 0, 0, 0]),
        (
            "old binary with a wrong inner length",
            &[17, 0, 0, 0, 5, b'a', 0, 4, 0, 0, 0, 2, 1, 0, 0, 0, 0],
        ),
        ("regex without options", &[10, 0, 0, 0, 0x0B, b'a', 0, b'x', 0, b'i']),
        (
            "scope that does not fill its code",
            &[23, 0, 0, 0, 0x0F, b'a', 0, 15, 0, 0, 0, 1, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0],
        ),
    ];
    for (what, bytes) in cases {
        assert_eq!(code_of(bytes, 100), Some(Code::INVALID_BSON), "{what}");
    }
}

#[test]
fn documents_can_be_read_from_a_stream() {
    let (a, b) =
        (ejson::parse_doc("{ a: 1 }").unwrap(), ejson::parse_doc("{ b: [1, 2] }").unwrap());
    let both = [a.bytes(), b.bytes()].concat();
    let (first, rest) = validate_prefix(&both, 100).unwrap();
    assert_eq!(first, a.as_doc());
    let (second, rest) = validate_prefix(rest, 100).unwrap();
    assert_eq!(second, b.as_doc());
    assert!(rest.is_empty());
    assert!(validate_prefix(&both[..a.bytes().len() - 1], 100).is_err());
}

#[test]
fn shell_notation() {
    for (text, canonical) in [
        ("{}", "{}"),
        (
            "{ a: 12, 'b': 12.0, \"c\": 3000000000, d: 1e3, }",
            r#"{"a":{"$numberInt":"12"},"b":{"$numberDouble":"12.0"},"c":{"$numberLong":"3000000000"},"d":{"$numberDouble":"1000.0"}}"#,
        ),
        (
            "{ a: -5, b: +7, c: .5, d: 5., e: 0x10, f: 99999999999999999999 }",
            r#"{"a":{"$numberInt":"-5"},"b":{"$numberInt":"7"},"c":{"$numberDouble":"0.5"},"d":{"$numberDouble":"5.0"},"e":{"$numberInt":"16"},"f":{"$numberDouble":"1e20"}}"#,
        ),
        (
            "// first\n{ a /* name */ : true, b: null, c: undefined } // last",
            r#"{"a":true,"b":null,"c":{"$undefined":true}}"#,
        ),
        (
            "{ a: [1, [], {},], $set: 'it\\'s' }",
            r#"{"a":[{"$numberInt":"1"},[],{}],"$set":"it's"}"#,
        ),
        (
            "{ _id: ObjectId('0123456789abcdef01234567') }",
            r#"{"_id":{"$oid":"0123456789abcdef01234567"}}"#,
        ),
        (
            "{ a: ISODate('1970-01-01T00:00:01Z'), b: new Date(5), c: new Date('1970') }",
            r#"{"a":{"$date":{"$numberLong":"1000"}},"b":{"$date":{"$numberLong":"5"}},"c":{"$date":{"$numberLong":"0"}}}"#,
        ),
        (
            "{ a: NumberLong('5'), b: NumberLong(5), c: NumberInt(5.0), d: NumberDecimal('1.50') }",
            r#"{"a":{"$numberLong":"5"},"b":{"$numberLong":"5"},"c":{"$numberInt":"5"},"d":{"$numberDecimal":"1.50"}}"#,
        ),
        (
            "{ a: Timestamp(1, 2), b: Timestamp({ t: 1, i: 2 }) }",
            r#"{"a":{"$timestamp":{"t":1,"i":2}},"b":{"$timestamp":{"t":1,"i":2}}}"#,
        ),
        (
            "{ a: BinData(0, 'AQID'), b: UUID('01020304-0506-0708-090a-0b0c0d0e0f10'), c: HexData(5, 'ff') }",
            r#"{"a":{"$binary":{"base64":"AQID","subType":"00"}},"b":{"$binary":{"base64":"AQIDBAUGBwgJCgsMDQ4PEA==","subType":"04"}},"c":{"$binary":{"base64":"/w==","subType":"05"}}}"#,
        ),
        (
            "{ a: /x[/]\\/y/mi, b: RegExp('a/b'), c: { $regex: 'a', $options: 'i' } }",
            r#"{"a":{"$regularExpression":{"pattern":"x[/]\\/y","options":"im"}},"b":{"$regularExpression":{"pattern":"a/b","options":""}},"c":{"$regex":"a","$options":"i"}}"#,
        ),
        (
            "{ a: MinKey, b: MaxKey(), c: Infinity, d: -Infinity, e: NaN }",
            r#"{"a":{"$minKey":1},"b":{"$maxKey":1},"c":{"$numberDouble":"Infinity"},"d":{"$numberDouble":"-Infinity"},"e":{"$numberDouble":"NaN"}}"#,
        ),
        (
            "{ a: Symbol('s'), b: Code('f', { x: 1 }), c: Code('g') }",
            r#"{"a":{"$symbol":"s"},"b":{"$code":"f","$scope":{"x":{"$numberInt":"1"}}},"c":{"$code":"g"}}"#,
        ),
        (
            "{ a: DBRef('c', 1), b: DBRef('c', 1, 'd') }",
            r#"{"a":{"$ref":"c","$id":{"$numberInt":"1"}},"b":{"$ref":"c","$id":{"$numberInt":"1"},"$db":"d"}}"#,
        ),
        // Wrappers count where their shape is exact, and only there.
        (
            "{ a: { $numberLong: '5' }, b: { $numberLong: 'x' }, c: { $date: '1970-01-01', x: 1 } }",
            r#"{"a":{"$numberLong":"5"},"b":{"$numberLong":"x"},"c":{"$date":"1970-01-01","x":{"$numberInt":"1"}}}"#,
        ),
        (
            "{ a: { $type: 'string' }, b: { $uuid: '01020304-0506-0708-090a-0b0c0d0e0f10' } }",
            r#"{"a":{"$type":"string"},"b":{"$binary":{"base64":"AQIDBAUGBwgJCgsMDQ4PEA==","subType":"04"}}}"#,
        ),
        (r#"{ a: "\u00e9\ud834\udd1e\n\x41\/" }"#, r#"{"a":"é𝄞\nA/"}"#),
    ] {
        let doc = ejson::parse_doc(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(ejson::print(doc.as_doc(), Format::Canonical), canonical, "{text}");
    }
}

#[test]
fn shell_notation_is_printed_for_people() {
    let doc = ejson::parse_doc(
        "{ _id: 1, 'a.b': [1.0, NumberLong(2)], c: { d: ISODate('2024-01-02') } }",
    )
    .unwrap();
    assert_eq!(
        ejson::print(doc.as_doc(), Format::Shell),
        r#"{ _id: 1, "a.b": [1.0, NumberLong(2)], c: { d: ISODate("2024-01-02T00:00:00.000Z") } }"#
    );
    assert_eq!(
        ejson::print(doc.as_doc(), Format::Relaxed),
        r#"{"_id":1,"a.b":[1.0,2],"c":{"d":{"$date":"2024-01-02T00:00:00Z"}}}"#
    );
    let long = ejson::parse_doc(&format!("{{ a: '{}', b: {{ c: 1 }} }}", "x".repeat(90))).unwrap();
    assert_eq!(
        ejson::print_pretty(long.as_doc()),
        format!("{{\n  a: \"{}\",\n  b: {{ c: 1 }}\n}}", "x".repeat(90))
    );
}

#[test]
fn wrong_text_is_refused_with_its_place() {
    for (text, place) in [
        ("", "line 1, column 1"),
        ("{", "line 1, column 2"),
        ("{ a: 1", "line 1, column 7"),
        ("{ a: 1,, b: 2 }", "line 1, column 8"),
        ("{ a 1 }", "line 1, column 5"),
        ("{ a: 01 }", "line 1, column 6"),
        ("{ a: 1x }", "line 1, column 6"),
        ("{ a: 1-2 }", "line 1, column 7"),
        ("{\n  a: Nonsense(1)\n}", "line 2, column 6"),
        ("{ a: ObjectId('12') }", "line 1, column 6"),
        ("{ é: ISODate('yesterday') }", "line 1, column 6"),
        ("{ a: 'x", "line 1, column 6"),
        ("{ a: /x", "line 1, column 6"),
        ("{ a: 1 } b", "line 1, column 10"),
        ("[1]", "line 1, column 1"),
        ("{ a: '\\q' }", "line 1, column 9"),
        ("{ a: '\\ud800' }", "line 1, column 13"),
        ("{ 'a\\u0000b': 1 }", "line 1, column 13"),
        ("/* open", "line 1, column 1"),
    ] {
        let error = ejson::parse_doc(text).expect_err(text);
        assert_eq!(error.code(), Code::FAILED_TO_PARSE, "{text}");
        assert!(error.message().ends_with(place), "{text}: {error}");
    }
    let deep = "[".repeat(100_000);
    assert!(ejson::parse_value(&deep).is_err());
    let calls = "Code(".repeat(100_000);
    assert!(ejson::parse_value(&calls).is_err());
}

#[test]
fn json_mode_is_strict() {
    for text in [
        "{a: 1}",
        "{'a': 1}",
        "{\"a\": 1,}",
        "[1,]",
        "{\"a\": undefined}",
        "{\"a\": ObjectId()}",
        "{\"a\": .5}",
        "{\"a\": 5.}",
        "{\"a\": +5}",
        "{\"a\": /x/}",
        "// no\n{}",
        "{\"a\": NaN}",
        "{\"a\": {\"$oid\": 5}}",
        "{\"a\": {\"$numberInt\": \"5000000000\"}}",
        "{\"a\": {\"$date\": \"x\"}}",
        "{\"a\": \"\\x41\"}",
    ] {
        assert!(ejson::parse_value_as(text, Mode::Json).is_err(), "{text}");
    }
    for (text, shell) in [
        (r#"{"a":{"$binary":"AQID","$type":"00"}}"#, r#"{ a: BinData(0, "AQID") }"#),
        (
            r#"{"a":{"$regex":"x","$options":""},"b":{"$type":2}}"#,
            r#"{ a: { $regex: "x", $options: "" }, b: { $type: 2 } }"#,
        ),
        (r#"{"a":1e2,"b":-0,"c":-1.5E-3}"#, "{ a: 100.0, b: 0, c: -0.0015 }"),
        (
            r#"{"a":{"$dbPointer":{"$ref":"n","$id":{"$oid":"0123456789abcdef01234567"}}}}"#,
            r#"{ a: DBPointer("n", ObjectId("0123456789abcdef01234567")) }"#,
        ),
    ] {
        let doc = ejson::parse_doc_as(text, Mode::Json).unwrap();
        assert_eq!(ejson::print(doc.as_doc(), Format::Shell), shell);
    }
}

#[test]
fn values_are_read_one_after_another() {
    let text = "{ a: 1 }\n{ a: 2 } // comment\n  [3] 'four' rest";
    let mut parser = ejson::Parser::new(text, Mode::Shell);
    assert_eq!(parser.next_doc().unwrap().unwrap().as_doc().get("a"), Some(Val::Int32(1)));
    assert_eq!(parser.next_doc().unwrap().unwrap().as_doc().get("a"), Some(Val::Int32(2)));
    assert!(parser.next_value().unwrap().unwrap().get().as_array().is_some());
    assert_eq!(parser.value().unwrap().get(), Val::String("four"));
    assert_eq!(parser.rest(), " rest");
    assert_eq!(parser.position(), (3, 13));
    parser.seek(text.len());
    assert!(parser.next_doc().unwrap().is_none());
}

/// How long a validation takes, for people who look: `cargo test -- --nocapture speed`.
#[test]
fn validation_speed() {
    let fields: Vec<String> = (0..20).map(|n| format!("field{n}: 'value {n}'")).collect();
    let doc = ejson::parse_doc(&format!("{{ {}, n: [1, 2, 3] }}", fields.join(", "))).unwrap();
    let start = std::time::Instant::now();
    let rounds = 20_000u32;
    for _ in 0..rounds {
        assert!(validate(std::hint::black_box(doc.bytes()), 100).is_ok());
    }
    let each = start.elapsed() / rounds;
    eprintln!("{} bytes validated in {each:?}", doc.bytes().len());
    assert!(each.as_micros() < 100, "validation took {each:?} for {} bytes", doc.bytes().len());
}
