//! `$unset`: removes fields.

use super::project::projecting;
use super::{Stage, StageContext, StageRow};
use query::project::Projection;
use value::{Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$unset",
    help: "Removes fields.",
    in_change_streams: true,
    parse,
    ..StageRow::BASE
};

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let projection = Projection::parse_unset(value, context)?;
    Ok(projecting(ROW.name, projection, value))
}
