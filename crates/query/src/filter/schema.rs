//! `$jsonSchema`.

/// A compiled JSON schema.
#[derive(Debug)]
pub struct Schema {}
