//! The hash of hashed indexes: 64 bits of MD5 over a value, numbers of all types alike.

use super::Env;
use super::arithmetic::pair;
use super::operator::Operator;
use value::writer::write_value;
use value::{RawDoc, Result, Val};

pub(super) static OPERATORS: &[Operator] =
    &[Operator::new("$toHashedIndexKey", 1, 1, to_hashed_index_key)];

fn to_hashed_index_key<'a>(values: &[Val<'a>], _: &Env<'a>) -> Result<Val<'a>> {
    Ok(Val::Int64(hashed_key(pair(values).0)))
}

/// The key that a hashed index holds for a value, as MongoDB computes it.
#[must_use]
pub fn hashed_key(value: Val<'_>) -> i64 {
    let mut bytes = 0i32.to_le_bytes().to_vec();
    add(&mut bytes, None, value);
    let [a, b, c, d, e, f, g, h, ..] = md5(&bytes);
    i64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Appends what is hashed of a value: type class, name inside of documents, content.
fn add(bytes: &mut Vec<u8>, name: Option<&str>, value: Val<'_>) {
    let class: i32 = match value {
        Val::MinKey => -1,
        Val::MaxKey => 127,
        Val::Undefined => 0,
        Val::Missing | Val::Null => 5,
        Val::Int32(_) | Val::Int64(_) | Val::Double(_) | Val::Decimal(_) => 10,
        Val::String(_) | Val::Symbol(_) => 15,
        Val::Document(_) => 20,
        Val::Array(_) => 25,
        Val::Binary(..) => 30,
        Val::ObjectId(_) => 35,
        Val::Bool(_) => 40,
        Val::DateTime(_) => 45,
        Val::Timestamp(_) => 47,
        Val::Regex(..) => 50,
        Val::DbPointer(..) => 55,
        Val::Code(_) => 60,
        Val::CodeWithScope(..) => 65,
    };
    bytes.extend_from_slice(&class.to_le_bytes());
    if let Some(name) = name {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }
    match value {
        Val::Document(doc) | Val::Array(doc) => add_elements(bytes, doc),
        Val::Int32(n) => bytes.extend_from_slice(&i64::from(n).to_le_bytes()),
        Val::Double(n) => bytes.extend_from_slice(&long(n).to_le_bytes()),
        Val::Decimal(n) => {
            let n = n.to_i64_round().unwrap_or_else(|| long(n.to_f64()));
            bytes.extend_from_slice(&n.to_le_bytes());
        }
        other => write_value(bytes, other),
    }
}

fn add_elements(bytes: &mut Vec<u8>, doc: RawDoc<'_>) {
    for (name, value) in doc {
        add(bytes, Some(name), value.get());
    }
    // The end of a document is an element without type.
    bytes.extend_from_slice(&0i32.to_le_bytes());
}

/// A double cut to a whole number; what 64 bits do not hold goes to their ends, NaN to zero.
fn long(n: f64) -> i64 {
    n as i64
}

/// MD5 (RFC 1321): not a defence against anyone, only what the format prescribes.
fn md5(input: &[u8]) -> [u8; 16] {
    const SHIFTS: [[u32; 4]; 4] =
        [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut message = input.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend_from_slice(&((input.len() as u64).wrapping_mul(8)).to_le_bytes());
    let mut state: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
    for block in message.as_chunks::<64>().0 {
        let mut words = [0u32; 16];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64usize {
            let (mixed, at) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), (7 * step) % 16),
            };
            // The constants are the sines of the step numbers.
            let constant = (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
            let word = words.get(at).copied().unwrap_or(0);
            let shift =
                SHIFTS.get(step / 16).and_then(|row| row.get(step % 4)).copied().unwrap_or(0);
            let sum = a.wrapping_add(mixed).wrapping_add(constant).wrapping_add(word);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(shift));
        }
        for (state, add) in state.iter_mut().zip([a, b, c, d]) {
            *state = state.wrapping_add(add);
        }
    }
    let mut digest = [0u8; 16];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_le_bytes();
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_of_known_texts() {
        let hex = |bytes: [u8; 16]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(md5(b"abc")), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(hex(md5(&[b'a'; 200])), "887f30b43b2867f4a9accceee7d16e6c");
    }
}
