//! Random patterns over a few collections, and what becomes of them: created, dropped with or without
//! their values, altered, suspended, resumed, and gone with a collection.
//!
//! Parents have `name`, `region` and `code`, children `@p` (one parent, several or none), `@x`, `@k`,
//! `ok`, `at` (a date of today, of long ago or of times to come), `pc` (a parent's code) and `items` with parents in `q`, nodes `parent`, `label`, `at` and
//! `shop`; `g` holds groups of children.

use crate::accumulators;
use crate::random::Random;
use crate::schema::Schema;
use crate::session::{Outcome, Session};
use value::{DocBuf, RawDoc, Val};

/// A pattern as it was declared.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) kind: Kind,
    /// The collection that it was declared on.
    pub(crate) collection: &'static str,
    pub(crate) name: &'static str,
    /// Whether targets follow later.
    pub(crate) late: bool,
    /// Whether its mode says so.
    deferred: bool,
    /// Whether nothing of it is stored: readers are given it.
    pointer: bool,
    /// Whether copies that wait in a queue are shown from their sources.
    resolved_late: bool,
    /// Whether change streams show what it writes.
    flagged: bool,
    /// Whether only children with `ok` count.
    pub(crate) only_ok: bool,
    /// Whether the ends of nested sets are numbers without gaps.
    pub(crate) dense: bool,
    /// Whether only children of the last day count.
    pub(crate) windowed: bool,
    /// What happens when a source or a parent goes.
    pub(crate) on_delete: &'static str,
    /// Whether it is suspended.
    pub(crate) suspended: bool,
    /// The fields that a fold maintains.
    pub(crate) fields: Vec<usize>,
    /// How many rows a subset has.
    pub(crate) limit: usize,
    /// A second form of the kind: groups by two fields, a subset sorted by two, a tree in scopes.
    pub(crate) second: bool,
    /// The command that declares it.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Folds over children, in parents.
    Fold,
    /// Groups of children.
    Groups,
    /// Copies of parents.
    Copies,
    /// The same, as they were when the reference was set.
    Frozen,
    /// Copies in the elements of an array.
    Items,
    /// Copies found by another field than `_id`.
    Coded,
    /// The first few children.
    Top,
    /// A fold over the elements of an array of the children.
    Elements,
    /// A field from the same document.
    Same,
    /// A field from what a fold maintains.
    Chain,
    /// Groups of groups.
    GroupChain,
    /// A fold over what is copied into children.
    CopyChain,
    /// Nodes.
    Tree,
}

static KINDS: &[(Kind, &str, &str)] = &[
    (Kind::Fold, "parents", "fold"),
    (Kind::Groups, "children", "groups"),
    (Kind::Copies, "children", "copies"),
    (Kind::Frozen, "children", "frozen"),
    (Kind::Items, "children", "items"),
    (Kind::Coded, "children", "coded"),
    (Kind::Top, "parents", "top"),
    (Kind::Elements, "parents", "elements"),
    (Kind::Same, "children", "same"),
    (Kind::Chain, "parents", "chain"),
    (Kind::GroupChain, "g", "groupchain"),
    (Kind::CopyChain, "parents", "copychain"),
    (Kind::Tree, "nodes", "tree"),
];

fn pick<'w>(random: &mut Random, words: &[&'w str]) -> &'w str {
    words[random.below(words.len() as u64) as usize]
}

fn declare(random: &mut Random, schema: &Schema) -> Declared {
    let (kind, collection, name) = KINDS[random.below(KINDS.len() as u64) as usize];
    let only_ok = random.below(2) == 0;
    let filter = if only_ok { "filter: {ok: true}," } else { "" };
    let counting = matches!(kind, Kind::Fold | Kind::Groups | Kind::Top | Kind::Elements);
    let windowed = counting && random.below(4) == 0;
    let window = if windowed { "window: {field: 'at', last: '1d'}," } else { "" };
    let mut declared = Declared {
        kind,
        collection,
        name,
        late: false,
        deferred: false,
        pointer: false,
        resolved_late: false,
        flagged: false,
        only_ok: only_ok && counting,
        dense: false,
        windowed,
        on_delete: "",
        suspended: false,
        fields: Vec::new(),
        limit: 1 + random.below(4) as usize,
        second: random.below(2) == 0,
        text: String::new(),
    };
    let mut mode = "";
    if !matches!(kind, Kind::Same | Kind::Chain) {
        mode = pick(random, &["", "", "mode: {async: {maxLagMS: 50}},", "mode: {every: '1s'},"]);
        declared.deferred = !mode.is_empty();
        declared.late = declared.deferred;
    }
    let backfill = pick(random, &["", "backfill: {batch: 1},", "backfill: {batch: 7},"]);
    let more = pick(random, &["", "", "clientWrites: 'ignore',", "changeEvents: 'flagged',"]);
    declared.flagged = more.contains("flagged");
    let body = body(random, &mut declared, filter);
    declared.text = schema.text(&format!(
        "{{createPatterns: '{collection}', patterns: [{{name: '{name}', {mode} {backfill} {more} {window} {body}}}]"
    ));
    declared
}

fn body(random: &mut Random, declared: &mut Declared, filter: &str) -> String {
    let (limit, second) = (declared.limit, declared.second);
    match declared.kind {
        Kind::Fold => {
            // The chain reads how many there are.
            declared.fields = vec![0];
            declared.fields.extend((1..accumulators::ALL.len()).filter(|_| random.below(2) == 0));
            let fields = declared.fields.iter().map(|at| &accumulators::ALL[*at]);
            let fields: Vec<String> =
                fields.map(|field| format!("'f.{}': {}", field.name, field.spec)).collect();
            let missing = pick(random, &["ignore", "ignore", "create", "reject"]);
            let ordered = declared.fields.iter().any(|at| accumulators::ALL[*at].ordered);
            let order = if ordered { "order: {_id: 1}," } else { "" };
            format!(
                "kind: 'computed', from: 'children', on: {{foreign: '@p'}}, {filter} {order}
                 onMissingParent: '{missing}', fields: {{{}}}",
                fields.join(", ")
            )
        }
        Kind::Groups => {
            let key = if second { "{k: '$@k', ok: '$ok'}" } else { "'$@k'" };
            format!(
                "kind: 'computed', into: 'g', groupBy: {key}, {filter}
                 fields: {{n: {{$count: {{}}}}, s: {{$sum: '$@x'}}, hi: {{$max: '$@x'}}}}"
            )
        }
        Kind::Copies | Kind::Frozen | Kind::Items | Kind::Coded => reference(random, declared),
        Kind::Top => {
            let sort = if second { "{'@k': 1, '@x': -1}" } else { "{'@x': -1}" };
            let count = if declared.counts() { ", count: 'tops'" } else { "" };
            format!(
                "kind: 'subset', into: 'top', from: 'children', on: {{foreign: '@p'}}, {filter}
                 sort: {sort}, limit: {limit}, fields: ['@x', '@k']{count}"
            )
        }
        Kind::Elements => format!(
            "kind: 'computed', from: 'children', on: {{foreign: 'items.q'}}, unwind: 'items', {filter}
             fields: {{'e.n': {{$count: {{}}}}, 'e.s': {{$sum: '$items.n'}}, 'e.hi': {{$max: '$items.n'}}}}"
        ),
        Kind::Same => "kind: 'computed', fields: {'d.four': {$multiply: ['$d.twice', 2]}, 'd.twice': {$multiply: ['$@x', 2]}}".to_owned(),
        Kind::Chain => "kind: 'computed', fields: {per: {$add: ['$f.n', 1]}}".to_owned(),
        Kind::GroupChain => "kind: 'computed', into: 'gg', groupBy: {$gte: ['$n', 2]},
             fields: {sets: {$count: {}}, s: {$sum: '$s'}}"
            .to_owned(),
        Kind::CopyChain => "kind: 'computed', from: 'children', on: {foreign: '@p'},
             filter: {'copy.where': {$gte: 2}}, fields: {'w.n': {$count: {}}, 'w.top': {$max: '$copy.name'}}"
            .to_owned(),
        Kind::Tree => {
            declared.on_delete = pick(random, &["adopt", "cascade", "root", "restrict"]);
            let (on_delete, missing) = (declared.on_delete, pick(random, &["defer", "defer", "reject"]));
            let scope = if second { "scope: 'shop'," } else { "" };
            declared.pointer =
                !declared.flagged && !declared.deferred && random.below(2) == 0;
            let strategy = if declared.pointer { "pointer" } else { "copy" };
            declared.dense = !declared.pointer && !declared.deferred && random.below(2) == 0;
            let dense = declared.dense;
            format!(
                "kind: 'tree', strategy: '{strategy}', {scope} order: 'at', maintain: {{ancestors: 'up', depth: 'd', path: {{into: 'path', segment: '$label'}},
                 childCount: 'kids', descendantCount: 'below', nestedSet: {{lft: 'lft', rgt: 'rgt', dense: {dense}}}}},
                 onMissingParent: '{missing}', onDelete: '{on_delete}'"
            )
        }
    }
}

fn reference(random: &mut Random, declared: &mut Declared) -> String {
    declared.on_delete = pick(random, &["keep", "unset", "cascade", "restrict"]);
    let limit = pick(random, &["1000", "3"]);
    let resolvable = declared.kind != Kind::Frozen && !declared.deferred;
    declared.pointer =
        resolvable && !declared.flagged && declared.on_delete != "keep" && random.below(2) == 0;
    // Copies, but shown from their sources while they wait.
    let over = if resolvable { pick(random, &["async", "pointer"]) } else { "async" };
    declared.resolved_late = over == "pointer";
    declared.late |= limit == "3" && !declared.is_resolved();
    let strategy = if declared.pointer { "pointer" } else { "copy" };
    let (place, fields) = match declared.kind {
        Kind::Items => ("ref: 'items.q', into: 'items.info'", "['name']"),
        Kind::Coded => ("ref: 'pc', match: 'code', into: 'coded'", "['name']"),
        Kind::Frozen => ("ref: '@p', into: 'frozen', freshness: 'snapshot'", "['name']"),
        _ => ("ref: '@p', into: 'copy'", "['name', {as: 'where', expr: '$region'}]"),
    };
    let missing = pick(random, &["allow", "allow", "allow", "reject"]);
    format!(
        "kind: 'extendedReference', from: 'parents', {place}, fields: {fields}, fanoutLimit: {limit},
         overLimit: '{over}', strategy: '{strategy}', onMissing: '{missing}', onSourceDelete: '{}'",
        declared.on_delete
    )
}

/// What must be there before anything is declared.
pub(crate) fn prepare(session: &mut Session) {
    let unique = "{createIndexes: 'parents', indexes: [{key: {code: 1}, name: 'code', unique: true, sparse: true}]}";
    // Others may have written what is not unique while there was no index.
    while matches!(session.run(unique), Outcome::Refused(_)) && !session.broken {
        session.run("{delete: 'parents', deletes: [{q: {}, limit: 0}]}");
    }
    let expires = "{createIndexes: 'children', indexes: [{key: {gone: 1}, name: 'gone', expireAfterSeconds: 0}]}";
    // The collection may be exchanged by `$out` while an index is built.
    while matches!(session.run(expires), Outcome::Refused(276)) {}
}

/// Changes what is declared in some way.
pub(crate) fn change(
    random: &mut Random,
    schema: &Schema,
    session: &mut Session,
    all: &mut Vec<Declared>,
) {
    if random.below(12) == 0 {
        return drop_collection(random, session, all);
    }
    let new = declare(random, schema);
    let known = all.iter().position(|known| known.kind == new.kind);
    let Some(at) = known else {
        return create(random, session, all, new);
    };
    let Declared { collection, name, suspended, .. } = all[at];
    match random.below(8) {
        0 if !suspended && new.kind != Kind::Tree => {
            all[at].suspended = true;
            session.must(&format!("{{suspendPatterns: '{collection}', names: ['{name}']}}"));
        }
        _ if suspended => {
            session.must(&format!("{{resumePatterns: '{collection}', names: ['{name}']}}"));
            all[at].suspended = session.broken;
        }
        1 if !matches!(new.kind, Kind::Groups | Kind::GroupChain | Kind::Tree)
            && !all[at].pointer =>
        {
            session.must(&format!(
                "{{dropPatterns: '{collection}', names: ['{name}'], keepValues: true}}"
            ));
            all.remove(at);
        }
        2 => modify(random, session, &mut all[at]),
        3 if all[at].can_change_strategy(all) => change_strategy(session, &mut all[at]),
        choice => {
            // At times the name is used again while the old values are still being cleared.
            let wait = choice != 4 || matches!(new.kind, Kind::Groups | Kind::GroupChain);
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

/// Alters an option that can change while documents stay as they are.
fn modify(random: &mut Random, session: &mut Session, declared: &mut Declared) {
    let at_once = matches!(declared.kind, Kind::Same | Kind::Chain) || declared.dense;
    let deferrable = !at_once && !declared.is_resolved();
    let references =
        matches!(declared.kind, Kind::Copies | Kind::Frozen | Kind::Items | Kind::Coded);
    let set = match random.below(4) {
        0 if deferrable => {
            // What is queued already stays: only a late one is certain to be right later on.
            (declared.late, declared.deferred) = (true, true);
            pick(random, &["mode: {async: {maxLagMS: 20}}", "mode: {every: '1s'}"])
        }
        1 if references => {
            declared.late |= !declared.is_resolved();
            pick(random, &["fanoutLimit: 2", "fanoutLimit: 7"])
        }
        2 if declared.kind == Kind::Tree => {
            declared.on_delete = pick(random, &["adopt", "cascade", "root", "restrict"]);
            ["onDelete: 'adopt'", "onDelete: 'cascade'", "onDelete: 'root'", "onDelete: 'restrict'"]
                .into_iter()
                .find(|text| text.contains(declared.on_delete))
                .unwrap_or("")
        }
        _ => pick(random, &["clientWrites: 'ignore'", "clientWrites: 'reject'", "rewrite: false"]),
    };
    session.must(&format!(
        "{{modifyPattern: '{}', name: '{}', set: {{{set}}}}}",
        declared.collection, declared.name
    ));
}

impl Declared {
    /// Whether a subset counts its children, too: what only ranks them is kept in another way.
    pub(crate) fn counts(&self) -> bool {
        self.limit.is_multiple_of(2)
    }

    /// Whether what is stored is not what readers are given, at least at times.
    fn is_resolved(&self) -> bool {
        self.pointer || self.resolved_late
    }

    /// Whether documents that were there before can make its build fail.
    fn may_fail(&self) -> bool {
        self.kind == Kind::Tree || self.text.contains("'reject'")
    }

    /// Whether it can be stored instead of resolved, or the other way round.
    fn can_change_strategy(&self, all: &[Declared]) -> bool {
        let kind = matches!(self.kind, Kind::Copies | Kind::Items | Kind::Coded | Kind::Tree);
        // What is not stored cannot be read by another pattern, nor told to change streams.
        let read = self.kind == Kind::Copies && all.iter().any(|one| one.kind == Kind::CopyChain);
        let stored = kind && !self.deferred && !self.flagged && self.on_delete != "keep" && !read;
        stored && !self.suspended && !self.dense
    }

    /// Whether one of the patterns reads what the other does not store.
    fn clashes(&self, other: &Declared) -> bool {
        self.kind == Kind::CopyChain && other.kind == Kind::Copies && other.is_resolved()
    }
}

/// Stores what was resolved when it was read, or the other way round.
fn change_strategy(session: &mut Session, declared: &mut Declared) {
    let strategy = if declared.pointer { "copy" } else { "pointer" };
    let changed = session.run(&format!(
        "{{modifyPattern: '{}', name: '{}', set: {{strategy: '{strategy}'}}}}",
        declared.collection, declared.name
    ));
    match changed {
        Outcome::Done(_) => declared.pointer = !declared.pointer,
        // One that could not be built as it was declared, when nobody waited for it, cannot be built
        // in another way either; `wait` gives it up.
        Outcome::Refused(96) => assert!(declared.may_fail(), "{declared:?}"),
        Outcome::Refused(code) => assert!(session.broken, "{code}: {declared:?}"),
    }
    // A limit that was meant for copies holds again.
    declared.late |= declared.kind != Kind::Tree && !declared.resolved_late;
}

/// Drops a collection: the patterns that it is the target of go with it, to others its documents are
/// deleted.
fn drop_collection(random: &mut Random, session: &mut Session, all: &mut Vec<Declared>) {
    let collection = pick(random, &["children", "parents", "nodes"]);
    // Where a source may not go, nor may its collection; nor while a transaction wrote to it.
    session.run(&format!("{{drop: '{collection}'}}"));
    prepare(session);
    refresh(session, all);
}

/// Finds out which of the declared patterns are there.
fn refresh(session: &mut Session, all: &mut Vec<Declared>) {
    let Some(states) = states(session) else { return };
    all.retain(|declared| states.iter().any(|(name, _)| name == declared.name));
}

fn create(random: &mut Random, session: &mut Session, all: &mut Vec<Declared>, new: Declared) {
    let wait = random.below(3) > 0;
    let outcome = session.run(&format!("{}, wait: {wait}}}", new.text));
    if all.iter().any(|other| new.clashes(other) || other.clashes(&new)) {
        assert!(session.broken || matches!(outcome, Outcome::Refused(2)), "{}", new.text);
        return;
    }
    match outcome {
        Outcome::Done(_) => all.push(new),
        // Cut off: it may be there or not. `wait` finds out.
        Outcome::Refused(0) => all.push(new),
        // A collection without patterns was exchanged by `$out` while an index was built for this one.
        Outcome::Refused(276) => {}
        // Clients may have made a cycle, or left a parent out, while there was no tree; and
        // references to nothing.
        Outcome::Refused(code) => {
            let states = states(session).unwrap_or_default();
            let failed = states.iter().any(|(name, state)| name == new.name && state == "failed");
            assert!(
                session.broken || (failed && new.may_fail()),
                "{code}: {}, {states:?}",
                new.text
            );
            give_up(session, &new);
        }
    }
}

/// Removes a pattern that could not be built.
fn give_up(session: &mut Session, declared: &Declared) {
    if declared.kind == Kind::Tree {
        session.must("{delete: 'nodes', deletes: [{q: {}, limit: 0}]}");
    }
    session.must(&format!(
        "{{dropPatterns: '{}', names: ['{}']}}",
        declared.collection, declared.name
    ));
}

fn text_at(doc: &DocBuf, path: &str) -> String {
    value::path::Path::new(path).get(doc.as_doc()).as_str().unwrap_or("").to_owned()
}

/// The patterns that are there, as `listPatterns` shows them.
fn listed(session: &mut Session) -> Option<Vec<DocBuf>> {
    let reply = session.must("{listPatterns: 1}")?;
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
    Some(batch.iter().filter_map(|(_, doc)| doc.as_doc()).map(DocBuf::from).collect())
}

/// The names of the patterns that are there, with their states.
pub(crate) fn states(session: &mut Session) -> Option<Vec<(String, String)>> {
    let docs = listed(session)?;
    Some(docs.iter().map(|doc| (text_at(doc, "name"), text_at(doc, "state"))).collect())
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
    all.retain_mut(|declared| {
        let state = states.iter().find(|(name, _)| name == declared.name).map(|(_, state)| state);
        if state.is_some_and(|state| state == "failed") {
            assert!(declared.may_fail(), "{states:?} {declared:?}");
            give_up(session, declared);
            return false;
        }
        assert!(state.is_none_or(|state| state == "ready" || state == "suspended"), "{states:?}");
        declared.suspended = state.is_some_and(|state| state == "suspended");
        state.is_some()
    });
    // A change of the strategy that was cut off may have happened or not.
    for doc in listed(session).expect("the server answers") {
        let name = text_at(&doc, "name");
        if let Some(declared) = all.iter_mut().find(|declared| declared.name == name) {
            declared.pointer = text_at(&doc, "declaration.strategy") == "pointer";
        }
    }
    for (name, _) in states.iter().filter(|(_, state)| state != "failed") {
        // One that was dropped by a command whose reply never came.
        assert!(all.iter().any(|declared| declared.name == name), "{name} is not known");
    }
}

/// What the database finds wrong itself, when nobody writes.
pub(crate) fn validate(session: &mut Session, all: &[Declared]) -> Vec<String> {
    let mut problems = Vec::new();
    for declared in all.iter().filter(|declared| !declared.suspended) {
        let reply = session.must(&format!(
            "{{validatePatterns: '{}', names: ['{}']}}",
            declared.collection, declared.name
        ));
        let Some(reply) = reply else { return Vec::new() };
        let found = reply.as_doc().get("patterns").and_then(Val::as_array);
        let found = found.and_then(RawDoc::first).and_then(|(_, report)| report.as_doc());
        let drift = found.and_then(|report| report.get("drift")?.as_i64_exact());
        if drift != Some(0) {
            problems.push(format!("{}: {reply:?}", declared.name));
        }
    }
    problems
}

/// Nothing is left of a pattern that was dropped.
fn check_cleared(session: &mut Session, kind: Kind) {
    let (collection, field) = match kind {
        Kind::Fold => ("parents", "f.n"),
        Kind::Groups => ("g", "n"),
        Kind::GroupChain => ("gg", "sets"),
        Kind::Copies => ("children", "copy.name"),
        Kind::Frozen => ("children", "frozen.name"),
        Kind::Items => ("children", "items.info.name"),
        Kind::Coded => ("children", "coded.name"),
        Kind::Top => ("parents", "top"),
        Kind::Elements => ("parents", "e.n"),
        Kind::Same => ("children", "d.twice"),
        Kind::Chain => ("parents", "per"),
        Kind::CopyChain => ("parents", "w.n"),
        Kind::Tree => ("nodes", "up"),
    };
    // What clients carry from earlier reads is theirs again, so some may be there: they mark it.
    // Elements are marked by a name that no parent has.
    let filter = match kind {
        Kind::Items => {
            "{items: {$elemMatch: {'info.name': {$exists: true, $ne: 777}}}, carried: {$ne: true}}"
                .to_owned()
        }
        _ => format!("{{'{field}': {{$exists: true}}, carried: {{$ne: true}}}}"),
    };
    let left = session.all(collection, &format!(", filter: {filter}"));
    let left = left.unwrap_or_default();
    assert!(left.is_empty(), "{kind:?} left something behind: {left:?}");
}
