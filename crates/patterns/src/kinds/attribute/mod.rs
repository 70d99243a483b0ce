//! `attribute`: an object whose fields are attributes, with one index for all of them. Clients may
//! also see it as an array of pairs of a name and a value.
//!
//! `declaration` reads the options, `pairs` finds the attributes of a document, `face` shows them
//! as an array, `layout` stores them as one, `kind` implements the trait.

pub(crate) mod declaration;
mod face;
mod kind;
mod layout;
mod pairs;

use value::path::Path;

/// The attributes of one collection, as declared.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// Where the attributes are.
    from: From,
    /// The field that shows them as an array of pairs, if there is one.
    face: Option<String>,
    /// The fields behind the value in the index; `None` for no index.
    suffix: Option<Vec<String>>,
    keys: Keys,
    /// Whether a field of the object that is an object is one attribute; otherwise its fields are.
    opaque: bool,
    /// How the object is stored, if not as it is.
    stored: Option<layout::StoredPairs>,
    /// Whether pairs with the same key become an array; otherwise they are refused.
    keeps_duplicates: bool,
}

/// Where the attributes of a document are.
#[derive(Clone, Debug)]
enum From {
    /// The fields of the object at this path.
    Object(Path),
    /// These fields of the document.
    Fields(Vec<Path>),
}

/// Which attributes count, and how many there may be.
#[derive(Clone, Debug)]
struct Keys {
    /// The keys that count, with those below them; `None` for all.
    include: Option<Vec<String>>,
    /// The keys that do not count, with those below them.
    exclude: Vec<String>,
    /// How many keys a document may have.
    max: usize,
}

impl Keys {
    /// Whether a key counts.
    fn count(&self, key: &str) -> bool {
        let within = |named: &String| crate::paths::is_within(key, named);
        self.include.as_ref().is_none_or(|include| include.iter().any(within))
            && !self.exclude.iter().any(within)
    }
}

impl Attribute {
    /// Whether a key names an attribute.
    fn names(&self, key: &str) -> bool {
        match &self.from {
            From::Object(_) if self.opaque && key.contains('.') => false,
            From::Object(_) => self.keys.count(key),
            From::Fields(paths) if self.opaque => paths.iter().any(|path| path.text() == key),
            From::Fields(paths) => {
                paths.iter().any(|path| crate::paths::is_within(key, path.text()))
            }
        }
    }
}

impl From {
    /// The path of an attribute in its document.
    fn path_of(&self, key: &str) -> String {
        match self {
            From::Object(path) => format!("{}.{key}", path.text()),
            From::Fields(_) => key.to_owned(),
        }
    }

    /// The paths below which all attributes are.
    fn roots(&self) -> &[Path] {
        match self {
            From::Object(path) => std::slice::from_ref(path),
            From::Fields(paths) => paths,
        }
    }
}
