//! `$sortByCount`: counts the documents of each value, most frequent first.

use super::{Stage, StageContext, StageRow, group, sort};
use crate::exec::Stream;
use value::{Code, DocBuf, Error, OwnedVal, Result, Val, Writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$sortByCount",
    help: "Counts the documents of each value, most frequent first.",
    parse,
    ..StageRow::BASE
};

struct SortByCount {
    group: Box<dyn Stage>,
    sort: Box<dyn Stage>,
    source: OwnedVal,
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    match value {
        Val::Document(doc) if !doc.first().is_some_and(|(name, _)| name.starts_with('$')) => {
            return Err(Error::new(
                Code(40147),
                "the sortByCount field must be defined as a $-prefixed path or an expression",
            ));
        }
        Val::String(path) if !path.starts_with('$') => {
            return Err(Error::new(
                Code(40148),
                "the sortByCount field must be defined as a $-prefixed path or an expression",
            ));
        }
        Val::Document(_) | Val::String(_) => {}
        _ => {
            return Err(Error::new(
                Code(40149),
                "the sortByCount field must be specified as a string or as an object",
            ));
        }
    }
    let spec = DocBuf::build(|out| {
        out.append("_id", value);
        out.doc("count", |out| {
            out.i32("$sum", 1);
        });
    });
    let order = DocBuf::build(|out| {
        out.i32("count", -1);
    });
    Ok(Box::new(SortByCount {
        group: (group::ROW.parse)(Val::Document(spec.as_doc()), context)?,
        sort: sort::make(order.as_doc(), None)?,
        source: value.into(),
    }))
}

impl Stage for SortByCount {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        self.sort.open(self.group.open(input))
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(ROW.name, self.source.raw());
    }
}
