//! What `dbHash` and `filemd5` share: digests of documents, by which copies are compared.

pub(super) fn hex(digest: [u8; 16]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
