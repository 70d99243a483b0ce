//! `invalidateUserCache`: clears the cache of users.

use super::Command;
use super::row::{NamedIn, Required};
use ::access::Action;
use std::sync::atomic::Ordering;

pub(super) static COMMAND: Command = Command {
    name: "invalidateUserCache",
    help: "Clears the cache of users.",
    fields: Some(&["invalidateUserCache"]),
    admin: true,
    privilege: Required::Cluster(&[Action::InvalidateUserCache]),
    credentials: true,
    audited: true,
    namespace: NamedIn::None,
    run: |context, _| {
        context.engine.data.directory_generation.fetch_add(1, Ordering::Release);
        Ok(())
    },
    ..Command::BASE
};
