//! `$shift`: the value of another document at a fixed distance.

use super::column::evaluate_or;
use super::function::Function;
use super::output::Output;
use super::{Partition, Sorting};
use crate::operation::Operation;
use crate::stages::StageContext;
use query::expr::Expr;
use value::{Error, OwnedVal, Result, Val};

/// Reads `{output: .., by: .., default: ..}`.
pub(super) fn parse(
    argument: Val<'_>,
    has_window: bool,
    sorting: Option<&Sorting>,
    context: &StageContext<'_>,
) -> Result<Function> {
    let bad = |message: &str| Err(Error::failed_to_parse(message.to_owned()));
    if has_window {
        return bad("$shift does not accept a 'window' field");
    }
    if sorting.is_none() {
        return bad("'$shift' requires a sortBy");
    }
    let Val::Document(doc) = argument else { return bad("Argument to $shift must be an object") };
    let (mut output, mut by, mut default) = (None, None, OwnedVal::new(Val::Null));
    for (name, value) in doc {
        match name {
            "output" => output = Some(Expr::parse(value.get(), context)?),
            "by" => {
                let number = value.get();
                by = number.as_i64_exact().filter(|n| i32::try_from(*n).is_ok());
                if by.is_none() {
                    return bad("'$shift:by' field must be an integer");
                }
            }
            "default" => match Expr::parse(value.get(), context)?.as_constant() {
                Some(constant) => default = OwnedVal::new(constant),
                None => return bad("'$shift:default' expression must yield a constant value"),
            },
            _ => return bad("Unknown argument in $shift"),
        }
    }
    match (output, by) {
        (Some(output), Some(by)) => Ok(Function::Shift { output, by, default }),
        (None, _) => bad("$shift requires an 'output' expression"),
        (_, None) => bad("$shift requires 'by' as an integer value"),
    }
}

/// The values of the documents at this distance.
pub(super) fn shifted(
    output: &Expr,
    by: i64,
    default: &OwnedVal,
    partition: &Partition,
    op: &Operation,
    out: &mut Output<'_>,
) -> Result<()> {
    let values = evaluate_or(output, partition, Val::Undefined, op)?;
    (0..partition.len()).try_for_each(|at| {
        let place = i64::try_from(at).ok().and_then(|at| at.checked_add(by));
        let place = place.and_then(|place| usize::try_from(place).ok());
        let place = place.filter(|place| *place < values.len());
        out.push(place.map_or(default.get(), |place| values.get(place)))
    })
}
