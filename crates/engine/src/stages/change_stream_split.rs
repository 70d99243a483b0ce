//! `$changeStreamSplitLargeEvent`: splits change events that are too large for one document. It
//! must be the last stage of a change stream; the stream implements it.

use super::StageRow;
use super::row::Runs;

/// The name of the stage.
pub(super) const NAME: &str = "$changeStreamSplitLargeEvent";

pub(super) static ROW: StageRow = StageRow {
    name: NAME,
    help: "Splits change events that are too large for one document.",
    in_change_streams: true,
    runs: Runs::InChangeStream,
    ..StageRow::BASE
};
