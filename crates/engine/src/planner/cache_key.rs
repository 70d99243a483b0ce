//! The shape of a query, and the key under which its plan is cached. The key also depends on those
//! indexes that serve some queries of a shape and not others.

use super::{Access, Candidate, Plan, Question, cover};
use crate::catalog::{Collection, Index, IndexKind, IndexState};
use crate::plan_cache::Described;
use crate::plan_cache::shape::{self, Rest};
use crate::report::ShapeHashes;
use query::filter::{Conditions, Filter, Node};
use std::hash::{BuildHasher, Hasher};
use value::{DocBuf, Val};

impl Question<'_> {
    /// The hash of the shape of the query.
    #[must_use]
    pub fn shape(&self) -> u64 {
        self.shape_of(self.filter.root())
    }

    /// The same for one branch of the filter.
    pub(super) fn shape_of(&self, node: &Node) -> u64 {
        shape::of(node, &self.rest())
    }

    /// The parts of the query besides its filter.
    pub(super) fn rest(&self) -> Rest<'_> {
        let collation = self.filter.collation().map(|collation| &**collation);
        Rest { sort: self.sort, projection: self.projection, collation }
    }

    /// The query and the plan of a branch, as `$planCacheStats` shows them.
    pub(super) fn described(
        &self,
        node: &Node,
        chosen: &Candidate,
        found: &[Candidate],
    ) -> Described {
        let serves = |index: &Index| found.iter().any(|candidate| candidate.index.id == index.id);
        let key = plan_key(self.collection, self.shape_of(node), node, serves, true);
        let whole = std::ptr::eq(node, self.filter.root());
        let query = match self.written.filter(|_| whole) {
            Some(written) => DocBuf::from(written),
            None => DocBuf::build(|out| node.explain_without(Conditions::default(), out)),
        };
        let sort = DocBuf::build(|out| {
            for field in self.sort.map_or(&[][..], |sort| sort.fields.as_slice()) {
                out.i32(field.path.text(), if field.descending { -1 } else { 1 });
            }
        });
        let collation = self.filter.collation().map(|known| DocBuf::from(known.document()));
        let plan = DocBuf::build(|out| super::explain::write_candidate(out, self, chosen));
        let plan = match plan.as_doc().get("plan") {
            Some(Val::Document(tree)) => DocBuf::from(tree),
            _ => DocBuf::new(),
        };
        let projection = self.projection.map_or_else(DocBuf::new, DocBuf::from);
        Described { key, query, sort, projection, collation, plan }
    }
}

/// The hashes that explain and the profile show for a query with this plan.
#[must_use]
pub fn hashes(
    collection: Option<&Collection>,
    filter: &Filter,
    rest: &Rest<'_>,
    plan: &Plan,
) -> ShapeHashes {
    let query = shape::of(filter.root(), rest);
    let serves = |index: &Index| {
        let reads = |access: &Access| match access {
            Access::Index(candidate) => candidate.index.id == index.id,
            Access::Either(either) => either.branches.iter().any(|b| b.index.id == index.id),
            _ => false,
        };
        reads(&plan.access) || plan.rejected.iter().any(reads)
    };
    let key = collection.map(|known| plan_key(known, query, filter.root(), serves, true));
    ShapeHashes { query, key: key.or(Some(query)) }
}

/// A key that depends on the shape of a query, or of a branch of it, and on which indexes can serve
/// it, as `serves` says. The plan cache, which notices new indexes itself, needs only those that
/// serve some queries of a shape and not others; clients see the key of `all`.
pub(super) fn plan_key(
    collection: &Collection,
    shape: u64,
    node: &Node,
    serves: impl Fn(&Index) -> bool,
    all: bool,
) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    hasher.write_u64(shape);
    let mut paths = None;
    for index in &collection.indexes {
        let ready = index.state == IndexState::Ready && !index.hidden && !index.is_clustered();
        if !ready || !(all || depends_on_values(collection, index)) {
            continue;
        }
        let paths = paths.get_or_insert_with(|| {
            let mut paths = Vec::new();
            cover::paths(node, &mut paths);
            paths
        });
        let concerns = matches!(index.kind, IndexKind::Wildcard(_))
            || index.fields.iter().any(|f| paths.iter().any(|path| path == f.path.text()));
        if concerns {
            hasher.write_u8(u8::from(serves(index)));
        }
    }
    hasher.finish()
}

/// Whether an index may serve one query of a shape and not another.
fn depends_on_values(collection: &Collection, index: &Index) -> bool {
    index.sparse
        || index.partial.is_some()
        || index.collation != collection.collation
        || matches!(index.kind, IndexKind::Wildcard(_))
}
