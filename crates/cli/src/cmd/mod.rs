//! The subcommands of `motif`, a file each.

pub(crate) mod bench;
