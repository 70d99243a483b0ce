//! Functions in JavaScript: the switch, and what ends them.

use motifdb::value::{DocBuf, Val, ejson};
use motifdb::{Engine, Options};
use std::sync::mpsc;

fn engine(javascript: bool) -> Engine {
    let engine = Engine::open(Options { javascript, ..Options::default() }).expect("memory opens");
    run(&engine, "{insert: 'c', documents: [{_id: 1, a: 1}, {_id: 2, a: 2}]}").expect("works");
    engine
}

fn run(engine: &Engine, text: &str) -> motifdb::Result<DocBuf> {
    engine.run_command("t", ejson::parse_doc(text).expect("test text").as_doc())
}

/// The code and the message of a command that fails.
fn refusal(engine: &Engine, text: &str) -> (i32, String) {
    let error = run(engine, text).expect_err(text);
    (error.code().0, error.message().to_owned())
}

/// Commands that run a function for ever, without their last brace.
fn endless() -> Vec<(&'static str, String)> {
    let function = "{$function: {body: 'function() { while (true) {} }', args: [], lang: 'js'}}";
    let accumulator = |init: &str, finalize: &str| {
        format!(
            "{{aggregate: 'c', cursor: {{}}, pipeline: [{{$group: {{_id: null, v: {{$accumulator: \
             {{init: 'function() {{ {init} }}', accumulate: 'function(s) {{ return s }}', \
             accumulateArgs: [], merge: 'function(a) {{ return a }}', \
             finalize: 'function() {{ {finalize} }}', lang: 'js'}}}}}}}}]"
        )
    };
    let map_reduce = |map: &str, reduce: &str| {
        format!(
            "{{mapReduce: 'c', map: 'function() {{ {map} }}', \
             reduce: 'function() {{ {reduce} }}', out: {{inline: 1}}"
        )
    };
    vec![
        ("$where", "{find: 'c', filter: {$where: 'while (true) {}'}".to_owned()),
        ("update", "{update: 'c', updates: [{q: {$where: 'for (;;) {}'}, u: {$set: {v: 1}}, multi: true}]".to_owned()),
        ("delete", "{delete: 'c', deletes: [{q: {$where: 'for (;;) {}'}, limit: 0}]".to_owned()),
        ("$where while it is compiled", "{find: 'c', filter: {$where: '1)}); while (true) {} (function() { (1'}".to_owned()),
        ("regex", "{find: 'c', filter: {$where: '/^(a+)+$/.test(Array(60).join(\"a\") + \"b\")'}".to_owned()),
        ("sleep", "{find: 'c', filter: {$where: 'sleep(1e9) || true'}".to_owned()),
        ("catch", "{find: 'c', filter: {$where: 'function() { for (;;) try { for (;;) {} } catch (e) {} }'}".to_owned()),
        ("$function", format!("{{aggregate: 'c', cursor: {{}}, pipeline: [{{$project: {{v: {function}}}}}]")),
        ("$function in $expr", format!("{{find: 'c', filter: {{$expr: {function}}}")),
        ("init", accumulator("while (true) {}", "")),
        ("finalize", accumulator("", "while (true) {}")),
        ("map", map_reduce("while (true) {}", "")),
        ("reduce", map_reduce("emit(1, 1)", "while (true) {}")),
    ]
}

#[test]
fn without_the_switch_functions_are_refused() {
    let engine = engine(false);
    let enabled = "Cannot run server-side javascript without the javascript engine enabled";
    for (command, code, message) in [
        (
            "{find: 'c', filter: {$where: 'true'}}",
            6_108_304,
            "no globalScriptEngine in $where parsing",
        ),
        ("{find: 'c', filter: {$where: ''}}", 2, "code for $where cannot be empty"),
        (
            "{mapReduce: 'c', map: 'x', reduce: 'y', out: {inline: 1}}",
            59,
            "no such command: 'mapReduce'",
        ),
        (
            "{mapreduce: 'c', map: 'x', reduce: 'y', out: {inline: 1}}",
            59,
            "no such command: 'mapreduce'",
        ),
        ("{explain: {mapReduce: 'c'}}", 59, "Explain failed due to unknown command: mapReduce"),
    ] {
        let (found, text) = refusal(&engine, command);
        assert!(found == code && text.contains(message), "{command}: {found} {text}");
    }
    for stage in [
        "{$project: {v: {$function: {body: 'function() {}', args: [], lang: 'js'}}}}",
        "{$group: {_id: null, v: {$accumulator: {init: 'f', accumulate: 'f', accumulateArgs: [], merge: 'f', lang: 'js'}}}}",
        "{$project: {v: {$_internalJsEmit: {eval: 'function() {}'}}}}",
        "{$group: {_id: null, v: {$_internalJsReduce: {data: '$a', eval: 'function() {}'}}}}",
    ] {
        let command = format!("{{aggregate: 'c', pipeline: [{stage}], cursor: {{}}}}");
        let (found, text) = refusal(&engine, &command);
        assert!(found == 31264 && text.contains(enabled), "{command}: {found} {text}");
    }
    let list = run(&engine, "{listCommands: 1}").expect("works");
    let commands = list.as_doc().get("commands").and_then(Val::as_doc).expect("commands");
    assert!(commands.find("mapReduce").is_none());
}

#[test]
fn an_endless_function_ends_when_its_time_is_over() {
    let engine = engine(true);
    for (name, text) in endless() {
        let (code, message) = refusal(&engine, &format!("{text}, maxTimeMS: 50}}"));
        assert_eq!(code, 50, "{name}: {message}");
    }
}

#[test]
fn an_endless_function_ends_when_it_is_killed() {
    let engine = engine(true);
    for (name, text) in endless() {
        let text = format!("{text}, comment: 'endless'}}");
        std::thread::scope(|threads| {
            let (sender, ended) = mpsc::channel();
            let engine = &engine;
            threads.spawn(move || sender.send(refusal(engine, &text).0));
            let operation = loop {
                if let Some(operation) = running(engine) {
                    break operation;
                }
                assert!(ended.try_recv().is_err(), "{name}: ended before it was killed");
                std::thread::yield_now();
            };
            let kill = ejson::parse_doc(&format!("{{killOp: 1, op: {operation}}}"));
            engine.run_command("admin", kill.expect("a command").as_doc()).expect("kills");
            assert_eq!(ended.recv().expect("an end"), 11601, "{name}");
        });
    }
    let left = run(&engine, "{count: 'c', query: {v: {$exists: false}}}").expect("works");
    assert_eq!(left.as_doc().get("n"), Some(Val::Int32(2)), "nothing was written");
}

/// The operation that runs with a comment.
fn running(engine: &Engine) -> Option<i64> {
    let command = ejson::parse_doc("{currentOp: 1}").expect("a command");
    let reply = engine.run_command("admin", command.as_doc()).expect("works");
    let list = reply.as_doc().get("inprog").and_then(Val::as_array).expect("a list");
    let found = list.iter().filter_map(|(_, one)| one.as_doc()).find(|one| {
        let command = one.get("command").and_then(Val::as_doc);
        command.and_then(|command| command.get("comment")) == Some(Val::String("endless"))
    })?;
    found.get("opid").and_then(Val::as_i64_exact)
}

#[test]
fn memory_and_recursion_are_bounded() {
    let engine = engine(true);
    for body in [
        "function() { var a = []; while (true) a.push(new Array(1000).fill(1)) }",
        "function f() { return f() + 1 }",
        "function() { var s = 'x'; for (;;) s += s }",
    ] {
        let body = body.replace('\'', "\\'");
        let command = format!("{{find: 'c', filter: {{$where: '{body}'}}}}");
        let (code, message) = refusal(&engine, &command);
        assert_eq!(code, 139, "{body}: {message}");
        assert!(
            run(&engine, "{find: 'c', filter: {$where: 'true'}}").is_ok(),
            "the next one works"
        );
    }
}

#[test]
fn operations_do_not_see_the_variables_of_others() {
    let engine = engine(true);
    let set = "{find: 'c', filter: {$where: 'leak = 1; Array.prototype.leak = 1; true'}}";
    run(&engine, set).expect("works");
    let see = "{count: 'c', query: {$where: 'typeof leak != \"undefined\" || [].leak'}}";
    let found = run(&engine, see).expect("works");
    assert_eq!(found.as_doc().get("n"), Some(Val::Int32(0)));
}

#[test]
fn states_of_accumulators_survive_a_spill() {
    let engine = engine(true);
    for first in 0..20 {
        let docs: Vec<String> = (0..100)
            .map(|n| format!("{{k: {}, v: {n}, t: '{}'}}", first * 100 + n, "x".repeat(1000)))
            .collect();
        let insert = format!("{{insert: 'big', documents: [{}]}}", docs.join(", "));
        run(&engine, &insert).expect("works");
    }
    let parameter = |bytes: u64| {
        let text =
            format!("{{setParameter: 1, internalDocumentSourceGroupMaxMemoryBytes: {bytes}}}");
        engine
            .run_command("admin", ejson::parse_doc(&text).expect("text").as_doc())
            .expect("works");
    };
    let group = "{aggregate: 'big', cursor: {}, pipeline: [{$group: {_id: {$mod: ['$k', 500]}, v: {$accumulator: {
        init: 'function() { return {n: 0, t: \"\"} }',
        accumulate: 'function(s, v, t) { return {n: s.n + v, t: t} }', accumulateArgs: ['$v', '$t'],
        merge: 'function(a, b) { return {n: a.n + b.n, t: b.t} }',
        finalize: 'function(s) { return s.n }', lang: 'js'}}}}, {$sort: {_id: 1}}, {$group: {_id: null, all: {$push: '$v'}}}]}";
    let map_reduce = "{mapReduce: 'big', map: 'function() { emit(this.k % 500, {n: this.v, t: this.t}) }',
        reduce: 'function(k, v) { var n = 0; v.forEach(function(x) { n += x.n }); return {n: n, t: v[0].t} }',
        finalize: 'function(k, v) { return v.n }', out: 'sums'}";
    let sums = || {
        let groups = run(&engine, group).expect("works");
        run(&engine, map_reduce).expect("works");
        let find = "{find: 'sums', sort: {_id: 1}, batchSize: 1000}";
        let reduced = run(&engine, find).expect("works");
        let cursor = |reply: &DocBuf| {
            let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
            DocBuf::from(cursor.get("firstBatch").and_then(Val::as_array).expect("a batch"))
        };
        (cursor(&groups), cursor(&reduced))
    };
    let expected = sums();
    assert_eq!(expected.1.as_doc().count(), 500);
    parameter(100_000);
    assert_eq!(sums(), expected);
}
