//! Wildcard indexes: `$**` and `root.$**`. Each value that is no document has an entry of its
//! path (without places in arrays) and itself, so one index answers for any field.
//!
//! Like a sparse index it lacks documents without the field; and it holds neither whole documents
//! nor whole arrays, but for empty ones and arrays directly in arrays. The planner asks it only
//! for values that it holds.

use super::Index;
use super::keys::{Key, Keys};
use super::ordered;
use value::path::array_index;
use value::{Code, Collation, Error, RawDoc, Result, Val, key_types, keys as order};

/// What a wildcard index looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcard {
    /// Where the wildcard stands in the key pattern.
    pub at: usize,
    /// The path below which everything is indexed; nothing for `$**`.
    root: Option<Box<str>>,
    /// The paths that `wildcardProjection` names.
    paths: Vec<Box<str>>,
    /// Whether these paths are the ones indexed, or the ones left out.
    includes: bool,
    /// Whether `_id` is indexed, which it is only when asked for.
    id: bool,
}

impl Wildcard {
    /// The wildcard of a specification, if it has one.
    ///
    /// # Errors
    /// When its projection is not understood.
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

    /// Reads a projection; fields may nest.
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

    /// Whether every value at this path that is no document or array has an entry.
    #[must_use]
    pub fn covers(&self, path: &str) -> bool {
        // A number may be a place in an array, which paths of entries do not tell.
        let tells = |part: &str| array_index(part).is_none() && !part.contains(DOT_IN_NAME);
        path.split('.').all(tells) && self.holds(path)
    }

    /// Whether that is so for the path and for all below it, so that whoever has it has an entry.
    #[must_use]
    pub fn covers_below(&self, path: &str) -> bool {
        let left_out = self.paths.iter().any(|named| is_below(named, path));
        self.covers(path) && (self.includes || !left_out)
    }

    fn holds(&self, path: &str) -> bool {
        if let Some(root) = &self.root {
            return is_below(path, root);
        }
        if is_below(path, "_id") {
            return self.id;
        }
        self.paths.iter().any(|named| is_below(path, named)) == self.includes
    }

    /// Whether some value at, below or above this path may have an entry.
    #[must_use]
    pub fn overlaps(&self, path: &str) -> bool {
        self.leads(path)
    }

    /// Whether something at or below this path may have an entry.
    fn leads(&self, path: &str) -> bool {
        if let Some(root) = &self.root {
            return is_below(path, root) || is_below(root, path);
        }
        self.holds(path) || (self.includes && self.paths.iter().any(|named| is_below(named, path)))
    }
}

/// Whether a field of a key pattern is a wildcard.
#[must_use]
pub fn is_wildcard(path: &str) -> bool {
    path == "$**" || path.ends_with(".$**")
}

/// Whether `path` is `root` or leads on from it.
fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The keys of a document.
///
/// # Errors
/// A key that is longer than the store takes.
pub fn keys(index: &Index, wildcard: &Wildcard, doc: RawDoc<'_>, out: &mut Keys) -> Result<()> {
    let collation = index.collation.as_deref();
    // A collation key does not tell its text, so such an index covers nothing.
    let typed = index.typed && collation.is_none();
    let mut found =
        Leaves { wildcard, collation, descending: false, typed, leaves: Vec::new(), arrays: false };
    let names = if index.typed { Names::Apart } else { Names::Joined };
    found.descending = index.fields.get(wildcard.at).is_some_and(|field| field.descending);
    found.document(doc, &mut String::new(), false, names);
    let mut leaves = found.leaves;
    leaves.sort_unstable();
    leaves.dedup_by(|a, b| a.values == b.values);
    if found.arrays {
        out.multikey |= 1 << wildcard.at.min(31);
    }
    if index.fields.len() == 1 {
        for mut leaf in leaves {
            key_types::trim(&mut leaf.types);
            out.add(index, leaf)?;
        }
        return Ok(());
    }
    if leaves.is_empty() {
        // The other fields of a compound key are indexed all the same.
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
            out.add(index, key)?;
        }
        Ok(())
    })
}

/// What stands for a dot that is part of a name: no path of a query leads there.
const DOT_IN_NAME: char = '\u{1}';

/// How names become paths.
#[derive(Clone, Copy)]
enum Names {
    /// So that a name with a dot, or an empty one, is never taken for a path.
    Apart,
    /// As earlier versions did.
    Joined,
}

/// The search for values.
struct Leaves<'w> {
    wildcard: &'w Wildcard,
    collation: Option<&'w Collation>,
    descending: bool,
    /// Whether entries keep what keys lose of types.
    typed: bool,
    /// Encoded paths and values.
    leaves: Vec<Key>,
    /// Whether any value stood in an array.
    arrays: bool,
}

impl Leaves<'_> {
    /// Stored documents nest no deeper than `limits::DEPTH_MAX`, so recursion is bounded.
    fn document(&mut self, doc: RawDoc<'_>, path: &mut String, inside: bool, names: Names) {
        let before = path.len();
        for (name, value) in doc {
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
