//! The registry of expression operators: one row per operator, sorted by name within its family,
//! and the general rules by which operands are written.

use super::{Call, Env, Node, parse::Parser};
use super::{
    arithmetic, array, boolean, comparison, conditional, convert, date, function, hash, json,
    object, set, statistics, string, trig, variable,
};
use value::{Code, Error, Result, Val};

/// A function of evaluated operands.
pub(crate) type Eager = for<'a> fn(&[Val<'a>], &Env<'a>) -> Result<Val<'a>>;
/// A function that evaluates its operands itself: it may skip some, or bind variables.
pub(crate) type Lazy = for<'a> fn(&'a Call, &Env<'a>) -> Result<Val<'a>>;
/// A parser of operands that follow no general rule.
pub(crate) type ParseOperands = fn(&mut Parser<'_>, &'static Operator, Val<'_>) -> Result<Node>;

/// How an operator computes.
#[derive(Clone, Copy)]
pub(crate) enum Eval {
    Eager(Eager),
    Lazy(Lazy),
}

/// A named operand, as in `{$dateToString: {date: .., format: ..}}`.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// The value of an omitted operand; `Err` refuses it with this code.
    pub(crate) default: Result<MissingOperand, i32>,
}

/// The value of an omitted operand.
#[derive(Clone, Copy)]
pub(crate) enum MissingOperand {
    Missing,
    Null,
}

/// A required named operand; leaving it out gives this code.
pub(crate) const fn required(name: &'static str, code: i32) -> Parameter {
    Parameter { name, default: Err(code) }
}

/// An optional named operand.
pub(crate) const fn optional(name: &'static str) -> Parameter {
    Parameter { name, default: Ok(MissingOperand::Missing) }
}

/// An optional named operand that counts as null.
pub(crate) const fn or_null(name: &'static str) -> Parameter {
    Parameter { name, default: Ok(MissingOperand::Null) }
}

/// How operands are written.
pub(crate) enum Operands {
    /// An array of operands, or one without array.
    Positional { least: usize, most: usize },
    /// A document of named operands; the codes are for «not a document» and «unknown name».
    Named { parameters: &'static [Parameter], not_document: i32, unknown: i32 },
    /// Parsed by a separate function.
    Special(ParseOperands),
}

/// One row of the registry.
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    pub(crate) operands: Operands,
    pub(crate) eval: Eval,
    /// Whether equal operands always give equal results, so that constants can be computed early.
    pub(crate) pure: bool,
    /// Whether the order of operands does not matter, so that constants can be joined.
    pub(crate) commutative: bool,
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Sorted: the operators that compare values, so that a collation can change their results.
static COLLATED: &[&str] = &[
    "$cmp",
    "$eq",
    "$gt",
    "$gte",
    "$in",
    "$indexOfArray",
    "$lt",
    "$lte",
    "$max",
    "$maxN",
    "$min",
    "$minN",
    "$ne",
    "$setDifference",
    "$setEquals",
    "$setIntersection",
    "$setIsSubset",
    "$setUnion",
    "$sortArray",
];

/// Sorted: the operators that look at their operands one after another and stop at a null.
static STOPPING: &[&str] = &[
    "$concat",
    "$concatArrays",
    "$indexOfArray",
    "$indexOfBytes",
    "$indexOfCP",
    "$setIntersection",
    "$setUnion",
    "$zip",
];

/// Sorted: the operators that MongoDB does not compute early.
static COMPUTED_LATE: &[&str] = &[
    "$bottom",
    "$bottomN",
    "$firstN",
    "$getField",
    "$lastN",
    "$maxN",
    "$minN",
    "$replaceAll",
    "$replaceOne",
    "$setEquals",
    "$setField",
    "$sortArray",
    "$top",
    "$topN",
    "$unsetField",
    "$zip",
];

/// Sorted: the operators that compare two values with each other.
static COMPARING_PAIRS: &[&str] = &["$cmp", "$eq", "$gt", "$gte", "$lt", "$lte", "$ne"];

/// Any number of operands.
pub(crate) const MANY: usize = usize::MAX;

impl Operator {
    /// An operator of `least..=most` evaluated operands.
    pub(crate) const fn new(
        name: &'static str,
        least: usize,
        most: usize,
        eval: Eager,
    ) -> Operator {
        let operands = Operands::Positional { least, most };
        Operator { name, operands, eval: Eval::Eager(eval), pure: true, commutative: false }
    }

    /// An operator that evaluates its operands itself.
    pub(crate) const fn lazy(
        name: &'static str,
        least: usize,
        most: usize,
        eval: Lazy,
    ) -> Operator {
        let operands = Operands::Positional { least, most };
        Operator { name, operands, eval: Eval::Lazy(eval), pure: true, commutative: false }
    }

    /// An operator of named operands.
    pub(crate) const fn named(
        name: &'static str,
        parameters: &'static [Parameter],
        not_document: i32,
        unknown: i32,
        eval: Eager,
    ) -> Operator {
        let operands = Operands::Named { parameters, not_document, unknown };
        Operator { name, operands, eval: Eval::Eager(eval), pure: true, commutative: false }
    }

    /// An operator of named operands that evaluates them itself.
    pub(crate) const fn named_lazy(
        name: &'static str,
        parameters: &'static [Parameter],
        not_document: i32,
        unknown: i32,
        eval: Lazy,
    ) -> Operator {
        let operands = Operands::Named { parameters, not_document, unknown };
        Operator { name, operands, eval: Eval::Lazy(eval), pure: true, commutative: false }
    }

    /// An operator with its own parser and evaluated operands.
    pub(crate) const fn special(name: &'static str, parse: ParseOperands, eval: Eager) -> Operator {
        let operands = Operands::Special(parse);
        Operator { name, operands, eval: Eval::Eager(eval), pure: true, commutative: false }
    }

    /// An operator with its own parser that evaluates its operands itself.
    pub(crate) const fn special_lazy(
        name: &'static str,
        parse: ParseOperands,
        eval: Lazy,
    ) -> Operator {
        let operands = Operands::Special(parse);
        Operator { name, operands, eval: Eval::Lazy(eval), pure: true, commutative: false }
    }

    /// Whether a null operand hides what follows it.
    pub(crate) fn stops_at_null(&self) -> bool {
        STOPPING.binary_search(&self.name).is_ok()
    }

    /// The same operator, never computed early.
    pub(crate) const fn impure(mut self) -> Operator {
        self.pure = false;
        self
    }

    /// The same operator, whose operands may change places.
    pub(crate) const fn commutative(mut self) -> Operator {
        self.commutative = true;
        self
    }

    /// Compiles the operands and, where all are constant, the result.
    pub(crate) fn parse(&'static self, parser: &mut Parser<'_>, value: Val<'_>) -> Result<Node> {
        let arguments = match &self.operands {
            Operands::Special(parse) => return parse(parser, self, value),
            Operands::Positional { least, most } => {
                let arguments = parser.operands(value)?;
                self.check_count(arguments.len(), *least, *most)?;
                arguments
            }
            Operands::Named { parameters, not_document, unknown } => {
                self.parse_named(parser, value, parameters, *not_document, *unknown)?
            }
        };
        self.call(parser, arguments)
    }

    /// A call, computed at once if its operands are constant. An error is reported at once too, as
    /// in MongoDB, even in a branch that is never taken, except where MongoDB does not compute
    /// early.
    pub(crate) fn call(&'static self, parser: &Parser<'_>, arguments: Vec<Node>) -> Result<Node> {
        let mut arguments = arguments;
        if matches!(self.name, "$add" | "$multiply") {
            arguments = self.flattened(arguments);
        }
        let constants = arguments.iter().filter(|node| node.is_constant()).count();
        // Of texts that a collation makes equal, a union keeps the first.
        let first_counts = self.name == "$setUnion" && parser.context().collation.is_some();
        let moves = self.commutative && !first_counts;
        if moves && constants > 0 && constants < arguments.len() {
            // Constants are combined and moved to the end, as in MongoDB; this affects which
            // operand is evaluated first.
            let (known, mut open): (Vec<Node>, Vec<Node>) =
                arguments.into_iter().partition(Node::is_constant);
            match known.len() {
                1 => open.extend(known),
                _ => open.push(self.call(parser, known)?),
            }
            let last = open.last().and_then(Node::as_constant).map(Val::truthy);
            if let ("$and", Some(false)) | ("$or", Some(true)) = (self.name, last) {
                // The constant determines the result.
                return Ok(Node::constant(Val::Bool(self.name == "$or")));
            }
            arguments = open;
        }
        // How text compares is known only when the expression runs, under a collation or not.
        let text = |node: &Node| node.as_constant().is_some_and(has_text);
        let collated = if COMPARING_PAIRS.binary_search(&self.name).is_ok() {
            // Text and something else compare by their types.
            arguments.iter().all(text)
        } else {
            COLLATED.binary_search(&self.name).is_ok() && arguments.iter().any(text)
        };
        let late = !self.pure || COMPUTED_LATE.binary_search(&self.name).is_ok();
        let fold = !late && !collated && arguments.iter().all(Node::is_constant);
        let call = Node::Call(Box::new(Call {
            operator: self,
            arguments,
            slot: 0,
            regex: None,
            script: None,
        }));
        if fold { parser.fold(call) } else { Ok(call) }
    }

    /// The operands with those of the same operator inside, as MongoDB computes them: the digits of
    /// decimals depend on the order.
    fn flattened(&self, arguments: Vec<Node>) -> Vec<Node> {
        let mut flat = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match argument {
                Node::Call(call) if call.operator.name == self.name => flat.extend(call.arguments),
                argument => flat.push(argument),
            }
        }
        flat
    }

    fn check_count(&self, count: usize, least: usize, most: usize) -> Result<()> {
        if (least..=most).contains(&count) {
            return Ok(());
        }
        let name = self.name;
        Err(if least == most {
            Error::new(
                Code(16020),
                format!(
                    "Expression {name} takes exactly {least} arguments. {count} were passed in."
                ),
            )
        } else {
            Error::new(
                Code(28667),
                format!(
                    "Expression {name} takes at least {least} arguments, and at most {most}, but \
                     {count} were passed in."
                ),
            )
        })
    }

    fn parse_named(
        &self,
        parser: &mut Parser<'_>,
        value: Val<'_>,
        parameters: &[Parameter],
        not_document: i32,
        unknown: i32,
    ) -> Result<Vec<Node>> {
        let name = self.name;
        let Val::Document(fields) = value else {
            return Err(Error::new(
                Code(not_document),
                format!("{name} only supports an object as its argument"),
            ));
        };
        let mut found: Vec<Option<Node>> = parameters.iter().map(|_| None).collect();
        for (field, operand) in fields {
            let at = parameters.iter().position(|parameter| parameter.name == field);
            let Some(slot) = at.and_then(|at| found.get_mut(at)) else {
                return Err(Error::new(
                    Code(unknown),
                    format!("Unrecognized argument to {name}: {field}"),
                ));
            };
            *slot = Some(parser.parse(operand.get())?);
        }
        parameters
            .iter()
            .zip(found)
            .map(|(parameter, node)| match (node, parameter.default) {
                // An operand that evaluates to missing counts as null; an omitted one does not.
                (Some(node), Ok(MissingOperand::Missing)) => conditional::or_null(parser, node),
                (Some(node), _) => Ok(node),
                (None, Ok(MissingOperand::Missing)) => Ok(Node::constant(Val::Missing)),
                (None, Ok(MissingOperand::Null)) => Ok(Node::constant(Val::Null)),
                (None, Err(code)) => Err(Error::new(
                    Code(code),
                    format!("Missing '{}' parameter to {name}", parameter.name),
                )),
            })
            .collect()
    }
}

static FAMILIES: &[&[Operator]] = &[
    arithmetic::OPERATORS,
    array::OPERATORS,
    boolean::OPERATORS,
    comparison::OPERATORS,
    conditional::OPERATORS,
    convert::OPERATORS,
    date::OPERATORS,
    function::OPERATORS,
    hash::OPERATORS,
    json::OPERATORS,
    object::OPERATORS,
    set::OPERATORS,
    statistics::OPERATORS,
    string::OPERATORS,
    trig::OPERATORS,
    variable::OPERATORS,
];

/// The operator of this name.
pub(crate) fn find(name: &str) -> Option<&'static Operator> {
    FAMILIES.iter().find_map(|family| {
        let at = family.binary_search_by(|operator| operator.name.cmp(name)).ok()?;
        family.get(at)
    })
}

/// The names of all expression operators for clients, family by family.
pub fn operators() -> impl Iterator<Item = &'static str> {
    let all = FAMILIES.iter().flat_map(|family| family.iter().map(|operator| operator.name));
    all.filter(|name| !name.starts_with("$_"))
}

/// Whether an operator gives the same value each time, as far as it is known.
#[must_use]
pub fn is_deterministic(name: &str) -> bool {
    find(name).is_none_or(|operator| operator.pure)
}

/// Whether a value contains text at any depth. Nesting is limited, so recursion is bounded.
fn has_text(value: Val<'_>) -> bool {
    match value {
        Val::String(_) | Val::Symbol(_) => true,
        Val::Document(doc) | Val::Array(doc) => doc.iter().any(|(_, inner)| has_text(inner.get())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_is_found_by_its_name() {
        for name in operators() {
            assert_eq!(find(name).map(|operator| operator.name), Some(name));
        }
        assert!(find("$nothing").is_none());
    }
}
