//! `$fill`: fills fields that are null or missing: with a computed value, the last one seen, or a
//! linear interpolation. It compiles to a `$setWindowFields` followed by an `$addFields`.

use super::{Stage, StageContext, StageRow, add_fields, lookup, set_window_fields};
use crate::exec::Stream;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$fill",
    help: "Fills fields that are null or missing.",
    parse,
    ..StageRow::BASE
};

struct Fill {
    stages: Vec<Box<dyn Stage>>,
    source: OwnedVal,
}

fn refuse<T>(code: i32, message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code(code), message))
}

fn wrong_type<T>(name: &str, value: Val<'_>, expected: &str) -> Result<T> {
    Err(Error::type_mismatch(format!(
        "BSON field '$fill.{name}' is the wrong type '{}', expected type '{expected}'",
        value.kind().name()
    )))
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return Err(Error::failed_to_parse(format!(
            "The $fill stage specification must be an object, found {}",
            value.kind().name()
        )));
    };
    let (mut sort, mut partition, mut partition_fields, mut output) = (None, None, None, None);
    for (name, value) in doc {
        match (name, value.get()) {
            ("sortBy", Val::Document(by)) => sort = Some(by),
            ("output", Val::Document(fields)) => output = Some(fields),
            ("sortBy" | "output", other) => return wrong_type(name, other, "object"),
            ("partitionBy", by @ (Val::Document(_) | Val::String(_))) => partition = Some(by),
            ("partitionBy", other) => return wrong_type(name, other, "[string, object]"),
            ("partitionByFields", Val::Array(list)) => partition_fields = Some(list),
            ("partitionByFields", other) => return wrong_type(name, other, "array"),
            _ => {
                return refuse(40415, format!("BSON field '$fill.{name}' is an unknown field."));
            }
        }
    }
    let Some(output) = output else {
        return refuse(40414, "BSON field '$fill.output' is missing but a required field");
    };
    if partition.is_some() && partition_fields.is_some() {
        return refuse(
            6050204,
            "Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'",
        );
    }
    if output.is_empty() {
        return refuse(6050203, "The output field of '$fill' must contain at least one field");
    }
    let (methods, values) = read_output(output)?;
    let mut stages = Vec::new();
    if !methods.is_empty() {
        let spec = window_spec(sort, partition, partition_fields, &methods)?;
        stages.push((set_window_fields::ROW.parse)(Val::Document(spec.as_doc()), context)?);
    }
    if !values.is_empty() {
        let spec = DocBuf::build(|out| {
            for (name, value) in &values {
                out.doc(name, |out| {
                    out.array("$ifNull", |list| {
                        list.push(Val::String(&format!("${name}")));
                        list.push(*value);
                    });
                });
            }
        });
        stages.push((add_fields::ROW.parse)(Val::Document(spec.as_doc()), context)?);
    }
    Ok(Box::new(Fill { stages, source: value.into() }))
}

type Named<'v, T> = Vec<(&'v str, T)>;

/// The fields that are filled by a method, and those filled by a value.
fn read_output<'v>(output: RawDoc<'v>) -> Result<(Named<'v, &'static str>, Named<'v, Val<'v>>)> {
    let (mut methods, mut values) = (Vec::new(), Vec::new());
    for (name, how) in output {
        lookup::field(name)?;
        let how = how.as_doc();
        let one = how.filter(|how| how.count() == 1).and_then(RawDoc::first);
        match one.map(|(kind, value)| (kind, value.get())) {
            Some(("value", value)) => values.push((name, value)),
            Some(("method", Val::String("linear"))) => methods.push((name, "$linearFill")),
            Some(("method", Val::String("locf"))) => methods.push((name, "$locf")),
            Some(("method", _)) => {
                return refuse(6050202, "Method must be either locf or linear");
            }
            _ => {
                let known = |(name, _): (&str, _)| matches!(name, "value" | "method");
                let all_known = how.is_some_and(|how| how.iter().all(known));
                return refuse(
                    if all_known { 6050201 } else { 40415 },
                    "The 'output' fields of $fill must be objects with exactly one of 'value' and \
                     'method'",
                );
            }
        }
    }
    Ok((methods, values))
}

fn window_spec(
    sort: Option<RawDoc<'_>>,
    partition: Option<Val<'_>>,
    partition_fields: Option<RawDoc<'_>>,
    methods: &[(&str, &'static str)],
) -> Result<DocBuf> {
    let mut names = Vec::new();
    for (_, field) in partition_fields.unwrap_or(RawDoc::empty()) {
        let Val::String(field) = field.get() else {
            return Err(Error::type_mismatch(
                "BSON field '$fill.partitionByFields' must be an array of strings",
            ));
        };
        lookup::field(field)?;
        names.push(format!("${field}"));
    }
    Ok(DocBuf::build(|out| {
        if let Some(partition) = partition {
            out.append("partitionBy", partition);
        }
        if !names.is_empty() {
            out.doc("partitionBy", |out| {
                for (at, name) in names.iter().enumerate() {
                    out.str(&format!("p{at}"), name);
                }
            });
        }
        if let Some(sort) = sort {
            out.append("sortBy", Val::Document(sort));
        }
        out.doc("output", |out| {
            for (name, method) in methods {
                out.doc(name, |out| {
                    out.str(method, &format!("${name}"));
                });
            }
        });
    }))
}

impl Stage for Fill {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        self.stages.iter().fold(input, |stream, stage| stage.open(stream))
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(ROW.name, self.source.raw());
    }
}
