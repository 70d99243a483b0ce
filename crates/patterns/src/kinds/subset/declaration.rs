//! Declarations of the kind `subset`.

use super::{Rows, SubsetOptions, grouped};
use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::fold::Folded;
use crate::kinds::computed::declaration::{filter_of, relation, window_of};
use crate::paths;
use value::{DocBuf, Result, Val};

pub(crate) fn parse(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    if options.get("cold").is_some() || options.get("inlineBelow").is_some() {
        return super::vertical::declaration::parse(options, collection);
    }
    let from = options.required_text("from")?;
    let into = options.path("into")?.ok_or_else(|| options.missing("into"))?;
    let (local, foreign) = relation(options)?;
    let sort = options.document("sort")?.ok_or_else(|| options.missing("sort"))?;
    options.check_sort("sort", sort)?;
    let limit = options.positive("limit")?.ok_or_else(|| options.missing("limit"))?;
    if limit > 10_000 {
        return Err(options.bad("'limit' cannot be above 10000"));
    }
    let fields = kept_fields(options)?;
    let id_as = options.path("idAs")?.unwrap_or("_id");
    if id_as.contains('.') {
        return Err(options.bad("'idAs' must be a plain field name"));
    }
    let meets = |field: &&str| paths::meet(field, id_as) && !(id_as == "_id" && *field == "_id");
    if fields.as_deref().unwrap_or(&[]).iter().any(meets) {
        return Err(options.bad(format!("'idAs' and 'fields' both name '{id_as}'")));
    }
    let count = options.path("count")?;
    let filter = options.document("filter")?;
    let mut reads = vec![foreign.to_owned()];
    let compiled = filter_of(filter, &mut reads)?;
    let (window, meant) = window_of(options, &mut reads)?.unzip();
    let options = SubsetOptions {
        from,
        collection,
        local,
        foreign,
        sort,
        limit,
        fields: fields.as_deref(),
        id_as,
        into,
        count,
    };
    let fold = grouped(&options, compiled, meant, reads)?;
    let declared = DocBuf::build(|out| {
        out.str("into", into).str("from", from).doc("on", |out| {
            out.str("local", local).str("foreign", foreign);
        });
        if let Some(filter) = filter {
            out.append("filter", Val::Document(filter));
        }
        if let Some(window) = window {
            out.append("window", Val::Document(window));
        }
        out.append("sort", Val::Document(sort)).count("limit", limit as u64);
        match &fields {
            None => out.str("fields", "*"),
            Some(fields) => out.array("fields", |list| {
                fields.iter().for_each(|path| list.push(Val::String(path)));
            }),
        };
        out.str("idAs", id_as);
        if let Some(count) = count {
            out.str("count", count);
        }
    });
    let kind = Box::new(Folded { fold, form: Rows });
    Ok(Parsed { kind, target: collection.to_owned(), declared })
}

/// The paths that are kept of each child; `None` for all of it.
fn kept_fields<'a>(options: &mut Options<'a>) -> Result<Option<Vec<&'a str>>> {
    let list = match options.get("fields") {
        None | Some(Val::String("*")) => return Ok(None),
        Some(Val::Array(list)) => list,
        Some(_) => return Err(options.bad("'fields' must be an array of paths or '*'")),
    };
    let mut fields: Vec<&str> = Vec::new();
    for (_, field) in list {
        let path = field.get().as_str().filter(|path| *path != "*");
        let Some(path) = path else {
            return Err(options.bad("'fields' must be an array of paths or '*'"));
        };
        options.check_path("fields", path)?;
        // As in a projection, a path cannot lead into another one.
        if let Some(known) = fields.iter().find(|known| paths::meet(known, path)) {
            return Err(options.bad(match *known == path {
                true => format!("'fields' names '{path}' twice"),
                false => format!("'fields' names both '{known}' and '{path}'"),
            }));
        }
        fields.push(path);
    }
    Ok(Some(fields))
}
