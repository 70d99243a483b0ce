//! `createIndexes`: builds indexes while writes continue.

use super::row::{Required, StableApi, Transactions};
use super::{Command, Context, stable_api};
use crate::index::{build, spec};
use crate::namespace;
use ::access::Action;
use value::{Code, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "createIndexes",
    help: "Builds indexes of a collection.",
    fields: Some(&[
        "createIndexes",
        "indexes",
        "commitQuorum",
        "ignoreUnknownIndexOptions",
        "v",
        "returnOnStart",
        "isTimeseriesNamespace",
        "collectionUUID",
    ]),
    privilege: Required::Collection(&[Action::CreateIndex]),
    transactions: Transactions::Allowed,
    stable_api: StableApi::Checked(check_stable_indexes),
    run,
    ..Command::BASE
};

/// Text indexes are not in version 1 of the stable API.
fn check_stable_indexes(body: RawDoc<'_>) -> Result<()> {
    stable_api::refuse_fields(body, "createIndexes", &["collectionUUID"])?;
    for (_, index) in body.get("indexes").and_then(Val::as_array).unwrap_or(RawDoc::empty()) {
        let key = index.as_doc().and_then(|index| index.get("key")).and_then(Val::as_doc);
        if key.is_some_and(|key| key.iter().any(|(_, kind)| kind.get().as_str() == Some("text"))) {
            return stable_api::refuse("text indexes cannot be created with apiStrict: true");
        }
    }
    Ok(())
}

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let args = &context.args;
    if context.op.is_in_transaction() {
        super::in_transaction::refuse_snapshot(args)?;
    }
    let ignore_unknown = args.bool("ignoreUnknownIndexOptions")?;
    let concern = context.write_concern()?;
    let list = args.optional_array("indexes")?.ok_or_else(|| args.missing("indexes"))?;
    let mut specs = Vec::new();
    for (at, given) in list {
        let Val::Document(given) = given.get() else {
            return Err(args.wrong_type(&format!("indexes.{at}"), given.get(), "object"));
        };
        let spec = spec::parse(given, ignore_unknown)?;
        spec::check_lone_id(&spec)?;
        specs.push(spec);
    }
    if specs.is_empty() {
        return Err(Error::bad_value("Must specify at least one index to create"));
    }
    let quorum = args.get("commitQuorum").unwrap_or(Val::String("votingMembers"));
    check_quorum(quorum)?;
    super::query::writable(&context.catalog(), context.db, name)?;
    namespace::check_written(context.db, name)?;
    if (context.db, name) == ("config", "transactions") {
        return Err(Error::new(
            Code::ILLEGAL_OPERATION,
            "not allowed to create index on config.transactions",
        ));
    }
    for spec in specs.iter().map(|spec| spec.doc.as_doc()) {
        if name.starts_with("system.") && spec.get("hidden").is_some_and(Val::truthy) {
            return Err(Error::bad_value("can't hide index on system collection"));
        }
        if spec.get("name").and_then(Val::as_str).is_some_and(|name| name.contains('\0')) {
            return Err(Error::new(
                Code::CANNOT_CREATE_INDEX,
                "index name cannot contain NUL bytes",
            ));
        }
    }
    super::collection_uuid::check(context, name)?;
    let done = build::create(&context.engine.data, context.op, context.db, name, &specs)?;
    // A clustered index is not counted.
    let catalog = context.catalog();
    let found = catalog.get(context.db, name);
    let clustered = found.is_some_and(|c| c.indexes.iter().any(|index| index.is_named_clustered()));
    let counted = |number: usize| (number - usize::from(clustered && number > 0)) as u64;
    out.count("numIndexesBefore", counted(done.before));
    out.count("numIndexesAfter", counted(done.after));
    if done.existed < specs.len() || done.created_collection {
        out.bool("createdCollectionAutomatically", done.created_collection);
        out.append("commitQuorum", quorum);
    }
    match done.existed {
        0 => {}
        all if all == specs.len() => {
            out.str("note", "all indexes already exist");
        }
        _ => {
            out.str("note", "index already exists");
        }
    }
    concern.write_error(out);
    Ok(())
}

/// Reads `commitQuorum`: how many members must be ready. A set here has one member.
pub(super) fn check_quorum(quorum: Val<'_>) -> Result<()> {
    match quorum {
        Val::String("votingMembers" | "majority") => Ok(()),
        Val::String(tag) => Err(Error::new(
            Code::UNKNOWN_REPL_WRITE_CONCERN,
            format!("No commit quorum mode named '{tag}' found in replica set configuration"),
        )),
        number if number.is_number() => match number.as_f64() {
            Some(n) if (0.0..2.0).contains(&n) => Ok(()),
            _ => Err(Error::new(
                Code::UNSATISFIABLE_COMMIT_QUORUM,
                "Not enough data-bearing nodes to satisfy the commit quorum",
            )),
        },
        _ => Err(Error::failed_to_parse("commitQuorum has to be a number or a string")),
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use value::{Val, ejson};

    fn reply(engine: &Engine, text: &str) -> value::Result<value::DocBuf> {
        let command = ejson::parse_doc(text).expect("test text");
        engine.run_command("t", command.as_doc())
    }

    fn code(engine: &Engine, text: &str) -> i32 {
        reply(engine, text).map_or_else(|error| error.code().0, |_| 0)
    }

    #[test]
    fn what_exists_is_not_built_again() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let a = "{createIndexes: 'i', indexes: [{key: {a: 1}, name: 'a_1'}]}";
        let first = reply(&engine, a).expect("works");
        assert_eq!(first.as_doc().get("numIndexesAfter"), Some(Val::Int32(2)));
        assert_eq!(first.as_doc().get("createdCollectionAutomatically"), Some(Val::Bool(true)));
        let again = reply(&engine, a).expect("works");
        assert_eq!(again.as_doc().get("note"), Some(Val::String("all indexes already exist")));
        for (spec, expected) in [
            ("{key: {a: 1}, name: 'other'}", 85),
            ("{key: {b: 1}, name: 'a_1'}", 86),
            ("{key: {a: 1}, name: 'a_1', unique: true}", 86),
            ("{key: {_id: 1}, name: 'foo'}", 0),
            ("{key: {_id: -1}, name: 'foo'}", 2),
            ("{key: {h: 1}, name: 'h'}, {key: {h: 1}, name: 'h'}", 68),
            ("{key: {h: 1}, name: 'h'}, {key: {h: 1}, name: 'h2'}", 85),
        ] {
            let text = format!("{{createIndexes: 'i', indexes: [{spec}]}}");
            assert_eq!(code(&engine, &text), expected, "{spec}");
        }
    }

    #[test]
    fn a_failed_build_leaves_nothing() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        reply(
            &engine,
            "{insert: 'd', documents: [{_id: 1, a: 1}, {_id: 2, a: 1}, {_id: 3, a: [1], b: [1]}]}",
        )
        .expect("works");
        let unique = "{createIndexes: 'd', indexes: [{key: {c: 1}, name: 'c'}, {key: {a: 1}, name: 'ua', unique: true}]}";
        let error = reply(&engine, unique).expect_err("has duplicates");
        assert_eq!(error.code().0, 11000);
        assert!(error.message().contains("index: ua dup key: { a: 1 }"), "{error}");
        let parallel = "{createIndexes: 'd', indexes: [{key: {a: 1, b: 1}, name: 'ab'}]}";
        assert_eq!(code(&engine, parallel), 171);
        let collection = engine.inner().data.collection("t", "d").expect("is there");
        assert_eq!(collection.indexes.len(), 1);
        assert!(engine.check(&mut |_, _, _| {}).expect("can be read").is_empty());
    }

    #[test]
    fn sixty_four_indexes_are_enough() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        for n in 1..64 {
            let text =
                format!("{{createIndexes: 'm', indexes: [{{key: {{f{n}: 1}}, name: 'f{n}'}}]}}");
            assert_eq!(code(&engine, &text), 0);
        }
        assert_eq!(code(&engine, "{createIndexes: 'm', indexes: [{key: {z: 1}, name: 'z'}]}"), 67);
    }

    #[test]
    fn writes_go_on_while_an_index_is_built() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        for from in 0..20 {
            let documents: Vec<String> =
                (0..500).map(|n| format!("{{_id: {}, a: {n}}}", from * 500 + n)).collect();
            let text = format!("{{insert: 'w', documents: [{}]}}", documents.join(","));
            reply(&engine, &text).expect("works");
        }
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (engine, stop) = (&engine, &stop);
                scope.spawn(move || {
                    let mut n: usize = writer;
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        n = (n * 7919 + 13) % 10_000;
                        let texts = [
                            format!("{{update: 'w', updates: [{{q: {{_id: {n}}}, u: {{$inc: {{a: 1000}}}}}}]}}"),
                            format!("{{delete: 'w', deletes: [{{q: {{_id: {}}}, limit: 1}}]}}", n / 3),
                            format!("{{insert: 'w', documents: [{{a: [{n}, 1]}}]}}"),
                        ];
                        for text in texts {
                            reply(engine, &text).expect("works");
                        }
                    }
                });
            }
            let build = "{createIndexes: 'w', indexes: [{key: {a: 1}, name: 'a'}, {key: {a: -1, _id: 1}, name: 'b'}]}";
            let built = reply(&engine, build);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            built.expect("works");
        });
        assert_eq!(engine.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
    }
}
