//! `setProfilingFilterGlobally`: MongoDB refuses it unless a parameter allows it, which is not here.
//! `profile` sets the filter of a database.

use super::Command;
use super::row::{NamedIn, Required};
use ::access::Action;
use value::{Code, Error};

pub(super) static COMMAND: Command = Command {
    name: "setProfilingFilterGlobally",
    help: "Is refused: profile sets the filter of each database.",
    fields: Some(&["setProfilingFilterGlobally", "filter"]),
    privilege: Required::Cluster(&[Action::EnableProfiler]),
    namespace: NamedIn::None,
    run: |_, _| {
        Err(Error::new(Code(7_283_301), "filters are set by database, with the command profile"))
    },
    ..Command::BASE
};
