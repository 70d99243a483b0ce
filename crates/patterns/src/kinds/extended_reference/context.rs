//! The places of references and their copies: the documents that hold both, which may be elements
//! of arrays.

use value::path::{Part, Path};
use value::{DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Val, Writer, keys};

/// The paths of a reference and of its copies.
#[derive(Debug)]
pub struct ReferencePaths {
    /// The path of references.
    pub reference: Path,
    /// The path of copies.
    pub into: Path,
    /// The common part of both paths; it may lead through arrays.
    common: Vec<Part>,
    /// The rest of the path to the reference.
    pub rest_reference: Path,
    /// The rest of the path to the copies; empty if they are beside the reference.
    pub rest_into: Path,
}

impl ReferencePaths {
    /// Compiles the declared paths.
    ///
    /// # Errors
    /// BadValue if copies would be inside the reference.
    pub fn new(reference: &str, into: &str) -> Result<ReferencePaths> {
        let (reference, into) = (Path::new(reference), Path::new(into));
        let same = reference.parts().iter().zip(into.parts()).take_while(|(a, b)| a == b).count();
        if same >= reference.parts().len() {
            return Err(Error::bad_value(
                "'into' cannot be 'ref' or a field inside of it: the reference belongs to the client",
            ));
        }
        let rest = |path: &Path| {
            let names: Vec<&str> = path.parts().iter().skip(same).map(|part| &*part.name).collect();
            Path::new(&names.join("."))
        };
        let common = reference.parts().iter().take(same).cloned().collect();
        let (rest_reference, rest_into) = (rest(&reference), rest(&into));
        Ok(ReferencePaths { reference, into, common, rest_reference, rest_into })
    }

    /// Returns the document with each document that may hold a reference replaced by the result of
    /// `change`.
    ///
    /// # Errors
    /// Errors of `change`.
    pub fn rewrite(
        &self,
        doc: RawDoc<'_>,
        change: &mut dyn FnMut(RawDoc<'_>) -> Result<DocBuf>,
    ) -> Result<DocBuf> {
        rewrite(doc, &self.common, change)
    }

    /// Visits references: the value, and the document that holds its copies.
    pub fn visit(&self, doc: RawDoc<'_>, visit: &mut dyn FnMut(Val<'_>, RawDoc<'_>)) {
        contexts(doc, &self.common, &mut |context| {
            let reference = self.rest_reference.find(context).map_or(Val::Missing, RawVal::get);
            let into = if self.rest_into.text().is_empty() {
                Some(RawVal { kind: 0x03, bytes: context.bytes() })
            } else {
                self.rest_into.find(context)
            };
            if let Val::Array(list) = reference {
                let held = into.and_then(RawVal::as_array).unwrap_or(RawDoc::empty());
                for ((_, reference), (_, held)) in list.iter().zip(held.iter()) {
                    visit(reference.get(), held.as_doc().unwrap_or(RawDoc::empty()));
                }
            } else if !reference.is_nullish() {
                visit(reference, into.and_then(RawVal::as_doc).unwrap_or(RawDoc::empty()));
            }
        });
    }

    /// Visits the documents that hold copies, whatever the references are. An empty array of
    /// copies counts as an empty document.
    pub fn visit_copies(&self, doc: RawDoc<'_>, visit: &mut dyn FnMut(RawDoc<'_>)) {
        contexts(doc, &self.common, &mut |context| {
            if self.rest_into.text().is_empty() {
                return visit(context);
            }
            let Some(held) = self.rest_into.find(context) else { return };
            if let Some(at) = held.as_doc() {
                visit(at);
            } else if let Some(row) = held.as_array() {
                if row.is_empty() {
                    visit(RawDoc::empty());
                }
                row.iter().filter_map(|(_, element)| element.as_doc()).for_each(&mut *visit);
            }
        });
    }

    /// The document without the array elements that hold this reference; `None` if it is not in an
    /// array.
    #[must_use]
    pub fn without(&self, doc: RawDoc<'_>, encoded: &[u8]) -> Option<DocBuf> {
        let is = |value: Option<RawVal<'_>>| value.is_some_and(|v| keys::key(v.get()) == *encoded);
        let mut in_array = false;
        let image = strip(doc, &self.common, &mut in_array, &|context| {
            is(self.rest_reference.find(context))
        });
        if in_array {
            return Some(image);
        }
        // An array of references: removes the reference and its copies.
        let list = self.reference.find(doc)?.as_array()?;
        let copies = self.into.find(doc).and_then(RawVal::as_array).unwrap_or(RawDoc::empty());
        let keep: Vec<bool> =
            list.iter().map(|(_, value)| keys::key(value.get()) != *encoded).collect();
        let kept = |array: RawDoc<'_>| {
            let mut bytes = Vec::new();
            value::writer::write_array(&mut bytes, |out| {
                for ((_, value), keep) in array.iter().zip(&keep) {
                    if *keep {
                        out.push_raw(value);
                    }
                }
            });
            OwnedVal::new(Val::Array(RawDoc::new(&bytes)))
        };
        let changes =
            [(self.reference.clone(), Some(kept(list))), (self.into.clone(), Some(kept(copies)))];
        crate::edit::assign(doc, &changes).ok()
    }
}

fn contexts(doc: RawDoc<'_>, way: &[Part], visit: &mut dyn FnMut(RawDoc<'_>)) {
    let Some((part, rest)) = way.split_first() else { return visit(doc) };
    let Some(value) = doc.find(&part.name) else { return };
    if let Some(inner) = value.as_doc() {
        contexts(inner, rest, visit);
    } else if let Some(array) = value.as_array() {
        array
            .iter()
            .filter_map(|(_, element)| element.as_doc())
            .for_each(|d| contexts(d, rest, visit));
    }
}

fn rewrite(
    doc: RawDoc<'_>,
    way: &[Part],
    change: &mut dyn FnMut(RawDoc<'_>) -> Result<DocBuf>,
) -> Result<DocBuf> {
    let Some((part, rest)) = way.split_first() else { return change(doc) };
    let mut bytes = Vec::with_capacity(doc.bytes().len() + 64);
    let mut out = Writer::start(&mut bytes);
    for (name, value) in doc {
        if name != &*part.name {
            out.raw(name, value);
        } else if let Some(inner) = value.as_doc() {
            let image = rewrite(inner, rest, change)?;
            // Documents that become empty by the removal of copies are removed.
            if !image.as_doc().is_empty() || inner.is_empty() {
                out.append(name, Val::Document(image.as_doc()));
            }
        } else if let Some(array) = value.as_array() {
            let mut elements = Vec::new();
            for (_, element) in array {
                elements.push(match element.as_doc() {
                    Some(inner) => {
                        OwnedVal::new(Val::Document(rewrite(inner, rest, change)?.as_doc()))
                    }
                    None => OwnedVal::new(element.get()),
                });
            }
            out.array(name, |out| elements.iter().for_each(|element| out.push_raw(element.raw())));
        } else {
            out.raw(name, value);
        }
    }
    out.finish();
    Ok(DocBuf::from_bytes(bytes))
}

/// The document without the array elements on the path that `matches` selects.
fn strip(
    doc: RawDoc<'_>,
    way: &[Part],
    in_array: &mut bool,
    matches: &dyn Fn(RawDoc<'_>) -> bool,
) -> DocBuf {
    let Some((part, rest)) = way.split_first() else { return DocBuf::from(doc) };
    DocBuf::build(|out| {
        for (name, value) in doc {
            if name != &*part.name {
                out.raw(name, value);
            } else if let Some(inner) = value.as_doc() {
                let image = strip(inner, rest, in_array, matches);
                out.append(name, Val::Document(image.as_doc()));
            } else if let Some(array) = value.as_array() {
                out.array(name, |out| {
                    for (_, element) in array {
                        match element.as_doc() {
                            Some(inner) if rest.is_empty() => {
                                if matches(inner) {
                                    *in_array = true;
                                } else {
                                    out.push_raw(element);
                                }
                            }
                            Some(inner) => {
                                // The innermost array decides: a document on the path that holds
                                // the reference causes its element to be removed.
                                let mut deeper = false;
                                let image = strip(inner, rest, &mut deeper, matches);
                                let direct = !deeper && holds(inner, rest, matches);
                                *in_array |= deeper || direct;
                                if !direct {
                                    out.push_doc_bytes(image.bytes());
                                }
                            }
                            None => out.push_raw(element),
                        }
                    }
                });
            } else {
                out.raw(name, value);
            }
        }
    })
}

fn holds(doc: RawDoc<'_>, way: &[Part], matches: &dyn Fn(RawDoc<'_>) -> bool) -> bool {
    let mut found = false;
    contexts(doc, way, &mut |context| found |= matches(context));
    found
}
