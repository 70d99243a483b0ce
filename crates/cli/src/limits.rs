//! Limits of the process that the operating system sets.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Allows as many open files as the system lets us: a connection is one, and the usual soft limit
/// of 1024 is below what a server should hold.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, wanted) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
}
