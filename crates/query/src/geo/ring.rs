//! Closed lines on the sphere with their inside on the left, and how two of them lie to each other.

use super::bounds::Bounds;
use super::leaf::Leaf;
use super::orientation::{Crosser, Crossing, is_ordered, origin, reference, robust_cross, turn};
use super::sphere::{UnitVector, angle, edge_distance};
use crate::interrupt;
use std::f64::consts::PI;

/// The most pairs of edges that are compared; only rings with very many edges close to each other
/// have more, and are accepted unchecked.
const COMPARISONS_MAX: usize = 20_000_000;

/// How far the border of half of the sphere may seem to turn to the right, by rounding.
const TURN_ERROR: f64 = 1e-14;

/// A closed line; the last point is joined to the first.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Its points, at least three, each once.
    places: Vec<UnitVector>,
    bounds: Bounds,
    /// Whether the fixed point from which crossings are counted is inside.
    origin_inside: bool,
}

/// Why a closed line is not a valid ring.
#[derive(Debug, PartialEq, Eq)]
pub enum BadRing {
    /// The points with these indexes are equal.
    Duplicate(usize, usize),
    /// The edges with these indexes cross.
    Crossing(usize, usize),
}

/// The edges of two rings at a point that both have: the ends before and after it.
struct Wedges {
    a0: UnitVector,
    a2: UnitVector,
    b0: UnitVector,
    b2: UnitVector,
    centre: UnitVector,
}

impl Wedges {
    fn contains(&self) -> bool {
        is_ordered(self.a2, self.b2, self.b0, self.centre)
            && is_ordered(self.b0, self.a0, self.a2, self.centre)
    }

    fn intersects(&self) -> bool {
        !(is_ordered(self.a0, self.b2, self.b0, self.centre)
            && is_ordered(self.b0, self.a2, self.a0, self.centre))
    }

    fn relation(&self) -> Relation {
        let Wedges { a0, a2, b0, b2, centre } = *self;
        if a0 == b0 && a2 == b2 {
            return Relation::Equal;
        }
        if is_ordered(a0, a2, b2, centre) {
            return if is_ordered(b2, b0, a0, centre) {
                Relation::Contains
            } else if a2 == b2 {
                Relation::IsContained
            } else {
                Relation::Overlaps
            };
        }
        if is_ordered(a0, b0, b2, centre) {
            Relation::IsContained
        } else if is_ordered(a0, b0, a2, centre) {
            Relation::Disjoint
        } else {
            Relation::Overlaps
        }
    }
}

/// How the insides of two rings lie to each other around a common point.
#[derive(PartialEq, Eq)]
enum Relation {
    Equal,
    Contains,
    IsContained,
    Disjoint,
    Overlaps,
}

/// What a ring does to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Their borders cross.
    Crosses,
    /// The other ring is not inside.
    Outside,
    /// The other ring is inside.
    Inside,
}

impl Ring {
    /// A ring with its inside on the left.
    #[must_use]
    pub fn new(places: Vec<UnitVector>) -> Ring {
        let mut ring = Ring { places, bounds: Bounds::FULL, origin_inside: false };
        let (v0, v1, v2) = (ring.vertex(0), ring.vertex(1), ring.vertex(2));
        let is_inside = is_ordered(reference(v1), v0, v2, v1);
        ring.origin_inside = is_inside != ring.contains(v1);
        ring.set_bounds();
        ring
    }

    fn set_bounds(&mut self) {
        self.bounds = Bounds::FULL;
        let all = self.places.iter().chain(self.places.first()).copied();
        self.bounds = Bounds::of_line(all).with_poles(|pole| self.contains(pole));
    }

    /// The ring with the smaller area inside.
    #[must_use]
    pub fn smaller(mut self) -> Ring {
        if self.is_big() {
            self.places.reverse();
            self.origin_inside = !self.origin_inside;
            self.set_bounds();
        }
        self
    }

    /// Whether the inside is more than half of the sphere.
    #[must_use]
    pub fn is_big(&self) -> bool {
        self.bounds.width() >= PI && self.turned() < -TURN_ERROR
    }

    /// How far the border turns to the left: more than nothing if the inside is less than half of
    /// the sphere. The sum has the same bits for every first point.
    fn turned(&self) -> f64 {
        let count = self.places.len();
        let first = (0..count)
            .reduce(|least, at| if self.vertex(at) < self.vertex(least) { at } else { least });
        let first = first.unwrap_or(0);
        let forward = self.vertex(first + 1) < self.vertex(first + count - 1);
        let step = if forward { 1 } else { count - 1 };
        let mut at = first;
        let mut total = 0.0;
        for _ in 0..count {
            let (before, after) = (self.vertex(at + count - step), self.vertex(at + step));
            total += turn_angle(before, self.vertex(at), after);
            at = (at + step) % count;
        }
        if forward { total } else { -total }
    }

    /// Its points.
    #[must_use]
    pub fn places(&self) -> &[UnitVector] {
        &self.places
    }

    pub(super) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The point with a number, counted round and round.
    fn vertex(&self, at: usize) -> UnitVector {
        self.places.get(at % self.places.len().max(1)).copied().unwrap_or([1.0, 0.0, 0.0])
    }

    /// Finds what makes a closed line cross or touch itself.
    ///
    /// # Errors
    /// The two points or edges.
    pub fn check(places: &[UnitVector]) -> Result<(), BadRing> {
        // Edges sorted by where they begin along one axis: only those that overlap are compared.
        let count = places.len();
        let next = places.iter().cycle().skip(1);
        let mut spans: Vec<(f64, f64, usize, UnitVector, UnitVector)> = Vec::with_capacity(count);
        for (at, (a, b)) in places.iter().zip(next).enumerate() {
            let bulge = 1.0 - (angle(*a, *b) / 2.0).cos();
            let ([ax, ..], [bx, ..]) = (*a, *b);
            spans.push((ax.min(bx) - bulge, ax.max(bx) + bulge, at, *a, *b));
        }
        if interrupt::sort_by(&mut spans, |a, b| a.0.total_cmp(&b.0)).is_err() {
            return Ok(());
        }
        let mut left = COMPARISONS_MAX;
        for (at, first) in spans.iter().enumerate() {
            for second in spans.iter().skip(at + 1) {
                if second.0 > first.1 {
                    break;
                }
                if left == 0 || interrupt::should_stop(1) {
                    return Ok(());
                }
                left -= 1;
                let (low, high) = (first.2.min(second.2), first.2.max(second.2));
                if first.3 == second.3 {
                    return Err(BadRing::Duplicate(low, high));
                }
                let adjacent = high - low == 1 || (low == 0 && high == count - 1);
                if !adjacent
                    && Crosser::new(first.3, first.4, second.3).step(second.4) == Crossing::Proper
                {
                    return Err(BadRing::Crossing(low, high));
                }
            }
        }
        Ok(())
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = (UnitVector, UnitVector)> + '_ {
        self.places.iter().zip(self.places.iter().cycle().skip(1)).map(|(a, b)| (*a, *b))
    }

    /// Whether a point is inside. Each point of the sphere is in exactly one of the rings that
    /// share an edge or a corner there.
    #[must_use]
    pub fn contains(&self, p: UnitVector) -> bool {
        if !self.bounds.has(p) || interrupt::should_stop(self.places.len()) {
            return false;
        }
        let mut crosser = Crosser::new(origin(), p, self.vertex(0));
        let rest = self.places.iter().skip(1).chain(self.places.first());
        rest.fold(self.origin_inside, |inside, place| inside ^ crosser.step_counted(*place))
    }

    fn has_place(&self, p: UnitVector) -> bool {
        self.places.contains(&p)
    }

    /// Whether the borders cross outside of common points. `visit` sees the common points, and
    /// ends the search by `true`.
    fn crosses(&self, other: &Ring, mut visit: impl FnMut(&Wedges) -> bool) -> bool {
        if !self.bounds.intersects(&other.bounds) {
            return false;
        }
        for at in 0..other.places.len() {
            if interrupt::should_stop(self.places.len()) {
                return false;
            }
            let (from, to) = (other.vertex(at), other.vertex(at + 1));
            let mut crosser = Crosser::new(from, to, self.vertex(0));
            for own in 0..self.places.len() {
                let end = self.vertex(own + 1);
                match crosser.step(end) {
                    Crossing::None => {}
                    Crossing::Proper => return true,
                    Crossing::Shared if end != to => {}
                    Crossing::Shared => {
                        let wedges = Wedges {
                            a0: self.vertex(own),
                            a2: self.vertex(own + 2),
                            b0: from,
                            b2: other.vertex(at + 2),
                            centre: to,
                        };
                        if visit(&wedges) {
                            return false;
                        }
                    }
                }
            }
        }
        false
    }

    /// Whether another ring is inside, borders included.
    pub(super) fn contains_ring(&self, other: &Ring) -> bool {
        let first = other.vertex(0);
        if !self.bounds.contains(&other.bounds) || (!self.contains(first) && !self.has_place(first))
        {
            return false;
        }
        let mut leaves = false;
        let crosses = self.crosses(other, |wedges| {
            leaves = !wedges.contains();
            leaves
        });
        if crosses || leaves {
            return false;
        }
        let own = self.vertex(0);
        !(self.bounds.fill_all(&other.bounds) && other.contains(own) && !other.has_place(own))
    }

    /// Whether the insides have a common part.
    pub(super) fn intersects_ring(&self, other: &Ring) -> bool {
        if other.places.len() > self.places.len() {
            return other.intersects_ring(self);
        }
        if !self.bounds.intersects(&other.bounds) {
            return false;
        }
        let first = other.vertex(0);
        if self.contains(first) && !self.has_place(first) {
            return true;
        }
        let mut meets = false;
        let crosses = self.crosses(other, |wedges| {
            meets = wedges.intersects();
            meets
        });
        let own = self.vertex(0);
        crosses
            || meets
            || (other.bounds.contains(&self.bounds) && other.contains(own) && !other.has_place(own))
    }

    /// Where another ring is, if both together are not the whole sphere.
    pub(super) fn side_of(&self, other: &Ring) -> Side {
        if !self.bounds.intersects(&other.bounds) {
            return Side::Outside;
        }
        let (mut crossing, mut larger, mut smaller, mut apart) = (false, false, false, false);
        let crosses = self.crosses(other, |wedges| {
            match wedges.relation() {
                Relation::Overlaps => crossing = true,
                Relation::Contains => larger = true,
                Relation::IsContained => smaller = true,
                Relation::Disjoint => apart = true,
                Relation::Equal => {}
            }
            crossing |= larger && smaller;
            crossing
        });
        if crosses || crossing {
            return Side::Crosses;
        }
        let first = other.vertex(0);
        if apart
            || smaller
            || !self.bounds.contains(&other.bounds)
            || (!self.contains(first) && !self.has_place(first))
        {
            return Side::Outside;
        }
        Side::Inside
    }

    /// Whether the ring is inside a cell around a point, or the cell touches it.
    pub(super) fn meets_leaf(&self, leaf: &Leaf) -> bool {
        Ring::new(leaf.corners().to_vec()).intersects_ring(self)
    }

    /// How many points both rings have.
    #[must_use]
    pub fn common_places(&self, other: &Ring) -> usize {
        self.places
            .iter()
            .filter(|place| !interrupt::should_stop(other.places.len()) && other.has_place(**place))
            .count()
    }

    /// Whether both rings have an edge, in either direction.
    #[must_use]
    pub fn shares_edge(&self, other: &Ring) -> bool {
        self.edges().any(|(a, b)| {
            !interrupt::should_stop(other.places.len())
                && other.edges().any(|(c, d)| (a == c && b == d) || (a == d && b == c))
        })
    }

    /// The angle from a point to the border.
    pub(super) fn distance(&self, p: UnitVector) -> f64 {
        if interrupt::should_stop(self.places.len()) {
            return f64::INFINITY;
        }
        self.edges().map(|(a, b)| edge_distance(a, b, p)).fold(f64::INFINITY, f64::min)
    }
}

/// The angle by which the way from `a` over `b` to `c` turns, to the left if positive.
fn turn_angle(a: UnitVector, b: UnitVector, c: UnitVector) -> f64 {
    let turned = angle(robust_cross(b, a), robust_cross(c, b));
    if turn(a, b, c) > 0 { turned } else { -turned }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::Point;
    use crate::geo::sphere::unit_vector;

    fn at(x: f64, y: f64) -> UnitVector {
        unit_vector(Point { x, y })
    }

    fn ring(points: &[(f64, f64)]) -> Ring {
        Ring::new(points.iter().map(|(x, y)| at(*x, *y)).collect()).smaller()
    }

    #[test]
    fn a_ring_has_the_smaller_side_inside_in_either_direction() {
        for points in [
            [(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)],
            [(0.0, 10.0), (10.0, 10.0), (10.0, 0.0), (0.0, 0.0)],
            [(175.0, 0.0), (-175.0, 0.0), (-175.0, 10.0), (175.0, 10.0)],
        ] {
            let ring = ring(&points);
            let (x, _) = points[0];
            let inside = if x > 100.0 { at(180.0, 5.0) } else { at(5.0, 5.0) };
            assert!(ring.contains(inside));
            assert!(!ring.contains(at(20.0, 5.0)));
            assert!(!ring.contains(at(-170.0, -5.0)));
        }
        let pole = ring(&[(0.0, 60.0), (90.0, 60.0), (180.0, 60.0), (-90.0, 60.0)]);
        assert!(pole.contains(at(13.0, 89.0)));
        assert!(!pole.contains(at(13.0, 10.0)));
        assert!(!pole.contains(at(13.0, -89.0)));
    }

    #[test]
    fn rings_that_cross_themselves_are_found() {
        let places = |points: [(f64, f64); 4]| points.map(|(x, y)| at(x, y));
        let bow = places([(0.0, 0.0), (4.0, 0.0), (0.0, 4.0), (4.0, 4.0)]);
        assert_eq!(Ring::check(&bow), Err(BadRing::Crossing(1, 3)));
        let square = places([(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0)]);
        assert_eq!(Ring::check(&square), Ok(()));
    }

    #[test]
    fn every_corner_is_in_exactly_one_of_the_rings_around_it() {
        let corner = (4.0, 4.0);
        let quarters = [(0.0, 0.0), (8.0, 0.0), (8.0, 8.0), (0.0, 8.0)].map(|(x, y)| {
            let mut points = [(x, y), (4.0, y), corner, (x, 4.0)];
            if (x < 4.0) != (y < 4.0) {
                points.reverse();
            }
            ring(&points)
        });
        let count = quarters.iter().filter(|ring| ring.contains(at(4.0, 4.0))).count();
        assert_eq!(count, 1);
        assert!(!quarters[0].intersects_ring(&quarters[1]));
        assert!(!quarters[0].intersects_ring(&quarters[2]));
        assert!(quarters[0].contains_ring(&quarters[0]));
    }
}
