//! Which faces a command names ([`crate::catalog::faces`]). Pipelines look for themselves, where
//! they are resolved.

use super::Command;
use crate::catalog::{Catalog, faces};
use crate::operation::Operation;
use crate::request::Request;
use crate::shared::Inner;
use patterns::shape::Named;
use query::ParseContext;
use query::project::{Mode, Projection};
use value::{DocBuf, OwnedVal, RawDoc, Val};

/// Notes the faces that a command names of its collections.
pub(super) fn note(
    engine: &Inner,
    op: &Operation,
    command: &Command,
    db: &str,
    request: &Request<'_>,
) {
    let catalog = engine.data.catalog.load();
    if catalog.is_shaped {
        let named = of_command(&catalog, command, db, request);
        if named != Named::default() {
            op.name_faces(named);
        }
    }
}

fn of_command(catalog: &Catalog, command: &Command, db: &str, request: &Request<'_>) -> Named {
    let mut named = Named::default();
    // An explained command is in its first field.
    let body = match request.body.first() {
        Some(("explain", inner)) => inner.as_doc().unwrap_or(request.body),
        _ => request.body,
    };
    let mut collections = Vec::new();
    match command.name {
        "bulkWrite" => {
            let lists = request.sequences.iter().filter(|s| s.name == "nsInfo");
            let in_body = body.get("nsInfo").and_then(Val::as_array).unwrap_or(RawDoc::empty());
            let infos = in_body.iter().filter_map(|(_, info)| info.as_doc());
            for info in infos.chain(lists.flat_map(|list| list.iter())) {
                let name = info.get("ns").and_then(Val::as_str).unwrap_or("");
                let Some((db, name)) = name.split_once('.') else { continue };
                collections.extend(catalog.get(db, name));
            }
        }
        "aggregate" => return named,
        _ => {
            let first = body.first().and_then(|(_, value)| value.get().as_str());
            collections.extend(first.and_then(|name| catalog.get(db, name)));
        }
    }
    let shapes = collections.into_iter().filter_map(|collection| collection.shapes.as_ref());
    for face in shapes.flat_map(|shapes| shapes.faces()) {
        if is_named(command.name, body, request, face) {
            named.add(face, is_shown(body, face));
        }
    }
    named
}

/// Whether a command names a face. Of documents to insert only the top level counts.
fn is_named(command: &str, body: RawDoc<'_>, request: &Request<'_>, face: &str) -> bool {
    if command == "insert" {
        let lists = request.sequences.iter().flat_map(|sequence| sequence.iter());
        let in_body = body.get("documents").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let mut documents = in_body.iter().filter_map(|(_, doc)| doc.as_doc()).chain(lists);
        return documents.any(|doc| doc.find(face).is_some());
    }
    let names = |doc: RawDoc<'_>| faces::names(OwnedVal::new(Val::Document(doc)).raw(), face);
    let mut lists = request.sequences.iter().flat_map(|sequence| sequence.iter());
    body.iter().any(|(_, value)| faces::names(value, face)) || lists.any(names)
}

/// Whether a command names a face elsewhere than in its filter and sort.
fn is_shown(body: RawDoc<'_>, face: &str) -> bool {
    let finds = matches!(body.first(), Some(("find" | "findAndModify" | "findandmodify", _)));
    let projection = body.find("projection").or(body.find("fields"));
    !finds || projection.is_some_and(|projection| faces::names(projection, face))
}

/// Returns the projection that leaves out the faces that a command names only to find documents;
/// `None` if the one that it has does so.
pub(super) fn hiding(
    op: &Operation,
    projection: Option<RawDoc<'_>>,
    context: &ParseContext<'_>,
) -> Option<DocBuf> {
    let faces = op.faces_to_hide();
    let only_id = |doc: RawDoc<'_>| matches!(doc.first(), Some(("_id", id)) if doc.count() == 1 && id.get().truthy());
    if faces.is_empty() || projection.is_some_and(only_id) {
        return None;
    }
    let made = DocBuf::build(|out| {
        out.extend(projection.unwrap_or(RawDoc::empty()));
        faces.iter().for_each(|face| {
            out.i32(face, 0);
        });
    });
    // A projection that lists what it includes allows no exclusion, and needs none.
    Projection::parse(made.as_doc(), context, Mode::Find).is_ok().then_some(made)
}
