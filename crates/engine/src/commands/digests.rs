//! Shared code of `dbHash` and `filemd5`: digests of documents, to compare copies.

pub(super) fn hex(digest: [u8; 16]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
