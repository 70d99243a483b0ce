//! Random writes to a collection with types, through the collection and through the views of its types,
//! against a model in plain Rust: which writes are refused and with which code, what is stored, what the
//! views and indexes find, and what is counted. `PATTERNS_SEED=7` repeats a run.

mod harness;

use harness::{Dice, Server, whole};
use motifdb::value::{DocBuf, Val, ejson};
use std::collections::BTreeMap;

/// A document: its type and its numbers, by field.
#[derive(Clone, PartialEq, Debug, Default)]
struct Doc {
    kind: Option<String>,
    fields: BTreeMap<&'static str, i64>,
}

const FIELDS: [&str; 3] = ["x", "y", "z"];
const NAMES: [&str; 3] = ["a", "b", "other"];

const DECLARATION: &str = "{name: 'types', kind: 'polymorphic', discriminator: 'kind',
    types: {a: {required: ['x'], indexes: [{x: 1}]},
            b: {required: ['y'], properties: {y: {minimum: 0}}, indexes: [{y: 1}]}},
    infer: [{if: {x: {$gte: 3}}, then: 'a'}], transitions: {allow: [['a', 'b']]}, views: true}";

impl Doc {
    fn text(&self, id: i64) -> String {
        let kind = self.kind.as_ref().map(|kind| format!(", kind: '{kind}'"));
        let fields = self.fields.iter().map(|(name, value)| format!(", {name}: {value}"));
        format!("{{_id: {id}{}{}}}", kind.unwrap_or_default(), fields.collect::<String>())
    }

    /// The same as a document, with its fields in the order of their names.
    fn of(doc: &DocBuf) -> (i64, Doc) {
        let mut found = Doc::default();
        let mut id = -1;
        for (name, value) in doc.as_doc() {
            match (name, value.get()) {
                ("_id", value) => id = value.as_i64_exact().expect("a number"),
                ("kind", Val::String(kind)) => found.kind = Some(kind.to_owned()),
                (name, value) => {
                    let field = FIELDS.iter().find(|field| **field == name).expect("a known field");
                    found.fields.insert(field, value.as_i64_exact().expect("a number"));
                }
            }
        }
        (id, found)
    }

    fn is_valid(&self) -> bool {
        match self.kind.as_deref() {
            Some("a") => self.fields.contains_key("x"),
            Some("b") => self.fields.get("y").is_some_and(|y| *y >= 0),
            _ => false,
        }
    }

    fn is_declared(&self) -> bool {
        matches!(self.kind.as_deref(), Some("a" | "b"))
    }
}

/// What becomes of a written document: the image, or the code of the refusal.
fn written(before: Option<&Doc>, mut after: Doc) -> Result<Doc, i64> {
    if let Some(before) = before
        && before.is_declared()
        && after.is_declared()
        && before.kind != after.kind
    {
        if before.kind.as_deref() != Some("a") && before.is_valid() {
            return Err(96001);
        }
        after.fields.remove(if before.kind.as_deref() == Some("a") { "x" } else { "y" });
    }
    let stays = before.is_some_and(|before| before.kind == after.kind && !before.is_valid());
    if after.is_valid() || stays { Ok(after) } else { Err(121) }
}

fn random_doc(dice: &mut Dice) -> Doc {
    let mut doc = Doc::default();
    if dice.below(6) != 0 {
        doc.kind = Some(dice.pick(&NAMES).to_owned());
    }
    for field in FIELDS {
        if dice.below(2) == 0 {
            doc.fields.insert(field, dice.below(7) as i64 - 1);
        }
    }
    doc
}

type Model = BTreeMap<i64, Doc>;

/// One random write, on the server and the model.
fn step(server: &Server, dice: &mut Dice, model: &mut Model) {
    let view = ["", "a", "b"][dice.below(3) as usize];
    let name = if view.is_empty() { "docs".to_owned() } else { format!("docs.{view}") };
    let id = dice.below(30) as i64;
    let shown = |doc: &Doc| view.is_empty() || doc.kind.as_deref() == Some(view);
    let wrong = |doc: &Doc| !shown(doc);
    match dice.below(7) {
        0 | 1 => {
            let doc = random_doc(dice);
            let text = format!("{{insert: '{name}', documents: [{}]}}", doc.text(id));
            let mut image = doc;
            if image.kind.is_none() && !view.is_empty() {
                image.kind = Some(view.to_owned());
            }
            let outcome = if wrong(&image) { Err(96001) } else { written(None, image) };
            let expected = match outcome {
                Err(code) => code,
                Ok(_) if model.contains_key(&id) => 11000,
                Ok(image) => {
                    model.insert(id, image);
                    0
                }
            };
            assert_eq!(server.code(&text), expected, "{text}");
        }
        2 => {
            let text = format!("{{delete: '{name}', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}");
            let goes = model.get(&id).is_some_and(shown);
            assert_eq!(whole(&server.run(&text), "n"), i64::from(goes), "{text}");
            if goes {
                model.remove(&id);
            }
        }
        3 => {
            // All documents of a view, or all that an index finds, in a way that is never refused.
            let (least, z) = (dice.below(6) as i64, dice.below(7) as i64);
            let text = format!(
                "{{update: '{name}', updates: [{{q: {{x: {{$gte: {least}}}}}, u: {{$set: {{z: {z}}}}}, multi: true}}]}}"
            );
            let mut count = 0;
            for doc in model.values_mut().filter(|doc| shown(doc)) {
                if doc.fields.get("x").is_some_and(|x| *x >= least) {
                    doc.fields.insert("z", z);
                    count += 1;
                }
            }
            assert_eq!(whole(&server.run(&text), "n"), count, "{text}");
        }
        4 => {
            let doc = random_doc(dice);
            let text = format!(
                "{{update: '{name}', updates: [{{q: {{_id: {id}}}, u: {}}}]}}",
                doc.text(id)
            );
            change(server, model, &text, id, view, |_| {
                let mut image = doc.clone();
                if image.kind.is_none() && !view.is_empty() {
                    image.kind = Some(view.to_owned());
                }
                image
            });
        }
        _ => {
            let mut sets = Vec::new();
            let mut unsets = Vec::new();
            for field in ["x", "y"] {
                match dice.below(5) {
                    0 => unsets.push(field),
                    1 | 2 => sets.push((field, dice.below(7) as i64 - 1)),
                    _ => {}
                }
            }
            let kind = (dice.below(2) == 0).then(|| dice.pick(&NAMES).to_owned());
            let mut list: Vec<String> =
                sets.iter().map(|(field, value)| format!("{field}: {value}")).collect();
            list.extend(kind.as_ref().map(|kind| format!("kind: '{kind}'")));
            list.push("z: 5".to_owned());
            let removed: Vec<String> = unsets.iter().map(|field| format!("{field}: 1")).collect();
            let removed = match removed.is_empty() {
                true => String::new(),
                false => format!(", $unset: {{{}}}", removed.join(", ")),
            };
            let text = format!(
                "{{update: '{name}', updates: [{{q: {{_id: {id}}}, u: {{$set: {{{}}}{removed}}}}}]}}",
                list.join(", ")
            );
            change(server, model, &text, id, view, |before| {
                let mut image = before.clone();
                for (field, value) in &sets {
                    image.fields.insert(field, *value);
                }
                image.fields.insert("z", 5);
                for field in &unsets {
                    image.fields.remove(field);
                }
                image.kind = kind.clone().or(image.kind);
                image
            });
        }
    }
}

/// Runs an update of one document on the server, and on the model.
fn change(
    server: &Server,
    model: &mut Model,
    text: &str,
    id: i64,
    view: &str,
    image: impl Fn(&Doc) -> Doc,
) {
    let shown = |doc: &Doc| view.is_empty() || doc.kind.as_deref() == Some(view);
    let Some(before) = model.get(&id).filter(|doc| shown(doc)) else {
        assert_eq!(whole(&server.run(text), "n"), 0, "{text}");
        return;
    };
    let after = image(before);
    // What does not change is not checked.
    let outcome = match shown(&after) {
        _ if after == *before => Ok(after),
        false => Err(96001),
        true => written(Some(before), after),
    };
    assert_eq!(server.code(text), *outcome.as_ref().err().unwrap_or(&0), "{text}: {before:?}");
    if let Ok(image) = outcome {
        model.insert(id, image);
    }
}

fn found(server: &Server, name: &str, filter: &str) -> Model {
    let text = format!("{{find: '{name}', filter: {filter}, batchSize: 1000}}");
    server.docs(&text).iter().map(Doc::of).collect()
}

fn chosen(model: &Model, choose: impl Fn(&Doc) -> bool) -> Model {
    model.iter().filter(|(_, doc)| choose(doc)).map(|(id, doc)| (*id, doc.clone())).collect()
}

fn compare(server: &Server, dice: &mut Dice, model: &Model) {
    assert_eq!(found(server, "docs", "{}"), *model);
    for kind in ["a", "b"] {
        let of_kind = chosen(model, |doc| doc.kind.as_deref() == Some(kind));
        assert_eq!(found(server, &format!("docs.{kind}"), "{}"), of_kind, "{kind}");
        let text = format!("{{count: 'docs', query: {{kind: '{kind}'}}}}");
        assert_eq!(whole(&server.run(&text), "n"), of_kind.len() as i64);
    }
    let least = dice.below(7) as i64 - 1;
    for field in ["x", "y"] {
        let above = |doc: &Doc| doc.fields.get(field).is_some_and(|value| *value >= least);
        let filter = format!("{{{field}: {{$gte: {least}}}}}");
        assert_eq!(found(server, "docs", &filter), chosen(model, above), "{filter}");
        let missing = |doc: &Doc| !doc.fields.contains_key(field);
        assert_eq!(found(server, "docs", &format!("{{{field}: null}}")), chosen(model, missing));
    }
    let listed = server.pattern("docs");
    for kind in ["a", "b"] {
        let count = model.values().filter(|doc| doc.kind.as_deref() == Some(kind)).count();
        let path = format!("types.{kind}.documents");
        assert_eq!(whole(&listed, &path), count as i64, "{kind}: {listed:?}");
    }
    let unresolved = model.values().filter(|doc| !doc.is_valid()).count();
    assert_eq!(whole(&listed, "unresolved"), unresolved as i64, "{listed:?}");
}

#[test]
fn a_collection_with_types_is_like_its_model() {
    let seed = std::env::var("PATTERNS_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("PATTERNS_SEED={seed}");
    for run in 0..6 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut server = Server::on(folder.path());
        let mut dice = Dice(seed.wrapping_mul(6) + run);
        let mut model = Model::new();
        for id in 0..25 {
            let doc = random_doc(&mut dice);
            server.run(&format!("{{insert: 'docs', documents: [{}]}}", doc.text(id)));
            model.insert(id, doc);
        }
        // The rule must tell documents from others.
        let more = "{_id: 100, kind: 'a', x: 5}, {_id: 101, kind: 'b', y: 5}";
        server.run(&format!("{{insert: 'docs', documents: [{more}]}}"));
        for text in ["{_id: 100, kind: 'a', x: 5}", "{_id: 101, kind: 'b', y: 5}"] {
            model.extend([Doc::of(&ejson::parse_doc(text).expect("test text"))]);
        }
        server.run(&format!("{{createPatterns: 'docs', patterns: [{DECLARATION}]}}"));
        for doc in model.values_mut() {
            if doc.kind.is_none() && doc.fields.get("x").is_some_and(|x| *x >= 3) {
                doc.kind = Some("a".to_owned());
            }
        }
        compare(&server, &mut dice, &model);
        for number in 0..150 {
            step(&server, &mut dice, &mut model);
            if number % 5 == 0 {
                compare(&server, &mut dice, &model);
            }
        }
        server.verify("docs");
        server.close();
        server = Server::on(folder.path());
        compare(&server, &mut dice, &model);
        server.verify("docs");
    }
}
