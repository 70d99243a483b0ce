//! A collection with a shape against a model: two plain collections, one for the documents in each
//! form. A statement of a reader runs on the shaped collection and on the plain one of its form, and
//! the replies agree. After a write, the other plain collection gets the converted documents.

use super::harness::{Dice, Server, print, within};
use super::{SHAPE, all, connect, cursor, events, outcome, run};
use motifdb::Client;
use motifdb::value::{DocBuf, OwnedVal, RawDoc, RawVal, Val, ejson};
use std::collections::BTreeMap;

/// Declarations: the shape alone, and above layouts.
const STACKS: [&str; 4] = [
    "",
    ", STORED OLDER",
    ", {name: 'apart', kind: 'testApart', field: 'name'}",
    ", {name: 'apart', kind: 'testApart', field: 'a'}, {name: 'chunks', kind: 'testChunks'}",
];

/// One of the two forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Old,
    New,
}

impl Form {
    /// The name of the field that differs, and the name that it has in the other form.
    fn names(self) -> [&'static str; 2] {
        match self {
            Form::Old => ["full", "name"],
            Form::New => ["name", "full"],
        }
    }

    fn other(self) -> Form {
        match self {
            Form::Old => Form::New,
            Form::New => Form::Old,
        }
    }
}

/// Documents by the text of their `_id`s.
type Documents = BTreeMap<String, DocBuf>;

struct Trial {
    shaped: Server,
    /// The plain collections of the old and of the new form.
    models: [Server; 2],
    /// Clients of the shaped collection, of the models, in the order of the forms.
    readers: [Client; 2],
    plain: [Client; 2],
    /// Whether the old reader is known by the field of its commands, not by its application.
    pins: bool,
    log: Vec<String>,
    transactions: i64,
    moments: Vec<(Form, u64, Vec<DocBuf>)>,
}

/// A word pair of an object with further fields.
fn words(value: RawVal<'_>) -> Option<(String, Vec<(String, OwnedVal)>)> {
    let doc = value.as_doc()?;
    let fields: Vec<_> = doc.iter().collect();
    let [("first", first), ("last", last), rest @ ..] = fields.as_slice() else { return None };
    let (first, last) = (first.get().as_str()?, last.get().as_str()?);
    if first.is_empty() || last.is_empty() || first.contains(' ') || last.contains(' ') {
        return None;
    }
    let rest = rest.iter().map(|(name, value)| ((*name).to_owned(), OwnedVal::new(value.get())));
    Some((format!("{first} {last}"), rest.collect()))
}

/// The object of a text of two words.
fn object(text: &str, rest: &[(String, OwnedVal)]) -> Option<OwnedVal> {
    let parts: Vec<&str> = text.split(' ').collect();
    let [first, last] = parts.as_slice() else { return None };
    if first.is_empty() || last.is_empty() {
        return None;
    }
    let made = DocBuf::build(|out| {
        out.str("first", first).str("last", last);
        rest.iter().for_each(|(name, value)| {
            out.raw(name, value.raw());
        });
    });
    Some(OwnedVal::new(Val::Document(made.as_doc())))
}

/// A document in the other form. `before` is the new form of what an old reader changed.
fn convert(doc: &DocBuf, before: Option<&DocBuf>) -> DocBuf {
    DocBuf::build(|out| {
        for (name, value) in doc.as_doc() {
            let other = match name {
                "full" => "name",
                "name" => "full",
                _ => {
                    out.raw(name, value);
                    continue;
                }
            };
            let known = before.and_then(|before| words(before.as_doc().find(other)?));
            let rest = known.map_or_else(Vec::new, |(_, rest)| rest);
            let made = match value.get() {
                Val::String(text) => object(text, &rest),
                _ => words(value).map(|(text, _)| OwnedVal::new(Val::String(&text))),
            };
            match made {
                Some(made) => out.raw(other, made.raw()),
                None => out.raw(other, value),
            };
        }
    })
}

fn by_id(docs: Vec<DocBuf>) -> Documents {
    let id = |doc: &DocBuf| {
        let id = doc.as_doc().get("_id").unwrap_or(Val::Null);
        ejson::print_value(id, ejson::Format::Canonical)
    };
    docs.into_iter().map(|doc| (id(&doc), doc)).collect()
}

impl Trial {
    fn new(shaped: Server, models: [Server; 2], pins: bool) -> Trial {
        let readers = [connect(&shaped, if pins { "any" } else { "old" }), connect(&shaped, "new")];
        let plain = models.each_ref().map(|model| connect(model, "any"));
        let (log, moments) = (Vec::new(), Vec::new());
        Trial { shaped, models, readers, plain, pins, log, transactions: 0, moments }
    }

    fn create(&mut self, stack: &str) {
        let create = "{create: 'c', changeStreamPreAndPostImages: {enabled: true}, validator: {a: {$ne: 99}}}";
        let others: Vec<String> = (0..9)
            .map(|n| format!("{{_id: {n}, who: '{} {}', a: {n}}}", FIRST[n % 3], LAST[n % 4]))
            .collect();
        for server in [&self.shaped, &self.models[0], &self.models[1]] {
            server.run(create);
            server.run("{createIndexes: 'c', indexes: [{key: {u: 1}, name: 'u', unique: true, sparse: true}]}");
            server.run(&format!("{{insert: 'other', documents: [{}]}}", others.join(", ")));
        }
        let mut declared = format!("{SHAPE}{stack}");
        if let Some(shape) = declared.strip_suffix(", STORED OLDER") {
            declared = shape.replace("clients", "storedOlder: true, clients");
        }
        self.shaped.run(&format!("{{createPatterns: 'c', patterns: [{declared}]}}"));
        self.shaped.run("{create: 'p'}");
        self.shaped.run("{createPatterns: 'p', patterns: [{name: 'n', kind: 'computed', from: 'c', on: {foreign: 'a'}, onMissingParent: 'create', fields: {n: {$count: {}}, last: {$max: '$name.last'}}}]}");
    }

    /// The text of a command on the shaped collection.
    fn pinned(&self, form: Form, text: &str) -> String {
        match (form, self.pins) {
            (Form::Old, true) => format!("{{{text}, $schemaVersion: 1}}"),
            (Form::New, true) => format!("{{{text}, $schemaVersion: 2}}"),
            _ => format!("{{{text}}}"),
        }
    }

    /// Runs a command for a reader on both sides; the replies agree.
    fn run_in(&mut self, form: Form, db: &str, text: &str) -> String {
        self.log.push(format!("{form:?}: {text}"));
        let command = self.pinned(form, text);
        let shaped = outcome(&mut self.readers[form as usize], db, &command);
        let plain = outcome(&mut self.plain[form as usize], db, &format!("{{{text}}}"));
        if shaped != plain {
            let log = self.log.iter().rev().take(30).rev().cloned().collect::<Vec<_>>();
            panic!(
                "{form:?} {text}\nplain:  {plain}\nshaped: {shaped}\nafter:\n{}",
                log.join("\n")
            );
        }
        shaped
    }

    fn run(&mut self, form: Form, text: &str) -> String {
        self.run_in(form, "t", text)
    }

    /// Gives the other model what changed in the model of a form.
    fn follow(&mut self, form: Form, before: &Documents) {
        let now = by_id(all(&mut self.plain[form as usize]));
        let other = form.other();
        let known = by_id(all(&mut self.plain[other as usize]));
        let target = &self.models[other as usize];
        let delete = |id: &str| {
            target.run(&format!("{{delete: 'c', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"));
        };
        before.keys().filter(|id| !now.contains_key(*id)).for_each(|id| delete(id));
        // All changed documents are replaced, so that unique values may move between them.
        let changed: Vec<_> = now.iter().filter(|(id, doc)| before.get(*id) != Some(doc)).collect();
        changed.iter().filter(|(id, _)| known.contains_key(*id)).for_each(|(id, _)| delete(id));
        for (id, doc) in changed {
            let merged = known.get(id).filter(|_| form == Form::Old);
            let converted = print(convert(doc, merged).as_doc());
            target.run(&format!(
                "{{insert: 'c', documents: [{converted}], bypassDocumentValidation: true}}"
            ));
        }
    }

    fn write(&mut self, form: Form, dice: &mut Dice) {
        let before = by_id(all(&mut self.plain[form as usize]));
        let text = write(form, dice);
        self.run(form, &text);
        self.follow(form, &before);
    }

    fn transaction(&mut self, form: Form, dice: &mut Dice) {
        self.transactions += 1;
        let (number, session) = (self.transactions, 1 + form as u8);
        let before = by_id(all(&mut self.plain[form as usize]));
        for at in 0..=dice.below(5) {
            let text = if dice.below(3) == 0 { query(form, dice) } else { write(form, dice) };
            let reply = self.run(form, &format!("{text}{}", within(session, number, at == 0)));
            // Such a failure ends the transaction.
            if !reply.starts_with('{') || reply.contains("writeErrors") {
                break;
            }
        }
        let verb = if dice.below(3) == 0 { "abortTransaction" } else { "commitTransaction" };
        self.run_in(form, "admin", &format!("{verb}: 1{}", within(session, number, false)));
        self.follow(form, &before);
    }

    /// Remembers what is there, and reads what was there.
    fn past(&mut self, form: Form, dice: &mut Dice) {
        let find = "find: 'c', sort: {_id: 1}, batchSize: 1000";
        let text = self.pinned(form, find);
        let now = run(&mut self.readers[form as usize], &text);
        let Some(Val::Timestamp(time)) = now.as_doc().get("operationTime") else {
            panic!("no operation time");
        };
        self.moments.push((
            form,
            time,
            super::harness::batch(&now).into_iter().map(DocBuf::from).collect(),
        ));
        let (form, time, was) = &self.moments[dice.below(self.moments.len() as u64) as usize];
        let text = format!(
            "{find}, readConcern: {{level: 'snapshot', atClusterTime: Timestamp({}, {})}}",
            time >> 32,
            time & 0xFFFF_FFFF
        );
        let text = self.pinned(*form, &text);
        let found = super::docs(&mut self.readers[*form as usize], &text);
        assert_eq!(found, *was);
    }

    fn step(&mut self, dice: &mut Dice) {
        let form = if dice.below(2) == 0 { Form::Old } else { Form::New };
        match dice.below(30) {
            0 => {
                let index = indexes(dice);
                self.shaped.run(&format!("{{createIndexes: 'c', indexes: [{index}]}}"));
            }
            1 => {
                let name = dice.pick(&["a", "name", "first", "full", "u_name", "all", "part"]);
                self.shaped.code(&format!("{{dropIndexes: 'c', index: '{name}'}}"));
            }
            2 => self.transaction(form, dice),
            3 => self.past(form, dice),
            4..16 => self.write(form, dice),
            _ => {
                let text = query(form, dice);
                self.run(form, &text);
            }
        }
    }

    /// Both readers see what their models hold, and nothing contradicts anything.
    fn check(&mut self) {
        for form in [Form::Old, Form::New] {
            self.run(form, "find: 'c', sort: {_id: 1}, batchSize: 1000");
        }
        self.shaped.verify("c");
        self.shaped.verify("p");
    }

    /// Opens a change stream for a reader.
    fn watch(&mut self, form: Form) -> i64 {
        let text = self.pinned(form, "aggregate: 'c', pipeline: [{$changeStream: {fullDocument: 'required', fullDocumentBeforeChange: 'whenAvailable', showExpandedEvents: true}}], cursor: {}");
        cursor(&run(&mut self.readers[form as usize], &text))
    }

    /// A replica that only follows the events of a reader has the reader's documents.
    fn replay(&mut self, form: Form, stream: i64) {
        let mut docs: Documents = BTreeMap::new();
        let server = Server::new();
        let mut replica = connect(&server, "replica");
        let mut count = 0;
        for event in events(&mut self.readers[form as usize], stream) {
            let path = |path: &str| motifdb::value::path::Path::new(path);
            let key = path("documentKey._id").get(event.as_doc());
            let id = ejson::print_value(key, ejson::Format::Canonical);
            let kind = super::harness::text(&event, "operationType");
            if !matches!(kind, "insert" | "update" | "replace" | "delete") {
                continue;
            }
            count += 1;
            if kind != "insert" {
                let before = path("fullDocumentBeforeChange").get(event.as_doc());
                assert_eq!(before.as_doc().map(DocBuf::from).as_ref(), docs.get(&id), "{event:?}");
            }
            if kind == "delete" {
                docs.remove(&id);
                run(
                    &mut replica,
                    &format!("{{delete: 'c', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"),
                );
                continue;
            }
            let full = path("fullDocument").get(event.as_doc()).as_doc().expect("a document");
            docs.insert(id.clone(), full.into());
            let update = match kind {
                "update" => described(event.as_doc()),
                _ => vec![print(full)],
            };
            for update in update {
                run(
                    &mut replica,
                    &format!(
                        "{{update: 'c', updates: [{{q: {{_id: {id}}}, u: {update}, upsert: true}}]}}"
                    ),
                );
            }
        }
        assert!(count > 0);
        let seen = by_id(all(&mut self.plain[form as usize]));
        assert_eq!(docs, seen);
        // An update sets fields wherever they are.
        let sorted = |docs: Documents| -> Vec<BTreeMap<String, String>> {
            let fields = |doc: DocBuf| {
                let field = |(name, value): (&str, RawVal<'_>)| {
                    (name.to_owned(), ejson::print_value(value.get(), ejson::Format::Canonical))
                };
                doc.as_doc().iter().map(field).collect()
            };
            docs.into_values().map(fields).collect()
        };
        assert_eq!(sorted(by_id(all(&mut replica))), sorted(seen));
    }
}

/// The updates that an event describes.
fn described(event: RawDoc<'_>) -> Vec<String> {
    let description = event.get("updateDescription").and_then(Val::as_doc).expect("a description");
    let part = |name: &str| description.get(name).and_then(Val::as_array);
    let mut updates = Vec::new();
    for (_, cut) in part("truncatedArrays").unwrap_or(RawDoc::empty()) {
        let cut = cut.as_doc().expect("an array");
        let field = cut.get("field").and_then(Val::as_str).unwrap_or("");
        let size = cut.get("newSize").and_then(Val::as_i64_exact).unwrap_or(0);
        updates.push(format!("{{$push: {{'{field}': {{$each: [], $slice: {size}}}}}}}"));
    }
    if let Some(Val::Document(set)) = description.get("updatedFields")
        && !set.is_empty()
    {
        updates.push(format!("{{$set: {}}}", print(set)));
    }
    for (_, field) in part("removedFields").unwrap_or(RawDoc::empty()) {
        let field = field.get().as_str().unwrap_or("");
        updates.push(format!("{{$unset: {{'{field}': 1}}}}"));
    }
    updates
}

const FIRST: [&str; 3] = ["Ada", "Max", "Emmy"];
const LAST: [&str; 4] = ["Byron", "Born", "Noether", "King"];

fn pair(dice: &mut Dice) -> (&'static str, &'static str) {
    (dice.pick(&FIRST), dice.pick(&LAST))
}

fn value(dice: &mut Dice) -> String {
    match dice.below(7) {
        0 => "null".to_owned(),
        1 => format!("[{}, {}]", dice.below(5), dice.below(5)),
        2 => format!("{{c: {}}}", dice.below(5)),
        3 => "'one'".to_owned(),
        _ => format!("{}", dice.below(6)),
    }
}

/// A value of the field that differs, mostly one with two forms.
fn name(form: Form, dice: &mut Dice) -> String {
    let (first, last) = pair(dice);
    match (dice.below(8), form) {
        (0, _) => value(dice),
        (1, Form::Old) => format!("{{first: '{first}', last: '{last}'}}"),
        (_, Form::Old) | (1, Form::New) => format!("'{first} {last}'"),
        (2, Form::New) => format!("{{first: '{first}', last: '{last}', title: 'Dr'}}"),
        (_, Form::New) => format!("{{first: '{first}', last: '{last}'}}"),
    }
}

fn id(dice: &mut Dice) -> u64 {
    dice.below(40)
}

fn document(form: Form, dice: &mut Dice, id: Option<u64>) -> String {
    let mut fields: Vec<String> = id.into_iter().map(|id| format!("_id: {id}")).collect();
    let mut names = vec![form.names()[0], "a", "b", form.names()[1]];
    while !names.is_empty() {
        let field = names.remove(dice.below(names.len() as u64) as usize);
        match field {
            _ if field == form.names()[0] && dice.below(8) > 0 => {
                fields.push(format!("{field}: {}", name(form, dice)));
            }
            "a" | "b" if dice.below(4) > 0 => fields.push(format!("{field}: {}", value(dice))),
            _ if field == form.names()[1] && dice.below(8) == 0 => {
                fields.push(format!("{field}: {}", dice.below(3)));
            }
            _ => {}
        }
    }
    if dice.below(4) == 0 {
        fields.push(format!("u: {}", dice.below(20)));
    }
    format!("{{{}}}", fields.join(", "))
}

fn filter(form: Form, dice: &mut Dice) -> String {
    let [own, strange] = form.names();
    let (n, (first, last)) = (dice.below(6), pair(dice));
    let exact = name(form, dice);
    match dice.below(14) {
        0 => "{}".to_owned(),
        1 => format!("{{a: {n}}}"),
        2 => format!("{{{own}: {exact}}}"),
        3 => format!("{{{own}: {{$gte: {exact}}}}}"),
        4 => format!("{{{own}: /^{first}/}}"),
        5 => format!("{{'{own}.first': '{first}'}}"),
        6 => format!("{{'{own}.last': {{$in: ['{last}', null]}}, a: {{$gte: {n}}}}}"),
        7 => format!("{{a: {n}, {own}: {{$exists: true}}}}"),
        8 => format!("{{{strange}: {{$exists: true}}}}"),
        9 => format!("{{$or: [{{a: {n}}}, {{{own}: {exact}}}]}}"),
        10 => format!("{{_id: {{$gte: {n}, $lt: {}}}}}", n + 15),
        11 => format!("{{$expr: {{$eq: ['${own}', {{$literal: {exact}}}]}}}}"),
        12 => format!("{{'b.c': {n}}}"),
        _ => format!("{{_id: {}}}", id(dice)),
    }
}

/// An update that changes any document without an error.
fn update(form: Form, dice: &mut Dice) -> String {
    let [own, strange] = form.names();
    let (n, v, exact) = (dice.below(6), value(dice), name(form, dice));
    match dice.below(10) {
        0 | 1 => format!("{{$set: {{{own}: {exact}}}}}"),
        2 => format!("{{$set: {{a: {v}}}}}"),
        3 => format!("{{$unset: {{{own}: 1}}}}"),
        4 => format!("{{$set: {{b: {v}}}, $unset: {{{strange}: 1}}}}"),
        5 => format!("{{$min: {{a: {n}}}, $max: {{{own}: {exact}}}}}"),
        6 => format!("[{{$set: {{b: {{$type: '${own}'}}, {own}: {{$literal: {exact}}}}}}}]"),
        7 => "[{$set: {b: {$ifNull: ['$a', 'none']}}}, {$unset: 'a'}]".to_owned(),
        8 if form == Form::New => "{$rename: {name: 'full'}}".to_owned(),
        _ => format!("{{$setOnInsert: {{b: 1}}, $set: {{a: {n}}}}}"),
    }
}

/// An update that some documents refuse.
fn bold(form: Form, dice: &mut Dice) -> String {
    let own = form.names()[0];
    let n = dice.below(6);
    match dice.below(6) {
        0 => format!("{{$set: {{'{own}.first': 'Carl'}}}}"),
        1 => "{$inc: {a: 1}}".to_owned(),
        2 => format!("{{$push: {{b: {n}}}}}"),
        3 => format!("{{$set: {{u: {}}}}}", dice.below(20)),
        4 => "{$set: {a: 99}}".to_owned(),
        _ => format!("{{$set: {{{own}: 'refused'}}}}").replace("refused", "Carl G"),
    }
}

fn indexes(dice: &mut Dice) -> &'static str {
    dice.pick(&[
        "{key: {a: 1}, name: 'a'}",
        "{key: {name: 1}, name: 'name'}",
        "{key: {'name.first': 1}, name: 'first'}",
        "{key: {full: -1}, name: 'full'}",
        "{key: {u: 1, name: 1}, name: 'u_name'}",
        "{key: {'$**': 1}, name: 'all'}",
        "{key: {b: 1}, name: 'part', partialFilterExpression: {'name.first': 'Ada'}}",
    ])
}

/// A command that reads, without its braces.
fn query(form: Form, dice: &mut Dice) -> String {
    let own = form.names()[0];
    let f = filter(form, dice);
    let sort = match dice.below(4) {
        0 => "{_id: -1}".to_owned(),
        1 => format!("{{{own}: 1, _id: 1}}"),
        2 => "{a: -1, _id: 1}".to_owned(),
        _ => "{_id: 1}".to_owned(),
    };
    let fields = match dice.below(5) {
        0 => format!("{{{own}: 1, a: 1}}"),
        1 => format!("{{{own}: 0}}"),
        2 => format!("{{x: '${own}', a: 1}}"),
        3 => "{a: 1, _id: 0}".to_owned(),
        _ => "{}".to_owned(),
    };
    let (skip, limit) = (dice.below(4), dice.below(12));
    let pipeline = |stages: String| {
        format!(
            "aggregate: 'c', pipeline: [{{$match: {f}}}, {stages}], cursor: {{batchSize: 1000}}"
        )
    };
    match dice.below(14) {
        0..5 => format!(
            "find: 'c', filter: {f}, sort: {sort}, projection: {fields}, skip: {skip}, limit: {limit}, batchSize: 1000"
        ),
        5 => format!("count: 'c', query: {f}"),
        6 => "count: 'c'".to_owned(),
        7 => format!(
            "distinct: 'c', key: '{}', query: {f}",
            [own, "a", "name.first"][dice.below(3) as usize]
        ),
        8 => pipeline(format!(
            "{{$sort: {{_id: 1}}}}, {{$group: {{_id: '${own}', n: {{$sum: 1}}, all: {{$push: '$_id'}}}}}}, {{$sort: {{_id: 1}}}}"
        )),
        9 => pipeline(format!(
            "{{$group: {{_id: '$a', n: {{$sum: 1}}, least: {{$min: '${own}'}}}}}}, {{$sort: {{_id: 1}}}}"
        )),
        10 => pipeline("{$count: 'n'}".to_owned()),
        11 => {
            let on = [own, "a", "_id"][dice.below(3) as usize];
            let local = if on == own { "who" } else { "a" };
            format!(
                "aggregate: 'other', pipeline: [{{$sort: {{_id: 1}}}}, {{$lookup: {{from: 'c', localField: '{local}', foreignField: '{on}', pipeline: [{{$sort: {{_id: 1}}}}], as: 'found'}}}}], cursor: {{batchSize: 1000}}"
            )
        }
        12 => format!(
            "aggregate: 'other', pipeline: [{{$unionWith: {{coll: 'c', pipeline: [{{$match: {f}}}]}}}}, {{$sort: {{_id: 1, who: 1}}}}], cursor: {{batchSize: 1000}}"
        ),
        _ => format!(
            "aggregate: 'other', pipeline: [{{$sort: {{_id: 1}}}}, {{$graphLookup: {{from: 'c', startWith: '$who', connectFromField: 'who', connectToField: '{own}', as: 'g'}}}}, {{$project: {{n: {{$size: '$g'}}, least: {{$min: '$g.{own}'}}}}}}], cursor: {{batchSize: 1000}}"
        ),
    }
}

/// A command that writes, without its braces.
fn write(form: Form, dice: &mut Dice) -> String {
    let f = filter(form, dice);
    match dice.below(12) {
        0..4 => {
            let docs: Vec<String> = (0..=dice.below(4))
                .map(|_| {
                    let id = id(dice);
                    document(form, dice, Some(id))
                })
                .collect();
            let ordered = dice.below(2) == 0;
            format!("insert: 'c', documents: [{}], ordered: {ordered}", docs.join(", "))
        }
        4 | 5 => {
            let u = update(form, dice);
            format!("update: 'c', updates: [{{q: {f}, u: {u}, multi: true}}]")
        }
        6 => {
            let (id, u) = (id(dice), bold(form, dice));
            format!("update: 'c', updates: [{{q: {{_id: {id}}}, u: {u}}}]")
        }
        7 => {
            let (id, u, exact) = (id(dice), update(form, dice), name(form, dice));
            let own = form.names()[0];
            format!(
                "update: 'c', updates: [{{q: {{_id: {id}, {own}: {exact}}}, u: {u}}}, {{q: {{_id: {id}}}, u: {u}, upsert: true}}]"
            )
        }
        8 => {
            let (id, doc) = (id(dice), document(form, dice, None));
            format!("update: 'c', updates: [{{q: {{_id: {id}}}, u: {doc}, upsert: true}}]")
        }
        9 => {
            let (u, new, own) = (update(form, dice), dice.below(2) == 0, form.names()[0]);
            format!(
                "findAndModify: 'c', query: {f}, sort: {{{own}: 1, _id: 1}}, update: {u}, new: {new}"
            )
        }
        10 => format!("findAndModify: 'c', query: {f}, sort: {{_id: 1}}, remove: true"),
        _ => format!("delete: 'c', deletes: [{{q: {f}, limit: 0}}]"),
    }
}

fn steps() -> u64 {
    std::env::var("SHAPE_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(250)
}

fn seeds() -> u64 {
    std::env::var("SHAPE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

fn differential(mut trial: Trial, stack: &str, seed: u64) -> Trial {
    let mut dice = Dice(seed);
    trial.create(stack);
    let streams = [Form::Old, Form::New].map(|form| (form, trial.watch(form)));
    for at in 0..steps() {
        trial.step(&mut dice);
        if at % 50 == 49 {
            trial.check();
        }
    }
    trial.check();
    for (form, stream) in streams {
        trial.replay(form, stream);
    }
    trial
}

fn in_memory(pins: bool) -> Trial {
    Trial::new(Server::new(), [Server::new(), Server::new()], pins)
}

#[test]
fn readers_of_two_forms_agree_with_plain_collections() {
    for seed in 0..seeds() {
        differential(in_memory(seed % 2 == 0), STACKS[0], seed);
    }
}

#[test]
fn a_shape_stands_above_layouts() {
    for (at, stack) in STACKS.iter().enumerate().skip(1) {
        differential(in_memory(at == 1), stack, 500 + at as u64);
    }
}

#[test]
fn forms_outlive_the_process_and_end_with_the_pattern() {
    let folder = tempfile::tempdir().expect("a folder");
    let models = || [Server::new(), Server::new()];
    let trial =
        differential(Trial::new(Server::on(folder.path()), models(), false), STACKS[0], 900);
    let Trial { shaped, models, readers, plain, .. } = trial;
    drop((readers, plain));
    shaped.close();
    let mut trial = Trial::new(Server::on(folder.path()), models, false);
    // Sessions are known again, with their numbers.
    trial.transactions = 10_000;
    let mut dice = Dice(901);
    trial.check();
    for _ in 0..steps() / 3 {
        trial.step(&mut dice);
    }
    trial.check();
    let canonical = all(&mut trial.plain[Form::New as usize]);
    trial.shaped.run("{dropPatterns: 'c', names: ['names']}");
    assert_eq!(all(&mut trial.readers[Form::Old as usize]), canonical);
    assert_eq!(all(&mut trial.readers[Form::New as usize]), canonical);
}
