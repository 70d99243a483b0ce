//! `$graphLookup`: follows references between documents recursively, and adds all documents found.

use super::foreign::{Foreign, stored_values};
use super::lookup::field;
use super::nested::{Nested, string_field};
use super::privileges::Privilege;
use super::unwind::with_value;
use super::{Stage, StageContext, StageReads, StageRow, Within, needed};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::planner::cover;
use bumpalo::Bump;
use query::expr::{Env, Expr};
use query::filter::Filter;
use query::interrupt;
use std::collections::HashSet;
use std::sync::Arc;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer, keys, writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$graphLookup",
    help: "Adds the documents that are reached by following references.",
    parse,
    privilege: Privilege::Beside(|client, spec, depth| client.join_allowed(spec, depth)),
    ..StageRow::BASE
};

struct GraphLookup {
    spec: Arc<Spec>,
    source: OwnedVal,
    /// What is read of the documents that are reached; `None` for all.
    needed: Option<Vec<String>>,
}

struct Spec {
    nested: Nested,
    place: Path,
    start: Expr,
    connect_from: Path,
    connect_to: Path,
    depth_max: Option<u64>,
    depth_field: Option<Path>,
    /// The filter for reached documents, in source form and compiled.
    restrict: Option<(DocBuf, Arc<Filter>)>,
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let refuse = |code, message: String| Err(Error::new(Code(code), message));
    let Val::Document(doc) = value else {
        return Err(Error::failed_to_parse(format!(
            "the $graphLookup stage specification must be an object, but found {}",
            value.kind().name()
        )));
    };
    let (mut from, mut place, mut start) = (None, None, None);
    let (mut connect_from, mut connect_to) = (None, None);
    let (mut depth_max, mut depth_field, mut restrict) = (None, None, None);
    for (name, value) in doc {
        let value = value.get();
        match name {
            "startWith" => start = Some(Expr::parse(value, context)?),
            "maxDepth" => {
                if !value.is_number() {
                    return refuse(
                        40100,
                        format!("maxDepth must be numeric, found type: {}", value.kind().name()),
                    );
                }
                let Some(depth) = value.as_i64_exact() else {
                    return refuse(
                        40102,
                        "maxDepth could not be represented as a long long".into(),
                    );
                };
                let Ok(depth) = u64::try_from(depth) else {
                    return refuse(
                        40101,
                        format!("maxDepth requires a nonnegative argument, found: {depth}"),
                    );
                };
                depth_max = Some(depth);
            }
            "restrictSearchWithMatch" => {
                let Val::Document(filter) = value else {
                    return refuse(
                        40185,
                        format!(
                            "restrictSearchWithMatch must be an object, found {}",
                            value.kind().name()
                        ),
                    );
                };
                let compiled = Filter::parse_for_documents(filter, context).map_err(|error| {
                    error.context(
                        "Failed to parse 'restrictSearchWithMatch' option to $graphLookup :: \
                         caused by :: ",
                    )
                })?;
                let compiled = Arc::new(compiled);
                restrict = Some((DocBuf::from(filter), compiled));
            }
            "from" => from = Some(string_field(ROW.name, name, value)?),
            "as" | "connectFromField" | "connectToField" | "depthField" => {
                let Val::String(text) = value else {
                    return refuse(
                        40103,
                        format!(
                            "expected string as argument for {name}, found: {}",
                            value.kind().name()
                        ),
                    );
                };
                match name {
                    "as" => place = Some(field(text)?),
                    "connectFromField" => connect_from = Some(field(text)?),
                    "connectToField" => connect_to = Some(field(text)?),
                    _ => depth_field = Some(field(text)?),
                }
            }
            _ => return refuse(40104, format!("Unknown argument to $graphLookup: {name}")),
        }
    }
    let (Some(from), Some(place), Some(start), Some(connect_from), Some(connect_to)) =
        (from, place, start, connect_from, connect_to)
    else {
        return refuse(
            40105,
            "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and \
             'connectToField' to be specified."
                .into(),
        );
    };
    let reads = (Some(from), Some(connect_to.text()));
    let nested = Nested::new(context, Within::Lookup, reads, RawDoc::empty(), &[])?;
    let spec =
        Spec { nested, place, start, connect_from, connect_to, depth_max, depth_field, restrict };
    Ok(Box::new(GraphLookup { spec: Arc::new(spec), source: value.into(), needed: None }))
}

impl Spec {
    /// What is read of the documents that are reached, if these paths are read of the result.
    fn needed(&self, after: &[String]) -> Option<Vec<String>> {
        let paths = needed::within(self.place.text(), after)?;
        let restrict = self.restrict.as_ref().map(|(_, filter)| &**filter);
        let mut paths = cover::read_paths(restrict, None, paths)?;
        paths.extend([&self.connect_from, &self.connect_to].map(|path| path.text().to_owned()));
        Some(paths)
    }
}

impl Stage for GraphLookup {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        let Spec { connect_to, restrict, .. } = &*self.spec;
        let mut foreign = Foreign::new(connect_to.clone(), false, restrict.clone());
        foreign.needed.clone_from(&self.needed);
        Box::new(Following {
            input,
            foreign,
            spec: self.spec.clone(),
            arena: Bump::new(),
            examined: Examined::default(),
        })
    }

    fn reads(&self) -> Option<StageReads> {
        Some(StageReads { paths: self.spec.start.read_paths()?, passes: true })
    }

    fn set_read_after(&mut self, after: &dyn Fn() -> Option<Vec<String>>) {
        if !self.spec.nested.has_parts() {
            return;
        }
        self.needed = after().and_then(|after| self.spec.needed(&after));
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(ROW.name, self.source.raw());
    }
}

struct Following {
    input: Box<dyn Stream>,
    foreign: Foreign,
    spec: Arc<Spec>,
    arena: Bump,
    examined: Examined,
}

/// Memory overhead of a key in a set.
const KEY_BYTES: usize = 48;

impl Following {
    /// Returns all documents that are reached from one, each once, as an array.
    fn reach(&mut self, doc: RawDoc<'_>, op: &Operation) -> Result<Vec<u8>> {
        let spec = self.spec.clone();
        let kept = spec.nested.kept();
        let collation = kept.collation.as_deref();
        // Keys of the values that were looked up.
        let mut asked: HashSet<Vec<u8>> = HashSet::new();
        // Returns a value that was not looked up before, and adds the size of its key to `bytes`.
        let mut ask = |value: Val<'_>, bytes: &mut usize| -> Result<Option<OwnedVal>> {
            interrupt::check()?;
            let key = keys::key_with(value, collation);
            let length = key.len() + KEY_BYTES;
            let new = asked.insert(key);
            *bytes += if new { length } else { 0 };
            Ok(new.then(|| OwnedVal::new(value)))
        };
        let mut known_bytes = 0;
        let mut frontier: Vec<OwnedVal> = Vec::new();
        match spec.start.eval(&Env::new(doc, &self.arena))? {
            Val::Array(list) => {
                for (_, value) in list {
                    frontier.extend(ask(value.get(), &mut known_bytes)?);
                }
            }
            Val::Missing => {}
            other => frontier.extend(ask(other, &mut known_bytes)?),
        }
        self.arena.reset();
        let mut reached: HashSet<Vec<u8>> = HashSet::new();
        let mut found = Vec::new();
        let opened = writer::open(&mut found);
        let (mut count, mut depth) = (0, 0_u64);
        let mut share = op.share();
        while !frontier.is_empty() && spec.depth_max.is_none_or(|max| depth <= max) {
            let values: Vec<Val<'_>> = frontier.iter().map(OwnedVal::get).collect();
            let mut stream = self.foreign.find(&spec.nested, &values, op)?;
            let mut next = Vec::new();
            // A search for null also finds documents without the field. They are not connected.
            let null = values.iter().any(|value| value.is_nullish());
            let key = |value: &Val<'_>| keys::key_with(*value, collation);
            let wanted: HashSet<Vec<u8>> =
                if null { values.iter().map(key).collect() } else { HashSet::new() };
            while let Some(doc) = stream.next(op)? {
                op.check()?;
                let connected = |value: &Val<'_>| wanted.contains(&key(value));
                if null && !stored_values(doc.raw(), &spec.connect_to).iter().any(connected) {
                    continue;
                }
                let id = keys::key(doc.raw().get("_id").unwrap_or(Val::Missing));
                known_bytes += id.len() + KEY_BYTES;
                if !reached.insert(id) {
                    continue;
                }
                for value in stored_values(doc.raw(), &spec.connect_from) {
                    next.extend(ask(value, &mut known_bytes)?);
                }
                found.push(value::Type::Document as u8);
                writer::write_index(&mut found, count);
                found.push(0);
                count += 1;
                match &spec.depth_field {
                    Some(field) => {
                        let depth = i64::try_from(depth).unwrap_or(i64::MAX);
                        with_value(doc.raw(), field.parts(), Val::Int64(depth), &mut found);
                    }
                    None => found.extend_from_slice(&doc),
                }
                let held = found.len() + known_bytes;
                if !share.covers(held) {
                    return Err(share.refusal());
                }
                if held > op.sort_bytes_max() {
                    return Err(Error::new(
                        Code(40099),
                        "$graphLookup reached maximum memory consumption",
                    ));
                }
            }
            stream.examined(&mut self.examined);
            frontier = next;
            depth += 1;
        }
        writer::close(&mut found, opened);
        Ok(found)
    }
}

impl Stream for Following {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        let Some(doc) = self.input.next(op)? else { return Ok(None) };
        let found = self.reach(doc.raw(), op)?;
        let mut out = Vec::with_capacity(doc.len() + found.len() + 16);
        with_value(doc.raw(), self.spec.place.parts(), Val::Array(RawDoc::new(&found)), &mut out);
        Ok(Some(Doc::Made(out)))
    }

    fn is_done(&self) -> bool {
        self.input.is_done()
    }

    fn source(&self) -> Option<&dyn Stream> {
        Some(&*self.input)
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
        let direct = self.foreign.examined();
        total.keys += self.examined.keys + direct.keys;
        total.documents += self.examined.documents + direct.documents;
        total.bytes += self.examined.bytes + direct.bytes;
    }
}
