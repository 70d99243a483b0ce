//! Conversion between the caller's types and BSON bytes.

use bson::{Bson, Document};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use value::{Code, DocBuf, Error, ObjectId, RawDoc, RawVal, Result, Val, limits, validate};

/// A value as the bytes of a document, with the checks that the server applies to documents of
/// clients.
pub(super) fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let bytes = bson::serialize_to_vec(value).map_err(unwritable)?;
    validate::validate(&bytes, limits::DEPTH_MAX_WIRE)?;
    Ok(bytes)
}

/// A value as a document. It is converted from its bytes, because types may serialise differently
/// into `Document`, which is a human-readable format for serde.
pub(super) fn to_document<T: Serialize>(value: &T) -> Result<Document> {
    from_bytes(&to_bytes(value)?)
}

/// A value from the bytes of a document.
pub(super) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    bson::deserialize_from_slice(bytes).map_err(|error| {
        Error::new(
            Code::FAILED_TO_PARSE,
            format!("cannot read a document as {}: {error}", std::any::type_name::<T>()),
        )
    })
}

/// One value of a reply.
pub(super) fn to_bson(value: RawVal<'_>) -> Result<Bson> {
    let wrapped = DocBuf::build(|out| {
        out.raw("value", value);
    });
    let mut doc: Document = from_bytes(wrapped.bytes())?;
    Ok(doc.remove("value").unwrap_or(Bson::Null))
}

/// Adds an `_id` at the front unless the document has one, as drivers do. Also returns the `_id`.
pub(super) fn with_id(bytes: Vec<u8>) -> Result<(Vec<u8>, Bson)> {
    let doc = RawDoc::new(&bytes);
    if let Some(id) = doc.find("_id") {
        let id = to_bson(id)?;
        return Ok((bytes, id));
    }
    let id = ObjectId::generate();
    let extended = DocBuf::build(|out| {
        out.append("_id", Val::ObjectId(id));
        out.extend(doc);
    });
    Ok((extended.into_bytes(), Bson::ObjectId(bson::oid::ObjectId::from_bytes(id.0))))
}

/// A count in a reply; 0 if it is missing.
pub(super) fn count_of(reply: RawDoc<'_>, name: &str) -> u64 {
    let count = reply.get(name).and_then(Val::as_i64_exact);
    count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}

/// A count in the form of a command's field. Larger values become the largest integer.
pub(super) fn whole(count: u64) -> Bson {
    Bson::Int64(i64::try_from(count).unwrap_or(i64::MAX))
}

/// A time limit as commands take it: whole milliseconds, at least one.
pub(super) fn time_limit(limit: Duration) -> Bson {
    Bson::Int32(i32::try_from(limit.as_millis().max(1)).unwrap_or(i32::MAX))
}

/// The error for a value that cannot be converted to a document.
pub(super) fn unwritable(error: bson::error::Error) -> Error {
    Error::new(Code::BAD_VALUE, format!("cannot write a value as a document: {error}"))
}
