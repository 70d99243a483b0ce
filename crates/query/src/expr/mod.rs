//! Aggregation expressions: `{$add: ["$price", 1]}` compiled once into a tree and run on raw
//! documents.
//!
//! `parse` builds the tree, `operator` is the registry, one file or folder per family has the rows
//! and the functions, `env` is the environment of an evaluation, `number` the arithmetic across
//! types.

mod arithmetic;
mod array;
mod binary;
mod boolean;
mod comparison;
mod conditional;
mod convert;
mod date;
mod digest;
mod env;
mod function;
mod hash;
mod json;
pub(crate) mod number;
mod object;
mod operator;
mod parse;
pub(crate) mod percentile;
mod set;
mod slotted;
pub use digest::Md5;
mod statistics;
mod string;
mod trig;
mod variable;

pub use date::add_to_date;
pub use env::Env;
pub use hash::hashed_key;
pub use operator::{is_deterministic, operators};
pub use parse::check_variable_name;

pub use crate::show::{show_doc, show_doc_up_to};

use crate::ParseContext;
use crate::deferred::ValueSlot;
use crate::interrupt;
use crate::path_values::{path_in, path_in_doc};
use crate::regex::Regex;
use crate::script::Script;
use operator::{Eval, Operator};
use smallvec::SmallVec;
use std::sync::Arc;
use value::{Collation, OwnedVal, Result, Val};

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Expr {
    node: Node,
    collation: Option<Arc<Collation>>,
}

impl Expr {
    /// Compiles an expression; constants are computed here.
    pub fn parse(value: Val<'_>, ctx: &ParseContext<'_>) -> Result<Expr> {
        let node = parse::Parser::new(ctx).parse(value)?;
        Ok(Expr { node, collation: ctx.collation.cloned() })
    }

    /// An expression that always gives this value.
    #[must_use]
    pub fn constant(value: Val<'_>) -> Expr {
        Expr { node: Node::Constant(OwnedVal::new(value)), collation: None }
    }

    /// The expression of a top-level field.
    #[must_use]
    pub fn field(name: &str) -> Expr {
        Expr { node: Node::Field(vec![name.into()]), collation: None }
    }

    /// Computes the value for the document of `env`; `Missing` where there is none.
    #[inline]
    pub fn eval<'a>(&'a self, env: &Env<'a>) -> Result<Val<'a>> {
        if let Some(collation) = &self.collation {
            env.set_collation(collation);
        }
        self.node.eval(env)
    }

    /// The collation of its comparisons.
    #[must_use]
    pub fn collation(&self) -> Option<&Arc<Collation>> {
        self.collation.as_ref()
    }

    /// The value, if it does not depend on a document.
    #[must_use]
    pub fn as_constant(&self) -> Option<Val<'_>> {
        if let Node::Constant(value) = &self.node { Some(value.get()) } else { None }
    }

    /// The dotted path, if the expression is nothing but a field of the document (`"$a.b"`).
    #[must_use]
    pub fn as_field_path(&self) -> Option<String> {
        match &self.node {
            Node::Field(path) if !path.is_empty() => Some(path.join(".")),
            _ => None,
        }
    }

    /// Adds the top-level fields that the expression reads; false if it may read the whole document.
    pub fn top_level_fields(&self, out: &mut Vec<String>) -> bool {
        self.node.top_level_fields(out)
    }

    /// The equalities of a field path with a constant, such as `{$eq: ["$a", 5]}`, that must hold
    /// for the expression to be true. For planners, which can use an index for them.
    #[must_use]
    pub fn equalities(&self) -> Vec<(String, Val<'_>)> {
        let mut found = Vec::new();
        self.node.equalities(&mut found);
        found
    }
}

/// A node of a compiled expression.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Constant(OwnedVal),
    /// A path from the document; an empty one is the document itself.
    Field(Vec<Box<str>>),
    /// A path from the document whose value was looked up before.
    Slot(usize),
    /// A bound variable and a path from its value.
    Variable {
        slot: usize,
        path: Vec<Box<str>>,
    },
    /// A variable whose value comes after compiling, and a path from it.
    DeferredVariable {
        place: Arc<ValueSlot>,
        path: Vec<Box<str>>,
    },
    Document(Vec<(Box<str>, Node)>),
    Array(Vec<Node>),
    Call(Box<Call>),
}

/// An operator with its operands.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) operator: &'static Operator,
    pub(crate) arguments: Vec<Node>,
    /// First of the variables that the operator binds.
    pub(crate) slot: usize,
    /// The compiled pattern of a regular expression operator, when it is constant.
    pub(crate) regex: Option<Regex>,
    /// The functions of an operator that runs JavaScript.
    pub(crate) script: Option<Arc<Script>>,
}

impl Call {
    /// The operand at this position, evaluated; `Missing` if it was omitted.
    pub(crate) fn argument<'a>(&'a self, at: usize, env: &Env<'a>) -> Result<Val<'a>> {
        let Some(node) = self.arguments.get(at) else { return Ok(Val::Missing) };
        let value = node.eval(env)?;
        interrupt::charge_value(value)?;
        Ok(value)
    }
}

impl Node {
    pub(crate) fn constant(value: Val<'_>) -> Node {
        Node::Constant(OwnedVal::new(value))
    }

    pub(crate) fn is_constant(&self) -> bool {
        matches!(self, Node::Constant(_))
    }

    pub(crate) fn as_constant(&self) -> Option<Val<'_>> {
        if let Node::Constant(value) = self { Some(value.get()) } else { None }
    }

    pub(crate) fn eval<'a>(&'a self, env: &Env<'a>) -> Result<Val<'a>> {
        match self {
            Node::Constant(value) => Ok(value.get()),
            Node::Field(path) => match path.as_slice() {
                [] => Ok(Val::Document(env.root())),
                [name] => Ok(env.root().get(name).unwrap_or(Val::Missing)),
                path => Ok(path_in_doc(env.root(), path, env.arena())),
            },
            Node::Slot(at) => Ok(env.slot(*at)),
            Node::Variable { slot, path } => Ok(path_in(env.variable(*slot), path, env.arena())),
            Node::DeferredVariable { place, path } => Ok(place.get(path, env.arena())),
            Node::Document(fields) => eval_document(fields, env),
            Node::Array(elements) => eval_array(elements, env),
            Node::Call(call) => {
                interrupt::check()?;
                match call.operator.eval {
                    Eval::Lazy(function) => function(call, env),
                    Eval::Eager(function) => eval_eager(call, function, env),
                }
            }
        }
    }

    fn equalities<'n>(&'n self, found: &mut Vec<(String, Val<'n>)>) {
        let Node::Call(call) = self else { return };
        match (call.operator.name, call.arguments.as_slice()) {
            ("$and", parts) => parts.iter().for_each(|part| part.equalities(found)),
            (
                "$eq",
                [Node::Field(path), Node::Constant(value)]
                | [Node::Constant(value), Node::Field(path)],
            ) if !path.is_empty() => found.push((path.join("."), value.get())),
            _ => {}
        }
    }

    fn top_level_fields(&self, out: &mut Vec<String>) -> bool {
        match self {
            Node::Constant(_)
            | Node::Variable { .. }
            | Node::DeferredVariable { .. }
            | Node::Slot(_) => true,
            Node::Field(path) => match path.first() {
                Some(first) => {
                    if !out.iter().any(|known| **known == **first) {
                        out.push(first.to_string());
                    }
                    true
                }
                None => false,
            },
            Node::Document(fields) => fields.iter().all(|(_, node)| node.top_level_fields(out)),
            Node::Array(elements) => elements.iter().all(|node| node.top_level_fields(out)),
            Node::Call(call) => call.arguments.iter().all(|node| node.top_level_fields(out)),
        }
    }
}

#[inline(never)]
fn eval_eager<'a>(call: &'a Call, function: operator::Eager, env: &Env<'a>) -> Result<Val<'a>> {
    let mut values: SmallVec<[Val<'a>; 4]> = SmallVec::new();
    for argument in &call.arguments {
        match argument.eval(env) {
            Ok(value) => {
                interrupt::charge_value(value)?;
                values.push(value);
            }
            Err(error) if interrupt::ends_operation(&error) => return Err(error),
            // An error of an operand after a null is ignored.
            Err(_) if call.operator.stops_at_null() && values.iter().any(|v| v.is_nullish()) => {
                return Ok(Val::Null);
            }
            Err(error) => return Err(error),
        }
    }
    env.check_memory()?;
    function(&values, env)
}

#[inline(never)]
fn eval_document<'a>(fields: &'a [(Box<str>, Node)], env: &Env<'a>) -> Result<Val<'a>> {
    let mut values: SmallVec<[Val<'a>; 8]> = SmallVec::new();
    for (_, node) in fields {
        values.push(node.eval(env)?);
    }
    env.document(|writer| {
        for ((name, _), value) in fields.iter().zip(&values) {
            writer.append(name, *value);
        }
    })
}

#[inline(never)]
fn eval_array<'a>(elements: &'a [Node], env: &Env<'a>) -> Result<Val<'a>> {
    let mut values: SmallVec<[Val<'a>; 8]> = SmallVec::new();
    for node in elements {
        values.push(node.eval(env)?);
    }
    env.array(values.iter().copied())
}
