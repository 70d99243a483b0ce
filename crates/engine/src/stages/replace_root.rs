//! `$replaceRoot` and its short form `$replaceWith`: replaces each document with a computed one.

use super::map::{Change, mapped};
use super::{Stage, StageContext, StageRow};
use crate::exec::Stream;
use bumpalo::Bump;
use query::expr::{Env, Expr};
use std::sync::Arc;
use value::{Code, Error, OwnedVal, RawDoc, Result, Val, Writer};

pub(super) static ROOT: StageRow = StageRow {
    name: "$replaceRoot",
    help: "Replaces each document with a computed one.",
    in_change_streams: true,
    parse: parse_root,
    ..StageRow::BASE
};

pub(super) static WITH: StageRow = StageRow {
    name: "$replaceWith",
    help: "Replaces each document with a computed one.",
    in_change_streams: true,
    parse: |value, context| make("$replaceWith", value, value, context),
    ..StageRow::BASE
};

fn parse_root(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return Err(Error::new(
            Code(40229),
            format!(
                "expected an object as specification for $replaceRoot stage, got {}",
                value.kind().name()
            ),
        ));
    };
    let mut expr = None;
    for (name, value) in doc {
        if name != "newRoot" {
            return Err(Error::new(
                Code(40415),
                format!("BSON field '$replaceRoot.{name}' is an unknown field."),
            ));
        }
        expr = Some(value.get());
    }
    let expr = expr.ok_or_else(|| {
        Error::new(Code(40414), "BSON field '$replaceRoot.newRoot' is missing but a required field")
    })?;
    make("$replaceRoot", expr, value, context)
}

fn make(
    name: &'static str,
    expr: Val<'_>,
    source: Val<'_>,
    context: &StageContext<'_>,
) -> Result<Box<dyn Stage>> {
    let change = Arc::new(NewRoot { expr: Expr::parse(expr, context)? });
    Ok(Box::new(ReplaceRoot { name, change, source: source.into() }))
}

struct ReplaceRoot {
    name: &'static str,
    change: Arc<NewRoot>,
    source: OwnedVal,
}

struct NewRoot {
    expr: Expr,
}

impl Change for NewRoot {
    fn apply(&self, doc: RawDoc<'_>, arena: &Bump, out: &mut Vec<u8>) -> Result<()> {
        self.apply_with_meta(doc, RawDoc::empty(), arena, out)
    }

    fn apply_with_meta(
        &self,
        doc: RawDoc<'_>,
        meta: RawDoc<'_>,
        arena: &Bump,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self.expr.eval(&Env::new(doc, arena).with_meta(meta))? {
            Val::Document(new) => {
                out.extend_from_slice(new.bytes());
                Ok(())
            }
            other => Err(Error::new(
                Code(40228),
                format!(
                    "'newRoot' expression must evaluate to an object, but resulting value was of \
                     type: {}",
                    other.kind().name()
                ),
            )),
        }
    }
}

impl Stage for ReplaceRoot {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        mapped(input, self.change.clone())
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(self.name, self.source.raw());
    }
}
