//! What is known of the members of a cluster.

use crate::member::Member;
use std::sync::Arc;
use std::time::Duration;
use value::DocBuf;

/// What a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// It takes all commands.
    Primary,
    /// It takes reads.
    Secondary,
    /// A router of a sharded cluster.
    Router,
    /// It takes no commands now: an arbiter, one that starts, or one that cannot be reached.
    None,
}

/// A member as its last report shows it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) member: Arc<Member>,
    pub(crate) role: Role,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) round_trip: Duration,
    pub(crate) wire_version: i32,
    /// Why it has no role, if it could not be reached.
    pub(crate) trouble: Option<String>,
}

/// All members.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) members: Vec<Seen>,
    /// The newest cluster time that a primary or a router has sent, with its signature.
    pub(crate) cluster_time: Option<DocBuf>,
}
