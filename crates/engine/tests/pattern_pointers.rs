//! The strategy `pointer` beside `copy`: whatever clients do, both show the same, and nothing of what
//! a pointer shows is stored.

mod harness;

use harness::{Server, same};
use motifdb::value::{DocBuf, RawDoc, Val, ejson};

/// Random numbers that a seed repeats.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'p>(&mut self, from: &[&'p str]) -> &'p str {
        let at = self.roll(from.len() as u64) as usize;
        from.get(at).copied().unwrap_or("")
    }
}

fn seeds() -> u64 {
    std::env::var("POINTER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

/// A value with the fields of all documents in it sorted: what is resolved stands at the end.
fn sorted(value: Val<'_>) -> String {
    match value {
        Val::Document(doc) => {
            let mut fields: Vec<String> = doc
                .iter()
                .map(|(name, value)| format!("{name}: {}", sorted(value.get())))
                .collect();
            fields.sort();
            format!("{{{}}}", fields.join(", "))
        }
        Val::Array(array) => {
            let elements: Vec<String> =
                array.iter().map(|(_, value)| sorted(value.get())).collect();
            format!("[{}]", elements.join(", "))
        }
        other => ejson::print_value(other, ejson::Format::Canonical),
    }
}

/// What clients see of a reply: the documents, the counts, the errors' codes.
fn seen(reply: &Result<DocBuf, motifdb::value::Error>) -> String {
    let doc = match reply {
        Ok(doc) => doc.as_doc(),
        Err(error) => return format!("error {}", error.code().0),
    };
    let mut text = String::new();
    for (name, value) in doc {
        match (name, value.get()) {
            ("cursor", Val::Document(cursor)) => {
                let batch = cursor.get("firstBatch").unwrap_or(Val::Null);
                text.push_str(&sorted(batch));
            }
            ("writeErrors", Val::Array(errors)) => {
                for (_, error) in errors {
                    let code = error.as_doc().and_then(|error| error.get("code"));
                    text.push_str(&format!(" code {code:?}"));
                }
            }
            ("n" | "nModified" | "value" | "values" | "upserted", value) => {
                text.push_str(&format!(" {name} {}", sorted(value)));
            }
            _ => {}
        }
    }
    text
}

/// Two collections to which the same is done: one stores what its patterns maintain, one does not.
struct Pair {
    server: Server,
    names: [&'static str; 2],
}

impl Pair {
    fn run(&self, text: &str) -> String {
        let [copy, pointer] = self.names.map(|name| {
            let text = text.replace('@', name);
            let command = ejson::parse_doc(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
            seen(&self.server.0.run_command("t", command.as_doc()))
        });
        assert_eq!(copy, pointer, "{text}");
        pointer
    }

    /// Nothing that is maintained is stored where a pointer shows it.
    fn verify(&self) {
        self.names.iter().for_each(|name| self.server.verify(name));
    }
}

static TREE_QUERIES: &[&str] = &[
    "{find: '@', sort: {_id: 1}}",
    "{find: '@', filter: {_id: 'ID'}}",
    "{find: '@', filter: {ancestors: 'ID'}, sort: {_id: 1}}",
    "{find: '@', filter: {ancestors: {$in: ['ID', 'a']}}, sort: {path: 1, _id: 1}, projection: {path: 1}}",
    "{find: '@', filter: {ancestors: {$all: ['ID', 'a']}}, sort: {_id: -1}, skip: 1}",
    "{find: '@', filter: {ancestors: {$ne: 'ID'}}, sort: {_id: 1}}",
    "{find: '@', filter: {path: /,ID,/}, sort: {_id: 1}}",
    "{find: '@', filter: {path: /^,ID,/}, sort: {depth: -1, _id: 1}, limit: 3}",
    "{find: '@', filter: {path: /^,a,ID,.*/, depth: {$gt: 1}}, sort: {_id: 1}}",
    "{find: '@', filter: {path: ',a,ID,'}}",
    "{find: '@', filter: {depth: 1}, sort: {_id: 1}, projection: {_id: 1, depth: 1}}",
    "{find: '@', filter: {depth: {$lte: 2}, parent: 'ID'}, sort: {_id: 1}}",
    "{find: '@', filter: {depth: {$exists: false}}, sort: {_id: 1}}",
    "{find: '@', filter: {$or: [{_id: 'ID'}, {ancestors: 'ID'}]}, sort: {_id: 1}}",
    "{find: '@', filter: {$or: [{_id: 'ID'}, {depth: {$lt: 1}}, {ancestors: 'a'}]}, sort: {_id: 1}}",
    "{find: '@', filter: {below: {$gte: 2}}, sort: {below: 1, _id: 1}}",
    "{find: '@', filter: {$expr: {$eq: [{$size: {$ifNull: ['$ancestors', []]}}, '$depth']}}, sort: {_id: 1}}",
    "{count: '@', query: {depth: {$gt: 1}}}",
    "{count: '@', query: {ancestors: 'ID'}}",
    "{distinct: '@', key: 'ancestors'}",
    "{distinct: '@', key: 'depth', query: {children: 0}}",
    "{aggregate: '@', cursor: {}, pipeline: [{$group: {_id: '$depth', n: {$sum: 1}, most: {$max: '$below'}}}, {$sort: {_id: 1}}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$match: {path: /,ID,/}}, {$sort: {lft: 1}}, {$project: {path: 1, children: 1}}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$match: {parent: null}}, {$sort: {_id: 1}}, {$lookup: {from: '@', localField: '_id', foreignField: 'parent', as: 'kids'}}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$match: {_id: 'ID'}}, {$lookup: {from: '@', localField: 'ancestors', foreignField: '_id', as: 'up'}}, {$unwind: '$up'}, {$sort: {'up.depth': 1}}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$match: {_id: 'ID'}}, {$lookup: {from: '@', let: {i: '$_id'}, pipeline: [{$match: {$expr: {$in: ['$$i', {$ifNull: ['$ancestors', []]}]}}}, {$sort: {_id: 1}}], as: 'below'}}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$match: {_id: 'ID'}}, {$graphLookup: {from: '@', startWith: '$_id', connectFromField: '_id', connectToField: 'parent', as: 'all'}}, {$unwind: '$all'}, {$sort: {'all._id': 1}}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$match: {depth: 0}}, {$unionWith: {coll: '@', pipeline: [{$match: {ancestors: 'ID'}}]}}, {$sort: {_id: 1, depth: 1}}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$facet: {deep: [{$match: {depth: {$gte: 2}}}, {$count: 'n'}], all: [{$sort: {path: 1, _id: 1}}, {$limit: 2}]}}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$sortByCount: '$depth'}, {$sort: {_id: 1}}]}",
];

static TREE_WRITES: &[&str] = &[
    "{insert: '@', documents: [{_id: 'ID', parent: 'UP', n: N}]}",
    "{insert: '@', documents: [{_id: 'ID', parent: 'UP', path: 'lie', depth: 99, n: N}]}",
    "{insert: '@', documents: [{_id: 'ID', n: N}]}",
    "{insert: '@', documents: [{_id: 'ID', parent: 'UP'}, {_id: 'OTHER', parent: 'ID'}]}",
    "{update: '@', updates: [{q: {_id: 'ID'}, u: {$set: {parent: 'UP'}}}]}",
    "{update: '@', updates: [{q: {_id: 'ID'}, u: {$set: {parent: 'UP', n: N}}}]}",
    "{update: '@', updates: [{q: {_id: 'ID'}, u: {$unset: {parent: 1}}}]}",
    "{update: '@', updates: [{q: {_id: 'ID'}, u: {$set: {n: N}}}]}",
    "{update: '@', updates: [{q: {_id: 'ID'}, u: {$set: {depth: N}}}]}",
    "{update: '@', updates: [{q: {_id: 'ID'}, u: [{$set: {was: '$path', deep: '$depth'}}]}]}",
    "{update: '@', updates: [{q: {_id: 'ID'}, u: {parent: 'UP', n: N}, upsert: true}]}",
    "{update: '@', updates: [{q: {ancestors: 'ID'}, u: {$inc: {n: 1}}, multi: true}]}",
    "{update: '@', updates: [{q: {depth: {$gte: 2}}, u: {$set: {parent: 'UP'}}, multi: true}]}",
    "{delete: '@', deletes: [{q: {_id: 'ID'}, limit: 1}]}",
    "{delete: '@', deletes: [{q: {$or: [{_id: 'ID'}, {ancestors: 'ID'}]}, limit: 0}]}",
    "{findAndModify: '@', query: {_id: 'ID'}, update: {$set: {parent: 'UP'}}, new: true}",
    "{findAndModify: '@', query: {_id: 'ID'}, update: {$set: {n: N}}}",
    "{findAndModify: '@', query: {ancestors: 'ID'}, sort: {path: -1, _id: 1}, update: {$inc: {n: 2}}, new: true}",
    "{findAndModify: '@', query: {_id: 'ID'}, remove: true}",
    "{aggregate: '@', cursor: {}, pipeline: [{$match: {_id: 'ID'}}, {$set: {n: N}}, {$merge: '@'}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$match: {_id: 'ID'}}, {$project: {_id: 1}}, {$merge: {into: '@', whenMatched: [{$set: {seen: '$path'}}]}}]}",
];

fn filled(template: &str, dice: &mut Dice) -> String {
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let (id, other, up) = (dice.pick(&ids), dice.pick(&ids), dice.pick(&ids));
    let up = if dice.roll(6) == 0 { "null".to_owned() } else { format!("'{up}'") };
    template
        .replace("'UP'", &up)
        .replace("OTHER", other)
        .replace("ID", id)
        .replace('N', &dice.roll(5).to_string())
}

#[test]
fn a_tree_of_pointers_shows_what_a_tree_of_copies_shows() {
    let modes = [
        ("reject", "restrict"),
        ("defer", "cascade"),
        ("reject", "adopt"),
        ("defer", "root"),
        ("defer", "adopt"),
    ];
    for seed in 0..seeds() {
        let mut dice = Dice(seed);
        let pair = Pair { server: Server::new(), names: ["copy", "pointer"] };
        let (missing, deleted) = modes[seed as usize % modes.len()];
        let declare = |name: &str| {
            pair.server.run(&format!(
                "{{createPatterns: '{name}', patterns: [{{name: 'tree', kind: 'tree', strategy: '{name}', onMissingParent: '{missing}', onDelete: '{deleted}',
                    maintain: {{ancestors: 'ancestors', path: {{into: 'path'}}, depth: 'depth', childCount: 'children', descendantCount: 'below', nestedSet: {{lft: 'lft', rgt: 'rgt'}}}}}}]}}"
            ));
        };
        let late = seed % 3 == 2;
        if late {
            pair.run("{insert: '@', documents: [{_id: 'a', path: 'mine'}, {_id: 'b', parent: 'a', depth: 7}, {_id: 'c', parent: 'b'}]}");
        }
        pair.names.iter().for_each(|name| declare(name));
        for _ in 0..120 {
            let write = filled(dice.pick(TREE_WRITES), &mut dice);
            pair.run(&write);
            for _ in 0..4 {
                let query = filled(dice.pick(TREE_QUERIES), &mut dice);
                pair.run(&query);
            }
        }
        for query in TREE_QUERIES {
            pair.run(&filled(query, &mut dice));
        }
        pair.verify();
        // From one strategy to the other and back: readers see the same.
        let before = pair.run("{find: '@', sort: {_id: 1}}");
        let strategy = |name: &str, strategy: &str| {
            pair.server.run(&format!(
                "{{modifyPattern: '{name}', name: 'tree', set: {{strategy: '{strategy}'}}}}"
            ));
        };
        strategy("copy", "pointer");
        strategy("pointer", "copy");
        assert_eq!(pair.run("{find: '@', sort: {_id: 1}}"), before);
        pair.verify();
        strategy("copy", "copy");
        assert_eq!(pair.run("{find: '@', sort: {_id: 1}}"), before);
        pair.verify();
        for name in pair.names {
            pair.server.run(&format!("{{dropPatterns: '{name}', names: '*'}}"));
        }
        pair.run("{find: '@', sort: {_id: 1}}");
    }
}

static REFERENCE_QUERIES: &[&str] = &[
    "{find: '@', sort: {_id: 1}}",
    "{find: '@', filter: {_id: ID}}",
    "{find: '@', filter: {'customer.name': 'N'}, sort: {_id: 1}}",
    "{find: '@', filter: {'customer.name': {$gte: 'N'}}, sort: {'customer.name': -1, _id: 1}, limit: 4}",
    "{find: '@', filter: {'tags.label': 'N'}, sort: {_id: 1}, projection: {tags: 1}}",
    "{find: '@', filter: {tags: {$elemMatch: {label: 'N'}}}, sort: {_id: 1}}",
    "{find: '@', filter: {'items.product.name': 'N'}, sort: {_id: 1}}",
    "{count: '@', query: {'customer.tier': {$exists: true}}}",
    "{distinct: '@', key: 'customer.name'}",
    "{aggregate: '@', cursor: {}, pipeline: [{$group: {_id: '$customer.name', n: {$sum: 1}}}, {$sort: {_id: 1}}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$unwind: '$tags'}, {$group: {_id: '$tags.label', n: {$sum: 1}}}, {$sort: {_id: 1}}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$sort: {_id: 1}}, {$lookup: {from: '@', localField: '_id', foreignField: '_id', as: 'me'}}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$lookup: {from: 's', localField: 'customer._id', foreignField: '_id', as: 'c'}}, {$set: {equal: {$eq: ['$customer.name', {$first: '$c.name'}]}}}, {$project: {equal: 1}}, {$sort: {_id: 1}}]}",
];

static REFERENCE_WRITES: &[&str] = &[
    "{insert: '@', documents: [{_id: ID, customer: {_id: REF}, refs: [REF, REF], items: [{product: {_id: REF}, q: 1}, {q: 2}]}]}",
    "{insert: '@', documents: [{_id: ID, customer: {_id: REF, name: 'lie', own: 1}, refs: [], items: []}]}",
    "{insert: '@', documents: [{_id: ID, refs: [null, REF]}]}",
    "{update: '@', updates: [{q: {_id: ID}, u: {$set: {'customer._id': REF}}}]}",
    "{update: '@', updates: [{q: {_id: ID}, u: {$set: {customer: {_id: REF}}}}]}",
    "{update: '@', updates: [{q: {_id: ID}, u: {$unset: {'customer._id': 1}}}]}",
    "{update: '@', updates: [{q: {_id: ID}, u: {$unset: {customer: 1}}}]}",
    "{update: '@', updates: [{q: {_id: ID}, u: {$set: {'customer.name': 'lie'}}}]}",
    "{update: '@', updates: [{q: {_id: ID}, u: {$push: {refs: REF}}}]}",
    "{update: '@', updates: [{q: {_id: ID}, u: {$pop: {refs: 1}}}]}",
    "{update: '@', updates: [{q: {_id: ID}, u: {$push: {items: {product: {_id: REF, name: 'lie'}}}}}]}",
    "{update: '@', updates: [{q: {_id: ID}, u: {$pull: {items: {q: 1}}}}]}",
    "{update: '@', updates: [{q: {_id: ID}, u: [{$set: {was: '$customer.name'}}]}]}",
    "{update: '@', updates: [{q: {'customer.name': 'N'}, u: {$inc: {seen: 1}}, multi: true}]}",
    "{update: '@', updates: [{q: {_id: ID}, u: {customer: {_id: REF}, refs: [REF]}, upsert: true}]}",
    "{findAndModify: '@', query: {_id: ID}, update: {$set: {'customer._id': REF}}, new: true}",
    "{findAndModify: '@', query: {_id: ID}, update: {$set: {seen: 9}}}",
    "{delete: '@', deletes: [{q: {_id: ID}, limit: 1}]}",
    "{delete: '@', deletes: [{q: {'customer.name': 'N'}, limit: 1}]}",
    "{aggregate: '@', cursor: {}, pipeline: [{$match: {_id: ID}}, {$merge: '@'}]}",
];

static SOURCE_WRITES: &[&str] = &[
    "{insert: 's', documents: [{_id: REF, name: 'N', loyalty: {tier: 'x'}}]}",
    "{update: 's', updates: [{q: {_id: REF}, u: {$set: {name: 'N'}}}]}",
    "{update: 's', updates: [{q: {_id: REF}, u: {$set: {'loyalty.tier': 'N'}}}]}",
    "{update: 's', updates: [{q: {_id: REF}, u: {$unset: {name: 1}}}]}",
    "{update: 's', updates: [{q: {}, u: {$set: {name: 'N'}}, multi: true}]}",
    "{delete: 's', deletes: [{q: {_id: REF}, limit: 1}]}",
];

#[test]
fn references_resolved_show_what_copies_show() {
    for seed in 0..seeds() {
        let mut dice = Dice(seed + 1000);
        let pair = Pair { server: Server::new(), names: ["copy", "pointer"] };
        let deleted = ["unset", "cascade"][seed as usize % 2];
        pair.server.run("{insert: 's', documents: [{_id: 1, name: 'n1', loyalty: {tier: 'gold'}}, {_id: 2, name: 'n2'}]}");
        if seed % 3 == 2 {
            pair.run("{insert: '@', documents: [{_id: 1, customer: {_id: 1, name: 'mine'}, refs: [1, 2]}, {_id: 2, tags: [{label: 'mine'}]}]}");
        }
        let declare = |name: &str| {
            pair.server.run(&format!(
                "{{createPatterns: '{name}', patterns: [
                    {{name: 'customer', kind: 'extendedReference', strategy: '{name}', ref: 'customer._id', from: 's', into: 'customer', fields: ['name', {{as: 'tier', expr: '$loyalty.tier'}}], onSourceDelete: 'unset'}},
                    {{name: 'tags', kind: 'extendedReference', strategy: '{name}', ref: 'refs', from: 's', into: 'tags', fields: [{{as: 'label', expr: '$name'}}], onSourceDelete: '{deleted}'}},
                    {{name: 'items', kind: 'extendedReference', strategy: '{name}', ref: 'items.product._id', from: 's', into: 'items.product', fields: ['name'], onSourceDelete: '{deleted}'}}]}}"
            ));
        };
        pair.names.iter().for_each(|name| declare(name));
        let fill = |template: &str, dice: &mut Dice| {
            let (id, reference, name) = (dice.roll(6), dice.roll(5), dice.roll(3));
            let reference =
                if reference == 4 { "null".to_owned() } else { (reference + 1).to_string() };
            template
                .replace("REF", &reference)
                .replace("ID", &(id + 1).to_string())
                .replace("'N'", &format!("'n{name}'"))
        };
        for _ in 0..120 {
            if dice.roll(3) == 0 {
                let text = fill(dice.pick(SOURCE_WRITES), &mut dice);
                let command = ejson::parse_doc(&text).expect("test text");
                pair.server.0.run_command("t", command.as_doc()).expect("works");
            } else {
                pair.run(&fill(dice.pick(REFERENCE_WRITES), &mut dice));
            }
            for _ in 0..4 {
                pair.run(&fill(dice.pick(REFERENCE_QUERIES), &mut dice));
            }
        }
        for query in REFERENCE_QUERIES {
            pair.run(&fill(query, &mut dice));
        }
        pair.verify();
        let before = pair.run("{find: '@', sort: {_id: 1}}");
        for (name, strategy) in [("copy", "pointer"), ("pointer", "copy")] {
            for pattern in ["customer", "tags", "items"] {
                pair.server.run(&format!("{{modifyPattern: '{name}', name: '{pattern}', set: {{strategy: '{strategy}'}}}}"));
            }
        }
        assert_eq!(pair.run("{find: '@', sort: {_id: 1}}"), before);
        pair.verify();
    }
}

fn number(doc: RawDoc<'_>, path: &str) -> i64 {
    value_at(doc, path).and_then(|value| value.as_i64_exact()).unwrap_or(-1)
}

fn value_at<'d>(doc: RawDoc<'d>, path: &str) -> Option<Val<'d>> {
    motifdb::value::path::Path::new(path).find(doc).map(|value| value.get())
}

#[test]
fn explain_shows_the_walk_and_what_is_resolved() {
    let server = Server::new();
    let nodes: Vec<String> = (0..2000)
        .map(|n| match n {
            0 | 1 => format!("{{_id: 'n{n}'}}"),
            _ => format!("{{_id: 'n{n}', parent: 'n{}'}}", if n < 12 { n % 2 } else { n % 10 + 2 }),
        })
        .collect();
    server.run(&format!("{{insert: 'n', documents: [{}]}}", nodes.join(", ")));
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', strategy: 'pointer', maintain: {ancestors: 'up', path: {into: 'path'}, depth: 'depth'}}]}");
    for (filter, found, most) in [
        ("{up: 'n2'}", 198, 400),
        ("{path: /,n2,/}", 199, 410),
        ("{path: /^,n0,n2,/}", 199, 410),
        ("{depth: 0}", 2, 4),
        ("{$or: [{_id: 'n2'}, {up: 'n2'}]}", 199, 410),
    ] {
        let reply = server.run(&format!(
            "{{explain: {{find: 'n', filter: {filter}}}, verbosity: 'executionStats'}}"
        ));
        let doc = reply.as_doc();
        assert_eq!(number(doc, "executionStats.nReturned"), found, "{filter}");
        // An `$or` has a stage above it.
        let plan = format!("{:?}", value_at(doc, "queryPlanner.winningPlan"));
        assert!(plan.contains("TREE_WALK"), "{filter}: {reply:?}");
        assert!(number(doc, "executionStats.totalDocsExamined") <= most, "{filter}: {reply:?}");
        assert!(value_at(doc, "queryPlanner.indexThatWouldHelp").is_none(), "{reply:?}");
        let resolved = value_at(doc, "queryPlanner.resolved").and_then(Val::as_array);
        let first = resolved.and_then(RawDoc::first).and_then(|(_, first)| first.as_doc());
        assert_eq!(first.and_then(|first| first.get("strategy")), Some(Val::String("pointer")));
    }
    let reply = server.run("{explain: {find: 'n', filter: {depth: {$gt: 1}}}}");
    let stage = value_at(reply.as_doc(), "queryPlanner.winningPlan.stage");
    assert_eq!(stage, Some(Val::String("COLLSCAN")));
}

#[test]
fn what_cannot_be_kept_is_refused_and_says_why() {
    let server = Server::new();
    let tree = "{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', strategy: 'pointer', maintain: {path: {into: 'meta.path'}, depth: 'depth'}}]}";
    server.run("{createIndexes: 'n', indexes: [{key: {depth: 1}, name: 'depth_1'}]}");
    assert_eq!(server.code(tree), 2, "an index on what is resolved");
    server.run("{dropIndexes: 'n', index: 'depth_1'}");
    server.run(tree);
    for key in [
        "{depth: 1}",
        "{meta: 1}",
        "{'meta.path': 1}",
        "{a: 1, depth: -1}",
        "{'$**': 1}",
        "{'meta.$**': 1}",
        "{depth: 'hashed'}",
        "{depth: 'text'}",
    ] {
        let text = format!("{{createIndexes: 'n', indexes: [{{key: {key}, name: 'i'}}]}}");
        assert_eq!(server.code(&text), 67, "{key}");
    }
    assert_eq!(server.code("{createIndexes: 'n', indexes: [{key: {a: 1}, name: 'i', partialFilterExpression: {depth: {$gt: 2}}}]}"), 67);
    assert_eq!(
        server.code("{createIndexes: 'n', indexes: [{key: {a: 1, 'meta.other': 1}, name: 'i'}]}"),
        0
    );
    // Others cannot follow what is written nowhere.
    assert_eq!(server.code("{createPatterns: 'p', patterns: [{name: 'r', kind: 'extendedReference', ref: 'n', from: 'n', into: 'node', fields: ['depth']}]}"), 2);
    assert_eq!(server.code("{createPatterns: 'n', patterns: [{name: 'c', kind: 'computed', fields: {twice: {$multiply: ['$depth', 2]}}}]}"), 2);
    // What has no meaning without copies.
    let reference = |options: &str| {
        server.code(&format!("{{createPatterns: 'o', patterns: [{{name: 'r', kind: 'extendedReference', ref: 'c', from: 's', into: 'x', fields: ['name'], {options}}}]}}"))
    };
    assert_eq!(reference("strategy: 'pointer', freshness: 'snapshot'"), 2);
    assert_eq!(reference("strategy: 'pointer', onSourceDelete: 'keep'"), 2);
    assert_eq!(reference("strategy: 'pointer', mode: {async: {}}"), 2);
    assert_eq!(reference("strategy: 'pointer', changeEvents: 'flagged'"), 2);
    assert_eq!(reference("freshness: 'snapshot', overLimit: 'pointer'"), 2);
    assert_eq!(reference("mode: {async: {}}, overLimit: 'pointer'"), 2);
    assert_eq!(reference("strategy: 'pointer'"), 0);
    assert_eq!(server.code("{dropPatterns: 'o', names: 'r', keepValues: true}"), 2);
    server.run("{modifyPattern: 'o', name: 'r', set: {strategy: 'copy'}}");
    assert_eq!(server.code("{dropPatterns: 'o', names: 'r', keepValues: true}"), 0);
    // A document that could not show what is maintained, as if it were stored.
    assert_eq!(server.code("{insert: 'n', documents: [{_id: 1, meta: 5}]}"), 96001);
    assert_eq!(server.code("{insert: 'n', documents: [{_id: 1, meta: {a: 1}}]}"), 0);
    assert_eq!(server.code("{update: 'n', updates: [{q: {_id: 1}, u: {$set: {meta: 5}}}]}"), 96001);
    same(&server.one("n", "1"), "{_id: 1, meta: {a: 1, path: ',1,'}, depth: 0}");
}
