//! Reads the fields of a command: types, defaults, and MongoDB's error messages for wrong types.
//!
//! Layer: base.

use value::{Code, Error, RawDoc, Result, Val};

/// The fields of a command or of one of its statements.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    /// The command or statement that the fields belong to, for messages: `find`, `update.updates`.
    pub place: &'static str,
    /// The fields.
    pub doc: RawDoc<'a>,
}

impl<'a> Args<'a> {
    /// The fields of `doc`.
    #[must_use]
    pub fn new(place: &'static str, doc: RawDoc<'a>) -> Args<'a> {
        Args { place, doc }
    }

    /// The error for a field of the wrong type.
    #[cold]
    #[must_use]
    pub fn wrong_type(&self, name: &str, found: Val<'_>, expected: &str) -> Error {
        let expected = if expected.starts_with('[') {
            format!("expected types '{expected}'")
        } else {
            format!("expected type '{expected}'")
        };
        Error::type_mismatch(format!(
            "BSON field '{}.{name}' is the wrong type '{}', {expected}",
            self.place,
            found.kind().name()
        ))
    }

    /// The error for a required field that is missing.
    #[cold]
    #[must_use]
    pub fn missing(&self, name: &str) -> Error {
        Error::new(
            Code(40414),
            format!("BSON field '{}.{name}' is missing but a required field", self.place),
        )
    }

    /// The field, unless it is missing; null counts as missing.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Val<'a>> {
        self.doc.get(name).filter(|value| !matches!(value, Val::Null | Val::Undefined))
    }

    /// A string.
    ///
    /// # Errors
    /// When it is missing or not a string.
    pub fn string(&self, name: &str) -> Result<&'a str> {
        self.optional_string(name)?.ok_or_else(|| self.missing(name))
    }

    /// A string, if there is one.
    ///
    /// # Errors
    /// When it is not a string.
    pub fn optional_string(&self, name: &str) -> Result<Option<&'a str>> {
        match self.get(name) {
            None => Ok(None),
            Some(Val::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong_type(name, other, "string")),
        }
    }

    /// A document, if there is one.
    ///
    /// # Errors
    /// When it is not a document.
    pub fn optional_doc(&self, name: &str) -> Result<Option<RawDoc<'a>>> {
        match self.get(name) {
            None => Ok(None),
            Some(Val::Document(doc)) => Ok(Some(doc)),
            Some(other) => Err(self.wrong_type(name, other, "object")),
        }
    }

    /// A document.
    ///
    /// # Errors
    /// When it is missing or not a document.
    pub fn doc(&self, name: &str) -> Result<RawDoc<'a>> {
        self.optional_doc(name)?.ok_or_else(|| self.missing(name))
    }

    /// An array, if there is one.
    ///
    /// # Errors
    /// When it is not an array.
    pub fn optional_array(&self, name: &str) -> Result<Option<RawDoc<'a>>> {
        match self.get(name) {
            None => Ok(None),
            Some(Val::Array(doc)) => Ok(Some(doc)),
            Some(other) => Err(self.wrong_type(name, other, "array")),
        }
    }

    /// A boolean. Numbers are accepted as in MongoDB: zero is false, all others are true.
    ///
    /// # Errors
    /// When it has another type.
    pub fn bool(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            None => Ok(false),
            Some(
                value @ (Val::Bool(_)
                | Val::Int32(_)
                | Val::Int64(_)
                | Val::Double(_)
                | Val::Decimal(_)),
            ) => Ok(value.truthy()),
            Some(other) => Err(self.wrong_type(name, other, "[bool, long, int, decimal, double]")),
        }
    }

    /// A boolean that is true when missing.
    ///
    /// # Errors
    /// When it has another type.
    pub fn bool_or_true(&self, name: &str) -> Result<bool> {
        if self.get(name).is_none() { Ok(true) } else { self.bool(name) }
    }

    /// A whole number, if there is one. Fractions are truncated, as in MongoDB.
    ///
    /// # Errors
    /// When it is not a number.
    pub fn optional_i64(&self, name: &str) -> Result<Option<i64>> {
        match self.get(name) {
            None => Ok(None),
            Some(Val::Double(n)) => Ok(Some(n as i64)),
            Some(Val::Decimal(n)) => Ok(Some(n.to_f64() as i64)),
            Some(Val::Int32(n)) => Ok(Some(i64::from(n))),
            Some(Val::Int64(n)) => Ok(Some(n)),
            Some(other) => Err(self.wrong_type(name, other, "[long, int, decimal, double]")),
        }
    }

    /// A whole number that is not negative, if there is one.
    ///
    /// # Errors
    /// When it is not a number, or below zero (51024).
    pub fn optional_u64(&self, name: &str) -> Result<Option<u64>> {
        let Some(n) = self.optional_i64(name)? else { return Ok(None) };
        u64::try_from(n).map(Some).map_err(|_| {
            Error::new(
                Code(51024),
                format!("BSON field '{name}' value must be >= 0, actual value '{n}'"),
            )
        })
    }

    /// Refuses fields that are in neither list.
    ///
    /// # Errors
    /// 40415 for the first one.
    pub fn check_fields(&self, known: &[&str], generic: bool) -> Result<()> {
        for (at, (name, _)) in self.doc.iter().enumerate() {
            if self.doc.iter().take(at).any(|(earlier, _)| earlier == name) {
                return Err(Error::new(
                    Code(40413),
                    format!("BSON field '{}.{name}' is a duplicate field", self.place),
                ));
            }
            let expected = known.contains(&name) || (generic && is_generic(name));
            if !expected {
                return Err(Error::new(
                    Code(40415),
                    format!("BSON field '{}.{name}' is an unknown field.", self.place),
                ));
            }
        }
        Ok(())
    }

    /// The first field that is neither in the list nor known to every command.
    #[must_use]
    pub fn unknown_field(&self, known: &[&str]) -> Option<&'a str> {
        let mut names = self.doc.iter().map(|(name, _)| name);
        names.find(|name| !known.contains(name) && !is_generic(name))
    }

    /// A hint: a string or a document.
    ///
    /// # Errors
    /// When it has another type.
    pub fn hint(&self) -> Result<Option<Val<'a>>> {
        match self.doc.get("hint") {
            None => Ok(None),
            Some(hint @ (Val::String(_) | Val::Document(_))) => Ok(Some(hint)),
            Some(_) => Err(Error::new(Code::FAILED_TO_PARSE, "Hint must be a string or an object")),
        }
    }
}

/// Whether every command accepts the field.
fn is_generic(name: &str) -> bool {
    matches!(
        name,
        "$db"
            | "lsid"
            | "txnNumber"
            | "$clusterTime"
            | "$readPreference"
            | "readConcern"
            | "writeConcern"
            | "comment"
            | "maxTimeMS"
            | "maxTimeMSOpOnly"
            | "apiVersion"
            | "apiStrict"
            | "apiDeprecationErrors"
            | "startTransaction"
            | "autocommit"
            | "stmtId"
            | "stmtIds"
            | "$audit"
            | "$client"
            | "$configServerState"
            | "$queryOptions"
            | "allowImplicitCollectionCreation"
            | "databaseVersion"
            | "shardVersion"
            | "tracking_info"
            | "$tenant"
            | "expectPrefix"
            | "encryptionInformation"
            | "mayBypassWriteBlocking"
            | "rawData"
            | "$traceCtx"
            | "$schemaVersion"
            | "backpressure"
            | "helloOk"
    )
}
