//! Copies that stay as they were when the reference was set. They are compared between two times,
//! while one client writes.

use crate::declarations::Declared;
use crate::model::{Child, Moment, id_of};
use crate::schema::Schema;
use value::path::Path;
use value::{RawDoc, Val};

/// References with what is copied beside them.
fn held(schema: &Schema, child: &Child) -> Vec<(Option<i64>, Option<i64>)> {
    let name = |copy: RawDoc<'_>| copy.get("name").and_then(Val::as_i64_exact);
    let copies = child.doc.as_doc().get("frozen").unwrap_or(Val::Missing);
    match Path::new(schema.p).get(child.doc.as_doc()) {
        Val::Array(list) => {
            let copies = copies.as_array().unwrap_or(RawDoc::empty());
            let copies = copies.iter().map(|(_, copy)| copy.as_doc().and_then(name));
            let copies = copies.chain(std::iter::repeat(None));
            list.iter().map(|(_, p)| p.get().as_i64_exact()).zip(copies).collect()
        }
        p => vec![(p.as_i64_exact(), copies.as_doc().and_then(name))],
    }
}

/// The problems between two times with one statement (`simple`) or a few in between.
pub(crate) fn check(
    schema: &Schema,
    declared: &Declared,
    (before, now): (&Moment, &Moment),
    simple: bool,
) -> Vec<String> {
    let name = |moment: &Moment, id: i64| {
        let parent = moment.parents.iter().find(|parent| id_of(parent) == id)?;
        Some(parent.as_doc().get("name").and_then(Val::as_i64_exact))
    };
    let mut problems = Vec::new();
    for child in &now.children {
        let old = before.children.iter().find(|old| old.id == child.id);
        // It may have expired in between, and come again.
        if old.is_some_and(|old| old.doc.as_doc().find("gone").is_some()) {
            continue;
        }
        let known = old.map_or(Vec::new(), |old| held(schema, old));
        for (reference, copy) in held(schema, child) {
            let Some(reference) = reference else {
                if copy.is_some() {
                    problems.push(format!("frozen: {:?} has a copy of nothing", child.doc));
                }
                continue;
            };
            let kept = known.iter().find(|(known, _)| *known == Some(reference));
            let (was, is) = (name(before, reference), name(now, reference));
            let went = was.is_some() && is.is_none();
            let mut allowed = Vec::new();
            match kept {
                Some(_) if went && declared.on_delete == "unset" => allowed.push(None),
                Some((_, kept)) => allowed.push(*kept),
                None => allowed.push(is.flatten()),
            }
            if !simple {
                // In between it may have been set anew, with any name that the parent had.
                allowed.extend([was.flatten(), is.flatten(), None]);
                if kept.is_none() || went || was != is {
                    continue;
                }
            }
            if !allowed.contains(&copy) {
                problems.push(format!(
                    "frozen: {:?}, expected one of {allowed:?} for {reference}; before {:?}",
                    child.doc,
                    old.map(|old| &old.doc)
                ));
            }
        }
    }
    problems
}
