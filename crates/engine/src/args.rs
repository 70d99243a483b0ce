//! Reads the fields of a command: types, defaults, and MongoDB's error messages for wrong types.
//!
//! Layer: base.

use smallvec::SmallVec;
use value::raw::same_name;
use value::{Code, Error, RawDoc, RawVal, Result, Val};

/// The fields of a command or of one of its statements.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    /// The command or statement that the fields belong to, for messages: `find`, `update.updates`.
    pub place: &'static str,
    /// The fields.
    pub doc: RawDoc<'a>,
    /// A bit for each name of a field ([`bit_of`]). Most lookups are for fields that are not there;
    /// a clear bit answers them without a walk over the document.
    names: u64,
}

impl<'a> Args<'a> {
    /// The fields of `doc`.
    #[must_use]
    pub fn new(place: &'static str, doc: RawDoc<'a>) -> Args<'a> {
        let mut names = 0;
        let mut elements = doc.iter();
        while let Some((name, _)) = elements.next_bytes() {
            names |= bit_of(name);
        }
        Args { place, doc, names }
    }

    /// The same fields with another name for messages.
    #[must_use]
    pub fn at(self, place: &'static str) -> Args<'a> {
        Args { place, ..self }
    }

    /// The first field of this name, not decoded; null counts as a value.
    #[inline]
    #[must_use]
    pub fn find(&self, name: &str) -> Option<RawVal<'a>> {
        if self.may_have(name) { self.doc.find(name) } else { None }
    }

    /// Whether there may be a field of this name. It costs no walk over the document.
    #[inline]
    #[must_use]
    pub fn may_have(&self, name: &str) -> bool {
        self.names & bit_of(name.as_bytes()) != 0
    }

    /// Whether there is a field of this name; null counts as a value.
    #[inline]
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
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
    #[inline]
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Val<'a>> {
        self.find(name)
            .map(RawVal::get)
            .filter(|value| !matches!(value, Val::Null | Val::Undefined))
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
        let mut seen: SmallVec<[&[u8]; 24]> = SmallVec::new();
        let mut seen_bits = 0;
        let mut elements = self.doc.iter();
        while let Some((name, _)) = elements.next_bytes() {
            let bit = bit_of(name);
            if seen_bits & bit != 0 && seen.iter().any(|earlier| same_name(earlier, name)) {
                return Err(self.refused(40413, name, "is a duplicate field"));
            }
            let expected = known.iter().any(|known| same_name(known.as_bytes(), name))
                || (generic && is_generic(name));
            if !expected {
                return Err(self.refused(40415, name, "is an unknown field."));
            }
            seen_bits |= bit;
            seen.push(name);
        }
        Ok(())
    }

    /// The error for a field that the command does not take.
    #[cold]
    fn refused(&self, code: i32, name: &[u8], why: &str) -> Error {
        let name = String::from_utf8_lossy(name);
        Error::new(Code(code), format!("BSON field '{}.{name}' {why}", self.place))
    }

    /// The first field that is neither in the list nor known to every command.
    #[must_use]
    pub fn unknown_field(&self, known: &[&str]) -> Option<&'a str> {
        let mut names = self.doc.iter().map(|(name, _)| name);
        names.find(|name| !known.contains(name) && !is_generic(name.as_bytes()))
    }

    /// A hint: a string or a document.
    ///
    /// # Errors
    /// When it has another type.
    pub fn hint(&self) -> Result<Option<Val<'a>>> {
        match self.find("hint").map(RawVal::get) {
            None => Ok(None),
            Some(hint @ (Val::String(_) | Val::Document(_))) => Ok(Some(hint)),
            Some(_) => Err(Error::new(Code::FAILED_TO_PARSE, "Hint must be a string or an object")),
        }
    }
}

/// The bit of a name in [`Args::names`]: by its length and first byte.
#[inline]
fn bit_of(name: &[u8]) -> u64 {
    let first = usize::from(name.first().copied().unwrap_or(0));
    1 << ((name.len().wrapping_mul(11) ^ first) & 63)
}

/// Whether every command accepts the field.
fn is_generic(name: &[u8]) -> bool {
    matches!(
        name,
        b"$db"
            | b"lsid"
            | b"txnNumber"
            | b"$clusterTime"
            | b"$readPreference"
            | b"readConcern"
            | b"writeConcern"
            | b"comment"
            | b"maxTimeMS"
            | b"maxTimeMSOpOnly"
            | b"apiVersion"
            | b"apiStrict"
            | b"apiDeprecationErrors"
            | b"startTransaction"
            | b"autocommit"
            | b"stmtId"
            | b"stmtIds"
            | b"$audit"
            | b"$client"
            | b"$configServerState"
            | b"$queryOptions"
            | b"allowImplicitCollectionCreation"
            | b"databaseVersion"
            | b"shardVersion"
            | b"tracking_info"
            | b"$tenant"
            | b"expectPrefix"
            | b"encryptionInformation"
            | b"mayBypassWriteBlocking"
            | b"rawData"
            | b"$traceCtx"
            | b"$schemaVersion"
            | b"backpressure"
            | b"helloOk"
    )
}
