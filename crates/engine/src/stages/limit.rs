//! `$limit`: passes the first documents.

use super::{Role, Stage, StageContext, StageRow};
use crate::exec::{Doc, Stream};
use crate::operation::Operation;
use value::{Code, Error, Result, Val, Writer};

pub(super) static ROW: StageRow =
    StageRow { name: "$limit", help: "Passes the first documents.", parse, ..StageRow::BASE };

struct Limit(u64);

fn parse(value: Val<'_>, _: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    Ok(Box::new(Limit(whole_number("$limit", value, 1)?)))
}

/// Reads the argument of `$limit` or `$skip`.
pub(super) fn whole_number(stage: &str, value: Val<'_>, least: i64) -> Result<u64> {
    let code = if least > 0 { Code(5107201) } else { Code(5107200) };
    if !value.is_number() {
        let shown = value.kind().name();
        return Err(Error::new(
            code,
            format!("invalid argument to {stage} stage: Expected a number in: {stage}: {shown}"),
        ));
    }
    let Some(n) = value.as_i64_exact() else {
        return Err(Error::new(
            code,
            format!("invalid argument to {stage} stage: Expected an integer: {stage}"),
        ));
    };
    if n < 0 {
        return Err(Error::new(
            code,
            format!(
                "invalid argument to {stage} stage: Expected a non-negative number in: {stage}: {n}"
            ),
        ));
    }
    if n < least {
        return Err(Error::new(Code(15958), "the limit must be positive"));
    }
    Ok(n.unsigned_abs())
}

impl Stage for Limit {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Limited { input, left: self.0 })
    }

    fn role(&self) -> Role<'_> {
        Role::Limit(self.0)
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.i64(ROW.name, i64::try_from(self.0).unwrap_or(i64::MAX));
    }
}

struct Limited {
    input: Box<dyn Stream>,
    left: u64,
}

impl Stream for Limited {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.input.next(op)
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }

    fn write_own_stats(&self, out: &mut Writer<'_>) {
        // A preceding sort runs together with the limit.
        self.input.write_own_stats(out);
    }

    fn source(&self) -> Option<&dyn Stream> {
        Some(&*self.input)
    }
}
