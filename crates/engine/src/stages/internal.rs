//! Stages that MongoDB's own tests and tools put into pipelines to steer its optimiser. They pass all
//! documents on.

use super::{Stage, StageContext, StageRow};
use crate::exec::Stream;
use value::{Error, Result, Val, Writer};

pub(super) static INHIBIT_OPTIMIZATION: StageRow = StageRow {
    name: "$_internalInhibitOptimization",
    help: "Passes documents on; stages are not moved over it.",
    parse: inhibit,
    ..StageRow::BASE
};

pub(super) static SPLIT_PIPELINE: StageRow = StageRow {
    name: "$_internalSplitPipeline",
    help: "Passes documents on; there are no shards to split the pipeline for.",
    parse: split,
    ..StageRow::BASE
};

struct Pass(&'static str);

fn inhibit(value: Val<'_>, _: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    match value {
        Val::Document(options) if options.is_empty() => {
            Ok(Box::new(Pass(INHIBIT_OPTIMIZATION.name)))
        }
        Val::Document(_) => {
            Err(Error::failed_to_parse("$_internalInhibitOptimization cannot have an argument"))
        }
        _ => Err(Error::type_mismatch(
            "$_internalInhibitOptimization must take a nested object but found another value",
        )),
    }
}

fn split(value: Val<'_>, _: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(options) = value else {
        return Err(Error::type_mismatch("$_internalSplitPipeline must take a nested object"));
    };
    for (name, value) in options {
        match (name, value.get()) {
            ("mergeType", Val::String("anyShard" | "localOnly" | "mongos" | "primaryShard")) => {}
            ("mergeType", Val::Document(_)) => {}
            ("mergeType", _) => {
                return Err(Error::bad_value("unrecognized field while parsing mergeType"));
            }
            _ => {
                return Err(Error::bad_value(format!(
                    "unrecognized field while parsing $_internalSplitPipeline: '{name}'"
                )));
            }
        }
    }
    Ok(Box::new(Pass(SPLIT_PIPELINE.name)))
}

impl Stage for Pass {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        input
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.doc(self.0, |_| {});
    }
}
