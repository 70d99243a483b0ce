//! Filters: whether a document matches.
//!
//! `parse` compiles what the client wrote into `node`s, with the operators of `operators`;
//! `walk` finds the values that a path means, `matches` tests them, `matcher` does it for document
//! after document; `schema` is `$jsonSchema`;
//! `explain` prints a filter as MongoDB's explain shows it.

mod bits;
mod collated;
mod explain;
mod matcher;
mod matches;
pub mod node;
mod operators;
mod parse;
mod position;
mod schema;
mod special;
mod types;
mod walk;

pub use collated::Collated;
pub use matcher::Matcher;
pub use node::{Bits, BitsPredicate, ExprNode, Leaf, Node, Test};
pub use operators::{Operator, operators};
pub use schema::Schema;
pub use types::TypeSet;

use crate::ParseContext;
use parse::{Nesting, Parser};
use std::sync::Arc;
use value::{Collation, RawDoc, RawVal, Result, Writer};

/// A filter, compiled once and run on many documents.
#[derive(Debug)]
pub struct Filter {
    root: Arc<Node>,
    collation: Option<Arc<Collation>>,
    /// The conditions that are not tested, because the index scan has tested them.
    left_out: Conditions,
}

impl Filter {
    fn new(root: Node, context: &ParseContext<'_>) -> Filter {
        let collation = context.collation.cloned();
        Filter { root: Arc::new(root), collation, left_out: Conditions::default() }
    }

    /// Compiles a filter document.
    ///
    /// # Errors
    /// What MongoDB answers to a filter that it cannot parse.
    pub fn parse(doc: RawDoc<'_>, context: &ParseContext<'_>) -> Result<Filter> {
        let root = Parser { context }.document(doc, Nesting::TOP)?;
        special::check(&root)?;
        Ok(Filter::new(root, context))
    }

    /// Compiles a filter that is run on given documents, not used to look for some: in
    /// validators, partial indexes and updates.
    ///
    /// # Errors
    /// As `parse`, and where only an index could find documents: `$near` and `$text`.
    pub fn parse_for_documents(doc: RawDoc<'_>, context: &ParseContext<'_>) -> Result<Filter> {
        let filter = Filter::parse(doc, context)?;
        special::refuse(&filter.root)?;
        Ok(filter)
    }

    /// Whether a document matches.
    ///
    /// # Errors
    /// What an expression in `$expr` or a pattern that runs too long gives.
    pub fn matches(&self, doc: RawDoc<'_>) -> Result<bool> {
        if self.left_out.is_empty() {
            return self.root.matches(doc, &mut None);
        }
        for node in self.left() {
            if !node.matches(doc, &mut None)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether a document matches, and sets the array position that the positional `$` of
    /// an update refers to.
    ///
    /// # Errors
    /// As `matches`.
    pub fn matches_at(&self, doc: RawDoc<'_>, position: &mut Option<usize>) -> Result<bool> {
        self.search(doc, position, false)
    }

    /// The same for the positional `$` of a projection.
    ///
    /// # Errors
    /// As `matches`.
    pub fn matches_for_projection(
        &self,
        doc: RawDoc<'_>,
        position: &mut Option<usize>,
    ) -> Result<bool> {
        self.search(doc, position, true)
    }

    fn search(
        &self,
        doc: RawDoc<'_>,
        position: &mut Option<usize>,
        as_written: bool,
    ) -> Result<bool> {
        let mut search = position::PositionSearch::new(as_written);
        for node in self.left() {
            if !search.matches(node, doc)? {
                return Ok(false);
            }
        }
        *position = search.position();
        Ok(true)
    }

    /// Whether this is `{}`, which matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left().next().is_none()
    }

    /// The same filter without some of its conditions.
    #[must_use]
    pub fn without(&self, conditions: Conditions) -> Filter {
        let left_out = Conditions(self.left_out.0 | conditions.0);
        Filter { root: self.root.clone(), collation: self.collation.clone(), left_out }
    }

    /// Only some conditions of this filter.
    #[must_use]
    pub fn only(&self, conditions: Conditions) -> Filter {
        let mut others = Conditions::default();
        for at in 0..self.root.conditions().len() {
            if !conditions.contains(at) {
                others.add(at);
            }
        }
        self.without(others)
    }

    /// The conditions that are tested.
    fn left(&self) -> impl Iterator<Item = &Node> {
        self.remaining_with_positions().map(|(_, node)| node)
    }

    /// The same with their positions among all conditions.
    fn remaining_with_positions(&self) -> impl Iterator<Item = (usize, &Node)> {
        let all = self.root.conditions().iter().enumerate();
        all.filter(|(at, _)| !self.left_out.contains(*at))
    }

    /// Compiles the conditions of an `$elemMatch` on document elements, or an array filter.
    ///
    /// # Errors
    /// As `parse`.
    pub fn parse_element(doc: RawDoc<'_>, context: &ParseContext<'_>) -> Result<Filter> {
        let root = Parser { context }.document(doc, Nesting::TOP.in_element()?)?;
        special::refuse(&root)?;
        Ok(Filter::new(root, context))
    }

    /// The collation of text; `None` compares bytes.
    #[must_use]
    pub fn collation(&self) -> Option<&Arc<Collation>> {
        self.collation.as_ref()
    }

    /// The tree, for the planner.
    #[must_use]
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Appends the fields of `parsedQuery` in explain's shape.
    pub fn explain(&self, out: &mut Writer<'_>) {
        if self.left_out.is_empty() {
            return explain::node(&self.root, out);
        }
        explain::all(self.left(), out);
    }

    /// The branches of an `$or` that is the condition at this place, in the order in which MongoDB
    /// goes through them; nothing if it is another condition.
    #[must_use]
    pub fn branches(&self, at: usize) -> Vec<&Node> {
        match self.root.conditions().get(at) {
            Some(Node::Or(nodes)) => explain::in_order(nodes.iter()),
            _ => Vec::new(),
        }
    }
}

/// Some of the conditions that all must hold, by their places in `Node::conditions`. Those from
/// place 64 on cannot be named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions(u64);

impl Conditions {
    /// Whether it names none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds one; false if it cannot be named.
    pub fn add(&mut self, at: usize) -> bool {
        let bit = u32::try_from(at).ok().and_then(|at| 1_u64.checked_shl(at));
        self.0 |= bit.unwrap_or(0);
        bit.is_some()
    }

    /// Whether it names this one.
    #[must_use]
    pub fn contains(self, at: usize) -> bool {
        at < 64 && self.0 & (1 << at) != 0
    }

    /// Whether it names the first `count`, which are all.
    #[must_use]
    pub fn has_all(self, count: usize) -> bool {
        (0..count).all(|at| self.contains(at))
    }

    /// Those of either.
    #[must_use]
    pub fn and(self, other: Conditions) -> Conditions {
        Conditions(self.0 | other.0)
    }
}

impl Node {
    /// Appends explain's form of the conditions, except those that the caller names.
    pub fn explain_without(&self, left_out: Conditions, out: &mut Writer<'_>) {
        let all = self.conditions().iter().enumerate();
        explain::all(all.filter(|(at, _)| !left_out.contains(*at)).map(|(_, node)| node), out);
    }

    /// The conditions that must all hold: those of a conjunction, or else the node itself.
    #[must_use]
    pub fn conditions(&self) -> &[Node] {
        match self {
            Node::And(nodes) => nodes,
            node => std::slice::from_ref(node),
        }
    }
}

impl Test {
    /// Compiles the argument of an `$elemMatch` outside of filters: in projections and updates.
    ///
    /// # Errors
    /// As `Filter::parse`.
    pub fn parse_elem_match(doc: RawDoc<'_>, context: &ParseContext<'_>) -> Result<Test> {
        operators::elem_match_test(&Parser { context }, doc, Nesting::PROJECTION)
    }

    /// The first element of an array that an `$elemMatch` accepts, with its place.
    ///
    /// # Errors
    /// As `matches`.
    pub fn first_element<'v>(&self, value: RawVal<'v>) -> Result<Option<(usize, RawVal<'v>)>> {
        let found = matches::element(self, value)?;
        let array = value.as_array().unwrap_or(RawDoc::empty());
        Ok(found.and_then(|at| array.iter().nth(at).map(|(_, element)| (at, element))))
    }
}

/// Names of the top-level operators, for the documentation.
pub fn top_operators() -> impl Iterator<Item = &'static str> {
    parse::TOP_OPERATORS.iter().map(|operator| operator.name)
}
