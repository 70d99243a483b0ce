//! `$documents`: returns the documents of an expression, without a collection.

use super::row::{Position, Source};
use super::{Role, Stage, StageContext, StageRow};
use crate::exec::Stream;
use crate::exec::ready::Ready;
use bumpalo::Bump;
use query::expr::{Env, Expr};
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$documents",
    help: "Returns the documents of an expression.",
    position: Position::First,
    source: Source::Nothing,
    parse,
    ..StageRow::BASE
};

struct Documents {
    docs: Vec<DocBuf>,
    source: OwnedVal,
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let expr = Expr::parse(value, context)?;
    let arena = Bump::new();
    let Val::Array(array) = expr.eval(&Env::new(RawDoc::empty(), &arena))? else {
        return Err(Error::new(
            Code(5858203),
            "an array is expected as the argument of $documents",
        ));
    };
    let mut docs = Vec::new();
    for (_, element) in array {
        let Some(doc) = element.as_doc() else {
            return Err(Error::new(
                Code(40228),
                format!(
                    "'newRoot' expression must evaluate to an object, but resulting value was of \
                     type: {}",
                    element.kind().name()
                ),
            ));
        };
        docs.push(DocBuf::from(doc));
    }
    Ok(Box::new(Documents { docs, source: value.into() }))
}

impl Stage for Documents {
    fn open(&self, _: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Ready(self.docs.clone().into_iter()))
    }

    fn role(&self) -> Role<'_> {
        Role::Source
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(ROW.name, self.source.raw());
    }
}
