//! The pools of threads by which connections are served.

/// The pool that serves a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    /// Normal priority.
    Front,
    /// Low priority, while a large message is read and checked; its command runs in `Front`.
    Large,
    /// Low priority and few threads, for clients that have not logged in.
    Background,
}

impl Lane {
    /// The name of its threads.
    pub(crate) fn thread_name(self) -> &'static str {
        match self {
            Lane::Front => "connection",
            Lane::Large => "large",
            Lane::Background => "background",
        }
    }
}
