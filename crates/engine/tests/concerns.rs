//! What was set for commands that name no concern outlives the process.

use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use motifdb::{Engine, Options, Storage};

fn run(engine: &Engine, command: &str) -> motifdb::Result<DocBuf> {
    engine.run_command("admin", ejson::parse_doc(command).expect("test text").as_doc())
}

fn text<'a>(reply: &'a DocBuf, path: &[&str]) -> Option<&'a str> {
    let (last, steps) = path.split_last()?;
    let mut doc: RawDoc<'a> = reply.as_doc();
    for step in steps {
        doc = doc.get(step).and_then(Val::as_doc)?;
    }
    doc.get(last).and_then(Val::as_str)
}

#[test]
fn default_concerns_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || {
        let storage = Storage::Disk(folder.path().to_owned());
        Engine::open(Options { storage, ..Options::default() }).expect("opens")
    };
    let engine = open();
    let before = run(&engine, "{getDefaultRWConcern: 1}").expect("tells");
    assert_eq!(text(&before, &["defaultReadConcernSource"]), Some("implicit"));
    run(&engine, "{setDefaultRWConcern: 1, defaultReadConcern: {level: 'majority'}}")
        .expect("sets");
    let set = "{setDefaultRWConcern: 1, defaultWriteConcern: {w: 1, j: false}}";
    run(&engine, set).expect("sets");
    engine
        .run_command(
            "t",
            ejson::parse_doc("{insert: 'c', documents: [{_id: 1}]}").expect("text").as_doc(),
        )
        .expect("writes");
    let unset = run(&engine, "{setDefaultRWConcern: 1, defaultWriteConcern: {}}");
    assert_eq!(unset.expect_err("stays").code().0, 20);
    let unsatisfiable = run(&engine, "{setDefaultRWConcern: 1, defaultWriteConcern: {w: 3}}");
    assert_eq!(unsatisfiable.expect_err("there is one server").code().0, 100);
    engine.close().expect("closes");
    drop(engine);

    let engine = open();
    let after = run(&engine, "{getDefaultRWConcern: 1}").expect("tells");
    assert_eq!(text(&after, &["defaultReadConcern", "level"]), Some("majority"));
    assert_eq!(text(&after, &["defaultReadConcernSource"]), Some("global"));
    assert_eq!(text(&after, &["defaultWriteConcernSource"]), Some("global"));
    let written = after.as_doc().get("defaultWriteConcern").and_then(Val::as_doc).expect("is set");
    assert_eq!(written.get("w"), Some(Val::Int32(1)));
    assert_eq!(written.get("j"), Some(Val::Bool(false)));
    let forgotten = "{setDefaultRWConcern: 1, defaultReadConcern: {}}";
    let forgotten = run(&engine, forgotten).expect("forgets");
    assert_eq!(text(&forgotten, &["defaultReadConcernSource"]), Some("implicit"));
    let found = engine.run_command("t", ejson::parse_doc("{count: 'c'}").expect("text").as_doc());
    assert_eq!(found.expect("counts").as_doc().get("n"), Some(Val::Int32(1)));
}
