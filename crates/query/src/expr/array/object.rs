//! `$arrayToObject`: pairs of name and value become a document.

use super::super::Env;
use super::super::arithmetic::pair;
use crate::show::show;
use value::{Code, Error, RawDoc, Result, Val};

pub(super) fn array_to_object<'a>(values: &[Val<'a>], env: &Env<'a>) -> Result<Val<'a>> {
    let array = match pair(values).0 {
        Val::Array(array) => array,
        value if value.is_nullish() => return Ok(Val::Null),
        other => {
            return Err(Error::new(
                Code(40386),
                format!("$arrayToObject requires an array input, found: {}", other.kind().name()),
            ));
        }
    };
    let mut fields: Vec<(&'a str, Val<'a>)> = Vec::new();
    let mut places: hashbrown::HashMap<&'a str, usize> = hashbrown::HashMap::new();
    let first = array.first().map(|(_, value)| value.get());
    for (_, element) in array {
        let (name, value) = match (first, element.get()) {
            (Some(Val::Array(_)), Val::Array(element)) => from_array(element)?,
            (Some(Val::Document(_)), Val::Document(element)) => from_document(element)?,
            (Some(Val::Array(_)), other) => return Err(inconsistent(40396, "Array", other)),
            (Some(Val::Document(_)), other) => return Err(inconsistent(40391, "Object", other)),
            (_, other) => {
                return Err(Error::new(
                    Code(40398),
                    format!(
                        "Unrecognised input type format for $arrayToObject: {}",
                        other.kind().name()
                    ),
                ));
            }
        };
        if name.contains('\0') {
            let code = if matches!(first, Some(Val::Array(_))) { 4940400 } else { 4940401 };
            return Err(Error::new(Code(code), "Key field cannot contain an embedded null byte"));
        }
        match places.get(name).and_then(|at| fields.get_mut(*at)) {
            Some(field) => field.1 = value,
            None => {
                places.insert(name, fields.len());
                fields.push((name, value));
            }
        }
    }
    env.document(|out| {
        for (name, value) in &fields {
            out.append(name, *value);
        }
    })
}

fn inconsistent(code: i32, detected: &str, found: Val<'_>) -> Error {
    Error::new(
        Code(code),
        format!(
            "$arrayToObject requires a consistent input format. Elements mustall be arrays or all \
             be objects. {detected} was detected, now found: {}",
            found.kind().name()
        ),
    )
}

/// `[name, value]`.
fn from_array(element: RawDoc<'_>) -> Result<(&str, Val<'_>)> {
    let mut elements = element.iter().map(|(_, value)| value.get());
    let (Some(name), Some(value), None) = (elements.next(), elements.next(), elements.next())
    else {
        return Err(Error::new(
            Code(40397),
            format!(
                "$arrayToObject requires an array of size 2 arrays,found array of size: {}",
                element.count()
            ),
        ));
    };
    let Val::String(name) = name else {
        return Err(Error::new(
            Code(40395),
            format!(
                "$arrayToObject requires an array of key-value pairs, where the key must be of type \
                 string. Found key type: {}",
                name.kind().name()
            ),
        ));
    };
    Ok((name, value))
}

/// `{k: name, v: value}`.
fn from_document(element: RawDoc<'_>) -> Result<(&str, Val<'_>)> {
    if element.count() != 2 {
        return Err(Error::new(
            Code(40392),
            format!(
                "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of \
                 keys:{}",
                element.count()
            ),
        ));
    }
    let (Some(name), Some(value)) = (element.get("k"), element.get("v")) else {
        return Err(Error::new(
            Code(40393),
            format!(
                "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both \
                 keys from: {}",
                show(Val::Document(element))
            ),
        ));
    };
    let Val::String(name) = name else {
        return Err(Error::new(
            Code(40394),
            format!(
                "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' \
                 must be of type string. Found type: {}",
                name.kind().name()
            ),
        ));
    };
    Ok((name, value))
}
