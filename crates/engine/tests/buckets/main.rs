//! A collection whose points are stored in buckets and a plain one get the same operations, and all
//! replies and change events agree.

#[path = "../harness/mod.rs"]
mod harness;
mod scenarios;

use harness::{Dice, Server, print, within};
use motifdb::value::{DocBuf, RawDoc, Val, ejson};

/// What is declared on the collection of the second server.
const BUCKETS: [&str; 5] = [
    "{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: '1h'}",
    "{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: '1h', maxCount: 5, rollup: {fields: {v: ['min', 'max', 'sum', 'count'], w: ['sum']}, levels: ['30m', '1h', '1d']}}",
    "{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: {count: 4}, rollup: {fields: {v: ['min', 'max', 'sum']}, levels: ['1h']}}",
    "{name: 'b', kind: 'bucket', key: [], time: 'm.at', span: {bytes: 700}}",
    "{name: 'a', kind: 'testApart', field: 'w'}, {name: 'b', kind: 'bucket', key: ['s', 'm.k'], time: 'ts', span: '1d', maxBytes: 900}",
];

struct Pair {
    plain: Server,
    laid: Server,
    transactions: i64,
    log: Vec<String>,
}

/// What a client sees of a reply, without times and identifiers that differ by chance.
fn seen(reply: RawDoc<'_>, sorted: bool) -> String {
    let mut lines = Vec::new();
    for (name, value) in reply {
        match name {
            "operationTime" | "$clusterTime" => {}
            "cursor" => {
                let cursor = value.as_doc().unwrap_or(RawDoc::empty());
                let docs = cursor.get("firstBatch").and_then(Val::as_array);
                let mut docs: Vec<String> = docs
                    .unwrap_or(RawDoc::empty())
                    .iter()
                    .map(|(_, doc)| print(doc.as_doc().expect("a document")))
                    .collect();
                if !sorted {
                    docs.sort();
                }
                lines.extend(docs);
            }
            "values" if !sorted => {
                let values = value.as_array().expect("values");
                // Of equal numbers of several types the first one met is returned.
                let one = |value: Val<'_>| match value.as_f64() {
                    Some(number) => format!("{number}"),
                    None => format!("{value:?}"),
                };
                let mut values: Vec<String> =
                    values.iter().map(|(_, value)| one(value.get())).collect();
                values.sort();
                lines.extend(values);
            }
            _ => lines.push(format!("{name}: {:?}", value.get())),
        }
    }
    lines.join("\n")
}

fn outcome(server: &Server, db: &str, text: &str) -> String {
    let command = ejson::parse_doc(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    match server.0.run_command(db, command.as_doc()) {
        Ok(reply) => seen(reply.as_doc(), text.contains("$sort") || text.contains("sort: {")),
        Err(error) => format!("{} {error}", error.code().0),
    }
}

impl Pair {
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

    fn declare(&mut self, buckets: &str) {
        self.log.push("declare".to_owned());
        self.laid.run(&format!("{{createPatterns: 'c', patterns: [{buckets}]}}"));
    }

    /// Nothing contradicts anything, and the documents have the same bytes.
    fn check(&self) {
        let digest = |server: &Server| {
            let reply = server.run("{dbHash: 1, collections: ['c']}");
            let path = motifdb::value::path::Path::new("collections.c");
            path.get(reply.as_doc()).as_str().expect("a digest").to_owned()
        };
        for server in [&self.plain, &self.laid] {
            let findings = server.0.check(&mut |_, _, _| {}).expect("can be read");
            assert_eq!(findings, Vec::<String>::new(), "{:?}", self.log.iter().rev().take(10));
        }
        assert_eq!(digest(&self.plain), digest(&self.laid), "{:?}", self.log.iter().rev().take(9));
    }
}

fn id(dice: &mut Dice) -> String {
    match dice.below(12) {
        0 => format!("'k{}'", dice.below(8)),
        1 => format!("{{x: {}, y: 1}}", dice.below(4)),
        2 => format!("{}.5", dice.below(20)),
        3..6 => format!("{{$oid: '507f1f77bcf86cd7994390{:02x}'}}", dice.below(60)),
        _ => format!("{}", dice.below(80)),
    }
}

fn time(dice: &mut Dice) -> String {
    match dice.below(14) {
        0 => "'no date'".to_owned(),
        1 => "null".to_owned(),
        2 => "Timestamp(5, 1)".to_owned(),
        3 => format!("{{$date: {{$numberLong: '{}'}}}}", -(dice.below(90_000_000) as i64)),
        _ => format!("{{$date: {{$numberLong: '{}'}}}}", dice.below(40) * 600_000),
    }
}

fn series(dice: &mut Dice) -> String {
    match dice.below(12) {
        0 => "null".to_owned(),
        1 => "[1, 2]".to_owned(),
        2 => "{a: 1, b: 2}".to_owned(),
        3 => "{b: 2, a: 1}".to_owned(),
        4 => "1.0".to_owned(),
        n => format!("{}", n % 3),
    }
}

fn value(dice: &mut Dice) -> String {
    match dice.below(12) {
        0 => "null".to_owned(),
        1 => format!("[{}, {}]", dice.below(9), dice.below(9)),
        2 => "'text'".to_owned(),
        3 => format!("NumberLong({})", dice.below(9)),
        4 => "NumberDecimal('2.50')".to_owned(),
        5 => format!("{{c: {}, d: [{}]}}", dice.below(5), dice.below(5)),
        6 => format!("{}", dice.below(90)),
        _ => format!("{}.{}", dice.below(40), dice.below(100)),
    }
}

fn document(dice: &mut Dice, with_id: Option<String>) -> String {
    let mut fields: Vec<String> = with_id.into_iter().map(|id| format!("_id: {id}")).collect();
    if dice.below(8) > 0 {
        fields.push(format!("s: {}", series(dice)));
    }
    if dice.below(12) > 0 {
        fields.push(format!("ts: {}", time(dice)));
    }
    if dice.below(3) > 0 {
        fields.push(format!("m: {{at: {}, k: {}}}", time(dice), dice.below(2)));
    }
    for name in ["v", "w"] {
        if dice.below(4) > 0 {
            fields.push(format!("{name}: {}", value(dice)));
        }
    }
    if dice.below(3) == 0 {
        fields.push(format!("u: {}", dice.below(60)));
    }
    format!("{{{}}}", fields.join(", "))
}

fn filter(dice: &mut Dice) -> String {
    let n = dice.below(9);
    match dice.below(15) {
        0 => "{}".to_owned(),
        1 => format!("{{s: {}}}", series(dice)),
        2 => format!("{{ts: {{$gte: {}}}}}", time(dice)),
        3 => format!("{{ts: {{$gte: {}, $lt: {}}}}}", time(dice), time(dice)),
        4 => format!("{{s: {n}, ts: {{$lte: {}}}}}", time(dice)),
        5 => format!("{{v: {{$gt: {n}}}}}"),
        6 => format!("{{v: {}}}", value(dice)),
        7 => format!("{{_id: {{$gte: {n}, $lt: {}}}}}", n + 20),
        8 => format!("{{_id: {{$in: [{n}, 'k{n}', {}]}}}}", n + 7),
        9 => format!("{{$or: [{{s: {n}}}, {{ts: {}}}, {{u: {n}}}]}}", time(dice)),
        10 => format!("{{s: {{$in: [{}, null]}}}}", series(dice)),
        11 => "{ts: {$exists: false}}".to_owned(),
        12 => format!("{{'m.at': {{$gt: {}}}, 'm.k': 1}}", time(dice)),
        13 => "{$expr: {$gt: ['$v', '$w']}}".to_owned(),
        _ => format!("{{_id: {}}}", id(dice)),
    }
}

fn update(dice: &mut Dice) -> String {
    let (n, v) = (dice.below(9), value(dice));
    match dice.below(13) {
        0 => format!("{{$set: {{v: {v}}}}}"),
        1 => format!("{{$set: {{ts: {}}}}}", time(dice)),
        2 => format!("{{$set: {{s: {}}}}}", series(dice)),
        3 => "{$unset: {ts: 1}}".to_owned(),
        4 => "{$unset: {v: 1, w: 1}}".to_owned(),
        5 => format!("{{$inc: {{n: {n}}}}}"),
        6 => format!("{{$push: {{tags: {v}}}}}"),
        7 => "{$rename: {v: 'w'}}".to_owned(),
        8 => format!("{{$min: {{v: {n}}}, $max: {{w: {n}}}}}"),
        9 => format!("[{{$set: {{v: '$w', 'm.at': {}}}}}]", time(dice)),
        10 => format!("{{$set: {{u: {}}}}}", dice.below(60)),
        11 => format!("{{$set: {{pad: '{}'}}}}", "long ".repeat(dice.below(60) as usize)),
        _ => format!("[{{$replaceWith: {{$mergeObjects: ['$$ROOT', {{v: {n}}}]}}}}]"),
    }
}

fn query(dice: &mut Dice) -> String {
    let f = filter(dice);
    let fields = dice.pick(&["{}", "{v: 1}", "{ts: 1, _id: 0}", "{w: 0}", "{'m.at': 1}"]);
    let sort = dice.pick(&["{_id: 1}", "{_id: -1}", "{ts: 1, _id: 1}", "{v: -1, _id: 1}"]);
    let (skip, limit) = (dice.below(4), dice.below(12));
    match dice.below(12) {
        0..4 => format!(
            "find: 'c', filter: {f}, sort: {sort}, projection: {fields}, skip: {skip}, limit: {limit}, batchSize: 1000"
        ),
        4 => format!("find: 'c', filter: {f}, projection: {fields}, batchSize: 1000"),
        5 => format!("find: 'c', filter: {{_id: {}}}", id(dice)),
        6 => format!("count: 'c', query: {f}"),
        7 => format!("distinct: 'c', key: '{}', query: {f}", dice.pick(&["s", "ts", "_id", "v"])),
        8 => {
            let group = dice.pick(&[
                "{_id: '$s', n: {$sum: 1}, all: {$push: '$_id'}}",
                "{_id: {$dateTrunc: {date: {$convert: {input: '$ts', to: 'date', onError: null, onNull: null}}, unit: 'hour'}}, n: {$sum: 1}, v: {$max: '$v'}}",
                "{_id: null, n: {$sum: '$v'}, least: {$min: '$v'}, most: {$max: '$ts'}}",
            ]);
            format!(
                "aggregate: 'c', pipeline: [{{$match: {f}}}, {{$sort: {{_id: 1}}}}, {{$group: {group}}}, {{$sort: {{_id: 1}}}}], cursor: {{batchSize: 1000}}"
            )
        }
        9 => format!(
            "aggregate: 'c', pipeline: [{{$match: {f}}}, {{$sort: {{_id: 1}}}}, {{$limit: 9}}, {{$lookup: {{from: 'c', localField: 'u', foreignField: '_id', as: 'found'}}}}], cursor: {{batchSize: 1000}}"
        ),
        10 => format!("aggregate: 'c', pipeline: [{{$match: {f}}}, {{$count: 'n'}}], cursor: {{}}"),
        _ => "count: 'c'".to_owned(),
    }
}

fn write(dice: &mut Dice) -> String {
    match dice.below(12) {
        0..5 => {
            let count = if dice.below(4) == 0 { 40 } else { 5 };
            let docs: Vec<String> = (0..=dice.below(count))
                .map(|_| {
                    let id = id(dice);
                    document(dice, Some(id))
                })
                .collect();
            let ordered = dice.below(3) == 0;
            format!("insert: 'c', documents: [{}], ordered: {ordered}", docs.join(", "))
        }
        5 => {
            let (f, u) = (filter(dice), update(dice));
            format!("update: 'c', updates: [{{q: {f}, u: {u}, multi: true}}]")
        }
        6 => {
            let (id, u) = (id(dice), update(dice));
            format!("update: 'c', updates: [{{q: {{_id: {id}}}, u: {u}, upsert: true}}]")
        }
        7 => {
            let (id, doc) = (id(dice), document(dice, None));
            format!("update: 'c', updates: [{{q: {{_id: {id}}}, u: {doc}, upsert: true}}]")
        }
        8 => {
            let (id, one) = (id(dice), dice.below(2));
            let f = if one == 1 { format!("{{_id: {id}}}") } else { filter(dice) };
            format!("delete: 'c', deletes: [{{q: {f}, limit: {one}}}]")
        }
        9 => {
            let (f, u, new) = (filter(dice), update(dice), dice.below(2) == 0);
            format!("findAndModify: 'c', query: {f}, sort: {{_id: 1}}, update: {u}, new: {new}")
        }
        10 => {
            let f = filter(dice);
            format!("findAndModify: 'c', query: {f}, sort: {{ts: 1, _id: 1}}, remove: true")
        }
        _ => {
            let f = filter(dice);
            format!(
                "aggregate: 'c', pipeline: [{{$match: {f}}}, {{$set: {{merged: '$v'}}}}, {{$merge: {{into: 'c', whenMatched: 'merge', whenNotMatched: 'discard'}}}}], cursor: {{}}"
            )
        }
    }
}

fn step(pair: &mut Pair, dice: &mut Dice) {
    match dice.below(30) {
        0 => {
            let index = dice.pick(&[
                "{key: {s: 1, ts: 1}, name: 'sts'}",
                "{key: {v: 1}, name: 'v'}",
                "{key: {u: 1}, name: 'u', unique: true, sparse: true}",
                "{key: {'$**': 1}, name: 'all'}",
            ]);
            pair.run(&format!("{{createIndexes: 'c', indexes: [{index}]}}"));
        }
        1 => {
            let name = dice.pick(&["sts", "v", "u", "all"]);
            pair.run(&format!("{{dropIndexes: 'c', index: '{name}'}}"));
        }
        2 => transaction(pair, dice),
        3..17 => {
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
        if reply.as_bytes().first().is_some_and(u8::is_ascii_digit) || reply.contains("writeErrors")
        {
            break;
        }
    }
    let verb = if dice.below(3) == 0 { "abortTransaction" } else { "commitTransaction" };
    pair.run_in("admin", &format!("{{{verb}: 1{}}}", within(1, number, false)));
}

fn steps() -> u64 {
    std::env::var("LAYOUT_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(240)
}

fn seed() -> u64 {
    std::env::var("LAYOUT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Opens a change stream on both servers; the cursors.
fn watch(pair: &Pair) -> [i64; 2] {
    [&pair.plain, &pair.laid].map(|server| {
        let reply = server.run("{aggregate: 'c', pipeline: [{$changeStream: {fullDocument: 'whenAvailable'}}], cursor: {}}");
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        cursor.get("id").and_then(Val::as_i64_exact).expect("an open cursor")
    })
}

/// The documents and operations of the events since.
fn events(server: &Server, cursor: i64) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let reply = server
            .run(&format!("{{getMore: NumberLong({cursor}), collection: 'c', maxTimeMS: 1}}"));
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        let events = cursor.get("nextBatch").and_then(Val::as_array).expect("a batch");
        if events.is_empty() {
            return found;
        }
        for (_, event) in events {
            let event = event.as_doc().expect("an event");
            let kept = DocBuf::build(|out| {
                for (name, value) in event {
                    if matches!(name, "operationType" | "documentKey" | "updateDescription") {
                        out.raw(name, value);
                    }
                }
            });
            found.push(print(kept.as_doc()));
        }
    }
}

fn differential(plain: Server, laid: Server, buckets: &str, seed: u64, steps: u64) -> Pair {
    let mut pair = Pair { plain, laid, transactions: 0, log: vec![buckets.to_owned()] };
    let mut dice = Dice(seed);
    pair.run("{create: 'c', changeStreamPreAndPostImages: {enabled: true}}");
    let cursors = watch(&pair);
    // Before the first document, or over those that are there.
    let declared_at = dice.below(3) * steps / 4;
    for at in 0..steps {
        if at == declared_at {
            pair.declare(buckets);
        }
        step(&mut pair, &mut dice);
        if at % 40 == 39 {
            pair.run("{find: 'c', batchSize: 1000}");
            pair.check();
        }
    }
    // Statements on many documents may meet them in another order.
    let sorted = |mut events: Vec<String>| {
        events.sort();
        events
    };
    let plain = sorted(events(&pair.plain, cursors[0]));
    assert_eq!(plain, sorted(events(&pair.laid, cursors[1])));
    assert!(!plain.is_empty());
    pair.run("{find: 'c', sort: {_id: -1}, batchSize: 1000}");
    pair.check();
    pair
}

#[test]
fn buckets_are_not_noticed() {
    for (at, buckets) in BUCKETS.into_iter().enumerate() {
        let seed = seed() * 100 + at as u64;
        let mut pair = differential(Server::new(), Server::new(), buckets, seed, steps());
        pair.laid.run("{dropPatterns: 'c', names: '*'}");
        pair.run("{find: 'c', sort: {_id: 1}, batchSize: 1000}");
        pair.check();
    }
}

#[test]
fn buckets_come_and_go_beside_writes() {
    let mut pair =
        Pair { plain: Server::new(), laid: Server::new(), transactions: 0, log: Vec::new() };
    let mut dice = Dice(seed() * 100 + 50);
    pair.run("{create: 'c'}");
    for round in 0..8 {
        for _ in 0..30 {
            step(&mut pair, &mut dice);
        }
        match round % 4 {
            0 => pair.declare(BUCKETS[1]),
            1 => {
                pair.laid.run("{modifyPattern: 'c', name: 'b', set: {span: {count: 3}}}");
            }
            2 => {
                pair.laid.run("{suspendPatterns: 'c'}");
                pair.run("{update: 'c', updates: [{q: {}, u: {$set: {w: 'warm'}}, multi: true}]}");
                pair.laid.run("{resumePatterns: 'c'}");
            }
            _ => {
                pair.laid.run("{dropPatterns: 'c', names: '*'}");
            }
        }
        pair.run("{find: 'c', batchSize: 1000}");
    }
    pair.check();
}

#[test]
fn buckets_outlive_the_process() {
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let open = || folders.each_ref().map(|folder| Server::on(folder.path()));
    let [plain, laid] = open();
    let pair = differential(plain, laid, BUCKETS[1], seed() * 100 + 60, steps() / 3);
    pair.plain.close();
    pair.laid.close();
    let [plain, laid] = open();
    let mut pair = Pair { plain, laid, transactions: 10_000, log: Vec::new() };
    let mut dice = Dice(seed() * 100 + 61);
    pair.run("{find: 'c', batchSize: 1000}");
    for _ in 0..steps() / 3 {
        step(&mut pair, &mut dice);
    }
    pair.check();
}
