//! A collection whose documents are stored by layouts and a plain one get the same operations, and all
//! replies, change events and reads of the past agree. The layouts are two that only tests declare:
//! `testApart` stores a field apart (one document, two records), `testChunks` puts neighbours into one
//! record (several documents, one record); together they form a stack.

mod harness;

use harness::{Dice, Server, batch, print, text, within};
use motifdb::value::{DocBuf, RawDoc, Val, ejson};

/// What is declared on the collection of the second server.
const LAYOUTS: [&str; 9] = [
    "{name: 'apart', kind: 'testApart', field: 'cold'}",
    "{name: 'chunks', kind: 'testChunks'}",
    "{name: 'apart', kind: 'testApart', field: 'cold'}, {name: 'chunks', kind: 'testChunks'}",
    "{name: 'cold', kind: 'subset', cold: ['cold', 'z'], inlineBelow: 1}",
    "{name: 'cold', kind: 'subset', cold: ['b.d', 'cold'], inlineBelow: 40}",
    "{name: 'cold', kind: 'subset', cold: ['tags', 'cold'], inlineBelow: 2}, {name: 'chunks', kind: 'testChunks'}",
    "{name: 'big', kind: 'outlier', read: 'full', array: 'cold', keep: 1, spillAt: {count: 2, bytes: 60}, unspillAt: {count: 1}, chunk: {count: 2}}",
    "{name: 'big', kind: 'outlier', read: 'full', array: 'tags', keep: 2, keepWhich: 'first', spillAt: {count: 3}, chunk: {count: 3}}",
    "{name: 'big', kind: 'outlier', read: 'full', array: 'cold', keep: 1, spillAt: {count: 1}}, {name: 'chunks', kind: 'testChunks'}",
];

/// A server with a plain collection, and one with the same documents in layouts.
struct Pair {
    plain: Server,
    laid: Server,
    layouts: &'static str,
    /// Moments of the past: their times on both servers, and what was there.
    moments: Vec<(u64, u64, String)>,
    /// Whether a layout was dropped.
    has_dropped: bool,
    /// Numbers of the transactions so far.
    transactions: i64,
    log: Vec<String>,
}

/// What a client sees of a reply, without times and identifiers that differ by chance.
fn seen(reply: RawDoc<'_>) -> String {
    let kept = DocBuf::build(|out| {
        for (name, value) in reply {
            match name {
                "operationTime" | "$clusterTime" => {}
                "cursor" => {
                    let cursor = value.as_doc().unwrap_or(RawDoc::empty());
                    out.doc("cursor", |out| {
                        for (name, value) in cursor {
                            if !matches!(name, "id" | "atClusterTime" | "postBatchResumeToken") {
                                out.raw(name, value);
                            }
                        }
                    });
                }
                _ => {
                    out.raw(name, value);
                }
            }
        }
    });
    print(kept.as_doc())
}

fn time(reply: &DocBuf) -> u64 {
    match reply.as_doc().get("operationTime") {
        Some(Val::Timestamp(time)) => time,
        other => panic!("no operation time: {other:?}"),
    }
}

fn outcome(server: &Server, db: &str, text: &str) -> String {
    let command = ejson::parse_doc(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    match server.0.run_command(db, command.as_doc()) {
        Ok(reply) => seen(reply.as_doc()),
        Err(error) => {
            let info = error.info().map(|info| print(info.as_doc()));
            format!("{} {error} {}", error.code().0, info.unwrap_or_default())
        }
    }
}

impl Pair {
    fn new(plain: Server, laid: Server, layouts: &'static str) -> Pair {
        Pair {
            plain,
            laid,
            layouts,
            moments: Vec::new(),
            has_dropped: false,
            transactions: 0,
            log: Vec::new(),
        }
    }

    fn declare(&mut self) {
        self.log.push("declare".to_owned());
        self.laid.run(&format!("{{createPatterns: 'c', patterns: [{}]}}", self.layouts));
    }

    /// Stores another field apart, if a field is.
    fn modify(&mut self) {
        self.log.push("modify".to_owned());
        self.has_dropped = true;
        if self.layouts.contains("testApart") {
            self.laid.run("{modifyPattern: 'c', name: 'apart', set: {field: 'a'}}");
            let declared = self.laid.docs("{listPatterns: 'c'}");
            assert!(declared.iter().any(|pattern| text(pattern, "declaration.field") == "a"));
        }
        if self.layouts.contains("subset") {
            self.laid.run("{modifyPattern: 'c', name: 'cold', set: {cold: ['a', 'cold', 'n']}}");
        }
        if self.layouts.contains("outlier") {
            self.laid.run("{modifyPattern: 'c', name: 'big', set: {array: 'a', keep: 1, keepWhich: 'first', spillAt: {count: 2}, chunk: {count: 1}}}");
        }
        self.laid.run("{suspendPatterns: 'c'}");
        self.run("{update: 'c', updates: [{q: {}, u: {$set: {cold: 'warm'}}}]}");
        self.laid.run("{resumePatterns: 'c'}");
    }

    fn undeclare(&mut self) {
        self.log.push("undeclare".to_owned());
        self.has_dropped = true;
        self.laid.run("{dropPatterns: 'c', names: '*'}");
    }

    /// Runs a command on both servers; the replies agree.
    fn run(&mut self, text: &str) -> String {
        self.run_in("t", text)
    }

    fn run_in(&mut self, db: &str, text: &str) -> String {
        self.log.push(text.to_owned());
        let (plain, laid) = (outcome(&self.plain, db, text), outcome(&self.laid, db, text));
        if plain != laid {
            let log = self.log.iter().rev().take(40).rev().cloned().collect::<Vec<_>>();
            panic!("{text}\nplain: {plain}\nlaid:  {laid}\nafter:\n{}", log.join("\n"));
        }
        plain
    }

    /// Remembers what is there now.
    fn remember(&mut self) {
        let all = "{find: 'c', sort: {_id: 1}, batchSize: 1000}";
        let (plain, laid) = (self.plain.run(all), self.laid.run(all));
        self.moments.push((time(&plain), time(&laid), seen(plain.as_doc())));
    }

    /// What was there is still read, by its time.
    fn recall(&self, dice: &mut Dice) {
        if self.moments.is_empty() {
            return;
        }
        let (plain, laid, was) = &self.moments[dice.below(self.moments.len() as u64) as usize];
        for (server, time) in [(&self.plain, plain), (&self.laid, laid)] {
            let (seconds, count) = (time >> 32, time & 0xFFFF_FFFF);
            let text = format!(
                "{{find: 'c', sort: {{_id: 1}}, batchSize: 1000, readConcern: {{level: 'snapshot', atClusterTime: Timestamp({seconds}, {count})}}}}"
            );
            let found = outcome(server, "t", &text);
            // 246: a pattern that was dropped since has taken its records along.
            let gone = self.has_dropped && found.starts_with("246 ");
            assert!(found == *was || gone, "{text}\nwas: {was}\nis:  {found}");
        }
    }

    /// Nothing contradicts anything, and the documents have the same bytes.
    fn check(&self) {
        let digest = |server: &Server| {
            let reply = server.run("{dbHash: 1, collections: ['c']}");
            let path = motifdb::value::path::Path::new("collections.c");
            path.get(reply.as_doc()).as_str().expect("a digest").to_owned()
        };
        assert_eq!(digest(&self.plain), digest(&self.laid));
        for server in [&self.plain, &self.laid] {
            let findings = server.0.check(&mut |_, _, _| {}).expect("can be read");
            assert_eq!(findings, Vec::<String>::new(), "{:?}", self.log.iter().rev().take(10));
        }
    }
}

fn id(dice: &mut Dice) -> String {
    match dice.below(10) {
        0 => format!("'k{}'", dice.below(8)),
        1 => format!("{}.5", dice.below(20)),
        2 => format!("{{x: {}, y: 1}}", dice.below(4)),
        _ => format!("{}", dice.below(50)),
    }
}

fn value(dice: &mut Dice) -> String {
    match dice.below(12) {
        0 => "null".to_owned(),
        1 => "[]".to_owned(),
        2 => format!("[{}, {}, 'x']", dice.below(9), dice.below(9)),
        3 => format!("{{c: {}, d: [{}, {{e: {}}}]}}", dice.below(5), dice.below(5), dice.below(5)),
        4 => format!("'{}'", dice.pick(&["red", "green", "blue"])),
        5 => format!("NumberLong({})", dice.below(9)),
        6 => format!("{}.0", dice.below(9)),
        7 => format!("'{}'", "long ".repeat(dice.below(60) as usize)),
        8 => "{$binary: {base64: 'YXBhcnQ=', subType: '80'}}".to_owned(),
        _ => format!("{}", dice.below(9)),
    }
}

fn document(dice: &mut Dice, with_id: Option<String>) -> String {
    let mut fields: Vec<String> = with_id.into_iter().map(|id| format!("_id: {id}")).collect();
    let mut names = vec!["a", "cold", "b", "tags", "z"];
    while !names.is_empty() {
        let name = names.remove(dice.below(names.len() as u64) as usize);
        if dice.below(4) > 0 {
            fields.push(format!("{name}: {}", value(dice)));
        }
    }
    if dice.below(3) == 0 {
        fields.push(format!("u: {}", dice.below(40)));
    }
    format!("{{{}}}", fields.join(", "))
}

fn filter(dice: &mut Dice) -> String {
    let n = dice.below(9);
    match dice.below(16) {
        0 => "{}".to_owned(),
        1 => format!("{{a: {n}}}"),
        2 => format!("{{cold: {}}}", value(dice)),
        3 => format!("{{cold: {{$gte: {n}}}}}"),
        4 => format!("{{a: {{$gt: {n}}}, cold: {{$exists: true}}}}"),
        5 => format!("{{'b.c': {n}}}"),
        6 => format!("{{tags: {{$elemMatch: {{$gte: {n}}}}}}}"),
        7 => format!("{{_id: {{$gte: {n}, $lt: {}}}}}", n + 20),
        8 => format!("{{_id: {{$in: [{n}, 'k{n}', {}]}}}}", n + 7),
        9 => format!("{{$or: [{{a: {n}}}, {{cold: {n}}}, {{u: {n}}}]}}"),
        10 => format!("{{u: {{$lt: {n}}}}}"),
        11 => "{cold: {$type: 'array'}}".to_owned(),
        12 => "{$expr: {$eq: ['$a', '$cold']}}".to_owned(),
        13 => "{cold: {$exists: false}}".to_owned(),
        14 => format!("{{'cold.d.e': {n}}}"),
        _ => format!("{{_id: {}}}", id(dice)),
    }
}

fn update(dice: &mut Dice) -> String {
    let (n, v) = (dice.below(9), value(dice));
    match dice.below(18) {
        0 => format!("{{$set: {{a: {v}}}}}"),
        1 => format!("{{$set: {{cold: {v}}}}}"),
        2 => "{$unset: {cold: 1}}".to_owned(),
        3 => format!("{{$inc: {{'n.x': {n}}}}}"),
        4 => format!("{{$push: {{tags: {v}}}}}"),
        5 => format!("{{$push: {{cold: {{$each: [{v}, {n}], $position: 0, $slice: 6}}}}}}"),
        6 => format!("{{$pull: {{cold: {n}}}}}"),
        7 => format!("{{$addToSet: {{tags: {{$each: [{n}, {v}]}}}}}}"),
        8 => "{$rename: {cold: 'z'}}".to_owned(),
        9 => "{$rename: {a: 'cold'}}".to_owned(),
        10 => format!("{{$min: {{cold: {n}}}, $max: {{a: {n}}}}}"),
        11 => format!("[{{$set: {{cold: ['$a', '$cold'], w: {n}}}}}, {{$unset: 'z'}}]"),
        12 => format!("{{$set: {{'cold.c': {v}, u: {}}}}}", dice.below(40)),
        13 => "{$pop: {cold: 1}}".to_owned(),
        14 => format!("{{$bit: {{a: {{xor: {n}}}}}}}"),
        15 => format!("{{$mul: {{cold: {n}}}}}"),
        16 => format!("{{$set: {{'cold.$[]': {n}}}}}"),
        _ => format!("[{{$replaceWith: {{$mergeObjects: ['$$ROOT', {{cold: '$_id', q: {n}}}]}}}}]"),
    }
}

fn indexes(dice: &mut Dice) -> &'static str {
    let all = [
        "{key: {a: 1}, name: 'a'}",
        "{key: {cold: 1}, name: 'cold'}",
        "{key: {cold: -1, a: 1}, name: 'cold_a'}",
        "{key: {'b.c': 1}, name: 'bc'}",
        "{key: {tags: 1}, name: 'tags'}",
        "{key: {u: 1}, name: 'u', unique: true, sparse: true}",
        "{key: {'$**': 1}, name: 'all'}",
        "{key: {cold: 'hashed'}, name: 'hash'}",
        "{key: {'cold.d.e': 1}, name: 'deep', partialFilterExpression: {a: {$gt: 2}}}",
        "{key: {cold: 'text'}, name: 'words'}",
    ];
    all[dice.below(all.len() as u64) as usize]
}

/// A command that reads, without its end.
fn query(dice: &mut Dice) -> String {
    let f = filter(dice);
    let sort = dice.pick(&["{}", "{_id: 1}", "{_id: -1}", "{a: 1, _id: 1}", "{cold: -1, _id: 1}"]);
    let fields = dice.pick(&[
        "{}",
        "{a: 1}",
        "{cold: 1, _id: 0}",
        "{a: 1, cold: 1}",
        "{cold: 0}",
        "{x: '$cold', a: 1}",
        "{x: {$size: {$ifNull: ['$tags', []]}}}",
        "{cold: {$slice: 1}}",
        "{'cold.c': 1}",
        "{'b.c': 1, u: 1}",
    ]);
    let (skip, limit) = (dice.below(4), dice.below(12));
    match dice.below(20) {
        0..6 => format!(
            "find: 'c', filter: {f}, sort: {sort}, projection: {fields}, skip: {skip}, limit: {limit}, batchSize: 1000"
        ),
        6 => format!("find: 'c', filter: {f}, hint: {{_id: 1}}, projection: {fields}, batchSize: 1000"),
        7 => format!("find: 'c', filter: {f}, hint: {{$natural: -1}}, batchSize: 1000"),
        8 => format!("find: 'c', filter: {{_id: {}}}", id(dice)),
        9 => format!("count: 'c', query: {f}"),
        10 => "count: 'c'".to_owned(),
        11 => format!("distinct: 'c', key: '{}', query: {f}", dice.pick(&["a", "cold", "_id", "cold.c"])),
        12 => {
            let group = dice.pick(&[
                "{_id: '$a', n: {$sum: 1}, all: {$push: '$_id'}}",
                "{_id: '$cold', n: {$sum: 1}}",
                "{_id: null, n: {$sum: '$u'}, least: {$min: '$cold'}, most: {$max: '$_id'}}",
                "{_id: {$type: '$cold'}, first: {$first: '$$ROOT'}}",
            ]);
            format!(
                "aggregate: 'c', pipeline: [{{$match: {f}}}, {{$sort: {{_id: 1}}}}, {{$group: {group}}}, {{$sort: {{_id: 1}}}}], cursor: {{batchSize: 1000}}"
            )
        }
        13 => format!(
            "aggregate: 'c', pipeline: [{{$match: {f}}}, {{$unwind: '$cold'}}, {{$sort: {{_id: 1, cold: 1}}}}], cursor: {{batchSize: 1000}}"
        ),
        14 => {
            let on = dice.pick(&["_id", "cold", "u"]);
            format!(
                "aggregate: 'c', pipeline: [{{$match: {f}}}, {{$sort: {{_id: 1}}}}, {{$limit: 9}}, {{$lookup: {{from: 'c', localField: 'a', foreignField: '{on}', as: 'found'}}}}], cursor: {{batchSize: 1000}}"
            )
        }
        15 => format!(
            "aggregate: 'c', pipeline: [{{$sort: {{cold: 1, _id: -1}}}}, {{$skip: {skip}}}, {{$project: {{cold: 1, s: {{$isArray: '$tags'}}}}}}], cursor: {{batchSize: 1000}}"
        ),
        16 => format!("aggregate: 'c', pipeline: [{{$match: {f}}}, {{$count: 'n'}}], cursor: {{}}"),
        17 => "aggregate: 'c', pipeline: [{$facet: {a: [{$sortByCount: '$a'}, {$sort: {count: -1, _id: 1}}], c: [{$match: {cold: {$exists: true}}}, {$count: 'n'}]}}], cursor: {}".to_owned(),
        18 => "aggregate: 'c', pipeline: [{$group: {_id: null, n: {$sum: 1}}}], cursor: {}".to_owned(),
        _ => format!(
            "aggregate: 'c', pipeline: [{{$match: {f}}}, {{$graphLookup: {{from: 'c', startWith: '$a', connectFromField: 'a', connectToField: '_id', as: 'g', maxDepth: 2}}}}, {{$project: {{n: {{$size: '$g'}}}}}}, {{$sort: {{_id: 1}}}}], cursor: {{batchSize: 1000}}"
        ),
    }
}

/// A command that writes, without its end.
fn write(dice: &mut Dice) -> String {
    match dice.below(14) {
        0..4 => {
            let docs: Vec<String> = (0..=dice.below(5))
                .map(|_| {
                    let id = id(dice);
                    document(dice, Some(id))
                })
                .collect();
            let ordered = dice.below(2) == 0;
            format!("insert: 'c', documents: [{}], ordered: {ordered}", docs.join(", "))
        }
        4..7 => {
            let (f, u, multi) = (filter(dice), update(dice), dice.below(2) == 0);
            format!("update: 'c', updates: [{{q: {f}, u: {u}, multi: {multi}}}]")
        }
        7 => {
            let (id, u) = (id(dice), update(dice));
            format!("update: 'c', updates: [{{q: {{_id: {id}}}, u: {u}, upsert: true}}]")
        }
        8 => {
            let (f, doc) = (id(dice), document(dice, None));
            format!("update: 'c', updates: [{{q: {{_id: {f}}}, u: {doc}, upsert: true}}]")
        }
        9 => {
            let (f, limit) = (filter(dice), dice.below(4).min(1));
            format!("delete: 'c', deletes: [{{q: {f}, limit: {limit}}}]")
        }
        10 => {
            let (f, u, new) = (filter(dice), update(dice), dice.below(2) == 0);
            let fields = dice.pick(&["{}", "{cold: 1}", "{a: 1}"]);
            format!(
                "findAndModify: 'c', query: {f}, sort: {{_id: 1}}, update: {u}, new: {new}, fields: {fields}"
            )
        }
        11 => {
            let f = filter(dice);
            format!("findAndModify: 'c', query: {f}, sort: {{cold: 1, _id: 1}}, remove: true")
        }
        12 => {
            let (one, two) = (filter(dice), filter(dice));
            let (u, v) = (update(dice), update(dice));
            format!(
                "update: 'c', updates: [{{q: {one}, u: {u}, multi: true}}, {{q: {two}, u: {v}}}], ordered: false"
            )
        }
        _ => {
            let id = id(dice);
            format!("delete: 'c', deletes: [{{q: {{_id: {id}}}, limit: 1}}]")
        }
    }
}

fn step(pair: &mut Pair, dice: &mut Dice) {
    match dice.below(30) {
        0 => {
            let index = indexes(dice);
            pair.run(&format!("{{createIndexes: 'c', indexes: [{index}]}}"));
        }
        1 => {
            let name = dice
                .pick(&["a", "cold", "cold_a", "bc", "tags", "u", "all", "hash", "deep", "words"]);
            pair.run(&format!("{{dropIndexes: 'c', index: '{name}'}}"));
        }
        2 => transaction(pair, dice),
        3 => pair.remember(),
        4 => pair.recall(dice),
        5 => {
            let f = filter(dice);
            pair.run(&format!(
                "{{aggregate: 'c', pipeline: [{{$match: {f}}}, {{$set: {{merged: '$cold'}}}}, {{$merge: {{into: 'c', whenMatched: 'merge', whenNotMatched: 'discard'}}}}], cursor: {{}}}}"
            ));
        }
        6 => {
            pair.run("{count: 'c', query: {cold: {$ne: null}}}");
        }
        7..18 => {
            let text = write(dice);
            pair.run(&format!("{{{text}}}"));
        }
        _ => {
            let text = query(dice);
            pair.run(&format!("{{{text}}}"));
        }
    }
}

/// Some statements in one transaction, which then commits or is given up.
fn transaction(pair: &mut Pair, dice: &mut Dice) {
    pair.transactions += 1;
    let number = pair.transactions;
    for at in 0..=dice.below(5) {
        let text = if dice.below(3) == 0 { query(dice) } else { write(dice) };
        let reply = pair.run(&format!("{{{text}{}}}", within(1, number, at == 0)));
        // Such a failure ends the transaction.
        if !reply.starts_with('{') || reply.contains("writeErrors") {
            break;
        }
    }
    let verb = if dice.below(3) == 0 { "abortTransaction" } else { "commitTransaction" };
    pair.run_in("admin", &format!("{{{verb}: 1{}}}", within(1, number, false)));
}

/// Opens a change stream on both servers; the cursors.
fn watch(pair: &Pair) -> [i64; 2] {
    [&pair.plain, &pair.laid].map(|server| {
        let reply = server.run("{aggregate: 'c', pipeline: [{$changeStream: {fullDocument: 'whenAvailable', fullDocumentBeforeChange: 'whenAvailable'}}], cursor: {}}");
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        cursor.get("id").and_then(Val::as_i64_exact).expect("an open cursor")
    })
}

/// The events since, without what differs by chance.
fn events(server: &Server, cursor: i64) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let reply = server
            .run(&format!("{{getMore: NumberLong({cursor}), collection: 'c', maxTimeMS: 1}}"));
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        let batch = cursor.get("nextBatch").and_then(Val::as_array).expect("a batch");
        if batch.is_empty() {
            return found;
        }
        for (_, event) in batch {
            let event = event.as_doc().expect("an event");
            let kept = DocBuf::build(|out| {
                for (name, value) in event {
                    if !matches!(name, "_id" | "clusterTime" | "wallTime" | "lsid" | "txnNumber") {
                        out.raw(name, value);
                    }
                }
            });
            found.push(print(kept.as_doc()));
        }
    }
}

fn same_events([plain, laid]: &[Vec<String>; 2]) {
    for (plain, laid) in plain.iter().zip(laid) {
        assert_eq!(plain, laid);
    }
    assert_eq!(plain.len(), laid.len());
}

fn differential(mut pair: Pair, seed: u64, steps: u64) -> Pair {
    let mut dice = Dice(seed);
    // With images, updates never write documents that they read in part.
    let parts = pair.layouts.contains("subset") || pair.layouts.contains("outlier");
    let images = !parts || seed % 2 == 1;
    pair.run(&format!("{{create: 'c', changeStreamPreAndPostImages: {{enabled: {images}}}}}"));
    let cursors = watch(&pair);
    // Before the first document, or over those that are there.
    let declared_at = dice.below(3) * steps / 4;
    for at in 0..steps {
        if at == declared_at {
            pair.declare();
        }
        step(&mut pair, &mut dice);
        if at % 50 == 49 {
            pair.run("{find: 'c', batchSize: 1000}");
            pair.check();
        }
    }
    pair.recall(&mut dice);
    let events_of_both = [events(&pair.plain, cursors[0]), events(&pair.laid, cursors[1])];
    assert!(!events_of_both[0].is_empty());
    same_events(&events_of_both);
    pair.run("{find: 'c', sort: {_id: -1}, batchSize: 1000}");
    pair.check();
    pair
}

fn steps() -> u64 {
    std::env::var("LAYOUT_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

fn seeds() -> u64 {
    std::env::var("LAYOUT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

#[test]
fn a_field_that_is_stored_apart_is_not_noticed() {
    for seed in 0..seeds() {
        differential(Pair::new(Server::new(), Server::new(), LAYOUTS[0]), seed, steps());
    }
}

#[test]
fn documents_that_share_a_record_are_not_noticed() {
    for seed in 0..seeds() {
        differential(Pair::new(Server::new(), Server::new(), LAYOUTS[1]), 1000 + seed, steps());
    }
}

#[test]
fn a_stack_of_layouts_is_not_noticed() {
    for seed in 0..seeds() {
        differential(Pair::new(Server::new(), Server::new(), LAYOUTS[2]), 2000 + seed, steps());
    }
}

#[test]
fn cold_fields_are_not_noticed() {
    for seed in 0..seeds() {
        for (at, layouts) in LAYOUTS.into_iter().enumerate().skip(3).take(3) {
            let seed = 4000 + 100 * at as u64 + seed;
            differential(Pair::new(Server::new(), Server::new(), layouts), seed, steps());
        }
    }
}

#[test]
fn arrays_in_chunks_are_not_noticed() {
    for seed in 0..seeds() {
        for (at, layouts) in LAYOUTS.into_iter().enumerate().skip(6) {
            let seed = 5000 + 100 * at as u64 + seed;
            differential(Pair::new(Server::new(), Server::new(), layouts), seed, steps());
        }
    }
}

#[test]
fn layouts_come_and_go_beside_writes() {
    for (at, layouts) in LAYOUTS.into_iter().enumerate() {
        let mut pair = Pair::new(Server::new(), Server::new(), layouts);
        let mut dice = Dice(77 + at as u64);
        pair.run("{create: 'c', changeStreamPreAndPostImages: {enabled: true}}");
        let cursors = watch(&pair);
        for round in 0..9 {
            for _ in 0..40 {
                step(&mut pair, &mut dice);
            }
            match round % 3 {
                0 => pair.declare(),
                1 => pair.modify(),
                _ => pair.undeclare(),
            }
            // Whatever form the documents have by now.
            pair.run("{find: 'c', batchSize: 1000}");
        }
        same_events(&[events(&pair.plain, cursors[0]), events(&pair.laid, cursors[1])]);
        pair.check();
    }
}

#[test]
fn layouts_outlive_the_process() {
    for (at, layouts) in LAYOUTS.into_iter().enumerate() {
        let folders =
            [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
        let open = || folders.each_ref().map(|folder| Server::on(folder.path()));
        let [plain, laid] = open();
        let seed = 3000 + at as u64;
        let pair = differential(Pair::new(plain, laid, layouts), seed, steps() / 3);
        pair.plain.close();
        pair.laid.close();
        let [plain, laid] = open();
        let mut pair = Pair::new(plain, laid, layouts);
        // Sessions are known again, with their numbers.
        pair.transactions = 10_000;
        let mut dice = Dice(seed + 1);
        pair.run("{find: 'c', batchSize: 1000}");
        for _ in 0..steps() / 3 {
            step(&mut pair, &mut dice);
        }
        pair.run("{find: 'c', sort: {_id: -1}, batchSize: 1000}");
        pair.check();
    }
}

#[test]
fn two_open_transactions_write_to_one_record() {
    let server = Server::new();
    server.run("{create: 'c'}");
    server.run("{createPatterns: 'c', patterns: [{name: 'chunks', kind: 'testChunks'}]}");
    server.run("{insert: 'c', documents: [{_id: 1}, {_id: 3}]}");
    server.run(&format!("{{insert: 'c', documents: [{{_id: 2}}]{}}}", within(1, 1, true)));
    server.run(&format!("{{insert: 'c', documents: [{{_id: 4}}]{}}}", within(2, 1, true)));
    assert_eq!(server.end("commitTransaction", 1, 1), 0);
    assert_eq!(server.end("commitTransaction", 2, 1), 0);
    let ids: Vec<String> = server.find("c", "{}");
    assert_eq!(ids.len(), 4, "{ids:?}");
    server.verify("c");
}

#[test]
fn what_a_layout_leaves_behind_is_found() {
    let server = Server::new();
    server.run("{create: 'c'}");
    server.run(&format!("{{createPatterns: 'c', patterns: [{}]}}", LAYOUTS[2]));
    server.run("{insert: 'c', documents: [{_id: 1, cold: 'x'}, {_id: 2, cold: 'y'}, {_id: 3}]}");
    let reply = server.run("{validate: 'c'}");
    assert_eq!(reply.as_doc().get("valid"), Some(Val::Bool(true)), "{reply:?}");
    assert_eq!(reply.as_doc().get("nrecords").and_then(Val::as_i64_exact), Some(3));
    server.run("{delete: 'c', deletes: [{q: {_id: 1}, limit: 1}]}");
    server.verify("c");
    let found = server.docs("{find: 'c', sort: {_id: 1}}");
    assert_eq!(found.len(), 2);
    assert_eq!(batch(&server.run("{find: 'c', filter: {cold: 'y'}}")).len(), 1);
}

#[test]
fn what_nobody_reads_is_not_loaded() {
    let server = Server::new();
    server.run("{create: 'c'}");
    server.run("{createPatterns: 'c', patterns: [{name: 'apart', kind: 'testApart', field: 'rare'}, {name: 'chunks', kind: 'testChunks'}]}");
    server.run("{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}");
    let docs: Vec<String> =
        (0..20).map(|n| format!("{{_id: {n}, a: {n}, rare: 'r{n}', b: 1}}")).collect();
    server.run(&format!("{{insert: 'c', documents: [{}]}}", docs.join(", ")));
    let loaded = |text: &str| {
        let before = patterns::kinds::for_tests::values_read("rare");
        let found = server.docs(text);
        (found.len(), patterns::kinds::for_tests::values_read("rare") - before)
    };
    assert_eq!(loaded("{find: 'c'}"), (20, 20));
    assert_eq!(loaded("{find: 'c', projection: {a: 1, b: 1}}"), (20, 0));
    assert_eq!(loaded("{find: 'c', filter: {b: 1}, sort: {b: -1}, projection: {a: 1}}"), (20, 0));
    assert_eq!(loaded("{find: 'c', filter: {a: {$lt: 5}}, projection: {b: 1}}"), (5, 0));
    assert_eq!(loaded("{find: 'c', filter: {a: {$lt: 5}}}"), (5, 5));
    assert_eq!(loaded("{find: 'c', filter: {rare: 'r7'}, projection: {a: 1}}"), (1, 20));
    assert_eq!(loaded("{find: 'c', sort: {rare: 1}, projection: {a: 1}}"), (20, 20));
    assert_eq!(loaded("{find: 'c', projection: {x: '$rare'}}"), (20, 20));
    let groups = "{aggregate: 'c', pipeline: [{$match: {b: 1}}, {$group: {_id: '$b', n: {$sum: '$a'}}}], cursor: {}}";
    assert_eq!(loaded(groups), (1, 0));
    assert_eq!(loaded(&groups.replace("$sum: '$a'", "$max: '$rare'")), (1, 20));
}
