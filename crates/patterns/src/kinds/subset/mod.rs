//! `subset`: the first few children of a parent in some order, stored inside the parent, with
//! their exact count. It is a fold, like `computed`: a ranking and a count. The form with `cold`
//! is in `vertical`.

pub(crate) mod declaration;
mod rewrite;
mod vertical;

use crate::answers::Question;
use crate::fold::{Accumulator, Field, Fold, Form, KeptFields, Keys, MissingParent, Window};
use crate::labels::Label;
use crate::pattern::Pattern;
use query::filter::Filter;
use value::path::Path;
use value::{DocBuf, RawDoc, Result, Val};

/// A fold whose option `fields` lists the fields that are kept of each child.
#[derive(Debug)]
pub struct Rows;

impl Form for Rows {
    fn labels(&self, pattern: &Pattern) -> Vec<Label> {
        let declared = pattern.declaration.as_doc();
        let text = |option| declared.get(option).and_then(Val::as_str);
        let into = text("into").unwrap_or("");
        let count = text("count").map(|count| Label::new(pattern, count.to_owned(), Vec::new()));
        let Some(fields) = declared.get("fields").and_then(Val::as_array) else {
            let whole = Label::new(pattern, into.to_owned(), vec![String::new()]);
            return std::iter::once(whole).chain(count).collect();
        };
        let fields = fields.iter().filter_map(|(_, path)| path.get().as_str());
        let fields = fields.filter(|path| *path != "_id").map(|path| (path, path));
        let rows = std::iter::once((text("idAs").unwrap_or("_id"), "_id")).chain(fields);
        let label = |(name, path): (&str, &str)| {
            Label::new(pattern, format!("{into}.{name}"), vec![path.to_owned()])
        };
        rows.map(label).chain(count).collect()
    }

    fn answer_first(
        &self,
        fold: &Fold,
        question: &Question<'_>,
        filter: RawDoc<'_>,
        sort: RawDoc<'_>,
        limit: u64,
    ) -> Result<Option<DocBuf>> {
        rewrite::first_children(fold, question, filter, sort, limit)
    }
}

/// The options of a subset.
pub struct SubsetOptions<'a> {
    /// The collection of the children.
    pub from: &'a str,
    /// The collection of the parents.
    pub collection: &'a str,
    /// The parents' key.
    pub local: &'a str,
    /// The field of the children with the same value.
    pub foreign: &'a str,
    /// The order.
    pub sort: RawDoc<'a>,
    /// How many children are kept.
    pub limit: usize,
    /// The fields that are kept of each; `None` keeps all.
    pub fields: Option<&'a [&'a str]>,
    /// The name of the child's `_id` in the copy.
    pub id_as: &'a str,
    /// The path of the children in the parent.
    pub into: &'a str,
    /// The path of their count.
    pub count: Option<&'a str>,
}

/// Builds the fold of a subset.
///
/// # Errors
/// BadValue for an invalid order.
pub fn grouped(
    options: &SubsetOptions<'_>,
    filter: Option<Filter>,
    window: Option<Window>,
    mut reads: Vec<String>,
) -> Result<Fold> {
    reads.extend(options.sort.iter().map(|(path, _)| path.to_owned()));
    match options.fields {
        Some(fields) => reads.extend(fields.iter().map(|path| (*path).to_owned())),
        None => reads.push(String::new()),
    }
    let kept = KeptFields::new(options.fields, options.id_as)?;
    let accumulator = Accumulator::first_children(options.sort, options.limit, kept)?;
    let mut fields = vec![Field { path: Path::new(options.into), accumulator }];
    if let Some(count) = options.count {
        fields.push(Field { path: Path::new(count), accumulator: Accumulator::Count });
    }
    Ok(Fold {
        source: options.from.to_owned(),
        target: options.collection.to_owned(),
        keys: Keys::Parents {
            local: Path::new(options.local),
            foreign: Path::new(options.foreign),
        },
        unwind: None,
        siblings: None,
        filter,
        window,
        fields,
        missing: MissingParent::Ignore,
        skip_errors: false,
        reads,
        bounds: false,
        flush: None,
    })
}
