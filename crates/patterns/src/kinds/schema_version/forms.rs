//! The two forms of a document and how one becomes the other.

use bumpalo::Bump;
use query::filter::Filter;
use query::update::Update;
use value::{Code, DocBuf, Error, RawDoc, RawVal, Result, Val};

/// The stages between two versions.
#[derive(Debug)]
pub(super) struct Stages(pub(super) Update);

impl Stages {
    fn apply(&self, doc: RawDoc<'_>) -> Result<DocBuf> {
        let changed = self.0.apply(doc, None, false, &Bump::new())?;
        Ok(changed.unwrap_or_else(|| doc.into()))
    }
}

/// What the version field of a document says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    /// The version before, also by a missing field.
    Before,
    /// The latest version.
    Latest,
    /// Something else.
    Other,
}

/// A document in the latest version, or why there is none.
pub(super) enum Upgraded {
    Document(DocBuf),
    Not(String),
}

/// When documents of the version before are stored in the latest one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Migrate {
    /// In the background, and when they are written.
    Background,
    /// When they are written.
    OnWrite,
    /// Never, as long as the version before holds everything.
    Never,
}

impl Migrate {
    /// The word of the declaration.
    pub(super) fn name(self) -> &'static str {
        match self {
            Migrate::Background => "background",
            Migrate::OnWrite => "onWrite",
            Migrate::Never => "none",
        }
    }
}

/// Two versions and the way between them.
#[derive(Debug)]
pub(super) struct Forms {
    /// The field with the version.
    pub(super) field: String,
    /// The version before.
    pub(super) from: i64,
    /// The latest version.
    pub(super) version: i64,
    /// From the version before to the latest one.
    pub(super) up: Stages,
    /// From the latest version to the one before, if there is such a way.
    pub(super) down: Option<Stages>,
    /// What documents of the latest version must match.
    pub(super) validator: Option<Filter>,
    /// The top-level fields that may differ between the versions; one empty path for all fields.
    pub(super) differs: Vec<String>,
    /// Whether the version before was given up. Then there is no `down`.
    pub(super) contracted: bool,
    /// When documents are stored in the latest version.
    pub(super) migrate: Migrate,
    /// Fields of the version before that may be lost on the way to the latest version and back.
    pub(super) lossy: Vec<String>,
}

impl Forms {
    /// The version of a document.
    pub(super) fn version_of(&self, doc: RawDoc<'_>) -> Version {
        match doc.get(&self.field) {
            None | Some(Val::Null) => Version::Before,
            Some(number) if number.is_number() => match number.as_i64_exact() {
                Some(number) if number == self.from => Version::Before,
                Some(number) if number == self.version => Version::Latest,
                _ => Version::Other,
            },
            Some(_) => Version::Other,
        }
    }

    /// The document with a version in its version field.
    pub(super) fn labelled(&self, doc: RawDoc<'_>, version: i64) -> DocBuf {
        let number = number(version);
        with_field(doc, &self.field, Some(number))
    }

    /// Returns whether a document of the latest version passes the validator.
    ///
    /// # Errors
    /// That the operation was stopped.
    pub(super) fn is_valid(&self, doc: RawDoc<'_>) -> Result<bool> {
        let Some(validator) = &self.validator else { return Ok(true) };
        match validator.matches(doc) {
            Ok(matches) => Ok(matches),
            Err(error) if query::interrupt::ends_operation(&error) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Refuses a document of the latest version that fails the validator.
    ///
    /// # Errors
    /// DocumentValidationFailure.
    pub(super) fn check_valid(&self, doc: RawDoc<'_>) -> Result<()> {
        if self.is_valid(doc)? {
            return Ok(());
        }
        Err(Error::new(
            Code::DOCUMENT_VALIDATION_FAILURE,
            format!("Document failed validation: the 'validator' of version {}", self.version),
        ))
    }

    /// A document of the version before in the latest version, unchecked.
    ///
    /// # Errors
    /// Errors of `up`.
    pub(super) fn raised(&self, doc: RawDoc<'_>) -> Result<DocBuf> {
        let raised = self.up.apply(doc).map_err(|error| error.context("'up' fails: "))?;
        Ok(self.labelled(raised.as_doc(), self.version))
    }

    /// A document of the version before in the latest version, if that works.
    ///
    /// # Errors
    /// That the operation was stopped.
    pub(super) fn upgraded(&self, doc: RawDoc<'_>) -> Result<Upgraded> {
        match self.raised(doc) {
            Ok(raised) if self.is_valid(raised.as_doc())? => Ok(Upgraded::Document(raised)),
            Ok(_) => Ok(Upgraded::Not("after 'up' the document fails the validator".to_owned())),
            Err(error) if query::interrupt::ends_operation(&error) => Err(error),
            Err(error) => Ok(Upgraded::Not(error.message().to_owned())),
        }
    }

    /// The canonical document of a stored one; `None` if that is the same.
    ///
    /// # Errors
    /// That the operation was stopped.
    pub(super) fn canonical(&self, stored: RawDoc<'_>) -> Result<Option<DocBuf>> {
        if self.version_of(stored) != Version::Before {
            return Ok(None);
        }
        match self.upgraded(stored)? {
            Upgraded::Document(doc) => Ok(Some(doc)),
            Upgraded::Not(_) => Ok(None),
        }
    }

    /// A document of the latest version in the version before.
    ///
    /// # Errors
    /// Errors of `down`; PatternViolation without `down`.
    pub(super) fn lowered(&self, doc: RawDoc<'_>) -> Result<DocBuf> {
        let Some(down) = &self.down else { return Err(self.no_down()) };
        let lowered = down.apply(doc).map_err(|error| {
            let why = format!(
                "the document has version {} and cannot be shown in version {}: 'down' fails: ",
                self.version, self.from
            );
            error.context(why)
        })?;
        Ok(self.labelled(lowered.as_doc(), self.from))
    }

    /// The error for a form that does not exist.
    pub(super) fn no_down(&self) -> Error {
        let why = match self.contracted {
            true => "that version was given up (applyPatterns)",
            false => "the pattern has no 'down'",
        };
        Error::new(
            Code::PATTERN_VIOLATION,
            format!(
                "documents have version {} and cannot be shown in version {}: {why}",
                self.version, self.from
            ),
        )
    }

    /// The fields of a document of the version before that are lost or changed on the way to the
    /// latest version and back, besides those that may be.
    ///
    /// # Errors
    /// Errors of `up` and `down`.
    pub(super) fn lost(&self, doc: RawDoc<'_>) -> Result<Vec<String>> {
        let raised = self.raised(doc)?;
        let back = self.lowered(raised.as_doc())?;
        let mut lost = Vec::new();
        for (name, value) in doc {
            let same = back.as_doc().find(name).is_some_and(|found| same(found, value));
            if !same && name != self.field && !self.lossy.iter().any(|known| known == name) {
                lost.push(name.to_owned());
            }
        }
        Ok(lost)
    }
}

/// Whether two values have the same bytes.
pub(super) fn same(one: RawVal<'_>, other: RawVal<'_>) -> bool {
    one.kind == other.kind && one.bytes == other.bytes
}

/// A version as clients see it.
pub(super) fn number(version: i64) -> Val<'static> {
    i32::try_from(version).map_or(Val::Int64(version), Val::Int32)
}

/// The document with another value of a field, which stays in its place; `None` removes it.
pub(super) fn with_field(doc: RawDoc<'_>, field: &str, value: Option<Val<'_>>) -> DocBuf {
    DocBuf::build(|out| {
        let mut met = false;
        for (name, old) in doc {
            if name != field {
                out.raw(name, old);
                continue;
            }
            if let Some(value) = value.filter(|_| !met) {
                out.append(name, value);
            }
            met = true;
        }
        if let Some(value) = value.filter(|_| !met) {
            out.append(field, value);
        }
    })
}
