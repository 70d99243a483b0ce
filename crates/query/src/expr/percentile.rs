//! `$percentile` and `$median`: values at ranks of the sorted numbers.

use super::Expr;
use crate::ParseContext;
use crate::show::show;
use value::{Code, Error, Result, Val};

/// The numbers of a group and the requested ranks.
#[derive(Debug)]
pub(crate) struct Percentiles {
    wanted: Vec<f64>,
    numbers: Vec<f64>,
}

impl Percentiles {
    pub(crate) fn new(wanted: Vec<f64>) -> Percentiles {
        Percentiles { wanted, numbers: Vec::new() }
    }

    /// Adds a number; everything else is ignored.
    pub(crate) fn add(&mut self, value: Val<'_>) {
        if let Some(n) = value.as_f64().filter(|n| !n.is_nan()) {
            self.numbers.push(n);
        }
    }

    /// The values at the ranks; null if there are no numbers.
    pub(crate) fn results(&self) -> Vec<Val<'static>> {
        let mut sorted = self.numbers.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank =
            |p: f64| sorted.get(rank_of(p, sorted.len())).map_or(Val::Null, |n| Val::Double(*n));
        self.wanted.iter().map(|p| rank(*p)).collect()
    }

    /// Writes everything that `absorb` needs.
    pub(crate) fn save(&self, out: &mut value::writer::ArrayWriter<'_>) {
        self.numbers.iter().for_each(|n| out.push(Val::Double(*n)));
    }

    /// Adds what another one saved.
    pub(crate) fn absorb(&mut self, saved: value::RawDoc<'_>) {
        saved.iter().for_each(|(_, number)| self.add(number.get()));
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.numbers.capacity() * size_of::<f64>()
    }
}

/// The index of a rank (0 to 1) among `count` sorted numbers.
#[must_use]
pub fn rank_of(part: f64, count: usize) -> usize {
    let place = (part * count as f64).ceil() - 1.0;
    place.max(0.0) as usize
}

/// `{input: .., p: [..], method: "approximate"}`: the input and the ranks.
pub(crate) fn parse<'v>(
    name: &str,
    operand: Val<'v>,
    many: bool,
    ctx: &ParseContext<'_>,
) -> Result<(Val<'v>, Vec<f64>)> {
    let Some(doc) = operand.as_doc() else {
        return Err(Error::new(
            Code(if many { 7429703 } else { 7436100 }),
            format!("specification must be an object; found {name}: {}", show(operand)),
        ));
    };
    let (mut input, mut percentiles, mut method) = (None, None, None);
    for (field, value) in doc {
        match field {
            "input" => input = Some(value.get()),
            "p" if many => percentiles = Some(parse_ranks(value.get(), ctx)?),
            "method" => method = value.get().as_str(),
            other => {
                return Err(Error::new(
                    Code(40415),
                    format!("BSON field '{name}.{other}' is an unknown field."),
                ));
            }
        }
    }
    let missing = |field: &str| {
        Error::new(
            Code(40414),
            format!("BSON field '{name}.{field}' is missing but a required field"),
        )
    };
    let input = input.ok_or_else(|| missing("input"))?;
    match method.ok_or_else(|| missing("method"))? {
        "approximate" | "discrete" => {}
        other => {
            return Err(Error::bad_value(format!(
                "Currently only 'approximate' can be used as percentile 'method'; found {other}"
            )));
        }
    }
    let percentiles = if many { percentiles.ok_or_else(|| missing("p"))? } else { vec![0.5] };
    Ok((input, percentiles))
}

fn parse_ranks(value: Val<'_>, ctx: &ParseContext<'_>) -> Result<Vec<f64>> {
    let expression = Expr::parse(value, ctx)?;
    let array = expression.as_constant().and_then(Val::as_array).filter(|array| !array.is_empty());
    let Some(array) = array else {
        return Err(Error::new(
            Code(7750301),
            "The $percentile 'p' field must be an array of constant values",
        ));
    };
    array
        .iter()
        .map(|(_, rank)| match rank.get().as_f64() {
            Some(rank) if (0.0..=1.0).contains(&rank) => Ok(rank),
            Some(rank) => Err(Error::new(
                Code(7750303),
                format!("The $percentile 'p' field must hold numbers from 0 to 1; found {rank}"),
            )),
            None => Err(Error::new(
                Code(7750302),
                "The $percentile 'p' field must hold numbers from 0 to 1",
            )),
        })
        .collect()
}
