//! Declarations of the kind `extendedReference`.

use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::kinds::extended_reference::values::NestedFields;
use crate::kinds::extended_reference::{Reference, SourceDelete};
use crate::paths;
use query::ParseContext;
use query::expr::Expr;
use value::path::Path;
use value::{DocBuf, Result, Val};

pub(crate) fn parse(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let from = options.required_text("from")?;
    let reference = options.path("ref")?.ok_or_else(|| options.missing("ref"))?;
    let into = options.path("into")?.ok_or_else(|| options.missing("into"))?;
    let matched = options.path("match")?.unwrap_or("_id");
    let list = options.array("fields")?.ok_or_else(|| options.missing("fields"))?;
    let context = ParseContext::new(0);
    let mut fields = Vec::new();
    let mut plain = Vec::new();
    let mut reads = vec![matched.to_owned()];
    for (at, field) in list {
        let (path, expression) = match field.get() {
            Val::String(path) => {
                options.check_path("fields", path)?;
                reads.push(path.to_owned());
                (path, Expr::parse(Val::String(&format!("${path}")), &context)?)
            }
            Val::Document(doc) => {
                let (Some(Val::String(path)), Some(expression), 2) =
                    (doc.get("as"), doc.get("expr"), doc.count())
                else {
                    return Err(options.bad(format!(
                        "'fields.{at}' must be a path or {{as: <path>, expr: <expression>}}"
                    )));
                };
                options.check_path("fields", path)?;
                paths::check_deterministic(expression, &format!("fields.{at}.expr"))?;
                paths::of_expression(expression, &mut reads);
                (path, Expr::parse(expression, &context)?)
            }
            _ => {
                return Err(options.bad(format!("'fields.{at}' must be a path or a document")));
            }
        };
        if paths::meet(&format!("{into}.{path}"), reference) {
            return Err(options.bad(format!(
                "'{into}.{path}' would be the reference itself, which belongs to the client"
            )));
        }
        fields.push((Path::new(path), expression));
        plain.push(field.get().as_str());
    }
    if fields.is_empty() {
        return Err(options.bad("'fields' must name at least one field"));
    }
    let place = Reference::compile_paths(reference, into)?;
    // Paths that meet are refused with all other maintained paths.
    let nested = NestedFields::new(&plain).unwrap_or_default();
    let freshness = options.choice("freshness", &["live", "snapshot"], &[])?;
    let strategy = options.choice("strategy", &["auto", "copy", "pointer"], &[])?;
    let chosen = options.text("chosen")?;
    if chosen.is_some() && strategy != "auto" {
        return Err(options.bad("'chosen' is what 'strategy: auto' came to: it needs that"));
    }
    let pointer = strategy == "pointer" || chosen == Some("pointer");
    if !matches!(chosen, None | Some("copy" | "pointer")) {
        return Err(options.bad("'chosen' must be one of 'copy', 'pointer'"));
    }
    if pointer && freshness == "snapshot" {
        return Err(options.bad(
            "'freshness: snapshot' needs copies: 'strategy: pointer' shows what the source holds \
             now",
        ));
    }
    let missing = options.choice("onMissing", &["allow", "reject"], &[])?;
    if pointer && options.get("onSourceDelete") == Some(Val::String("keep")) {
        return Err(options.bad(
            "'onSourceDelete: keep' needs copies: with 'strategy: pointer' nothing is left of a \
             source that went ('unset', 'restrict' and 'cascade' are possible)",
        ));
    }
    let words: &[&str] = match pointer {
        true => &["unset", "restrict", "cascade"],
        false => &["keep", "unset", "restrict", "cascade"],
    };
    let deleted = options.choice("onSourceDelete", words, &[])?;
    let declared = DocBuf::build(|out| {
        out.str("ref", reference).str("from", from).str("match", matched);
        out.append("fields", Val::Array(list)).str("into", into);
        out.str("freshness", freshness).str("strategy", strategy);
        if strategy == "auto" {
            out.str("chosen", if pointer { "pointer" } else { "copy" });
        }
        out.str("onMissing", missing).str("onSourceDelete", deleted);
    });
    let kind = Box::new(Reference {
        source: from.to_owned(),
        matched: Path::new(matched),
        place,
        fields,
        nested,
        live: freshness == "live",
        pointer,
        automatic: strategy == "auto",
        reject_missing: missing == "reject",
        on_delete: match deleted {
            "unset" => SourceDelete::Unset,
            "restrict" => SourceDelete::Restrict,
            "cascade" => SourceDelete::Cascade,
            _ => SourceDelete::Keep,
        },
        reads,
    });
    Ok(Parsed { kind, target: collection.to_owned(), declared })
}
