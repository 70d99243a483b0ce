//! The commands about patterns.

use super::super::convert::{count_of, from_bytes};
use super::super::cursor::Cursor;
use super::super::link::Link;
use super::options::Pattern;
use bson::{Bson, Document, doc};
use value::{RawDoc, Result, Val};

/// Patterns to declare; made by [`Collection::create_patterns`](crate::Collection::create_patterns).
#[must_use = "nothing happens until `run` is called"]
pub struct CreatePatterns {
    link: Link,
    command: Document,
}

impl CreatePatterns {
    pub(in crate::library) fn new(
        link: Link,
        mut command: Document,
        patterns: impl IntoIterator<Item = impl Into<Pattern>>,
    ) -> CreatePatterns {
        let declarations = patterns.into_iter().map(|pattern| pattern.into().0);
        command.insert("patterns", declarations.collect::<Vec<Document>>());
        CreatePatterns { link, command }
    }

    /// Sets whether to wait until the values of existing documents are derived; true unless set.
    pub fn wait(mut self, wait: bool) -> CreatePatterns {
        self.command.insert("wait", wait);
        self
    }

    /// Declares the patterns.
    ///
    /// # Errors
    /// When a declaration is invalid, or the values of existing documents cannot be derived.
    pub fn run(self) -> Result<()> {
        self.link.run(self.command).map(drop)
    }
}

/// Patterns to remove; made by [`Collection::drop_patterns`](crate::Collection::drop_patterns).
#[must_use = "nothing happens until `run` is called"]
pub struct DropPatterns {
    link: Link,
    command: Document,
}

impl DropPatterns {
    pub(in crate::library) fn new(link: Link, command: Document) -> DropPatterns {
        DropPatterns { link, command }
    }

    /// Sets whether the values stay, as ordinary fields.
    pub fn keep_values(mut self, keep: bool) -> DropPatterns {
        self.command.insert("keepValues", keep);
        self
    }

    /// Sets whether to wait until the values are removed; true unless set.
    pub fn wait(mut self, wait: bool) -> DropPatterns {
        self.command.insert("wait", wait);
        self
    }

    /// Removes the patterns.
    ///
    /// # Errors
    /// When there is no such pattern.
    pub fn run(self) -> Result<()> {
        self.link.run(self.command).map(drop)
    }
}

/// A change of a pattern; made by [`Collection::modify_pattern`](crate::Collection::modify_pattern).
#[must_use = "nothing happens until `run` is called"]
pub struct ModifyPattern {
    link: Link,
    command: Document,
    set: Document,
}

impl ModifyPattern {
    pub(in crate::library) fn new(link: Link, command: Document) -> ModifyPattern {
        ModifyPattern { link, command, set: Document::new() }
    }

    /// Sets an option, by its name in the declaration.
    pub fn set(mut self, option: &str, value: impl Into<Bson>) -> ModifyPattern {
        self.set.insert(option, value);
        self
    }

    /// Restores the default of an option.
    pub fn unset(self, option: &str) -> ModifyPattern {
        self.set(option, Bson::Null)
    }

    /// Takes all options of another declaration, except `name` and `kind`. Options that it does not
    /// have stay.
    pub fn declaration(mut self, pattern: impl Into<Pattern>) -> ModifyPattern {
        let options = pattern.into().0.into_iter();
        self.set.extend(options.filter(|(name, _)| name != "name" && name != "kind"));
        self
    }

    /// Sets whether to wait until the new version is in use; true unless set.
    pub fn wait(mut self, wait: bool) -> ModifyPattern {
        self.command.insert("wait", wait);
        self
    }

    /// Changes the pattern.
    ///
    /// # Errors
    /// When an option is invalid, or the new version cannot be built; then the old one stays.
    pub fn run(mut self) -> Result<()> {
        self.command.insert("set", self.set);
        self.link.run(self.command).map(drop)
    }
}

/// Patterns to suspend; made by
/// [`Collection::suspend_patterns`](crate::Collection::suspend_patterns).
#[must_use = "nothing happens until `run` is called"]
pub struct SuspendPatterns {
    link: Link,
    command: Document,
}

impl SuspendPatterns {
    pub(in crate::library) fn new(link: Link, command: Document) -> SuspendPatterns {
        SuspendPatterns { link, command }
    }

    /// Stops the maintenance of the patterns.
    ///
    /// # Errors
    /// When there is no such pattern.
    pub fn run(self) -> Result<()> {
        self.link.run(self.command).map(drop)
    }
}

/// Patterns to resume; made by
/// [`Collection::resume_patterns`](crate::Collection::resume_patterns).
#[must_use = "nothing happens until `run` is called"]
pub struct ResumePatterns {
    link: Link,
    command: Document,
}

impl ResumePatterns {
    pub(in crate::library) fn new(link: Link, command: Document) -> ResumePatterns {
        ResumePatterns { link, command }
    }

    /// Derives all values again and maintains them.
    ///
    /// # Errors
    /// When there is no such pattern.
    pub fn run(self) -> Result<()> {
        self.link.run(self.command).map(drop)
    }
}

/// A check of patterns; made by
/// [`Collection::validate_patterns`](crate::Collection::validate_patterns).
#[must_use = "nothing happens until `run` is called"]
pub struct ValidatePatterns {
    link: Link,
    command: Document,
}

impl ValidatePatterns {
    pub(in crate::library) fn new(link: Link, command: Document) -> ValidatePatterns {
        ValidatePatterns { link, command }
    }

    /// Restricts the check to patterns with these names.
    pub fn names<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> ValidatePatterns {
        self.command.insert("names", names.into_iter().map(str::to_owned).collect::<Vec<String>>());
        self
    }

    /// Restricts the check to targets that match a filter.
    pub fn filter(mut self, filter: Document) -> ValidatePatterns {
        self.command.insert("filter", filter);
        self
    }

    /// Sets whether wrong values are derived again.
    pub fn repair(mut self, repair: bool) -> ValidatePatterns {
        self.command.insert("repair", repair);
        self
    }

    /// Compares values with a recomputation.
    ///
    /// # Errors
    /// When there is no such pattern.
    pub fn run(self) -> Result<Vec<PatternCheck>> {
        let reply = self.link.run(self.command)?;
        let list = reply.as_doc().get("patterns").and_then(Val::as_array);
        let entries = list.unwrap_or(RawDoc::empty());
        entries.iter().filter_map(|(_, entry)| entry.as_doc()).map(PatternCheck::read).collect()
    }
}

/// The result of a check of one pattern.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PatternCheck {
    /// The pattern.
    pub name: String,
    /// Its state.
    pub state: PatternState,
    /// The number of targets that were compared.
    pub checked: u64,
    /// The number of wrong targets.
    pub drift: u64,
    /// Some of the wrong values.
    pub samples: Vec<Document>,
    /// The number of targets that were derived again.
    pub repaired: u64,
    /// The whole result, as the command returns it.
    pub details: Document,
}

impl PatternCheck {
    fn read(entry: RawDoc<'_>) -> Result<PatternCheck> {
        let samples = entry.get("samples").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let samples = samples.iter().filter_map(|(_, sample)| sample.as_doc());
        Ok(PatternCheck {
            name: text(entry, "name"),
            state: PatternState::of(&text(entry, "state")),
            checked: count_of(entry, "checked"),
            drift: count_of(entry, "drift"),
            samples: samples.map(|sample| from_bytes(sample.bytes())).collect::<Result<_>>()?,
            repaired: count_of(entry, "repaired"),
            details: from_bytes(entry.bytes())?,
        })
    }
}

/// The state of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternState {
    /// The records of a new version are being filled.
    Preparing,
    /// Values of existing documents are being derived.
    Building,
    /// Every value is correct.
    Ready,
    /// There may be wrong values.
    Degraded,
    /// Nothing is maintained.
    Suspended,
    /// The build failed.
    Failed,
    /// The pattern was dropped; its values are being removed.
    Clearing,
    /// Another state, by its name.
    Other(String),
}

impl PatternState {
    fn of(name: &str) -> PatternState {
        match name {
            "preparing" => PatternState::Preparing,
            "building" => PatternState::Building,
            "ready" => PatternState::Ready,
            "degraded" => PatternState::Degraded,
            "suspended" => PatternState::Suspended,
            "failed" => PatternState::Failed,
            "clearing" => PatternState::Clearing,
            _ => PatternState::Other(name.to_owned()),
        }
    }
}

/// A pattern and its state, as `listPatterns` returns them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PatternInfo {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// The collection that it is declared on.
    pub collection: String,
    /// Its state.
    pub state: PatternState,
    /// Its declaration.
    pub declaration: Document,
    /// The updates that wait, if there can be any.
    pub pending: Option<u64>,
    /// Why its build failed.
    pub error: Option<String>,
    /// The whole entry, with progress, labels and statistics.
    pub details: Document,
}

impl PatternInfo {
    /// Lists the patterns of a collection, or of all in the database.
    pub(in crate::library) fn list(link: &Link, of: impl Into<Bson>) -> Result<Vec<PatternInfo>> {
        let command = doc! {"listPatterns": of.into(), "cursor": {}};
        let cursor = Cursor::<Document>::open(link.clone(), command, None)?;
        cursor.map(|entry| entry.map(PatternInfo::read)).collect()
    }

    fn read(details: Document) -> PatternInfo {
        let text = |name: &str| details.get_str(name).unwrap_or_default().to_owned();
        let count = |value: &Bson| match value {
            Bson::Int32(count) => u64::try_from(*count).ok(),
            Bson::Int64(count) => u64::try_from(*count).ok(),
            _ => None,
        };
        PatternInfo {
            name: text("name"),
            kind: text("kind"),
            collection: text("collection"),
            state: PatternState::of(&text("state")),
            declaration: details.get_document("declaration").cloned().unwrap_or_default(),
            pending: details.get("pending").and_then(count),
            error: details.get_str("error").ok().map(str::to_owned),
            details,
        }
    }
}

fn text(doc: RawDoc<'_>, name: &str) -> String {
    doc.get(name).and_then(Val::as_str).unwrap_or_default().to_owned()
}
