//! `$lookup`: adds to each document the matching documents of another collection.
//!
//! An equality of two fields, or of a field and a variable of `let`, is answered by an index of the
//! foreign collection or by one table of it in memory (`foreign`). A pipeline is compiled once, and
//! its variables are set for each document; the leading stages that depend on no variable run once.
//! A following `$unwind` of the result is included, so that no array is built. Where a pattern
//! keeps copies of all needed fields, the foreign side is not read (`copied`).

use super::copied::Copied;
use super::foreign::{Foreign, Matches, Strategy, is_plain, question, values_at};
use super::nested::{Compiled, Nested, collect, string_field};
use super::privileges::Privilege;
use super::unwind::with_value;
use super::{
    Role, Stage, StageContext, StageReads, StageRow, UnwindSpec, Within, match_stage, needed,
};
use crate::exec::{Doc, Examined, Stream};
use crate::memory::Share;
use crate::operation::Operation;
use crate::planner::logical::InnerFired;
use crate::stages::pipeline::{open_stages, stage_rules};
use bumpalo::Bump;
use parking_lot::Mutex;
use query::DeferredVariable;
use query::expr::{Env, Expr};
use std::sync::Arc;
use value::path::Path;
use value::{Code, Error, OwnedVal, RawDoc, Result, Val, Writer, limits, writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$lookup",
    help: "Adds the matching documents of another collection to each document.",
    parse,
    privilege: Privilege::Beside(|client, spec, depth| client.join_allowed(spec, depth)),
    ..StageRow::BASE
};

struct Lookup {
    spec: Arc<Spec>,
    pool: Pool,
    source: OwnedVal,
}

struct Spec {
    nested: Nested,
    place: Path,
    /// The fields that must be equal, local and foreign.
    fields: Option<(Path, Path)>,
    variables: Vec<(String, Expr)>,
    /// The `$unwind` of the result that follows directly: no array is built.
    unwinding: Option<UnwindSpec>,
    /// The copies that replace the foreign side, if a document has all of them.
    copied: Option<Copied>,
    /// What the stages behind it read of the foreign documents; `None` for all.
    after: Option<Vec<String>>,
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
    let mut copied = None;
    for (name, value) in doc {
        let value = value.get();
        match name {
            Copied::NAME if context.rewritten => copied = Copied::parse(value),
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
    if let (Some(_), Some((name, _))) = (&fields, first)
        && super::find(name).is_some_and(|row| row.diagnose().is_some())
    {
        // The condition on the fields comes first.
        return Err(Error::new(
            Code(40602),
            format!("{name} is only valid as the first stage in a pipeline"),
        ));
    }
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
    let nested = Nested::new(context, Within::Lookup, (from, foreign), own, &names)?;
    let place = field(place)?;
    let variables = compiled;
    let spec = Spec { nested, place, fields, variables, unwinding: None, copied, after: None };
    // A pipeline that does not compile is refused before anything runs.
    let first = spec.state()?;
    let pool = Mutex::new(vec![first]);
    Ok(Box::new(Lookup { spec: Arc::new(spec), pool: Arc::new(pool), source: value.into() }))
}

/// Reads a path that names a field.
pub(super) fn field(text: &str) -> Result<Path> {
    query::check_field_path(text)?;
    Ok(Path::new(text))
}

impl Stage for Lookup {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(LookupStream {
            input,
            spec: self.spec.clone(),
            pool: self.pool.clone(),
            state: None,
            current: None,
            arena: Bump::new(),
            examined: Examined::default(),
        })
    }

    fn role(&self) -> Role<'_> {
        Role::Lookup { field: self.spec.place.text(), unwinds: self.spec.unwinding.is_some() }
    }

    fn absorb(&mut self, next: &dyn Stage, _: &StageContext<'_>) -> bool {
        let Role::Unwind(unwind) = next.role() else { return false };
        let Some(spec) = Arc::get_mut(&mut self.spec) else { return false };
        spec.unwinding = Some(unwind.clone());
        true
    }

    fn reads(&self) -> Option<StageReads> {
        // Copies stand anywhere in the document.
        if self.spec.copied.is_some() {
            return None;
        }
        let mut paths: Vec<String> = Vec::new();
        paths.extend(self.spec.fields.iter().map(|(near, _)| near.text().to_owned()));
        for (_, variable) in &self.spec.variables {
            paths.extend(variable.read_paths()?);
        }
        Some(StageReads { paths, passes: true })
    }

    fn set_read_after(&mut self, after: &dyn Fn() -> Option<Vec<String>>) {
        if !self.spec.nested.has_parts() {
            return;
        }
        let Some(spec) = Arc::get_mut(&mut self.spec) else { return };
        spec.after = after().and_then(|after| needed::within(spec.place.text(), &after));
        for LookupState { compiled, join, .. } in self.pool.lock().iter_mut() {
            if let Some(join) = join {
                join.foreign.needed = self.spec.needed(compiled, join.foreign.field());
            }
        }
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.doc(ROW.name, |out| {
            if let Val::Document(doc) = self.source.get() {
                out.extend(doc);
            }
            if let Some(unwinding) = &self.spec.unwinding {
                out.doc("unwinding", |out| {
                    out.bool("preserveNullAndEmptyArrays", unwinding.keep_empty);
                    if let Some(index) = &unwinding.index {
                        out.str("includeArrayIndex", index.text());
                    }
                });
            }
        });
        let (strategy, index) = match self.pool.lock().last().map(|state| &state.join) {
            Some(Some(join)) => join.foreign.planned_strategy(&self.spec.nested),
            _ => (Strategy::Query, None),
        };
        out.str("strategy", strategy.name());
        if let Some(index) = index {
            out.str("indexName", &index);
        }
    }

    fn inner_rules(&self, path: &str, inner: &mut InnerFired) -> Result<()> {
        match self.pool.lock().last() {
            Some(state) => {
                state.inner_rules(&self.spec, &format!("{path}.{}.pipeline", ROW.name), inner)
            }
            None => Ok(()),
        }
    }
}

/// The state of one run of the stage, which the next run can reuse.
struct LookupState {
    compiled: Compiled,
    join: Option<Join>,
    /// The documents of the pipeline's leading stages that are the same for every document.
    cached: Cached,
}

enum Cached {
    Unknown,
    /// The documents, with their memory accounting.
    Documents {
        docs: Vec<Doc>,
        _share: Share,
    },
    /// Too many documents to keep.
    Refused,
}

/// An equality by which foreign documents are found.
struct Join {
    foreign: Foreign,
    /// The value, if it is a variable of the pipeline instead of a field.
    value: Option<Expr>,
}

impl Spec {
    fn state(&self) -> Result<LookupState> {
        let compiled = self.nested.compile()?;
        let mut join = match &self.fields {
            Some((_, far)) => {
                let mut foreign = Foreign::new(far.clone(), false, None);
                // As in MongoDB, a plain join may read everything in spite of 'notablescan'.
                foreign.may_scan = !compiled.has_own();
                Some(Join { foreign, value: None })
            }
            None => self.correlation(&compiled)?,
        };
        if let Some(join) = &mut join {
            join.foreign.needed = self.needed(&compiled, join.foreign.field());
        }
        Ok(LookupState { compiled, join, cached: Cached::Unknown })
    }

    /// What is read of the foreign documents that a field finds; `None` for all.
    fn needed(&self, compiled: &Compiled, field: &Path) -> Option<Vec<String>> {
        if !self.nested.has_parts() {
            return None;
        }
        let stages = if self.fields.is_some() { compiled.own() } else { &*compiled.joined };
        let mut paths = needed::by(stages, self.after.as_deref())?;
        paths.push(field.text().to_owned());
        Some(paths)
    }

    /// Whether the pipeline begins with `$documents` instead of reading a collection.
    fn reads_documents(&self) -> bool {
        let first = self.nested.joined().first().and_then(|(_, stage)| stage.as_doc()?.first());
        first.is_some_and(|(name, _)| name == "$documents")
    }

    /// Finds an equality of a field and a variable in the pipeline's first `$match`.
    fn correlation(&self, compiled: &Compiled) -> Result<Option<Join>> {
        let first = self.nested.joined().first().and_then(|(_, stage)| stage.as_doc());
        let Some(Val::Document(filter)) = first.and_then(|stage| stage.get("$match")) else {
            return Ok(None);
        };
        let is_variable = |text: &str| {
            let name = text.strip_prefix("$$").and_then(|text| text.split('.').next());
            name.is_some_and(|name| self.variables.iter().any(|(known, _)| known == name))
        };
        let Some((path, variable)) = equality(filter, &is_variable) else { return Ok(None) };
        let known = self.nested.kept().with_deferred(&compiled.variables);
        let value = Some(Expr::parse(Val::String(variable), &known)?);
        Ok(Some(Join { foreign: Foreign::new(field(path)?, true, None), value }))
    }
}

/// Finds an equality of a field with a variable that every match of a filter satisfies.
fn equality<'f>(
    filter: RawDoc<'f>,
    is_variable: &dyn Fn(&str) -> bool,
) -> Option<(&'f str, &'f str)> {
    filter.iter().find_map(|(name, value)| match (name, value.get()) {
        ("$and", Val::Array(parts)) => {
            parts.iter().find_map(|(_, part)| equality(part.as_doc()?, is_variable))
        }
        ("$expr", expr) => equality_of_expression(expr, is_variable),
        _ => None,
    })
}

fn equality_of_expression<'f>(
    expr: Val<'f>,
    is_variable: &dyn Fn(&str) -> bool,
) -> Option<(&'f str, &'f str)> {
    let doc = expr.as_doc().filter(|doc| doc.count() == 1)?;
    match doc.first().map(|(name, value)| (name, value.get()))? {
        ("$and", Val::Array(parts)) => {
            parts.iter().find_map(|(_, part)| equality_of_expression(part.get(), is_variable))
        }
        ("$eq", Val::Array(sides)) => {
            let mut sides = sides.iter().map(|(_, side)| side.get().as_str());
            let (Some(Some(a)), Some(Some(b)), None) = (sides.next(), sides.next(), sides.next())
            else {
                return None;
            };
            let path = |text: &'f str| text.strip_prefix('$').filter(|t| !t.starts_with('$'));
            match (path(a), path(b)) {
                (Some(path), None) if is_variable(b) => Some((path, b)),
                (None, Some(path)) if is_variable(a) => Some((path, a)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Unused copies of the state.
type Pool = Arc<Mutex<Vec<LookupState>>>;

struct LookupStream {
    input: Box<dyn Stream>,
    spec: Arc<Spec>,
    pool: Pool,
    state: Option<LookupState>,
    /// The document whose matches are being returned one by one.
    current: Option<Current>,
    arena: Bump,
    /// What was examined on the foreign side.
    examined: Examined,
}

struct Current {
    doc: Doc,
    matches: Matches,
    place: i64,
}

/// Maximum bytes of the array of one document: later stages may reduce it.
const ARRAY_BYTES_MAX: usize = limits::BLOCKING_STAGE_BYTES_MAX;

/// Maximum bytes of a result that is kept for all documents.
const CACHE_BYTES_MAX: usize = limits::BLOCKING_STAGE_BYTES_MAX;

impl Drop for LookupStream {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        if state.compiled.reads_outer {
            state.cached = Cached::Unknown;
        }
        self.current = None;
        self.pool.lock().push(state);
    }
}

impl LookupState {
    /// Adds the rules that fired in the pipeline, in the way in which `matches` runs it.
    fn inner_rules(&self, spec: &Spec, path: &str, inner: &mut InnerFired) -> Result<()> {
        let stages = &self.compiled.joined;
        if spec.fields.is_some() {
            return self.compiled.own_rules(path, inner);
        }
        let fired = if self.join.is_some() {
            stage_rules(stages)
        } else if self.compiled.constant > 0 {
            let (front, rest) = stages.split_at(self.compiled.constant.min(stages.len()));
            let mut fired = spec.nested.rules(front)?;
            fired.add_all(stage_rules(rest));
            fired
        } else {
            spec.nested.rules(stages)?
        };
        self.compiled.rewriting.collect(stages, fired, path, inner)
    }

    /// Returns the matches of the document whose variables were set.
    fn matches(
        &mut self,
        spec: &Spec,
        doc: RawDoc<'_>,
        arena: &Bump,
        examined: &mut Examined,
        op: &Operation,
    ) -> Result<Matches> {
        if let (Some(join), Some((near, far))) = (&mut self.join, &spec.fields) {
            let values = values_at(doc, near);
            if spec.reads_documents() {
                return self.among_documents(spec, far, &values);
            }
            let found = join.foreign.find(&spec.nested, &values, op)?;
            if !self.compiled.has_own() {
                return Ok(found);
            }
            return Ok(Matches::Stream(self.compiled.open_own(Box::new(found))));
        }
        if let Some(Join { foreign, value: Some(value) }) = &mut self.join {
            let value = value.eval(&Env::new(doc, arena))?;
            // The pipeline's filter runs on the found documents, and distinguishes null from
            // missing.
            let asked = if value.is_missing() { Val::Null } else { value };
            foreign.prepare(&spec.nested, op)?;
            let sorts =
                matches!(self.compiled.joined.get(1).map(|s| s.role()), Some(Role::Sort(_)));
            if sorts && foreign.has_index() && is_plain(&asked) {
                // An index may have the order as well: the planner decides.
                let path = foreign.field().text().to_owned();
                return planned(&mut self.compiled, spec, &path, asked);
            }
            if !matches!(asked, Val::Array(_) | Val::Regex(..) | Val::Undefined) {
                let found = foreign.find(&spec.nested, &[asked], op)?;
                let stream = open_stages(&self.compiled.joined, Box::new(found));
                return Ok(Matches::Stream(stream));
            }
        }
        if self.compiled.constant > 0 && !matches!(self.cached, Cached::Refused) {
            return self.after_cache(spec, examined, op);
        }
        Ok(Matches::Stream(spec.nested.read(&self.compiled.joined, spec.after.as_deref())?))
    }

    /// Runs a pipeline that begins with `$documents`: those with one of the values go on.
    fn among_documents(&self, spec: &Spec, far: &Path, values: &[Val<'_>]) -> Result<Matches> {
        let stages = &self.compiled.joined;
        let (front, rest) = stages.split_at(1.min(stages.len()));
        let question = question(far.text(), values, None);
        let filter = match_stage::make(question.as_doc(), &spec.nested.kept().with_deferred(&[]))?;
        let found = open_stages(std::slice::from_ref(&filter), spec.nested.read(front, None)?);
        Ok(Matches::Stream(open_stages(rest, found)))
    }

    /// Runs the pipeline over the documents of its leading stages, which are read once.
    fn after_cache(
        &mut self,
        spec: &Spec,
        examined: &mut Examined,
        op: &Operation,
    ) -> Result<Matches> {
        let stages = &self.compiled.joined;
        let (front, rest) = stages.split_at(self.compiled.constant.min(stages.len()));
        if let Cached::Unknown = self.cached {
            let read = needed::by(rest, spec.after.as_deref());
            let mut stream = spec.nested.read(front, read.as_deref())?;
            let mut share = op.share();
            let docs = collect(&mut *stream, op, CACHE_BYTES_MAX, &mut share)?;
            stream.examined(examined);
            self.cached =
                docs.map_or(Cached::Refused, |docs| Cached::Documents { docs, _share: share });
        }
        let Cached::Documents { docs, .. } = &self.cached else {
            return Ok(Matches::Stream(spec.nested.read(stages, spec.after.as_deref())?));
        };
        let found = Matches::few(docs.iter().cloned().collect());
        if rest.is_empty() {
            return Ok(found);
        }
        Ok(Matches::Stream(open_stages(rest, Box::new(found))))
    }
}

/// Opens the pipeline with an equality added to its filter, for the planner.
fn planned(compiled: &mut Compiled, spec: &Spec, path: &str, value: Val<'_>) -> Result<Matches> {
    let first = spec.nested.joined().first().and_then(|(_, stage)| stage.as_doc());
    let written = first.and_then(|stage| stage.get("$match")).and_then(Val::as_doc);
    let question = question(path, &[value], written);
    let kept = spec.nested.kept();
    let known: Vec<DeferredVariable> =
        kept.deferred.iter().chain(&compiled.variables).cloned().collect();
    let filter = match_stage::make(question.as_doc(), &kept.with_deferred(&known))?;
    let Some(front) = compiled.joined.first_mut() else {
        return Err(Error::internal("a pipeline with a filter has a first stage"));
    };
    let original = std::mem::replace(front, filter);
    let stream = spec.nested.read(&compiled.joined, spec.after.as_deref());
    if let Some(front) = compiled.joined.first_mut() {
        *front = original;
    }
    stream.map(Matches::Stream)
}

impl LookupStream {
    /// What was examined on the foreign side.
    fn foreign_examined(&self) -> Examined {
        let join = self.state.as_ref().and_then(|state| state.join.as_ref());
        let direct = join.map(|join| join.foreign.examined()).unwrap_or_default();
        Examined {
            keys: self.examined.keys + direct.keys,
            documents: self.examined.documents + direct.documents,
            bytes: self.examined.bytes + direct.bytes,
        }
    }

    /// Returns the matches of a document.
    fn matches(&mut self, doc: RawDoc<'_>, op: &Operation) -> Result<Matches> {
        if let Some(copy) = self.spec.copied.as_ref().and_then(|copied| copied.of(doc)) {
            return Ok(Matches::few(smallvec::smallvec![copy]));
        }
        let state = match &mut self.state {
            Some(state) => state,
            none => {
                self.spec.nested.check_metadata()?;
                let waiting = self.pool.lock().pop();
                none.insert(waiting.map_or_else(|| self.spec.state(), Ok)?)
            }
        };
        if !self.spec.variables.is_empty() {
            let env = Env::new(doc, &self.arena);
            for ((_, expr), deferred) in self.spec.variables.iter().zip(&state.compiled.variables) {
                deferred.set(expr.eval(&env)?);
            }
        }
        let found = state.matches(&self.spec, doc, &self.arena, &mut self.examined, op);
        self.arena.reset();
        found
    }

    /// Returns the document with the array of its matches.
    fn with_array(&mut self, doc: &Doc, op: &Operation) -> Result<Vec<u8>> {
        let mut matches = self.matches(doc.raw(), op)?;
        let mut out = Vec::with_capacity(doc.len() + 256);
        let place = &self.spec.place;
        let appends = place.is_single() && doc.raw().find(place.text()).is_none();
        let start = if appends { begin_array(doc.raw(), place.text(), &mut out) } else { 0 };
        let list = writer::open(&mut out);
        let mut count = 0;
        while let Some(doc) = matches.next(op)? {
            out.push(value::Type::Document as u8);
            writer::write_index(&mut out, count);
            out.push(0);
            out.extend_from_slice(&doc);
            count += 1;
            if out.len() - list > ARRAY_BYTES_MAX {
                return Err(self.too_large());
            }
        }
        writer::close(&mut out, list);
        matches.examined(&mut self.examined);
        if appends {
            writer::close(&mut out, start);
            return Ok(out);
        }
        let mut whole = Vec::with_capacity(doc.len() + out.len() + 16);
        with_value(doc.raw(), place.parts(), Val::Array(RawDoc::new(&out)), &mut whole);
        Ok(whole)
    }

    #[cold]
    fn too_large(&self) -> Error {
        Error::new(
            Code(4568),
            format!(
                "Total size of documents in {} matching pipeline's $lookup stage exceeds {} bytes",
                self.spec.nested.collection().map_or("", |collection| &collection.name),
                ARRAY_BYTES_MAX
            ),
        )
    }

    /// Returns the next document with one of its matches.
    fn unwound(&mut self, op: &Operation) -> Result<Option<Doc>> {
        loop {
            let Some(current) = &mut self.current else {
                let Some(doc) = self.input.next(op)? else { return Ok(None) };
                let matches = self.matches(doc.raw(), op)?;
                self.current = Some(Current { doc, matches, place: 0 });
                continue;
            };
            let found = current.matches.next(op)?;
            let place = current.place;
            current.place += 1;
            if let Some(found) = found {
                let value = Val::Document(found.raw());
                return Ok(Some(self.spec.with_one(&current.doc, value, Val::Int64(place))));
            }
            let ended = self.current.take();
            let Some(Current { doc, matches, .. }) = ended else { continue };
            matches.examined(&mut self.examined);
            let keep = self.spec.unwinding.as_ref().is_some_and(|unwind| unwind.keep_empty);
            if place == 0 && keep {
                return Ok(Some(self.spec.with_one(&doc, Val::Missing, Val::Null)));
            }
        }
    }
}

impl Spec {
    /// Builds a document with one of its matches, and the index of that match.
    fn with_one(&self, doc: &Doc, found: Val<'_>, place: Val<'_>) -> Doc {
        let mut out = Vec::with_capacity(doc.len() + 256);
        with_value(doc.raw(), self.place.parts(), found, &mut out);
        let index = self.unwinding.as_ref().and_then(|unwind| unwind.index.as_ref());
        let Some(index) = index else { return Doc::Made(out) };
        let mut whole = Vec::with_capacity(out.len() + 24);
        with_value(RawDoc::new(&out), index.parts(), place, &mut whole);
        Doc::Made(whole)
    }
}

/// Copies a document, unclosed, up to the bytes of an array of this name. Returns what closes the
/// document.
fn begin_array(doc: RawDoc<'_>, name: &str, out: &mut Vec<u8>) -> usize {
    let start = writer::open(out);
    out.extend_from_slice(doc.elements_bytes());
    out.push(value::Type::Array as u8);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    start
}

impl Stream for LookupStream {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        if self.spec.unwinding.is_some() {
            return self.unwound(op);
        }
        let Some(doc) = self.input.next(op)? else { return Ok(None) };
        self.with_array(&doc, op).map(|doc| Some(Doc::Made(doc)))
    }

    fn is_done(&self) -> bool {
        self.current.is_none() && self.input.is_done()
    }

    fn source(&self) -> Option<&dyn Stream> {
        Some(&*self.input)
    }

    fn write_own_stats(&self, out: &mut Writer<'_>) {
        let examined = self.foreign_examined();
        out.count("totalDocsExamined", examined.documents);
        out.count("totalKeysExamined", examined.keys);
        if self.spec.nested.has_parts() {
            out.count("bytesRead", examined.bytes);
        }
        let join = self.state.as_ref().and_then(|state| state.join.as_ref());
        let scans = join.map_or(0, |join| join.foreign.scans());
        out.count("collectionScans", scans);
        out.array("indexesUsed", |list| {
            if let Some(name) = join.and_then(|join| join.foreign.index()) {
                list.push(Val::String(name));
            }
        });
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
        let far = self.foreign_examined();
        total.keys += far.keys;
        total.documents += far.documents;
        total.bytes += far.bytes;
    }
}
