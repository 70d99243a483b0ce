//! The subcommands of `motif`, a file or folder each.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod serve;
pub(crate) mod transfer;
pub(crate) mod user;
pub(crate) mod version;
