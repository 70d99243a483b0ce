//! The bounds of the sandbox.
#![expect(clippy::unwrap_used, reason = "tests")]

use javascript::{Program, This};
use std::cell::Cell;
use value::Error;

thread_local! {
    static CHECKS: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Says to stop after some checks.
fn stops() -> bool {
    let left = CHECKS.get();
    CHECKS.set(left.saturating_sub(1));
    left == 0
}

fn fails_within(source: &str, checks: u32) -> Error {
    CHECKS.set(checks);
    let program = Program::new(vec![source.to_owned()], None, stops);
    program.call(0, This::Nothing, &[]).unwrap_err()
}

fn fails(source: &str) -> Error {
    fails_within(source, u32::MAX)
}

#[test]
fn endless_loops_end_when_they_shall() {
    for source in [
        "function() { while (true) {} }",
        "function() { for (;;) try { while (true) {} } catch (e) {} finally { while (true) {} } }",
        "function() { return /^(a+)+$/.test('a'.repeat(40) + 'b') }",
        "function() { for (;;) [3, 1, 2].sort(() => 0) }",
        "function() { function* g() { for (;;) yield 1 } for (const x of g()); }",
        "function() { for (;;) sleep(1) }",
        "while (true) {}",
        "(function() { while (true) {} })()",
    ] {
        let error = fails_within(source, 50);
        assert_eq!(error.code().0, 139, "{source}: {error}");
        assert_eq!(error.message(), "JavaScript execution interrupted", "{source}");
    }
}

#[test]
fn a_function_that_never_ends_by_itself_cannot_hide_in_the_engine() {
    for source in [
        "function() { return new Array(4294967295).indexOf(1) }",
        "function() { return Array.prototype.indexOf.call({length: 9007199254740991}, 1) }",
        "function() { const a = []; a[4294967294] = 1; return a.reverse() }",
        "function() { return Array.prototype.unshift.call({length: 9007199254740991 - 1}, 1) }",
        "function() { const a = new Array(1 << 22); return a.concat(a, a, a) }",
        "function() { const a = 'a'.repeat(1 << 20); return (a + a).indexOf(a + 'b') }",
    ] {
        let error = fails(source);
        assert_eq!(error.code().0, 139, "{source}: {error}");
    }
}

#[test]
fn memory_is_bounded() {
    for source in [
        "function() { const a = []; for (;;) a.push(new Array(1000).fill(1)) }",
        "function() { let s = 'x'; for (;;) s += s }",
        "function() { return new Uint8Array(1 << 30).length }",
        "function() { const m = new Map(); for (let i = 0; ; i++) m.set(i, {}) }",
        "function() { const a = []; for (;;) try { for (;;) a.push({}) } catch (e) { throw e } }",
    ] {
        let error = fails(source);
        assert_eq!(error.code().0, 139, "{source}: {error}");
        assert!(!error.to_string().contains("interrupted"), "{source}: {error}");
    }
    assert_eq!(fails("function() { return 'x'.repeat(20 << 20).split('') }").code().0, 139);
    let large = "function() { const a = []; for (let i = 0; i < 17; i++) a.push('x'.repeat(1 << 20)); return a }";
    assert_eq!(fails(large).code().0, 10334);
}

#[test]
fn recursion_is_bounded() {
    for source in [
        "function f(x) { return f(x) + 1 }",
        "function f() { return [1].map(f) }",
        "function f() { return JSON.stringify({toJSON: f}) }",
        "function() { let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return JSON.stringify(a) }",
        "function() { return eval('('.repeat(1e5)) }",
        "function() { return new RegExp('('.repeat(1e5)) }",
        "function() { let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return tojson(a) }",
    ] {
        let error = fails(source);
        assert_eq!(error.code().0, 139, "{source}: {error}");
    }
}

#[test]
fn there_is_nothing_outside() {
    for name in [
        "require",
        "process",
        "std",
        "os",
        "fetch",
        "XMLHttpRequest",
        "setTimeout",
        "Worker",
        "Atomics",
        "SharedArrayBuffer",
        "Proxy",
        "Promise",
        "db",
        "load",
        "cat",
        "quit",
        "console",
        "WebAssembly",
        "native",
    ] {
        let source = format!("typeof {name}");
        let program = Program::new(vec![source], None, || false);
        let found = program.call(0, This::Nothing, &[]).unwrap();
        assert_eq!(found.get().as_str(), Some("undefined"), "{name}");
    }
}

#[test]
fn a_program_works_after_a_failure_and_on_many_threads() {
    let source = "function(n) { if (n > 1) throw new Error('n'); return n }";
    let program = Program::new(vec![source.to_owned()], None, || false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let call = |n| program.call(0, This::Nothing, &[value::Val::Double(n)]);
                    assert!(call(2.0).is_err());
                    assert_eq!(call(1.0).unwrap().get().as_f64(), Some(1.0));
                }
            });
        }
    });
}
