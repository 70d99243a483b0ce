//! The numbers of children and descendants of nodes. Each node has an internal record: its parent,
//! whether the node exists, and both counts. When a document changes, its node is removed from its
//! old position with all descendants, and added at the new one.

use crate::documents::Documents;
use crate::pattern::Pattern;
use std::collections::BTreeMap;
use value::{DocBuf, OwnedVal, Result, Val, keys};

/// The counts of one node.
#[derive(Default)]
pub(super) struct Counted {
    parent: Option<OwnedVal>,
    exists: bool,
    pub(super) children: i64,
    pub(super) descendants: i64,
}

/// The position of a node: `None` if it does not exist, else its parent, if it has one.
pub(super) type NodePosition = Option<Option<OwnedVal>>;

const NODE: u8 = 5;

fn record_key(encoded: &[u8]) -> Vec<u8> {
    [&[NODE], encoded].concat()
}

/// Returns the counts of a node.
pub(super) fn of(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    encoded: &[u8],
) -> Result<Counted> {
    let Some(doc) = documents.state(pattern.id, &record_key(encoded))? else {
        return Ok(Counted::default());
    };
    let doc = doc.as_doc();
    let number = |name| doc.get(name).and_then(Val::as_i64_exact).unwrap_or(0);
    Ok(Counted {
        parent: doc.get("p").map(OwnedVal::new),
        exists: doc.get("e").is_some_and(Val::truthy),
        children: number("c"),
        descendants: number("d"),
    })
}

fn keep(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    encoded: &[u8],
    counted: &Counted,
) -> Result<()> {
    let needed = counted.exists || counted.children != 0 || counted.descendants != 0;
    let record = needed.then(|| {
        DocBuf::build(|out| {
            if let Some(parent) = &counted.parent {
                out.raw("p", parent.raw());
            }
            out.bool("e", counted.exists);
            out.i64("c", counted.children).i64("d", counted.descendants);
        })
    });
    documents.set_state(pattern.id, &record_key(encoded), record)
}

/// Updates the records of changed nodes. Adds the nodes whose counts changed.
pub(super) fn update(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    nodes: &[(Vec<u8>, NodePosition)],
    touched: &mut BTreeMap<Vec<u8>, OwnedVal>,
) -> Result<()> {
    let mut moved = Vec::new();
    // All removals come before the first addition, so that no cycle can exist in between.
    for (encoded, position) in nodes {
        let mut counted = of(pattern, documents, encoded)?;
        let place = |parent: &Option<OwnedVal>| parent.as_ref().map(|p| keys::key(p.get()));
        let stays = match position {
            Some(parent) => counted.exists && place(parent) == place(&counted.parent),
            None => !counted.exists,
        };
        if stays {
            continue;
        }
        if counted.exists {
            let parent = counted.parent.take();
            add(pattern, documents, parent, -1 - counted.descendants, touched)?;
            counted.exists = false;
            keep(pattern, documents, encoded, &counted)?;
        }
        moved.push((encoded, position));
    }
    for (encoded, position) in moved {
        let Some(parent) = position else { continue };
        let mut counted = of(pattern, documents, encoded)?;
        counted.exists = true;
        counted.parent.clone_from(parent);
        keep(pattern, documents, encoded, &counted)?;
        add(pattern, documents, parent.clone(), 1 + counted.descendants, touched)?;
    }
    Ok(())
}

/// Adds nodes to the counts of all ancestors, up to the root or to one that does not exist yet.
fn add(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    parent: Option<OwnedVal>,
    nodes: i64,
    touched: &mut BTreeMap<Vec<u8>, OwnedVal>,
) -> Result<()> {
    let mut next = parent;
    let mut children = nodes.signum();
    // The depth of a node is limited when it is written; this limit is for damaged records.
    for _ in 0..=super::DEPTH_MAX {
        let Some(id) = next else { break };
        let encoded = keys::key(id.get());
        let mut counted = of(pattern, documents, &encoded)?;
        counted.children += children;
        counted.descendants += nodes;
        keep(pattern, documents, &encoded, &counted)?;
        children = 0;
        next = counted.parent.filter(|_| counted.exists);
        touched.insert(encoded, id);
    }
    Ok(())
}
