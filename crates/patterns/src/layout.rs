//! Layouts: how documents of a collection are stored, if not as one record per document.
//!
//! Clients, indexes, validators, other patterns and the change log only use logical documents,
//! each under its record key (the encoded `_id`; index entries hold the same key). A `Layout` maps
//! them to stored records and back. One document may be several records (a large array, cold
//! fields), and one record may hold many documents (a bucket). The engine calls the layout in one
//! place, between the plan's leaf and the store, and never for a collection without one.
//!
//! Several layouts may share a collection. They form a stack: the documents that a layout reads
//! and writes in [`Area::Documents`] are those of the layout below it, and the lowest one accesses
//! the store.

pub use crate::documents::Hidden;
use query::filter::Filter;
use std::sync::Arc;
use value::{Error, RawDoc, Result};

/// The two key spaces that a layout stores records in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Area {
    /// The collection's own records, by record key. A document that the layout has not converted
    /// is stored here unchanged, under its own key. Every record is a BSON document.
    Documents,
    /// Records of the layout itself, with keys and a form that it chooses. They are removed with
    /// the pattern.
    Own,
}

/// A range of keys, and the direction in which it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// The first key, included.
    pub from: Vec<u8>,
    /// The first key behind the range; `None` for no bound.
    pub to: Option<Vec<u8>>,
    /// From the last key to the first.
    pub backward: bool,
}

impl Span {
    /// Every key, from the first to the last.
    #[must_use]
    pub fn all() -> Span {
        Span { from: Vec::new(), to: None, backward: false }
    }

    /// The last key that is not above `key`, and the keys before it, backwards.
    #[must_use]
    pub fn down_from(key: &[u8]) -> Span {
        Span { from: Vec::new(), to: Some([key, &[0]].concat()), backward: true }
    }

    /// Whether a key lies in the range.
    #[must_use]
    pub fn has(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && self.to.as_deref().is_none_or(|to| key < to)
    }
}

/// What a reader needs of documents. A layout may leave out what is not needed, or return it in any
/// form.
#[derive(Clone, Debug)]
pub struct Demand {
    /// The paths that are read; `None` for whole documents. A layout need not load a field that it
    /// stores separately and that overlaps none of them.
    pub paths: Option<Vec<String>>,
    /// Paths of which nothing is read, if `paths` is `None`.
    pub unread: Vec<String>,
    /// Whether documents must be in key order. Without it a layout returns them in the cheapest
    /// order; each still once.
    pub ordered: bool,
    /// The filter of the reader. A layout may leave out documents that do not match.
    pub filter: Option<Arc<Filter>>,
    /// The arrays of which the head is enough ([`Layout::headed`]).
    pub heads: Vec<String>,
    /// The array of which some elements at its end are enough, because others are added behind them
    /// ([`Layout::tailed`]). No path in `paths` meets it.
    pub tail: Option<String>,
    /// The array of which every document has only these elements, whether it is stored in chunks or not.
    pub slice: Option<Slice>,
}

/// Some elements of the array at a path, as `$slice` counts them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The path.
    pub path: String,
    /// How many elements come before; from the end of the array if it is negative.
    pub skip: i64,
    /// How many elements there are, at most.
    pub count: usize,
}

impl Slice {
    /// The positions in an array with so many elements.
    #[must_use]
    pub fn of(&self, elements: usize) -> std::ops::Range<usize> {
        let skip = usize::try_from(self.skip.unsigned_abs()).unwrap_or(usize::MAX);
        let from = match self.skip < 0 {
            true => elements.saturating_sub(skip),
            false => skip.min(elements),
        };
        from..from.saturating_add(self.count).min(elements)
    }
}

impl Demand {
    /// Whole documents, in the order of their keys.
    pub const WHOLE: &Demand = &Demand {
        paths: None,
        unread: Vec::new(),
        ordered: true,
        filter: None,
        heads: Vec::new(),
        tail: None,
        slice: None,
    };

    /// The paths that are read, in any order of documents.
    #[must_use]
    pub fn of(paths: Vec<String>) -> Demand {
        Demand { paths: Some(paths), ordered: false, ..Demand::WHOLE.clone() }
    }

    /// Whether anything at a path is read.
    #[must_use]
    pub fn reads(&self, path: &str) -> bool {
        match &self.paths {
            Some(paths) => paths.iter().any(|read| crate::paths::meet(read, path)),
            None => !self.unread.iter().any(|unread| crate::paths::is_within(path, unread)),
        }
    }
}

/// Keys and values in key order. It owns its data, so it may outlive the value that opened it.
pub trait RecordCursor: Send {
    /// The next key and value, lent until the next call; `None` at the end.
    ///
    /// # Errors
    /// When the store fails.
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;
}

/// The stored records of one collection in one state of the store.
pub trait Records: Send + Sync {
    /// The number of the pattern whose layout reads them.
    fn pattern(&self) -> u32;

    /// The record under a key.
    ///
    /// # Errors
    /// When the store fails.
    fn get(&self, area: Area, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The records of a range of keys.
    ///
    /// # Errors
    /// When the store fails.
    fn scan(&self, area: Area, span: &Span) -> Result<Box<dyn RecordCursor>>;

    /// The same records for a cursor that outlives this handle.
    fn share(&self) -> Arc<dyn Records>;
}

/// The stored records of one collection in a transaction that writes them. Reads see earlier
/// writes of the transaction. Close all cursors before writing: the writes made so far would be
/// copied for an open cursor.
pub trait RecordsMut: Records {
    /// Stores a record.
    ///
    /// # Errors
    /// When the store fails, or a layout below cannot store it.
    fn put(&mut self, area: Area, key: &[u8], value: Vec<u8>) -> Result<()>;

    /// Removes a record, if it is there.
    ///
    /// # Errors
    /// When the store fails.
    fn delete(&mut self, area: Area, key: &[u8]) -> Result<()>;
}

/// What happens to a new document because the collection has another one in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Duplicate {
    /// The other one stays, and the new one is not stored.
    Keep,
    /// The new one is stored instead of the one under this record key.
    Replace(Vec<u8>),
}

/// How the documents of a collection are stored.
///
/// Every method must handle documents that are not converted: they are in [`Area::Documents`]
/// unchanged, because the pattern is still being built or has been dropped. A document that is
/// read has the same bytes as when it was written, with the same order of fields and the same
/// types.
///
/// Writes run inside the commit lock or in the transaction of a session, which is replayed inside
/// the lock; so they see the newest state. Conflicts between clients are detected by record keys
/// before a layout is called.
pub trait Layout: std::fmt::Debug + Send + Sync {
    /// The paths that it stores in a form of its own. Two layouts of a collection must not overlap.
    fn paths(&self) -> Vec<String>;

    /// Whether a record may hold several documents. Such a layout is the lowest of its collection,
    /// and there is at most one.
    fn holds_many(&self) -> bool {
        false
    }

    /// Whether documents differ in size from their records in `Area::Documents`, one of each. The
    /// size of the collection is then that of these records.
    fn resizes(&self) -> bool {
        false
    }

    /// The document under a record key.
    ///
    /// # Errors
    /// When the store fails, or what is stored is damaged.
    fn get(&self, records: &dyn Records, key: &[u8], demand: &Demand) -> Result<Option<Vec<u8>>>;

    /// Returns the documents of a range of record keys, each with its key. The cursor owns the
    /// data of the layout that it needs.
    ///
    /// # Errors
    /// When the store fails.
    fn scan(
        &self,
        records: &dyn Records,
        span: &Span,
        demand: &Demand,
    ) -> Result<Box<dyn RecordCursor>>;

    /// Whether `check_write` may refuse a document because of others.
    fn checks_writes(&self) -> bool {
        false
    }

    /// Whether a new document is a duplicate that is not refused.
    ///
    /// # Errors
    /// When the store fails.
    fn duplicate_of(&self, _records: &dyn Records, _new: RawDoc<'_>) -> Result<Option<Duplicate>> {
        Ok(None)
    }

    /// Refuses a document before anything of it is written; the arguments are those of `put`.
    ///
    /// # Errors
    /// DuplicateKey or PatternViolation; when the store fails.
    fn check_write(
        &self,
        _records: &dyn Records,
        _key: &[u8],
        _old: Option<RawDoc<'_>>,
        _new: RawDoc<'_>,
    ) -> Result<()> {
        Ok(())
    }

    /// Stores a document; `old` is its previous image, `None` for a new one. Parts that are stored
    /// separately and did not change need not be written again.
    ///
    /// # Errors
    /// PatternViolation if the document cannot be stored this way; when the store fails.
    fn put(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        old: Option<RawDoc<'_>>,
        new: RawDoc<'_>,
    ) -> Result<()>;

    /// Whether a document that was read in part can be written in part, by `put_part`.
    fn writes_parts(&self) -> bool {
        false
    }

    /// Stores the change of a document that was read with a demand: fields that the demand does not
    /// read stand in both images as they were read, and stay as they are stored. The other fields
    /// keep their order. Called only if `writes_parts`, and never on top of another layout.
    ///
    /// # Errors
    /// As `put`.
    fn put_part(
        &self,
        _records: &mut dyn RecordsMut,
        _key: &[u8],
        _demand: &Demand,
        _old: RawDoc<'_>,
        _new: RawDoc<'_>,
    ) -> Result<()> {
        Err(Error::internal("the layout does not write parts"))
    }

    /// The size in bytes of the whole document of one that was read with a demand. Called only if
    /// `writes_parts`.
    fn whole_size(&self, part: RawDoc<'_>, _demand: &Demand) -> usize {
        part.bytes().len()
    }

    /// Stores several new documents, each with its record key.
    ///
    /// # Errors
    /// As `put`.
    fn put_new(
        &self,
        records: &mut dyn RecordsMut,
        documents: &[(&[u8], RawDoc<'_>)],
    ) -> Result<()> {
        documents.iter().try_for_each(|(key, new)| self.put(records, key, None, *new))
    }

    /// Removes a document and all records that belong to it alone.
    ///
    /// # Errors
    /// When the store fails.
    fn delete(&self, records: &mut dyn RecordsMut, key: &[u8]) -> Result<()>;

    /// Removes several documents.
    ///
    /// # Errors
    /// As `delete`.
    fn delete_many(&self, records: &mut dyn RecordsMut, keys: &[&[u8]]) -> Result<()> {
        keys.iter().try_for_each(|key| self.delete(records, key))
    }

    /// Converts the document under a record key, if there is one, into the form of the layout. The
    /// document stays the same.
    ///
    /// # Errors
    /// PatternViolation if the document cannot be stored this way; when the store fails.
    fn convert(&self, records: &mut dyn RecordsMut, key: &[u8]) -> Result<()> {
        let Some(doc) = self.get(&*records, key, Demand::WHOLE)? else { return Ok(()) };
        let doc = RawDoc::new(&doc);
        self.check_write(&*records, key, None, doc)?;
        self.delete(records, key)?;
        self.put(records, key, None, doc)
    }

    /// Stores a document without the layout. Used while the pattern is suspended, and to remove
    /// it.
    ///
    /// # Errors
    /// When the store fails.
    fn put_plain(&self, records: &mut dyn RecordsMut, key: &[u8], new: RawDoc<'_>) -> Result<()> {
        self.delete(records, key)?;
        records.put(Area::Documents, key, new.bytes().to_vec())
    }

    /// The stored records as clients may ask for them (`rawBuckets`), each with a key; or the
    /// statistics of a level. `None` if the layout has no such view.
    ///
    /// # Errors
    /// BadValue for an unknown level; when the store fails.
    fn raw(
        &self,
        _records: &dyn Records,
        _level: Option<&str>,
    ) -> Result<Option<Box<dyn RecordCursor>>> {
        Ok(None)
    }

    /// The array of which readers may get only what is stored in the document, its head, and whether
    /// they do if they do not say.
    fn headed(&self) -> Option<(&str, bool)> {
        None
    }

    /// The document with the head of that array; `None` if the array is shown whole. `is_spilled`
    /// finds out whether parts of it are stored apart.
    ///
    /// # Errors
    /// Errors of `is_spilled`.
    fn head(
        &self,
        _doc: RawDoc<'_>,
        _is_spilled: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// The array to whose end elements can be added without reading the others, if `writes_parts`.
    fn tailed(&self) -> Option<&str> {
        None
    }

    /// What a document that was read with a demand lacks of the array in `tail`.
    ///
    /// # Errors
    /// When the store fails.
    fn hidden(
        &self,
        _records: &dyn Records,
        _key: &[u8],
        _demand: &Demand,
    ) -> Result<Option<Hidden>> {
        Ok(None)
    }

    /// Finds the documents, as they are stored, that would be too large without the layout.
    ///
    /// # Errors
    /// When the store fails.
    fn too_large(&self, _records: &dyn Records, _find: &mut dyn FnMut(RawDoc<'_>)) -> Result<()> {
        Ok(())
    }

    /// How many bytes of that size do not count for the limit of documents, because they are stored
    /// apart.
    fn uncounted(&self, _doc: RawDoc<'_>, _demand: &Demand) -> usize {
        0
    }

    /// Refuses to replace a document by another one that a client sent.
    ///
    /// # Errors
    /// PatternViolation if the new document has lost what readers do not see; when the store fails.
    fn check_replacement(
        &self,
        _records: &dyn Records,
        _key: &[u8],
        _new: RawDoc<'_>,
    ) -> Result<()> {
        Ok(())
    }

    /// Refuses to give up every form of documents but the canonical one (the option `contracted`).
    ///
    /// # Errors
    /// PatternViolation that names documents in another form; BadValue if there is none to give up.
    fn check_contract(&self, _records: &dyn Records) -> Result<()> {
        Err(Error::bad_value("the pattern has no versions of which one could be given up"))
    }

    /// The path of a date and the number of seconds after which documents expire.
    fn expires(&self) -> Option<(&str, i64)> {
        None
    }

    /// Looks for records that belong to no document, and for records that contradict each other.
    /// The caller checks that every document can be read.
    ///
    /// # Errors
    /// When the store fails.
    fn check(&self, records: &dyn Records, find: &mut dyn FnMut(String)) -> Result<()>;
}

impl crate::Pattern {
    /// How the documents of the target are stored, if the pattern decides that.
    #[must_use]
    pub fn layout(&self) -> Option<&dyn Layout> {
        self.kind.layout()
    }
}

/// Merges two cursors in key order. If both have a key, the first cursor's record is returned
/// first.
#[must_use]
pub fn merged(
    first: Box<dyn RecordCursor>,
    second: Box<dyn RecordCursor>,
    backward: bool,
) -> Box<dyn RecordCursor> {
    let heads = [Head::of(first), Head::of(second)];
    Box::new(Merged { heads, last: None, backward })
}

struct Merged {
    heads: [Head; 2],
    /// The cursor that returned the last record and must be advanced.
    last: Option<usize>,
    backward: bool,
}

struct Head {
    cursor: Box<dyn RecordCursor>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Whether `key` and `value` hold a record; `None` before the first look.
    filled: Option<bool>,
}

impl Head {
    fn of(cursor: Box<dyn RecordCursor>) -> Head {
        Head { cursor, key: Vec::new(), value: Vec::new(), filled: None }
    }

    fn advance(&mut self) -> Result<()> {
        self.filled = Some(false);
        if let Some((key, value)) = self.cursor.next()? {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.value.clear();
            self.value.extend_from_slice(value);
            self.filled = Some(true);
        }
        Ok(())
    }
}

impl RecordCursor for Merged {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        for (at, head) in self.heads.iter_mut().enumerate() {
            if head.filled.is_none() || self.last == Some(at) {
                head.advance()?;
            }
        }
        let [first, second] = &self.heads;
        let at = match (first.filled, second.filled) {
            (Some(true), Some(true)) if self.backward => usize::from(second.key > first.key),
            (Some(true), Some(true)) => usize::from(second.key < first.key),
            (Some(true), _) => 0,
            (_, Some(true)) => 1,
            _ => {
                self.last = None;
                return Ok(None);
            }
        };
        self.last = Some(at);
        Ok(self.heads.get(at).map(|head| (head.key.as_slice(), head.value.as_slice())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct List(std::vec::IntoIter<&'static str>, &'static str);

    impl RecordCursor for List {
        fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
            let Some(key) = self.0.next() else { return Ok(None) };
            self.1 = key;
            Ok(Some((key.as_bytes(), b"")))
        }
    }

    fn keys(first: &[&'static str], second: &[&'static str], backward: bool) -> Vec<String> {
        let list = |keys: &[&'static str]| {
            let keys: Vec<&'static str> = keys.into();
            Box::new(List(keys.into_iter(), ""))
        };
        let mut cursor = merged(list(first), list(second), backward);
        let mut found = Vec::new();
        while let Some((key, _)) = cursor.next().expect("lists do not fail") {
            found.push(String::from_utf8_lossy(key).into_owned());
        }
        assert!(cursor.next().expect("lists do not fail").is_none(), "the end stays");
        found
    }

    #[test]
    fn cursors_are_merged_in_both_directions() {
        assert_eq!(keys(&["a", "c", "d"], &["b", "e"], false), ["a", "b", "c", "d", "e"]);
        assert_eq!(keys(&["d", "c", "a"], &["e", "b"], true), ["e", "d", "c", "b", "a"]);
        assert_eq!(keys(&[], &["b"], false), ["b"]);
        assert_eq!(keys(&["b"], &[], true), ["b"]);
        assert_eq!(keys(&[], &[], false), [""; 0]);
    }

    #[test]
    fn a_demand_reads_what_its_paths_meet() {
        let demand = Demand::of(vec!["a.b".to_owned()]);
        assert!(demand.reads("a") && demand.reads("a.b.c") && !demand.reads("b"));
        assert!(Demand::WHOLE.reads("b"));
        assert!(!Demand::of(Vec::new()).reads("a"));
        let without = Demand { unread: vec!["a.b".to_owned()], ..Demand::WHOLE.clone() };
        assert!(without.reads("a") && !without.reads("a.b.c") && without.reads("b"));
    }

    #[test]
    fn a_slice_counts_from_either_end() {
        let of = |skip, count, elements| Slice { path: String::new(), skip, count }.of(elements);
        assert_eq!(of(0, 3, 10), 0..3);
        assert_eq!(of(8, 3, 10), 8..10);
        assert_eq!(of(12, 3, 10), 10..10);
        assert_eq!(of(-3, 3, 10), 7..10);
        assert_eq!(of(-3, 2, 10), 7..9);
        assert_eq!(of(-30, 2, 10), 0..2);
        assert_eq!(of(i64::MIN, usize::MAX, 10), 0..10);
    }

    #[test]
    fn a_span_holds_its_first_key_and_not_its_end() {
        let span = Span { from: b"b".to_vec(), to: Some(b"d".to_vec()), backward: false };
        assert!(span.has(b"b") && span.has(b"c") && !span.has(b"d") && !span.has(b"a"));
        assert!(Span::down_from(b"b").has(b"b") && !Span::down_from(b"b").has(b"b\0"));
        assert!(Span::all().has(b"") && Span::all().has(b"x"));
    }
}
