//! `$project`: chooses and computes fields.

use super::map::{Change, mapped};
use super::{Role, Stage, StageContext, StageRow};
use crate::exec::Stream;
use bumpalo::Bump;
use query::project::{Mode, Projection};
use std::sync::Arc;
use value::{Code, Error, OwnedVal, RawDoc, Result, Val, Writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$project",
    help: "Chooses and computes fields.",
    in_change_streams: true,
    parse,
    ..StageRow::BASE
};

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return Err(Error::new(Code(15969), "$project specification must be an object"));
    };
    let projection = Projection::parse(doc, context, Mode::Aggregate)?;
    Ok(projecting("$project", projection, value))
}

/// Creates a stage that applies a projection to every document.
pub(super) fn projecting(
    name: &'static str,
    projection: Projection,
    source: Val<'_>,
) -> Box<dyn Stage> {
    Box::new(Project { name, projection: Arc::new(Apply(projection)), source: source.into() })
}

/// Applies a projection to every document of a stream.
pub(crate) fn open_projected(input: Box<dyn Stream>, projection: Projection) -> Box<dyn Stream> {
    mapped(input, Arc::new(Apply(projection)))
}

struct Project {
    name: &'static str,
    projection: Arc<Apply>,
    source: OwnedVal,
}

struct Apply(Projection);

impl Change for Apply {
    fn apply(&self, doc: RawDoc<'_>, arena: &Bump, out: &mut Vec<u8>) -> Result<()> {
        self.0.apply(doc, None, arena, out)
    }

    fn apply_with_meta(
        &self,
        doc: RawDoc<'_>,
        meta: RawDoc<'_>,
        arena: &Bump,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.0.apply_with_meta(doc, meta, None, arena, out)
    }
}

impl Stage for Project {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        mapped(input, self.projection.clone())
    }

    fn role(&self) -> Role<'_> {
        Role::Project(&self.projection.0)
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(self.name, self.source.raw());
    }
}
