//! Folds over the elements of an array: each element counts as a document in which it stands in
//! place of the array, as behind `$unwind`.
//!
//! Without unwinding, a key inside of an array has one value for each element, but an expression
//! over another field of the elements has one value for all of them (`Siblings`).

use super::grouped::Fold;
use super::groups::Child;
use value::path::{Part, Path};
use value::{Error, RawDoc, RawVal, Result, Val, Writer};

/// The array of the children whose elements are folded.
#[derive(Debug)]
pub struct Unwind {
    /// Its path.
    path: Path,
    /// The top-level fields that are read; `None` for all.
    names: Option<Vec<String>>,
}

impl Unwind {
    /// Compiles a path. `reads` are the paths that are read of an unwound document.
    #[must_use]
    pub fn new(path: &str, reads: &[String]) -> Unwind {
        let mut names = vec!["_id".to_owned()];
        for read in reads.iter().map(String::as_str).chain([path]) {
            let name = read.split('.').next().unwrap_or("");
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        let names = (!reads.iter().any(String::is_empty)).then_some(names);
        Unwind { path: Path::new(path), names }
    }

    /// The path.
    pub(crate) fn path(&self) -> &str {
        self.path.text()
    }

    /// Visits the unwound documents, with the positions of their elements. A value that is no
    /// array is an element; null and missing are none.
    pub(super) fn each(
        &self,
        doc: RawDoc<'_>,
        visit: &mut dyn FnMut(u32, RawDoc<'_>) -> Result<()>,
    ) -> Result<()> {
        let value = match self.path.find(doc) {
            Some(value) if !value.get().is_nullish() => value,
            _ => return Ok(()),
        };
        let Some(array) = value.as_array() else { return visit(0, doc) };
        let mut bytes = Vec::new();
        for (at, (_, element)) in array.iter().enumerate() {
            self.write_unwound(doc, element, &mut bytes);
            visit(u32::try_from(at).unwrap_or(u32::MAX), RawDoc::new(&bytes))?;
        }
        Ok(())
    }

    fn write_unwound(&self, doc: RawDoc<'_>, element: RawVal<'_>, bytes: &mut Vec<u8>) {
        bytes.clear();
        let mut out = Writer::start(bytes);
        let is_read = |name: &str| {
            self.names.as_ref().is_none_or(|names| names.iter().any(|read| read == name))
        };
        write_with(doc, self.path.parts(), element, &is_read, &mut out);
        out.finish();
    }
}

/// Writes the read fields of a document with the value at a path, which exists, replaced.
fn write_with(
    doc: RawDoc<'_>,
    parts: &[Part],
    element: RawVal<'_>,
    is_read: &dyn Fn(&str) -> bool,
    out: &mut Writer<'_>,
) {
    let Some((part, rest)) = parts.split_first() else { return };
    for (name, value) in doc.iter().filter(|(name, _)| is_read(name)) {
        match value.as_doc().filter(|_| !rest.is_empty()) {
            _ if name != &*part.name => out.raw(name, value),
            Some(inner) => out.doc(name, |out| write_with(inner, rest, element, &|_| true, out)),
            None => out.raw(name, element),
        };
    }
}

impl Fold {
    /// Returns the contributions of a child's elements, each with its position. `horizon` is the
    /// start of the window, if there is one.
    ///
    /// # Errors
    /// Errors of expressions, unless such elements are skipped.
    pub(super) fn elements(
        &self,
        unwind: &Unwind,
        doc: RawDoc<'_>,
        horizon: &[u8],
    ) -> Result<Vec<(u32, Child)>> {
        let mut found = Vec::new();
        unwind.each(doc, &mut |at, element| {
            if let Some(child) = self.child_at(element, Some(at), horizon)? {
                found.push((at, child));
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The number of elements that do not count only because an expression fails on them.
    pub(super) fn skipped_elements(&self, unwind: &Unwind, doc: RawDoc<'_>) -> u64 {
        let mut count = 0;
        let _ = unwind.each(doc, &mut |_, element| {
            count += u64::from(self.is_skipped(element));
            Ok(())
        });
        count
    }

    /// What changes if a child's elements change: those that went, and those that came. An element
    /// that stays at its position is neither.
    pub(super) fn changed_elements(
        old: Vec<(u32, Child)>,
        new: Vec<(u32, Child)>,
    ) -> (Vec<Child>, Vec<Child>) {
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (Some((a, _)), Some((b, _))) => a.cmp(b),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return (gone, come),
            };
            let before = if order.is_le() { old.next() } else { None };
            let after = if order.is_ge() { new.next() } else { None };
            if before != after {
                gone.extend(before.map(|(_, child)| child));
                come.extend(after.map(|(_, child)| child));
            }
        }
    }
}

/// Fields of the elements of an array that also holds the key of a fold.
#[derive(Debug)]
pub struct Siblings(Vec<Sibling>);

/// A field that may be in the same array as the key.
#[derive(Debug)]
struct Sibling {
    path: String,
    /// The number of first parts that it shares with the path of the key.
    common: usize,
}

impl Siblings {
    /// The siblings of a key among the paths that are read.
    #[must_use]
    pub fn new(foreign: &str, reads: &[String]) -> Siblings {
        let key: Vec<&str> = foreign.split('.').collect();
        let sibling = |path: &String| {
            let parts: Vec<&str> = path.split('.').collect();
            let common = key.iter().zip(&parts).take_while(|(a, b)| a == b).count();
            let aside = common > 0 && common < key.len() && common < parts.len();
            aside.then(|| Sibling { path: path.clone(), common })
        };
        Siblings(reads.iter().filter_map(sibling).collect())
    }

    /// Refuses a child with an array that holds both its keys and a field that is read.
    ///
    /// # Errors
    /// BadValue with the array.
    pub(super) fn check(&self, doc: RawDoc<'_>, foreign: &Path) -> Result<()> {
        let most = self.0.iter().map(|sibling| sibling.common).max().unwrap_or(0);
        let mut doc = doc;
        for (at, part) in foreign.parts().iter().take(most).enumerate() {
            let Some(value) = doc.find(&part.name) else { return Ok(()) };
            if let Some(inner) = value.as_doc() {
                doc = inner;
                continue;
            }
            if !matches!(value.get(), Val::Array(_)) {
                return Ok(());
            }
            let Some(sibling) = self.0.iter().find(|s| s.common > at) else { return Ok(()) };
            let array: Vec<&str> = foreign.text().split('.').take(at + 1).collect();
            let array = array.join(".");
            return Err(Error::bad_value(format!(
                "'{array}' is an array: each of its elements has a key in '{}', but '${}' reads all \
                 of them. Declare unwind: '{array}', so that each element counts for itself",
                foreign.text(),
                sibling.path
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{DocBuf, ejson};

    fn unwound(path: &str, reads: &[&str], doc: &str) -> Vec<String> {
        let reads: Vec<String> = reads.iter().map(|read| (*read).to_owned()).collect();
        let doc = ejson::parse_doc(doc).expect("test text");
        let mut found = Vec::new();
        let each = Unwind::new(path, &reads).each(doc.as_doc(), &mut |at, doc| {
            let text = ejson::print(doc, ejson::Format::Shell);
            found.push(format!("{at} {text}"));
            Ok(())
        });
        each.expect("unwinds");
        found
    }

    #[test]
    fn elements_stand_in_place_of_their_array() {
        assert_eq!(
            unwound("i", &["i.p", "s"], "{_id: 1, s: 2, i: [{p: 1, q: 2}, 5, [6], null], z: 3}"),
            [
                "0 { _id: 1, s: 2, i: { p: 1, q: 2 } }",
                "1 { _id: 1, s: 2, i: 5 }",
                "2 { _id: 1, s: 2, i: [6] }",
                "3 { _id: 1, s: 2, i: null }"
            ]
        );
        assert_eq!(
            unwound("a.i", &[""], "{_id: 1, a: {x: 1, i: [2, 3], y: 4}, z: 5}"),
            [
                "0 { _id: 1, a: { x: 1, i: 2, y: 4 }, z: 5 }",
                "1 { _id: 1, a: { x: 1, i: 3, y: 4 }, z: 5 }"
            ]
        );
        assert_eq!(unwound("i", &["i"], "{_id: 1, i: 7, z: 3}").len(), 1);
        for none in ["{_id: 1}", "{_id: 1, i: []}", "{_id: 1, i: null}"] {
            assert!(unwound("i", &["i"], none).is_empty(), "{none}");
        }
        assert!(unwound("a.i", &["a"], "{_id: 1, a: [{i: [1]}]}").is_empty());
    }

    #[test]
    fn arrays_with_keys_and_other_fields_are_refused() {
        let check = |foreign: &str, read: &str, doc: &str| {
            let doc: DocBuf = ejson::parse_doc(doc).expect("test text");
            Siblings::new(foreign, &[read.to_owned()]).check(doc.as_doc(), &Path::new(foreign))
        };
        let array = "{i: [{p: 1, q: 2}]}";
        let error = check("i.p", "i.q", array).expect_err("is ambiguous");
        assert!(error.message().contains("unwind: 'i'"), "{error}");
        assert!(check("i.p", "i.q.r", array).is_err());
        for (foreign, read, doc) in [
            ("i.p", "i.q", "{i: {p: 1, q: 2}}"),
            ("i.p", "i.p", array),
            ("i.p", "i", array),
            ("i.p", "q", array),
            ("i", "i.q", array),
            ("i.p.x", "i.q", "{i: {p: [{x: 1}], q: 2}}"),
        ] {
            assert!(check(foreign, read, doc).is_ok(), "{foreign} {read} {doc}");
        }
        let inner = check("a.i.p", "a.i.q", "{a: {i: [{p: 1, q: 2}]}}").expect_err("is ambiguous");
        assert!(inner.message().contains("unwind: 'a.i'"), "{inner}");
    }
}
