//! The options about all types: the discriminator, documents without a declared type, changes of the
//! type, views.

use super::options::{Declared, Indexed};
use super::{Foreign, Inference, Schema, Transitions, Type, Types};
use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::paths::{self, meet};
use query::ParseContext;
use query::filter::Filter;
use std::collections::HashMap;
use std::sync::Arc;
use value::path::Path;
use value::{DocBuf, RawDoc, Result, Val, Writer};

/// The discriminator.
pub(crate) fn discriminator<'a>(options: &mut Options<'a>) -> Result<&'a str> {
    let path = options.path("discriminator")?.ok_or_else(|| options.missing("discriminator"))?;
    match meet(path, "_id") {
        true => Err(options.bad("'discriminator' cannot be '_id' or a part of it")),
        false => Ok(path),
    }
}

/// Refuses fields of types that contain a field with a meaning of its own, or are inside of it.
pub(crate) fn check_apart<'d>(
    options: &Options<'_>,
    option: &str,
    path: &str,
    mut declared: impl Iterator<Item = &'d Declared<'d>>,
) -> Result<()> {
    let around = |field: &&str| *field != path && meet(field, path);
    match declared.find_map(|of| of.fields().find(around).map(str::to_owned)) {
        None => Ok(()),
        Some(field) => {
            Err(options
                .bad(format!("'{option}' is '{path}', a part of the field '{field}' of a type")))
        }
    }
}

/// What a declaration says besides the types themselves.
pub(crate) struct Frame<'a> {
    /// The collection.
    pub(crate) collection: &'a str,
    /// The path of the discriminator.
    pub(crate) discriminator: &'a str,
    /// The field with the path of the type, if there is one.
    pub(crate) path_field: Option<&'a str>,
    /// What holds for every document.
    pub(crate) common: Schema,
    /// The indexes of all documents.
    pub(crate) common_indexes: Vec<Indexed>,
}

/// Reads the other options of types, and compiles the kind. `write` appends the options of the
/// types themselves.
pub(crate) fn finish(
    options: &mut Options<'_>,
    frame: Frame<'_>,
    all: Vec<Type>,
    write: &dyn Fn(&mut Writer<'_>),
) -> Result<Parsed> {
    let by_name: HashMap<String, usize> =
        all.iter().enumerate().map(|(at, of)| (of.name.clone(), at)).collect();
    let unknown = options.choice("unknown", &["reject", "allow"], &[])?;
    let rules = options.array("infer")?.unwrap_or(RawDoc::empty());
    let inference = inference(options, rules, &by_name)?;
    let transitions = transitions(options, &by_name)?;
    let has_views = options.boolean("views")?.unwrap_or(false);
    let declared = DocBuf::build(|out| {
        out.str("discriminator", frame.discriminator);
        write(out);
        out.str("unknown", unknown);
        out.append("infer", Val::Array(rules));
        out.doc("transitions", |out| write_transitions(&transitions, &all, out));
        out.bool("views", has_views);
    });
    let kind = Box::new(Types {
        collection: frame.collection.to_owned(),
        discriminator: Path::new(frame.discriminator),
        path_field: frame.path_field.map(Path::new),
        owners: Types::owners_of(&all),
        all,
        by_name,
        common: frame.common,
        common_indexes: frame.common_indexes,
        has_views,
        allows_unknown: unknown == "allow",
        inference,
        transitions,
    });
    Ok(Parsed { kind, target: frame.collection.to_owned(), declared })
}

fn type_named(
    options: &Options<'_>,
    place: &str,
    name: Val<'_>,
    by_name: &HashMap<String, usize>,
) -> Result<usize> {
    let Val::String(name) = name else {
        return Err(options.bad(format!("'{place}' must be the name of a type")));
    };
    by_name.get(name).copied().ok_or_else(|| {
        let mut known: Vec<&str> = by_name.keys().map(String::as_str).collect();
        known.sort_unstable();
        let hint = crate::declaration::words::hint(name, &known);
        options.bad(format!("'{place}' is '{name}', which is not a type{hint}"))
    })
}

/// The rules that find the types of existing documents.
fn inference(
    options: &Options<'_>,
    rules: RawDoc<'_>,
    by_name: &HashMap<String, usize>,
) -> Result<Vec<Inference>> {
    let mut inference = Vec::new();
    for (at, rule) in rules.iter().map(|(_, rule)| rule).enumerate() {
        let place = format!("infer.{at}");
        let Some(rule) = rule.as_doc() else {
            return Err(options.bad(format!("'{place}' must be a document {{if: .., then: ..}}")));
        };
        if let Some((name, _)) = rule.iter().find(|(name, _)| !matches!(*name, "if" | "then")) {
            return Err(options.unknown(&place, name, &["if", "then"]));
        }
        let Some(Val::Document(filter)) = rule.get("if") else {
            return Err(options.bad(format!("'{place}.if' must be a filter")));
        };
        if filter.is_empty() {
            return Err(options.bad(format!(
                "'{place}.if' is an empty filter: it matches all documents, so it tells no type"
            )));
        }
        let checked = paths::check_deterministic(Val::Document(filter), &format!("{place}.if"));
        checked.map_err(|error| error.context(format!("{}: ", options.place)))?;
        let filter = Filter::parse_for_documents(filter, &ParseContext::new(0))
            .map_err(|error| error.context(format!("{}: '{place}.if': ", options.place)))?;
        let then = rule.get("then").unwrap_or(Val::Missing);
        let then = type_named(options, &format!("{place}.then"), then, by_name)?;
        inference.push(Inference { filter: Arc::new(filter), then });
    }
    Ok(inference)
}

/// How documents may change their type.
fn transitions(options: &mut Options<'_>, by_name: &HashMap<String, usize>) -> Result<Transitions> {
    let mut transitions = Transitions { allows: false, others: Vec::new(), foreign: Foreign::Drop };
    let given = options.document("transitions")?.unwrap_or(RawDoc::empty());
    match given.get("default") {
        None | Some(Val::String("deny")) => {}
        Some(Val::String("allow")) => transitions.allows = true,
        Some(_) => {
            return Err(options.bad("'transitions.default' must be one of 'deny', 'allow'"));
        }
    }
    for (name, value) in given {
        match (name, value.get()) {
            ("default", _) => {}
            ("allow", Val::Array(pairs)) if !transitions.allows => {
                transitions.others = self::pairs(options, "transitions.allow", pairs, by_name)?;
            }
            ("deny", Val::Array(pairs)) if transitions.allows => {
                transitions.others = self::pairs(options, "transitions.deny", pairs, by_name)?;
            }
            ("allow", Val::Array(_)) => {
                return Err(options.bad("'transitions.allow' is for 'transitions.default: deny'"));
            }
            ("deny", Val::Array(_)) => {
                return Err(options.bad("'transitions.deny' is for 'transitions.default: allow'"));
            }
            ("allow" | "deny", _) => {
                return Err(options.bad(format!(
                    "'transitions.{name}' must be an array of pairs of types: [[from, to]]"
                )));
            }
            ("foreignFields", Val::String("drop")) => {}
            ("foreignFields", Val::String("keep")) => transitions.foreign = Foreign::Keep,
            ("foreignFields", Val::Document(into)) => {
                let (Some(Val::String(path)), 1) = (into.get("move"), into.count()) else {
                    return Err(options.bad(FOREIGN));
                };
                options.check_path("transitions.foreignFields.move", path)?;
                transitions.foreign = Foreign::Move(Path::new(path));
            }
            ("foreignFields", _) => return Err(options.bad(FOREIGN)),
            (other, _) => {
                let known = ["default", "allow", "deny", "foreignFields"];
                return Err(options.unknown("transitions", other, &known));
            }
        }
    }
    Ok(transitions)
}

const FOREIGN: &str = "'transitions.foreignFields' must be 'drop', 'keep' or {move: path}";

fn pairs(
    options: &Options<'_>,
    place: &str,
    given: RawDoc<'_>,
    by_name: &HashMap<String, usize>,
) -> Result<Vec<(usize, usize)>> {
    let mut pairs = Vec::new();
    for (at, pair) in given.iter().map(|(_, pair)| pair).enumerate() {
        let place = format!("{place}.{at}");
        let names: Vec<Val<'_>> =
            pair.as_array().unwrap_or(RawDoc::empty()).iter().map(|(_, name)| name.get()).collect();
        let [from, to] = names.as_slice() else {
            return Err(options.bad(format!("'{place}' must be a pair of types: [from, to]")));
        };
        let from = type_named(options, &format!("{place}.0"), *from, by_name)?;
        let to = type_named(options, &format!("{place}.1"), *to, by_name)?;
        if from == to {
            return Err(options.bad(format!("'{place}' has the same type twice")));
        }
        pairs.push((from, to));
    }
    Ok(pairs)
}

fn write_transitions(transitions: &Transitions, all: &[Type], out: &mut Writer<'_>) {
    let name = |at: usize| all.get(at).map_or("", |of| &*of.name);
    out.str("default", if transitions.allows { "allow" } else { "deny" });
    out.array(if transitions.allows { "deny" } else { "allow" }, |out| {
        for (from, to) in &transitions.others {
            out.push_array(|out| {
                out.push(Val::String(name(*from)));
                out.push(Val::String(name(*to)));
            });
        }
    });
    match &transitions.foreign {
        Foreign::Drop => out.str("foreignFields", "drop"),
        Foreign::Keep => out.str("foreignFields", "keep"),
        Foreign::Move(into) => out.doc("foreignFields", |out| {
            out.str("move", into.text());
        }),
    };
}
