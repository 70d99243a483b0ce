//! What readers of maintained values wait for: values that are not derived yet, and deferred
//! updates.

use super::{backfill, catch_up, declare};
use crate::catalog::{Catalog, Collection};
use crate::operation::Operation;
use crate::txn::Data;
use crate::txn::View;
use ::patterns::declaration::DuringBuild;
use ::patterns::{Pattern, Phase};
use std::sync::Arc;
use std::time::Duration;
use value::{Code, Error, RawDoc, Result, Val};

/// The maintained values that a command reads; declared in its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reads {
    /// Nothing.
    Nothing,
    /// The documents of the one collection or view that it names.
    Collection,
    /// What its pipeline reads.
    Pipeline,
}

/// Called before a command reads. Refuses collections that may not be read yet, and waits if the
/// reader requests up-to-date values.
///
/// # Errors
/// PatternNotReady, or that the operation was stopped.
pub(crate) fn prepare(
    data: &Data,
    op: &Operation,
    db: &str,
    reads: Reads,
    body: RawDoc<'_>,
    fresh: bool,
) -> Result<()> {
    if reads == Reads::Nothing {
        return Ok(());
    }
    let catalog = data.catalog.load();
    let patterns = catalog.patterns(db);
    if patterns.is_empty() || !(fresh || any_passing(patterns)) {
        return Ok(());
    }
    let names = read_by(&catalog, db, body);
    let unfinished = patterns.iter().find(|pattern| {
        pattern.phase == Phase::Building
            && pattern.common.during_build == DuringBuild::Error
            && names.contains(&&*pattern.target)
    });
    if let Some(pattern) = unfinished {
        return Err(Error::new(
            Code::PATTERN_NOT_READY,
            format!(
                "the pattern '{}' of '{db}.{}' is being built, and duringBuild is 'error'",
                pattern.name, pattern.collection
            ),
        ));
    }
    if fresh {
        catch_up::run_pending(data, db, &names, &|| op.check_now())?;
    }
    Ok(())
}

/// Called when the snapshot of a command is known. If a build is in progress, the missing values
/// are derived on top of the snapshot. If too many are missing, this waits for the build.
///
/// # Errors
/// That the operation was stopped.
pub(crate) fn complete(
    data: &Data,
    op: &Operation,
    db: &str,
    reads: Reads,
    body: RawDoc<'_>,
) -> Result<()> {
    if reads == Reads::Nothing {
        return Ok(());
    }
    // At a past moment other patterns may have existed.
    if op.reads_newest() {
        let catalog = data.catalog.load();
        if catalog.patterns(db).is_empty() || reads_no_pattern(&catalog, db, reads, body) {
            return Ok(());
        }
    }
    loop {
        let view = data.view(op);
        let catalog = view.catalog.clone();
        let names = read_by(&catalog, db, body);
        let unfinished: Vec<Arc<Pattern>> = view
            .catalog
            .patterns(db)
            .iter()
            .filter(|p| p.phase == Phase::Building || is_replaced(&view.catalog, db, p))
            .filter(|p| p.common.during_build == DuringBuild::Compute)
            // While a layout is being built, documents in both forms can be read. A shape stores
            // nothing.
            .filter(|p| !p.kept.is_empty() || (p.layout().is_none() && p.shape().is_none()))
            // Resolved values need not be derived before.
            .filter(|p| !p.is_pointer() || p.traits.counts_for_readers)
            .cloned()
            .collect();
        let needed = needed(view.catalog.patterns(db), &names);
        if !unfinished.iter().any(|pattern| needed.contains(&&*pattern.target)) {
            // Pins the state that was checked, because a new version may replace an old one at any
            // time.
            let is_read = |p: &Arc<Pattern>| names.contains(&&*p.target);
            if op.reads_newest() && view.catalog.patterns(db).iter().any(is_read) {
                op.pin(view);
            }
            return Ok(());
        }
        let mut txn = data.private(view);
        // With several of them, one may read values that another maintains.
        let alone = matches!(unfinished.as_slice(), [one] if names.first() == Some(&&*one.target));
        let id = point(body).filter(|_| alone);
        let mut is_complete = true;
        for pattern in &unfinished {
            match backfill::complete(&mut txn, db, pattern, id, &|| op.check_now()) {
                Ok(done) => is_complete &= done,
                Err(error) => {
                    op.check_now()?;
                    // The build fails with the same error. Readers see the stored values.
                    tracing::debug!(
                        code = error.code().0,
                        pattern = pattern.name,
                        "cannot derive values of a pattern for a reader"
                    );
                    return Ok(());
                }
            }
        }
        if is_complete {
            op.read_view(View::new(catalog.clone(), txn.snapshot));
            return Ok(());
        }
        if op.read_time().is_some() {
            // Waiting does not change a past moment.
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
        op.check_now()?;
    }
}

/// Returns the collections that are read, and those that their maintained values depend on. A
/// pattern that is built may depend on one that is not.
fn needed<'n>(patterns: &'n [Arc<Pattern>], names: &[&'n str]) -> Vec<&'n str> {
    let mut needed = names.to_vec();
    let mut at = 0;
    while let Some(name) = needed.get(at).copied() {
        at += 1;
        for source in patterns.iter().filter(|p| p.target == name).filter_map(|p| p.source()) {
            if !needed.contains(&source) {
                needed.push(source);
            }
        }
    }
    needed
}

/// Returns whether one of the patterns is changing its phase. Usually none is, and readers continue
/// immediately.
fn any_passing(patterns: &[Arc<Pattern>]) -> bool {
    patterns.iter().any(|pattern| pattern.phase.is_passing())
}

/// Returns whether a pattern is the old version of an existing one. Its remaining values must not
/// be visible together with those of the new version.
fn is_replaced(catalog: &Catalog, db: &str, pattern: &Pattern) -> bool {
    pattern.phase == Phase::Clearing
        && declare::find(catalog, db, &pattern.collection, &pattern.name).is_ok()
}

/// Returns the `_id` if a find has no other condition. No other reading command has a field
/// `filter`.
fn point<'b>(body: RawDoc<'b>) -> Option<Val<'b>> {
    let filter = body.get("filter").and_then(Val::as_doc)?;
    let mut fields = filter.iter();
    match (fields.next(), fields.next()) {
        (Some(("_id", id)), None) => match id.get() {
            Val::Document(_) | Val::Regex(..) | Val::Array(_) => None,
            id => Some(id),
        },
        _ => None,
    }
}

/// Returns whether a command reads one collection that no pattern involves. Such a reader skips all
/// checks.
fn reads_no_pattern(catalog: &Catalog, db: &str, reads: Reads, body: RawDoc<'_>) -> bool {
    let Some((_, Val::String(name))) = body.first().map(|(name, value)| (name, value.get())) else {
        return false;
    };
    let alone = reads == Reads::Collection;
    let is_free = |c: &Arc<Collection>| c.patterns.is_none() && c.view().is_none();
    alone && catalog.get(db, name).is_some_and(is_free)
}

/// Returns the collections that a command reads, including those below views.
fn read_by<'b>(catalog: &'b Catalog, db: &str, body: RawDoc<'b>) -> Vec<&'b str> {
    let mut names = Vec::new();
    if let Some((_, Val::String(name))) = body.first().map(|(name, value)| (name, value.get())) {
        names.push(name);
    }
    if let Some(pipeline) = body.get("pipeline") {
        joined(pipeline, &mut names);
    }
    let mut at = 0;
    while let Some(name) = names.get(at).copied() {
        // Each view is visited once.
        if let Some(view) = catalog.get(db, name).and_then(|collection| collection.view())
            && names.iter().position(|known| *known == name) == Some(at)
        {
            names.push(&view.on);
            joined(Val::Array(view.pipeline.as_doc()), &mut names);
        }
        at += 1;
    }
    names
}

/// Adds the collections that the stages of a pipeline read.
fn joined<'p>(pipeline: Val<'p>, names: &mut Vec<&'p str>) {
    let Val::Array(stages) = pipeline else { return };
    for (_, stage) in stages {
        let Some((name, what)) = stage.as_doc().and_then(RawDoc::first) else { continue };
        match (name, what.get()) {
            ("$unionWith", Val::String(other)) => names.push(other),
            ("$lookup" | "$graphLookup" | "$unionWith", Val::Document(options)) => {
                for option in ["from", "coll"] {
                    names.extend(options.get(option).and_then(Val::as_str));
                }
                joined(options.get("pipeline").unwrap_or(Val::Null), names);
            }
            ("$facet", Val::Document(facets)) => {
                facets.iter().for_each(|(_, inner)| joined(inner.get(), names));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Options};
    use value::ejson;

    /// A reader that pauses between its check and its first document still reads one version.
    #[test]
    fn a_reader_that_stalls_reads_the_version_that_it_looked_at() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc()).expect("works")
        };
        run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
        run("{insert: 'c', documents: [{_id: 1, p: 1, x: 3}, {_id: 2, p: 2, x: 4}]}");
        run(
            "{createPatterns: 'p', patterns: [{name: 's', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {s: {$sum: '$x'}}}]}",
        );
        let sums = |view: &View| {
            let target = view.catalog.get("t", "p").cloned().expect("it is there");
            let to = (target.id + 1).to_be_bytes();
            let (from, to) = (target.prefix(), to);
            let (from, to) =
                (std::ops::Bound::Included(&from[..]), std::ops::Bound::Excluded(&to[..]));
            let direction = store::Direction::Forward;
            let range = view.snapshot.range(store::Space::Documents, from, to, direction);
            let mut range = range.expect("a range");
            let mut sums = Vec::new();
            while let Some((_, doc)) = range.next_entry().expect("an entry") {
                sums.push(RawDoc::new(&doc).get("s").and_then(Val::as_i64_exact));
            }
            sums
        };
        let op = Operation::for_tests(1 << 20);
        let body = ejson::parse_doc("{find: 'p'}").expect("test text");
        complete(&engine.inner().data, &op, "t", Reads::Collection, body.as_doc()).expect("works");
        assert!(op.reads_newest(), "queries may be answered from patterns");
        // Meanwhile another version is built, replaces the first one and is written.
        run(
            "{modifyPattern: 'p', name: 's', set: {fields: {s: {$sum: {$multiply: ['$x', 100]}}}}}",
        );
        assert_eq!(sums(&engine.inner().data.newest()), [Some(300), Some(400)]);
        let view = engine.inner().data.view(&op);
        assert_eq!(sums(&view), [Some(3), Some(4)]);
        let known = declare::find(&view.catalog, "t", "p", "s").expect("it is there");
        assert_eq!(known.phase, Phase::Ready);
        // Collections that no pattern maintains are read as usual.
        let op = Operation::for_tests(1 << 20);
        let body = ejson::parse_doc("{find: 'c'}").expect("test text");
        complete(&engine.inner().data, &op, "t", Reads::Collection, body.as_doc()).expect("works");
        assert!(op.view().is_none());
    }
}
