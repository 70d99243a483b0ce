//! Plain recomputation: what documents should hold, from what clients wrote into them.

use crate::declarations::{self, Declared, Kind};
use crate::session::Session;
use std::collections::BTreeMap;
use value::path::Path;
use value::{DocBuf, RawDoc, Val};

/// All documents at one moment.
struct Moment {
    parents: Vec<DocBuf>,
    children: Vec<Child>,
    groups: Vec<DocBuf>,
    nodes: Vec<DocBuf>,
}

struct Child {
    doc: DocBuf,
    id: i64,
    /// The parents that it belongs to, each once.
    parents: Vec<i64>,
    x: Option<f64>,
    k: Option<i64>,
    ok: bool,
}

fn whole(doc: RawDoc<'_>, path: &str) -> Option<i64> {
    Path::new(path).get(doc).as_i64_exact()
}

fn real(doc: RawDoc<'_>, path: &str) -> Option<f64> {
    Path::new(path).get(doc).as_f64()
}

fn id_of(doc: &DocBuf) -> i64 {
    whole(doc.as_doc(), "_id").expect("ids are numbers")
}

fn child(doc: DocBuf) -> Child {
    let raw = doc.as_doc();
    let mut parents: Vec<i64> = match raw.get("p") {
        Some(Val::Array(list)) => list.iter().filter_map(|(_, p)| p.get().as_i64_exact()).collect(),
        Some(one) => one.as_i64_exact().into_iter().collect(),
        None => Vec::new(),
    };
    parents.sort_unstable();
    parents.dedup();
    let ok = raw.get("ok") == Some(Val::Bool(true));
    let (id, x, k) = (id_of(&doc), real(raw, "x"), whole(raw, "k"));
    Child { id, parents, x, k, ok, doc }
}

/// What is wrong, in words. `rest` when nobody writes: then all that follows later has to be there.
pub(crate) fn check(session: &mut Session, declared: &[Declared], rest: bool) -> Vec<String> {
    let Some(states) = declarations::states(session) else { return Vec::new() };
    let failed = states.iter().any(|(name, state)| state == "failed" && name != "tree");
    assert!(!failed, "{states:?}");
    if rest {
        for collection in ["parents", "children", "g"] {
            let fresh = "readConcern: {patterns: 'fresh'}";
            session.must(&format!("{{find: '{collection}', limit: 1, {fresh}}}"));
        }
    }
    session.begin();
    let moment = (|| {
        Some(Moment {
            parents: session.all("parents", "")?,
            children: session.all("children", "")?.into_iter().map(child).collect(),
            groups: session.all("g", "")?,
            nodes: session.all("nodes", "")?,
        })
    })();
    session.end(false);
    let Some(moment) = moment else { return Vec::new() };
    let mut problems = Vec::new();
    for declared in declared {
        let ready = states.iter().any(|(name, state)| name == declared.name && state == "ready");
        if !ready || declared.suspended || (declared.late && !rest) {
            continue;
        }
        let mut wrong = |what: String| problems.push(format!("{}: {what}", declared.name));
        match declared.kind {
            Kind::Fold => folds(&moment, declared, &mut wrong),
            Kind::Groups => groups(&moment, declared, &mut wrong),
            Kind::Copies => copies(&moment, declared, &mut wrong),
            Kind::Top => tops(&moment, declared, &mut wrong),
            Kind::Same => {
                for child in &moment.children {
                    let twice = child.x.map(|x| 2.0 * x);
                    let found = Path::new("d.twice").get(child.doc.as_doc());
                    if found.as_f64() != twice || found.is_missing() {
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
            Kind::Tree => trees(&moment, &mut wrong),
        }
    }
    problems
}

fn of_parent<'m>(moment: &'m Moment, declared: &Declared, parent: i64) -> Vec<&'m Child> {
    let counts = |child: &&Child| child.ok || !declared.only_ok;
    let mut all: Vec<&Child> = moment
        .children
        .iter()
        .filter(|child| child.parents.contains(&parent))
        .filter(counts)
        .collect();
    // Largest `x` first; none is below every number.
    all.sort_by(|a, b| {
        let x = |child: &Child| child.x.unwrap_or(f64::NEG_INFINITY);
        x(b).total_cmp(&x(a)).then(a.id.cmp(&b.id))
    });
    all
}

fn folds(moment: &Moment, declared: &Declared, wrong: &mut dyn FnMut(String)) {
    for parent in &moment.parents {
        let doc = parent.as_doc();
        let children = of_parent(moment, declared, id_of(parent));
        let xs: Vec<f64> = children.iter().filter_map(|child| child.x).collect();
        let sum: f64 = xs.iter().sum();
        let best: Vec<i64> = children.iter().take(2).map(|child| child.id).collect();
        let mut ks: Vec<i64> = children.iter().filter_map(|child| child.k).collect();
        ks.sort_unstable();
        ks.dedup();
        let list = |path: &str| -> Option<Vec<i64>> {
            let list = Path::new(path).get(doc).as_array()?;
            Some(list.iter().filter_map(|(_, v)| v.get().as_i64_exact()).collect())
        };
        let mut found_ks = list("f.ks");
        found_ks.iter_mut().for_each(|ks| ks.sort_unstable());
        let right = whole(doc, "f.n") == Some(children.len() as i64)
            && real(doc, "f.s") == Some(sum)
            && real(doc, "f.lo") == xs.iter().copied().reduce(f64::min)
            && real(doc, "f.hi") == xs.iter().copied().reduce(f64::max)
            && list("f.best") == Some(best.clone())
            && found_ks == Some(ks.clone());
        if !right {
            let n = children.len();
            wrong(format!(
                "{parent:?}: expected n {n}, s {sum}, best {best:?}, ks {ks:?}, xs {xs:?}"
            ));
        }
    }
}

fn groups(moment: &Moment, declared: &Declared, wrong: &mut dyn FnMut(String)) {
    let mut expected: BTreeMap<Option<i64>, (i64, f64)> = BTreeMap::new();
    for child in moment.children.iter().filter(|child| child.ok || !declared.only_ok) {
        let group = expected.entry(child.k).or_default();
        *group = (group.0 + 1, group.1 + child.x.unwrap_or(0.0));
    }
    let found: BTreeMap<Option<i64>, (i64, f64)> = moment
        .groups
        .iter()
        .map(|group| {
            let doc = group.as_doc();
            let n = whole(doc, "n").unwrap_or(-1);
            (whole(doc, "_id"), (n, real(doc, "s").unwrap_or(f64::NAN)))
        })
        .collect();
    if found != expected {
        wrong(format!("{found:?}, expected {expected:?}"));
    }
}

fn copies(moment: &Moment, declared: &Declared, wrong: &mut dyn FnMut(String)) {
    let copy = |parent: i64| {
        let found = moment.parents.iter().find(|doc| id_of(doc) == parent)?;
        let get =
            |name| found.as_doc().get(name).filter(|v| !v.is_nullish()).and_then(Val::as_i64_exact);
        Some((get("name"), get("region")))
    };
    let held = |doc: RawDoc<'_>| {
        let get = |name| doc.get(name).and_then(Val::as_i64_exact);
        (get("name"), get("where"))
    };
    let is_right = |parent: Option<i64>, held: (Option<i64>, Option<i64>)| match parent.map(copy) {
        None => held == (None, None),
        Some(Some(copy)) => held == copy,
        // The copies of a parent that went may stay.
        Some(None) => declared.on_delete == "keep" || held == (None, None),
    };
    for child in &moment.children {
        let doc = child.doc.as_doc();
        let right = match doc.get("p") {
            Some(Val::Array(list)) => {
                let copies = doc.get("copy").and_then(Val::as_array).unwrap_or(RawDoc::empty());
                list.iter().count() == copies.iter().count()
                    && list.iter().zip(copies.iter()).all(|((_, p), (_, copy))| {
                        is_right(
                            p.get().as_i64_exact(),
                            held(copy.as_doc().unwrap_or(RawDoc::empty())),
                        )
                    })
            }
            p => {
                let copy = doc.get("copy").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
                is_right(p.and_then(Val::as_i64_exact), held(copy))
            }
        };
        if !right {
            wrong(format!("{:?}, parents {:?}", child.doc, moment.parents));
        }
    }
}

fn tops(moment: &Moment, declared: &Declared, wrong: &mut dyn FnMut(String)) {
    for parent in &moment.parents {
        let children = of_parent(moment, declared, id_of(parent));
        let expected: Vec<(i64, Option<f64>, Option<i64>)> =
            children.iter().take(3).map(|child| (child.id, child.x, child.k)).collect();
        let doc = parent.as_doc();
        let found: Option<Vec<_>> = doc.get("top").and_then(Val::as_array).map(|list| {
            let row = |row: RawDoc<'_>| {
                (whole(row, "_id").unwrap_or(-1), real(row, "x"), whole(row, "k"))
            };
            list.iter().filter_map(|(_, entry)| entry.as_doc()).map(row).collect()
        });
        let count = whole(doc, "tops");
        if found.as_ref() != Some(&expected) || count != Some(children.len() as i64) {
            wrong(format!("{parent:?}: expected {expected:?}, {} children", children.len()));
        }
    }
}

fn trees(moment: &Moment, wrong: &mut dyn FnMut(String)) {
    let find = |id: i64| moment.nodes.iter().find(|node| id_of(node) == id);
    let label =
        |node: &DocBuf| node.as_doc().get("label").and_then(Val::as_str).unwrap_or("?").to_owned();
    for node in &moment.nodes {
        let mut chain: Vec<i64> = Vec::new();
        let mut path = format!("{},", label(node));
        let mut next = whole(node.as_doc(), "parent");
        let mut whole_chain = true;
        while let Some(id) = next {
            if chain.len() > moment.nodes.len() {
                wrong(format!("{node:?} is in a cycle"));
                return;
            }
            chain.insert(0, id);
            match find(id) {
                Some(parent) => {
                    path = format!("{},{path}", label(parent));
                    next = whole(parent.as_doc(), "parent");
                }
                None => {
                    whole_chain = false;
                    break;
                }
            }
        }
        let doc = node.as_doc();
        let up: Option<Vec<i64>> = doc
            .get("up")
            .and_then(Val::as_array)
            .map(|list| list.iter().filter_map(|(_, id)| id.get().as_i64_exact()).collect());
        let found = (up, whole(doc, "d"), doc.get("path").and_then(Val::as_str).map(str::to_owned));
        let depth = chain.len() as i64;
        let expected = match whole_chain {
            true => (Some(chain), Some(depth), Some(format!(",{path}"))),
            false => (None, None, None),
        };
        if found != expected {
            wrong(format!("{node:?}, expected {expected:?}"));
        }
    }
}
