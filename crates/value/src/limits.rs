//! MongoDB's limits, in one place; each is tested at and above its edge.

/// Largest document a client may store, in bytes (16 MiB).
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest document the server may pass around inside, in bytes: a stored document plus overhead.
pub const DOCUMENT_BYTES_MAX_INTERNAL: usize = DOCUMENT_BYTES_MAX + 16 * 1024;
/// Largest wire message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;
/// Most write statements in one batch.
pub const WRITE_BATCH_MAX: usize = 100_000;
/// Deepest nesting of documents and arrays in a stored document.
pub const DEPTH_MAX: usize = 100;
/// Deepest nesting that is read at all (a command wraps documents in arrays and operators).
pub const DEPTH_MAX_WIRE: usize = 180;
/// Longest `database.collection` name, in bytes.
pub const NAMESPACE_BYTES_MAX: usize = 255;
/// Longest database name, in bytes, excluded.
pub const DATABASE_NAME_BYTES_MAX: usize = 64;
/// Most indexes of one collection, the `_id` index included.
pub const INDEXES_PER_COLLECTION_MAX: usize = 64;
/// Most fields of one compound index.
pub const INDEX_FIELDS_MAX: usize = 32;
/// Documents in the first batch of a cursor when the client names no size.
pub const FIRST_BATCH_DOCUMENTS: usize = 101;
/// Bytes in one batch of a cursor.
pub const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Memory that a blocking sort or group may use, in bytes.
pub const BLOCKING_STAGE_BYTES_MAX: usize = 100 * 1024 * 1024;
/// Memory that an index build may use for sorting, in bytes.
pub const INDEX_BUILD_BYTES_MAX: usize = 200 * 1024 * 1024;
