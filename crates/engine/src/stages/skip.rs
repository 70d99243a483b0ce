//! `$skip`: skips the first documents.

use super::limit::whole_number;
use super::{Stage, StageContext, StageReads, StageRow};
use crate::exec::{Doc, Stream};
use crate::operation::Operation;
use value::{Result, Val, Writer};

pub(super) static ROW: StageRow =
    StageRow { name: "$skip", help: "Passes over the first documents.", parse, ..StageRow::BASE };

struct Skip(u64);

fn parse(value: Val<'_>, _: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    Ok(Box::new(Skip(whole_number("$skip", value, 0)?)))
}

impl Stage for Skip {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Skipped { input, left: self.0 })
    }

    fn reads(&self) -> Option<StageReads> {
        Some(StageReads { paths: Vec::new(), passes: true })
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.i64(ROW.name, i64::try_from(self.0).unwrap_or(i64::MAX));
    }
}

struct Skipped {
    input: Box<dyn Stream>,
    left: u64,
}

impl Stream for Skipped {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        while self.left > 0 {
            self.left -= 1;
            if self.input.next(op)?.is_none() {
                return Ok(None);
            }
        }
        self.input.next(op)
    }

    fn source(&self) -> Option<&dyn Stream> {
        Some(&*self.input)
    }
}
