//! `encrypt` and `encryptMetadata`: what a server without keys can tell of encrypted values. An
//! encrypted value is a binary of subtype 6 that begins with how it was encrypted, the key (16
//! bytes) and the type of the original value.

use super::TypeSet;
use value::{Code, Error, RawDoc, RawVal, Result, Val};

/// The binary subtype of encrypted values.
const SUBTYPE: u8 = 6;
/// Where the type of the original value is.
const TYPE_AT: usize = 17;

const ALGORITHMS: &[&str] =
    &["AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic", "AEAD_AES_256_CBC_HMAC_SHA_512-Random"];

/// The keyword `encrypt`: the value is encrypted.
#[derive(Debug)]
pub(super) struct Encrypted {
    /// The types that the original value may have.
    types: Option<TypeSet>,
}

impl Encrypted {
    /// Reads the argument of `encrypt`; `types` reads a list of type names.
    ///
    /// # Errors
    /// An unknown field, algorithm or type; a key of the wrong type.
    pub(super) fn parse<'d>(
        doc: RawDoc<'d>,
        types: impl FnOnce(Val<'d>) -> Result<TypeSet>,
    ) -> Result<Encrypted> {
        check(doc, "encrypt", &["algorithm", "bsonType", "keyId"])?;
        Ok(Encrypted { types: doc.get("bsonType").map(types).transpose()? })
    }

    /// Whether a value is encrypted, of one of the types.
    pub(super) fn allows(&self, value: RawVal<'_>) -> bool {
        let Val::Binary(SUBTYPE, bytes) = value.get() else { return false };
        let Some(types) = &self.types else { return true };
        let known = matches!(bytes.first(), Some(1 | 2));
        let original = bytes.get(TYPE_AT).filter(|_| known && bytes.len() > TYPE_AT + 1);
        original.is_some_and(|kind| types.matches(RawVal { kind: *kind, bytes: &[] }))
    }
}

/// Checks the argument of `encryptMetadata`, which says nothing about values.
///
/// # Errors
/// An unknown field or algorithm; a key of the wrong type.
pub(super) fn check_metadata(doc: RawDoc<'_>) -> Result<()> {
    check(doc, "encryptMetadata", &["algorithm", "keyId"])?;
    if doc.is_empty() {
        return Err(Error::failed_to_parse(
            "$jsonSchema keyword 'encryptMetadata' cannot be an empty object",
        ));
    }
    Ok(())
}

fn check(doc: RawDoc<'_>, keyword: &str, known: &[&str]) -> Result<()> {
    for (name, value) in doc {
        if !known.contains(&name) {
            return Err(Error::new(
                Code(40415),
                format!("BSON field '{keyword}.{name}' is an unknown field."),
            ));
        }
        match (name, value.get()) {
            ("algorithm", Val::String(name)) if ALGORITHMS.contains(&name) => {}
            ("algorithm", Val::String(other)) => {
                return Err(Error::bad_value(format!(
                    "Enumeration value '{other}' for field '{keyword}.algorithm' is not a valid \
                     value."
                )));
            }
            ("algorithm", other) => {
                return Err(Error::type_mismatch(format!(
                    "BSON field '{keyword}.algorithm' is the wrong type '{}', expected type \
                     'string'",
                    other.kind().name()
                )));
            }
            ("keyId", Val::String(_) | Val::Array(_)) => {}
            ("keyId", other) => {
                return Err(Error::new(
                    Code(51085),
                    format!(
                        "expected a string or an array of UUIDs, found {}",
                        other.kind().name()
                    ),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}
