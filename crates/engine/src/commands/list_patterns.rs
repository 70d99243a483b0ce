//! `listPatterns`: lists patterns and their state.

use super::Command;
use super::patterns::list;
use super::row::Required;
use crate::access::Authorization;
use ::access::Action;

pub(super) static COMMAND: Command = Command {
    name: "listPatterns",
    help: "Lists patterns and their state.",
    fields: Some(&["listPatterns", "cursor"]),
    hints: true,
    privilege: Required::Custom(may_list),
    run: list,
    ..Command::BASE
};

fn may_list(auth: &Authorization<'_>) -> bool {
    let name = auth.collection();
    if name.is_empty() {
        auth.on_database(&[Action::ListCollections])
    } else {
        auth.on_collection(name, &[Action::ListIndexes])
    }
}
