//! Divides events that are too large for one document: `$changeStreamSplitLargeEvent`.

use super::token::Token;
use value::{Code, Error, RawDoc, Result, limits, writer};

/// Bytes of a part in addition to the fields of the event.
const PART_EXTRA: usize = 512;

/// The parts of an event: its top-level fields, as many in each part as fit.
///
/// # Errors
/// BSONObjectTooLarge when one field alone does not fit.
pub(super) fn split(event: RawDoc<'_>, token: &Token) -> Result<Vec<(Token, Vec<u8>)>> {
    let most = limits::DOCUMENT_BYTES_MAX - PART_EXTRA;
    let mut groups: Vec<Vec<u8>> = vec![Vec::new()];
    for (name, value) in event {
        if name == "_id" {
            continue;
        }
        let size = value.bytes.len() + name.len() + 2;
        if size > most {
            return Err(too_large(event.bytes().len()));
        }
        if groups.last().is_some_and(|group| group.len() + size > most) {
            groups.push(Vec::new());
        }
        if let Some(group) = groups.last_mut() {
            group.push(value.kind);
            group.extend_from_slice(name.as_bytes());
            group.push(0);
            group.extend_from_slice(value.bytes);
        }
    }
    let count = groups.len() as u32;
    let part = |(at, group): (usize, Vec<u8>)| {
        let token = Token { part: at as u32 + 1, ..*token };
        let mut bytes = Vec::with_capacity(group.len() + PART_EXTRA);
        writer::write_doc(&mut bytes, |out| {
            out.doc("_id", |out| {
                out.str("_data", &token.text());
            });
            out.doc("splitEvent", |out| {
                out.count("fragment", u64::from(token.part)).count("of", u64::from(count));
            });
            out.buffer().extend_from_slice(&group);
        });
        (token, bytes)
    };
    Ok(groups.into_iter().enumerate().map(part).collect())
}

/// The error for an event that cannot be sent.
pub(super) fn too_large(bytes: usize) -> Error {
    let most = limits::DOCUMENT_BYTES_MAX + 16 * 1024;
    Error::new(
        Code::BSON_OBJECT_TOO_LARGE,
        format!(
            "BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and \
             {most}({}MB)",
            most / (1024 * 1024)
        ),
    )
}
