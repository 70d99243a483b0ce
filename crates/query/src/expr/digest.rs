//! The digests of the hash operators and of `dbHash` and `filemd5`: MD5, SHA-256 and XXH64.

use md5::Digest;

/// MD5 of an input that arrives in parts. Required by formats; not for security.
#[derive(Clone, Debug, Default)]
pub struct Md5(md5::Md5);

impl Md5 {
    /// Adds a part of the input.
    pub fn update(&mut self, input: &[u8]) {
        self.0.update(input);
    }

    /// The digest of the whole input.
    #[must_use]
    pub fn finish(self) -> [u8; 16] {
        self.0.finalize().into()
    }
}

/// MD5 of one input.
pub(super) fn md5(input: &[u8]) -> [u8; 16] {
    md5::Md5::digest(input).into()
}

/// SHA-256 of one input.
pub(super) fn sha256(input: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(input).into()
}

/// XXH64 of one input, with the seed zero.
pub(super) fn xxh64(input: &[u8]) -> u64 {
    xxhash_rust::xxh64::xxh64(input, 0)
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
        for length in 0..200 {
            let mut parts = Md5::default();
            (0..length).for_each(|_| parts.update(b"a"));
            assert_eq!(parts.finish(), md5(&vec![b'a'; length]));
        }
    }

    #[test]
    fn sha256_and_xxh64_of_known_texts() {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(
            hex(&sha256(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            hex(&sha256(b"report.pdf")),
            "6466e450a16b77b865c5829d6b6c56d9f892956475642dbeb9ccc4340fe01b15"
        );
        assert_eq!(xxh64(b""), 0xEF46_DB37_51D8_E999);
        assert_eq!(xxh64(b"abc"), 0x44BC_2CF5_AD77_0999);
        assert_eq!(xxh64(b"Nobody inspects the spammish repetition"), 0xFBCE_A83C_8A37_8BF1);
    }
}
