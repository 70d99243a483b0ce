//! Applies a projection: elements are copied as bytes; only changed elements are rewritten.

use super::Projection;
use super::tree::{Action, Field, Kind, Slice, Tree};
use crate::expr::Env;
use crate::filter::Test;
use crate::interrupt;
use smallvec::SmallVec;
use value::writer::{close, open, write_index, write_value};
use value::{Code, Error, RawDoc, RawVal, Result, Val};

const DOCUMENT: u8 = 0x03;
const ARRAY: u8 = 0x04;

/// The constants of one projected document.
pub(super) struct Run<'r, 'a> {
    pub(super) kind: Kind,
    pub(super) env: &'r Env<'a>,
    pub(super) position: Option<usize>,
}

/// Which operators still apply at the current depth of the document.
#[derive(Clone, Copy)]
struct Scope {
    /// No array was reduced to its matched element yet.
    positional: bool,
    /// Not inside an array of arrays, where `$slice` does not reach.
    slices: bool,
}

impl<'a> Run<'_, 'a> {
    /// Appends the projected document.
    pub(super) fn root(
        &self,
        projection: &'a Projection,
        doc: RawDoc<'a>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.document(&projection.tree, doc, Scope { positional: true, slices: true }, out)
    }

    fn document(
        &self,
        tree: &'a Tree,
        doc: RawDoc<'a>,
        scope: Scope,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = open(out);
        let mut seen: SmallVec<[bool; 16]> = SmallVec::from_elem(false, tree.fields.len());
        let mut left = tree.fields.len();
        let mut elements = doc.iter();
        loop {
            let before = elements.rest();
            let Some((name, value)) = elements.next_bytes() else { break };
            let element = before.get(..before.len() - elements.rest().len()).unwrap_or(&[]);
            match tree.find(name) {
                None if self.kind == Kind::Inclusion => {}
                None => out.extend_from_slice(element),
                Some((at, field)) => {
                    let handled = self.field(field, value, element, scope, out)?;
                    if handled && let Some(flag @ false) = seen.get_mut(at) {
                        *flag = true;
                        left -= 1;
                    }
                    // Later elements cannot matter. (Of a repeated name only the first is kept.)
                    if left == 0 && self.kind == Kind::Inclusion {
                        break;
                    }
                }
            }
        }
        if tree.computes || self.kind == Kind::Inclusion {
            self.append_new(tree, doc, &seen, out)?;
        }
        close(out, start);
        Ok(())
    }

    /// Writes a field that the projection names; false if it comes after all others.
    fn field(
        &self,
        field: &'a Field,
        value: RawVal<'a>,
        element: &[u8],
        scope: Scope,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        match &field.action {
            Action::Exclude => {}
            Action::Include | Action::Inside(_)
                if field.positional && scope.positional && value.as_array().is_some() =>
            {
                self.matched_element(field, value, out)?;
            }
            Action::Include => out.extend_from_slice(element),
            Action::Inside(tree) => {
                if self.kind == Kind::Exclusion
                    && value.as_doc().is_none()
                    && value.as_array().is_none()
                {
                    out.extend_from_slice(element);
                } else {
                    let mark = header(out, value.kind, &field.name);
                    if !self.inside(tree, value, scope, mark, out)? {
                        out.truncate(mark);
                    }
                }
            }
            Action::Compute(expr) => {
                if self.kind != Kind::AddFields {
                    return Ok(false);
                }
                append(out, &field.name, expr.eval(self.env)?);
            }
            Action::Slice(slice) => match value.as_array() {
                Some(array) if scope.slices => {
                    header(out, ARRAY, &field.name);
                    write_slice(*slice, array, out);
                }
                _ => out.extend_from_slice(element),
            },
            Action::ElemMatch(test) => {
                if self.kind == Kind::Inclusion {
                    return Ok(false);
                }
                write_first_match(test, &field.name, value, out)?;
            }
        }
        Ok(true)
    }

    /// Writes the value of a field whose inner fields are named; its header is at `mark`. Returns
    /// false if nothing remains of it.
    fn inside(
        &self,
        tree: &'a Tree,
        value: RawVal<'a>,
        scope: Scope,
        mark: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        if let Some(doc) = value.as_doc() {
            self.document(tree, doc, scope, out)?;
            return Ok(true);
        }
        if let Some(array) = value.as_array() {
            self.array(tree, array, scope, out)?;
            return Ok(true);
        }
        match self.kind {
            Kind::Exclusion => {
                out.extend_from_slice(value.bytes);
                Ok(true)
            }
            // A plain value is replaced by a document if a field inside it is computed.
            _ if tree.computes => {
                if let Some(kind) = out.get_mut(mark) {
                    *kind = DOCUMENT;
                }
                self.document(tree, RawDoc::empty(), scope, out)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn array(
        &self,
        tree: &'a Tree,
        array: RawDoc<'a>,
        scope: Scope,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = open(out);
        let mut next = 0;
        for (_, element) in array {
            interrupt::check()?;
            let mark = out.len();
            out.push(element.kind);
            write_index(out, next);
            out.push(0);
            let scope = Scope { slices: scope.slices && element.as_array().is_none(), ..scope };
            if self.inside(tree, element, scope, mark, out)? {
                next += 1;
            } else {
                out.truncate(mark);
            }
        }
        close(out, start);
        Ok(())
    }

    /// The positional `$`: an array of the element that the filter matched.
    fn matched_element(
        &self,
        field: &'a Field,
        value: RawVal<'a>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(position) = self.position else {
            return Err(Error::new(
                Code(51246),
                "positional operator '.$' couldn't find a matching element in the array",
            ));
        };
        let mismatch = || Error::new(Code(51247), "positional operator '.$' element mismatch");
        let element = value.as_array().and_then(|array| array.iter().nth(position));
        let (_, element) = element.ok_or_else(mismatch)?;
        header(out, ARRAY, &field.name);
        let start = open(out);
        let mark = header(out, element.kind, "0");
        match &field.action {
            Action::Inside(tree) => {
                let scope = Scope { positional: false, slices: true };
                if !self.inside(tree, element, scope, mark, out)? {
                    return Err(mismatch());
                }
            }
            _ => out.extend_from_slice(element.bytes),
        }
        close(out, start);
        Ok(())
    }

    /// Appends computed fields that did not exist, in the order of the specification.
    fn append_new(
        &self,
        tree: &'a Tree,
        doc: RawDoc<'a>,
        seen: &[bool],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        for (field, seen) in tree.fields.iter().zip(seen) {
            if *seen {
                continue;
            }
            match &field.action {
                Action::Compute(expr) => append(out, &field.name, expr.eval(self.env)?),
                Action::Inside(tree) if tree.computes => {
                    header(out, DOCUMENT, &field.name);
                    let scope = Scope { positional: false, slices: true };
                    self.document(tree, RawDoc::empty(), scope, out)?;
                }
                Action::ElemMatch(test) if self.kind == Kind::Inclusion => {
                    if let Some(value) = doc.find(&field.name) {
                        write_first_match(test, &field.name, value, out)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Writes type and name. Returns the position of the type byte.
fn header(out: &mut Vec<u8>, kind: u8, name: &str) -> usize {
    let mark = out.len();
    out.push(kind);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    mark
}

fn append(out: &mut Vec<u8>, name: &str, value: Val<'_>) {
    if !value.is_missing() {
        header(out, value.kind() as u8, name);
        write_value(out, value);
    }
}

fn write_slice(slice: Slice, array: RawDoc<'_>, out: &mut Vec<u8>) {
    let (from, to) = slice.bounds(array.count());
    let start = open(out);
    for (at, (_, element)) in array.iter().enumerate().take(to).skip(from) {
        out.push(element.kind);
        write_index(out, at - from);
        out.push(0);
        out.extend_from_slice(element.bytes);
    }
    close(out, start);
}

fn write_first_match(test: &Test, name: &str, value: RawVal<'_>, out: &mut Vec<u8>) -> Result<()> {
    let Some((_, element)) = test.first_element(value)? else { return Ok(()) };
    header(out, ARRAY, name);
    let start = open(out);
    header(out, element.kind, "0");
    out.extend_from_slice(element.bytes);
    close(out, start);
    Ok(())
}
