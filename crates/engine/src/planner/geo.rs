//! Geospatial plans: the cells of a region as intervals of keys, and the access of `$near`.

use super::Question;
use super::bounds::{Interval, after};
use super::candidates::KeyRange;
use super::edge::Edge;
use super::key_check::KeyCheck;
use super::restrictions::Restrictions;
use crate::catalog::{Index, IndexKind, IndexState};
use crate::index_keys::geo::GeoFields;
use query::filter::Conditions;
use query::geo::{Near, Region};
use std::sync::Arc;
use value::path::Path;
use value::{Code, Error, Result, Type, Val};

/// The intervals of cell names that can contain something in a region.
#[must_use]
pub fn intervals(geo: &GeoFields, region: &Region) -> Option<Vec<Interval>> {
    let cells = geo.cover(region)?;
    let mut out = Vec::new();
    let mut above: Vec<&str> = Vec::new();
    for cell in &cells {
        let mut from = vec![Type::String.rank()];
        from.extend_from_slice(cell.as_bytes());
        let low = Edge::text(&format!("\"{cell}\""));
        let high = Edge::text(&format!("\"{cell}\" and what is inside"));
        out.push(Interval { to: after(&from), from, point: false, low, high });
        // Shapes may also be stored under larger cells.
        for end in 1..cell.len() {
            if let Some(outer) = cell.get(..end)
                && !above.contains(&outer)
            {
                above.push(outer);
            }
        }
    }
    if geo.plane.is_none() {
        let inside = |outer: &&&str| !cells.iter().any(|cell| outer.starts_with(cell.as_str()));
        out.extend(above.iter().filter(inside).map(|outer| Interval::point(Val::String(outer))));
    }
    super::bounds::normalise(&mut out);
    Some(out)
}

/// A search by distance from a point, by an index.
#[derive(Clone)]
pub struct NearPlan {
    /// The index.
    pub index: Arc<Index>,
    /// The path of the location.
    pub path: Path,
    /// The point and the distance limits.
    pub near: Near,
    geo: GeoFields,
    /// The key prefixes before the location; `None` when the whole index must be read.
    prefixes: Option<Vec<Vec<u8>>>,
    /// The bounds of the other fields, which entries are tested by.
    check: Option<Arc<KeyCheck>>,
    /// The conditions of the filter that these bounds make certain.
    pub implied: Conditions,
}

impl NearPlan {
    /// MongoDB's name of the stage.
    #[must_use]
    pub fn stage(&self) -> &'static str {
        if self.geo.plane.is_some() { "GEO_NEAR_2D" } else { "GEO_NEAR_2DSPHERE" }
    }

    /// Whether an entry is within the bounds of the other fields.
    #[must_use]
    pub fn accepts(&self, entry: &[u8]) -> bool {
        self.check.as_ref().is_none_or(|check| check.holds(entry))
    }

    /// The key ranges that can contain documents within a distance; `None` if the distance does not
    /// narrow them.
    #[must_use]
    pub fn ranges(&self, distance: f64) -> Option<Vec<KeyRange>> {
        let prefixes = self.prefixes.as_ref()?;
        let intervals = intervals(&self.geo, &self.near.within(distance))?;
        let pairs = prefixes.iter().flat_map(|p| intervals.iter().map(move |i| (p, i)));
        let range = |(prefix, interval): (&Vec<u8>, &Interval)| KeyRange {
            from: [prefix.as_slice(), &interval.from].concat(),
            to: [prefix.as_slice(), &interval.to].concat(),
        };
        Some(pairs.map(range).collect())
    }

    /// The range of all keys.
    #[must_use]
    pub fn whole(&self) -> Vec<KeyRange> {
        let whole = |from: &Vec<u8>| KeyRange { from: from.clone(), to: after(from) };
        match &self.prefixes {
            Some(prefixes) => prefixes.iter().map(whole).collect(),
            None => vec![whole(&self.index.prefix().to_vec())],
        }
    }

    /// The largest possible distance, in the query's unit.
    #[must_use]
    pub fn largest(&self) -> f64 {
        let space = match (&self.geo.plane, self.near.spherical) {
            (Some(plane), false) => {
                (plane.max - plane.min) * 4.0 + self.near.point.x.abs() + self.near.point.y.abs()
            }
            _ if self.near.metres => 4.0 * query::geo::EARTH_RADIUS_M,
            _ => 4.0,
        };
        space.min(self.near.max)
    }
}

/// The plan of a filter with a `$near`.
///
/// # Errors
/// NoQueryExecutionPlans without a suitable index, 16433 for a point outside its bounds.
pub fn near(
    question: &Question<'_>,
    path: &Path,
    near: &Near,
    only: Option<&Arc<Index>>,
) -> Result<NearPlan> {
    let indexes = question.collection.readable_indexes();
    let restrictions = Restrictions::current();
    let fitting = indexes.filter(|index| {
        index.state == IndexState::Ready && !index.hidden && restrictions.allow(index)
    });
    let mut whole: Option<NearPlan> = None;
    for index in fitting.filter(|index| only.is_none_or(|only| only.id == index.id)) {
        let IndexKind::Geo(geo) = &index.kind else { continue };
        let place =
            geo.at.iter().copied().find(|at| {
                index.fields.get(*at).is_some_and(|field| field.path.text() == path.text())
            });
        let Some(place) = place else { continue };
        let measures = if geo.plane.is_some() { !near.metres } else { near.spherical };
        if !measures || !super::candidates::answers(question, index) {
            continue;
        }
        if let Some(plane) = &geo.plane
            && !plane.holds(near.point)
        {
            return Err(Error::new(
                Code(16433),
                format!("point not in interval of [ {}, {} ]", plane.min, plane.max),
            ));
        }
        let (check, implied) = super::candidates::entry_check(question, index);
        let plan = NearPlan {
            index: index.clone(),
            path: path.clone(),
            near: near.clone(),
            geo: geo.clone(),
            prefixes: super::candidates::prefixes(question, index, place),
            check: check.map(Arc::new),
            implied,
        };
        if plan.prefixes.is_some() {
            return Ok(plan);
        }
        whole.get_or_insert(plan);
    }
    if let Some(plan) = whole {
        return Ok(plan);
    }
    Err(Error::new(
        Code::NO_QUERY_EXECUTION_PLANS,
        format!(
            "error processing query: ns={}: planner returned error :: caused by :: unable to find \
             index for $geoNear query",
            question.collection.namespace()
        ),
    ))
}
