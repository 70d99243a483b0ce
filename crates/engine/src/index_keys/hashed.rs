//! Hashed indexes: one field of the key pattern is stored as a hash of its value.
//!
//! The hash is computed from the encoded value, so equal numbers of different types have the same
//! hash, and the planner can hash the points of an interval. Arrays are refused, as in MongoDB.

use super::Index;
use super::keys::{Key, Keys};
use super::ordered;
use value::path::Part;
use value::{Code, Error, RawDoc, Result, Val, keys as order};

/// The hashed field of a key pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// Its position in the key pattern.
    pub at: usize,
}

impl Hashed {
    /// Returns the hashed field of a key pattern, if it has one.
    #[must_use]
    pub fn of(key: RawDoc<'_>) -> Option<Hashed> {
        let at = key.iter().position(|(_, kind)| kind.get() == Val::String("hashed"))?;
        Some(Hashed { at })
    }
}

/// Returns the hash of an encoded value. Hashes are stored on disk, so the function must never
/// change.
#[must_use]
pub fn hash(encoded: &[u8]) -> i64 {
    // FNV-1a, then a finaliser that spreads the bits of short values.
    let mut hash: u64 = 0xCBF2_9CE4_8422_2325;
    for byte in encoded {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    (hash ^ (hash >> 33)) as i64
}

/// Adds the key of a document.
///
/// # Errors
/// 16766 for an array in the hashed field or on the path to it.
pub fn keys(index: &Index, hashed: Hashed, doc: RawDoc<'_>, out: &mut Keys) -> Result<()> {
    for field in &index.fields {
        if let Some(at) = array_on(doc, field.path.parts()) {
            let parts = field.path.parts().iter().take(at + 1);
            let path: Vec<&str> = parts.map(|part| &*part.name).collect();
            return Err(Error::new(
                Code(16766),
                format!(
                    "Error: hashed indexes do not currently support array values. Found array at \
                     path: {}",
                    path.join(".")
                ),
            ));
        }
    }
    ordered::each_combination(index, doc, out, &mut |values, _, out| {
        if index.sparse && values.iter().all(|value| value.is_missing()) {
            return Ok(());
        }
        let mut key = Key::default();
        for (at, (value, field)) in values.iter().zip(&index.fields).enumerate() {
            let collation = index.collation.as_deref();
            let value = if at == hashed.at {
                Val::Int64(hash(&order::key_with(*value, collation)))
            } else {
                *value
            };
            order::encode_with(&mut key.values, value, field.descending, collation);
        }
        out.add(key)
    })
}

/// Returns the part of a path at which there is an array.
fn array_on(mut doc: RawDoc<'_>, parts: &[Part]) -> Option<usize> {
    for (at, part) in parts.iter().enumerate() {
        let value = doc.find(&part.name)?;
        if value.as_array().is_some() {
            return Some(at);
        }
        doc = value.as_doc()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_hash_equally_and_the_hash_is_stable() {
        let of = |value| hash(&order::key(value));
        assert_eq!(of(Val::Int32(7)), of(Val::Double(7.0)));
        assert_ne!(of(Val::Int32(7)), of(Val::Int32(8)));
        assert_eq!(hash(b""), -1_166_397_803_181_037_274);
    }
}
