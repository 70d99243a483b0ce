//! Recomputes the maintained values from what clients have written.

use crate::accumulators;
use crate::declarations::{self, Declared, Kind};
use crate::nodes;
use crate::schema::Schema;
use crate::session::Session;
use std::collections::BTreeMap;
use value::path::Path;
use value::{DocBuf, RawDoc, Val};

/// All documents at one moment.
pub(crate) struct Moment {
    pub(crate) parents: Vec<DocBuf>,
    pub(crate) children: Vec<Child>,
    groups: Vec<DocBuf>,
    /// Groups of groups.
    sets: Vec<DocBuf>,
    pub(crate) nodes: Vec<DocBuf>,
    /// The patterns that were ready, by name.
    pub(crate) ready: Vec<&'static str>,
    /// The cluster time of the moment, or a later one without a write in between.
    pub(crate) time: u64,
}

/// A child, with what patterns read of it.
pub(crate) struct Child {
    pub(crate) doc: DocBuf,
    pub(crate) id: i64,
    /// The parents that it belongs to, each once.
    parents: Vec<i64>,
    pub(crate) x: Option<f64>,
    pub(crate) k: Option<i64>,
    ok: Option<bool>,
    /// Whether its date is not older than a day: nobody here has one of yesterday.
    recent: bool,
}

pub(crate) fn whole(doc: RawDoc<'_>, path: &str) -> Option<i64> {
    Path::new(path).get(doc).as_i64_exact()
}

fn real(doc: RawDoc<'_>, path: &str) -> Option<f64> {
    Path::new(path).get(doc).as_f64()
}

pub(crate) fn id_of(doc: &DocBuf) -> i64 {
    whole(doc.as_doc(), "_id").expect("ids are numbers")
}

fn child(schema: &Schema, doc: DocBuf) -> Child {
    let raw = doc.as_doc();
    let mut parents: Vec<i64> = match Path::new(schema.p).get(raw) {
        Val::Array(list) => list.iter().filter_map(|(_, p)| p.get().as_i64_exact()).collect(),
        one => one.as_i64_exact().into_iter().collect(),
    };
    parents.sort_unstable();
    parents.dedup();
    let ok = match raw.get("ok") {
        Some(Val::Bool(ok)) => Some(ok),
        _ => None,
    };
    let long_ago = 1_600_000_000_000;
    let recent = matches!(raw.get("at"), Some(Val::DateTime(at)) if at > long_ago);
    let (id, x, k) = (id_of(&doc), real(raw, schema.x), whole(raw, schema.k));
    Child { id, parents, x, k, ok, recent, doc }
}

/// Reads everything at one time: now, or a time in the past.
pub(crate) fn look(session: &mut Session, schema: &Schema, past: Option<u64>) -> Option<Moment> {
    let concern = past.map_or(String::new(), |time| {
        let (seconds, count) = (time >> 32, time & 0xFFFF_FFFF);
        format!(
            ", readConcern: {{level: 'snapshot', atClusterTime: Timestamp({seconds}, {count})}}"
        )
    });
    if past.is_none() {
        session.begin();
    }
    let mut all = |collection: &str| session.maybe_all(collection, &concern);
    let moment = (|| {
        Some(Moment {
            parents: all("parents")?,
            children: all("children")?.into_iter().map(|doc| child(schema, doc)).collect(),
            groups: all("g")?,
            sets: all("gg")?,
            nodes: all("nodes")?,
            ready: Vec::new(),
            time: 0,
        })
    })();
    if past.is_none() {
        session.end(false);
    }
    moment.map(|moment| Moment { time: past.unwrap_or(session.time), ..moment })
}

/// The problems as text, and the data that was compared. With `rest` no client writes, so all deferred
/// updates must have been written. (Documents still expire, so a late update is checked again before it
/// is reported.)
pub(crate) fn check(
    session: &mut Session,
    schema: &Schema,
    declared: &[Declared],
    rest: bool,
) -> (Vec<String>, Option<Moment>) {
    let mut tries = 5;
    loop {
        let Some(states) = declarations::states(session) else { return (Vec::new(), None) };
        if rest {
            for collection in ["parents", "children", "g", "gg", "nodes"] {
                let fresh = "readConcern: {patterns: 'fresh'}";
                session.must(&format!("{{find: '{collection}', limit: 1, {fresh}}}"));
            }
        }
        let Some(mut moment) = look(session, schema, None) else { return (Vec::new(), None) };
        let is_ready = |declared: &&Declared| {
            let is = |(name, state): &(String, String)| name == declared.name && state == "ready";
            states.iter().any(is) && !declared.suspended
        };
        let ready: Vec<&Declared> = declared.iter().filter(is_ready).collect();
        let (late, prompt): (Vec<&Declared>, Vec<&Declared>) =
            ready.iter().copied().partition(|declared| declared.late);
        let mut problems = self::problems(&moment, schema, &prompt);
        if rest {
            let late = self::problems(&moment, schema, &late);
            tries -= 1;
            if problems.is_empty() && !late.is_empty() && tries > 0 {
                continue;
            }
            problems.extend(late);
        }
        moment.ready = ready.iter().map(|declared| declared.name).collect();
        return (problems, Some(moment));
    }
}

/// The problems in the data of one time.
pub(crate) fn problems(moment: &Moment, schema: &Schema, declared: &[&Declared]) -> Vec<String> {
    let mut problems = Vec::new();
    for declared in declared {
        let mut wrong = |what: String| problems.push(format!("{}: {what}", declared.name));
        match declared.kind {
            Kind::Fold => folds(moment, declared, &mut wrong),
            Kind::Groups => groups(moment, declared, &mut wrong),
            Kind::Copies => copies(moment, declared, (schema.p, "copy"), &mut wrong),
            Kind::Coded => copies(moment, declared, ("pc", "coded"), &mut wrong),
            Kind::Items => items(moment, declared, &mut wrong),
            // `frozen` compares these between two times.
            Kind::Frozen => {}
            Kind::Top => tops(moment, schema, declared, &mut wrong),
            Kind::Elements => elements(moment, declared, &mut wrong),
            Kind::Same => {
                for child in &moment.children {
                    let twice = child.x.map(|x| 2.0 * x);
                    let found = Path::new("d.twice").get(child.doc.as_doc());
                    let four = Path::new("d.four").get(child.doc.as_doc());
                    let right = four.as_f64() == twice.map(|x| 2.0 * x) && !four.is_missing();
                    if found.as_f64() != twice || found.is_missing() || !right {
                        wrong(format!("{:?}, expected {twice:?}", child.doc));
                    }
                }
            }
            Kind::Chain => {
                for parent in &moment.parents {
                    let per = real(parent.as_doc(), "f.n").map(|n| n + 1.0);
                    let found = Path::new("per").get(parent.as_doc());
                    if found.as_f64() != per || found.is_missing() {
                        wrong(format!("{parent:?}, expected {per:?}"));
                    }
                }
            }
            Kind::GroupChain => sets(moment, &mut wrong),
            Kind::CopyChain => copied(moment, &mut wrong),
            Kind::Tree => nodes::check(moment, declared, &mut wrong),
        }
    }
    problems
}

/// Whether a pattern counts a child.
fn counts(declared: &Declared, child: &Child) -> bool {
    (child.ok == Some(true) || !declared.only_ok) && (child.recent || !declared.windowed)
}

/// The children of a parent that count, largest `x` first, then by `_id`.
fn of_parent<'m>(moment: &'m Moment, declared: &Declared, parent: i64) -> Vec<&'m Child> {
    let counts = |child: &&Child| counts(declared, child);
    let mut all: Vec<&Child> = moment
        .children
        .iter()
        .filter(|child| child.parents.contains(&parent))
        .filter(counts)
        .collect();
    // None is below every number.
    all.sort_by(|a, b| {
        let x = |child: &Child| child.x.unwrap_or(f64::NEG_INFINITY);
        x(b).total_cmp(&x(a)).then(a.id.cmp(&b.id))
    });
    all
}

fn folds(moment: &Moment, declared: &Declared, wrong: &mut dyn FnMut(String)) {
    for parent in &moment.parents {
        let children = of_parent(moment, declared, id_of(parent));
        for field in declared.fields.iter().map(|at| &accumulators::ALL[*at]) {
            let expected = (field.of)(&children);
            let found = Path::new(&format!("f.{}", field.name)).get(parent.as_doc());
            if !expected.is(found) {
                let ids: Vec<i64> = children.iter().map(|child| child.id).collect();
                wrong(format!(
                    "{} of {parent:?}: expected {expected:?} of children {ids:?}",
                    field.name
                ));
            }
        }
    }
}

fn groups(moment: &Moment, declared: &Declared, wrong: &mut dyn FnMut(String)) {
    type Totals = BTreeMap<String, (i64, f64, Option<f64>)>;
    let key = |k: Option<i64>, ok: Option<bool>| match declared.second {
        true => format!("{k:?} {ok:?}"),
        false => format!("{k:?}"),
    };
    let mut expected = Totals::new();
    for child in moment.children.iter().filter(|child| counts(declared, child)) {
        let group = expected.entry(key(child.k, child.ok)).or_default();
        let hi = [group.2, child.x].into_iter().flatten().reduce(f64::max);
        *group = (group.0 + 1, group.1 + child.x.unwrap_or(0.0), hi);
    }
    let found: Totals = moment
        .groups
        .iter()
        .map(|group| {
            let doc = group.as_doc();
            let ok = match Path::new("_id.ok").get(doc) {
                Val::Bool(ok) => Some(ok),
                _ => None,
            };
            let key = key(whole(doc, if declared.second { "_id.k" } else { "_id" }), ok);
            let n = whole(doc, "n").unwrap_or(-1);
            (key, (n, real(doc, "s").unwrap_or(f64::NAN), real(doc, "hi")))
        })
        .collect();
    if found != expected || found.len() != moment.groups.len() {
        wrong(format!("{found:?}, expected {expected:?}"));
    }
}

/// Groups of groups: the large ones and the others.
fn sets(moment: &Moment, wrong: &mut dyn FnMut(String)) {
    let mut expected: BTreeMap<bool, (i64, f64)> = BTreeMap::new();
    for group in &moment.groups {
        let large = whole(group.as_doc(), "n").is_some_and(|n| n >= 2);
        let set = expected.entry(large).or_default();
        *set = (set.0 + 1, set.1 + real(group.as_doc(), "s").unwrap_or(0.0));
    }
    let found: BTreeMap<bool, (i64, f64)> = moment
        .sets
        .iter()
        .map(|set| {
            let (doc, large) = (set.as_doc(), set.as_doc().get("_id") == Some(Val::Bool(true)));
            let sum = real(doc, "s").unwrap_or(f64::NAN);
            (large, (whole(doc, "sets").unwrap_or(-1), sum))
        })
        .collect();
    if found != expected {
        wrong(format!("{found:?}, expected {expected:?} of {:?}", moment.groups));
    }
}

/// What is copied of the parent that a reference names, by `_id` or by `code`.
fn source(
    moment: &Moment,
    declared: &Declared,
    reference: i64,
) -> Option<(Option<i64>, Option<i64>)> {
    let by = if declared.kind == Kind::Coded { "code" } else { "_id" };
    let found =
        moment.parents.iter().find(|doc| whole(doc.as_doc(), by) == Some(reference))?.as_doc();
    let get = |name| found.get(name).and_then(Val::as_i64_exact);
    let region = if declared.kind == Kind::Copies { get("region") } else { None };
    Some((get("name"), region))
}

fn is_right(
    moment: &Moment,
    declared: &Declared,
    reference: Option<i64>,
    held: RawDoc<'_>,
) -> bool {
    let get = |name| held.get(name).and_then(Val::as_i64_exact);
    let held = (get("name"), get("where"));
    match reference.map(|reference| source(moment, declared, reference)) {
        None => held == (None, None),
        Some(Some(copy)) => held == copy,
        // The copies of a parent that went may stay.
        Some(None) => declared.on_delete == "keep" || held == (None, None),
    }
}

fn copies(
    moment: &Moment,
    declared: &Declared,
    (reference, into): (&str, &str),
    wrong: &mut dyn FnMut(String),
) {
    let (reference, into) = (Path::new(reference), Path::new(into));
    for child in &moment.children {
        let doc = child.doc.as_doc();
        let held = into.get(doc);
        let right = match reference.get(doc) {
            Val::Array(list) => {
                let copies = held.as_array().unwrap_or(RawDoc::empty());
                list.iter().count() == copies.iter().count()
                    && list.iter().zip(copies.iter()).all(|((_, p), (_, copy))| {
                        let copy = copy.as_doc().unwrap_or(RawDoc::empty());
                        is_right(moment, declared, p.get().as_i64_exact(), copy)
                    })
            }
            p => {
                let copy = held.as_doc().unwrap_or(RawDoc::empty());
                is_right(moment, declared, p.as_i64_exact(), copy)
            }
        };
        if !right {
            wrong(format!("{:?}, parents {:?}", child.doc, moment.parents));
        }
    }
}

fn items(moment: &Moment, declared: &Declared, wrong: &mut dyn FnMut(String)) {
    for child in &moment.children {
        let list = child.doc.as_doc().get("items").and_then(Val::as_array);
        for item in list.unwrap_or(RawDoc::empty()).iter().filter_map(|(_, item)| item.as_doc()) {
            let held = item.get("info").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
            let q = item.get("q").and_then(Val::as_i64_exact);
            if !is_right(moment, declared, q, held) {
                wrong(format!("{:?}, parents {:?}", child.doc, moment.parents));
            }
        }
    }
}

/// A fold over the elements of an array.
fn elements(moment: &Moment, declared: &Declared, wrong: &mut dyn FnMut(String)) {
    for parent in &moment.parents {
        let (mut n, mut sum, mut most) = (0, 0, None);
        for child in moment.children.iter().filter(|child| counts(declared, child)) {
            let items: Vec<RawDoc<'_>> = match child.doc.as_doc().get("items") {
                Some(Val::Array(list)) => {
                    list.iter().filter_map(|(_, item)| item.as_doc()).collect()
                }
                Some(Val::Document(item)) => vec![item],
                _ => Vec::new(),
            };
            for item in items.iter().filter(|item| whole(**item, "q") == Some(id_of(parent))) {
                let number = whole(*item, "n");
                n += 1;
                sum += number.unwrap_or(0);
                most = most.max(number);
            }
        }
        let found = ["e.n", "e.s", "e.hi"].map(|path| whole(parent.as_doc(), path));
        if found != [Some(n), Some(sum), most] {
            wrong(format!("{parent:?}: expected {n}, {sum} and {most:?}"));
        }
    }
}

/// A fold over what is copied.
fn copied(moment: &Moment, wrong: &mut dyn FnMut(String)) {
    for parent in &moment.parents {
        let (mut n, mut top) = (0, None);
        for child in moment.children.iter().filter(|c| c.parents.contains(&id_of(parent))) {
            let copy = child.doc.as_doc().get("copy").unwrap_or(Val::Missing);
            let all: Vec<RawDoc<'_>> = match copy {
                Val::Document(copy) => vec![copy],
                Val::Array(list) => list.iter().filter_map(|(_, copy)| copy.as_doc()).collect(),
                _ => Vec::new(),
            };
            if all.iter().any(|copy| whole(*copy, "where").is_some_and(|place| place >= 2)) {
                n += 1;
                // Of copies in a row `$copy.name` is an array, which is above every number.
                if let Val::Document(copy) = copy {
                    top = top.max(whole(copy, "name"));
                }
            }
        }
        let found = Path::new("w.top").get(parent.as_doc());
        let arrays = matches!(found, Val::Array(_));
        if whole(parent.as_doc(), "w.n") != Some(n) || (!arrays && found.as_i64_exact() != top) {
            wrong(format!("{parent:?}: expected {n} and {top:?}"));
        }
    }
}

fn tops(moment: &Moment, schema: &Schema, declared: &Declared, wrong: &mut dyn FnMut(String)) {
    for parent in &moment.parents {
        let mut children = of_parent(moment, declared, id_of(parent));
        if declared.second {
            children.sort_by_key(|child| child.k.map_or(i64::MIN, |k| k));
        }
        let expected: Vec<(i64, Option<f64>, Option<i64>)> = children
            .iter()
            .take(declared.limit)
            .map(|child| (child.id, child.x, child.k))
            .collect();
        let doc = parent.as_doc();
        let found: Option<Vec<_>> = doc.get("top").and_then(Val::as_array).map(|list| {
            let row = |row: RawDoc<'_>| {
                (whole(row, "_id").unwrap_or(-1), real(row, schema.x), whole(row, schema.k))
            };
            list.iter().filter_map(|(_, entry)| entry.as_doc()).map(row).collect()
        });
        // One that counted may have left its number, when it was dropped and its values were kept.
        let counted = !declared.counts() || whole(doc, "tops") == Some(children.len() as i64);
        if found.as_ref() != Some(&expected) || !counted {
            wrong(format!("{parent:?}: expected {expected:?}, {} children", children.len()));
        }
    }
}
