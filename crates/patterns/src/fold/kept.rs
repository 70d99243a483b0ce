//! What a ranking keeps of each child: some of its fields, as a find with that projection returns
//! them, or all of them.

use bumpalo::Bump;
use query::ParseContext;
use query::project::{Mode, Projection};
use value::{DocBuf, OwnedVal, RawDoc, Result, Val};

/// The fields that are kept of a child.
#[derive(Debug)]
pub struct KeptFields {
    /// The projection; `None` keeps the whole child.
    projection: Option<Projection>,
    /// The name of the child's `_id`.
    id_as: String,
    /// Whether fields inside of the `_id` are kept besides it.
    inside_id: bool,
}

impl KeptFields {
    /// Compiles a list of paths; `None` keeps the whole child. The `_id` is always kept, under
    /// this name.
    ///
    /// # Errors
    /// What a find answers to a projection of these paths.
    pub fn new(fields: Option<&[&str]>, id_as: &str) -> Result<KeptFields> {
        let named = DocBuf::build(|out| {
            let fields = fields.unwrap_or(&[]);
            // Without a field the projection would be one of all fields.
            if !fields.iter().any(|path| path.starts_with("_id.")) {
                out.i32("_id", 1);
            }
            for path in fields.iter().filter(|path| **path != "_id") {
                out.i32(path, 1);
            }
        });
        let projection = match fields {
            None => None,
            Some(_) => Some(Projection::parse(named.as_doc(), &ParseContext::new(0), Mode::Find)?),
        };
        let inside_id = named.as_doc().find("_id").is_none();
        Ok(KeptFields { projection, id_as: id_as.to_owned(), inside_id })
    }

    /// What is kept of a child.
    ///
    /// # Errors
    /// None that a plain projection can have.
    pub(super) fn of(&self, child: RawDoc<'_>, arena: &Bump) -> Result<OwnedVal> {
        let mut bytes = Vec::new();
        let fields = match &self.projection {
            None => child,
            Some(projection) => {
                projection.apply(child, None, arena, &mut bytes)?;
                RawDoc::new(&bytes)
            }
        };
        let kept = DocBuf::build(|out| {
            if let Some(id) = child.find("_id") {
                out.raw(&self.id_as, id);
            }
            let is_own = |name: &str| (name == "_id" && !self.inside_id) || name == self.id_as;
            for (name, value) in fields.iter().filter(|(name, _)| !is_own(name)) {
                out.raw(name, value);
            }
        });
        Ok(OwnedVal::new(Val::Document(kept.as_doc())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn kept(fields: Option<&[&str]>, id_as: &str, child: &str) -> DocBuf {
        let child = ejson::parse_doc(child).expect("test text");
        let kept = KeptFields::new(fields, id_as).expect("a projection");
        let value = kept.of(child.as_doc(), &Bump::new()).expect("a document");
        DocBuf::from(value.get().as_doc().expect("a document"))
    }

    #[test]
    fn fields_are_those_of_a_find() {
        let fields: &[&str] = &["v", "who.name"];
        for (child, expected) in [
            ("{_id: 1, who: {name: 'a', x: 1}, v: 2}", "{_id: 1, who: {name: 'a'}, v: 2}"),
            ("{_id: 1, v: 2}", "{_id: 1, v: 2}"),
            ("{_id: 1, who: 5}", "{_id: 1}"),
            ("{_id: 1, who: null, v: null}", "{_id: 1, v: null}"),
            ("{_id: 1, who: {}}", "{_id: 1, who: {}}"),
            ("{_id: 1, who: [{name: 'a', x: 1}, 5, {x: 2}]}", "{_id: 1, who: [{name: 'a'}, {}]}"),
            ("{_id: 1, who: [[{name: 'a', y: 1}], 3]}", "{_id: 1, who: [[{name: 'a'}]]}"),
            ("{_id: 1, who: []}", "{_id: 1, who: []}"),
            ("{_id: 1, who: {name: [1, {a: 2}]}}", "{_id: 1, who: {name: [1, {a: 2}]}}"),
        ] {
            let expected = ejson::parse_doc(expected).expect("test text");
            assert_eq!(kept(Some(fields), "_id", child), expected, "{child}");
        }
    }

    #[test]
    fn the_id_has_the_declared_name() {
        let child = "{_id: {a: 1, b: 2}, id: 3, v: 4}";
        let expect = |fields, id_as, expected: &str| {
            let expected = ejson::parse_doc(expected).expect("test text");
            assert_eq!(kept(fields, id_as, child), expected);
        };
        expect(Some(&[]), "_id", "{_id: {a: 1, b: 2}}");
        expect(Some(&["_id"]), "r", "{r: {a: 1, b: 2}}");
        expect(Some(&["_id.b", "v"]), "r", "{r: {a: 1, b: 2}, _id: {b: 2}, v: 4}");
        expect(None, "_id", child);
        expect(None, "r", "{r: {a: 1, b: 2}, id: 3, v: 4}");
        expect(None, "id", "{id: {a: 1, b: 2}, v: 4}");
    }
}
