//! Damage of files in terms of collections and indexes, for people.
//!
//! Layer: service.

use crate::catalog::{Collection, persist};
use std::fmt;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use store::{Bytes, Effect, Finding, KeyRange, Space};
use value::Writer;
use value::keys::{self, Number};

/// What damage of a file means for the data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Nothing is lost: what is damaged was not needed, or can be derived.
    Harmless,
    /// Nothing is known to be lost, but completeness cannot be proven.
    Unproven,
    /// What is affected may be missing, or older than it was.
    Lost,
}

impl Severity {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Harmless => "harmless",
            Severity::Unproven => "unproven",
            Severity::Lost => "lost",
        }
    }
}

/// Something in a data folder that is not as it was written.
#[derive(Clone, Debug)]
pub struct Damage {
    /// The file, relative to the folder.
    pub file: PathBuf,
    /// The offset in the file, if known.
    pub offset: Option<u64>,
    /// A description.
    pub what: String,
    /// What it means for the data.
    pub severity: Severity,
    /// What may be missing or old.
    pub affected: Vec<Affected>,
}

/// A part of the data that damage affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affected {
    /// The name of the collection; empty for what belongs to none.
    pub namespace: String,
    /// The name of the index, or another description of the part.
    pub part: String,
    /// The range of keys, as text; empty for all keys.
    pub range: String,
}

impl fmt::Display for Affected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&*self.namespace, &*self.part, &*self.range];
        let shown: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        f.write_str(&shown.join(": "))
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", self.what)?;
        let may = match self.severity {
            Severity::Harmless => return Ok(()),
            Severity::Unproven => "not proven to be complete",
            Severity::Lost => "may be missing or older",
        };
        for affected in &self.affected {
            write!(f, "\n    {affected}: {may}")?;
        }
        Ok(())
    }
}

impl Damage {
    /// Writes the fields of a document, for programs.
    pub fn write(&self, out: &mut Writer<'_>) {
        out.str("file", &self.file.to_string_lossy());
        if let Some(offset) = self.offset {
            out.count("offset", offset);
        }
        out.str("what", &self.what).str("severity", self.severity.name());
        out.array("affected", |list| {
            for affected in &self.affected {
                list.push_doc(|out| {
                    if !affected.namespace.is_empty() {
                        out.str("ns", &affected.namespace);
                    }
                    if !affected.part.is_empty() {
                        out.str("part", &affected.part);
                    }
                    if !affected.range.is_empty() {
                        out.str("range", &affected.range);
                    }
                });
            }
        });
    }
}

/// The names of what is behind prefixes of keys.
#[derive(Default)]
pub struct Names {
    /// The prefix and name of each collection, in order.
    collections: Vec<(u32, String)>,
    /// The prefix of each index, with the names of its collection and of itself, in order.
    indexes: Vec<(u32, String, String)>,
}

impl Names {
    /// The names of these collections and their indexes.
    pub fn of<'c>(collections: impl Iterator<Item = &'c Collection>) -> Names {
        let mut names = Names::default();
        for collection in collections.filter(|collection| collection.view().is_none()) {
            names.collections.push((collection.id, collection.namespace()));
            for index in collection.indexes.iter().filter(|index| !index.is_clustered()) {
                let name = format!("index '{}'", index.name);
                names.indexes.push((index.id, collection.namespace(), name));
            }
        }
        names.collections.sort();
        names.indexes.sort();
        names
    }

    /// Describes a finding. Prefixes without a name are left out if `all_known`: they are of
    /// dropped collections and indexes.
    #[must_use]
    pub fn describe(&self, folder: &Path, finding: &Finding, all_known: bool) -> Damage {
        let severity = match &finding.effect {
            Effect::Harmless => Severity::Harmless,
            Effect::Unproven(_) => Severity::Unproven,
            Effect::Lost(_) => Severity::Lost,
        };
        let mut affected: Vec<Affected> = Vec::new();
        let ranges = finding.ranges();
        if ranges.len() == Space::ALL.len() {
            affected.push(Affected {
                namespace: String::new(),
                part: "the newest writes of all collections".to_owned(),
                range: String::new(),
            });
        } else {
            for range in ranges {
                self.affected(range, all_known, &mut affected);
            }
        }
        Damage {
            file: finding.file.strip_prefix(folder).unwrap_or(&finding.file).to_path_buf(),
            offset: finding.offset,
            what: finding.what.clone(),
            severity: if affected.is_empty() { Severity::Harmless } else { severity },
            affected,
        }
    }

    fn affected(&self, range: &KeyRange, all_known: bool, found: &mut Vec<Affected>) {
        let whole = range.from == Bound::Unbounded && range.to == Bound::Unbounded;
        let mut other = |part: &str, range: String| {
            found.push(Affected { namespace: String::new(), part: part.to_owned(), range });
        };
        match range.space {
            Space::Catalog => other("the catalog", span(range, 0, catalog_key)),
            Space::Log => other("the change log", String::new()),
            Space::Documents if whole => other("the documents of all collections", String::new()),
            Space::Indexes if whole => other("all indexes", String::new()),
            Space::Documents => {
                let (first, last) = prefixes(range);
                let within = self.collections.iter().filter(|(id, _)| (first..=last).contains(id));
                let known = found.len();
                for (id, namespace) in within {
                    let range = span(range, *id, |key| shown_key(key.get(4..).unwrap_or(&[])));
                    let (namespace, part) = (namespace.clone(), String::new());
                    found.push(Affected { namespace, part, range });
                }
                if found.len() == known && !all_known {
                    let part = format!("the collection with number {first}");
                    found.push(Affected { namespace: String::new(), part, range: String::new() });
                }
            }
            Space::Indexes => {
                let (first, last) = prefixes(range);
                let within = self.indexes.iter().filter(|(id, ..)| (first..=last).contains(id));
                for (id, namespace, name) in within {
                    let range = span(range, *id, |key| shown_key(key.get(4..).unwrap_or(&[])));
                    let (namespace, part) = (namespace.clone(), name.clone());
                    found.push(Affected { namespace, part, range });
                }
            }
        }
    }
}

/// The first and the last prefix of a range.
fn prefixes(range: &KeyRange) -> (u32, u32) {
    let prefix = |bound: &Bound<Bytes>, default| match bound {
        Bound::Included(key) | Bound::Excluded(key) => {
            key.first_chunk().map_or(default, |prefix| u32::from_be_bytes(*prefix))
        }
        Bound::Unbounded => default,
    };
    (prefix(&range.from, 0), prefix(&range.to, u32::MAX))
}

/// The part of a range that is behind a prefix, as text; a bound behind another prefix is left out.
/// Number 0 stands for all prefixes.
fn span(range: &KeyRange, id: u32, show: impl Fn(&[u8]) -> String) -> String {
    let own = |key: &Bytes| id == 0 || (key.starts_with(&id.to_be_bytes()) && key.len() > 4);
    let from = match &range.from {
        Bound::Included(key) if own(key) => format!("from {}", show(key)),
        Bound::Excluded(key) if own(key) => format!("after {}", show(key)),
        _ => String::new(),
    };
    let to = match &range.to {
        Bound::Included(key) if own(key) => format!("up to {}", show(key)),
        Bound::Excluded(key) if own(key) => format!("before {}", show(key)),
        _ => String::new(),
    };
    [from, to].iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join(" ")
}

fn catalog_key(key: &[u8]) -> String {
    match persist::record_of(key) {
        Some((record, id)) => format!("{} {id}", record.name()),
        None => hex(key),
    }
}

/// The first value of a key as text, hexadecimal if it is not of a simple type.
fn shown_key(key: &[u8]) -> String {
    if let Some(number) = keys::number(key, false) {
        return match number {
            Number::Whole(n) => n.to_string(),
            Number::Double(n) => n.to_string(),
        };
    }
    let rank = value::Type::rank;
    match key.split_first() {
        Some((kind, rest)) if *kind == rank(value::Type::String) => {
            let text = rest.split(|byte| *byte == 0).next().unwrap_or(&[]);
            let shown: String = String::from_utf8_lossy(text).chars().take(80).collect();
            format!("'{shown}'")
        }
        Some((kind, rest)) if *kind == rank(value::Type::ObjectId) && rest.len() >= 12 => {
            format!("ObjectId('{}')", hex(rest.get(..12).unwrap_or(&[])))
        }
        _ => format!("key {}", hex(key)),
    }
}

/// Bytes in hexadecimal, cut off after 64.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len().min(64) + 3);
    for byte in bytes.iter().take(64) {
        let _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > 64 {
        text.push('…');
    }
    text
}

/// Ranges of keys that cannot be read, found before.
#[derive(Default)]
pub struct Gaps(Vec<KeyRange>);

impl Gaps {
    /// What damaged files have made unreadable.
    #[must_use]
    pub fn of(found: &[Finding]) -> Gaps {
        Gaps(found.iter().flat_map(Finding::ranges).cloned().collect())
    }

    /// Where to go on if reading failed at a key or behind it: the first key behind the next gap.
    /// `None` if no gap ends behind the key.
    #[must_use]
    pub fn behind(&self, space: Space, key: &[u8]) -> Option<Vec<u8>> {
        let gaps = self.0.iter().filter(|gap| gap.space == space);
        let ends = gaps.filter_map(|gap| match &gap.to {
            Bound::Included(to) => Some([to.as_slice(), &[0]].concat()),
            Bound::Excluded(to) => Some(to.to_vec()),
            Bound::Unbounded => None,
        });
        ends.filter(|end| end.as_slice() > key).min()
    }
}
