//! The attributes of a document as an array of pairs: `[{k: "cpu", v: "i7"}]`. The array is not
//! stored (`layout` stores another one). Statements that name its field see it, and may write it.

use super::layout::StoredPairs;
use super::pairs::pairs;
use super::{Attribute, From};
use crate::edit::{self, Assignment};
use crate::shape::{Pin, Reader, Shape, ShapeView};
use std::collections::BTreeSet;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Val};

/// A key and its values, in the order of the pairs.
type Group<'d> = (String, Vec<RawVal<'d>>);

impl Shape for Attribute {
    fn level(&self) -> i64 {
        // Pairs are made of canonical attributes.
        i64::MAX
    }

    fn has_form(&self, pin: Pin) -> bool {
        pin == Pin::AsStored
    }

    fn depends_on_reader(&self) -> bool {
        false
    }

    fn face(&self) -> Option<&str> {
        self.face.as_deref()
    }

    fn path_of_pair(&self, key: &str) -> Option<String> {
        self.names(key).then(|| self.from.path_of(key))
    }

    fn view(&self, reader: &Reader) -> Result<Option<Box<dyn ShapeView>>> {
        if let (Some(Pin::AsStored), Some(stored)) = (reader.pinned, &self.stored) {
            let roots = self.from.roots().iter().map(|path| path.text().to_owned());
            let differs = roots.chain(self.face.clone()).collect();
            return Ok(Some(Box::new(AsStored { stored: stored.clone(), differs })));
        }
        let Some(face) = self.face.clone().filter(|face| reader.named.has(face)) else {
            return Ok(None);
        };
        Ok(Some(Box::new(View { attribute: self.clone(), differs: [face] })))
    }
}

/// The view of a statement that names the array.
struct View {
    attribute: Attribute,
    /// The field of the array.
    differs: [String; 1],
}

impl ShapeView for View {
    fn show(&self, canonical: RawDoc<'_>) -> Result<Option<DocBuf>> {
        let [face] = &self.differs;
        let Some(found) = pairs(&self.attribute, canonical)? else {
            let hidden = canonical.find(face).is_some();
            return Ok(hidden.then(|| without(canonical, face)));
        };
        Ok(Some(DocBuf::build(|out| {
            for (name, value) in canonical.iter().filter(|(name, _)| name != face) {
                out.raw(name, value);
            }
            out.array(face, |out| {
                for (key, value) in &found {
                    out.push_doc(|out| {
                        out.str("k", key).raw("v", *value);
                    });
                }
            });
        })))
    }

    fn accept(&self, before: Option<RawDoc<'_>>, image: RawDoc<'_>) -> Result<DocBuf> {
        Ok(self.attribute.without_face(before, image)?.unwrap_or_else(|| image.into()))
    }

    fn differs_at(&self) -> &[String] {
        &self.differs
    }
}

/// The view of a reader that asks for stored documents.
struct AsStored {
    stored: StoredPairs,
    differs: Vec<String>,
}

impl ShapeView for AsStored {
    fn show(&self, stored: RawDoc<'_>) -> Result<Option<DocBuf>> {
        Ok(self.stored.shown(stored))
    }

    fn accept(&self, _: Option<RawDoc<'_>>, _: RawDoc<'_>) -> Result<DocBuf> {
        Err(Error::internal("stored documents are only read"))
    }

    fn reads_stored(&self) -> bool {
        true
    }

    fn differs_at(&self) -> &[String] {
        &self.differs
    }
}

fn without(doc: RawDoc<'_>, field: &str) -> DocBuf {
    DocBuf::build(|out| {
        for (name, value) in doc.iter().filter(|(name, _)| *name != field) {
            out.raw(name, value);
        }
    })
}

fn refused(message: String) -> Error {
    Error::new(Code::PATTERN_VIOLATION, message)
}

/// The pairs in an array that a client wrote.
fn given<'d>(face: &str, value: RawVal<'d>) -> Result<Vec<(String, RawVal<'d>)>> {
    let odd =
        || refused(format!("'{face}' must be an array of documents with the fields 'k' and 'v'"));
    let mut found = Vec::new();
    for (_, pair) in value.as_array().ok_or_else(odd)? {
        let pair = pair.as_doc().ok_or_else(odd)?;
        let (Some(Val::String(key)), Some(value), 2) =
            (pair.get("k"), pair.find("v"), pair.count())
        else {
            return Err(odd());
        };
        found.push((key.to_owned(), value));
    }
    Ok(found)
}

/// The values of each key, in the order of the first pair of each.
fn grouped(pairs: Vec<(String, RawVal<'_>)>) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for (key, value) in pairs {
        let at = *known.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        if let Some((_, values)) = groups.get_mut(at) {
            values.push(value);
        }
    }
    groups
}

/// Whether two lists have the same values, bit for bit.
fn same_values(one: &[RawVal<'_>], other: &[RawVal<'_>]) -> bool {
    let same = |(a, b): (&RawVal<'_>, &RawVal<'_>)| a.kind == b.kind && a.bytes == b.bytes;
    one.len() == other.len() && one.iter().zip(other).all(same)
}

/// The values of a key in the other pairs.
fn of_key<'g, 'd>(groups: &'g [Group<'d>], key: &str) -> &'g [RawVal<'d>] {
    groups.iter().find(|(known, _)| known == key).map_or(&[], |(_, values)| values)
}

/// Whether two lists of pairs have the same values for each key.
fn agree(one: &[Group<'_>], other: &[Group<'_>]) -> bool {
    let sorted = |groups: &[Group<'_>]| {
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by(|a, b| groups.get(*a).map(|g| &g.0).cmp(&groups.get(*b).map(|g| &g.0)));
        order
    };
    let pairs = sorted(one).into_iter().zip(sorted(other));
    one.len() == other.len()
        && pairs.into_iter().all(|(a, b)| match (one.get(a), other.get(b)) {
            (Some((key, values)), Some((same, others))) => {
                key == same && same_values(values, others)
            }
            _ => false,
        })
}

impl Attribute {
    /// The document that is stored for one in which the array may stand; `None` if it does not.
    /// What differs between the array and that of `before` becomes a change of the attributes.
    ///
    /// # Errors
    /// PatternViolation when the array has another form, or contradicts the attributes.
    pub(super) fn without_face(
        &self,
        before: Option<RawDoc<'_>>,
        image: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        let Some(face) = &self.face else { return Ok(None) };
        let Some(written) = image.find(face) else { return Ok(None) };
        let wanted = grouped(given(face, written)?);
        let base = without(image, face);
        let of = |doc| pairs(self, doc).map(|found| found.map(grouped));
        let present = of(base.as_doc())?;
        if let Some(present) = &present {
            if agree(present, &wanted) {
                return Ok(Some(base));
            }
            if before.is_none_or(|before| !self.same_roots(before, base.as_doc())) {
                // A document that was read before and brings new attributes also brings its pairs.
                let old = before.map(of).transpose()?.flatten();
                if old.is_some_and(|old| agree(&old, &wanted)) {
                    return Ok(Some(base));
                }
                return Err(self.contradiction(face));
            }
        } else if self.from.roots().iter().any(|path| path.find(base.as_doc()).is_some()) {
            // What is there is no object, and cannot be what the pairs say.
            return if wanted.is_empty() { Ok(Some(base)) } else { Err(self.contradiction(face)) };
        }
        let changes = self.changes(face, present.as_deref().unwrap_or(&[]), &wanted)?;
        let start = match (&self.from, &present) {
            (From::Object(path), None) if path.is_single() => in_place(image, face, path.text()),
            (From::Object(path), None) => {
                let empty = OwnedVal::new(Val::Document(RawDoc::empty()));
                edit::assign(base.as_doc(), &[(path.clone(), Some(empty))])?
            }
            _ => base,
        };
        let made = edit::assign(start.as_doc(), &changes)?;
        match &self.from {
            // Without any attribute left the object is empty, not missing.
            From::Object(path) if path.find(made.as_doc()).is_none() => {
                let empty = OwnedVal::new(Val::Document(RawDoc::empty()));
                edit::assign(start.as_doc(), &[(path.clone(), Some(empty))]).map(Some)
            }
            _ => Ok(Some(made)),
        }
    }

    /// The changes of attributes that make these pairs of others.
    fn changes(
        &self,
        face: &str,
        present: &[Group<'_>],
        wanted: &[Group<'_>],
    ) -> Result<Vec<Assignment>> {
        let path = |key: &str| Path::new(&self.from.path_of(key));
        let mut changes: Vec<Assignment> = present
            .iter()
            .filter(|(key, _)| of_key(wanted, key).is_empty())
            .map(|(key, _)| (path(key), None))
            .collect();
        let keys: BTreeSet<&str> = wanted.iter().map(|(key, _)| &**key).collect();
        for (key, values) in wanted {
            if same_values(of_key(present, key), values) {
                continue;
            }
            self.check_key(face, key)?;
            let mut outer = key.match_indices('.').filter_map(|(at, _)| key.get(..at));
            let below = format!("{key}.");
            let inner = keys.range(below.as_str()..).next().is_some_and(|k| k.starts_with(&below));
            if inner || outer.any(|outer| keys.contains(outer)) {
                return Err(refused(format!(
                    "'{face}' has the key '{key}' and one inside of it or around it"
                )));
            }
            let value = match values.as_slice() {
                [only] => OwnedVal::new(only.get()),
                _ if !self.keeps_duplicates => {
                    return Err(refused(format!(
                        "'{face}' has the key '{key}' more than once ('duplicates' is 'reject')"
                    )));
                }
                all => {
                    let mut bytes = Vec::new();
                    value::writer::write_array(&mut bytes, |out| {
                        all.iter().for_each(|value| out.push_raw(*value));
                    });
                    OwnedVal::new(Val::Array(RawDoc::new(&bytes)))
                }
            };
            changes.push((path(key), Some(value)));
        }
        Ok(changes)
    }

    /// Refuses keys that name no attribute.
    fn check_key(&self, face: &str, key: &str) -> Result<()> {
        let odd = |part: &str| part.is_empty() || part.starts_with('$');
        if key.split('.').any(odd) || key.contains('\0') {
            return Err(refused(format!("'{key}' in '{face}' cannot be the key of an attribute")));
        }
        match self.names(key) {
            true => Ok(()),
            false => Err(refused(format!("'{key}' in '{face}' is not one of the declared keys"))),
        }
    }

    /// Whether two documents have the same bytes where the attributes are.
    fn same_roots(&self, one: RawDoc<'_>, other: RawDoc<'_>) -> bool {
        let bytes = |path: &Path, doc| {
            path.find(doc).map(|value: RawVal<'_>| (value.kind, value.bytes.to_vec()))
        };
        self.from.roots().iter().all(|path| bytes(path, one) == bytes(path, other))
    }

    fn contradiction(&self, face: &str) -> Error {
        let names: Vec<&str> = self.from.roots().iter().map(Path::text).collect();
        refused(format!(
            "'{face}' and the attributes in '{}' contradict each other: write one of them",
            names.join("', '")
        ))
    }
}

/// The document with an empty object in the place of the array.
fn in_place(image: RawDoc<'_>, face: &str, root: &str) -> DocBuf {
    DocBuf::build(|out| {
        for (name, value) in image.iter().filter(|(name, _)| *name != root) {
            match name == face {
                true => out.append(root, Val::Document(RawDoc::empty())),
                false => out.raw(name, value),
            };
        }
    })
}
