//! Changes of declarations: adding, altering and removing patterns in the catalog.

use super::new_forms::{self, Renewed};
use super::{kept_views, modify, own_index};
use crate::catalog::{Catalog, Collection, Ids, Kind, change, persist, unindexable};
use crate::index::{build as index_build, spec};
use crate::layout;
use crate::operation::Operation;
use crate::records::create_collection::ensure_collection;
use crate::records::pattern_reads::state_key;
use crate::txn::Data;
use ::patterns::pattern::PROGRESS;
use ::patterns::{Pattern, Phase, declaration};
use std::sync::Arc;
use store::{Batch, Space};
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Maximum number of patterns per database.
const PATTERNS_MAX: usize = 500;

/// Why patterns are declared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A client declares them.
    Request,
    /// A collection is created as a copy of another one. The other collections may already exist,
    /// with the values that the patterns of the original maintained, or be created later.
    Copy,
}

/// The result of declaring patterns.
pub struct Outcome {
    /// Number of patterns of the collection before.
    pub before: usize,
    /// Number of patterns of the collection afterwards.
    pub after: usize,
    /// The numbers of the patterns to build.
    pub new: Vec<u32>,
    /// The indexes to fill.
    pub renewed: Vec<Renewed>,
}

/// Returns the pattern with this name.
///
/// # Errors
/// NoSuchKey.
pub fn find(catalog: &Catalog, db: &str, collection: &str, name: &str) -> Result<Arc<Pattern>> {
    let all = catalog.patterns(db).iter();
    all.into_iter()
        .find(|p| p.collection == collection && p.name == name && p.phase.is_current())
        .cloned()
        .ok_or_else(|| {
            Error::new(
                Code::NO_SUCH_KEY,
                format!("there is no pattern '{name}' on '{db}.{collection}'"),
            )
        })
}

/// Returns how many patterns are declared on a collection.
#[must_use]
pub fn count(catalog: &Catalog, db: &str, collection: &str) -> usize {
    let all = catalog.patterns(db).iter();
    all.filter(|p| p.collection == collection && p.phase.is_current()).count()
}

/// Declares patterns on a collection: all of them or none. The caller then starts their builds.
///
/// # Errors
/// Errors of a declaration or of the graph of patterns.
pub fn create(
    data: &Data,
    op: &Operation,
    db: &str,
    collection: &str,
    declarations: &[RawDoc<'_>],
    reason: Reason,
) -> Result<Outcome> {
    let patterns = parse_all(data, db, collection, declarations)?;
    for pattern in &patterns {
        match find(&data.catalog.load(), db, collection, &pattern.name) {
            Ok(known) if !is_replaceable(&known) => same_declaration(&known, pattern)?,
            _ => {}
        }
    }
    prepare(data, op, db, collection, &patterns, reason)?;
    let (done, gone) = data.change_catalog(|catalog, batch| {
        let before = count(catalog, db, collection);
        let (mut new, mut gone, mut renewed) = (Vec::new(), Vec::new(), Vec::new());
        for mut pattern in patterns {
            match find(catalog, db, collection, &pattern.name) {
                // What could not be built is replaced.
                Ok(failed) if is_replaceable(&failed) => {
                    modify::clear_rest(data, catalog, batch, db, &failed, &pattern)?;
                    remove(catalog, batch, db, std::slice::from_ref(&failed))?;
                    kept_views::remove(catalog, batch, db, std::slice::from_ref(&failed));
                    gone.push(failed);
                }
                Ok(known) => {
                    same_declaration(&known, &pattern)?;
                    continue;
                }
                Err(_) => {}
            }
            if catalog.patterns(db).len() >= PATTERNS_MAX {
                return Err(Error::bad_value(format!(
                    "a database cannot have more than {PATTERNS_MAX} patterns"
                )));
            }
            pattern.id = data.ids.fresh(batch);
            let id = pattern.id;
            new.push(id);
            kept_views::add(&data.ids, catalog, batch, db, &pattern)?;
            put(catalog, batch, db, pattern)?;
            renewed.extend(renew_indexes(data, catalog, batch, db, id)?);
        }
        Ok((Outcome { before, after: count(catalog, db, collection), new, renewed }, gone))
    })?;
    discard(data, &gone);
    Ok(done)
}

/// Reads declarations. A strategy that the database chooses is chosen.
fn parse_all(
    data: &Data,
    db: &str,
    collection: &str,
    declarations: &[RawDoc<'_>],
) -> Result<Vec<Pattern>> {
    let mut patterns = Vec::new();
    for doc in declarations {
        let pattern = declaration::parse(collection, *doc)?;
        let pattern = match doc.get("chosen") {
            None => decided(data, db, pattern),
            Some(_) => pattern,
        };
        if patterns.iter().any(|other: &Pattern| other.name == pattern.name) {
            return Err(Error::bad_value(format!("the name '{}' occurs twice", pattern.name)));
        }
        patterns.push(pattern);
    }
    Ok(patterns)
}

/// Checks declarations as `create` does, and changes nothing.
///
/// # Errors
/// As `create`.
pub fn check(
    data: &Data,
    db: &str,
    collection: &str,
    declarations: &[RawDoc<'_>],
) -> Result<Vec<Pattern>> {
    let patterns = parse_all(data, db, collection, declarations)?;
    check_together(data, db, &patterns.iter().collect::<Vec<_>>())?;
    let catalog = data.catalog.load();
    for pattern in &patterns {
        for name in
            [Some(&*pattern.target), Some(collection), pattern.source()].into_iter().flatten()
        {
            if let Some(found) = catalog.get(db, name) {
                check_collection(found)?;
            }
        }
        check_unique_field(data, db, pattern)?;
        check_views(data, db, pattern)?;
        check_empty(data, db, pattern)?;
        if let Ok(known) = find(&catalog, db, collection, &pattern.name)
            && !is_replaceable(&known)
        {
            same_declaration(&known, pattern)?;
        }
    }
    Ok(patterns)
}

/// Whether a declaration of the same name replaces a pattern: its build failed.
fn is_replaceable(known: &Pattern) -> bool {
    // Documents may be stored in the form of a layout: it has to be dropped.
    known.phase == Phase::Failed && known.layout().is_none()
}

/// Chooses the strategy of a reference declared with `strategy: "auto"` from the existing data. If
/// a source has more targets, on average, than may be written in its own commit, the reference
/// becomes a pointer where possible. A pattern that is declared again keeps its strategy.
fn decided(data: &Data, db: &str, pattern: Pattern) -> Pattern {
    let declared = pattern.declaration.as_doc();
    let automatic = declared.get("strategy") == Some(Val::String("auto"));
    let Some(source) = pattern.source().filter(|_| automatic && declared.find("chosen").is_some())
    else {
        return pattern;
    };
    let catalog = data.catalog.load();
    let count = |name: &str| catalog.get(db, name).map_or(0, |found| found.counters.documents());
    let many = match find(&catalog, db, &pattern.collection, &pattern.name) {
        Ok(known) => known.is_pointer(),
        Err(_) => {
            let (sources, limit) = (count(source), pattern.common.fanout_limit as u64);
            sources > 0 && count(&pattern.target) / sources > limit
        }
    };
    if !many {
        return pattern;
    }
    let declaration = DocBuf::build(|out| {
        for (option, value) in declared {
            match option {
                "chosen" => out.str(option, "pointer"),
                _ => out.raw(option, value),
            };
        }
    });
    let pointer = pattern.redeclared(&pattern.collection, declaration.as_doc(), |_| {});
    // A pattern that requires copies keeps them.
    let Ok(pointer) = pointer.map(Arc::new) else { return pattern };
    let one = std::slice::from_ref(&pointer);
    let indexes = catalog.get(db, &pattern.target).map_or(&[][..], |target| &target.indexes);
    let needed =
        indexes.iter().any(|i| unindexable(one, &pattern.target, i.spec.as_doc()).is_some());
    if needed || check_together(data, db, &[&pointer]).is_err() {
        return pattern;
    }
    Arc::into_inner(pointer).unwrap_or(pattern)
}

/// Checks patterns and creates the collections and indexes that they need.
///
/// # Errors
/// Any conflict of a pattern with the existing collections and patterns.
pub(super) fn prepare(
    data: &Data,
    op: &Operation,
    db: &str,
    collection: &str,
    patterns: &[Pattern],
    reason: Reason,
) -> Result<()> {
    check_together(data, db, &patterns.iter().collect::<Vec<_>>())?;
    for pattern in patterns {
        for name in
            [Some(&*pattern.target), Some(collection), pattern.source()].into_iter().flatten()
        {
            // When copying, other collections are created later with their own options.
            let only_read = name != collection && name != pattern.target;
            if reason == Reason::Copy && only_read && data.collection(db, name).is_none() {
                continue;
            }
            let found = ensure_collection(data, op, db, name)?;
            check_collection(&found)?;
        }
        check_unique_field(data, db, pattern)?;
        check_views(data, db, pattern)?;
        if reason == Reason::Request {
            check_empty(data, db, pattern)?;
            inspect(data, op, db, pattern)?;
        }
        new_forms::check(data, op, db, pattern)?;
        for (name, key) in pattern.indexes() {
            create_index(data, op, db, &name, key.as_doc())?;
        }
    }
    own_index::create(data, op, db, patterns)
}

/// Checks the graph of patterns before anything is created for them.
fn check_together(data: &Data, db: &str, patterns: &[&Pattern]) -> Result<()> {
    let catalog = data.catalog.load();
    let known = catalog.patterns(db).iter().map(|pattern| &**pattern);
    let all: Vec<&Pattern> = known
        .filter(|known| known.phase.is_current())
        .filter(|known| {
            !patterns.iter().any(|p| p.collection == known.collection && p.name == known.name)
        })
        .chain(patterns.iter().copied())
        .collect();
    ::patterns::graph::order(&all).map(drop)
}

fn same_declaration(known: &Pattern, pattern: &Pattern) -> Result<()> {
    if known.declaration == pattern.declaration {
        return Ok(());
    }
    Err(Error::new(
        Code::OBJECT_ALREADY_EXISTS,
        format!("a pattern '{}' with another declaration already exists", pattern.name),
    ))
}

/// Puts a pattern into the catalog and its record into the batch.
///
/// # Errors
/// Errors of the graph of patterns; BadValue if an index has a field that cannot be indexed.
pub fn put(catalog: &mut Catalog, batch: &mut Batch, db: &str, pattern: Pattern) -> Result<()> {
    let record = persist::encode_pattern(db, &pattern);
    batch.put(Space::Catalog, &persist::pattern_key(pattern.id), record.bytes());
    let target = pattern.target.clone();
    change::add_pattern(catalog, db, pattern)?;
    let indexes = catalog.get(db, &target).map_or(&[][..], |target| &target.indexes);
    let refused = indexes.iter().find_map(|index| {
        let why = unindexable(catalog.patterns(db), &target, index.spec.as_doc())?;
        Some(format!("{why}; the index '{}' has it", index.name))
    });
    match refused {
        None => Ok(()),
        Some(why) => Err(Error::bad_value(why)),
    }
}

/// Refuses collections whose documents patterns cannot find by their `_id`s.
fn check_collection(collection: &Collection) -> Result<()> {
    let why = match &collection.kind {
        Kind::Capped(_) => "is capped",
        Kind::View(_) => "is a view",
        Kind::Plain if collection.collation.is_some() => "has a collation",
        Kind::Plain if collection.name.starts_with("system.") => "belongs to the system",
        Kind::Plain => return Ok(()),
    };
    Err(Error::new(
        Code::INVALID_OPTIONS,
        format!("'{}' {why}: it cannot take part in a pattern", collection.namespace()),
    ))
}

/// Returns an error if a collection whose documents a pattern owns is not empty.
fn check_empty(data: &Data, db: &str, pattern: &Pattern) -> Result<()> {
    let catalog = data.catalog.load();
    let known = find(&catalog, db, &pattern.collection, &pattern.name)
        .is_ok_and(|known| known.target == pattern.target);
    let target = catalog.get(db, &pattern.target);
    let filled = target.is_some_and(|target| target.counters.documents() > 0);
    if pattern.owns_documents() && !known && filled {
        return Err(Error::bad_value(format!(
            "pattern '{}': 'into' is '{}', which already contains documents",
            pattern.name, pattern.target
        )));
    }
    Ok(())
}

/// Refuses a pattern whose views have names that are taken.
fn check_views(data: &Data, db: &str, pattern: &Pattern) -> Result<()> {
    let catalog = data.catalog.load();
    let known = find(&catalog, db, &pattern.collection, &pattern.name).ok();
    kept_views::check(&catalog, db, pattern, known.as_deref())
}

/// Shows the documents of the target to a pattern whose declaration depends on them. One that is
/// declared again was accepted before.
fn inspect(data: &Data, op: &Operation, db: &str, pattern: &Pattern) -> Result<()> {
    let Some(mut inspection) = pattern.kind.inspection() else { return Ok(()) };
    let txn = data.reader();
    let known = find(&txn.catalog, db, &pattern.collection, &pattern.name);
    if known.is_ok_and(|known| known.declaration == pattern.declaration) {
        return Ok(());
    }
    let Some(target) = txn.catalog.get(db, &pattern.target) else { return Ok(()) };
    let named = |error: Error| match error.code() {
        Code::INTERRUPTED => error,
        _ => error.context(format!("pattern '{}': ", pattern.name)),
    };
    let mut range = layout::all(target, &txn.snapshot)?;
    let mut count = 0_u64;
    while let Some((_, doc)) = range.next_entry()? {
        count += 1;
        if count.is_multiple_of(1000) {
            op.check_now()?;
        }
        if !inspection.visit(RawDoc::new(&doc)).map_err(named)? {
            break;
        }
    }
    inspection.finish().map_err(named)
}

/// Returns an error if a field that must identify single documents has no unique index.
fn check_unique_field(data: &Data, db: &str, pattern: &Pattern) -> Result<()> {
    let Some(field) = pattern.kind.unique_field(&pattern.target) else { return Ok(()) };
    let (option, matched, name) = (field.option, field.path, field.collection);
    let source = data.collection(db, name);
    let unique = source.is_some_and(|source| {
        source.indexes.iter().any(|index| {
            let plain = index.partial.is_none() && index.collation.is_none();
            let mut paths: Vec<&str> = index.fields.iter().map(|f| f.path.text()).collect();
            paths.sort_unstable();
            let mut both: Vec<&str> = field.within.into_iter().chain([matched]).collect();
            both.sort_unstable();
            index.unique && plain && (paths == [matched] || paths == both)
        })
    });
    if matched == "_id" || unique {
        return Ok(());
    }
    let both = match field.within {
        None => String::new(),
        Some(within) => format!(", alone or together with '{within}'"),
    };
    Err(Error::bad_value(format!(
        "pattern '{}': '{option}' is '{matched}', which has no unique index in '{name}'{both}",
        pattern.name
    )))
}

/// Creates an index that a pattern needs, unless it exists.
fn create_index(data: &Data, op: &Operation, db: &str, name: &str, key: RawDoc<'_>) -> Result<()> {
    let collection = ensure_collection(data, op, db, name)?;
    if collection.indexes.iter().any(|index| is_support(index, key)) {
        return Ok(());
    }
    let path = key.first().map_or("", |(path, _)| path);
    let given = DocBuf::build(|out| {
        out.append("key", Val::Document(key)).str("name", &format!("{path}_1"));
    });
    let parsed = spec::parse(given.as_doc(), false)?;
    index_build::create(data, op, db, name, &[parsed]).map(drop)
}

/// Returns whether a pattern with this key can use the index.
fn is_support(index: &crate::catalog::Index, key: RawDoc<'_>) -> bool {
    let plain = index.partial.is_none() && !index.sparse && index.collation.is_none();
    plain && spec::same_key(index.key.as_doc(), key)
}

/// Returns the name of a pattern that needs an index, if one does.
#[must_use]
pub fn needed_by(
    catalog: &Catalog,
    collection: &Collection,
    index: &crate::catalog::Index,
) -> Option<String> {
    let needs = |pattern: &&Arc<Pattern>| {
        pattern
            .indexes()
            .iter()
            .any(|(name, key)| **name == *collection.name && is_support(index, key.as_doc()))
    };
    let keeps = |pattern: &&Arc<Pattern>| {
        pattern.target == *collection.name && own_index::is_of(pattern, index)
    };
    let mut living = catalog.patterns(&collection.db).iter().filter(|p| p.phase != Phase::Clearing);
    living.find(|pattern| keeps(pattern) || needs(pattern)).map(|pattern| pattern.name.clone())
}

/// Removes patterns from the catalog. `discard` frees their state.
pub fn remove(
    catalog: &mut Catalog,
    batch: &mut Batch,
    db: &str,
    gone: &[Arc<Pattern>],
) -> Result<()> {
    for pattern in gone {
        batch.delete(Space::Catalog, &persist::pattern_key(pattern.id));
    }
    let mut left = catalog.patterns(db).to_vec();
    left.retain(|pattern| !gone.iter().any(|gone| gone.id == pattern.id));
    change::set_patterns(catalog, db, left)
}

/// Frees the state of removed patterns.
pub fn discard(data: &Data, gone: &[Arc<Pattern>]) {
    for pattern in gone {
        data.trash.discard(Space::Documents, pattern.id);
    }
}

/// Returns whether a pattern maintains or reads a collection of this name, which need not exist.
#[must_use]
pub fn concerns(catalog: &Catalog, db: &str, name: &str) -> bool {
    catalog.patterns(db).iter().any(|p| p.target == name || p.source() == Some(name))
}

/// Returns whether a pattern must process changes to a collection of this name. Suspended patterns
/// do not count, because resuming rebuilds them.
#[must_use]
pub fn is_followed(catalog: &Catalog, db: &str, name: &str) -> bool {
    catalog.patterns(db).iter().any(|p| {
        let rests = matches!(p.phase, Phase::Suspended | Phase::Failed);
        !rests && (p.target == name || p.source() == Some(name))
    })
}

/// Returns the patterns that are dropped with a collection: those of which it is the target.
#[must_use]
pub fn dropped_with(catalog: &Catalog, db: &str, name: &str) -> Vec<Arc<Pattern>> {
    let goes = |pattern: &&Arc<Pattern>| pattern.target == name;
    catalog.patterns(db).iter().filter(goes).cloned().collect()
}

/// Updates the patterns of a collection that is renamed.
///
/// # Errors
/// When the catalog cannot be written.
pub fn rename(
    ids: &Ids,
    catalog: &mut Catalog,
    batch: &mut Batch,
    db: &str,
    all: &[Arc<Pattern>],
    (from, to): (&str, &str),
) -> Result<()> {
    let mut patterns = Vec::new();
    for pattern in all {
        match pattern.renamed(from, to)? {
            None => patterns.push(pattern.clone()),
            Some(renamed) => {
                kept_views::remove(catalog, batch, db, std::slice::from_ref(pattern));
                kept_views::add(ids, catalog, batch, db, &renamed)?;
                let record = persist::encode_pattern(db, &renamed);
                batch.put(Space::Catalog, &persist::pattern_key(renamed.id), record.bytes());
                patterns.push(Arc::new(renamed));
            }
        }
    }
    change::set_patterns(catalog, db, patterns)
}

/// Removes patterns from all writes and plans. Their values are cleared in the background, unless
/// they are kept; their names are free immediately. Returns the numbers under which they are cleared,
/// and the indexes to fill.
///
/// # Errors
/// When the catalog cannot be written.
pub fn clear(
    data: &Data,
    db: &str,
    gone: &[Arc<Pattern>],
    keep: bool,
) -> Result<(Vec<u32>, Vec<Renewed>)> {
    let (ids, renewed, versions, indexes) = data.change_catalog(|catalog, batch| {
        let indexes = own_index::remove(catalog, batch, db, gone);
        kept_views::remove(catalog, batch, db, gone);
        let versions = modify::versions(catalog, db, gone);
        remove(catalog, batch, db, &versions)?;
        let (mut ids, mut renewed) = (Vec::new(), Vec::new());
        for pattern in gone {
            let id = begin_clearing(data, catalog, batch, db, (pattern, keep))?;
            ids.push(id);
            renewed.extend(renew_indexes(data, catalog, batch, db, id)?);
        }
        Ok((ids, renewed, versions, indexes))
    })?;
    own_index::discard(data, &indexes);
    let records_stay = |pattern: &&Arc<Pattern>| pattern.layout().is_some();
    let gone: Vec<_> = gone.iter().filter(|pattern| !records_stay(pattern)).cloned().collect();
    discard(data, &gone);
    discard(data, &versions);
    Ok((ids, renewed))
}

/// Replaces the indexes that have other entries now that a pattern came or goes.
fn renew_indexes(
    data: &Data,
    catalog: &mut Catalog,
    batch: &mut Batch,
    db: &str,
    id: u32,
) -> Result<Option<Renewed>> {
    match catalog.patterns(db).iter().find(|pattern| pattern.id == id).cloned() {
        Some(pattern) => new_forms::renew(data, catalog, batch, db, &pattern),
        None => Ok(None),
    }
}

/// Replaces a maintained pattern by one in the phase `Clearing`, which does not know of values that
/// are kept. Returns its number.
pub(super) fn begin_clearing(
    data: &Data,
    catalog: &mut Catalog,
    batch: &mut Batch,
    db: &str,
    (pattern, keep): (&Arc<Pattern>, bool),
) -> Result<u32> {
    remove(catalog, batch, db, std::slice::from_ref(pattern))?;
    let kept: &[&str] = if keep { pattern.kind.value_options() } else { &[] };
    let declared = DocBuf::build(|out| {
        let options = pattern.declaration.as_doc().iter();
        options.filter(|(name, _)| !kept.contains(name)).for_each(|(name, value)| {
            out.raw(name, value);
        });
    });
    let cleared = |pattern: &mut Pattern| pattern.phase = Phase::Clearing;
    let mut cleared = pattern.redeclared(&pattern.collection, declared.as_doc(), cleared)?;
    renumber(data, batch, &mut cleared);
    let id = cleared.id;
    put(catalog, batch, db, cleared)?;
    Ok(id)
}

/// Assigns a new number, and so a new state, to a pattern whose walk restarts. One with a layout
/// keeps its number, because documents are stored under it; only its progress is reset.
fn renumber(data: &Data, batch: &mut Batch, pattern: &mut Pattern) {
    match pattern.layout() {
        None => pattern.id = data.ids.fresh(batch),
        Some(_) => batch.delete(Space::Documents, &state_key(pattern.id, PROGRESS)),
    }
}

/// Removes a pattern that has been cleared.
///
/// # Errors
/// When the catalog cannot be written.
pub fn forget(data: &Data, db: &str, id: u32) -> Result<()> {
    let gone = data.change_catalog(|catalog, batch| {
        let known = catalog.patterns(db).iter().find(|p| p.id == id).cloned();
        let gone: Vec<Arc<Pattern>> = known.into_iter().collect();
        remove(catalog, batch, db, &gone)?;
        Ok(gone)
    })?;
    discard(data, &gone);
    Ok(())
}

/// Records that writes bypass patterns: correct ones become `degraded`, those being built become
/// `suspended`. Neither answers queries until it is rebuilt. New versions in preparation are
/// discarded.
///
/// # Errors
/// When the catalog cannot be written.
pub fn pass(data: &Data, db: &str, ids: &[u32]) -> Result<()> {
    let gone = data.change_catalog(|catalog, batch| {
        let mut gone = Vec::new();
        for id in ids {
            let known = catalog.patterns(db).iter().find(|p| p.id == *id).cloned();
            let Some(known) = known else { continue };
            let phase = match known.phase {
                Phase::Ready => Phase::Degraded,
                Phase::Building => Phase::Suspended,
                Phase::Preparing => {
                    remove(catalog, batch, db, std::slice::from_ref(&known))?;
                    gone.push(known);
                    continue;
                }
                _ => continue,
            };
            tracing::info!(db, pattern = known.name, "writes bypass a pattern");
            let passed = known.altered(|pattern| {
                pattern.phase = phase;
                "writes bypassed it (bypassPatterns)".clone_into(&mut pattern.failure);
            })?;
            put(catalog, batch, db, passed)?;
        }
        Ok(gone)
    })?;
    discard(data, &gone);
    Ok(())
}

/// Sets the phase of a pattern. Building restarts with a new state.
///
/// # Errors
/// When the pattern no longer exists or the catalog cannot be written.
pub fn set_phase(data: &Data, db: &str, id: u32, phase: Phase, failure: &str) -> Result<()> {
    let old = data.change_catalog(|catalog, batch| {
        let Some(known) = catalog.patterns(db).iter().find(|p| p.id == id).cloned() else {
            return Ok(None);
        };
        // A layout that was dropped meanwhile keeps its number.
        if known.phase == Phase::Clearing {
            return Ok(None);
        }
        let mut pattern = known.altered(|pattern| {
            pattern.phase = phase;
            failure.clone_into(&mut pattern.failure);
        })?;
        if phase == Phase::Building {
            remove(catalog, batch, db, std::slice::from_ref(&known))?;
            renumber(data, batch, &mut pattern);
            let gone = (pattern.id != known.id).then_some(known);
            put(catalog, batch, db, pattern)?;
            return Ok(gone);
        }
        put(catalog, batch, db, pattern)?;
        Ok(None)
    })?;
    discard(data, old.as_slice());
    Ok(())
}
