//! Commands about collections, indexes and databases, with and without transactions. A round runs the
//! same commands on both sides and compares their results and the events of change streams.

use super::compare::Side;
use super::random::Random;
use crate::text;
use value::{DocBuf, RawDoc, RawVal, Result, Val, Writer, writer};

/// The commands of a round, as text. `<1>` and `<2>` stand for the two databases.
#[must_use]
pub fn commands(random: &mut Random) -> Vec<String> {
    let mut all = Vec::new();
    // Since MongoDB 7.1 indexes of capped collections can expire documents, so no round has both.
    let capped = random.chance(50);
    for number in 1..=3 + random.below(7) {
        if random.chance(25) {
            transaction(random, number, capped, &mut all);
        } else {
            all.push(command(random, capped));
        }
    }
    all
}

fn place(random: &mut Random) -> (&'static str, &'static str) {
    (random.pick(&["a", "b"]), random.pick(&["<1>", "<1>", "<2>"]))
}

fn document(random: &mut Random) -> String {
    format!("{{_id: {}, x: {}}}", random.below(1000), random.below(5))
}

fn index(random: &mut Random, capped: bool) -> String {
    let field = random.pick(&["x", "y"]);
    let option = random.pick(&[
        "",
        "",
        "",
        ", sparse: true",
        ", unique: true",
        ", hidden: true",
        ", partialFilterExpression: {x: {$gt: 1}}",
        ", collation: {locale: \"fr\"}",
        ", expireAfterSeconds: 3600",
    ]);
    let option = if capped && option.contains("expire") { "" } else { option };
    format!("{{key: {{{field}: 1}}, name: \"{field}\"{option}}}")
}

fn command(random: &mut Random, capped: bool) -> String {
    let (name, db) = place(random);
    match random.below(19) {
        0 => format!("{{drop: \"{name}\", $db: \"{db}\"}}"),
        1 => {
            let options = random.pick(&[
                "",
                ", capped: true, size: 4096",
                ", collation: {locale: \"fr\"}",
                ", validator: {x: {$gte: 0}}",
                ", clusteredIndex: {key: {_id: 1}, unique: true}",
                ", changeStreamPreAndPostImages: {enabled: true}",
            ]);
            let options = if !capped && options.contains("capped") { "" } else { options };
            format!("{{create: \"{name}\"{options}, $db: \"{db}\"}}")
        }
        2 | 3 => {
            let index = index(random, capped);
            format!("{{createIndexes: \"{name}\", indexes: [{index}], $db: \"{db}\"}}")
        }
        4 => {
            let which = random.pick(&["\"x\"", "\"y\"", "\"*\"", "{x: 1}", "[\"x\", \"y\"]"]);
            format!("{{dropIndexes: \"{name}\", index: {which}, $db: \"{db}\"}}")
        }
        5 => {
            let change = random.pick(&[
                "",
                ", validationLevel: \"moderate\"",
                ", validator: {x: {$lt: 100}}",
                ", index: {name: \"x\", hidden: true}",
                ", index: {keyPattern: {x: 1}, hidden: false}",
                ", index: {name: \"y\", expireAfterSeconds: 60}",
                ", changeStreamPreAndPostImages: {enabled: true}",
            ]);
            let change = if capped && change.contains("expire") { "" } else { change };
            format!("{{collMod: \"{name}\"{change}, $db: \"{db}\"}}")
        }
        6 | 7 => {
            let (to, to_db) = place(random);
            let drop_target = random.pick(&["", ", dropTarget: true"]);
            format!(
                "{{renameCollection: \"{db}.{name}\", to: \"{to_db}.{to}\"{drop_target}, \
                 $db: \"admin\"}}"
            )
        }
        8 if capped => format!("{{convertToCapped: \"{name}\", size: 4096, $db: \"{db}\"}}"),
        9 if capped => format!(
            "{{cloneCollectionAsCapped: \"{name}\", toCollection: \"b\", size: 4096, $db: \"{db}\"}}"
        ),
        10 => format!("{{dropDatabase: 1, $db: \"{db}\"}}"),
        11 => format!(
            "{{aggregate: \"{name}\", pipeline: [{{$sort: {{_id: 1}}}}, {{$out: {{db: \"<2>\", \
             coll: \"b\"}}}}], cursor: {{}}, $db: \"{db}\"}}"
        ),
        12 => format!(
            "{{aggregate: \"{name}\", pipeline: [{{$sort: {{_id: 1}}}}, {{$merge: {{into: {{db: \
             \"<2>\", coll: \"b\"}}}}}}], cursor: {{}}, $db: \"{db}\"}}"
        ),
        13 => format!(
            "{{create: \"v\", viewOn: \"{name}\", pipeline: [{{$limit: {}}}], $db: \"{db}\"}}",
            1 + random.below(2)
        ),
        14 => random
            .pick(&[
                "{drop: \"v\", $db: \"<1>\"}",
                "{collMod: \"v\", viewOn: \"a\", pipeline: [], $db: \"<1>\"}",
                "{insert: \"v\", documents: [{_id: 1}], $db: \"<1>\"}",
            ])
            .to_owned(),
        15 => format!(
            "{{update: \"{name}\", updates: [{{q: {{x: {}}}, u: {{$inc: {{x: 1}}}}}}], \
             $db: \"{db}\"}}",
            random.below(5)
        ),
        16 => format!(
            "{{delete: \"{name}\", deletes: [{{q: {{x: {}}}, limit: 1}}], $db: \"{db}\"}}",
            random.below(5)
        ),
        _ => format!("{{insert: \"{name}\", documents: [{}], $db: \"{db}\"}}", document(random)),
    }
}

/// Statements of one transaction, and its end.
fn transaction(random: &mut Random, number: usize, capped: bool, all: &mut Vec<String>) {
    let session = format!(
        "lsid: {{id: UUID(\"0dd10000-0000-4000-8000-{:012x}\")}}, txnNumber: NumberLong({number}), \
         autocommit: false",
        random.below(1 << 30)
    );
    for statement in 0..=random.below(3) {
        let (name, db) = place(random);
        let start = if statement == 0 { ", startTransaction: true" } else { "" };
        let text = match random.below(5) {
            0 => format!("create: \"{name}\""),
            1 => format!("createIndexes: \"{name}\", indexes: [{}]", index(random, capped)),
            2 => format!(
                "update: \"{name}\", updates: [{{q: {{x: {}}}, u: {{$inc: {{x: 1}}}}}}]",
                random.below(5)
            ),
            _ => format!("insert: \"{name}\", documents: [{}]", document(random)),
        };
        all.push(format!("{{{text}, {session}{start}, $db: \"{db}\"}}"));
    }
    let end = random.pick(&["commitTransaction", "commitTransaction", "abortTransaction"]);
    all.push(format!("{{{end}: 1, {session}, $db: \"admin\"}}"));
}

/// The results of the commands and the events of a change stream of the whole server, as lines that
/// are the same on equal servers.
///
/// # Errors
/// A broken connection.
pub fn outcome(side: &mut Side, commands: &[String], expanded: bool) -> Result<Vec<String>> {
    let (one, two) = (side.database.clone(), format!("{}_b", side.database));
    let mut run = |text: &str| -> Result<DocBuf> {
        let command = text::doc(&text.replace("<1>", &one).replace("<2>", &two))?;
        side.connection.run(command.as_doc())
    };
    for db in ["<1>", "<2>"] {
        run(&format!("{{dropDatabase: 1, $db: \"{db}\"}}"))?;
        run(&format!("{{create: \"kept\", $db: \"{db}\"}}"))?;
    }
    let stream = run(&format!(
        "{{aggregate: 1, pipeline: [{{$changeStream: {{allChangesForCluster: true, \
         showExpandedEvents: {expanded}}}}}, {{$match: {{\"ns.db\": {{$in: [\"<1>\", \"<2>\"]}}}}}}], \
         cursor: {{}}, $db: \"admin\"}}"
    ))?;
    let mut lines = Vec::new();
    for text in commands {
        let reply = run(text)?;
        let doc = reply.as_doc();
        let errors = doc.get("writeErrors").and_then(Val::as_array).and_then(RawDoc::first);
        let failed = errors.and_then(|(_, error)| error.as_doc()).unwrap_or(doc);
        let code = failed.get("code").and_then(Val::as_i64_exact).unwrap_or(0);
        // Since MongoDB 7.0 a missing collection can be dropped.
        let code = if code == 26 && text.starts_with("{drop:") { 0 } else { code };
        // Since MongoDB 7.0 a collection can be created again with the same options.
        let code = if code == 48 && text.starts_with("{create:") { 0 } else { code };
        lines.push(format!("{code} {text}"));
    }
    run("{insert: \"end\", documents: [{_id: \"end\"}], $db: \"<1>\"}")?;
    let mut names = Names::default();
    let mut reply = stream;
    let mut drops = Vec::new();
    loop {
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
        let batch = cursor.get("firstBatch").or(cursor.get("nextBatch")).and_then(Val::as_array);
        for (_, event) in batch.unwrap_or(RawDoc::empty()) {
            let Some(event) = event.as_doc() else { continue };
            let coll = event.get("ns").and_then(Val::as_doc).and_then(|ns| ns.get("coll"));
            let line = names.line(event, &one);
            // A database drops its collections in any order.
            if event.get("operationType") == Some(Val::String("drop")) {
                drops.push(line);
                continue;
            }
            drops.sort();
            lines.append(&mut drops);
            if coll == Some(Val::String("end")) {
                return Ok(lines);
            }
            lines.push(line);
        }
        let Some(Val::Int64(id)) = cursor.get("id").filter(|id| *id != Val::Int64(0)) else {
            lines.push(format!("the stream ended: {}", text::print_doc(reply.as_doc())));
            return Ok(lines);
        };
        reply = run(&format!(
            "{{getMore: NumberLong(\"{id}\"), collection: \"$cmd.aggregate\", maxTimeMS: 500, \
             $db: \"admin\"}}"
        ))?;
    }
}

/// UUIDs by the order in which they appear.
#[derive(Default)]
struct Names(Vec<Vec<u8>>);

impl Names {
    fn line(&mut self, event: RawDoc<'_>, database: &str) -> String {
        let mut bytes = Vec::new();
        writer::write_doc(&mut bytes, |out| {
            for (name, value) in event {
                match name {
                    // Times and identities.
                    "_id" | "clusterTime" | "wallTime" | "lsid" => {
                        out.bool(name, true);
                    }
                    _ => self.copy(out, name, value),
                }
            }
        });
        let line = text::print_doc(RawDoc::new(&bytes)).replace(database, "<1>");
        masked(&line)
    }

    fn copy(&mut self, out: &mut Writer<'_>, name: &str, value: RawVal<'_>) {
        match value.get() {
            // A drop does not say which collection it was, where the order is any.
            Val::Binary(4, _) if name == "collectionUUID" => {
                out.bool(name, true);
            }
            Val::Binary(4, uuid) => {
                let known = self.0.iter().position(|known| known == uuid);
                let at = known.unwrap_or_else(|| {
                    self.0.push(uuid.to_vec());
                    self.0.len() - 1
                });
                out.str(name, &format!("uuid {at}"));
            }
            // With all events MongoDB has it since 6.1.
            Val::Document(doc) if name == "disambiguatedPaths" && doc.is_empty() => {}
            Val::Document(doc) => {
                out.doc(name, |out| {
                    doc.iter().for_each(|(name, value)| self.copy(out, name, value))
                });
            }
            _ => {
                out.raw(name, value);
            }
        }
    }
}

/// Replaces the random part of temporary names.
fn masked(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("\"tmp") {
        let (before, name) = rest.split_at(at + 1);
        out.push_str(before);
        let end = name.find('"').unwrap_or(name.len());
        let (name, after) = name.split_at(end);
        let kind = ["agg_out", "renameCollection", "convertToCapped"];
        let kind = kind.iter().find(|kind| name.contains(**kind));
        out.push_str(kind.map_or(name, |kind| *kind));
        rest = after;
    }
    out.push_str(rest);
    out
}
