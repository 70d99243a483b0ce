//! Declarations of the kind `tree`.

use super::Parsed;
use super::options::Options;
use crate::paths;
use crate::pattern::Behaviour;
use crate::tree::{NodeDelete, Tree, TreePath};
use query::ParseContext;
use query::expr::Expr;
use value::path::Path;
use value::{DocBuf, RawDoc, Result, Val};

pub(super) fn parse(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let parent = options.path("parent")?.unwrap_or("parent");
    if options.path("id")?.is_some_and(|id| id != "_id") {
        return Err(options.later("an 'id' other than '_id'"));
    }
    for name in ["scope", "order"] {
        if options.get(name).is_some() {
            return Err(options.later(format!("'{name}'")));
        }
    }
    let wanted = options.document("maintain")?.ok_or_else(|| options.missing("maintain"))?;
    let mut reads = vec![parent.to_owned()];
    let (mut ancestors, mut path, mut depth) = (None, None, None);
    for (name, value) in wanted {
        match (name, value.get()) {
            (_, Val::Null) => {}
            ("ancestors", Val::String(text)) => ancestors = Some(checked(options, name, text)?),
            ("depth", Val::String(text)) => depth = Some(checked(options, name, text)?),
            ("path", Val::Document(doc)) => path = Some(tree_path(options, doc, &mut reads)?),
            ("childCount", _) => {
                return Err(options.later(
                    "'maintain.childCount' (a computed pattern with $count over the same \
                     collection gives it)",
                ));
            }
            ("descendantCount" | "nestedSet", _) => {
                return Err(options.later(format!("'maintain.{name}'")));
            }
            (other, _) => {
                return Err(options.bad(format!("'maintain.{other}' is not understood")));
            }
        }
    }
    if ancestors.is_none() && path.is_none() && depth.is_none() {
        return Err(options.bad("'maintain' must ask for 'ancestors', 'path' or 'depth'"));
    }
    let missing = options.choice("onMissingParent", &["reject", "defer"], &[])?;
    let deleted = options.choice("onDelete", &["restrict", "cascade", "adopt", "root"], &[])?;
    let strategy = options.choice("strategy", &["auto", "copy"], &["pointer"])?;
    let shown = DocBuf::build(|out| {
        out.str("parent", parent).str("id", "_id");
        out.append("maintain", Val::Document(wanted));
        out.str("onMissingParent", missing).str("onDelete", deleted).str("strategy", strategy);
    });
    let behaviour = Behaviour::Tree(Tree {
        parent: Path::new(parent),
        ancestors,
        path,
        depth,
        defer: missing == "defer",
        on_delete: match deleted {
            "cascade" => NodeDelete::Cascade,
            "adopt" => NodeDelete::Adopt,
            "root" => NodeDelete::Root,
            _ => NodeDelete::Restrict,
        },
        reads,
    });
    Ok(Parsed { behaviour, target: collection.to_owned(), shown })
}

fn checked(options: &Options<'_>, name: &str, path: &str) -> Result<Path> {
    options.check_path(name, path)?;
    Ok(Path::new(path))
}

/// `{into, sep, segment}`.
fn tree_path(options: &Options<'_>, doc: RawDoc<'_>, reads: &mut Vec<String>) -> Result<TreePath> {
    let (mut into, mut separator) = (None, ",".to_owned());
    let mut segment = Val::String("$_id");
    for (name, value) in doc {
        match (name, value.get()) {
            ("into", Val::String(path)) => {
                into = Some(checked(options, "maintain.path.into", path)?)
            }
            ("sep", Val::String(text)) if !text.is_empty() => separator = text.to_owned(),
            ("segment", value) => segment = value,
            (other, _) => {
                return Err(options.bad(format!("'maintain.path.{other}' is not understood")));
            }
        }
    }
    paths::check_steady(segment, "maintain.path.segment")?;
    paths::of_expression(segment, reads);
    // Segments are text, as $toString makes it.
    let text = DocBuf::build(|out| {
        out.append("$toString", segment);
    });
    Ok(TreePath {
        into: into.ok_or_else(|| options.missing("maintain.path.into"))?,
        separator,
        segment: Expr::parse(Val::Document(text.as_doc()), &ParseContext::new(0))?,
    })
}
