//! Options of kinds of indexes: the conditions allowed in a partial filter, and the combinations
//! allowed with wildcard and hashed fields.

use crate::index_keys::wildcard::{self, Wildcard};
use query::ParseContext;
use query::filter::{Filter, Node, Test};
use value::{Code, Error, RawDoc, Result, Val};

/// Whether options of this storage engine are taken: those of our own, and those of MongoDB's, which
/// applications know.
#[must_use]
pub fn is_own_engine(name: &str) -> bool {
    matches!(name, "motif" | "wiredTiger")
}

/// Checks the option `storageEngine`, which is kept and has no effect.
///
/// # Errors
/// TypeMismatch, BadValue, InvalidOptions.
pub(super) fn check_engine(value: Val<'_>) -> Result<()> {
    let Val::Document(engines) = value else {
        return Err(Error::new(
            Code::CANNOT_CREATE_INDEX,
            "The field 'storageEngine' must be an object",
        ));
    };
    if engines.is_empty() {
        return Err(Error::new(
            Code::CANNOT_CREATE_INDEX,
            "Empty 'storageEngine' options are invalid.",
        ));
    }
    for (engine, options) in engines {
        if options.as_doc().is_none() {
            return Err(Error::bad_value(format!("'storageEngine.{engine}' must be an object")));
        }
        if !is_own_engine(engine) {
            return Err(Error::new(
                Code::INVALID_OPTIONS,
                format!("{engine} is not a registered storage engine for this server"),
            ));
        }
    }
    Ok(())
}

/// Checks a `partialFilterExpression`.
///
/// # Errors
/// CannotCreateIndex for conditions that a partial index does not support, and errors of the
/// filter.
pub fn check_partial(value: Val<'_>) -> Result<()> {
    let Val::Document(doc) = value else {
        return Err(super::spec::wrong_type("partialFilterExpression", "an object", value));
    };
    for name in ["$where", "$text"] {
        if doc.find(name).is_some() {
            return Err(Error::bad_value(format!("{name} is not allowed in this context")));
        }
    }
    let filter = Filter::parse_for_documents(doc, &ParseContext::new(0))?;
    check_node(filter.root())
}

fn check_node(node: &Node) -> Result<()> {
    let name = match node {
        Node::Const(true) => return Ok(()),
        Node::And(nodes) | Node::Or(nodes) => return nodes.iter().try_for_each(check_node),
        Node::Leaf(leaf) => return check_test(&leaf.test),
        Node::Expr(_) => {
            return Err(Error::new(
                Code::QUERY_FEATURE_NOT_ALLOWED,
                "$expr is not allowed in this context",
            ));
        }
        Node::Nor(_) => "$nor",
        Node::Not(_) => "$not",
        Node::ElemMatchObject { .. } | Node::ElemMatchValue { .. } => "$elemMatch",
        _ => "this operator",
    };
    Err(unsupported(name))
}

fn check_test(test: &Test) -> Result<()> {
    let name = match test {
        Test::Eq(_)
        | Test::Lt(_)
        | Test::Lte(_)
        | Test::Gt(_)
        | Test::Gte(_)
        | Test::Exists
        | Test::Type(_) => return Ok(()),
        Test::In { regexes, .. } if regexes.is_empty() => return Ok(()),
        Test::And(tests) => return tests.iter().try_for_each(check_test),
        Test::In { .. } => "$in with a pattern",
        Test::Regex(_) => "$regex",
        Test::Mod { .. } => "$mod",
        Test::Size(_) => "$size",
        Test::Not(_) => "$not",
        _ => "this operator",
    };
    Err(unsupported(name))
}

fn unsupported(name: &str) -> Error {
    Error::new(
        Code::CANNOT_CREATE_INDEX,
        format!("Expression not supported in partial index: {name}"),
    )
}

/// Checks the rules of the kind that the key pattern specifies.
///
/// # Errors
/// CannotCreateIndex, or MongoDB's code of the violated rule.
pub fn check_kind(spec: RawDoc<'_>) -> Result<()> {
    let key = spec.get("key").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    let set = |name| spec.get(name).is_some_and(Val::truthy);
    let refuse = |message: String| Err(Error::new(Code::CANNOT_CREATE_INDEX, message));
    if spec.find("partialFilterExpression").is_some() && set("sparse") {
        return refuse("cannot mix \"partialFilterExpression\" and \"sparse\" options".to_owned());
    }
    let hashed = key.iter().filter(|(_, kind)| kind.get() == Val::String("hashed")).count();
    if hashed > 1 {
        return Err(Error::new(
            Code(31303),
            format!(
                "A maximum of one index field is allowed to be hashed but found {hashed} for \
                 'key' {}",
                crate::index_keys::doc_text(key)
            ),
        ));
    }
    if hashed > 0 && set("unique") {
        return Err(Error::new(
            Code(16764),
            "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.",
        ));
    }
    check_wildcard(spec, key)?;
    crate::index_keys::geo::check(spec, key)?;
    crate::index_keys::text::check(spec, key)
}

fn check_wildcard(spec: RawDoc<'_>, key: RawDoc<'_>) -> Result<()> {
    let refuse = |message: String| Err(Error::new(Code::CANNOT_CREATE_INDEX, message));
    let projection = spec.get("wildcardProjection");
    let is_wild =
        |path: &str, kind: value::RawVal<'_>| wildcard::is_wildcard(path) && kind.get().is_number();
    let found = key.iter().filter(|(path, kind)| is_wild(path, *kind)).count();
    if found == 0 {
        return match projection {
            Some(_) => Err(Error::bad_value(
                "The field 'wildcardProjection' is only allowed in an 'wildcard' index",
            )),
            None => Ok(()),
        };
    }
    if found > 1 {
        return refuse("wildcard indexes do not allow more than one wildcard field".to_owned());
    }
    if let Some((_, kind)) = key.iter().find(|(_, kind)| !kind.get().is_number()) {
        let kind = kind.get().as_str().unwrap_or("").to_owned();
        return refuse(format!("wildcard indexes do not allow compounding with {kind} fields"));
    }
    for name in ["unique", "sparse"] {
        if spec.get(name).is_some_and(Val::truthy) {
            return refuse(format!("Index type 'wildcard' does not support the {name} option"));
        }
    }
    if spec.find("expireAfterSeconds").is_some() {
        return refuse("Index type 'wildcard' cannot be a TTL index".to_owned());
    }
    match projection {
        None => {}
        Some(Val::Document(projection)) => {
            if key.find("$**").is_none() {
                return Err(Error::failed_to_parse(
                    "The field 'wildcardProjection' is only allowed when 'key' is {\"$**\": ±1}",
                ));
            }
            if projection.is_empty() {
                return Err(Error::failed_to_parse(
                    "The 'wildcardProjection' field can't be an empty object",
                ));
            }
        }
        Some(other) => {
            return Err(super::spec::wrong_type("wildcardProjection", "a non-empty object", other));
        }
    }
    let Some(wildcard) = Wildcard::of(spec)? else { return Ok(()) };
    // A value must not occur twice in a key: MongoDB requires a projection that separates them.
    match key.iter().find(|(path, kind)| !is_wild(path, *kind) && wildcard.overlaps(path)) {
        Some((path, _)) => refuse(format!(
            "the wildcard of a compound index must not include the field '{path}', which the key \
             pattern names; leave it out with 'wildcardProjection'"
        )),
        None => Ok(()),
    }
}
