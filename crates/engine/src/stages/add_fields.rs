//! `$addFields` and its other name `$set`: computes fields and keeps the rest.

use super::project::projecting;
use super::{Stage, StageContext, StageRow};
use query::project::Projection;
use value::{Code, Error, Result, Val};

pub(super) static ROW: StageRow = StageRow {
    name: "$addFields",
    help: "Computes fields and keeps the others.",
    in_change_streams: true,
    parse: |value, context| parse("$addFields", value, context),
    ..StageRow::BASE
};

pub(super) static SET: StageRow = StageRow {
    name: "$set",
    help: "Computes fields and keeps the others.",
    in_change_streams: true,
    parse: |value, context| parse("$set", value, context),
    ..StageRow::BASE
};

fn parse(name: &'static str, value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return Err(Error::new(
            Code(40272),
            format!("{name} specification stage must be an object, got {}", value.kind().name()),
        ));
    };
    let projection = Projection::parse_add_fields(name, doc, context)?;
    Ok(projecting(name, projection, value))
}
