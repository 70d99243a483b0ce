//! The catalog on disk: one record per collection, one for its counters, one for each multikey
//! index; and reading all of them at start.

use super::{
    Capped, Catalog, Collection, Counters, Index, IndexField, IndexKind, IndexState, Kind, View,
};
use patterns::{Pattern, Phase};
use query::ParseContext;
use query::filter::Filter;
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use store::{Direction, Snapshot, Space};
use value::collation::CollationSource;
use value::path::Path;
use value::{Code, Collation, DocBuf, Error, RawDoc, Result, Val};

const COLLECTION: u8 = 1;
const COUNTERS: u8 = 2;
const MULTIKEY: u8 = 3;
const NEXT_ID: u8 = 4;
const BUILD: u8 = 5;
const PATTERN: u8 = 6;
/// Separate from the records of collections.
const CONCERNS: u8 = 20;

/// What a record of the catalog is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// A collection.
    Collection,
    /// The counters of a collection.
    Counters,
    /// Which fields of an index held arrays.
    Multikey,
    /// The next free identifier.
    NextId,
    /// The progress of an index build.
    Build,
    /// A pattern.
    Pattern,
    /// Settings.
    Other,
}

impl Record {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Record::Collection => "collection",
            Record::Counters => "counters of collection",
            Record::Multikey => "arrays of index",
            Record::NextId => "next identifier",
            Record::Build => "build of index",
            Record::Pattern => "pattern",
            Record::Other => "setting",
        }
    }
}

/// Returns what the record with this key is about, and its identifier.
#[must_use]
pub fn record_of(key: &[u8]) -> Option<(Record, u32)> {
    let (tag, id) = key.split_first()?;
    let record = match *tag {
        COLLECTION => Record::Collection,
        COUNTERS => Record::Counters,
        MULTIKEY => Record::Multikey,
        NEXT_ID => Record::NextId,
        BUILD => Record::Build,
        PATTERN => Record::Pattern,
        _ => Record::Other,
    };
    Some((record, u32::from_be_bytes(*id.first_chunk()?)))
}

/// Returns the key of a collection's record.
#[must_use]
pub fn collection_key(id: u32) -> [u8; 5] {
    tagged(COLLECTION, id)
}

/// Returns the key of a collection's counters.
#[must_use]
pub fn counters_key(id: u32) -> [u8; 5] {
    tagged(COUNTERS, id)
}

/// Returns the key of the record of which fields of an index held arrays.
#[must_use]
pub fn multikey_key(index_id: u32) -> [u8; 5] {
    tagged(MULTIKEY, index_id)
}

/// Returns the key of the next free identifier.
#[must_use]
pub fn next_id_key() -> [u8; 5] {
    tagged(NEXT_ID, 0)
}

/// Returns the key of the build progress of an index, as written by earlier versions.
#[must_use]
pub fn build_key(index_id: u32) -> [u8; 5] {
    tagged(BUILD, index_id)
}

/// Returns the key of the default read and write concerns.
#[must_use]
pub fn concerns_key() -> [u8; 5] {
    tagged(CONCERNS, 0)
}

/// Returns the key of a pattern's record.
#[must_use]
pub fn pattern_key(id: u32) -> [u8; 5] {
    tagged(PATTERN, id)
}

/// Encodes the record of a pattern.
#[must_use]
pub fn encode_pattern(db: &str, pattern: &Pattern) -> DocBuf {
    DocBuf::build(|out| {
        out.str("db", db).str("collection", &pattern.collection);
        out.str("phase", pattern.phase.name()).str("failure", &pattern.failure);
        out.append("declaration", Val::Document(pattern.declaration.as_doc()));
    })
}

/// Decodes the record of a pattern: its database and itself.
///
/// # Errors
/// When the record is damaged.
pub fn decode_pattern(id: u32, record: RawDoc<'_>) -> Result<(String, Pattern)> {
    let damaged = || damaged("a pattern");
    let text = |name| record.get(name).and_then(Val::as_str).ok_or_else(damaged);
    let declaration = record.get("declaration").and_then(Val::as_doc).ok_or_else(damaged)?;
    let mut pattern = patterns::declaration::parse(text("collection")?, declaration)?;
    pattern.id = id;
    pattern.phase = Phase::of_name(text("phase")?).ok_or_else(damaged)?;
    pattern.failure = text("failure")?.to_owned();
    pattern.kind.entered(pattern.phase);
    Ok((text("db")?.to_owned(), pattern))
}

fn damaged(what: &str) -> Error {
    let message = format!(
        "the catalog holds {what} that is not understood; run `motif check` to list all damage and \
         `motif repair` to copy what is readable to a new folder"
    );
    Error::new(Code::DATA_CORRUPTION_DETECTED, message)
}

fn tagged(tag: u8, id: u32) -> [u8; 5] {
    let [a, b, c, d] = id.to_be_bytes();
    [tag, a, b, c, d]
}

/// Encodes a counters record: documents, bytes, next sequence number.
#[must_use]
pub fn encode_counters(documents: i64, bytes: i64, next_sequence: u64) -> [u8; 24] {
    let mut out = [0; 24];
    let fields = documents.to_be_bytes().into_iter().chain(bytes.to_be_bytes());
    for (slot, byte) in out.iter_mut().zip(fields.chain(next_sequence.to_be_bytes())) {
        *slot = byte;
    }
    out
}

/// Encodes the record of a collection.
#[must_use]
pub fn encode(collection: &Collection) -> DocBuf {
    DocBuf::build(|out| {
        out.str("db", &collection.db).str("name", &collection.name);
        out.append("uuid", Val::Binary(4, &collection.uuid));
        out.append("options", Val::Document(collection.options.as_doc()));
        out.array("indexes", |indexes| {
            for index in &collection.indexes {
                indexes.push_doc(|out| {
                    out.i64("id", i64::from(index.id));
                    out.append("spec", Val::Document(index.spec.as_doc()));
                    out.bool("ready", index.state == IndexState::Ready);
                    if matches!(index.kind, IndexKind::Wildcard(_)) {
                        out.bool("typed", index.typed);
                    }
                    if matches!(index.kind, IndexKind::Text(_)) {
                        out.str("analyzer", query::text::ANALYZER);
                    }
                    if has_positions(index) {
                        out.bool("positions", true);
                    }
                });
            }
        });
    })
}

/// Whether the keys of a geospatial or text index depend on positions in arrays.
fn has_positions(index: &Index) -> bool {
    let special = matches!(index.kind, IndexKind::Text(_) | IndexKind::Geo(_));
    let numbered = |part: &value::path::Part| part.index.is_some();
    special && index.fields.iter().any(|field| field.path.parts().iter().any(numbered))
}

/// The catalog as loaded from disk.
pub struct Loaded {
    /// The catalog.
    pub catalog: Catalog,
    /// The next free identifier.
    pub next_id: u32,
    /// Collections with indexes to be built: builds that the last process did not finish, and text
    /// indexes of another analyzer version.
    pub unfinished: Vec<Arc<Collection>>,
}

/// Reads the catalog.
///
/// # Errors
/// When the store fails or a record is damaged.
pub fn load(snapshot: &Snapshot) -> Result<Loaded> {
    let mut counters: HashMap<u32, [u64; 3]> = HashMap::new();
    let mut multikey: HashMap<u32, u64> = HashMap::new();
    let mut records: Vec<(u32, DocBuf)> = Vec::new();
    let mut next_id = 1;
    let mut found_patterns: Vec<(String, Pattern)> = Vec::new();
    let from = [COLLECTION];
    let to = [PATTERN + 1];
    let mut range = snapshot
        .range(Space::Catalog, Bound::Included(&from), Bound::Excluded(&to), Direction::Forward)
        .map_err(crate::store_failed)?;
    while let Some((key, value)) = range.next().map_err(crate::store_failed)? {
        let damaged = || damaged("a record");
        let (tag, id) = key.split_first().ok_or_else(damaged)?;
        let id = u32::from_be_bytes(*id.first_chunk().ok_or_else(damaged)?);
        match *tag {
            COLLECTION => records.push((id, DocBuf::from_bytes(value.to_vec()))),
            COUNTERS => {
                let mut fields = [0; 3];
                for (slot, chunk) in fields.iter_mut().zip(value.chunks_exact(8)) {
                    *slot = u64::from_be_bytes(*chunk.first_chunk().ok_or_else(damaged)?);
                }
                counters.insert(id, fields);
            }
            MULTIKEY => {
                multikey
                    .insert(id, crate::index_keys::multikey::decode(value).ok_or_else(damaged)?);
            }
            NEXT_ID => next_id = u32::from_be_bytes(*value.first_chunk().ok_or_else(damaged)?),
            BUILD => {}
            PATTERN => found_patterns.push(decode_pattern(id, RawDoc::new(value))?),
            _ => return Err(damaged()),
        }
    }
    let mut loaded = Loaded { catalog: Catalog::default(), next_id, unfinished: Vec::new() };
    let concerns = snapshot.get(Space::Catalog, &concerns_key()).map_err(crate::store_failed)?;
    loaded.catalog.concerns = concerns.map(|bytes| Arc::new(DocBuf::from_bytes(bytes.to_vec())));
    for (id, record) in records {
        let [documents, bytes, sequence] = counters.get(&id).copied().unwrap_or_default();
        let found = Counters::default();
        found.documents.store(documents as i64, Ordering::Relaxed);
        found.bytes.store(bytes as i64, Ordering::Relaxed);
        found.next_sequence.store(sequence, Ordering::Relaxed);
        let collection = Arc::new(decode(id, record.as_doc(), found, &multikey)?);
        if collection.indexes.iter().any(|index| index.state == IndexState::Building) {
            loaded.unfinished.push(collection.clone());
        }
        loaded.catalog.set(collection);
    }
    for (db, pattern) in found_patterns {
        super::change::add_pattern(&mut loaded.catalog, &db, pattern)?;
    }
    Ok(loaded)
}

/// Decodes the record of a collection, without its counters.
///
/// # Errors
/// When the record is damaged.
pub fn read_collection(id: u32, record: RawDoc<'_>) -> Result<Collection> {
    decode(id, record, Counters::default(), &HashMap::new())
}

fn decode(
    id: u32,
    record: RawDoc<'_>,
    counters: Counters,
    multikey: &HashMap<u32, u64>,
) -> Result<Collection> {
    let damaged = || damaged("a collection");
    let text = |name| record.get(name).and_then(Val::as_str).ok_or_else(damaged);
    let Some(Val::Binary(_, uuid)) = record.get("uuid") else { return Err(damaged()) };
    let options = DocBuf::from(record.get("options").and_then(Val::as_doc).ok_or_else(damaged)?);
    let mut indexes = Vec::new();
    for (_, entry) in record.get("indexes").and_then(Val::as_array).ok_or_else(damaged)? {
        let entry = entry.as_doc().ok_or_else(damaged)?;
        let id = entry.get("id").and_then(Val::as_i64_exact).ok_or_else(damaged)? as u32;
        let spec = entry.get("spec").and_then(Val::as_doc).ok_or_else(damaged)?;
        let ready = entry.get("ready").is_some_and(Val::truthy);
        let state = if ready { IndexState::Ready } else { IndexState::Building };
        let bits = multikey.get(&id).copied().unwrap_or(0);
        let mut index = index_from_spec(id, spec, state, bits)?;
        // The terms of another analyzer version do not match those of searches, so the index is
        // rebuilt.
        if matches!(index.kind, IndexKind::Text(_))
            && entry.get("analyzer") != Some(Val::String(query::text::ANALYZER))
        {
            index.state = IndexState::Building;
        }
        // Earlier versions did not take numbers in paths for positions in arrays.
        if has_positions(&index) && !entry.get("positions").is_some_and(Val::truthy) {
            index.state = IndexState::Building;
        }
        if matches!(index.kind, IndexKind::Wildcard(_)) {
            index.typed = entry.get("typed").is_some_and(Val::truthy);
        }
        indexes.push(Arc::new(index));
    }
    Ok(Collection {
        id,
        uuid: *uuid.first_chunk().ok_or_else(damaged)?,
        db: text("db")?.into(),
        name: text("name")?.into(),
        kind: kind_from_options(options.as_doc()),
        validator: crate::validation::Validator::of(options.as_doc()),
        time_series: super::TimeSeries::of(options.as_doc()),
        collation: collation_of(options.as_doc())?,
        options,
        indexes,
        counters: Arc::new(counters),
        version: crate::catalog::next_version(),
        dropped: Arc::new(AtomicBool::new(false)),
        patterns: None,
        pointers: None,
        layouts: None,
        shapes: None,
        form: None,
        written_through: None,
    })
}

/// Returns the collation in the (checked) options of a collection or an index.
///
/// # Errors
/// When this build does not support it.
pub fn collation_of(options: RawDoc<'_>) -> Result<Option<Arc<Collation>>> {
    match options.get("collation").and_then(Val::as_doc) {
        None => Ok(None),
        Some(collation) => Collation::parse(collation, CollationSource::Command),
    }
}

/// Returns the kind of collection that these (checked) options describe.
#[must_use]
pub fn kind_from_options(options: RawDoc<'_>) -> Kind {
    if let Some(on) = options.get("viewOn").and_then(Val::as_str) {
        let pipeline = options.get("pipeline").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        return Kind::View(View { on: on.into(), pipeline: pipeline.into() });
    }
    if options.get("capped").is_some_and(Val::truthy) {
        let number = |name| options.get(name).and_then(Val::as_f64).map(|n| n as i64);
        return Kind::Capped(Capped {
            bytes_max: number("size").unwrap_or(i64::MAX),
            documents_max: number("max").filter(|max| *max > 0),
        });
    }
    Kind::Plain
}

/// Creates an index from its (checked) specification.
///
/// # Errors
/// When this version does not support the kind of index.
pub fn index_from_spec(
    id: u32,
    spec: RawDoc<'_>,
    state: IndexState,
    multikey: u64,
) -> Result<Index> {
    let key = spec.get("key").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    let flag = |name| spec.get(name).is_some_and(Val::truthy);
    let name: Box<str> = spec.get("name").and_then(Val::as_str).unwrap_or("").into();
    let fields: Vec<IndexField> = key
        .iter()
        .map(|(path, direction)| IndexField {
            path: Path::new(path),
            descending: direction.get().as_f64().is_some_and(|n| n < 0.0),
        })
        .collect();
    let kind = crate::index_keys::kind(spec)?;
    let columns = crate::index_keys::columns(&kind, &fields);
    let collation = collation_of(spec)?;
    let partial = match spec.get("partialFilterExpression").and_then(Val::as_doc) {
        Some(filter) => {
            let context = ParseContext::new(0).with_collation(collation.as_ref());
            Some(Arc::new(Filter::parse(filter, &context)?))
        }
        None => None,
    };
    Ok(Index {
        id,
        unique: flag("unique") || id == 0 || &*name == "_id_",
        prepare_unique: flag("prepareUnique"),
        name,
        key: key.into(),
        summary: crate::index_keys::summary(key).into(),
        spec: spec.into(),
        fields,
        kind,
        columns,
        partial,
        collation,
        sparse: flag("sparse"),
        hidden: flag("hidden"),
        state,
        multikey: Arc::new(AtomicU64::new(multikey)),
        typed: true,
        uses: Arc::default(),
    })
}
