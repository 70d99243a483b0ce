//! The shape of a command, as a document: names stay, values become the names of their types.
//!
//! Names chosen by users are preceded by a mark, so that they can be distinguished from ours and
//! hashed when they are shown.

use super::Names;
use value::ejson::base64;
use value::limits::DEPTH_MAX_WIRE;
use value::writer::ArrayWriter;
use value::{DocBuf, RawDoc, Val, Writer};

/// Precedes a name chosen by a user. Paths do not contain it. A field name may, but then it is
/// hashed only in part.
const MARK: char = '\u{1}';

/// Fields of stages whose strings are names.
static NAMED: &[&str] = &[
    "as",
    "coll",
    "connectFromField",
    "connectToField",
    "db",
    "depthField",
    "distanceField",
    "field",
    "foreignField",
    "from",
    "includeArrayIndex",
    "includeLocs",
    "into",
    "key",
    "localField",
    "on",
    "path",
];

/// Stages whose fields are named by users; the fields of other stages and operators are their
/// arguments.
static FIELDS: &[&str] = &["$addFields", "$group", "$set"];

/// Options of commands on execution; the shape records only that they were given.
static OPTIONS: &[&str] =
    &["limit", "skip", "batchSize", "maxTimeMS", "singleBatch", "allowDiskUse", "tailable"];

/// The shape of a query; `None` for an empty command.
pub(super) fn of_command(command: RawDoc<'_>) -> Option<DocBuf> {
    let (name, collection) = command.first().map(|(name, value)| (name, value.get()))?;
    Some(DocBuf::build(|out| {
        out.doc("cmdNs", |out| {
            if let Some(Val::String(db)) = command.get("$db") {
                out.str("db", &marked(db));
            }
            match collection {
                Val::String(collection) => out.str("coll", &marked(collection)),
                _ => out.str("coll", "$cmd.aggregate"),
            };
        });
        out.str("command", name);
        for (field, value) in command {
            match (field, value.get()) {
                ("filter" | "query" | "min" | "max", Val::Document(doc)) => {
                    out.doc(field, |out| filter(doc, out, 0));
                }
                ("key", Val::String(path)) => {
                    out.str(field, &marked(path));
                }
                ("projection", Val::Document(doc)) => {
                    out.doc(field, |out| projection(doc, out, 0));
                }
                ("sort" | "hint", Val::Document(doc)) => {
                    out.doc(field, |out| directions(doc, out));
                }
                ("hint", Val::String(index)) => {
                    out.str(field, &marked(index));
                }
                ("pipeline", Val::Array(stages)) => {
                    out.array(field, |list| pipeline(stages, list, 0));
                }
                ("let", Val::Document(doc)) => {
                    out.doc(field, |out| expressions(doc, out, 0));
                }
                ("collation", Val::Document(_)) => {
                    out.raw(field, value);
                }
                (_, value) if OPTIONS.contains(&field) => {
                    out.str(field, &literal(value));
                }
                _ => {}
            }
        }
    }))
}

/// Writes a stored shape in the form that clients see.
pub(super) fn show(doc: RawDoc<'_>, names: &Names<'_>, out: &mut Writer<'_>) {
    for (name, value) in doc {
        let name = name_text(name, names);
        match value.get() {
            Val::Document(inner) => {
                out.doc(&name, |out| show(inner, names, out));
            }
            Val::Array(list) => {
                out.array(&name, |out| show_array(list, names, out));
            }
            Val::String(text) => {
                out.str(&name, &name_text(text, names));
            }
            _ => {
                out.raw(&name, value);
            }
        }
    }
}

fn show_array(list: RawDoc<'_>, names: &Names<'_>, out: &mut ArrayWriter<'_>) {
    for (_, value) in list {
        match value.get() {
            Val::Document(inner) => out.push_doc(|out| show(inner, names, out)),
            Val::Array(inner) => out.push_array(|out| show_array(inner, names, out)),
            Val::String(text) => out.push(Val::String(&name_text(text, names))),
            other => out.push(other),
        }
    }
}

fn name_text(text: &str, names: &Names<'_>) -> String {
    let Some((before, name)) = text.split_once(MARK) else { return text.to_owned() };
    let name = match names {
        Names::Plain => name.to_owned(),
        Names::Hashed(key) => {
            let hash =
                |part: &str| base64::encode(&access::scram::mac_sha256(key, part.as_bytes()));
            name.split('.').map(hash).collect::<Vec<_>>().join(".")
        }
    };
    format!("{before}{name}")
}

fn marked(name: &str) -> String {
    format!("{MARK}{name}")
}

/// The name of a value's type.
fn literal(value: Val<'_>) -> String {
    match value {
        Val::Array(list) => {
            let mut kinds: Vec<String> = list.iter().map(|(_, item)| kind(item.get())).collect();
            kinds.dedup();
            match kinds.as_slice() {
                [] => "[]".to_owned(),
                [one] => format!("?array<{one}>"),
                _ => "?array<>".to_owned(),
            }
        }
        other => kind(other),
    }
}

fn kind(value: Val<'_>) -> String {
    let name = match value {
        Val::Int32(_) | Val::Int64(_) | Val::Double(_) | Val::Decimal(_) => "number",
        Val::String(_) => "string",
        Val::Document(_) => "object",
        Val::Array(_) => "array<>",
        other => other.kind().name(),
    };
    format!("?{name}")
}

/// A filter: its conditions, each with its operator.
fn filter(doc: RawDoc<'_>, out: &mut Writer<'_>, depth: usize) {
    let mut parts = Vec::new();
    for (name, value) in doc {
        match value.get() {
            _ if depth > DEPTH_MAX_WIRE || name == "$comment" => {}
            Val::Document(operators) if !name.starts_with('$') && is_operators(operators) => {
                parts.extend(operators.iter().map(|(operator, value)| {
                    DocBuf::build(|out| {
                        out.doc(&marked(name), |out| {
                            condition(operator, value.get(), out, depth + 1)
                        });
                    })
                }));
            }
            value => parts.push(DocBuf::build(|out| match (name, value) {
                ("$and" | "$or" | "$nor", Val::Array(list)) => {
                    out.array(name, |out| {
                        for (_, part) in list {
                            let part = part.as_doc().unwrap_or(RawDoc::empty());
                            out.push_doc(|out| filter(part, out, depth + 1));
                        }
                    });
                }
                ("$expr", value) => expression(name, value, out, depth + 1),
                (name, value) if name.starts_with('$') => {
                    out.str(name, &literal(value));
                }
                (name, Val::Regex(..)) => {
                    out.doc(&marked(name), |out| {
                        out.str("$regex", "?string");
                    });
                }
                (name, value) => {
                    out.doc(&marked(name), |out| {
                        out.str("$eq", &literal(value));
                    });
                }
            })),
        }
    }
    match parts.as_slice() {
        [] => {}
        [one] => {
            out.extend(one.as_doc());
        }
        several => {
            out.array("$and", |out| {
                several.iter().for_each(|part| out.push_doc_bytes(part.bytes()));
            });
        }
    }
}

fn is_operators(doc: RawDoc<'_>) -> bool {
    doc.first().is_some_and(|(name, _)| name.starts_with('$') && !matches!(name, "$ref" | "$id"))
}

fn condition(operator: &str, value: Val<'_>, out: &mut Writer<'_>, depth: usize) {
    match (operator, value) {
        _ if depth > DEPTH_MAX_WIRE => {}
        ("$not" | "$elemMatch", Val::Document(inner)) if is_operators(inner) => {
            out.doc(operator, |out| {
                for (name, value) in inner {
                    condition(name, value.get(), out, depth + 1);
                }
            });
        }
        ("$elemMatch", Val::Document(inner)) => {
            out.doc(operator, |out| filter(inner, out, depth + 1));
        }
        (_, value) => {
            out.str(operator, &literal(value));
        }
    }
}

fn directions(doc: RawDoc<'_>, out: &mut Writer<'_>) {
    for (name, value) in doc {
        match value.get() {
            Val::Document(_) => out.raw(&marked(name), value),
            other => out.append(&marked(name), other),
        };
    }
}

/// The shape of a projection: included, excluded and computed fields.
fn projection(doc: RawDoc<'_>, out: &mut Writer<'_>, depth: usize) {
    for (name, value) in doc {
        let named = if name.starts_with('$') { name.to_owned() } else { marked(name) };
        match value.get() {
            _ if depth > DEPTH_MAX_WIRE => {}
            Val::Document(inner) if !is_operators(inner) => {
                out.doc(&named, |out| projection(inner, out, depth + 1));
            }
            value @ (Val::Bool(_) | Val::Int32(_) | Val::Int64(_) | Val::Double(_)) => {
                out.bool(&named, value.truthy());
            }
            value => expression(&named, value, out, depth + 1),
        }
    }
}

fn expressions(doc: RawDoc<'_>, out: &mut Writer<'_>, depth: usize) {
    arguments(doc, false, out, depth);
}

/// Writes expressions under their names, which are `ours` or chosen by users.
fn arguments(doc: RawDoc<'_>, ours: bool, out: &mut Writer<'_>, depth: usize) {
    for (name, value) in doc {
        let own = ours || name.starts_with('$');
        let named = if own { name.to_owned() } else { marked(name) };
        match value.get() {
            Val::String(text) if ours && NAMED.contains(&name) && !text.starts_with('$') => {
                out.str(name, &marked(text));
            }
            value => expression(&named, value, out, depth),
        }
    }
}

/// Writes an expression under a name that is already marked.
fn expression(name: &str, value: Val<'_>, out: &mut Writer<'_>, depth: usize) {
    match value {
        _ if depth > DEPTH_MAX_WIRE => {}
        Val::Document(doc) if matches!(doc.first(), Some(("$literal" | "$const", _))) => {
            out.str(name, "?object");
        }
        Val::Document(doc) => {
            let ours = name.starts_with('$') && !FIELDS.contains(&name);
            out.doc(name, |out| arguments(doc, ours, out, depth + 1));
        }
        Val::Array(list) if !list.iter().all(|(_, item)| is_constant(item.get(), depth)) => {
            out.array(name, |out| list_of_expressions(list, out, depth + 1));
        }
        Val::String(text) if text.starts_with('$') => {
            out.str(name, &path(text));
        }
        value => {
            out.str(name, &literal(value));
        }
    }
}

fn list_of_expressions(list: RawDoc<'_>, out: &mut ArrayWriter<'_>, depth: usize) {
    for (_, item) in list {
        match item.get() {
            _ if depth > DEPTH_MAX_WIRE => {}
            Val::Document(doc) => out.push_doc(|out| expressions(doc, out, depth + 1)),
            Val::Array(inner) => out.push_array(|out| list_of_expressions(inner, out, depth + 1)),
            Val::String(text) if text.starts_with('$') => out.push(Val::String(&path(text))),
            value => out.push(Val::String(&literal(value))),
        }
    }
}

fn is_constant(value: Val<'_>, depth: usize) -> bool {
    match value {
        Val::String(text) => !text.starts_with('$'),
        Val::Document(_) => false,
        Val::Array(list) => {
            depth <= DEPTH_MAX_WIRE
                && list.iter().all(|(_, item)| is_constant(item.get(), depth + 1))
        }
        _ => true,
    }
}

/// A path or variable: `$a.b`, `$$ROOT.a`, `$$mine`.
fn path(text: &str) -> String {
    let Some(variable) = text.strip_prefix("$$") else {
        return format!("${}", marked(text.strip_prefix('$').unwrap_or(text)));
    };
    let (name, rest) = variable.split_once('.').map_or((variable, None), |(n, r)| (n, Some(r)));
    let ours = name.starts_with(|first: char| first.is_ascii_uppercase());
    match (ours, rest) {
        (true, None) => text.to_owned(),
        (true, Some(rest)) => format!("$${name}.{}", marked(rest)),
        (false, _) => format!("$${}", marked(variable)),
    }
}

fn pipeline(stages: RawDoc<'_>, out: &mut ArrayWriter<'_>, depth: usize) {
    for (_, stage) in stages {
        let Some(stage) = stage.as_doc().filter(|_| depth <= DEPTH_MAX_WIRE) else { continue };
        out.push_doc(|out| {
            for (name, value) in stage {
                one_stage(name, value.get(), out, depth + 1);
            }
        });
    }
}

fn one_stage(name: &str, value: Val<'_>, out: &mut Writer<'_>, depth: usize) {
    match (name, value) {
        ("$match", Val::Document(doc)) => {
            out.doc(name, |out| filter(doc, out, depth));
        }
        ("$project", Val::Document(doc)) => {
            out.doc(name, |out| projection(doc, out, depth));
        }
        ("$sort", Val::Document(doc)) => {
            out.doc(name, |out| directions(doc, out));
        }
        ("$facet", Val::Document(doc)) => {
            out.doc(name, |out| {
                for (field, stages) in doc {
                    if let Val::Array(stages) = stages.get() {
                        out.array(&marked(field), |list| pipeline(stages, list, depth + 1));
                    }
                }
            });
        }
        ("$unset", Val::Array(list)) => {
            out.array(name, |out| {
                for (_, item) in list {
                    if let Val::String(field) = item.get() {
                        out.push(Val::String(&marked(field)));
                    }
                }
            });
        }
        ("$unset" | "$count" | "$unionWith" | "$out" | "$merge", Val::String(text)) => {
            out.str(name, &marked(text));
        }
        ("$lookup" | "$unionWith", Val::Document(doc)) => {
            out.doc(name, |out| {
                for (field, value) in doc {
                    match (field, value.get()) {
                        ("pipeline", Val::Array(stages)) => {
                            out.array(field, |list| pipeline(stages, list, depth + 1));
                        }
                        ("let", Val::Document(variables)) => {
                            out.doc(field, |out| expressions(variables, out, depth + 1));
                        }
                        (field, Val::String(text)) => {
                            out.str(field, &marked(text));
                        }
                        (field, value) => expression(field, value, out, depth + 1),
                    }
                }
            });
        }
        (name, value) => expression(name, value, out, depth),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson::{Format, parse_doc, print};

    fn shape(command: &str, names: &Names<'_>) -> String {
        let command = parse_doc(command).unwrap();
        let shape = of_command(command.as_doc()).unwrap();
        let shown = DocBuf::build(|out| show(shape.as_doc(), names, out));
        print(shown.as_doc(), Format::Shell)
    }

    #[test]
    fn values_go_and_names_stay() {
        let cases = [
            (
                r#"{find: "c", filter: {a: 1, "b.c": {$gt: 2, $in: ["x"]}, $or: [{d: null}, {e: /x/}]},
                    sort: {a: -1}, limit: 5, projection: {a: 1, _id: 0, n: {$size: "$l"}}, $db: "d"}"#,
                r#"{cmdNs: {db: "d", coll: "c"}, command: "find", filter: {$and: [{a: {$eq: "?number"}}, {"b.c": {$gt: "?number"}}, {"b.c": {$in: "?array<?string>"}}, {$or: [{d: {$eq: "?null"}}, {e: {$regex: "?string"}}]}]}, sort: {a: -1}, limit: "?number", projection: {a: true, _id: false, n: {$size: "$l"}}}"#,
            ),
            (
                r#"{aggregate: "c", pipeline: [{$match: {}}, {$group: {_id: "$$ROOT.k", n: {$sum: {$multiply: ["$p", 3]}},
                    m: {$first: ["secret", 2]}}}, {$lookup: {from: "o", localField: "x", foreignField: "y", as: "z",
                    let: {v: "$w"}, pipeline: [{$match: {$expr: {$eq: ["$q", "$$v"]}}}]}}, {$limit: 3}], cursor: {}, $db: "d"}"#,
                r#"{cmdNs: {db: "d", coll: "c"}, command: "aggregate", pipeline: [{$match: {}}, {$group: {_id: "$$ROOT.k", n: {$sum: {$multiply: ["$p", "?number"]}}, m: {$first: "?array<>"}}}, {$lookup: {from: "o", localField: "x", foreignField: "y", as: "z", let: {v: "$w"}, pipeline: [{$match: {$expr: {$eq: ["$q", "$$v"]}}}]}}, {$limit: "?number"}]}"#,
            ),
            (
                r#"{distinct: "c", key: "a.b", query: {x: {$elemMatch: {y: {$lt: 1}}}}, $db: "d"}"#,
                r#"{cmdNs: {db: "d", coll: "c"}, command: "distinct", key: "a.b", query: {x: {$elemMatch: {y: {$lt: "?number"}}}}}"#,
            ),
        ];
        for (command, expected) in cases {
            let expected = print(parse_doc(expected).unwrap().as_doc(), Format::Shell);
            assert_eq!(shape(command, &Names::Plain), expected);
        }
    }

    #[test]
    fn hashed_names_show_nothing_of_what_users_chose() {
        let command = r#"{aggregate: "secretc", pipeline: [{$match: {"secreta.secretb": 1}}, {$sort: {secretd: 1}},
            {$group: {_id: "$secrete", secretf: {$sum: "$$secretv.x"}}}, {$unset: ["secretg"]}, {$count: "secreth"},
            {$lookup: {from: "secreti", localField: "secretj", foreignField: "secretk", as: "secretl"}},
            {$facet: {secretm: [{$out: "secretn"}]}}, {$project: {secreto: {$map: {input: "$secretp", in: "secretq"}}}}],
            $db: "secretr"}"#;
        let shown = shape(command, &Names::Hashed(b"key"));
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("$match") && shown.contains("?number"), "{shown}");
        assert_ne!(shown, shape(command, &Names::Hashed(b"other")));
    }
}
