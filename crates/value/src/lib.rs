//! BSON values: reading, writing, comparing and encoding them.
//!
//! `raw` reads BSON bytes in place, `writer` writes them, `validate` checks them once when they
//! arrive; `compare` and `keys` implement MongoDB's order, as a comparison and as bytes,
//! `key_types` decodes values from such bytes; `path` walks dotted names; `double`, `decimal` and
//! `number` compute; `ejson` reads and prints text; `random` makes identifiers that cannot be
//! guessed; `error` and `codes` have the error type of replies. Nothing here depends on queries,
//! files or sockets.

pub mod codes;
pub mod collation;
pub mod compare;
pub mod decimal;
mod double;
pub mod ejson;
pub mod error;
pub mod key_types;
pub mod keys;
pub mod limits;
pub mod number;
pub mod path;
pub mod random;
pub mod raw;
pub mod shape;
pub mod types;
pub mod validate;
pub mod writer;

pub use codes::Code;
pub use collation::Collation;
pub use decimal::Decimal128;
pub use error::{Error, Result};
pub use raw::{ObjectId, RawDoc, RawVal, Val};
pub use types::Type;
pub use writer::{DocBuf, OwnedVal, Writer};
