//! `$bucket`: groups by given ranges. It compiles to a `$group` by a `$switch` over the boundaries,
//! followed by a `$sort`.

use super::{Stage, StageContext, StageRow, group, sort};
use crate::exec::Stream;
use query::expr::Expr;
use std::cmp::Ordering;
use value::compare::compare_with;
use value::{Code, Collation, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer};

pub(super) static ROW: StageRow =
    StageRow { name: "$bucket", help: "Groups by ranges of a value.", parse, ..StageRow::BASE };

struct Bucket {
    group: Box<dyn Stage>,
    sort: Box<dyn Stage>,
    source: OwnedVal,
}

fn refuse<T>(code: i32, message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code(code), message))
}

/// Evaluates a value that does not depend on the documents.
fn constant(value: Val<'_>, context: &StageContext<'_>) -> Result<Option<OwnedVal>> {
    Ok(Expr::parse(value, context)?.as_constant().map(OwnedVal::new))
}

/// Refuses a `groupBy` that `$bucket` and `$bucketAuto` do not accept.
pub(super) fn check_group_by(code: i32, value: Val<'_>) -> Result<()> {
    let good = match value {
        Val::String(path) => path.starts_with('$'),
        Val::Document(doc) => doc.first().is_some_and(|(name, _)| name.starts_with('$')),
        _ => false,
    };
    if good {
        return Ok(());
    }
    refuse(code, "The 'groupBy' field must be defined as a $-prefixed path or an expression object")
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return refuse(
            40201,
            format!(
                "Argument to $bucket stage must be an object, but found type: {}.",
                value.kind().name()
            ),
        );
    };
    let collation = context.collation.map(|collation| &**collation);
    let mut group_by = None;
    let mut boundaries: Option<Vec<OwnedVal>> = None;
    let mut default = None;
    let mut output = None;
    for (name, value) in doc {
        let value = value.get();
        match name {
            "groupBy" => {
                check_group_by(40202, value)?;
                group_by = Some(value);
            }
            "boundaries" => {
                let Val::Array(list) = value else {
                    return refuse(
                        40200,
                        format!(
                            "The $bucket 'boundaries' field must be an array, but found type: {}.",
                            value.kind().name()
                        ),
                    );
                };
                let mut values = Vec::new();
                for (_, boundary) in list {
                    let Some(value) = constant(boundary.get(), context)? else {
                        return refuse(
                            40191,
                            "The $bucket 'boundaries' field must be an array of constant values",
                        );
                    };
                    values.push(value);
                }
                check_boundaries(&values, collation)?;
                boundaries = Some(values);
            }
            "default" => {
                let Some(value) = constant(value, context)? else {
                    return refuse(
                        40195,
                        "The $bucket 'default' field must be a constant expression",
                    );
                };
                default = Some(value);
            }
            "output" => {
                let Val::Document(fields) = value else {
                    return refuse(
                        40196,
                        format!(
                            "The $bucket 'output' field must be an object, but found type: {}.",
                            value.kind().name()
                        ),
                    );
                };
                output = Some(fields);
            }
            _ => return refuse(40197, format!("Unrecognized option to $bucket: {name}.")),
        }
    }
    let (Some(group_by), Some(boundaries)) = (group_by, boundaries) else {
        return refuse(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.");
    };
    if let (Some(default), Some(first), Some(last)) =
        (&default, boundaries.first(), boundaries.last())
    {
        let default = default.get();
        let below = compare_with(default, first.get(), collation) == Ordering::Less;
        let above = compare_with(default, last.get(), collation) != Ordering::Less;
        if !below && !above {
            return refuse(
                40199,
                "The $bucket 'default' field must be less than the lowest boundary or greater than \
                 or equal to the highest boundary.",
            );
        }
    }
    let spec = DocBuf::build(|out| {
        out.doc("_id", |out| {
            out.doc("$switch", |out| write_switch(out, group_by, &boundaries, default.as_ref()));
        });
        write_output(out, output);
    });
    let order = DocBuf::build(|out| {
        out.i32("_id", 1);
    });
    Ok(Box::new(Bucket {
        group: (group::ROW.parse)(Val::Document(spec.as_doc()), context)?,
        sort: sort::make(order.as_doc(), context.collation)?,
        source: value.into(),
    }))
}

fn check_boundaries(values: &[OwnedVal], collation: Option<&Collation>) -> Result<()> {
    if values.len() < 2 {
        return refuse(
            40192,
            format!(
                "The $bucket 'boundaries' field must have at least 2 values, but found {} value(s).",
                values.len()
            ),
        );
    }
    for pair in values.windows(2) {
        let [lower, upper] = pair else { continue };
        let (lower, upper) = (lower.get(), upper.get());
        if lower.kind().rank() != upper.kind().rank() {
            return refuse(
                40193,
                format!(
                    "All values in the the 'boundaries' option to $bucket must have the same type. \
                     Found conflicting types {} and {}.",
                    lower.kind().name(),
                    upper.kind().name()
                ),
            );
        }
        if compare_with(lower, upper, collation) != Ordering::Less {
            return refuse(
                40194,
                "The 'boundaries' option to $bucket must be sorted, but elements are not in \
                 ascending order.",
            );
        }
    }
    Ok(())
}

fn write_switch(
    out: &mut Writer<'_>,
    group_by: Val<'_>,
    boundaries: &[OwnedVal],
    default: Option<&OwnedVal>,
) {
    let literal = |out: &mut Writer<'_>, value: Val<'_>| {
        out.append("$literal", value);
    };
    out.array("branches", |list| {
        for pair in boundaries.windows(2) {
            let [lower, upper] = pair else { continue };
            list.push_doc(|out| {
                out.doc("case", |out| {
                    out.array("$and", |list| {
                        for (operator, bound) in [("$gte", lower), ("$lt", upper)] {
                            list.push_doc(|out| {
                                out.array(operator, |list| {
                                    list.push(group_by);
                                    list.push_doc(|out| literal(out, bound.get()));
                                });
                            });
                        }
                    });
                });
                out.doc("then", |out| literal(out, lower.get()));
            });
        }
    });
    if let Some(default) = default {
        out.doc("default", |out| literal(out, default.get()));
    }
}

/// The accumulators of the groups: those of `output`, or a count.
pub(super) fn write_output(out: &mut Writer<'_>, output: Option<RawDoc<'_>>) {
    match output {
        Some(fields) => {
            for (name, value) in fields {
                out.raw(name, value);
            }
        }
        None => {
            out.doc("count", |out| {
                out.i32("$sum", 1);
            });
        }
    }
}

impl Stage for Bucket {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        self.sort.open(self.group.open(input))
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(ROW.name, self.source.raw());
    }
}
