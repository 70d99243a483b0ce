//! A shape for tests, a step between two versions of a schema. Canonical documents have version
//! `version` and the field `field`, such as `{name: {first: "Ada", last: "Byron"}}`. Readers of the
//! version before have the field `as` in its place, with the parts joined: `{full: "Ada Byron"}`.
//!
//! Every document has both forms: the two names are exchanged, and so are objects of two words and
//! texts of two words. Further fields of the object are not shown; they are kept when a reader of
//! the older version changes the words.

use crate::shape::{Pin, Reader, Shape, ShapeView};
use std::collections::BTreeMap;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Val};

/// The declaration of a step between two versions.
#[derive(Clone, Debug)]
pub struct Renamed {
    /// The canonical version.
    pub(super) version: i64,
    /// The name of the field in the canonical version.
    pub(super) field: String,
    /// Its name in the version before.
    pub(super) older: String,
    /// The versions of applications, by their names.
    pub(super) clients: BTreeMap<String, i64>,
    /// The versions of users, by `database.name`.
    pub(super) users: BTreeMap<String, i64>,
    /// Whether documents are stored in the older version (`renamed_layout`).
    pub(super) stored_older: bool,
}

impl Renamed {
    /// The form of the older version.
    pub(super) fn older(&self) -> OlderForm {
        let (newer, older) = (self.field.clone(), self.older.clone());
        OlderForm { newer, older, differs: self.differs() }
    }

    fn differs(&self) -> [String; 2] {
        [self.field.clone(), self.older.clone()]
    }
}

impl Shape for Renamed {
    fn level(&self) -> i64 {
        self.version
    }

    fn has_form(&self, pin: Pin) -> bool {
        match pin {
            Pin::Version(version) => version == self.version || version == self.version - 1,
            Pin::AsStored => true,
        }
    }

    fn view(&self, reader: &Reader) -> Result<Option<Box<dyn ShapeView>>> {
        let of = |name: &Option<String>, versions: &BTreeMap<String, i64>| {
            name.as_ref().and_then(|name| versions.get(name)).copied()
        };
        let version = match reader.pinned {
            Some(Pin::AsStored) if self.stored_older => {
                return Ok(Some(Box::new(AsStored { differs: self.differs() })));
            }
            Some(Pin::AsStored) => return Ok(None),
            Some(Pin::Version(version)) => Some(version),
            None => of(&reader.user, &self.users).or(of(&reader.app_name, &self.clients)),
        };
        let Some(_) = version.filter(|version| *version < self.version) else { return Ok(None) };
        Ok(Some(Box::new(self.older())))
    }
}

/// The view of a reader that asks for stored documents.
struct AsStored {
    differs: [String; 2],
}

impl ShapeView for AsStored {
    fn show(&self, _: RawDoc<'_>) -> Result<Option<DocBuf>> {
        Ok(None)
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

/// The view of a reader of the older version.
#[derive(Clone, Debug)]
pub(super) struct OlderForm {
    newer: String,
    older: String,
    differs: [String; 2],
}

/// Two words, each without spaces.
fn two_words<'t>(first: &'t str, last: &'t str) -> Option<(&'t str, &'t str)> {
    let word = |text: &str| !text.is_empty() && !text.contains(' ');
    (word(first) && word(last)).then_some((first, last))
}

/// The words of an object, and whether it has further fields.
fn parts(value: RawVal<'_>) -> Option<((&str, &str), bool)> {
    let doc = value.as_doc()?;
    let mut fields = doc.iter();
    let (Some(("first", first)), Some(("last", last))) = (fields.next(), fields.next()) else {
        return None;
    };
    let words = two_words(first.get().as_str()?, last.get().as_str()?)?;
    Some((words, fields.next().is_some()))
}

/// The other form of a value, which is the same in both directions; `None` if it has only one.
fn exchanged(value: RawVal<'_>) -> Option<OwnedVal> {
    if let Some(((first, last), _)) = parts(value) {
        return Some(OwnedVal::new(Val::String(&format!("{first} {last}"))));
    }
    let (first, last) = value.get().as_str()?.split_once(' ')?;
    let (first, last) = two_words(first, last)?;
    let made = DocBuf::build(|out| {
        out.str("first", first).str("last", last);
    });
    Some(OwnedVal::new(Val::Document(made.as_doc())))
}

impl OlderForm {
    /// The document with exchanged names and values. `kept` gives values that stay.
    fn exchange(
        &self,
        doc: RawDoc<'_>,
        kept: impl Fn(&str, RawVal<'_>) -> Option<OwnedVal>,
    ) -> DocBuf {
        DocBuf::build(|out| {
            for (name, value) in doc {
                let other = match name {
                    _ if name == self.newer => &self.older,
                    _ if name == self.older => &self.newer,
                    _ => {
                        out.raw(name, value);
                        continue;
                    }
                };
                match kept(other, value).or_else(|| exchanged(value)) {
                    Some(value) => out.raw(other, value.raw()),
                    None => out.raw(other, value),
                };
            }
        })
    }
}

impl ShapeView for OlderForm {
    fn show(&self, canonical: RawDoc<'_>) -> Result<Option<DocBuf>> {
        let concerned = canonical.find(&self.newer).or(canonical.find(&self.older)).is_some();
        Ok(concerned.then(|| self.exchange(canonical, |_, _| None)))
    }

    fn accept(&self, before: Option<RawDoc<'_>>, image: RawDoc<'_>) -> Result<DocBuf> {
        if image.get(&self.older) == Some(Val::String("refused")) {
            let message = format!("'{}' has no canonical form", self.older);
            return Err(Error::new(Code::PATTERN_VIOLATION, message));
        }
        Ok(self.exchange(image, |name, value| {
            let known = before?.find(name)?;
            let ((first, last), true) = parts(known)? else { return None };
            let text = value.get().as_str()?;
            if text == format!("{first} {last}") {
                return Some(OwnedVal::new(known.get()));
            }
            let (first, last) = text.split_once(' ').and_then(|(a, b)| two_words(a, b))?;
            let made = DocBuf::build(|out| {
                out.str("first", first).str("last", last);
                known.as_doc().unwrap_or(RawDoc::empty()).iter().skip(2).for_each(
                    |(name, value)| {
                        out.raw(name, value);
                    },
                );
            });
            Some(OwnedVal::new(Val::Document(made.as_doc())))
        }))
    }

    fn differs_at(&self) -> &[String] {
        &self.differs
    }
}
