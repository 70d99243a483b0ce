//! `read` of find, aggregate and findAndModify: whether large arrays that a layout stores in chunks are
//! returned whole, or only the elements that stay in their document. Filters, expressions and stages
//! see the whole array; only one that is returned as it is stored is cut.

use super::Context;
use super::query::Find;
use crate::catalog::Collection;
use crate::exec::{Doc, Examined, Stream};
use crate::layout::{self, Reader};
use crate::operation::Operation;
use patterns::layout::{Demand, Slice};
use patterns::paths::{self, meet};
use std::sync::Arc;
use store::Snapshot;
use value::path::Path;
use value::{DocBuf, Error, RawDoc, RawVal, Result, Val, Writer};

/// The arrays of which a command returns heads.
#[derive(Clone)]
pub(super) struct Heads {
    collection: Arc<Collection>,
    snapshot: Snapshot,
    /// The arrays that are returned as they are stored.
    cut: Vec<String>,
    /// Those of them that nothing else reads. The filter and the sort of a find, and a `$match` at the
    /// start of a pipeline, are not looked at.
    pub(super) unread: Vec<String>,
}

/// What a part of a query does with an array.
#[derive(Default)]
struct Use {
    reads: bool,
    changes: bool,
}

/// Programs that copy documents, by the names that they give when they connect. They get whole arrays.
static COPIERS: &[&str] = &["mongodump", "mongoexport"];

fn copies(op: &Operation) -> bool {
    COPIERS.contains(&op.slot().application.lock().as_str())
}

/// The arrays of a collection of which a reader gets heads, by the option `read` and the declarations.
fn wanted(context: &Context<'_>, collection: &Collection) -> Result<Vec<String>> {
    let args = &context.args;
    let asked = match args.get("read") {
        None => copies(context.op).then_some(false),
        Some(Val::String("head")) => Some(true),
        Some(Val::String("full")) => Some(false),
        Some(Val::String(other)) => {
            return Err(Error::bad_value(format!(
                "'read' must be 'head' or 'full', found '{other}'"
            )));
        }
        Some(other) => return Err(args.wrong_type("read", other, "string")),
    };
    let Some(layouts) = &collection.layouts else { return Ok(Vec::new()) };
    let headed = layouts.headed();
    let shown = headed.filter(|(_, by_default)| asked.unwrap_or(*by_default));
    Ok(shown.map(|(path, _)| path.to_owned()).collect())
}

impl Heads {
    /// The arrays that are cut in the reply of a find, or of findAndModify, with this projection.
    pub(super) fn of_find(
        context: &Context<'_>,
        collection: &Arc<Collection>,
        snapshot: &Snapshot,
        projection: Option<RawDoc<'_>>,
    ) -> Result<Option<Heads>> {
        Heads::of(context, collection, snapshot, |array, used| {
            if let Some(projection) = projection {
                project(projection, "", array, true, used);
            }
        })
    }

    /// The arrays that are cut in the result of a pipeline.
    pub(super) fn of_pipeline(
        context: &Context<'_>,
        collection: &Arc<Collection>,
        snapshot: &Snapshot,
        pipeline: RawDoc<'_>,
    ) -> Result<Option<Heads>> {
        Heads::of(context, collection, snapshot, |array, used| {
            for (at, (_, stage)) in pipeline.iter().enumerate() {
                let Some((name, value)) = stage.as_doc().and_then(RawDoc::first) else { continue };
                if at > 0 || name != "$match" {
                    pass(name, value, array, used);
                }
            }
        })
    }

    fn of(
        context: &Context<'_>,
        collection: &Arc<Collection>,
        snapshot: &Snapshot,
        note: impl Fn(&str, &mut Use),
    ) -> Result<Option<Heads>> {
        let (mut cut, mut unread) = (Vec::new(), Vec::new());
        for array in wanted(context, collection)? {
            let mut used = Use::default();
            note(&array, &mut used);
            if !used.changes && !used.reads {
                unread.push(array.clone());
            }
            if !used.changes {
                cut.push(array);
            }
        }
        let (collection, snapshot) = (collection.clone(), snapshot.clone());
        Ok((!cut.is_empty()).then_some(Heads { collection, snapshot, cut, unread }))
    }

    /// The document with heads; `None` if it is the same.
    pub(super) fn cut(&self, doc: RawDoc<'_>) -> Result<Option<DocBuf>> {
        let Some(layouts) = &self.collection.layouts else { return Ok(None) };
        let mut image: Option<DocBuf> = None;
        for path in &self.cut {
            let doc = image.as_ref().map_or(doc, DocBuf::as_doc);
            let cut = layouts.head(path, doc, &mut || self.is_spilled(path, doc))?;
            image = cut.map(DocBuf::from_bytes).or(image);
        }
        Ok(image)
    }

    /// Whether the array of a document is stored in chunks.
    fn is_spilled(&self, path: &str, doc: RawDoc<'_>) -> Result<bool> {
        let Some(id) = doc.get("_id") else { return Ok(false) };
        let record = crate::exec::write::record_of_id(&self.collection, id);
        let key = crate::exec::write::document_key(&self.collection, &record);
        let found = layout::get_part(&self.collection, &self.snapshot, &key, Some(&self.reader()))?;
        let count = |doc: RawDoc<'_>| match Path::new(path).get(doc) {
            Val::Array(array) => array.count(),
            _ => 0,
        };
        Ok(found.is_some_and(|found| count(RawDoc::new(&found)) < count(doc)))
    }

    fn reader(&self) -> Arc<Reader> {
        let heads = self.cut.clone();
        Arc::new(Reader::new(Demand { heads, ..Demand::WHOLE.clone() }))
    }

    /// The same documents with heads.
    pub(super) fn over(self, inner: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(HeadStream { inner, heads: self })
    }
}

/// The page of an array that a find returns, if its projection has a `$slice` of an array in chunks that
/// nothing else of it reads; and its projection for documents that have only this page.
pub(super) fn page(find: &Find<'_>, collection: &Collection) -> Option<(Slice, DocBuf)> {
    let (layouts, projection) = (collection.layouts.as_ref()?, find.projection?);
    if find.return_key || find.show_record || collection.form.is_some() {
        return None;
    }
    for (array, _) in layouts.headed().filter(|(array, _)| !array.contains('.')) {
        let Some(slice) = slice_of(projection, array) else { continue };
        let selects = |(name, value): (&str, RawVal<'_>)| {
            let is_plain = value.get().is_number() || matches!(value.get(), Val::Bool(_));
            name == array || (is_plain && !meet(name, array))
        };
        let mut read = Vec::new();
        paths::of_filter(find.filter.unwrap_or(RawDoc::empty()), &mut read);
        let sort = find.sort.unwrap_or(RawDoc::empty());
        read.extend(sort.iter().map(|(path, _)| path.to_owned()));
        if !projection.iter().all(selects) || read.iter().any(|path| meet(path, array)) {
            continue;
        }
        let changed = DocBuf::build(|out| {
            for (name, value) in projection {
                match name == array {
                    true => out.doc(name, |out| {
                        out.i32("$slice", i32::MAX);
                    }),
                    false => out.raw(name, value),
                };
            }
        });
        return Some((slice, changed));
    }
    None
}

/// The `$slice` of an array in a projection.
fn slice_of(projection: RawDoc<'_>, array: &str) -> Option<Slice> {
    let spec = projection.find(array)?.as_doc()?;
    let mut clauses = spec.iter();
    let (Some(("$slice", value)), None) = (clauses.next(), clauses.next()) else { return None };
    let path = array.to_owned();
    let Val::Array(pair) = value.get() else {
        let count = value.get().as_i64_exact().filter(|_| value.get().is_number())?;
        let elements = usize::try_from(count.unsigned_abs()).ok()?;
        return Some(Slice { path, skip: count.min(0), count: elements });
    };
    let numbers: Vec<i64> =
        pair.iter().filter_map(|(_, value)| value.get().as_i64_exact()).collect();
    let [skip, count] = *numbers else { return None };
    let is_plain = pair.count() == 2 && count > 0;
    is_plain.then_some(Slice { path, skip, count: usize::try_from(count).ok()? })
}

/// What a reader of one whole document needs, if it gets heads of arrays.
pub(super) fn reader_of(op: &Operation, collection: &Collection) -> Option<Arc<Reader>> {
    let layouts = collection.layouts.as_ref().filter(|_| !copies(op))?;
    let shown = layouts.headed().filter(|(_, by_default)| *by_default);
    let heads: Vec<String> = shown.map(|(path, _)| path.to_owned()).collect();
    let demand = || Demand { heads, ..Demand::WHOLE.clone() };
    layouts.headed().any(|(_, by_default)| by_default).then(|| Arc::new(Reader::new(demand())))
}

/// Notes what a stage does with an array.
fn pass(name: &str, value: RawVal<'_>, array: &str, used: &mut Use) {
    let spec = value.as_doc().unwrap_or(RawDoc::empty());
    let mut found = Vec::new();
    match name {
        "$match" => paths::of_filter(spec, &mut found),
        "$sort" => found.extend(spec.iter().map(|(path, _)| path.to_owned())),
        "$limit" | "$skip" | "$sample" => {}
        "$project" => project(spec, "", array, true, used),
        "$addFields" | "$set" => project(spec, "", array, false, used),
        "$unset" => {
            let names = value.as_array().unwrap_or(RawDoc::empty());
            let names = names.iter().filter_map(|(_, name)| name.get().as_str());
            for path in names.chain(value.get().as_str()) {
                used.changes |= is_inside(path, array);
            }
        }
        "$lookup" | "$graphLookup" => {
            let path = |name: &str| spec.get(name).and_then(Val::as_str);
            used.changes |= path("as").is_none_or(|path| meet(path, array));
            found.extend(path("localField").map(str::to_owned));
            for name in ["let", "startWith"] {
                paths::of_expression(spec.get(name).unwrap_or(Val::Null), &mut found);
            }
        }
        _ => used.changes = true,
    }
    used.reads |= found.iter().any(|path| meet(path, array));
}

/// Whether a path is inside of an array, not the array or around it.
fn is_inside(path: &str, array: &str) -> bool {
    path != array && paths::is_within(path, array)
}

/// Notes what a projection does with an array. `selects` says whether numbers include and exclude
/// fields; otherwise they are values.
fn project(spec: RawDoc<'_>, prefix: &str, array: &str, selects: bool, used: &mut Use) {
    for (name, value) in spec {
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        match value.get() {
            value if selects && (value.is_number() || matches!(value, Val::Bool(_))) => {
                used.changes |= is_inside(&path, array);
            }
            Val::Document(inner) if inner.first().is_some_and(|(n, _)| !n.starts_with('$')) => {
                project(inner, &path, array, selects, used);
            }
            value => {
                used.changes |= meet(&path, array);
                let mut found = Vec::new();
                paths::of_expression(value, &mut found);
                used.reads |= found.iter().any(|path| meet(path, array));
            }
        }
    }
}

/// Documents with heads of arrays.
struct HeadStream {
    inner: Box<dyn Stream>,
    heads: Heads,
}

impl Stream for HeadStream {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        let Some(doc) = self.inner.next(op)? else { return Ok(None) };
        let cut = self.heads.cut(doc.raw())?;
        Ok(Some(cut.map_or(doc, |cut| Doc::Made(cut.into_bytes()))))
    }

    fn is_done(&self) -> bool {
        self.inner.is_done()
    }

    fn source(&self) -> Option<&dyn Stream> {
        Some(&*self.inner)
    }

    fn write_own_stats(&self, out: &mut Writer<'_>) {
        self.inner.write_own_stats(out);
    }

    fn examined(&self, total: &mut Examined) {
        self.inner.examined(total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    /// What a pipeline does with the array `c`: `w` if it is no longer what is stored, `r` if it is
    /// read.
    fn used(pipeline: &str) -> &'static str {
        let doc = ejson::parse_doc(&format!("{{p: {pipeline}}}")).expect("test text");
        let Some(Val::Array(stages)) = doc.as_doc().get("p") else { panic!("no array") };
        let mut used = Use::default();
        for (_, stage) in stages {
            let (name, value) = stage.as_doc().and_then(RawDoc::first).expect("a stage");
            pass(name, value, "c", &mut used);
        }
        match (used.changes, used.reads) {
            (true, _) => "w",
            (false, true) => "r",
            (false, false) => "",
        }
    }

    #[test]
    fn a_slice_is_taken_if_it_is_plain() {
        let slice = |projection: &str| {
            let doc = ejson::parse_doc(projection).expect("test text");
            slice_of(doc.as_doc(), "c").map(|slice| (slice.skip, slice.count))
        };
        assert_eq!(slice("{c: {$slice: 5}}"), Some((0, 5)));
        assert_eq!(slice("{a: 1, c: {$slice: -5}}"), Some((-5, 5)));
        assert_eq!(slice("{c: {$slice: [100, 20]}}"), Some((100, 20)));
        assert_eq!(slice("{c: {$slice: [-7, 2]}}"), Some((-7, 2)));
        for other in
            ["{c: {$slice: [1, 0]}}", "{c: {$slice: ['$c', 5]}}", "{c: {$slice: 1.5}}", "{c: 1}"]
        {
            assert_eq!(slice(other), None, "{other}");
        }
    }

    #[test]
    fn stages_read_or_change_an_array_or_neither() {
        for (pipeline, expected) in [
            ("[{$match: {a: 1}}, {$sort: {a: 1}}, {$limit: 3}]", ""),
            ("[{$match: {'c.x': 1}}]", "r"),
            ("[{$sort: {c: 1}}]", "r"),
            ("[{$match: {$expr: {$gt: [{$size: '$c'}, 3]}}}]", "r"),
            ("[{$project: {c: 1, a: 1}}]", ""),
            ("[{$project: {c: 0}}]", ""),
            ("[{$project: {c: 1, n: {$size: '$c'}}}]", "r"),
            ("[{$project: {'c.x': 1}}]", "w"),
            ("[{$project: {c: {x: 1}}}]", "w"),
            ("[{$project: {c: {$slice: ['$c', 3]}}}]", "w"),
            ("[{$set: {a: 1, b: '$a'}}]", ""),
            ("[{$set: {b: '$c'}}]", "r"),
            ("[{$set: {b: '$$ROOT'}}]", "r"),
            ("[{$set: {c: 1}}]", "w"),
            ("[{$set: {'c.x': '$a'}}]", "w"),
            ("[{$unset: ['a', 'b']}]", ""),
            ("[{$unset: 'c.x'}]", "w"),
            ("[{$lookup: {from: 'f', localField: 'a', foreignField: 'b', as: 'd'}}]", ""),
            ("[{$lookup: {from: 'f', localField: 'c.x', foreignField: 'b', as: 'd'}}]", "r"),
            ("[{$lookup: {from: 'f', localField: 'a', foreignField: 'b', as: 'c'}}]", "w"),
            ("[{$unwind: '$c'}]", "w"),
            ("[{$group: {_id: '$a'}}]", "w"),
            ("[{$replaceWith: {c: '$c'}}]", "w"),
        ] {
            assert_eq!(used(pipeline), expected, "{pipeline}");
        }
    }
}
