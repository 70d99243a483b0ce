//! Random patterns over four collections, and what becomes of them: created, dropped with or without
//! their values, suspended, resumed.
//!
//! Parents have `name` and `region`, children `p` (one parent, several or none), `x`, `k` and `ok`,
//! nodes `parent` and `label`; `g` holds groups of children.

use crate::random::Random;
use crate::session::{Outcome, Session};
use value::{DocBuf, Val};

/// A pattern as it was declared.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) kind: Kind,
    /// The collection that it was declared on.
    pub(crate) collection: &'static str,
    pub(crate) name: &'static str,
    /// Whether targets follow later.
    pub(crate) late: bool,
    /// Whether only children with `ok` count.
    pub(crate) only_ok: bool,
    /// What happens when a source or a parent goes.
    pub(crate) on_delete: &'static str,
    /// Whether it is suspended.
    pub(crate) suspended: bool,
    /// The command that declares it.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Fold,
    Groups,
    Copies,
    Top,
    Same,
    Chain,
    Tree,
}

static KINDS: &[(Kind, &str, &str)] = &[
    (Kind::Fold, "parents", "fold"),
    (Kind::Groups, "children", "groups"),
    (Kind::Copies, "children", "copies"),
    (Kind::Top, "parents", "top"),
    (Kind::Same, "children", "same"),
    (Kind::Chain, "parents", "chain"),
    (Kind::Tree, "nodes", "tree"),
];

fn pick<'w>(random: &mut Random, words: &[&'w str]) -> &'w str {
    words[random.below(words.len() as u64) as usize]
}

fn declare(random: &mut Random) -> Declared {
    let (kind, collection, name) = KINDS[random.below(KINDS.len() as u64) as usize];
    let only_ok = random.below(2) == 0;
    let filter = if only_ok { "filter: {ok: true}," } else { "" };
    let (mut late, mut on_delete) = (false, "");
    let mut mode = "";
    if matches!(kind, Kind::Fold | Kind::Groups | Kind::Copies | Kind::Top) {
        mode = pick(random, &["", "", "mode: {async: {maxLagMS: 50}},", "mode: {every: '1s'},"]);
        late = !mode.is_empty();
    }
    let backfill = pick(random, &["", "backfill: {batch: 1},", "backfill: {batch: 7},"]);
    let body = match kind {
        Kind::Fold => format!(
            "kind: 'computed', from: 'children', on: {{foreign: 'p'}}, {filter} fields: {{
             'f.n': {{$count: {{}}}}, 'f.s': {{$sum: '$x'}}, 'f.lo': {{$min: '$x'}}, 'f.hi': {{$max: '$x'}},
             'f.best': {{$topN: {{n: 2, sortBy: {{x: -1, _id: 1}}, output: '$_id'}}}},
             'f.ks': {{$addToSet: '$k'}}}}"
        ),
        Kind::Groups => format!(
            "kind: 'computed', into: 'g', groupBy: '$k', {filter}
             fields: {{n: {{$count: {{}}}}, s: {{$sum: '$x'}}}}"
        ),
        Kind::Copies => {
            on_delete = pick(random, &["keep", "unset", "cascade"]);
            let limit = pick(random, &["1000", "3"]);
            late |= limit == "3";
            format!(
                "kind: 'extendedReference', ref: 'p', from: 'parents', into: 'copy', fanoutLimit: {limit},
                 fields: ['name', {{as: 'where', expr: '$region'}}], onSourceDelete: '{on_delete}'"
            )
        }
        Kind::Top => format!(
            "kind: 'subset', into: 'top', from: 'children', on: {{foreign: 'p'}}, {filter}
             sort: {{x: -1}}, limit: 3, fields: ['x', 'k'], count: 'tops'"
        ),
        Kind::Same => "kind: 'computed', fields: {'d.twice': {$multiply: ['$x', 2]}}".to_owned(),
        Kind::Chain => "kind: 'computed', fields: {per: {$add: ['$f.n', 1]}}".to_owned(),
        Kind::Tree => {
            on_delete = pick(random, &["adopt", "cascade", "root", "restrict"]);
            format!(
                "kind: 'tree', maintain: {{ancestors: 'up', depth: 'd', path: {{into: 'path', segment: '$label'}}}},
                 onMissingParent: 'defer', onDelete: '{on_delete}'"
            )
        }
    };
    // Filters belong to kinds with children only.
    let only_ok = only_ok && matches!(kind, Kind::Fold | Kind::Groups | Kind::Top);
    let text = format!(
        "{{createPatterns: '{collection}', patterns: [{{name: '{name}', {mode} {backfill} {body}}}]"
    );
    Declared { kind, collection, name, late, only_ok, on_delete, suspended: false, text }
}

/// Changes what is declared in some way.
pub(crate) fn change(random: &mut Random, session: &mut Session, all: &mut Vec<Declared>) {
    let new = declare(random);
    let known = all.iter().position(|known| known.kind == new.kind);
    let Some(at) = known else {
        return create(random, session, all, new);
    };
    let Declared { collection, name, suspended, .. } = all[at];
    match random.below(6) {
        0 if !suspended && new.kind != Kind::Tree => {
            all[at].suspended = true;
            session.must(&format!("{{suspendPatterns: '{collection}', names: ['{name}']}}"));
        }
        _ if suspended => {
            session.must(&format!("{{resumePatterns: '{collection}', names: ['{name}']}}"));
            all[at].suspended = session.broken;
        }
        1 if !matches!(new.kind, Kind::Groups | Kind::Tree) => {
            session.must(&format!(
                "{{dropPatterns: '{collection}', names: ['{name}'], keepValues: true}}"
            ));
            all.remove(at);
        }
        choice => {
            // At times the name is used again while the old values are still being cleared.
            let wait = choice != 2 || new.kind == Kind::Groups;
            let dropped = session.must(&format!(
                "{{dropPatterns: '{collection}', names: ['{name}'], wait: {wait}}}"
            ));
            // A drop that was cut off may have happened or not.
            if dropped.is_some() {
                all.remove(at);
                if wait {
                    check_cleared(session, new.kind);
                }
            }
            if random.below(3) > 0 && dropped.is_some() {
                create(random, session, all, new);
            }
        }
    }
}

fn create(random: &mut Random, session: &mut Session, all: &mut Vec<Declared>, new: Declared) {
    let wait = random.below(3) > 0;
    match session.run(&format!("{}, wait: {wait}}}", new.text)) {
        Outcome::Done(_) => all.push(new),
        // Cut off: it may be there or not. `wait` finds out.
        Outcome::Refused(0) => all.push(new),
        // Clients may have made a cycle while there was no tree.
        Outcome::Refused(96) if new.kind == Kind::Tree => remove_cycles(session),
        Outcome::Refused(code) => {
            let patterns = session.must("{listPatterns: 1}");
            panic!("{}: {code}, {patterns:?}", new.text);
        }
    }
}

fn remove_cycles(session: &mut Session) {
    session.must("{delete: 'nodes', deletes: [{q: {}, limit: 0}]}");
    session.must("{dropPatterns: 'nodes', names: ['tree']}");
}

/// The names of the patterns that are there, with their states.
pub(crate) fn states(session: &mut Session) -> Option<Vec<(String, String)>> {
    let reply = session.must("{listPatterns: 1}")?;
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
    let text = |doc: &DocBuf, name: &str| {
        doc.as_doc().get(name).and_then(Val::as_str).unwrap_or("").to_owned()
    };
    let docs = batch.iter().filter_map(|(_, doc)| doc.as_doc()).map(DocBuf::from);
    Some(docs.map(|doc| (text(&doc, "name"), text(&doc, "state"))).collect())
}

/// Waits until all builds have ended, and finds out what is there.
pub(crate) fn wait(session: &mut Session, all: &mut Vec<Declared>) {
    let begin = std::time::Instant::now();
    let states = loop {
        let states = states(session).expect("the server answers");
        if !states.iter().any(|(_, state)| state == "building" || state == "clearing") {
            break states;
        }
        assert!(begin.elapsed().as_secs() < 60, "a build does not end: {states:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    if states.iter().any(|(name, state)| name == "tree" && state == "failed") {
        remove_cycles(session);
        all.retain(|declared| declared.kind != Kind::Tree);
    }
    all.retain_mut(|declared| {
        let state = states.iter().find(|(name, _)| name == declared.name).map(|(_, state)| state);
        assert!(state.is_none_or(|state| state == "ready" || state == "suspended"), "{states:?}");
        declared.suspended = state.is_some_and(|state| state == "suspended");
        state.is_some()
    });
    for (name, _) in states.iter().filter(|(_, state)| state != "failed") {
        // One that was dropped by a command whose reply never came.
        assert!(all.iter().any(|declared| declared.name == name), "{name} is not known");
    }
}

/// Nothing is left of a pattern that was dropped.
fn check_cleared(session: &mut Session, kind: Kind) {
    let (collection, field) = match kind {
        Kind::Fold => ("parents", "f.s"),
        Kind::Groups => ("g", "n"),
        Kind::Copies => ("children", "copy.name"),
        Kind::Top => ("parents", "top"),
        Kind::Same => ("children", "d.twice"),
        Kind::Chain => ("parents", "per"),
        Kind::Tree => ("nodes", "up"),
    };
    // What clients carry from earlier reads is theirs again, so some may be there: they mark it.
    let filter = format!("{{'{field}': {{$exists: true}}, carried: {{$ne: true}}}}");
    let left = session.all(collection, &format!(", filter: {filter}"));
    let left = left.unwrap_or_default();
    assert!(left.is_empty(), "{kind:?} left something behind: {left:?}");
}
