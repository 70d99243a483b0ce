//! Declarations of the kind `inheritance`.

use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::declaration::words;
use crate::paths::meet;
use crate::types::frame::{self, Frame};
use crate::types::options::{Declared, Indexed, TYPES_MAX, check_name, make_type, schema};
use value::{DocBuf, Result, Val, Writer};

/// A type as it is declared.
struct Node<'a> {
    name: &'a str,
    declared: Declared<'a>,
    is_abstract: bool,
    /// The position of the type above it; `None` for the root.
    parent: Option<usize>,
}

/// The options of a type besides those that all kinds of types have.
const OWN: &[&str] = &["name", "extends", "abstract"];

pub(crate) fn parse(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let discriminator = frame::discriminator(options)?;
    let path_field = options.path("pathField")?.unwrap_or("_types");
    if meet(path_field, "_id") || meet(path_field, discriminator) {
        return Err(options
            .bad(format!("'pathField' cannot be '{path_field}': it needs a field of its own")));
    }
    let nodes = nodes(options)?;
    let parts = || nodes.iter().map(|node| &node.declared);
    frame::check_apart(options, "discriminator", discriminator, parts())?;
    if let Some(field) = parts().flat_map(Declared::fields).find(|field| meet(field, path_field)) {
        return Err(options.bad(format!(
            "'pathField' is '{path_field}', which meets the field '{field}' of a type"
        )));
    }
    let mut all = Vec::new();
    for at in 0..nodes.len() {
        let line = line(options, &nodes, at)?;
        let own: Vec<&Node<'_>> = line.iter().filter_map(|at| nodes.get(*at)).collect();
        check_loosening(options, &own)?;
        let Some(node) = own.last() else { continue };
        let parts: Vec<&Declared<'_>> = own.iter().map(|node| &node.declared).collect();
        let mut of = make_type(options, node.name, &parts)?;
        of.is_abstract = node.is_abstract;
        of.path = own.iter().map(|node| node.name.to_owned()).collect();
        of.condition = DocBuf::build(|out| {
            out.str(path_field, node.name);
        });
        all.push(of);
    }
    let lines: Vec<Vec<String>> = all.iter().map(|of| of.path.clone()).collect();
    for of in &mut all {
        let below = lines.iter().enumerate().filter(|(_, line)| line.contains(&of.name));
        of.members = below.map(|(at, _)| at).collect();
    }
    let key = DocBuf::build(|out| {
        out.i32(path_field, 1);
    });
    let frame = Frame {
        collection,
        discriminator,
        path_field: Some(path_field),
        common: schema(options, "root", None, &parts().take(1).collect::<Vec<_>>())?,
        common_indexes: vec![Indexed { key, unique: false }],
    };
    frame::finish(options, frame, all, &|out| {
        out.str("pathField", path_field);
        let names: Vec<&str> = nodes.iter().map(|node| node.name).collect();
        if let Some((root, types)) = nodes.split_first() {
            out.doc("root", |out| write(root, &names, out));
            out.doc("types", |out| {
                for node in types {
                    out.doc(node.name, |out| write(node, &names, out));
                }
            });
        }
    })
}

fn write(node: &Node<'_>, names: &[&str], out: &mut Writer<'_>) {
    match node.parent.and_then(|at| names.get(at)) {
        None => out.str("name", node.name),
        Some(parent) => out.str("extends", parent),
    };
    out.bool("abstract", node.is_abstract);
    node.declared.write(out);
}

/// The root and the other types, in the order of the declaration.
fn nodes<'a>(options: &mut Options<'a>) -> Result<Vec<Node<'a>>> {
    let root = options.document("root")?.ok_or_else(|| options.missing("root"))?;
    let given = options.document("types")?.ok_or_else(|| options.missing("types"))?;
    let Some(Val::String(name)) = root.get("name") else {
        return Err(options.bad("'root.name' must be the name of a type"));
    };
    if root.find("extends").is_some() {
        return Err(options.bad("'root.extends': nothing is above the root"));
    }
    let mut docs = vec![("root".to_owned(), name, root)];
    for (name, value) in given {
        let Some(doc) = value.as_doc() else {
            return Err(options.bad(format!("'types.{name}' must be a document")));
        };
        if doc.find("name").is_some() {
            return Err(options.unknown(
                &format!("types.{name}"),
                "name",
                OWN.get(1..).unwrap_or(OWN),
            ));
        }
        if docs.iter().any(|(_, known, _)| *known == name) {
            return Err(options.bad(format!("'types' has '{name}' twice, or it is the root")));
        }
        docs.push((format!("types.{name}"), name, doc));
    }
    if docs.len() > TYPES_MAX {
        return Err(options.bad(format!("'types' cannot have more than {TYPES_MAX} types")));
    }
    let names: Vec<&str> = docs.iter().map(|(_, name, _)| *name).collect();
    let mut nodes = Vec::new();
    for (at, (place, name, doc)) in docs.into_iter().enumerate() {
        check_name(options, name)?;
        let is_abstract = match doc.get("abstract") {
            None => false,
            Some(Val::Bool(flag)) => flag,
            Some(_) => return Err(options.bad(format!("'{place}.abstract' must be true or false"))),
        };
        let parent = match doc.get("extends") {
            None => (at > 0).then_some(0),
            Some(Val::String(parent)) => {
                Some(names.iter().position(|name| *name == parent).ok_or_else(|| {
                    let hint = words::hint(parent, &names);
                    options
                        .bad(format!("'{place}.extends' is '{parent}', which is not a type{hint}"))
                })?)
            }
            Some(_) => {
                return Err(options.bad(format!("'{place}.extends' must be the name of a type")));
            }
        };
        let declared = Declared::parse(options, &place, doc, OWN)?;
        nodes.push(Node { name, declared, is_abstract, parent });
    }
    Ok(nodes)
}

/// The positions of the types from the root to one of them.
fn line(options: &Options<'_>, nodes: &[Node<'_>], at: usize) -> Result<Vec<usize>> {
    let mut line = vec![at];
    let mut next = nodes.get(at).and_then(|node| node.parent);
    while let Some(above) = next {
        if line.contains(&above) {
            let name = |at: &usize| nodes.get(*at).map_or("", |node| node.name);
            let mut names: Vec<&str> = line.iter().map(name).collect();
            names.push(name(&above));
            return Err(options
                .bad(format!("'types' extend each other in a cycle: '{}'", names.join("' -> '"))));
        }
        line.push(above);
        next = nodes.get(above).and_then(|node| node.parent);
    }
    line.reverse();
    Ok(line)
}

/// Refuses a type that does not require what one above it requires.
fn check_loosening(options: &Options<'_>, line: &[&Node<'_>]) -> Result<()> {
    let Some((node, above)) = line.split_last() else { return Ok(()) };
    for field in &node.declared.optional {
        if let Some(other) = above.iter().find(|other| other.declared.required.contains(field)) {
            return Err(options.bad(format!(
                "'types.{}.optional' has '{field}', which '{}' requires: a type may tighten the \
                 rules of those above it, not loosen them",
                node.name, other.name
            )));
        }
    }
    Ok(())
}
