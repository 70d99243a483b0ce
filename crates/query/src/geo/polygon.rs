//! Lines and polygons on the sphere: what is inside, and what they have in common.

use super::bounds::Bounds;
use super::leaf::Leaf;
use super::orientation::{Crosser, Crossing, crosses_at_end, intersection};
use super::ring::{Ring, Side};
use super::sphere::{UnitVector, angle, edge_distance};
use crate::interrupt;

/// Parts of a line that are closer to each other are one.
const MERGE_RADIUS: f64 = 1.5e-15;

/// How far the ends of a line may be from those of its part inside of a polygon.
const LINE_TOLERANCE: f64 = 1e-10 * std::f64::consts::PI / 180.0;

/// How far a point may be outside of bounds if its cell touches them.
const LEAF_SLACK: f64 = 1e-7;

/// A line of edges.
#[derive(Clone, Debug)]
pub struct Line {
    places: Vec<UnitVector>,
    bounds: Bounds,
}

impl Line {
    /// A line over at least two points.
    #[must_use]
    pub fn new(places: Vec<UnitVector>) -> Line {
        let bounds = Bounds::of_line(places.iter().copied());
        Line { places, bounds }
    }

    /// Its points.
    #[must_use]
    pub fn places(&self) -> &[UnitVector] {
        &self.places
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = (UnitVector, UnitVector)> + '_ {
        self.places.iter().zip(self.places.iter().skip(1)).map(|(a, b)| (*a, *b))
    }

    pub(super) fn distance(&self, p: UnitVector) -> f64 {
        if interrupt::should_stop(self.places.len()) {
            return f64::INFINITY;
        }
        self.edges().map(|(a, b)| edge_distance(a, b, p)).fold(f64::INFINITY, f64::min)
    }

    /// Whether edges cross or have a common end.
    pub(super) fn intersects(&self, other: &Line) -> bool {
        self.bounds.intersects(&other.bounds) && self.meets(other.places.iter().copied())
    }

    fn meets(&self, mut others: impl Iterator<Item = UnitVector> + Clone) -> bool {
        let Some(first) = others.next() else { return false };
        self.edges().any(|(a, b)| {
            let mut crosser = Crosser::new(a, b, first);
            others
                .clone()
                .any(|place| interrupt::should_stop(1) || crosser.step(place) != Crossing::None)
        })
    }

    /// Whether a cell around a point touches the line.
    pub(super) fn meets_leaf(&self, leaf: &Leaf) -> bool {
        if interrupt::should_stop(self.places.len()) || self.places.iter().any(|p| leaf.has(*p)) {
            return true;
        }
        let corners = leaf.corners();
        let next = corners.iter().cycle().skip(1);
        corners.iter().zip(next).any(|(a, b)| {
            let mut places = self.places.iter();
            let Some(first) = places.next() else { return false };
            let mut crosser = Crosser::new(*a, *b, *first);
            places.any(|place| crosser.step(*place) != Crossing::None)
        })
    }
}

/// A polygon with holes.
#[derive(Clone, Debug)]
pub struct Polygon {
    /// The ring around it, with the smaller area inside.
    outer: Ring,
    /// What is cut out of it.
    holes: Vec<Ring>,
    /// The ring as it was written, if its direction determines the inside.
    strict: Option<Ring>,
}

impl Polygon {
    /// A polygon of an outer ring and holes.
    #[must_use]
    pub fn new(outer: Ring, holes: Vec<Ring>) -> Polygon {
        Polygon { outer: outer.smaller(), holes, strict: None }
    }

    /// A polygon whose inside is on the left of its ring, however large it is.
    #[must_use]
    pub fn strict(ring: Ring) -> Polygon {
        Polygon { outer: ring.clone().smaller(), holes: Vec::new(), strict: Some(ring) }
    }

    /// Whether the direction of the ring determines the inside.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.strict.is_some()
    }

    /// Whether it is everything but the inside of `outer`: more than half of the sphere.
    pub(super) fn is_inverted(&self) -> bool {
        self.strict.as_ref().is_some_and(Ring::is_big)
    }

    pub(super) fn rings(&self) -> impl Iterator<Item = &Ring> {
        std::iter::once(&self.outer).chain(&self.holes)
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = (UnitVector, UnitVector)> + '_ {
        self.rings().flat_map(Ring::edges)
    }

    /// Whether a point is inside.
    #[must_use]
    pub fn contains(&self, p: UnitVector) -> bool {
        match &self.strict {
            Some(ring) => ring.contains(p),
            None => self.rings().fold(false, |inside, ring| inside ^ ring.contains(p)),
        }
    }

    /// Whether a point is inside, or so close to the border that its cell touches it.
    pub(super) fn contains_point(&self, p: UnitVector) -> bool {
        self.contains(p) || self.meets_leaf(p)
    }

    /// Whether the cell of a point touches the polygon.
    pub(super) fn meets_leaf(&self, p: UnitVector) -> bool {
        if let Some(ring) = &self.strict {
            return ring.meets_leaf(&Leaf::of(p));
        }
        if !self.outer.bounds().is_near(p, LEAF_SLACK) {
            return false;
        }
        let leaf = Leaf::of(p);
        if self.holes.is_empty() {
            return self.outer.meets_leaf(&leaf);
        }
        let cell = Polygon::new(Ring::new(leaf.corners().to_vec()), Vec::new());
        self.intersects(&cell)
    }

    /// The angle to the border: negative inside.
    pub(super) fn signed_distance(&self, p: UnitVector) -> f64 {
        let border = self.rings().map(|ring| ring.distance(p)).fold(f64::INFINITY, f64::min);
        if self.contains(p) { -border } else { border }
    }

    /// Whether another polygon is inside.
    pub(super) fn contains_polygon(&self, other: &Polygon) -> bool {
        if self.is_inverted() {
            return !self.border_intersects(other);
        }
        if self.holes.is_empty() && other.holes.is_empty() {
            return self.outer.contains_ring(&other.outer);
        }
        let (own, others) = (self.outer.bounds(), other.outer.bounds());
        if !own.contains(others) && !own.surround(others) {
            return false;
        }
        self.side_of(&other.outer) == Side::Inside
            && self.holes.iter().all(|hole| other.side_of(hole) == Side::Outside)
    }

    /// Where a ring is, counting all rings of the polygon.
    fn side_of(&self, ring: &Ring) -> Side {
        let mut inside = false;
        for own in self.rings() {
            match own.side_of(ring) {
                Side::Crosses => return Side::Crosses,
                Side::Inside => inside = !inside,
                Side::Outside => {}
            }
        }
        if inside { Side::Inside } else { Side::Outside }
    }

    /// Whether both have a common part; common corners and edges do not count.
    pub(super) fn intersects(&self, other: &Polygon) -> bool {
        match &self.strict {
            Some(ring) if self.is_inverted() => ring.intersects_ring(&other.outer),
            _ => self.border_intersects(other),
        }
    }

    fn border_intersects(&self, other: &Polygon) -> bool {
        if self.holes.is_empty() && other.holes.is_empty() {
            return self.outer.intersects_ring(&other.outer);
        }
        self.outer.bounds().intersects(other.outer.bounds())
            && (self.intersects_shell(&other.outer) || other.intersects_shell(&self.outer))
    }

    fn intersects_shell(&self, shell: &Ring) -> bool {
        let mut inside = false;
        for ring in self.rings() {
            if ring.contains_ring(shell) {
                inside = !inside;
            } else if !shell.contains_ring(ring) && ring.intersects_ring(shell) {
                return true;
            }
        }
        inside
    }

    /// Whether a line is inside.
    pub(super) fn contains_line(&self, line: &Line) -> bool {
        if self.strict.is_some() {
            // Nothing may be left of the part outside.
            return self.clip(line, !self.is_inverted()).parts == 0;
        }
        let clipped = self.clip(line, false);
        clipped.parts == 1 && clipped.left_out <= LINE_TOLERANCE
    }

    /// Whether a line has a part inside.
    pub(super) fn intersects_line(&self, line: &Line) -> bool {
        match &self.strict {
            Some(ring) => {
                let border = ring.places().iter().chain(ring.places().first()).copied();
                line.meets(border) || line.places.first().is_some_and(|first| ring.contains(*first))
            }
            None => self.clip(line, false).parts > 0,
        }
    }

    /// What is left of a line inside the rings, or outside of them.
    fn clip(&self, line: &Line, outside: bool) -> Clipped {
        let mut clipped = Clipped::default();
        let Some(first) = line.places.first() else { return clipped };
        let is_inside =
            |p: UnitVector| self.rings().fold(outside, |inside, ring| inside ^ ring.contains(p));
        let mut inside = is_inside(*first);
        // Where the present part ends.
        let mut end: Option<UnitVector> = None;
        for (from, to) in line.edges() {
            let mut cuts: Vec<(f64, UnitVector)> = Vec::new();
            for ring in self.rings() {
                if interrupt::should_stop(ring.places().len()) {
                    return clipped;
                }
                cut(from, to, ring, &mut cuts);
            }
            if inside {
                cuts.push((0.0, from));
            }
            inside = cuts.len() % 2 == 1;
            if inside {
                cuts.push((1.0, to));
            }
            cuts.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
            let mut reached = from;
            for pair in cuts.chunks_exact(2) {
                let [start, stop] = pair else { continue };
                if start == stop {
                    continue;
                }
                let (start, stop) = (start.1, stop.1);
                clipped.left_out = clipped.left_out.max(angle(reached, start));
                reached = stop;
                if end.is_none_or(|end| angle(end, start) > MERGE_RADIUS) {
                    clipped.parts += 1;
                    end = Some(start);
                }
                if end.is_some_and(|end| angle(end, stop) > MERGE_RADIUS) {
                    end = Some(stop);
                }
            }
            clipped.left_out = clipped.left_out.max(angle(reached, to));
        }
        clipped
    }
}

/// What is left of a line that was clipped.
#[derive(Default)]
struct Clipped {
    /// The number of its parts.
    parts: usize,
    /// The length of the longest piece that was cut away from an edge, as an angle.
    left_out: f64,
}

/// Adds where the edges of a ring cut an arc: how far along the arc, and the point.
fn cut(from: UnitVector, to: UnitVector, ring: &Ring, cuts: &mut Vec<(f64, UnitVector)>) {
    let Some(first) = ring.places().first() else { return };
    let mut crosser = Crosser::new(from, to, *first);
    for (a, b) in ring.edges() {
        match crosser.step(b) {
            Crossing::None => {}
            Crossing::Proper => {
                let x = intersection(from, to, a, b);
                let (before, after) = (angle(x, from), angle(x, to));
                cuts.push((before / (before + after), x));
            }
            Crossing::Shared if crosses_at_end(from, to, a, b) => {
                let at_start = from == a || from == b;
                cuts.push(if at_start { (0.0, from) } else { (1.0, to) });
            }
            Crossing::Shared => {}
        }
    }
}
