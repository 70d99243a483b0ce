//! `$match`: passes the documents that match a filter.

use super::{Role, Stage, StageContext, StageRow};
use crate::exec::{Doc, Stream, Visit};
use crate::operation::Operation;
use query::ParseContext;
use query::filter::{Filter, Matcher};
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$match",
    help: "Passes the documents that match a filter.",
    in_change_streams: true,
    parse,
    ..StageRow::BASE
};

struct Match {
    filter: Arc<Filter>,
    source: DocBuf,
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return Err(Error::new(Code(15959), "the match filter must be an expression in an object"));
    };
    make(doc, context)
}

/// Creates a stage for a filter.
pub(super) fn make(doc: RawDoc<'_>, context: &ParseContext<'_>) -> Result<Box<dyn Stage>> {
    let filter = Filter::parse(doc, context)?;
    if filter.near().is_some() {
        return Err(Error::new(
            Code(5_626_500),
            "$geoNear, $near, and $nearSphere are not allowed in this context",
        ));
    }
    Ok(Box::new(Match { filter: Arc::new(filter), source: doc.into() }))
}

impl Stage for Match {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Matching { input, matcher: Matcher::new(self.filter.clone()) })
    }

    fn role(&self) -> Role<'_> {
        Role::Match(&self.filter)
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.append(ROW.name, Val::Document(self.source.as_doc()));
    }
}

struct Matching {
    input: Box<dyn Stream>,
    matcher: Matcher,
}

impl Stream for Matching {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        while let Some(doc) = self.input.next(op)? {
            if self.matcher.matches(doc.raw())? {
                return Ok(Some(doc));
            }
        }
        Ok(None)
    }

    fn split(&mut self, parts: usize) -> Vec<Box<dyn Stream>> {
        let part = |input| Box::new(Matching { input, matcher: self.matcher.clone() }) as Box<_>;
        self.input.split(parts).into_iter().map(part).collect()
    }

    fn reads_all(&self) -> bool {
        self.input.reads_all()
    }

    fn for_each(&mut self, op: &Operation, visit: &mut Visit<'_>) -> Result<()> {
        let Matching { input, matcher } = self;
        input.for_each(op, &mut |doc| if matcher.matches(doc)? { visit(doc) } else { Ok(()) })
    }

    fn source(&self) -> Option<&dyn Stream> {
        Some(&*self.input)
    }
}
