//! Which paths of an index went through arrays, as bits of one number.
//!
//! The low half has one bit for each field of the key pattern. The high half has one bit for each
//! name on the fields' paths, field after field, so that bounds on two paths can be combined unless
//! the paths share an array. Names beyond the last bit share that bit.

use super::IndexField;

/// The bit of a field without a bit of its own, and of a name without one.
const LAST: usize = 31;

/// The bit of a field.
pub(super) fn field(at: usize) -> u64 {
    1 << at.min(LAST)
}

/// The bits of a field that has an array with `rest` names behind it.
pub(super) fn component(fields: &[IndexField], at: usize, rest: usize) -> u64 {
    let names = fields.get(at).map_or(0, |field| field.path.parts().len());
    field(at) | name(fields, at, names.saturating_sub(rest))
}

/// The bit of the name that ends the first `depth` names of a field.
fn name(fields: &[IndexField], at: usize, depth: usize) -> u64 {
    let before: usize = fields.iter().take(at).map(|field| field.path.parts().len()).sum();
    1 << (32 + (before + depth.saturating_sub(1)).min(LAST))
}

/// Whether the field has arrays.
pub(super) fn has_field(bits: u64, at: usize) -> bool {
    bits & field(at) != 0
}

/// Whether the first `depth` names of a field lead to arrays.
pub(super) fn has_component(bits: u64, fields: &[IndexField], at: usize, depth: usize) -> bool {
    has_field(bits, at) && bits & name(fields, at, depth) != 0
}

/// Reads the bits of a catalog record. Earlier versions stored the low half only: every name of
/// such a field may have been an array.
pub fn decode(record: &[u8]) -> Option<u64> {
    if let Some(bits) = record.first_chunk() {
        return Some(u64::from_be_bytes(*bits));
    }
    let fields = u32::from_be_bytes(*record.first_chunk()?);
    Some(u64::from(fields) | (u64::from(u32::MAX) << 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::path::Path;

    fn fields(paths: &[&str]) -> Vec<IndexField> {
        let field = |path: &&str| IndexField { path: Path::new(path), descending: false };
        paths.iter().map(field).collect()
    }

    #[test]
    fn names_have_bits_of_their_own() {
        let fields = fields(&["a.b.x", "a.b.y", "c"]);
        // `a.b` is an array with one name behind it, in the second field.
        let bits = component(&fields, 1, 1);
        assert!(has_field(bits, 1) && !has_field(bits, 0));
        assert!(has_component(bits, &fields, 1, 2));
        assert!(!has_component(bits, &fields, 1, 1));
        assert!(!has_component(bits, &fields, 1, 3));
        assert!(!has_component(bits, &fields, 0, 2));
        assert_eq!(decode(&bits.to_be_bytes()), Some(bits));
    }

    #[test]
    fn names_beyond_the_last_bit_share_it() {
        let long = vec!["a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r"; 2];
        let fields = fields(&long);
        let bits = component(&fields, 1, 0);
        assert!(has_component(bits, &fields, 1, 18) && has_component(bits, &fields, 1, 15));
        assert!(!has_component(bits, &fields, 1, 1));
    }

    #[test]
    fn records_of_earlier_versions_say_nothing_of_names() {
        let fields = fields(&["a.b", "c"]);
        let bits = decode(&1_u32.to_be_bytes()).unwrap();
        assert!(has_component(bits, &fields, 0, 1) && has_component(bits, &fields, 0, 2));
        assert!(!has_component(bits, &fields, 1, 1));
        assert_eq!(decode(&[1, 2]), None);
    }
}
