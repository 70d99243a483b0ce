//! Covered queries: when an index contains every field that a query reads and returns, documents
//! are built from its entries and never fetched.
//!
//! The built document has only the index's fields, in the order of the key pattern. Filter, sort
//! and projection run on it as on a stored one.

use super::{Access, Candidate, Plan};
use crate::catalog::{Index, IndexField, IndexKind};
use query::filter::{Filter, Node, Test};
use query::project::Projection;
use query::sort::SortSpec;
use std::sync::Arc;
use value::key_types::{Decoded, Decoder};
use value::{Type, writer};

/// How documents are built from the entries of an index.
#[derive(Debug)]
pub struct Cover {
    /// The columns up to the last one that is needed.
    columns: Vec<Column>,
    fields: Vec<Slot>,
    /// Whether values are elements of arrays, and are put into arrays again.
    elements: bool,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    /// Whether it is descending.
    descending: bool,
    wanted: bool,
}

#[derive(Debug)]
enum Slot {
    /// A field with the value of this column.
    Value(Box<str>, usize),
    /// An embedded document.
    Inside(Box<str>, Vec<Slot>),
}

/// A field that a `$group` reads.
#[derive(Clone, Debug)]
pub struct FieldRead {
    /// Its path.
    pub path: String,
    /// Whether the value itself is needed, and not only its identity for grouping.
    pub value: bool,
}

/// The result of building a document from an entry.
pub enum Made {
    /// A document.
    Document(Vec<u8>),
    /// The key is not sufficient: it does not say which of the embedded documents around a missing
    /// field exist.
    Unknown,
    /// The entry is damaged.
    Damaged,
}

/// As `Made`, with a borrowed document.
pub enum BorrowedEntry<'b> {
    /// A document.
    Document(&'b [u8]),
    /// As in `Made`.
    Unknown,
    /// The entry is damaged.
    Damaged,
}

/// Buffers that are reused for every entry.
#[derive(Default)]
pub struct Buffers {
    bytes: Vec<u8>,
    document: Vec<u8>,
}

/// Makes a plan covered if its index has the filter's fields and those in `needed`.
pub fn apply_needed(plan: &mut Plan, filter: &Filter, mut needed: Vec<String>) {
    if !paths(filter.root(), &mut needed) {
        return;
    }
    match &mut plan.access {
        Access::Index(candidate) => {
            candidate.cover =
                Cover::of(&candidate.index, candidate.path.as_deref(), &needed).map(Arc::new);
        }
        // A covered index scan may beat the collection scan that replaced an index because of its
        // fetches.
        Access::Collection(_) => {
            let Some(Access::Index(left)) = plan.rejected.first() else { return };
            let path = left.path.as_deref();
            let Some(cover) = Cover::of(&left.index, path, &needed) else { return };
            if plan.sorted && !left.sorted {
                return;
            }
            plan.sorted = left.sorted;
            plan.implied = left.all_implied();
            plan.access = Access::Index(Candidate { cover: Some(Arc::new(cover)), ..left.clone() });
        }
        _ => {}
    }
}

/// Makes a plan that returns index keys covered, if the index has the fields of the filter and the
/// sort and its values can be restored.
pub fn apply_keys(plan: &mut Plan, filter: &Filter, sort: Option<&SortSpec>) {
    let Access::Index(candidate) = &mut plan.access else { return };
    let fields = candidate.index.fields.iter().map(|field| field.path.text().to_owned()).collect();
    let Some(needed) = needed_paths(Some(filter), sort, fields) else { return };
    let ordered = matches!(candidate.index.kind, IndexKind::Ordered);
    let cover = Cover::of(&candidate.index, None, &needed).filter(|_| ordered);
    candidate.cover = cover.map(Arc::new);
}

/// Makes a plan covered if its index has all required fields.
pub fn apply(
    plan: &mut Plan,
    filter: &Filter,
    sort: Option<&SortSpec>,
    projection: Option<&Projection>,
) {
    let Access::Index(candidate) = &mut plan.access else { return };
    let Some(included) = projection.and_then(Projection::included_paths) else { return };
    let position = projection.is_some_and(Projection::needs_position);
    // What the bounds say is not tested again.
    let open = Some(filter).filter(|filter| !filter.without(candidate.all_implied()).is_empty());
    let needed = needed_paths(open, sort, included).filter(|_| !position);
    let Some(needed) = needed else { return };
    candidate.cover = Cover::of(&candidate.index, candidate.path.as_deref(), &needed).map(Arc::new);
}

/// The paths that a query reads in addition to those it returns; `None` if it needs whole
/// documents.
#[must_use]
pub fn needed_paths(
    filter: Option<&Filter>,
    sort: Option<&SortSpec>,
    returned: Vec<String>,
) -> Option<Vec<String>> {
    all_paths(filter, sort, returned, false)
}

/// The same for documents that are read in part: their fields are those of the whole documents,
/// also for expressions, which distinguish null from missing.
#[must_use]
pub fn read_paths(
    filter: Option<&Filter>,
    sort: Option<&SortSpec>,
    returned: Vec<String>,
) -> Option<Vec<String>> {
    all_paths(filter, sort, returned, true)
}

fn all_paths(
    filter: Option<&Filter>,
    sort: Option<&SortSpec>,
    returned: Vec<String>,
    expressions: bool,
) -> Option<Vec<String>> {
    let mut needed = returned;
    if !filter.is_none_or(|filter| add_paths(filter.root(), expressions, &mut needed)) {
        return None;
    }
    if let Some(sort) = sort {
        if sort.needs_score() {
            return None;
        }
        needed.extend(sort.fields.iter().map(|field| field.path.text().to_owned()));
    }
    Some(needed)
}

impl Access {
    /// Whether the entries of a covered query have equal values of this field next to each other.
    #[must_use]
    pub fn keeps_together(&self, path: &str) -> bool {
        let Access::Index(candidate) = self else { return false };
        let Candidate { index, equalities, .. } = candidate;
        // Ranges are read one after another in index order.
        let plain = candidate.cover.is_some()
            && candidate.merge.is_empty()
            && candidate.check.is_none()
            && candidate.key_filter.is_none()
            && candidate.probes.is_none()
            && !index.repeats();
        let column = index.fields.iter().position(|field| field.path.text() == path);
        plain && column.is_some_and(|column| column <= *equalities)
    }
}

/// Adds the paths that a filter reads. Returns false if it reads more than paths.
pub(super) fn paths(node: &Node, out: &mut Vec<String>) -> bool {
    add_paths(node, false, out)
}

/// The same; `expressions` says whether those of `$expr` count.
fn add_paths(node: &Node, expressions: bool, out: &mut Vec<String>) -> bool {
    match node {
        Node::Const(_) => true,
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => {
            nodes.iter().all(|node| add_paths(node, expressions, out))
        }
        Node::Not(node) => add_paths(node, expressions, out),
        Node::Leaf(leaf) => {
            out.push(leaf.path.text().to_owned());
            !matches!(leaf.test, Test::Near(_))
        }
        Node::ElemMatchObject { path, .. } | Node::ElemMatchValue { path, .. } => {
            out.push(path.text().to_owned());
            true
        }
        Node::Expr(node) if expressions => {
            node.expr.read_paths().map(|read| out.extend(read)).is_some()
        }
        _ => false,
    }
}

impl Cover {
    /// How the index builds documents with these fields; `None` if it cannot. `path` is the path
    /// whose entries are read, in a wildcard index.
    #[must_use]
    pub fn of(index: &Index, path: Option<&str>, needed: &[String]) -> Option<Cover> {
        // An array elsewhere in the index only repeats entries.
        let arrays = match index.kind {
            IndexKind::Ordered => index.fields.iter().enumerate().any(|(at, field)| {
                index.is_multikey_at(at) && needed.iter().any(|path| path == field.path.text())
            }),
            _ => index.is_multikey(),
        };
        let plain = !index.is_clustered()
            && !arrays
            // The text cannot be restored from a collated key.
            && index.spec.as_doc().find("collation").is_none();
        if plain && matches!(index.kind, IndexKind::Wildcard(_)) {
            return Cover::of_path(index, path?, needed);
        }
        let plain = plain
            && match &index.kind {
                IndexKind::Ordered => true,
                // A value cannot be restored from its hash.
                IndexKind::Hashed(hashed) => index
                    .fields
                    .get(hashed.at)
                    .is_some_and(|field| needed.iter().all(|path| path != field.path.text())),
                _ => false,
            };
        // A number in a path may be an array position, which cannot be rebuilt as an array.
        let named = |f: &IndexField| f.path.parts().iter().all(|part| part.index.is_none());
        let has = |path: &String| index.fields.iter().any(|f| f.path.text() == path);
        if !plain || !index.fields.iter().all(named) || !needed.iter().all(has) {
            return None;
        }
        let mut fields = Vec::new();
        let mut wanted = Vec::new();
        for (column, field) in index.fields.iter().enumerate() {
            // Columns that are not needed are not decoded.
            if needed.iter().any(|path| path == field.path.text()) {
                let names: Vec<&str> = field.path.text().split('.').collect();
                insert(&mut fields, &names, column)?;
                wanted.push(column);
            }
        }
        Some(Cover { columns: columns(index, &wanted), fields, elements: false })
    }

    /// The same for the entries of one path of a wildcard index: a path and its value.
    fn of_path(index: &Index, path: &str, needed: &[String]) -> Option<Cover> {
        if !index.typed || needed.iter().any(|needed| needed != path) {
            return None;
        }
        let names: Vec<&str> = path.split('.').collect();
        let mut fields = Vec::new();
        insert(&mut fields, &names, 1)?;
        Some(Cover { columns: columns(index, &[1]), fields, elements: false })
    }

    /// Documents with the field of one column only. Where it may be an array, its value is an array
    /// of the one element that an entry has.
    #[must_use]
    pub fn only(index: &Index, column: usize) -> Cover {
        let mut fields = Vec::new();
        if let Some(field) = index.fields.get(column) {
            let names: Vec<&str> = field.path.text().split('.').collect();
            // The first field cannot collide with another.
            let _: Option<()> = insert(&mut fields, &names, column);
        }
        let elements = index.is_multikey_at(column);
        Cover { columns: columns(index, &[column]), fields, elements }
    }

    /// Builds the document of an entry. `key` does not include the index's prefix.
    #[must_use]
    pub fn document(&self, key: &[u8], types: &[u8]) -> Made {
        let mut buffers = Buffers::default();
        match self.lend(key, types, &mut buffers) {
            BorrowedEntry::Document(_) => Made::Document(buffers.document),
            BorrowedEntry::Unknown => Made::Unknown,
            BorrowedEntry::Damaged => Made::Damaged,
        }
    }

    /// The same, in reused buffers.
    pub fn lend<'b>(
        &self,
        key: &[u8],
        types: &[u8],
        buffers: &'b mut Buffers,
    ) -> BorrowedEntry<'b> {
        let mut decoder = Decoder::new(key, types);
        let Buffers { bytes, document } = buffers;
        bytes.clear();
        document.clear();
        let mut values: smallvec::SmallVec<[(Option<Type>, usize, usize); 8]> =
            smallvec::SmallVec::new();
        for Column { descending, wanted } in &self.columns {
            let from = bytes.len();
            let kind = match wanted {
                true => match decoder.next(*descending, bytes) {
                    Some(Decoded::Value(kind)) => Some(kind),
                    Some(Decoded::Missing) => None,
                    None => return BorrowedEntry::Damaged,
                },
                false => match decoder.skip(*descending, bytes) {
                    Some(()) => None,
                    None => return BorrowedEntry::Damaged,
                },
            };
            values.push((kind, from, bytes.len()));
        }
        match write(&self.fields, bytes, &values, (0, self.elements), document) {
            true => BorrowedEntry::Document(document),
            false => BorrowedEntry::Unknown,
        }
    }
}

/// The columns of an index up to the last needed one.
fn columns(index: &Index, wanted: &[usize]) -> Vec<Column> {
    let upto = wanted.iter().max().map_or(0, |last| last + 1);
    let columns = index.columns.iter().take(upto).enumerate();
    columns.map(|(at, d)| Column { descending: *d, wanted: wanted.contains(&at) }).collect()
}

/// Adds a column at a path; `None` if the path is inside another one or contains it.
fn insert(slots: &mut Vec<Slot>, names: &[&str], column: usize) -> Option<()> {
    let (name, rest) = names.split_first()?;
    let known = slots.iter_mut().find(|slot| match slot {
        Slot::Value(known, _) | Slot::Inside(known, _) => **known == **name,
    });
    match (known, rest) {
        (None, []) => slots.push(Slot::Value((*name).into(), column)),
        (None, rest) => {
            let mut inner = Vec::new();
            insert(&mut inner, rest, column)?;
            slots.push(Slot::Inside((*name).into(), inner));
        }
        (Some(Slot::Inside(_, inner)), rest) if !rest.is_empty() => insert(inner, rest, column)?,
        _ => return None,
    }
    Some(())
}

/// Writes a document. Returns false if a field of an embedded document is missing.
fn write(
    slots: &[Slot],
    bytes: &[u8],
    values: &[(Option<Type>, usize, usize)],
    (depth, elements): (usize, bool),
    out: &mut Vec<u8>,
) -> bool {
    let start = writer::open(out);
    for slot in slots {
        match slot {
            Slot::Value(name, column) => match values.get(*column) {
                Some((Some(kind), from, to)) if elements => {
                    // An array without elements has an entry, too, but no value.
                    let value = bytes.get(*from..*to).unwrap_or(&[]);
                    out.push(Type::Array as u8);
                    out.extend_from_slice(name.as_bytes());
                    out.push(0);
                    let array = writer::open(out);
                    if *kind != Type::Undefined {
                        out.extend_from_slice(&[*kind as u8, b'0', 0]);
                        out.extend_from_slice(value);
                    }
                    writer::close(out, array);
                }
                Some((Some(kind), from, to)) => {
                    out.push(*kind as u8);
                    out.extend_from_slice(name.as_bytes());
                    out.push(0);
                    out.extend_from_slice(bytes.get(*from..*to).unwrap_or(&[]));
                }
                _ if depth > 0 => return false,
                _ => {}
            },
            Slot::Inside(name, inner) => {
                out.push(Type::Document as u8);
                out.extend_from_slice(name.as_bytes());
                out.push(0);
                if !write(inner, bytes, values, (depth + 1, elements), out) {
                    return false;
                }
            }
        }
    }
    writer::close(out, start);
    true
}

/// Whether the entries that a plan reads satisfy the whole filter, so that no document is needed.
#[must_use]
pub fn entries_are_matches(plan: &Plan, filter: &Filter) -> bool {
    let conditions = filter.root().conditions().len();
    match &plan.access {
        // An entry whose values are not certain requires its document.
        Access::Index(candidate) => {
            candidate.key_filter.is_none()
                && candidate.probes.is_none()
                && candidate.implied.has_all(conditions)
        }
        // Entries of several indexes have the record in common; the clustered index has no entries.
        Access::Either(either) => {
            let is_exact = |c: &Candidate| {
                c.key_filter.is_none() && c.probes.is_none() && !c.index.is_clustered()
            };
            either.branches.iter().all(is_exact) && either.implied.has_all(conditions)
        }
        _ => false,
    }
}
