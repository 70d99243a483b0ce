//! Declarations of the kind `tree`.

use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::kinds::tree::{NodeDelete, Tree, TreePath};
use crate::paths;
use query::ParseContext;
use query::expr::Expr;
use value::path::Path;
use value::{DocBuf, RawDoc, Result, Val};

pub(crate) fn parse(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let parent = options.path("parent")?.unwrap_or("parent");
    let id = options.path("id")?.unwrap_or("_id");
    let scope = options.path("scope")?;
    let order = options.path("order")?;
    let wanted = options.document("maintain")?.ok_or_else(|| options.missing("maintain"))?;
    let mut reads = vec![parent.to_owned(), id.to_owned()];
    reads.extend(scope.map(str::to_owned));
    reads.extend(order.map(str::to_owned));
    let (mut ancestors, mut path, mut depth) = (None, None, None);
    let (mut child_count, mut descendant_count) = (None, None);
    let (mut nested_set, mut dense) = (None, false);
    for (name, value) in wanted {
        match (name, value.get()) {
            (_, Val::Null) => {}
            ("ancestors", Val::String(text)) => ancestors = Some(checked(options, name, text)?),
            ("depth", Val::String(text)) => depth = Some(checked(options, name, text)?),
            ("childCount", Val::String(text)) => child_count = Some(checked(options, name, text)?),
            ("descendantCount", Val::String(text)) => {
                descendant_count = Some(checked(options, name, text)?);
            }
            ("path", Val::Document(doc)) => path = Some(tree_path(options, doc, &mut reads)?),
            ("path", Val::String(text)) => {
                let doc = path_alone(text);
                path = Some(tree_path(options, doc.as_doc(), &mut reads)?);
            }
            ("nestedSet", Val::Document(doc)) => {
                let (left, right);
                (left, right, dense) = ends(options, doc)?;
                nested_set = Some((left, right));
            }
            ("path" | "nestedSet", _) => {
                return Err(options.bad(format!("'maintain.{name}' must be a document")));
            }
            (other, _) if MAINTAINED.contains(&other) => {
                return Err(options.bad(format!("'maintain.{other}' must be a path")));
            }
            (other, _) => return Err(options.unknown("maintain", other, MAINTAINED)),
        }
    }
    let counts = child_count.is_some() || descendant_count.is_some();
    let follows = ancestors.is_some() || path.is_some() || depth.is_some();
    if !follows && !counts && nested_set.is_none() {
        return Err(options.bad(
            "'maintain' must ask for 'ancestors', 'path', 'depth', 'childCount', \
             'descendantCount' or 'nestedSet'",
        ));
    }
    if order.is_some() && nested_set.is_none() {
        return Err(options.bad("'order' is the order of nested sets: it needs 'nestedSet'"));
    }
    if paths::meet(id, parent) {
        return Err(options.bad("'id' and 'parent' must be different fields"));
    }
    let missing = options.choice("onMissingParent", &["reject", "defer"], &[])?;
    let deleted = options.choice("onDelete", &["restrict", "cascade", "adopt", "root"], &[])?;
    let strategy = options.choice("strategy", &["auto", "copy", "pointer"], &[])?;
    if dense && strategy == "pointer" {
        return Err(options.bad(
            "'maintain.nestedSet.dense' needs 'strategy: copy': no node can tell its numbers from \
             the nodes above it",
        ));
    }
    let declared = DocBuf::build(|out| {
        out.str("parent", parent).str("id", id);
        for (name, path) in [("scope", scope), ("order", order)] {
            if let Some(path) = path {
                out.str(name, path);
            }
        }
        out.doc("maintain", |out| {
            for (name, value) in wanted {
                match value.get() {
                    Val::String(text) if name == "path" => {
                        out.append(name, Val::Document(path_alone(text).as_doc()));
                    }
                    _ => {
                        out.raw(name, value);
                    }
                }
            }
        });
        out.str("onMissingParent", missing).str("onDelete", deleted).str("strategy", strategy);
    });
    let kind = Box::new(Tree {
        collection: collection.to_owned(),
        id: Path::new(id),
        parent: Path::new(parent),
        scope: scope.map(Path::new),
        order: order.map(Path::new),
        ancestors,
        path,
        depth,
        child_count,
        descendant_count,
        nested_set,
        dense,
        defer: missing == "defer",
        pointer: strategy == "pointer",
        on_delete: match deleted {
            "cascade" => NodeDelete::Cascade,
            "adopt" => NodeDelete::Adopt,
            "root" => NodeDelete::Root,
            _ => NodeDelete::Restrict,
        },
        reads,
    });
    Ok(Parsed { kind, target: collection.to_owned(), declared })
}

/// What a tree can maintain.
const MAINTAINED: &[&str] =
    &["ancestors", "path", "depth", "childCount", "descendantCount", "nestedSet"];

/// The long form of a path that is only named.
fn path_alone(into: &str) -> DocBuf {
    DocBuf::build(|out| {
        out.str("into", into);
    })
}

fn checked(options: &Options<'_>, name: &str, path: &str) -> Result<Path> {
    options.check_path(name, path)?;
    Ok(Path::new(path))
}

/// `{lft, rgt, dense}`.
fn ends(options: &Options<'_>, doc: RawDoc<'_>) -> Result<(Path, Path, bool)> {
    let (mut left, mut right, mut dense) = (None, None, false);
    for (name, value) in doc {
        match (name, value.get()) {
            ("lft", Val::String(path)) => left = Some(checked(options, "nestedSet.lft", path)?),
            ("rgt", Val::String(path)) => right = Some(checked(options, "nestedSet.rgt", path)?),
            ("dense", Val::Bool(wanted)) => dense = wanted,
            ("dense", _) => {
                return Err(options.bad("'maintain.nestedSet.dense' must be true or false"));
            }
            (other, _) => {
                return Err(options.unknown("maintain.nestedSet", other, &["lft", "rgt", "dense"]));
            }
        }
    }
    match (left, right) {
        (Some(left), Some(right)) => Ok((left, right, dense)),
        _ => Err(options.missing("maintain.nestedSet.lft' and 'rgt")),
    }
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
                return Err(options.unknown("maintain.path", other, &["into", "sep", "segment"]));
            }
        }
    }
    paths::check_deterministic(segment, "maintain.path.segment")?;
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
