//! `$lookup`: adds to each document those of another collection that belong to it.
//!
//! An equality of two fields is answered by an index of the other collection, or by one table of
//! it in memory. A pipeline is compiled for each document with the values of its `let`, so that the
//! planner sees constants; one without `let` is compiled once, and runs once when it depends on
//! nothing.

use super::foreign::{Foreign, Found, values_at};
use super::nested::{Nested, collect, string_field, with_values};
use super::unwind::with_value;
use super::{Stage, StageContext, StageRow, Within};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use bumpalo::Bump;
use query::expr::{Env, Expr};
use std::sync::Arc;
use value::path::Path;
use value::{Code, Error, OwnedVal, RawDoc, Result, Val, Writer, limits, writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$lookup",
    help: "Adds the documents of another collection that belong to each document.",
    parse,
};

struct Lookup {
    spec: Arc<Spec>,
    source: OwnedVal,
}

struct Spec {
    nested: Nested,
    place: Path,
    /// The fields that must be equal, near and far.
    fields: Option<(Path, Path)>,
    variables: Vec<(String, Expr)>,
}

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::failed_to_parse(message))
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return refuse(format!(
            "the $lookup stage specification must be an object, but found {}",
            value.kind().name()
        ));
    };
    let (mut from, mut place, mut local, mut foreign) = (None, None, None, None);
    let mut pipeline = None;
    let mut variables = None;
    for (name, value) in doc {
        let value = value.get();
        match name {
            "pipeline" => {
                let Val::Array(stages) = value else {
                    return Err(Error::type_mismatch(format!(
                        "$lookup argument 'pipeline' must be an array, found {}",
                        value.kind().name()
                    )));
                };
                pipeline = Some(stages);
            }
            "let" => {
                let Val::Document(list) = value else {
                    return refuse(format!(
                        "$lookup argument 'let: {}' must be an object, is type {}",
                        value.kind().name(),
                        value.kind().name()
                    ));
                };
                variables = Some(list);
            }
            "from" => from = Some(string_field(ROW.name, name, value)?),
            "as" => place = Some(string_field(ROW.name, name, value)?),
            "localField" => local = Some(string_field(ROW.name, name, value)?),
            "foreignField" => foreign = Some(string_field(ROW.name, name, value)?),
            _ => return refuse(format!("unknown argument to $lookup: {name}")),
        }
    }
    let Some(place) = place else { return refuse("must specify 'as' field for a $lookup") };
    let first = pipeline.and_then(RawDoc::first).and_then(|(_, stage)| stage.as_doc()?.first());
    if from.is_none() && first.is_none_or(|(name, _)| name != "$documents") {
        return refuse("must specify 'from' field for a $lookup");
    }
    let fields = match (local, foreign) {
        (Some(local), Some(foreign)) => Some((field(local)?, field(foreign)?)),
        (None, None) if pipeline.is_some() => None,
        (None, None) => {
            return refuse(
                "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be \
                 specified",
            );
        }
        _ if pipeline.is_some() => {
            return refuse(
                "$lookup requires both or neither of 'localField' and 'foreignField' to be specified",
            );
        }
        _ => {
            return refuse("$lookup requires both 'localField' and 'foreignField' to be specified");
        }
    };
    if variables.is_some() && pipeline.is_none() {
        return refuse("$lookup with a 'let' argument must also specify 'pipeline'");
    }
    let mut compiled = Vec::new();
    for (name, value) in variables.unwrap_or(RawDoc::empty()) {
        query::expr::check_variable_name(name)?;
        compiled.push((name.to_owned(), Expr::parse(value.get(), context)?));
    }
    let names: Vec<&str> = compiled.iter().map(|(name, _)| name.as_str()).collect();
    let own = pipeline.unwrap_or(RawDoc::empty());
    let nested = Nested::new(context, Within::Lookup, from, own, &names)?;
    let spec = Spec { nested, place: field(place)?, fields, variables: compiled };
    Ok(Box::new(Lookup { spec: Arc::new(spec), source: value.into() }))
}

/// A path that names a field.
pub(super) fn field(text: &str) -> Result<Path> {
    let refuse = |code, message: &str| Err(Error::new(Code(code), message));
    if text.is_empty() {
        return refuse(40352, "FieldPath cannot be constructed with empty string");
    }
    if text.ends_with('.') {
        return refuse(40353, "FieldPath must not end with a '.'.");
    }
    for part in text.split('.') {
        if part.is_empty() {
            return refuse(15998, "FieldPath field names may not be empty strings.");
        }
        if part.starts_with('$') {
            return refuse(
                16410,
                "FieldPath field names may not start with '$'. Consider using $getField or \
                 $setField.",
            );
        }
    }
    Ok(Path::new(text))
}

impl Stage for Lookup {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        let foreign = self.spec.fields.as_ref().map(|(_, far)| Foreign::new(far.clone()));
        Box::new(LookingUp {
            input,
            spec: self.spec.clone(),
            foreign,
            cached: None,
            arena: Bump::new(),
            examined: Examined::default(),
        })
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(ROW.name, self.source.raw());
    }
}

struct LookingUp {
    input: Box<dyn Stream>,
    spec: Arc<Spec>,
    foreign: Option<Foreign>,
    /// The result of a pipeline that is the same for every document.
    cached: Option<Vec<Doc>>,
    arena: Bump,
    /// What was looked at on the far side.
    examined: Examined,
}

/// Bytes of a result that is kept for all documents.
const CACHE_BYTES_MAX: usize = limits::BLOCKING_STAGE_BYTES_MAX;

impl LookingUp {
    /// The documents that belong to one.
    fn matches(&mut self, doc: RawDoc<'_>, op: &Operation) -> Result<Box<dyn Stream>> {
        let spec = self.spec.clone();
        let variables = if spec.variables.is_empty() {
            spec.nested.kept().variables.clone()
        } else {
            let env = Env::new(doc, &self.arena);
            let mut values = Vec::new();
            for (name, expr) in &spec.variables {
                values.push((name.as_str(), expr.eval(&env)?));
            }
            with_values(spec.nested.kept().variables.as_doc(), &values)
        };
        self.arena.reset();
        if let (Some(foreign), Some((near, _))) = (&mut self.foreign, &spec.fields) {
            let found = foreign.find(&spec.nested, &values_at(doc, near), None, op)?;
            return spec.nested.follow(variables.as_doc(), found);
        }
        if !spec.variables.is_empty() {
            return spec.nested.open(variables.as_doc());
        }
        if self.cached.is_none() {
            let mut stream = spec.nested.open(variables.as_doc())?;
            self.cached = collect(&mut *stream, op, CACHE_BYTES_MAX)?;
            stream.examined(&mut self.examined);
        }
        match &self.cached {
            Some(docs) => Ok(Box::new(Found(docs.clone().into_iter()))),
            None => spec.nested.open(variables.as_doc()),
        }
    }
}

impl Stream for LookingUp {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        let Some(doc) = self.input.next(op)? else { return Ok(None) };
        let mut stream = self.matches(doc.raw(), op)?;
        let mut found = Vec::new();
        let start = writer::open(&mut found);
        let mut count = 0;
        while let Some(doc) = stream.next(op)? {
            found.push(value::Type::Document as u8);
            writer::write_index(&mut found, count);
            found.push(0);
            found.extend_from_slice(&doc);
            count += 1;
            if found.len() > limits::DOCUMENT_BYTES_MAX {
                return Err(Error::new(
                    Code(4568),
                    format!(
                        "Total size of documents in {} matching pipeline's $lookup stage exceeds {} \
                         bytes",
                        self.spec.nested.collection().map_or("", |collection| &collection.name),
                        limits::DOCUMENT_BYTES_MAX
                    ),
                ));
            }
        }
        writer::close(&mut found, start);
        stream.examined(&mut self.examined);
        let mut out = Vec::with_capacity(doc.len() + found.len() + 16);
        with_value(doc.raw(), self.spec.place.parts(), Val::Array(RawDoc::new(&found)), &mut out);
        Ok(Some(Doc::Made(out)))
    }

    fn is_done(&self) -> bool {
        self.input.is_done()
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
        total.keys += self.examined.keys;
        total.documents += self.examined.documents;
    }
}
