//! The document that an upsert starts from: the equalities of its query.

use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

/// The paths and values that a query requires to be equal.
type Equalities<'d> = Vec<(&'d str, Val<'d>)>;

/// Builds the document. With `only_id`, for a replacement, it has only the `_id`.
pub(super) fn start_document(filter: RawDoc<'_>, only_id: bool) -> Result<DocBuf> {
    let mut equalities = Vec::new();
    collect(filter, only_id, &mut equalities)?;
    // `_id` comes first, then the paths in their order, as in MongoDB.
    equalities.sort_by_key(|(path, _)| (path.split('.').next() != Some("_id"), *path));
    let mut root = Vec::new();
    for (path, value) in equalities {
        insert(&mut root, path, value);
    }
    let mut bytes = Vec::new();
    let mut writer = Writer::start(&mut bytes);
    write(&root, &mut writer);
    writer.finish();
    Ok(DocBuf::from_bytes(bytes))
}

fn collect<'d>(filter: RawDoc<'d>, only_id: bool, out: &mut Equalities<'d>) -> Result<()> {
    for (name, value) in filter {
        match name {
            "$and" => {
                for (_, branch) in value.as_array().into_iter().flatten() {
                    if let Some(branch) = branch.as_doc() {
                        collect(branch, only_id, out)?;
                    }
                }
            }
            "$or" => {
                let mut branches = value.as_array().into_iter().flatten();
                if let (Some((_, only)), None) = (branches.next(), branches.next())
                    && let Some(branch) = only.as_doc()
                {
                    collect(branch, only_id, out)?;
                }
            }
            "$expr" => {
                return Err(Error::new(
                    Code::QUERY_FEATURE_NOT_ALLOWED,
                    "$expr is not allowed in the query predicate for an upsert",
                ));
            }
            operator if operator.starts_with('$') => {}
            path => collect_field(path, value.get(), only_id, out)?,
        }
    }
    Ok(())
}

fn collect_field<'d>(
    path: &'d str,
    value: Val<'d>,
    only_id: bool,
    out: &mut Equalities<'d>,
) -> Result<()> {
    let operators = match value {
        Val::Regex(..) => return Ok(()),
        Val::Document(doc) if doc.first().is_some_and(|(name, _)| is_operator(name)) => doc,
        plain => return add(path, plain, only_id, out),
    };
    for (operator, operand) in operators {
        match operator {
            "$eq" => add(path, operand.get(), only_id, out)?,
            "$in" => {
                let mut values = operand.as_array().into_iter().flatten();
                if let (Some((_, only)), None) = (values.next(), values.next())
                    && !matches!(only.get(), Val::Regex(..))
                {
                    add(path, only.get(), only_id, out)?;
                }
            }
            "$all" => {
                for (_, one) in operand.as_array().into_iter().flatten() {
                    let condition = one
                        .as_doc()
                        .is_some_and(|doc| doc.first().is_some_and(|(name, _)| is_operator(name)));
                    if !condition && !matches!(one.get(), Val::Regex(..)) {
                        add(path, one.get(), only_id, out)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a field of a condition is an operator; references (`$ref`, `$id`, `$db`) are values.
fn is_operator(name: &str) -> bool {
    name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db")
}

fn add<'d>(path: &'d str, value: Val<'d>, only_id: bool, out: &mut Equalities<'d>) -> Result<()> {
    if only_id && path != "_id" {
        if path.starts_with("_id.") {
            return Err(Error::new(
                Code::NOT_EXACT_VALUE_FIELD,
                format!(
                    "field at '_id' must be exactly specified, field at sub-path '{path}'found"
                ),
            ));
        }
        return Ok(());
    }
    super::modifier::check_path_length(path)?;
    let below = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('.'));
    for (known, _) in out.iter() {
        if *known == path {
            return Err(Error::new(
                Code::NOT_SINGLE_VALUE_FIELD,
                format!("cannot infer query fields to set, path '{path}' is matched twice"),
            ));
        }
        if below(path, known) || below(known, path) {
            return Err(Error::new(
                Code::NOT_SINGLE_VALUE_FIELD,
                format!(
                    "cannot infer query fields to set, both paths '{path}' and '{known}' are matched"
                ),
            ));
        }
    }
    out.push((path, value));
    Ok(())
}

enum Field<'d> {
    Value(Val<'d>),
    Inside(Vec<(&'d str, Field<'d>)>),
}

fn insert<'d>(fields: &mut Vec<(&'d str, Field<'d>)>, path: &'d str, value: Val<'d>) {
    let Some((name, rest)) = path.split_once('.') else {
        fields.push((path, Field::Value(value)));
        return;
    };
    if let Some((_, Field::Inside(inner))) = fields.iter_mut().find(|(known, _)| *known == name) {
        insert(inner, rest, value);
        return;
    }
    let mut inner = Vec::new();
    insert(&mut inner, rest, value);
    fields.push((name, Field::Inside(inner)));
}

fn write(fields: &[(&str, Field<'_>)], out: &mut Writer<'_>) {
    for (name, field) in fields {
        match field {
            Field::Value(value) => {
                out.append(name, *value);
            }
            Field::Inside(inner) => {
                let token = out.open(name, false);
                write(inner, out);
                out.close(token);
            }
        }
    }
}
