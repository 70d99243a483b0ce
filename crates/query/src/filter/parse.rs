//! Compiles a filter document: fields and top-level operators.

use super::node::{ExprNode, Leaf, Node, Test, WhereNode};
use super::operators;
use super::schema::Schema;
use crate::context::{Javascript, ParseContext};
use crate::expr::Expr;
use crate::script::Script;
use crate::text::TextQuery;
use value::path::Path;
use value::{Code, Error, OwnedVal, RawDoc, Result, Val};

/// Deepest nesting of logical operators and `$elemMatch`.
const DEPTH_MAX: usize = 100;

/// How deep a condition is nested, and what it applies to.
#[derive(Clone, Copy)]
pub(super) struct Nesting {
    /// How many operators enclose it.
    depth: usize,
    /// Whether it applies to the whole document, not to an array element.
    top: bool,
    /// Whether it is the `$elemMatch` of a projection, in which some operators are refused.
    projection: bool,
}

impl Nesting {
    pub(super) const TOP: Nesting = Nesting { depth: 0, top: true, projection: false };
    /// The `$elemMatch` of a projection.
    pub(super) const PROJECTION: Nesting = Nesting { depth: 0, top: true, projection: true };

    /// One operator deeper.
    ///
    /// # Errors
    /// `BadValue` where the filter is nested too deeply.
    pub(super) fn deeper(self) -> Result<Nesting> {
        if self.depth >= DEPTH_MAX {
            return Err(Error::bad_value("exceeded maximum query tree depth of 100"));
        }
        Ok(Nesting { depth: self.depth + 1, ..self })
    }

    /// Inside an `$elemMatch`.
    ///
    /// # Errors
    /// As `deeper`.
    pub(super) fn in_element(self) -> Result<Nesting> {
        Ok(Nesting { top: false, ..self.deeper()? })
    }
}

/// A top-level operator, which is written in place of a field name.
pub(super) struct TopOperator {
    /// With its dollar.
    pub(super) name: &'static str,
    /// Adds its conditions to those that must all hold.
    parse: fn(&Parser<'_>, &'static str, Val<'_>, Nesting, &mut Vec<Node>) -> Result<()>,
}

/// Sorted by name.
pub(super) static TOP_OPERATORS: &[TopOperator] = &[
    TopOperator { name: "$alwaysFalse", parse: always_false },
    TopOperator { name: "$alwaysTrue", parse: always_true },
    TopOperator { name: "$and", parse: and },
    TopOperator { name: "$comment", parse: comment },
    TopOperator { name: "$expr", parse: expr },
    TopOperator { name: "$jsonSchema", parse: json_schema },
    TopOperator { name: "$nor", parse: nor },
    TopOperator { name: "$or", parse: or },
    TopOperator { name: "$sampleRate", parse: sample_rate },
    TopOperator { name: "$text", parse: text },
    TopOperator { name: "$where", parse: javascript },
];

/// The top-level operator of this name.
pub(super) fn top_operator(name: &str) -> Option<&'static TopOperator> {
    let at = TOP_OPERATORS.binary_search_by(|operator| operator.name.cmp(name)).ok()?;
    TOP_OPERATORS.get(at)
}

/// Compiles filters of one request.
pub(super) struct Parser<'p> {
    pub(super) context: &'p ParseContext<'p>,
}

impl Parser<'_> {
    /// Compiles a document whose conditions must all hold.
    pub(super) fn document(&self, doc: RawDoc<'_>, place: Nesting) -> Result<Node> {
        let mut nodes = Vec::new();
        for (name, value) in doc {
            self.field(name, value.get(), place, &mut nodes)?;
        }
        Ok(all_of(nodes))
    }

    fn field(
        &self,
        name: &str,
        value: Val<'_>,
        place: Nesting,
        nodes: &mut Vec<Node>,
    ) -> Result<()> {
        if name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db") {
            let Some(operator) = top_operator(name) else {
                let hint = if name == "$not" {
                    "If you are trying to negate an entire expression, use $nor."
                } else {
                    "If you have a field name that starts with a '$' symbol, consider using \
                     $getField or $setField."
                };
                return Err(Error::bad_value(format!(
                    "unknown top level operator: {name}. {hint}"
                )));
            };
            return (operator.parse)(self, operator.name, value, place, nodes);
        }
        let path = Path::new(name);
        match value {
            Val::Document(doc) if is_operators(doc, false) => {
                let tests = self.operators(name, doc, place)?;
                nodes.extend(tests.into_iter().map(|test| test.at(&path)));
            }
            value => nodes.push(self.collate(operators::equality(value)?).at(&path)),
        }
        Ok(())
    }

    /// Compiles `{$gt: 1, $lt: 5}`: tests that must all pass.
    pub(super) fn operators(
        &self,
        path: &str,
        doc: RawDoc<'_>,
        place: Nesting,
    ) -> Result<Vec<Test>> {
        let mut tests = Vec::new();
        for (name, value) in doc {
            let site = operators::OperatorContext { path, siblings: doc, place };
            let Some(operator) = operators::find(name) else {
                return Err(operators::unknown(name));
            };
            if let Some(test) = (operator.parse)(self, operator.name, value.get(), &site)? {
                tests.push(self.collate(test));
            }
        }
        Ok(tests)
    }

    fn list(&self, name: &str, value: Val<'_>, place: Nesting) -> Result<Vec<Node>> {
        let Val::Array(array) = value else {
            return Err(Error::bad_value(format!("{name} must be an array")));
        };
        if array.is_empty() {
            return Err(Error::bad_value("$and/$or/$nor must be a nonempty array"));
        }
        let place = place.deeper()?;
        let mut nodes = Vec::new();
        for (_, element) in array {
            let Some(doc) = element.as_doc() else {
                return Err(Error::bad_value("$or/$and/$nor entries need to be full objects"));
            };
            nodes.push(self.document(doc, place)?);
        }
        Ok(nodes)
    }
}

/// Whether a document is made of operators: its first name begins with a dollar and it is no
/// reference (`$ref` with `$id`; one of them suffices if `incomplete`).
pub(super) fn is_operators(doc: RawDoc<'_>, incomplete: bool) -> bool {
    let Some((first, _)) = doc.first() else { return false };
    if !first.starts_with('$') {
        return false;
    }
    let has = |name: &str| doc.find(name).is_some();
    let reference = if incomplete {
        has("$ref") || has("$id") || has("$db")
    } else {
        has("$ref") && has("$id")
    };
    !reference
}

/// One node that holds if all nodes hold. Nested conjunctions are flattened, so that the planner
/// sees all required conditions in one list.
fn all_of(nodes: Vec<Node>) -> Node {
    let mut flat = Vec::with_capacity(nodes.len());
    // As in MongoDB, nested conjunctions go behind the others, `$all` of several values among them.
    let mut behind = Vec::new();
    for node in nodes {
        match node {
            Node::And(inner) => behind.extend(inner),
            Node::Leaf(leaf) if is_conjunction(&leaf.test) => behind.push(Node::Leaf(leaf)),
            node => flat.push(node),
        }
    }
    flat.append(&mut behind);
    // Expensive conditions come last, so that a leaf that fails avoids them. The order of the
    // others is kept, because the last match in an array sets the position for `$`.
    flat.sort_by_key(|node| match node {
        Node::Expr(_) | Node::Schema(_) | Node::Text(_) => 1,
        Node::Where(_) => 2,
        _ => 0,
    });
    match flat.pop() {
        Some(single) if flat.is_empty() => single,
        Some(last) => {
            flat.push(last);
            Node::And(flat)
        }
        None => Node::And(flat),
    }
}

fn is_conjunction(test: &Test) -> bool {
    match test {
        Test::And(_) => true,
        Test::Collated(collated) => is_conjunction(&collated.test),
        _ => false,
    }
}

fn and(
    parser: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    place: Nesting,
    nodes: &mut Vec<Node>,
) -> Result<()> {
    nodes.push(all_of(parser.list(name, value, place)?));
    Ok(())
}

fn or(
    parser: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    place: Nesting,
    nodes: &mut Vec<Node>,
) -> Result<()> {
    nodes.push(any_of(parser.list(name, value, place)?));
    Ok(())
}

/// One node that holds if any node holds. Equalities on one path become `$in`, which can use an
/// index and a binary search.
fn any_of(mut list: Vec<Node>) -> Node {
    if list.len() == 1
        && let Some(single) = list.pop()
    {
        return single;
    }
    let path = match list.first() {
        Some(Node::Leaf(leaf)) => leaf.path.clone(),
        _ => return Node::Or(list),
    };
    let is_member = |node: &Node| match node {
        // An `$in` of several values stays apart: it would give `$` a position that `$or` does not.
        Node::Leaf(leaf) => leaf.path == path && matches!(leaf.test, Test::Eq(_)),
        _ => false,
    };
    if !list.iter().all(is_member) {
        return Node::Or(list);
    }
    let mut all = Vec::new();
    for node in list {
        if let Node::Leaf(Leaf { test: Test::Eq(value), .. }) = node {
            all.push(value);
        }
    }
    operators::member_of(all, Vec::new()).at(&path)
}

fn nor(
    parser: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    place: Nesting,
    nodes: &mut Vec<Node>,
) -> Result<()> {
    let mut list = parser.list(name, value, place)?;
    nodes.push(match list.pop() {
        Some(single) if list.is_empty() => Node::Not(Box::new(single)),
        Some(last) => {
            list.push(last);
            Node::Nor(list)
        }
        None => Node::Nor(list),
    });
    Ok(())
}

fn comment(
    _: &Parser<'_>,
    _: &'static str,
    _: Val<'_>,
    _: Nesting,
    _: &mut Vec<Node>,
) -> Result<()> {
    Ok(())
}

fn constant(name: &str, value: Val<'_>, answer: bool, nodes: &mut Vec<Node>) -> Result<()> {
    if value.as_i64_exact() != Some(1) {
        return Err(Error::failed_to_parse(format!("{name} must be an integer value of 1")));
    }
    if !answer {
        nodes.push(Node::Const(false));
    }
    Ok(())
}

fn always_true(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    _: Nesting,
    nodes: &mut Vec<Node>,
) -> Result<()> {
    constant(name, value, true, nodes)
}

fn always_false(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    _: Nesting,
    nodes: &mut Vec<Node>,
) -> Result<()> {
    constant(name, value, false, nodes)
}

fn only_at_top(name: &str, place: Nesting) -> Result<()> {
    if place.top {
        return Ok(());
    }
    Err(Error::bad_value(format!("{name} can only be applied to the top-level document")))
}

fn expr(
    parser: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    place: Nesting,
    nodes: &mut Vec<Node>,
) -> Result<()> {
    only_at_top(name, place)?;
    let expr = Expr::parse(value, parser.context)?;
    let implied = implied(parser, &expr)?;
    nodes.push(Node::Expr(Box::new(ExprNode { expr, source: OwnedVal::new(value), implied })));
    Ok(())
}

/// The tests that follow from the equalities of an expression.
fn implied(parser: &Parser<'_>, expr: &Expr) -> Result<Vec<Leaf>> {
    let mut leaves = Vec::new();
    for (path, value) in expr.equalities() {
        // An index has an array by its elements, and a missing value as null.
        if !matches!(value, Val::Array(_) | Val::Missing | Val::Undefined | Val::Regex(..)) {
            let test = parser.collate(operators::equality(value)?);
            leaves.push(Leaf { path: Path::new(&path), test });
        }
    }
    Ok(leaves)
}

fn json_schema(
    _: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    place: Nesting,
    nodes: &mut Vec<Node>,
) -> Result<()> {
    if place.projection {
        return Err(Error::new(
            Code::QUERY_FEATURE_NOT_ALLOWED,
            "$jsonSchema is not allowed in this context",
        ));
    }
    let Val::Document(doc) = value else {
        return Err(Error::type_mismatch("$jsonSchema must be an object"));
    };
    nodes.push(Node::Schema(Box::new(Schema::parse(doc)?)));
    Ok(())
}

fn sample_rate(
    _: &Parser<'_>,
    _: &'static str,
    value: Val<'_>,
    _: Nesting,
    nodes: &mut Vec<Node>,
) -> Result<()> {
    let Some(rate) = value.as_f64() else {
        return Err(Error::bad_value("argument to $sampleRate must be a numeric type"));
    };
    if !(0.0..=1.0).contains(&rate) {
        return Err(Error::bad_value("numeric argument to $sampleRate must be in [0, 1]"));
    }
    nodes.push(if rate == 0.0 { Node::Const(false) } else { Node::SampleRate(rate) });
    Ok(())
}

fn text(
    _: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    place: Nesting,
    nodes: &mut Vec<Node>,
) -> Result<()> {
    only_at_top(name, place)?;
    nodes.push(Node::Text(Box::new(TextQuery::parse(value)?)));
    Ok(())
}

fn javascript(
    parser: &Parser<'_>,
    name: &'static str,
    value: Val<'_>,
    place: Nesting,
    nodes: &mut Vec<Node>,
) -> Result<()> {
    only_at_top(name, place)?;
    let source = match value {
        Val::String("") | Val::Code("") | Val::CodeWithScope("", _) => {
            return Err(Error::bad_value("code for $where cannot be empty"));
        }
        Val::String(source) | Val::Code(source) | Val::CodeWithScope(source, _) => source,
        _ => return Err(Error::bad_value("$where got bad type")),
    };
    match parser.context.javascript {
        // The error of MongoDB when JavaScript is disabled.
        Javascript::Off => {
            return Err(Error::new(Code(6_108_304), "no globalScriptEngine in $where parsing"));
        }
        Javascript::Expressions => return Err(where_refused()),
        Javascript::Everywhere => {}
    }
    if matches!(value, Val::CodeWithScope(..)) {
        return Err(Error::new(
            Code(4_649_201),
            "$where no longer supports deprecated BSON type CodeWScope",
        ));
    }
    let script = Script::new(vec![source.to_owned()], parser.context);
    script.check()?;
    nodes.push(Node::Where(Box::new(WhereNode { script, source: source.to_owned() })));
    Ok(())
}

/// The error for a `$where` in a place that does not allow one.
pub(super) fn where_refused() -> Error {
    Error::bad_value("$where is not allowed in this context")
}
