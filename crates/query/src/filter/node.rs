//! The compiled form of a filter: a tree of nodes over a document, with tests on values at its
//! leaves. The planner reads it, `matches` runs it, `explain` prints it.

use super::collated::Collated;
use super::schema::Schema;
use super::types::TypeSet;

use crate::expr::Expr;
use crate::geo::{Geo, Near};
use crate::regex::Regex;
use crate::script::Script;
use crate::text::TextQuery;
use value::OwnedVal;
use value::path::Path;

/// A condition on a whole document.
#[derive(Debug)]
pub enum Node {
    /// All hold.
    And(Vec<Node>),
    /// At least one holds.
    Or(Vec<Node>),
    /// None holds.
    Nor(Vec<Node>),
    /// The inner one does not hold: `$not`, `$ne`, `$nin`, `{$exists: false}`.
    Not(Box<Node>),
    /// Some value at a path passes a test.
    Leaf(Leaf),
    /// Some element of the array at `path` is a document that matches.
    ElemMatchObject {
        /// The path of the array.
        path: Path,
        /// What an element must match.
        filter: Box<Node>,
    },
    /// Some element of the array at `path` passes all tests.
    ElemMatchValue {
        /// The path of the array.
        path: Path,
        /// What one element must pass.
        ops: Vec<Test>,
    },
    /// An aggregation expression that must be true.
    Expr(Box<ExprNode>),
    /// `$text`.
    Text(Box<TextQuery>),
    /// `$jsonSchema`.
    Schema(Box<Schema>),
    /// `$where`: a function in JavaScript that must be true.
    Where(Box<WhereNode>),
    /// True for this share of documents, drawn at random.
    SampleRate(f64),
    /// Always or never.
    Const(bool),
}

/// `$where`, with its source for explain.
#[derive(Debug)]
pub struct WhereNode {
    pub(crate) script: Script,
    /// The source of the function.
    pub source: String,
}

/// `$expr`, with its source for explain.
#[derive(Debug)]
pub struct ExprNode {
    /// The compiled expression.
    pub expr: Expr,
    /// What it was compiled from.
    pub source: OwnedVal,
    /// Tests that every match passes, for the planner. They may pass although the expression is
    /// false, because they expand arrays and treat missing values as null.
    pub implied: Vec<Leaf>,
}

/// A test of the values at a path.
#[derive(Debug)]
pub struct Leaf {
    /// The path of the values; arrays on the path and at its end are expanded.
    pub path: Path,
    /// What one of them must pass.
    pub test: Test,
}

/// A test of one value.
#[derive(Debug)]
pub enum Test {
    /// Equal; null also means missing.
    Eq(OwnedVal),
    /// Below, within the same type.
    Lt(OwnedVal),
    /// Below or equal, within the same type.
    Lte(OwnedVal),
    /// Above, within the same type.
    Gt(OwnedVal),
    /// Above or equal, within the same type.
    Gte(OwnedVal),
    /// Equal to one of the values or matched by one of the patterns.
    In {
        /// Sorted in MongoDB's order, without duplicates.
        values: Vec<OwnedVal>,
        /// Patterns.
        regexes: Vec<Regex>,
    },
    /// Not missing.
    Exists,
    /// Of one of these types.
    Type(TypeSet),
    /// A number with this remainder.
    Mod {
        /// The divisor; never 0.
        divisor: i64,
        /// The required remainder.
        remainder: i64,
    },
    /// Text that the pattern matches, or the same pattern.
    Regex(Regex),
    /// An array of this length. Applies to the array at the end of a path, not to its elements.
    Size(i64),
    /// Bits of a whole number or of binary data.
    Bits(Bits),
    /// A location in or on a region.
    Geo(Box<Geo>),
    /// A location near a place. Only at the top of a filter, and at most once.
    Near(Box<Near>),
    /// An array one of whose elements is a document that matches.
    ElemMatchObject(Box<Node>),
    /// An array one of whose elements passes all tests.
    ElemMatchValue(Vec<Test>),
    /// Does not pass.
    Not(Box<Test>),
    /// Passes all.
    And(Vec<Test>),
    /// A comparison with text under a collation.
    Collated(Box<Collated>),
}

/// Which bits `$bitsAllSet` and the like look at, and how.
#[derive(Debug)]
pub struct Bits {
    /// The predicate on the bits.
    pub ask: BitsPredicate,
    /// The positions, sorted, without duplicates.
    pub positions: Vec<u64>,
}

/// The four operators on bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitsPredicate {
    /// `$bitsAllSet`
    AllSet,
    /// `$bitsAllClear`
    AllClear,
    /// `$bitsAnySet`
    AnySet,
    /// `$bitsAnyClear`
    AnyClear,
}

impl BitsPredicate {
    /// The operator's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BitsPredicate::AllSet => "$bitsAllSet",
            BitsPredicate::AllClear => "$bitsAllClear",
            BitsPredicate::AnySet => "$bitsAnySet",
            BitsPredicate::AnyClear => "$bitsAnyClear",
        }
    }
}

impl Test {
    /// The node that applies this test at a path.
    #[must_use]
    pub fn at(self, path: &Path) -> Node {
        match self {
            Test::Not(inner) => Node::Not(Box::new(inner.at(path))),
            Test::And(tests) => Node::And(tests.into_iter().map(|test| test.at(path)).collect()),
            Test::ElemMatchObject(filter) => Node::ElemMatchObject { path: path.clone(), filter },
            Test::ElemMatchValue(ops) => Node::ElemMatchValue { path: path.clone(), ops },
            test => Node::Leaf(Leaf { path: path.clone(), test }),
        }
    }
}
