//! Documents: `$mergeObjects`, `$getField`, `$setField`, `$objectToArray`, sizes.

use super::arithmetic::pair;
use super::operator::{MANY, Operator};
use super::parse::Parser;
use super::{Call, Env, Node};
use crate::show::show;
use value::{Code, Error, Result, Val};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::new("$binarySize", 1, 1, binary_size),
    Operator::new("$bsonSize", 1, 1, bson_size),
    Operator::special("$getField", parse_get_field, get_field),
    Operator::new("$mergeObjects", 0, MANY, merge_objects),
    Operator::new("$objectToArray", 1, 1, object_to_array),
    Operator::special_lazy("$setField", parse_set_field, set_field),
    Operator::special_lazy("$unsetField", parse_set_field, set_field),
];

fn binary_size<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let length = match pair(values).0 {
        Val::String(text) => text.len(),
        // Binaries of subtype 2 repeat their length before the bytes.
        Val::Binary(2, bytes) => bytes.len() + 4,
        Val::Binary(_, bytes) => bytes.len(),
        value if value.is_nullish() => return Ok(Val::Null),
        other => {
            return Err(Error::new(
                Code(51276),
                format!(
                    "$binarySize requires a string or BinData argument, found: {}",
                    other.kind().name()
                ),
            ));
        }
    };
    Ok(Val::Int32(i32::try_from(length).unwrap_or(i32::MAX)))
}

fn bson_size<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    match pair(values).0 {
        Val::Document(doc) => Ok(Val::Int32(i32::try_from(doc.bytes().len()).unwrap_or(i32::MAX))),
        value if value.is_nullish() => Ok(Val::Null),
        other => Err(Error::new(
            Code(31393),
            format!("$bsonSize requires a document input, found: {}", other.kind().name()),
        )),
    }
}

fn merge_objects<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let mut fields: Vec<(&'a str, value::RawVal<'a>)> = Vec::new();
    let mut places: hashbrown::HashMap<&'a str, usize> = hashbrown::HashMap::new();
    // A single operand that is an array provides the elements.
    let elements: Vec<Val<'a>> = match values {
        [Val::Array(array)] => array.iter().map(|(_, value)| value.get()).collect(),
        values => values.to_vec(),
    };
    for value in &elements {
        let doc = match value {
            Val::Document(doc) => *doc,
            value if value.is_nullish() => continue,
            other => {
                return Err(Error::new(
                    Code(40400),
                    format!(
                        "$mergeObjects requires object inputs, but input {} is of type {}",
                        show(*other),
                        other.kind().name()
                    ),
                ));
            }
        };
        for (name, value) in doc {
            match places.get(name).and_then(|at| fields.get_mut(*at)) {
                Some(field) => field.1 = value,
                None => {
                    places.insert(name, fields.len());
                    fields.push((name, value));
                }
            }
        }
    }
    env.document(|out| {
        for (name, value) in &fields {
            out.raw(name, *value);
        }
    })
}

fn object_to_array<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    match pair(values).0 {
        Val::Document(doc) => {
            let mut bytes = Vec::with_capacity(doc.bytes().len() * 2);
            value::writer::write_array(&mut bytes, |array| {
                for (name, value) in doc {
                    array.push_doc(|out| {
                        out.str("k", name).raw("v", value);
                    });
                }
            });
            Ok(Val::Array(env.keep(&bytes)?))
        }
        value if value.is_nullish() => Ok(Val::Null),
        other => Err(Error::new(
            Code(40390),
            format!("$objectToArray requires a document input, found: {}", other.kind().name()),
        )),
    }
}

/// The name of a field: a string that is written as one, not computed.
fn constant_name(
    name: &str,
    value: Val<'_>,
    parser: &mut Parser<'_>,
    codes: (i32, i32, i32),
) -> Result<Node> {
    let (path_code, constant_code, type_code) = codes;
    let computed = Error::new(
        Code(constant_code),
        format!(
            "{name} requires 'field' to evaluate to a constant, but got a non-constant argument"
        ),
    );
    if let Val::Document(doc) = value
        && !doc.first().is_some_and(|(name, _)| matches!(name, "$literal" | "$const"))
    {
        return Err(computed);
    }
    if matches!(value, Val::Array(_)) {
        return Err(computed);
    }
    let node = parser.parse(value)?;
    match &node {
        Node::Constant(value) => match value.get() {
            Val::String(_) => Ok(node),
            other => Err(Error::new(
                Code(type_code),
                format!(
                    "{name} requires 'field' to evaluate to type String, but got {}",
                    other.kind().name()
                ),
            )),
        },
        Node::Field(path) => Err(Error::new(
            Code(path_code),
            format!(
                "'$CURRENT.{0}' is a field path reference which is not allowed in this context. Did \
                 you mean {{$literal: '$CURRENT.{0}'}}?",
                path.join(".")
            ),
        )),
        _ => Err(computed),
    }
}

fn parse_get_field(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let codes = (5654600, 5654601, 5654602);
    let operator_inside =
        |doc: value::RawDoc<'_>| doc.first().is_some_and(|(name, _)| name.starts_with('$'));
    let doc = match value {
        Val::Document(doc) if !operator_inside(doc) => doc,
        short => {
            let field = constant_name("$getField", short, parser, codes)?;
            let input = parser.parse(Val::String("$$CURRENT"))?;
            return operator.call(parser, vec![field, input]);
        }
    };
    let (mut field, mut input) = (None, None);
    for (name, operand) in doc {
        match name {
            "field" => field = Some(operand.get()),
            "input" => input = Some(parser.leniently(|parser| parser.parse(operand.get()))?),
            unknown => {
                return Err(Error::new(
                    Code(3041701),
                    format!("$getField found an unknown argument: {unknown}"),
                ));
            }
        }
    }
    let field = field
        .ok_or_else(|| Error::new(Code(3041702), "$getField requires 'field' to be specified"))?;
    let input = input
        .ok_or_else(|| Error::new(Code(3041703), "$getField requires 'input' to be specified"))?;
    let field = constant_name("$getField", field, parser, codes)?;
    parser.leniently(|parser| operator.call(parser, vec![field, input]))
}

fn get_field<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    let (field, input) = pair(values);
    Ok(match (field, input) {
        (Val::String(name), Val::Document(doc)) => doc.get(name).unwrap_or(Val::Missing),
        (_, Val::Null | Val::Undefined) => Val::Null,
        _ => Val::Missing,
    })
}

fn parse_set_field(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let name = operator.name;
    let sets = name == "$setField";
    let Val::Document(doc) = value else {
        return Err(Error::new(
            Code(4161100),
            format!("{name} only supports an object as its argument"),
        ));
    };
    let (mut field, mut input, mut new) = (None, None, None);
    for (argument, operand) in doc {
        match argument {
            "field" => field = Some(operand.get()),
            "input" => input = Some(parser.leniently(|parser| parser.parse(operand.get()))?),
            "value" if sets => new = Some(parser.leniently(|parser| parser.parse(operand.get()))?),
            unknown => {
                return Err(Error::new(
                    Code(4161101),
                    format!("{name} found an unknown argument: {unknown}"),
                ));
            }
        }
    }
    let missing = |code: i32, what: &str| {
        Error::new(Code(code), format!("{name} requires '{what}' to be specified"))
    };
    let field = field.ok_or_else(|| missing(4161102, "field"))?;
    if sets && new.is_none() {
        return Err(missing(4161103, "value"));
    }
    let input = input.ok_or_else(|| missing(4161109, "input"))?;
    let field = constant_name(name, field, parser, (4161108, 4161106, 4161107))?;
    let mut arguments = vec![field, input];
    arguments.extend(new);
    parser.leniently(|parser| operator.call(parser, arguments))
}

/// The document with one field set, or removed if the new value is missing. Without a document the
/// value is not evaluated.
fn set_field<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let operator = call.operator.name;
    let (field, input) = (call.argument(0, env)?, call.argument(1, env)?);
    if input.is_nullish() {
        return Ok(Val::Null);
    }
    let new = call.argument(2, env)?;
    let (Val::Document(doc), Val::String(field)) = (input, field) else {
        return Err(Error::new(
            Code(4161105),
            format!("{operator} requires 'input' to evaluate to type Object"),
        ));
    };
    env.document(|out| {
        let mut found = false;
        for (name, value) in doc {
            if name == field {
                found = true;
                out.append(name, new);
            } else {
                out.raw(name, value);
            }
        }
        if !found {
            out.append(field, new);
        }
    })
}
