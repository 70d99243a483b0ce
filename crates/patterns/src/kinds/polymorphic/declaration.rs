//! Declarations of the kind `polymorphic`.

use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::types::frame::{self, Frame};
use crate::types::options::{Declared, TYPES_MAX, check_name, make_type, schema};
use value::{DocBuf, RawDoc, Result};

pub(crate) fn parse(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let discriminator = frame::discriminator(options)?;
    let common = options.document("common")?.unwrap_or(RawDoc::empty());
    let common = Declared::parse(options, "common", common, &[])?;
    let given = options.document("types")?.ok_or_else(|| options.missing("types"))?;
    let mut declared = Vec::new();
    for (name, value) in given {
        check_name(options, name)?;
        let Some(doc) = value.as_doc() else {
            return Err(options.bad(format!("'types.{name}' must be a document")));
        };
        if declared.iter().any(|(known, _)| *known == name) {
            return Err(options.bad(format!("'types' has '{name}' twice")));
        }
        declared.push((name, Declared::parse(options, &format!("types.{name}"), doc, &[])?));
    }
    if declared.is_empty() || declared.len() > TYPES_MAX {
        return Err(options.bad(format!("'types' must have from 1 to {TYPES_MAX} types")));
    }
    let parts = declared.iter().map(|(_, of)| of).chain([&common]);
    frame::check_apart(options, "discriminator", discriminator, parts)?;
    let common_schema = schema(options, "common", None, &[&common])?;
    let mut all = Vec::new();
    for (at, (name, of)) in declared.iter().enumerate() {
        let mut of = make_type(options, name, &[&common, of])?;
        of.members.push(at);
        of.condition = DocBuf::build(|out| {
            out.str(discriminator, name);
        });
        all.push(of);
    }
    let frame = Frame {
        collection,
        discriminator,
        path_field: None,
        common: common_schema,
        common_indexes: common.indexes.clone(),
    };
    frame::finish(options, frame, all, &|out| {
        out.doc("common", |out| common.write(out));
        out.doc("types", |out| {
            for (name, of) in &declared {
                out.doc(name, |out| of.write(out));
            }
        });
    })
}
