//! Random writes of one client: every operator and way to write, alone and in transactions.

use crate::random::Random;
use crate::session::{Outcome, Session};

const PARENTS: u64 = 6;
const CHILDREN: u64 = 40;
const NODES: u64 = 14;

/// A client that writes.
pub(crate) struct Writer {
    random: Random,
}

impl Writer {
    pub(crate) fn new(seed: u64) -> Writer {
        Writer { random: Random::new(seed) }
    }

    /// Writes once: a statement, or a transaction of several. Returns what it did.
    pub(crate) fn step(&mut self, session: &mut Session) -> String {
        if self.random.below(6) != 0 {
            let text = self.statement();
            session.run(&text);
            return text;
        }
        session.begin();
        let mut done = Vec::new();
        for _ in 0..=self.random.below(4) {
            let text = self.statement();
            let outcome = session.run(&text);
            done.push(text);
            if matches!(outcome, Outcome::Refused(_)) {
                session.end(false);
                return format!("{}; refused", done.join("; "));
            }
        }
        let commit = self.random.below(4) != 0;
        let committed = session.end(commit);
        format!("{}; committed: {committed}", done.join("; "))
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
        match self.below(8) {
            0 => "null".to_owned(),
            1 => format!("[{a}, {b}, {a}]"),
            2 => "[]".to_owned(),
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

    fn child_fields(&mut self) -> String {
        let mut fields = Vec::new();
        if self.below(10) != 0 {
            fields.push(format!("p: {}", self.reference()));
        }
        if self.below(8) != 0 {
            fields.push(format!("x: {}", self.x()));
        }
        if self.below(6) != 0 {
            fields.push(format!("k: {}", self.below(4)));
        }
        let ok = self.pick(&["true", "true", "false"]);
        fields.push(format!("ok: {ok}"));
        if self.below(8) == 0 {
            // Values that belong to the database, if a pattern says so.
            fields.push("carried: true, d: {twice: 77}, copy: {name: 77}".to_owned());
        }
        fields.join(", ")
    }

    fn parent_fields(&mut self) -> String {
        let mut fields = format!("name: {}", self.below(100));
        if self.below(3) != 0 {
            fields.push_str(&format!(", region: {}", self.below(5)));
        }
        if self.below(8) == 0 {
            fields.push_str(", carried: true, f: {n: 77, s: 3}, top: [1], per: 8");
        }
        fields
    }

    fn statement(&mut self) -> String {
        match self.below(10) {
            0..=4 => self.child(),
            5..=6 => self.parent(),
            _ => self.node(),
        }
    }

    fn child(&mut self) -> String {
        let id = self.below(CHILDREN);
        let fields = self.child_fields();
        let update = |q: String, u: String, more: &str| {
            format!("{{update: 'children', updates: [{{q: {q}, u: {u}{more}}}]}}")
        };
        match self.below(18) {
            0..=3 => format!("{{insert: 'children', documents: [{{_id: {id}, {fields}}}]}}"),
            4 => {
                let others: Vec<String> = (0..5)
                    .map(|_| format!("{{_id: {}, {}}}", self.below(CHILDREN), self.child_fields()))
                    .collect();
                format!("{{insert: 'children', ordered: false, documents: [{}]}}", others.join(", "))
            }
            5 => update(format!("{{_id: {id}}}"), format!("{{{fields}}}"), ", upsert: true"),
            6 => {
                let p = self.reference();
                update(format!("{{_id: {id}}}"), format!("{{$set: {{p: {p}}}}}"), "")
            }
            7 => {
                let x = self.x();
                update(format!("{{_id: {id}}}"), format!("{{$set: {{x: {x}}}}}"), ", upsert: true")
            }
            8 => update(format!("{{_id: {id}, x: {{$type: 'number'}}}}"), "{$inc: {x: 1}}".to_owned(), ""),
            9 => {
                let k = self.below(4);
                update(format!("{{k: {k}}}"), "{$set: {ok: true}, $inc: {touched: 1}}".to_owned(), ", multi: true")
            }
            10 => {
                let (k, to) = (self.below(4), self.below(PARENTS));
                update(format!("{{k: {k}}}"), format!("{{$set: {{p: {to}}}}}"), ", multi: true")
            }
            11 => update(format!("{{_id: {id}}}"), "{$unset: {p: 1}, $rename: {k: 'old'}}".to_owned(), ""),
            12 => update(
                format!("{{_id: {id}}}"),
                "[{$set: {ok: {$not: ['$ok']}, x: {$cond: [{$isNumber: '$x'}, {$subtract: ['$x', 2]}, 1]}}}]".to_owned(),
                "",
            ),
            13 => {
                let p = self.below(PARENTS);
                update(format!("{{_id: {id}, p: {{$type: 'array'}}}}"), format!("{{$push: {{p: {p}}}}}"), "")
            }
            14 => format!("{{delete: 'children', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"),
            15 => {
                let k = self.below(4);
                format!("{{delete: 'children', deletes: [{{q: {{k: {k}, _id: {{$gt: {id}}}}}, limit: 0}}]}}")
            }
            16 => {
                let remove = self.below(3) == 0;
                let what = if remove { "remove: true".to_owned() } else { format!("update: {{$set: {{{fields}}}}}, upsert: true") };
                // An operator that names what a pattern maintains is refused.
                format!("{{findAndModify: 'children', query: {{_id: {id}}}, {what}}}")
            }
            _ => format!(
                "{{update: 'children', ordered: false, updates: [{{q: {{_id: {id}}}, u: {{$mul: {{touched: 2}}}}}}, {{q: {{_id: {}}}, u: {{{fields}}}}}, {{q: {{_id: {}}}, u: {{$max: {{x: 5}}}}}}]}}",
                self.below(CHILDREN),
                self.below(CHILDREN)
            ),
        }
    }

    fn parent(&mut self) -> String {
        let id = self.below(PARENTS);
        let fields = self.parent_fields();
        match self.below(8) {
            0..=2 => format!("{{insert: 'parents', documents: [{{_id: {id}, {fields}}}]}}"),
            3 => format!(
                "{{update: 'parents', updates: [{{q: {{_id: {id}}}, u: {{$inc: {{name: 1}}}}}}]}}"
            ),
            4 => format!(
                "{{update: 'parents', updates: [{{q: {{_id: {id}}}, u: {{{fields}}}, upsert: true}}]}}"
            ),
            5 => format!("{{delete: 'parents', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"),
            6 => "{update: 'parents', updates: [{q: {}, u: {$inc: {name: 1}}, multi: true}]}"
                .to_owned(),
            _ => format!(
                "{{update: 'parents', updates: [{{q: {{_id: {id}}}, u: {{$unset: {{region: 1}}}}}}]}}"
            ),
        }
    }

    fn node(&mut self) -> String {
        let id = self.below(NODES);
        let label = self.below(50);
        // Without a tree only what cannot make a cycle.
        let below = if id == 0 { "null".to_owned() } else { self.below(id).to_string() };
        let any = self.below(NODES);
        match self.below(7) {
            0..=2 => format!(
                "{{insert: 'nodes', documents: [{{_id: {id}, parent: {below}, label: 'l{label}'}}]}}"
            ),
            3 => format!(
                "{{update: 'nodes', updates: [{{q: {{_id: {id}, up: {{$exists: true}}}}, u: {{$set: {{parent: {any}}}}}}}]}}"
            ),
            4 => format!(
                "{{update: 'nodes', updates: [{{q: {{_id: {id}}}, u: {{$set: {{label: 'l{label}'}}}}}}]}}"
            ),
            5 => format!(
                "{{update: 'nodes', updates: [{{q: {{_id: {id}}}, u: {{$set: {{parent: null}}}}}}]}}"
            ),
            _ => format!("{{delete: 'nodes', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"),
        }
    }
}
