//! The subcommands of `motif`, a file or folder each; `motif bench` is the crate `bench`.

pub(crate) mod check;
mod progress;
pub(crate) mod repair;
pub(crate) mod serve;
pub(crate) mod shell_helpers;
pub(crate) mod transfer;
pub(crate) mod user;
pub(crate) mod version;
