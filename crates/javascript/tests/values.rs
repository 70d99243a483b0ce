//! Values that go into functions and come back.
#![expect(clippy::unwrap_used, reason = "tests")]

use javascript::{Program, This};
use value::{DocBuf, OwnedVal, RawDoc, Result, ejson};

fn run(source: &str, args: &str) -> Result<OwnedVal> {
    let program = Program::new(vec![source.to_owned()], None, || false);
    let args = ejson::parse_doc(&format!("{{a: {args}}}")).unwrap();
    let args = args.as_doc().get("a").unwrap().as_array().unwrap();
    let args: Vec<_> = args.iter().map(|(_, value)| value.get()).collect();
    program.call(0, This::Nothing, &args)
}

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).unwrap()
}

#[track_caller]
fn gives(source: &str, args: &str, expected: &str) {
    let found = run(source, args).unwrap();
    let found = DocBuf::build(|out| {
        out.append("v", found.get());
    });
    assert_eq!(found, doc(&format!("{{v: {expected}}}")), "{source} of {args}");
}

#[test]
fn values_come_back_as_they_went_in() {
    for value in [
        "2.5",
        "NumberLong(5)",
        "NumberLong('9007199254740993')",
        "NumberDecimal('1.50')",
        "'text with ü and 💧'",
        "true",
        "null",
        "ObjectId('5f5f5f5f5f5f5f5f5f5f5f5f')",
        "{$date: '2020-01-02T03:04:05.678Z'}",
        "{$timestamp: {t: 4000000000, i: 7}}",
        "{$binary: {base64: 'YWJj', subType: '04'}}",
        "{$regularExpression: {pattern: 'a', options: 'i'}}",
        "{$minKey: 1}",
        "{$maxKey: 1}",
        "{$code: 'function(){}'}",
        "{b: 1, a: {c: 2, d: 2.0, e: NumberLong(1)}, f: [{g: 1}]}",
    ] {
        gives("function(x) { return x }", &format!("[{value}]"), value);
    }
}

#[test]
fn numbers_are_doubles_unless_a_document_had_them_as_ints() {
    gives("function(x) { return x }", "[1]", "1.0");
    gives("function(x) { return x }", "[[1, 2.5, NumberLong(3)]]", "[1.0, 2.5, NumberLong(3)]");
    gives(
        "function(x) { x.x = 7; x.y = 3; x.q = 1; x.z = 0.5; return x }",
        "[{x: 1, y: NumberLong(2), z: 5}]",
        "{x: 7, y: 3.0, z: 0.5, q: 1.0}",
    );
    gives("function() { return NumberInt(6) }", "[]", "6");
    gives("function(x) { return x + 1 }", "[NumberLong(5)]", "6.0");
    gives("function() { return [1, undefined, null] }", "[]", "[1.0, {$undefined: true}, null]");
}

#[test]
fn helpers_are_there() {
    gives("function() { return Array.sum([1, 2, 3]) }", "[]", "6.0");
    gives("function() { return hex_md5('x') }", "[]", "'9dd4e461268c8034f5c8564e155c67a6'");
    gives(
        "function() { return tojson({a: [1, 'x'], b: null}) }",
        "[]",
        "'{ \"a\" : [ 1, \"x\" ], \"b\" : null }'",
    );
    gives("function(x) { return tojson(x) + ' ' + x }", "[NumberLong(5)]", "'NumberLong(5) 5'");
    gives(
        "function() { return ISODate('2020-01-01T10:00:00+02:00').getTime() }",
        "[]",
        "1577865600000.0",
    );
    gives(
        "function() { return UUID('00112233-4455-6677-8899-aabbccddeeff').hex() }",
        "[]",
        "'00112233445566778899aabbccddeeff'",
    );
    gives(
        "function(x) { return x.str + x.equals(ObjectId(x.str)) }",
        "[ObjectId('5f5f5f5f5f5f5f5f5f5f5f5f')]",
        "'5f5f5f5f5f5f5f5f5f5f5f5ftrue'",
    );
    gives(
        "function() { print('x'); printjson({}); return [3, 1, 2].sort() }",
        "[]",
        "[1.0, 2.0, 3.0]",
    );
    gives("function() { return [1, [2, [3]]].flat() }", "[]", "[1.0, 2.0, [3.0]]");
    gives("function() { return 'a-b-c'.split('-').concat(['d']).join('+') }", "[]", "'a+b+c+d'");
    gives(
        "function() { return 'aXbX'.replace(/X/g, 'y') + 'aa'.replaceAll('a', 'b') }",
        "[]",
        "'aybybb'",
    );
}

#[test]
fn a_field_of_any_name_is_only_a_field() {
    gives(
        "function(x) { return [typeof x.toString, x.__proto__, Object.keys(x).length] }",
        "[{__proto__: 'p', constructor: 'c', length: 2}]",
        "['function', 'p', 3.0]",
    );
}

#[test]
fn functions_are_written_in_many_ways() {
    let document = doc("{a: 1, b: [1, 2]}");
    for (source, expected) in [
        ("this.a == 1", true),
        ("function() { return this.a == 1 }", true),
        ("function() { return this.a == 1 };", true),
        ("return this.a == 1", true),
        ("obj.a == 2", false),
        ("var x = 1; this.a == x", true),
        ("if (this.a == 1) return true; return false", true),
        ("() => false", true),
        ("this.b", true),
        ("this.zz", false),
        ("NaN", false),
        ("functional = 0", false),
    ] {
        let program = Program::new(vec![source.to_owned()], None, || false);
        let found = program.truth(0, This::Object(document.as_doc())).unwrap();
        assert_eq!(found, expected, "{source}");
    }
}

#[test]
fn functions_of_a_program_share_their_globals() {
    let functions = ["function() { return n += step }", "function() { return n }"];
    let scope = doc("{n: 1, step: 2}");
    let program =
        Program::new(functions.map(str::to_owned).to_vec(), Some(scope.as_doc()), || false);
    let call = |function| program.call(function, This::Nothing, &[]).unwrap().get().as_f64();
    assert_eq!([call(0), call(0), call(1)], [Some(3.0), Some(5.0), Some(5.0)]);
    let other = Program::new(vec!["typeof n".into()], None, || false);
    let found = other.call(0, This::Nothing, &[]).unwrap();
    assert_eq!(found.get().as_str(), Some("undefined"), "programs do not see each other");
}

#[test]
fn what_a_function_emits() {
    let source = "function() { for (const t of this.t) emit(t, {n: 1, u: undefined}) }";
    let program = Program::new(vec![source.to_owned()], None, || false);
    let emit = |text: &str| {
        let found = program.emitted(0, This::Document(doc(text).as_doc())).unwrap();
        DocBuf::build(|out| {
            out.append("v", found.get());
        })
    };
    assert_eq!(emit("{t: []}"), doc("{v: []}"));
    let expected = "{v: [{k: 'a', v: {n: 1.0, u: {$undefined: true}}}]}";
    assert_eq!(emit("{t: ['a']}"), doc(expected));
    assert_eq!(emit("{t: ['a']}"), doc(expected), "what was emitted before is gone");
    let wrong = Program::new(vec!["emit(1)".to_owned()], None, || false);
    let error = wrong.emitted(0, This::Document(RawDoc::empty())).unwrap_err();
    assert_eq!(error.code().0, 31220);
}

#[test]
fn errors_say_what_was_thrown() {
    let error = |source: &str| {
        let error = run(source, "[]").unwrap_err();
        (error.code().0, error.message().lines().next().unwrap_or("").to_owned())
    };
    assert_eq!(error("function() { throw new Error('boo') }"), (139, "Error: boo :".into()));
    assert_eq!(error("function() { throw 'boo' }"), (8, "uncaught exception: boo".into()));
    assert_eq!(error("function() { throw {a: 1} }"), (139, "[object Object] :".into()));
    let (code, message) = error("function() { return y }");
    assert!(code == 139 && message.starts_with("ReferenceError:"), "{message}");
    for wrong in ["function() {", "this.a ==", "a\0b"] {
        let (code, message) = error(wrong);
        assert!(code == 139 && message.starts_with("SyntaxError:"), "{wrong}: {message}");
    }
    assert_eq!(error("function() { var a = {}; a.a = a; return a }").0, 17279);
    assert_eq!(error("function() { return {'a\\0b': 1} }").0, 16985);
    assert_eq!(error("function() { throw {toString() { throw 1 }} }").0, 139);
    assert_eq!(error("function() { const e = new Error('x'); e.name = {toString() { while (1) throw 2 }}; throw e }").0, 139);
}
