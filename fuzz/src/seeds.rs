//! Makes first inputs and dictionaries: inputs from the test cases in `tests/spec`, dictionaries from
//! the registries of commands, stages and operators.
//!
//!     seeds FOLDER     writes FOLDER/TARGET/NAME and FOLDER/TARGET.dict
//!
//! `scripts/fuzz seeds` runs it and keeps of the inputs those that reach something new.

use motif_fuzz::text;
use spec::file::{Action, Setup, SpecFile, read_all};
use spec::text::Names;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use value::{DocBuf, RawDoc, Val, ejson};

/// Longer inputs are left to chance.
const BYTES_MAX: usize = 3000;

type Seeds = BTreeMap<&'static str, Vec<Vec<u8>>>;

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("the folder to write to"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/spec");
    let files = read_all(&root).expect("the test cases are readable");
    let mut seeds = Seeds::new();
    for file in &files {
        collect(file, &mut seeds);
    }
    seeds.insert("compressed", compressed());
    for (target, inputs) in &seeds {
        let place = folder.join(target);
        std::fs::create_dir_all(&place).expect("a folder");
        let inputs = inputs.iter().filter(|input| input.len() <= BYTES_MAX);
        for (number, input) in inputs.enumerate() {
            std::fs::write(place.join(format!("{number:05}")), input).expect("a seed is written");
        }
    }
    for target in ["ejson", "filter", "update", "pipeline", "pattern", "command"] {
        std::fs::write(folder.join(format!("{target}.dict")), dictionary(target))
            .expect("a dictionary is written");
    }
}

/// The inputs that the cases of a file make.
fn collect(file: &SpecFile, seeds: &mut Seeds) {
    let names = Names {
        database: "fuzz".to_owned(),
        cursor: 1,
        session: "00112233445566778899aabbccddeeff".to_owned(),
    };
    let read = |text: &str| ejson::parse_doc(&names.fill(text)).ok();
    let mut add = |target, documents: &[DocBuf]| {
        let input = text::print(documents).into_bytes();
        // What cannot be read back is of no use.
        if text::documents(&input).is_some_and(|read| !read.is_empty()) {
            seeds.entry(target).or_default().push(input);
        }
    };
    let setup: Vec<DocBuf> = file.setup.iter().filter_map(|setup| insert(setup, &names)).collect();
    for test in &file.tests {
        let mut commands = setup.clone();
        for step in &test.steps {
            match &step.action {
                Action::Setup(setup) => commands.extend(insert(setup, &names)),
                Action::Run(text) => commands.extend(read(text)),
                Action::Match(text) => {
                    if let Some(filter) = read(text) {
                        add("filter", &[filter]);
                    }
                }
                Action::Update(text) => {
                    let statement = read(&format!("{{q: {{}}, u: {text}, multi: true}}"));
                    if let Some(statement) = statement {
                        add("update", &[statement]);
                    }
                }
                Action::Eval(text) => {
                    let expression = text.split(" on {").next().unwrap_or(text);
                    if let Some(stage) = read(&format!("{{$project: {{v: {expression}}}}}")) {
                        add("pipeline", &[stage]);
                    }
                }
            }
        }
        for command in &commands {
            let command = command.as_doc();
            if let Some(Val::Document(filter)) =
                command.get("filter").or_else(|| command.get("query"))
            {
                add("filter", &[DocBuf::from_bytes(filter.bytes().to_vec())]);
            }
            if command.find("aggregate").is_some() {
                add("pipeline", &documents(command.get("pipeline")));
            }
            if command.find("update").is_some() {
                add("update", &documents(command.get("updates")));
            }
        }
        let is_pattern = |command: &DocBuf| command.as_doc().find("createPatterns").is_some();
        if commands.iter().any(is_pattern) {
            add("pattern", &commands);
        }
        add("command", commands.get(setup.len()..).unwrap_or(&[]));
    }
    let bytes: Vec<DocBuf> = file
        .tests
        .iter()
        .flat_map(|test| &test.steps)
        .filter_map(|step| match &step.action {
            Action::Run(text) => read(text),
            _ => None,
        })
        .collect();
    for command in &bytes {
        seeds.entry("bson").or_default().push(command.bytes().to_vec());
        seeds.entry("wire").or_default().push(frame(command.as_doc()));
        let text = text::print(std::slice::from_ref(command));
        seeds.entry("ejson").or_default().push(text.into_bytes());
    }
}

/// The command that a preparation is.
fn insert(setup: &Setup, names: &Names) -> Option<DocBuf> {
    match setup {
        Setup::Data { collection, body } => {
            let rows: Vec<&str> = body.lines().collect();
            let text = format!("{{insert: '{collection}', documents: [{}]}}", rows.join(", "));
            ejson::parse_doc(&names.fill(&text)).ok()
        }
        Setup::Index { collection, body } => {
            let key = body.split_inclusive('}').next()?;
            let text =
                format!("{{createIndexes: '{collection}', indexes: [{{key: {key}, name: 'i'}}]}}");
            ejson::parse_doc(&text).ok()
        }
    }
}

fn documents(list: Option<Val<'_>>) -> Vec<DocBuf> {
    let Some(Val::Array(list)) = list else { return Vec::new() };
    let documents = list.iter().filter_map(|(_, value)| value.as_doc());
    documents.map(|doc| DocBuf::from_bytes(doc.bytes().to_vec())).collect()
}

/// How many bytes arrive at a time, then an `OP_MSG` with the command.
fn frame(command: RawDoc<'_>) -> Vec<u8> {
    let body = DocBuf::build(|out| {
        out.extend(command).str("$db", "fuzz");
    });
    let length = i32::try_from(16 + 4 + 1 + body.bytes().len()).expect("small");
    let mut input = vec![100];
    for number in [length, 1, 0, 2013, 0] {
        input.extend_from_slice(&number.to_le_bytes());
    }
    input.push(0);
    input.extend_from_slice(body.bytes());
    input
}

/// Contents of compressed messages: what a server would send, without the header in front.
fn compressed() -> Vec<Vec<u8>> {
    let texts = ["{ping: 1}", "{find: 'items', filter: {a: {$gt: 1}}}"];
    let mut all = Vec::new();
    for text in texts {
        let command = ejson::parse_doc(text).expect("readable");
        let message = frame(command.as_doc()).split_off(1);
        for number in 0..4 {
            all.extend(server::fuzzing::packed(&message, number));
            all.extend(server::fuzzing::packed(&message.repeat(20), number));
        }
    }
    all
}

/// Words that libFuzzer puts into inputs.
fn dictionary(target: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for entry in motifdb::registry() {
        let wanted = match entry.kind {
            "command" => target == "command" || target == "pattern",
            "stage" => matches!(target, "pipeline" | "command" | "update"),
            "filter operator" => target != "ejson",
            "update operator" => matches!(target, "update" | "command" | "pattern"),
            _ => matches!(target, "pipeline" | "command" | "update" | "pattern" | "filter"),
        };
        if wanted {
            words.push(entry.name.to_owned());
        }
    }
    let wrappers = [
        "$oid",
        "$date",
        "$numberInt",
        "$numberLong",
        "$numberDouble",
        "$numberDecimal",
        "$binary",
        "$regularExpression",
        "$timestamp",
        "$minKey",
        "$maxKey",
        "$undefined",
        "$symbol",
        "$code",
        "$scope",
        "$dbPointer",
        "$uuid",
        "ObjectId(",
        "ISODate(",
        "NumberLong(",
        "NumberDecimal(",
        "UUID(",
        "BinData(",
        "Timestamp(",
        "MinKey",
        "MaxKey",
        "Infinity",
        "NaN",
        "true",
        "null",
    ];
    words.extend(wrappers.map(str::to_owned));
    words.sort();
    words.dedup();
    let mut text = String::from("# Made from the registries by `scripts/fuzz seeds`.\n");
    for word in words {
        writeln!(text, "\"{word}\"").expect("text grows");
    }
    text
}
