//! A filter as explain's `parsedQuery` shows it: every condition with its operator spelled out.

use super::node::{Node, Test};
use super::types::TypeSet;
use value::{Val, Writer};

/// Appends the fields that show a node.
pub(super) fn node(node: &Node, out: &mut Writer<'_>) {
    match node {
        Node::And(nodes) if nodes.is_empty() => {}
        Node::And(nodes) => list("$and", nodes, out),
        Node::Or(nodes) => list("$or", nodes, out),
        Node::Nor(nodes) => list("$nor", nodes, out),
        Node::Not(inner) => negation(inner, out),
        Node::Leaf(leaf) => {
            out.doc(leaf.path.text(), |out| test(&leaf.test, out));
        }
        Node::ElemMatchObject { path, filter } => {
            out.doc(path.text(), |out| elem_match_object(filter, out));
        }
        Node::ElemMatchValue { path, ops } => {
            out.doc(path.text(), |out| elem_match_value(ops, out));
        }
        Node::Expr(expr) => {
            out.raw("$expr", expr.source.raw());
        }
        Node::Text(query) => {
            out.doc("$text", |out| {
                out.str("$search", &query.search);
                out.str("$language", query.language_name());
                out.bool("$caseSensitive", query.case_sensitive);
                out.bool("$diacriticSensitive", query.diacritic_sensitive);
            });
        }
        Node::Schema(schema) => {
            out.append("$jsonSchema", Val::Document(schema.source()));
        }
        Node::Where(node) => {
            out.append("$where", Val::Code(&node.source));
        }
        Node::SampleRate(rate) => {
            out.f64("$sampleRate", *rate);
        }
        Node::Const(true) => {
            out.i32("$alwaysTrue", 1);
        }
        Node::Const(false) => {
            out.i32("$alwaysFalse", 1);
        }
    }
}

/// Appends the fields that show several conditions at once.
pub(super) fn all<'n>(nodes: impl Iterator<Item = &'n Node>, out: &mut Writer<'_>) {
    let nodes: Vec<&Node> = nodes.collect();
    match nodes.as_slice() {
        [] => {}
        [only] => node(only, out),
        _ => sorted_list("$and", nodes, out),
    }
}

fn list(name: &str, nodes: &[Node], out: &mut Writer<'_>) {
    sorted_list(name, nodes.iter().collect(), out);
}

/// Conditions in MongoDB's order, by kind and path, whatever order they were written in.
pub(super) fn in_order<'n>(nodes: impl Iterator<Item = &'n Node>) -> Vec<&'n Node> {
    let mut nodes: Vec<&Node> = nodes.collect();
    nodes.sort_by_key(|node| (rank(node), path(node)));
    nodes
}

fn sorted_list(name: &str, nodes: Vec<&Node>, out: &mut Writer<'_>) {
    let nodes = in_order(nodes.into_iter());
    out.array(name, |array| {
        for inner in nodes {
            array.push_doc(|out| node(inner, out));
        }
    });
}

/// The position of a kind of node among its siblings.
fn rank(node: &Node) -> u8 {
    match node {
        Node::And(_) => 0,
        Node::Or(_) => 1,
        Node::ElemMatchObject { .. } => 2,
        Node::ElemMatchValue { .. } => 3,
        Node::Leaf(leaf) => test_rank(&leaf.test),
        Node::Not(_) => 15,
        Node::Nor(_) => 16,
        Node::Expr(_) => 18,
        Node::Schema(_) | Node::SampleRate(_) | Node::Const(_) => 19,
        Node::Where(_) => 20,
        Node::Text(_) => 21,
    }
}

fn test_rank(test: &Test) -> u8 {
    match test {
        Test::And(_) => 0,
        Test::ElemMatchObject(_) => 2,
        Test::ElemMatchValue(_) => 3,
        Test::Size(_) => 4,
        Test::Eq(_) => 5,
        Test::Lte(_) => 6,
        Test::Lt(_) => 7,
        Test::Gt(_) => 8,
        Test::Gte(_) => 9,
        Test::Regex(_) => 10,
        Test::Mod { .. } => 11,
        Test::Exists => 12,
        Test::In { .. } => 13,
        Test::Bits(_) => 14,
        Test::Not(_) => 15,
        Test::Type(_) => 17,
        Test::Collated(collated) => test_rank(&collated.test),
        Test::Geo(_) | Test::Near(_) => 20,
    }
}

fn path(node: &Node) -> &str {
    match node {
        Node::Leaf(leaf) => leaf.path.text(),
        Node::ElemMatchObject { path, .. } | Node::ElemMatchValue { path, .. } => path.text(),
        Node::Not(inner) => path(inner),
        _ => "",
    }
}

/// `{field: {$not: {...}}}` where there is one field to name, else `$nor`.
fn negation(inner: &Node, out: &mut Writer<'_>) {
    match inner {
        Node::Leaf(leaf) => {
            out.doc(leaf.path.text(), |out| {
                out.doc("$not", |out| test(&leaf.test, out));
            });
        }
        Node::ElemMatchObject { path, filter } => {
            out.doc(path.text(), |out| {
                out.doc("$not", |out| elem_match_object(filter, out));
            });
        }
        Node::ElemMatchValue { path, ops } => {
            out.doc(path.text(), |out| {
                out.doc("$not", |out| elem_match_value(ops, out));
            });
        }
        other => list("$nor", std::slice::from_ref(other), out),
    }
}

fn elem_match_object(filter: &Node, out: &mut Writer<'_>) {
    out.doc("$elemMatch", |out| node(filter, out));
}

fn elem_match_value(tests: &[Test], out: &mut Writer<'_>) {
    let mut tests: Vec<&Test> = tests.iter().collect();
    tests.sort_by_key(|test| test_rank(test));
    out.doc("$elemMatch", |out| tests.iter().for_each(|inner| test(inner, out)));
}

fn test(this: &Test, out: &mut Writer<'_>) {
    match this {
        Test::Eq(value) => out.raw("$eq", value.raw()),
        Test::Lt(value) => out.raw("$lt", value.raw()),
        Test::Lte(value) => out.raw("$lte", value.raw()),
        Test::Gt(value) => out.raw("$gt", value.raw()),
        Test::Gte(value) => out.raw("$gte", value.raw()),
        Test::In { values, regexes } => out.array("$in", |array| {
            values.iter().for_each(|value| array.push_raw(value.raw()));
            for regex in regexes {
                array.push(Val::Regex(regex.pattern(), regex.options()));
            }
        }),
        Test::Exists => out.bool("$exists", true),
        Test::Type(types) => type_set(types, out),
        Test::Mod { divisor, remainder } => out.array("$mod", |array| {
            array.push(Val::Int64(*divisor));
            array.push(Val::Int64(*remainder));
        }),
        Test::Regex(regex) => {
            out.str("$regex", regex.pattern());
            if !regex.options().is_empty() {
                out.str("$options", regex.options());
            }
            out
        }
        Test::Size(size) => out.count("$size", size.unsigned_abs()),
        Test::Bits(bits) => out.array(bits.ask.name(), |array| {
            for position in &bits.positions {
                array.push(Val::Int32(i32::try_from(*position).unwrap_or(i32::MAX)));
            }
        }),
        Test::Geo(geo) => out.raw(geo.ask.name(), geo.source.raw()),
        Test::Near(near) => match near.source.get() {
            Val::Document(source) => out.extend(source),
            _ => out,
        },
        Test::ElemMatchObject(filter) => {
            elem_match_object(filter, out);
            out
        }
        Test::ElemMatchValue(tests) => {
            elem_match_value(tests, out);
            out
        }
        Test::Not(inner) => out.doc("$not", |out| test(inner, out)),
        Test::Collated(collated) => {
            test(&collated.test, out);
            out
        }
        Test::And(tests) => {
            tests.iter().for_each(|inner| test(inner, out));
            out
        }
    };
}

fn type_set<'w, 'b>(types: &TypeSet, out: &'w mut Writer<'b>) -> &'w mut Writer<'b> {
    out.array("$type", |array| {
        if types.has_number() {
            array.push(Val::String("number"));
        }
        types.types().iter().for_each(|found| array.push(Val::Int32(found.number())));
    })
}
