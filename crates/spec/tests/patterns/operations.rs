//! Random writes of one client: every operator and way to write, alone and in transactions.

use crate::random::Random;
use crate::schema::Schema;
use crate::session::{Outcome, Session};

const PARENTS: u64 = 6;
const CHILDREN: u64 = 40;
const NODES: u64 = 14;

/// A client that writes.
pub(crate) struct Writer {
    random: Random,
    schema: Schema,
    /// What wrote to documents lately, to be carried back by a replacement.
    read: Option<(&'static str, u64, String)>,
}

/// What a step did.
pub(crate) struct Done {
    pub(crate) text: String,
    /// Whether it was one statement that writes each document at most once.
    pub(crate) simple: bool,
}

impl Writer {
    pub(crate) fn new(seed: u64, schema: &Schema) -> Writer {
        Writer { random: Random::new(seed), schema: schema.clone(), read: None }
    }

    /// Writes once: a statement, or a transaction of several. Returns what it did.
    pub(crate) fn step(&mut self, session: &mut Session) -> Done {
        if self.random.below(6) != 0 {
            let text = self.run_one(session).0;
            let several = text.starts_with("{bulkWrite") || text.matches(", u: ").count() > 1;
            let simple = !several && text.matches("_id: ").count() < 3;
            return Done { text, simple };
        }
        session.begin();
        let mut done = Vec::new();
        for _ in 0..=self.random.below(4) {
            let (text, outcome) = self.run_one(session);
            done.push(text);
            if matches!(outcome, Outcome::Refused(_)) {
                session.end(false);
                return Done { text: format!("{}; refused", done.join("; ")), simple: false };
            }
        }
        let commit = self.random.below(4) != 0;
        let committed = session.end(commit);
        Done { text: format!("{}; committed: {committed}", done.join("; ")), simple: false }
    }

    fn run_one(&mut self, session: &mut Session) -> (String, Outcome) {
        if self.below(12) == 0 && !session.is_in_transaction() {
            self.read(session);
        }
        let text = self.statement(session.is_in_transaction());
        let text = self.schema.text(&text);
        let outcome = session.run(&text);
        (text, outcome)
    }

    /// Reads a document as it is, maintained fields included.
    fn read(&mut self, session: &mut Session) {
        let collection = self.pick(&["children", "parents", "nodes"]);
        let id = self.below(PARENTS);
        let found = session.all(collection, &format!(", filter: {{_id: {id}}}"));
        let found = found.and_then(|mut found| found.pop());
        let carried = |doc: value::DocBuf| {
            // Marked: a pattern may be gone by the time this comes back, and its values stay then.
            let doc = value::DocBuf::build(|out| {
                for (name, value) in doc.as_doc().iter().filter(|(name, _)| *name != "carried") {
                    out.raw(name, value);
                }
                out.bool("carried", true);
            });
            value::ejson::print(doc.as_doc(), value::ejson::Format::Canonical)
        };
        self.read = found.map(|doc| (collection, id, carried(doc)));
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.below(words.len() as u64) as usize]
    }

    /// A parent, several, or none.
    fn reference(&mut self) -> String {
        let (a, b) = (self.below(PARENTS), self.below(PARENTS));
        match self.below(10) {
            0 => "null".to_owned(),
            1 => format!("[{a}, {b}, {a}]"),
            2 => "[]".to_owned(),
            3 => format!("[{a}, null, {b}]"),
            4 => format!("{a}.0"),
            _ => a.to_string(),
        }
    }

    /// A number whose sums are exact, of one of several types, or null.
    fn x(&mut self) -> String {
        let n = self.below(40) as i64 - 20;
        match self.below(6) {
            0 => format!("NumberLong({n})"),
            1 => format!("{:.2}", n as f64 / 4.0),
            2 => "null".to_owned(),
            _ => n.to_string(),
        }
    }

    /// Things with a parent each; the copies that some carry belong to the database.
    fn items(&mut self) -> String {
        let count = self.below(4);
        let list: Vec<String> = (0..count).map(|_| self.item()).collect();
        format!("[{}]", list.join(", "))
    }

    fn item(&mut self) -> String {
        let (q, n) = (self.below(PARENTS), self.below(9));
        match self.below(5) {
            0 => format!("{{n: {n}}}"),
            1 => format!("{{q: {q}, n: {n}, info: {{name: 777}}}}"),
            _ => format!("{{q: {q}, n: {n}}}"),
        }
    }

    /// The fields of a whole child, behind its `_id`.
    fn child_fields(&mut self) -> String {
        let mut fields = Vec::new();
        if self.below(10) != 0 {
            let value = self.reference();
            fields.push(Schema::field(self.schema.p, &value));
        }
        if self.below(8) != 0 {
            let value = self.x();
            fields.push(Schema::field(self.schema.x, &value));
        }
        if self.below(6) != 0 {
            let value = self.below(4).to_string();
            fields.push(Schema::field(self.schema.k, &value));
        }
        let ok = self.pick(&["true", "true", "false"]);
        fields.push(format!("ok: {ok}"));
        if self.below(3) == 0 {
            fields.push(format!("pc: {}", self.below(9)));
        }
        if self.below(3) == 0 {
            fields.push(format!("items: {}", self.items()));
        }
        if self.below(2) == 0 {
            let dates = ["ISODate('2020-01-01T00:00:00Z')", "ISODate('2400-01-01T00:00:00Z')", "7"];
            fields.push(format!("at: {}", self.pick(&dates)));
        }
        if self.below(20) == 0 {
            fields.push("gone: ISODate('2020-01-01T00:00:00Z')".to_owned());
        }
        if self.below(8) == 0 {
            // Values that belong to the database, if a pattern says so.
            fields.push(
                "carried: true, d: {twice: 77}, copy: {name: 77}, frozen: [{name: 7}], coded: {name: 5}"
                    .to_owned(),
            );
        }
        fields.join(", ")
    }

    fn parent_fields(&mut self) -> String {
        let mut fields = format!("name: {}, code: {}", self.below(100), self.below(9));
        if self.below(3) != 0 {
            fields.push_str(&format!(", region: {}", self.below(5)));
        }
        if self.below(8) == 0 {
            fields.push_str(", carried: true, f: {n: 77, s: 3}, top: [1], per: 8, w: {n: 5}");
        }
        fields
    }

    fn statement(&mut self, inside: bool) -> String {
        if let Some((collection, id, doc)) = self.read.take() {
            // What was read a while ago comes back as it was.
            return format!(
                "{{findAndModify: '{collection}', query: {{_id: {id}}}, update: {doc}, upsert: true}}"
            );
        }
        match self.below(20) {
            0 => self.bulk(),
            1 if !inside => self.merge(),
            2..=10 => self.child(),
            11..=14 => self.parent(),
            _ => self.node(),
        }
    }

    /// Several statements over several collections in one command.
    fn bulk(&mut self) -> String {
        let mut ops = Vec::new();
        for _ in 0..=self.below(4) {
            let (child, parent) = (self.below(CHILDREN), self.below(PARENTS));
            ops.push(match self.below(5) {
                0 => format!("{{insert: 0, document: {{_id: {child}, {}}}}}", self.child_fields()),
                1 => format!("{{update: 0, filter: {{_id: {child}}}, updateMods: {{$set: {{'@p': {parent}}}}}, upsert: true}}"),
                2 => format!("{{delete: 0, filter: {{'@k': {}}}, multi: true}}", self.below(4)),
                3 => format!("{{update: 1, filter: {{_id: {parent}}}, updateMods: {{$inc: {{name: 3}}}}}}"),
                _ => format!("{{insert: 1, document: {{_id: {parent}, {}}}}}", self.parent_fields()),
            });
        }
        let ordered = self.below(2) == 0;
        format!(
            "{{bulkWrite: 1, ordered: {ordered}, nsInfo: [{{ns: 't.children'}}, {{ns: 't.parents'}}], ops: [{}]}}",
            ops.join(", ")
        )
    }

    /// What a pipeline writes.
    fn merge(&mut self) -> String {
        let docs: Vec<String> = (0..=self.below(4))
            .map(|_| format!("{{_id: {}, {}}}", self.below(CHILDREN), self.child_fields()))
            .collect();
        let documents = format!("{{$documents: [{}]}}", docs.join(", "));
        let matched = self.pick(&[
            "'replace'",
            "'merge'",
            "'keepExisting'",
            "[{$set: {'@x': {$add: [1, {$ifNull: ['$@x', 0]}]}, ok: '$$new.ok'}}]",
        ]);
        let missing = match matched {
            "'keepExisting'" => "insert",
            _ => self.pick(&["insert", "insert", "discard"]),
        };
        match self.below(8) {
            // One collection into another, and into itself.
            0 => "{aggregate: 'parents', pipeline: [{$project: {name: 1, region: 1, code: 1, n: {$add: ['$name', 1]}}}, {$set: {name: '$n'}}, {$unset: 'n'}, {$merge: {into: 'parents', whenMatched: 'merge', whenNotMatched: 'discard'}}], cursor: {}}".to_owned(),
            1 => "{aggregate: 'children', pipeline: [{$match: {ok: true}}, {$set: {carried: true}}, {$out: 'children'}], cursor: {}}".to_owned(),
            2 => format!("{{aggregate: 1, pipeline: [{documents}, {{$out: 'children'}}], cursor: {{}}}}"),
            3 => format!("{{aggregate: 'parents', pipeline: [{{$match: {{_id: {{$ne: {}}}}}}}, {{$set: {{name: {{$add: ['$name', 2]}}, carried: true}}}}, {{$out: 'parents'}}], cursor: {{}}}}", self.below(PARENTS)),
            4 => format!("{{aggregate: 'nodes', pipeline: [{{$match: {{_id: {{$ne: {}}}}}}}, {{$set: {{carried: true}}}}, {{$out: 'nodes'}}], cursor: {{}}}}", self.below(NODES)),
            _ => format!("{{aggregate: 1, pipeline: [{documents}, {{$merge: {{into: 'children', on: '_id', whenMatched: {matched}, whenNotMatched: '{missing}'}}}}], cursor: {{}}}}"),
        }
    }

    fn child(&mut self) -> String {
        let id = self.below(CHILDREN);
        let fields = self.child_fields();
        let (k, p) = (self.below(4), self.below(PARENTS));
        let one = |u: &str, more: &str| {
            format!("{{update: 'children', updates: [{{q: {{_id: {id}}}, u: {u}{more}}}]}}")
        };
        let many = |q: &str, u: &str| {
            format!("{{update: 'children', updates: [{{q: {q}, u: {u}, multi: true}}]}}")
        };
        match self.below(32) {
            0..=4 => format!("{{insert: 'children', documents: [{{_id: {id}, {fields}}}]}}"),
            5 => {
                let others: Vec<String> = (0..5)
                    .map(|_| format!("{{_id: {}, {}}}", self.below(CHILDREN), self.child_fields()))
                    .collect();
                format!(
                    "{{insert: 'children', ordered: false, documents: [{}]}}",
                    others.join(", ")
                )
            }
            6 => one(&format!("{{{fields}}}"), ", upsert: true"),
            7 | 8 => {
                let p = self.reference();
                one(&format!("{{$set: {{'@p': {p}}}}}"), "")
            }
            9 => {
                let x = self.x();
                one(&format!("{{$set: {{'@x': {x}}}}}"), ", upsert: true")
            }
            10 => many(&format!("{{_id: {id}, '@x': {{$type: 'number'}}}}"), "{$inc: {'@x': 1}}"),
            11 => many(&format!("{{'@k': {k}}}"), "{$set: {ok: true}, $inc: {touched: 1}}"),
            12 => many(&format!("{{'@k': {k}}}"), &format!("{{$set: {{'@p': {p}}}}}")),
            13 => one("{$unset: {'@p': 1}, $rename: {'@k': 'old'}}", ""),
            14 => one(
                "[{$set: {ok: {$not: ['$ok']}, '@x': {$cond: [{$isNumber: '$@x'}, {$subtract: ['$@x', 2]}, 1]}}}]",
                "",
            ),
            15 => many(
                &format!("{{_id: {id}, '@p': {{$type: 'array'}}}}"),
                &format!("{{$push: {{'@p': {p}}}}}"),
            ),
            16 => format!("{{delete: 'children', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"),
            17 => format!(
                "{{delete: 'children', deletes: [{{q: {{'@k': {k}, _id: {{$gt: {id}}}}}, limit: 0}}]}}"
            ),
            18 => {
                let what = match self.below(4) {
                    0 => "remove: true".to_owned(),
                    1 => "update: [{$set: {'@k': {$mod: [{$add: [1, {$ifNull: ['$@k', 0]}]}, 4]}}}], new: true".to_owned(),
                    2 => format!("update: {{{fields}}}, upsert: true"),
                    // An operator that names what a pattern maintains is refused.
                    _ => format!("update: {{$set: {{{fields}}}}}, upsert: true"),
                };
                format!("{{findAndModify: 'children', query: {{_id: {id}}}, {what}}}")
            }
            19 => "{findAndModify: 'children', query: {ok: true}, sort: {'@x': -1, _id: 1}, update: {$set: {ok: false}}, fields: {_id: 1}}".to_owned(),
            20 => one(&format!("{{$push: {{items: {}}}}}", self.item()), ", upsert: true"),
            21 => one(
                &format!(
                    "{{$push: {{items: {{$each: {}, $position: 0, $slice: 4}}}}}}",
                    self.items()
                ),
                "",
            ),
            22 => one(&format!("{{$pull: {{items: {{q: {p}}}}}}}"), ""),
            23 => one("{$pop: {items: -1}}", ""),
            24 => many(
                &format!("{{'items.q': {p}}}"),
                &format!("{{$set: {{'items.$.q': {}}}}}", self.below(PARENTS)),
            ),
            25 => one("{$set: {'items.$[one].n': 1}}", ", arrayFilters: [{'one.n': {$gt: 3}}]"),
            26 => many("{items: {$type: 'array'}}", "{$inc: {'items.$[].n': 1}}"),
            27 => one(&format!("{{$addToSet: {{'@p': {p}}}}}"), ""),
            28 => one(&format!("{{$pullAll: {{'@p': [{p}]}}}}"), ""),
            29 => one(
                &format!(
                    "{{$set: {{pc: {}}}, $currentDate: {{at: true}}, $setOnInsert: {{ok: true}}}}",
                    self.below(9)
                ),
                ", upsert: true",
            ),
            30 => one("{$min: {'@x': 3}, $bit: {flags: {or: 5}}, $mul: {touched: 2}}", ""),
            _ => format!(
                "{{update: 'children', ordered: false, updates: [{{q: {{_id: {id}}}, u: {{$mul: {{touched: 2}}}}}}, {{q: {{_id: {}}}, u: {{{fields}}}}}, {{q: {{_id: {}}}, u: {{$max: {{'@x': 5}}}}}}]}}",
                self.below(CHILDREN),
                self.below(CHILDREN)
            ),
        }
    }

    fn parent(&mut self) -> String {
        let id = self.below(PARENTS);
        let fields = self.parent_fields();
        let one =
            |u: &str| format!("{{update: 'parents', updates: [{{q: {{_id: {id}}}, u: {u}}}]}}");
        match self.below(11) {
            0..=2 => format!("{{insert: 'parents', documents: [{{_id: {id}, {fields}}}]}}"),
            3 => one("{$inc: {name: 1}}"),
            4 => format!(
                "{{update: 'parents', updates: [{{q: {{_id: {id}}}, u: {{{fields}}}, upsert: true}}]}}"
            ),
            5 => format!("{{delete: 'parents', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"),
            6 => "{update: 'parents', updates: [{q: {}, u: {$inc: {name: 1}}, multi: true}]}"
                .to_owned(),
            7 => one("{$unset: {region: 1}}"),
            8 => one(&format!("{{$set: {{code: {}}}}}", self.below(9))),
            9 => one("[{$set: {region: {$mod: [{$add: ['$name', 1]}, 5]}}}]"),
            _ => one("{$rename: {region: 'was'}, $max: {name: 50}}"),
        }
    }

    fn node(&mut self) -> String {
        let id = self.below(NODES);
        let (label, at, shop) = (self.below(50), self.below(3), self.below(8) / 7);
        // Without a tree only what cannot make a cycle.
        let below = if id == 0 { "null".to_owned() } else { self.below(id).to_string() };
        let any = self.below(NODES);
        let moved = |set: &str| {
            format!(
                "{{update: 'nodes', updates: [{{q: {{_id: {id}, up: {{$exists: true}}}}, u: {set}}}]}}"
            )
        };
        let one = |u: &str| format!("{{update: 'nodes', updates: [{{q: {{_id: {id}}}, u: {u}}}]}}");
        match self.below(11) {
            0..=3 => format!(
                "{{insert: 'nodes', documents: [{{_id: {id}, parent: {below}, label: 'l{label}', at: {at}, shop: {shop}}}]}}"
            ),
            4 => moved(&format!("{{$set: {{parent: {any}}}}}")),
            5 => one(&format!("{{$set: {{label: 'l{label}', at: {at}}}}}")),
            6 => one("{$set: {parent: null}}"),
            7 => one(&format!("{{$set: {{shop: {shop}}}}}")),
            8 => moved(&format!(
                "[{{$set: {{parent: {{$cond: [{{$eq: ['$_id', {any}]}}, null, {any}]}}}}}}]"
            )),
            9 => format!(
                "{{update: 'nodes', updates: [{{q: {{parent: {any}}}, u: {{$set: {{at: {at}}}}}, multi: true}}]}}"
            ),
            _ => format!("{{delete: 'nodes', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"),
        }
    }
}
