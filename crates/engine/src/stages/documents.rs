//! `$documents`: returns the documents of an expression, without a collection.

use super::row::{Position, Source};
use super::{Role, Stage, StageContext, StageRow};
use crate::exec::ready::Ready;
use crate::exec::{Doc, Stream};
use crate::operation::Operation;
use bumpalo::Bump;
use query::DeferredVariable;
use query::expr::{Env, Expr};
use std::sync::Arc;
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
    contents: Contents,
    source: OwnedVal,
}

enum Contents {
    Known(Vec<DocBuf>),
    /// They depend on variables of a join, which each document of the outer pipeline sets.
    Deferred(Arc<Expr>),
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let compile = || Expr::parse(value, context);
    let (expr, deferred) = DeferredVariable::watch(context.deferred, compile);
    let contents = match expr? {
        expr if deferred => Contents::Deferred(Arc::new(expr)),
        expr => Contents::Known(compute(&expr)?),
    };
    Ok(Box::new(Documents { contents, source: value.into() }))
}

fn compute(expr: &Expr) -> Result<Vec<DocBuf>> {
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
    Ok(docs)
}

/// Computes its documents when the first is asked for.
struct Computed {
    expr: Arc<Expr>,
    docs: Option<Ready>,
}

impl Stream for Computed {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        let docs = match &mut self.docs {
            Some(docs) => docs,
            none => none.insert(Ready(compute(&self.expr)?.into_iter())),
        };
        docs.next(op)
    }
}

impl Stage for Documents {
    fn open(&self, _: Box<dyn Stream>) -> Box<dyn Stream> {
        match &self.contents {
            Contents::Known(docs) => Box::new(Ready(docs.clone().into_iter())),
            Contents::Deferred(expr) => Box::new(Computed { expr: expr.clone(), docs: None }),
        }
    }

    fn role(&self) -> Role<'_> {
        Role::Source
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(ROW.name, self.source.raw());
    }
}
