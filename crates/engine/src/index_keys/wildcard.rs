//! Wildcard indexes: `$**` and `root.$**`. Each value that is not a document has an entry of its
//! path (without array positions) and the value, so one index serves any field.
//!
//! Like a sparse index it lacks documents without the field. It contains neither whole documents
//! nor whole arrays, except empty ones and arrays directly in arrays. The planner uses it only for
//! values that it contains.
//!
//! An index that a pattern keeps may have both a root and a projection.

use super::Index;
use super::keys::{Key, Keys};
use super::ordered;
use query::interrupt;
use value::path::array_index;
use value::{Code, Collation, Error, RawDoc, Result, Val, key_types, keys as order};

/// The wildcard field of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcard {
    /// Its position in the key pattern.
    pub at: usize,
    /// The path below which everything is indexed; `None` for `$**`.
    root: Option<Box<str>>,
    /// The paths in `wildcardProjection`.
    paths: Vec<Box<str>>,
    /// Whether these paths are indexed or excluded.
    includes: bool,
    /// Whether `_id` is indexed; by default it is not.
    id: bool,
}

impl Wildcard {
    /// Returns the wildcard of a specification, if it has one.
    ///
    /// # Errors
    /// When its projection is invalid.
    pub fn of(spec: RawDoc<'_>) -> Result<Option<Wildcard>> {
        let key = spec.get("key").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
        let Some((at, path)) = key.iter().enumerate().find_map(|(at, (path, kind))| {
            (is_wildcard(path) && kind.get().is_number()).then_some((at, path))
        }) else {
            return Ok(None);
        };
        let root = path.strip_suffix(".$**").map(Box::from);
        let mut wildcard = Wildcard { at, root, paths: Vec::new(), includes: false, id: false };
        if let Some(projection) = spec.get("wildcardProjection").and_then(Val::as_doc) {
            wildcard.project(projection, "", 0)?;
        }
        Ok(Some(wildcard))
    }

    /// Parses a projection; fields may be nested.
    fn project(&mut self, projection: RawDoc<'_>, prefix: &str, depth: usize) -> Result<()> {
        for (name, value) in projection {
            let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            match value.get() {
                Val::Document(inner) if !inner.is_empty() && depth < 100 => {
                    self.project(inner, &path, depth + 1)?;
                }
                flag if matches!(flag, Val::Bool(_)) || flag.is_number() => {
                    if path == "_id" {
                        self.id = flag.truthy();
                        self.includes |= projection.count() == 1 && flag.truthy();
                        continue;
                    }
                    if !self.paths.is_empty() && self.includes != flag.truthy() {
                        let (code, kinds) = match self.includes {
                            true => (31254, "exclusion on field {} in inclusion"),
                            false => (31253, "inclusion on field {} in exclusion"),
                        };
                        return Err(Error::new(
                            Code(code),
                            format!(
                                "Failed to parse: wildcardProjection :: caused by :: Cannot do {} \
                                 projection",
                                kinds.replace("{}", &path)
                            ),
                        ));
                    }
                    self.includes = flag.truthy();
                    self.paths.push(path.into());
                }
                _ => {
                    return Err(Error::new(
                        Code(51271),
                        "Failed to parse: wildcardProjection :: caused by :: Bad projection \
                         specification, cannot use computed fields",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns whether every value at this path that is not a document or array has an entry.
    #[must_use]
    pub fn covers(&self, path: &str) -> bool {
        // A number may be an array position, which the paths of entries omit.
        let tells = |part: &str| array_index(part).is_none() && !part.contains(DOT_IN_NAME);
        path.split('.').all(tells) && self.holds(path)
    }

    /// Returns whether the path and everything below it is indexed, so that every document with it
    /// has an entry.
    #[must_use]
    pub fn covers_below(&self, path: &str) -> bool {
        let left_out = self.paths.iter().any(|named| is_below(named, path));
        self.covers(path) && (self.includes || !left_out)
    }

    fn holds(&self, path: &str) -> bool {
        if let Some(root) = &self.root {
            return is_below(path, root) && self.names(path);
        }
        if is_below(path, "_id") {
            return self.id;
        }
        self.names(path)
    }

    /// Returns whether the projection includes the path.
    fn names(&self, path: &str) -> bool {
        self.paths.iter().any(|named| is_below(path, named)) == self.includes
    }

    /// Returns whether a value at or below this path may have an entry.
    #[must_use]
    pub fn overlaps(&self, path: &str) -> bool {
        self.leads(path)
    }

    /// Returns whether a value at or below this path may have an entry.
    fn leads(&self, path: &str) -> bool {
        if let Some(root) = &self.root
            && !is_below(path, root)
        {
            return is_below(root, path);
        }
        self.holds(path) || (self.includes && self.paths.iter().any(|named| is_below(named, path)))
    }
}

/// Returns whether a field of a key pattern is a wildcard.
#[must_use]
pub fn is_wildcard(path: &str) -> bool {
    path == "$**" || path.ends_with(".$**")
}

/// Returns whether `path` is `root` or below it.
fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Adds the keys of a document.
///
/// # Errors
/// A key that is longer than the store allows.
pub fn keys(index: &Index, wildcard: &Wildcard, doc: RawDoc<'_>, out: &mut Keys) -> Result<()> {
    let collation = index.collation.as_deref();
    // A collation key does not contain its text, so such an index covers nothing.
    let typed = index.typed && collation.is_none();
    let mut found =
        Leaves { wildcard, collation, descending: false, typed, leaves: Vec::new(), arrays: false };
    let names = if index.typed { Names::Apart } else { Names::Joined };
    found.descending = index.fields.get(wildcard.at).is_some_and(|field| field.descending);
    found.document(doc, &mut String::new(), false, names);
    interrupt::confirm()?;
    let mut leaves = found.leaves;
    interrupt::sort_by(&mut leaves, Key::cmp)?;
    leaves.dedup_by(|a, b| a.values == b.values);
    if found.arrays {
        out.multikey |= super::multikey::field(wildcard.at);
    }
    if index.fields.len() == 1 {
        for mut leaf in leaves {
            key_types::trim(&mut leaf.types);
            out.add(leaf)?;
        }
        return Ok(());
    }
    if leaves.is_empty() {
        // The other fields of a compound key are indexed even without a wildcard value.
        let mut nothing = order::key(Val::MinKey);
        order::encode(&mut nothing, Val::MinKey, found.descending);
        leaves.push(Key { values: nothing, types: Vec::new() });
    }
    ordered::each_combination(index, doc, out, &mut |values, _, out| {
        for leaf in &leaves {
            let mut key = Key::default();
            for (at, (value, field)) in values.iter().zip(&index.fields).enumerate() {
                if at == wildcard.at {
                    key.values.extend_from_slice(&leaf.values);
                    key.types.extend_from_slice(&leaf.types);
                } else {
                    order::encode_with(&mut key.values, *value, field.descending, collation);
                    if typed {
                        key_types::append(&mut key.types, *value);
                    }
                }
            }
            key_types::trim(&mut key.types);
            out.add(key)?;
        }
        Ok(())
    })
}

/// Steps that it takes to make the key of a value.
const STEPS_OF_LEAF: usize = 8;

/// Replaces a dot that is part of a field name. No path of a query contains it.
const DOT_IN_NAME: char = '\u{1}';

/// How field names are joined to paths.
#[derive(Clone, Copy)]
enum Names {
    /// A name that contains a dot, or an empty one, cannot be mistaken for a path.
    Apart,
    /// As in earlier versions.
    Joined,
}

/// The search for values.
struct Leaves<'w> {
    wildcard: &'w Wildcard,
    collation: Option<&'w Collation>,
    descending: bool,
    /// Whether entries store type information that keys lack.
    typed: bool,
    /// Encoded paths and values.
    leaves: Vec<Key>,
    /// Whether any value was in an array.
    arrays: bool,
}

impl Leaves<'_> {
    /// Stored documents nest at most `limits::DEPTH_MAX` levels, so recursion is bounded.
    fn document(&mut self, doc: RawDoc<'_>, path: &mut String, inside: bool, names: Names) {
        let before = path.len();
        for (name, value) in doc {
            if interrupt::should_stop(STEPS_OF_LEAF) {
                return;
            }
            match names {
                Names::Apart => {
                    path.push_str(if inside { "." } else { "" });
                    path.extend(name.chars().map(|c| if c == '.' { DOT_IN_NAME } else { c }));
                }
                Names::Joined => {
                    path.push_str(if before > 0 { "." } else { "" });
                    path.push_str(name);
                }
            }
            if self.wildcard.leads(path) {
                match value.as_array() {
                    Some(array) => self.array(array, path, names),
                    None => self.value(value.get(), path, names),
                }
            }
            path.truncate(before);
        }
    }

    fn array(&mut self, array: RawDoc<'_>, path: &mut String, names: Names) {
        self.arrays = true;
        if array.is_empty() {
            return self.leaf(Val::Undefined, path);
        }
        for (_, element) in array {
            if interrupt::should_stop(STEPS_OF_LEAF) {
                return;
            }
            self.value(element.get(), path, names);
        }
    }

    fn value(&mut self, value: Val<'_>, path: &mut String, names: Names) {
        match value {
            Val::Document(doc) if !doc.is_empty() => self.document(doc, path, true, names),
            value => self.leaf(value, path),
        }
    }

    fn leaf(&mut self, value: Val<'_>, path: &str) {
        if self.wildcard.holds(path) {
            let mut key = Key { values: order::key(Val::String(path)), types: Vec::new() };
            order::encode_with(&mut key.values, value, self.descending, self.collation);
            if self.typed {
                key_types::append(&mut key.types, Val::String(path));
                key_types::append(&mut key.types, value);
            }
            self.leaves.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn wildcard(spec: &str) -> Wildcard {
        let spec = ejson::parse_doc(spec).expect("test text");
        Wildcard::of(spec.as_doc()).expect("is right").expect("is a wildcard")
    }

    #[test]
    fn covers_what_the_projection_names() {
        let all = wildcard("{key: {'$**': 1}}");
        assert!(all.covers("a") && all.covers("a.b") && !all.covers("_id") && !all.covers("a.0"));
        let below = wildcard("{key: {'a.b.$**': 1}}");
        assert!(below.covers("a.b") && below.covers("a.b.c"));
        assert!(!below.covers("a") && !below.covers("a.bc"));
        let some = wildcard("{key: {'$**': 1}, wildcardProjection: {a: 1, b: {c: 1}, _id: 1}}");
        assert!(some.covers("a.x") && some.covers("b.c") && some.covers("_id"));
        assert!(!some.covers("b") && !some.covers("z"));
        let others = wildcard("{key: {'$**': 1}, wildcardProjection: {'a.b': 0}}");
        assert!(others.covers("a") && others.covers("z") && !others.covers("a.b.c"));
        assert!(others.covers_below("z") && !others.covers_below("a") && all.covers_below("a"));
    }
}
