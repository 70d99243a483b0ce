//! `$count`: counts the documents.

use super::{CountShape, Role, Stage, StageContext, StageRow};
use crate::exec::{Doc, Examined, Stream, count};
use crate::operation::Operation;
use value::{Code, DocBuf, Error, Result, Val, Writer};

pub(super) static ROW: StageRow =
    StageRow { name: "$count", help: "Counts the documents.", parse, ..StageRow::BASE };

struct Count {
    field: String,
}

fn parse(value: Val<'_>, _: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let refuse = |code, message: &str| Err(Error::new(Code(code), message));
    let Val::String(field) = value else {
        return refuse(40156, "the count field must be a non-empty string");
    };
    if field.is_empty() {
        return refuse(40157, "the count field must be a non-empty string");
    }
    if field.starts_with('$') {
        return refuse(40158, "the count field cannot be a $-prefixed path");
    }
    if field.contains('\0') {
        return refuse(40159, "the count field cannot contain a null byte");
    }
    if field.contains('.') {
        return refuse(40160, "the count field cannot contain '.'");
    }
    if field == "_id" {
        return refuse(15_948, "the count field cannot be '_id'");
    }
    Ok(Box::new(Count { field: field.to_owned() }))
}

impl Stage for Count {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Counting { input, parts: Vec::new(), field: Some(self.field.clone()) })
    }

    fn role(&self) -> Role<'_> {
        Role::Count(CountShape { id: Val::Missing, field: &self.field })
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.str(ROW.name, &self.field);
    }
}

struct Counting {
    input: Box<dyn Stream>,
    /// Parts of the input that were read separately.
    parts: Vec<Box<dyn Stream>>,
    field: Option<String>,
}

impl Stream for Counting {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        let Some(field) = self.field.take() else { return Ok(None) };
        let count = count::count(&mut *self.input, &mut self.parts, op)?;
        // No input gives no output: there is no document with a count of zero.
        if count == 0 {
            return Ok(None);
        }
        let doc = DocBuf::build(|out| {
            out.count(&field, count);
        });
        Ok(Some(Doc::Made(doc.into_bytes())))
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
        self.parts.iter().for_each(|part| part.examined(total));
    }
}
