//! The options of the vertical form of `subset`.

use super::Vertical;
use super::layout::ColdFields;
use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::paths;
use value::{DocBuf, Result, Val};

/// Values below this size stay in their document by default.
const INLINE_BELOW: usize = 512;

/// The most cold fields of a pattern.
const FIELDS_MAX: usize = 100;

/// Options of the other form of `subset`.
static OTHER_FORM: &[&str] =
    &["from", "into", "on", "sort", "limit", "filter", "fields", "idAs", "count", "window"];

pub(in crate::kinds::subset) fn parse(
    options: &mut Options<'_>,
    collection: &str,
) -> Result<Parsed> {
    if options.get("cold").is_none() {
        return Err(options.bad("'inlineBelow' needs 'cold', the fields that are stored apart"));
    }
    for name in OTHER_FORM {
        if options.get(name).is_some() {
            return Err(options.bad(format!(
                "'{name}' and 'cold' exclude each other: 'cold' lists fields of the collection's \
                 own documents"
            )));
        }
    }
    let list = options.array("cold")?.ok_or_else(|| options.missing("cold"))?;
    let mut fields: Vec<&str> = Vec::new();
    for (_, field) in list {
        let Some(path) = field.get().as_str() else {
            return Err(options.bad("'cold' must be an array of paths"));
        };
        options.check_path("cold", path)?;
        if paths::meet(path, "_id") {
            return Err(options.bad("'cold' cannot name '_id', which finds the document"));
        }
        if let Some(known) = fields.iter().find(|known| paths::meet(known, path)) {
            return Err(options.bad(match *known == path {
                true => format!("'cold' names '{path}' twice"),
                false => format!("'cold' names both '{known}' and '{path}'"),
            }));
        }
        fields.push(path);
    }
    if fields.is_empty() {
        return Err(options.bad("'cold' must name at least one field"));
    }
    if fields.len() > FIELDS_MAX {
        return Err(options.bad(format!("'cold' cannot name more than {FIELDS_MAX} fields")));
    }
    let inline_below = options.positive("inlineBelow")?.unwrap_or(INLINE_BELOW);
    let declared = DocBuf::build(|out| {
        out.array("cold", |list| fields.iter().for_each(|path| list.push(Val::String(path))));
        out.count("inlineBelow", inline_below as u64);
    });
    let kind = Box::new(Vertical(ColdFields::new(&fields, inline_below)));
    Ok(Parsed { kind, target: collection.to_owned(), declared })
}
