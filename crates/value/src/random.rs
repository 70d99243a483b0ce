//! Random bytes of the operating system, for what must be unique or must not be guessed:
//! identifiers, cursor numbers, nonces, keys. Sampling needs neither and uses `fastrand`.

/// `N` random bytes.
///
/// # Panics
/// When the operating system has none: neither secrets nor unique identifiers can be made then.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    bytes
}

/// A random number of 64 bits.
#[must_use]
pub fn u64() -> u64 {
    u64::from_ne_bytes(bytes())
}

/// A random UUID (version 4, variant 1).
#[must_use]
pub fn uuid() -> [u8; 16] {
    let mut id = bytes::<16>();
    id[6] = id[6] & 0x0F | 0x40;
    id[8] = id[8] & 0x3F | 0x80;
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_random_and_of_version_4() {
        let (a, b) = (uuid(), uuid());
        assert_ne!(a, b);
        assert_eq!(a[6] >> 4, 4);
        assert_eq!(a[8] >> 6, 0b10);
    }
}
