//! `min` and `max` of a find: explicit bounds on the hinted index.

use super::{Access, Candidate, KeyRange, Plan, Question, candidates, find_index, hint_not_found};
use crate::catalog::{Index, IndexKind};
use query::filter::Filter;
use value::collation::applies_to;
use value::{Code, Error, RawDoc, Result, Val, keys};

/// The bounds: from the first key (inclusive) to the second (exclusive).
#[derive(Clone, Copy, Default)]
pub struct MinMax<'a> {
    /// The first key inside.
    pub min: Option<RawDoc<'a>>,
    /// The first key outside.
    pub max: Option<RawDoc<'a>>,
}

impl MinMax<'_> {
    /// Whether no bounds are given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.min.is_none() && self.max.is_none()
    }

    /// Checks the bounds as far as possible without a collection.
    ///
    /// # Errors
    /// 51176 when the bounds have different fields.
    pub fn check(&self) -> Result<()> {
        let (Some(min), Some(max)) = (self.min, self.max) else { return Ok(()) };
        if !min.iter().map(|(name, _)| name).eq(max.iter().map(|(name, _)| name)) {
            return Err(Error::new(Code(51176), "min and max must have the same field names"));
        }
        Ok(())
    }

    /// The plan: the given range of the hinted index.
    ///
    /// # Errors
    /// 51173 without a hint, 51174 when the index has other fields, 51175 for an empty range.
    pub fn plan(&self, question: &Question<'_>) -> Result<Plan> {
        let hint = question.hint.ok_or_else(|| {
            failed(
                Code(51173),
                "When using min()/max() a hint of which index to use must be provided",
            )
        })?;
        if matches!(hint, Val::Document(doc) if doc.find("$natural").is_some()) {
            return Err(failed(
                Code::NO_QUERY_EXECUTION_PLANS,
                "min and max are incompatible with $natural",
            ));
        }
        let index = find_index(question.collection, hint)?.ok_or_else(hint_not_found)?;
        // The order follows from the index alone, because the bounds fix no field.
        let everything = Filter::parse(RawDoc::empty(), &query::ParseContext::new(0))?;
        let unbounded = Question { filter: &everything, ..*question };
        let candidate = candidates::forced(&unbounded, &index);
        // The bounds of a hashed field are hashes.
        let ordered = matches!(index.kind, IndexKind::Ordered | IndexKind::Hashed(_));
        let Some(candidate) = candidate.filter(|_| ordered) else {
            return Err(failed(Code(51174), "min/max need an index whose keys are ordered values"));
        };
        for bound in [self.min, self.max].into_iter().flatten() {
            let text = bound.iter().any(|(_, value)| applies_to(value.get()));
            let collation = question.filter.collation().map(|collation| &**collation);
            if text && collation != index.collation.as_deref() {
                return Err(failed(Code(51174), "The index chosen is not compatible with min/max"));
            }
        }
        let prefix =
            if index.is_clustered() { question.collection.prefix() } else { index.prefix() };
        let bound = |doc: RawDoc<'_>| {
            let mut key = prefix.to_vec();
            encode(&index, doc, &mut key)?;
            Ok(key)
        };
        let whole = candidate.ranges.first();
        let from = match self.min {
            Some(min) => bound(min)?,
            None => whole.map(|range| range.from.clone()).unwrap_or_default(),
        };
        let to = match self.max {
            Some(max) => bound(max)?,
            None => candidate.ranges.last().map(|range| range.to.clone()).unwrap_or_default(),
        };
        if from >= to && self.min.is_some() && self.max.is_some() {
            return Err(failed(
                Code(51175),
                "The value provided for min() does not come before the value provided for max() in \
                 the hinted index",
            ));
        }
        let sorted = candidate.sorted;
        let ranges = if from < to { vec![KeyRange { from, to }] } else { Vec::new() };
        let access = Access::Index(Candidate { ranges, ..candidate });
        Ok(Plan { sorted, ..super::simple(access, sorted) })
    }
}

/// Appends the encoded values of a bound.
fn encode(index: &Index, bound: RawDoc<'_>, out: &mut Vec<u8>) -> Result<()> {
    let names = index.fields.iter().map(|field| field.path.text());
    if !bound.iter().map(|(name, _)| name).eq(names) {
        return Err(failed(Code(51174), "the fields of min/max are not those of the hinted index"));
    }
    for (field, (_, value)) in index.fields.iter().zip(bound) {
        keys::encode_with(out, value.get(), field.descending, index.collation.as_deref());
    }
    Ok(())
}

fn failed(code: Code, message: &str) -> Error {
    Error::new(
        code,
        format!("error processing query: planner returned error :: caused by :: {message}"),
    )
}
