//! `$rename`: source and target of the value, both outside arrays.

use crate::show::show;
use value::{Code, Error, RawDoc, RawVal, Result};

/// One rename.
#[derive(Debug)]
pub(super) struct Rename {
    pub(super) from: Box<str>,
    pub(super) to: Box<str>,
}

impl Rename {
    /// The value that is moved, if there is one.
    pub(super) fn find<'d>(&self, doc: RawDoc<'d>) -> Result<Option<RawVal<'d>>> {
        let source = walk_documents(doc, &self.from, "source", true)?;
        if source.is_some() {
            walk_documents(doc, &self.to, "destination", false)?;
            if *self.to == *"_id" && doc.find("_id").is_some() {
                return Err(super::immutable_id());
            }
        }
        Ok(source)
    }
}

/// The value at one end of a rename. Positions in arrays are found and then refused.
fn walk_documents<'d>(
    doc: RawDoc<'d>,
    path: &str,
    role: &str,
    strict: bool,
) -> Result<Option<RawVal<'d>>> {
    let mut here = doc;
    let mut array = None;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let found = match array {
            None => here.find(part),
            Some(_) => {
                let place = part.parse().ok();
                place.and_then(|place| here.iter().nth(place)).map(|(_, value)| value)
            }
        };
        let Some(value) = found else { return Ok(None) };
        let Some(next) = parts.peek() else { return refuse_array(doc, path, role, array, value) };
        match (value.as_doc(), value.as_array()) {
            (Some(inner), _) => {
                if array.is_some() {
                    return refuse_array(doc, path, role, array, value);
                }
                here = inner;
            }
            (_, Some(inner)) if !strict || next.bytes().all(|b| b.is_ascii_digit()) => {
                array = Some(part);
                if !strict {
                    return refuse_array(doc, path, role, array, value);
                }
                here = inner;
            }
            _ if strict => {
                return Err(Error::new(
                    Code::PATH_NOT_VIABLE,
                    format!(
                        "cannot use the part ({part} of {path}) to traverse the element ({{{part}: \
                         {}}})",
                        show(value.get())
                    ),
                ));
            }
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// The value, unless its path contains an array.
fn refuse_array<'d>(
    doc: RawDoc<'d>,
    path: &str,
    role: &str,
    array: Option<&str>,
    value: RawVal<'d>,
) -> Result<Option<RawVal<'d>>> {
    let Some(array) = array else { return Ok(Some(value)) };
    let id = doc.get("_id").map_or_else(String::new, show);
    Err(Error::bad_value(format!(
        "The {role} field cannot be an array element, '{path}' in doc with _id: {id} has an array \
         field called '{array}'"
    )))
}
