//! Reads the options of a declaration by name. Options that are never read are unknown.

use super::words;
use value::{Code, Error, RawDoc, Result, Val};

/// The options of one declaration.
pub(crate) struct Options<'a> {
    doc: RawDoc<'a>,
    asked: Vec<&'static str>,
    /// The start of error messages.
    pub(crate) place: String,
}

impl<'a> Options<'a> {
    /// The options of a declaration.
    pub(crate) fn new(doc: RawDoc<'a>) -> Result<Options<'a>> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in doc {
            if names.contains(&name) {
                return Err(Error::failed_to_parse(format!("the option '{name}' occurs twice")));
            }
            names.push(name);
        }
        Ok(Options { doc, asked: Vec::new(), place: "pattern".to_owned() })
    }

    /// An option of any type; null counts as missing.
    pub(crate) fn get(&mut self, name: &'static str) -> Option<Val<'a>> {
        self.asked.push(name);
        self.doc.get(name).filter(|value| !matches!(value, Val::Null))
    }

    fn wrong_type(&self, name: &str, found: Val<'_>, wanted: &str) -> Error {
        Error::type_mismatch(format!(
            "{}: '{name}' must be {wanted}, found {}",
            self.place,
            found.kind().name()
        ))
    }

    /// A BadValue about an option.
    pub(crate) fn bad(&self, message: impl std::fmt::Display) -> Error {
        Error::bad_value(format!("{}: {message}", self.place))
    }

    /// The error for an option's value that this version does not support.
    pub(crate) fn not_available(&self, what: impl std::fmt::Display) -> Error {
        Error::new(
            Code::NOT_IMPLEMENTED,
            format!("{}: {what} is not available in this version", self.place),
        )
    }

    /// A text that is not empty.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<&'a str>> {
        match self.get(name) {
            None => Ok(None),
            Some(Val::String("")) => Err(self.bad(format!("'{name}' cannot be empty"))),
            Some(Val::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong_type(name, other, "a string")),
        }
    }

    /// A required text.
    pub(crate) fn required_text(&mut self, name: &'static str) -> Result<&'a str> {
        self.text(name)?.ok_or_else(|| self.missing(name))
    }

    /// The error for a missing required option.
    pub(crate) fn missing(&self, name: &str) -> Error {
        let meant = self.meant(name);
        Error::failed_to_parse(format!("{}: the option '{name}' is missing{meant}", self.place))
    }

    /// An option that was given and not read yet, and that probably means this one.
    pub(crate) fn meant(&self, name: &str) -> String {
        let given = self.doc.iter().map(|(given, _)| given);
        let unread: Vec<&str> = given.filter(|given| !self.asked.contains(given)).collect();
        let meant = words::nearest(name, &unread);
        meant.map_or_else(String::new, |given| format!(" (did you mean it by '{given}'?)"))
    }

    /// A dotted path.
    pub(crate) fn path(&mut self, name: &'static str) -> Result<Option<&'a str>> {
        let Some(path) = self.text(name)? else { return Ok(None) };
        self.check_path(name, path)?;
        Ok(Some(path))
    }

    /// Refuses a text that is not a dotted path of field names.
    pub(crate) fn check_path(&self, name: &str, path: &str) -> Result<()> {
        let odd = |part: &str| {
            part.is_empty() || part.starts_with('$') || part.bytes().all(|b| b.is_ascii_digit())
        };
        if path.split('.').any(odd) || path.contains('\0') || path.split('.').count() > 50 {
            return Err(
                self.bad(format!("'{name}' must be a dotted path of field names, found '{path}'"))
            );
        }
        Ok(())
    }

    /// Refuses a document that is not a sort.
    pub(crate) fn check_sort(&self, name: &str, sort: RawDoc<'_>) -> Result<()> {
        if sort.is_empty() {
            return Err(self.bad(format!("'{name}' must name at least one field")));
        }
        for (path, direction) in sort {
            self.check_path(name, path)?;
            if !matches!(direction.get().as_f64(), Some(1.0 | -1.0)) {
                return Err(self.bad(format!("'{name}.{path}' must be 1 or -1")));
            }
        }
        Ok(())
    }

    /// A document.
    pub(crate) fn document(&mut self, name: &'static str) -> Result<Option<RawDoc<'a>>> {
        match self.get(name) {
            None => Ok(None),
            Some(Val::Document(doc)) => Ok(Some(doc)),
            Some(other) => Err(self.wrong_type(name, other, "a document")),
        }
    }

    /// An array.
    pub(crate) fn array(&mut self, name: &'static str) -> Result<Option<RawDoc<'a>>> {
        match self.get(name) {
            None => Ok(None),
            Some(Val::Array(array)) => Ok(Some(array)),
            Some(other) => Err(self.wrong_type(name, other, "an array")),
        }
    }

    /// A positive whole number.
    pub(crate) fn positive(&mut self, name: &'static str) -> Result<Option<usize>> {
        match self.get(name) {
            None => Ok(None),
            Some(number) if number.is_number() => match number.as_i64_exact() {
                Some(number @ 1..=1_000_000_000) => Ok(Some(number as usize)),
                _ => Err(self.bad(format!("'{name}' must be a whole number above zero"))),
            },
            Some(other) => Err(self.wrong_type(name, other, "a number")),
        }
    }

    /// A boolean.
    pub(crate) fn boolean(&mut self, name: &'static str) -> Result<Option<bool>> {
        match self.get(name) {
            None => Ok(None),
            Some(Val::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong_type(name, other, "a boolean")),
        }
    }

    /// One of several words; the first is the default. Words in `later` are known but not
    /// available.
    pub(crate) fn choice(
        &mut self,
        name: &'static str,
        words: &[&'static str],
        later: &[&str],
    ) -> Result<&'static str> {
        let default = words.first().copied().unwrap_or("");
        let Some(given) = self.text(name)? else { return Ok(default) };
        if let Some(word) = words.iter().find(|word| **word == given) {
            return Ok(word);
        }
        if later.contains(&given) {
            return Err(self.not_available(format!("{name}: '{given}'")));
        }
        let known: Vec<String> =
            words.iter().chain(later).map(|word| format!("'{word}'")).collect();
        Err(self.bad(format!("'{name}' must be one of {}, found '{given}'", known.join(", "))))
    }

    /// The error for an unknown name inside of an option.
    pub(crate) fn unknown(&self, option: &str, name: &str, known: &[&str]) -> Error {
        self.bad(format!("'{option}.{name}' is unknown{}", words::hint(name, known)))
    }

    /// Refuses options that were not read.
    pub(crate) fn finish(&self, kind: &str) -> Result<()> {
        match self.doc.iter().find(|(name, _)| !self.asked.contains(name)) {
            None => Ok(()),
            Some((name, _)) => {
                let mut known = self.asked.clone();
                // The database sets it.
                known.retain(|known| *known != "chosen");
                known.sort_unstable();
                known.dedup();
                let hint = words::hint(name, &known);
                Err(Error::failed_to_parse(format!(
                    "{}: '{name}' is not an option of the kind '{kind}'{hint}",
                    self.place
                )))
            }
        }
    }
}
