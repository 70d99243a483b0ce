//! Plain recomputation of trees.

use crate::declarations::Declared;
use crate::model::{Moment, id_of, whole};
use std::collections::BTreeMap;
use value::{DocBuf, Val};

fn text(node: &DocBuf, name: &str) -> Option<String> {
    node.as_doc().get(name).and_then(Val::as_str).map(str::to_owned)
}

/// What is wrong with the nodes.
pub(crate) fn check(moment: &Moment, declared: &Declared, wrong: &mut dyn FnMut(String)) {
    let find = |id: i64| moment.nodes.iter().find(|node| id_of(node) == id);
    let mut whole_ones: Vec<(&DocBuf, Vec<i64>)> = Vec::new();
    for node in &moment.nodes {
        let label = |node: &DocBuf| text(node, "label").unwrap_or_default();
        let mut chain: Vec<i64> = Vec::new();
        let mut path = format!("{},", label(node));
        let mut next = whole(node.as_doc(), "parent");
        let mut is_whole = true;
        while let Some(id) = next {
            if chain.len() > moment.nodes.len() {
                return wrong(format!("{node:?} is in a cycle"));
            }
            chain.insert(0, id);
            let Some(parent) = find(id) else {
                is_whole = false;
                break;
            };
            if declared.second && whole(parent.as_doc(), "shop") != whole(node.as_doc(), "shop") {
                wrong(format!("{node:?} is below {parent:?} of another tree"));
            }
            path = format!("{},{path}", label(parent));
            next = whole(parent.as_doc(), "parent");
        }
        let doc = node.as_doc();
        let up: Option<Vec<i64>> = doc
            .get("up")
            .and_then(Val::as_array)
            .map(|list| list.iter().filter_map(|(_, id)| id.get().as_i64_exact()).collect());
        let found = (up, whole(doc, "d"), text(node, "path"));
        let depth = chain.len() as i64;
        let expected = match is_whole {
            true => (Some(chain.clone()), Some(depth), Some(format!(",{path}"))),
            false => (None, None, None),
        };
        if found != expected {
            wrong(format!("{node:?}, expected {expected:?}"));
        }
        if is_whole {
            whole_ones.push((node, chain));
        } else if doc.get("lft").is_some() || doc.get("rgt").is_some() {
            wrong(format!("{node:?} awaits a parent"));
        }
    }
    counts(moment, &whole_ones, wrong);
    let mut trees: BTreeMap<Option<i64>, Vec<(&DocBuf, Vec<i64>)>> = BTreeMap::new();
    for one in whole_ones {
        // Labels tell the nodes of all trees apart, numbers those of each.
        let scope = whole(one.0.as_doc(), "shop").filter(|_| declared.second && declared.dense);
        trees.entry(scope).or_default().push(one);
    }
    for nodes in trees.values() {
        nesting(nodes, declared.dense, wrong);
    }
}

fn counts(moment: &Moment, whole_ones: &[(&DocBuf, Vec<i64>)], wrong: &mut dyn FnMut(String)) {
    for (node, _) in whole_ones {
        let id = id_of(node);
        let parent = |other: &&DocBuf| whole(other.as_doc(), "parent") == Some(id);
        let kids = moment.nodes.iter().filter(parent).count() as i64;
        let below = whole_ones.iter().filter(|(_, chain)| chain.contains(&id)).count() as i64;
        let found = (whole(node.as_doc(), "kids"), whole(node.as_doc(), "below"));
        if found != (Some(kids), Some(below)) {
            wrong(format!("{node:?}, expected {kids} children, {below} below"));
        }
    }
}

fn nesting(whole_ones: &[(&DocBuf, Vec<i64>)], dense: bool, wrong: &mut dyn FnMut(String)) {
    let end = |node: &DocBuf, name| match dense {
        true => whole(node.as_doc(), name).map(|number| format!("{number:06}")),
        false => text(node, name),
    };
    let ends = whole_ones.iter().flat_map(|(node, _)| [end(node, "lft"), end(node, "rgt")]);
    let mut ends: Vec<Option<String>> = ends.collect();
    ends.sort();
    let numbers = (1..=ends.len()).map(|number| Some(format!("{number:06}")));
    if dense && !ends.iter().cloned().eq(numbers) {
        wrong(format!("the numbers of a tree are {ends:?}"));
    }
    for (over, chain) in whole_ones {
        for (other, others) in whole_ones.iter().filter(|(other, _)| id_of(other) != id_of(over)) {
            let inside =
                end(over, "lft") < end(other, "lft") && end(other, "rgt") < end(over, "rgt");
            if inside != others.contains(&id_of(over)) {
                wrong(format!("{other:?} inside of {over:?}: {inside}"));
            }
            // Siblings stand in their order.
            let place = |node: &DocBuf| (whole(node.as_doc(), "at"), id_of(node));
            let before = end(over, "lft") < end(other, "lft");
            if chain == others && before != (place(over) < place(other)) {
                wrong(format!("{over:?} before {other:?}: {before}"));
            }
        }
    }
}
