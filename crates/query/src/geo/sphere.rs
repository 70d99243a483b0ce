//! Shapes on the sphere. A point is a unit vector, an edge the shorter arc of a great circle, a
//! ring a closed line of edges with its inside on the left.

use super::Point;
use crate::interrupt;
use std::f64::consts::PI;

/// A point on the unit sphere.
pub type UnitVector = [f64; 3];

/// Angles below this count as zero: about a centimetre on the earth.
const NOTHING: f64 = 1e-9;

/// The most pairs of edges that are compared; only rings with very many edges close to each other
/// have more, and are accepted unchecked.
const COMPARISONS_MAX: usize = 20_000_000;

/// The unit vector of a longitude and latitude.
#[must_use]
pub fn unit_vector(point: Point) -> UnitVector {
    let (longitude, latitude) = (point.x.to_radians(), point.y.to_radians());
    let (sin, cos) = latitude.sin_cos();
    [cos * longitude.cos(), cos * longitude.sin(), sin]
}

fn dot(a: UnitVector, b: UnitVector) -> f64 {
    let [ax, ay, az] = a;
    let [bx, by, bz] = b;
    ax * bx + ay * by + az * bz
}

fn cross(a: UnitVector, b: UnitVector) -> UnitVector {
    let [ax, ay, az] = a;
    let [bx, by, bz] = b;
    [ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx]
}

fn sum(a: UnitVector, b: UnitVector) -> UnitVector {
    let [ax, ay, az] = a;
    let [bx, by, bz] = b;
    [ax + bx, ay + by, az + bz]
}

/// The same direction with length 1; the x axis for a zero vector.
#[must_use]
pub fn normalise(a: UnitVector) -> UnitVector {
    let length = dot(a, a).sqrt();
    if length == 0.0 {
        return [1.0, 0.0, 0.0];
    }
    a.map(|n| n / length)
}

/// The angle between two points, exact for small angles too.
#[must_use]
pub fn angle(a: UnitVector, b: UnitVector) -> f64 {
    let across = cross(a, b);
    dot(across, across).sqrt().atan2(dot(a, b))
}

/// The angle from a place to an edge.
fn edge_distance(a: UnitVector, b: UnitVector, p: UnitVector) -> f64 {
    let normal = cross(a, b);
    let beside = dot(cross(normal, a), p) > 0.0 && dot(cross(b, normal), p) > 0.0;
    if beside {
        return dot(normalise(normal), p).clamp(-1.0, 1.0).asin().abs();
    }
    angle(a, p).min(angle(b, p))
}

/// Whether two edges cross at an inner point of both.
fn crosses(a: UnitVector, b: UnitVector, c: UnitVector, d: UnitVector) -> bool {
    let ab = cross(a, b);
    let acb = -dot(ab, c);
    let bda = dot(ab, d);
    if acb * bda <= 0.0 {
        return false;
    }
    let cd = cross(c, d);
    let cbd = -dot(cd, b);
    let dac = dot(cd, a);
    acb * cbd > 0.0 && acb * dac > 0.0
}

/// A line of edges.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its places, at least two.
    pub places: Vec<UnitVector>,
}

impl Line {
    fn edges(&self) -> impl Iterator<Item = (UnitVector, UnitVector)> + '_ {
        self.places.iter().zip(self.places.iter().skip(1)).map(|(a, b)| (*a, *b))
    }

    fn distance(&self, p: UnitVector) -> f64 {
        if interrupt::leaves(self.places.len()) {
            return f64::INFINITY;
        }
        self.edges().map(|(a, b)| edge_distance(a, b, p)).fold(f64::INFINITY, f64::min)
    }
}

/// A closed line; the last point is joined to the first.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Its places, at least three, each once.
    places: Vec<UnitVector>,
    /// A cap that holds the inside, if the ring is small.
    cap: Option<(UnitVector, f64)>,
}

/// Why a closed line is not a valid ring.
#[derive(Debug, PartialEq, Eq)]
pub enum BadRing {
    /// The points with these indexes are equal.
    Duplicate(usize, usize),
    /// The edges with these indexes cross.
    Crossing(usize, usize),
}

impl Ring {
    /// A ring with the smaller area inside, for either direction.
    #[must_use]
    pub fn new(places: Vec<UnitVector>) -> Ring {
        let mut places = places;
        if left_area(&places) > 2.0 * PI {
            places.reverse();
        }
        let centre = normalise(places.iter().fold([0.0; 3], |total, p| sum(total, *p)));
        let radius = places.iter().map(|p| angle(centre, *p)).fold(0.0, f64::max);
        let cap = (radius < 1.4).then_some((centre, radius + NOTHING));
        Ring { places, cap }
    }

    /// Whether the inside of a closed line, on its left, is more than half of the sphere.
    #[must_use]
    pub fn is_big(places: &[UnitVector]) -> bool {
        left_area(places) > 2.0 * PI
    }

    /// Finds what makes a closed line cross or touch itself.
    ///
    /// # Errors
    /// The two places or edges.
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
                if left == 0 || interrupt::leaves(1) {
                    return Ok(());
                }
                left -= 1;
                let (low, high) = (first.2.min(second.2), first.2.max(second.2));
                if first.3 == second.3 {
                    return Err(BadRing::Duplicate(low, high));
                }
                let adjacent = high - low == 1 || (low == 0 && high == count - 1);
                if !adjacent && crosses(first.3, first.4, second.3, second.4) {
                    return Err(BadRing::Crossing(low, high));
                }
            }
        }
        Ok(())
    }

    fn edges(&self) -> impl Iterator<Item = (UnitVector, UnitVector)> + '_ {
        self.places.iter().zip(self.places.iter().cycle().skip(1)).map(|(a, b)| (*a, *b))
    }

    /// Whether a place is inside. Its own places are.
    fn contains(&self, p: UnitVector) -> bool {
        if self.cap.is_some_and(|(centre, radius)| angle(centre, p) > radius) {
            return false;
        }
        if interrupt::leaves(self.places.len()) {
            return false;
        }
        if self.places.contains(&p) {
            return true;
        }
        // How far the ring turns around the place: once to the left if it is inside.
        let turned: f64 = self
            .edges()
            .map(|(a, b)| dot(p, cross(a, b)).atan2(dot(a, b) - dot(a, p) * dot(b, p)))
            .sum();
        turned > PI
    }

    fn distance(&self, p: UnitVector) -> f64 {
        if interrupt::leaves(self.places.len()) {
            return f64::INFINITY;
        }
        self.edges().map(|(a, b)| edge_distance(a, b, p)).fold(f64::INFINITY, f64::min)
    }
}

/// Whether the operation shall end: what is computed from here on does not count.
fn ends() -> bool {
    interrupt::confirm().is_err()
}

/// The area on the left of a closed line.
fn left_area(places: &[UnitVector]) -> f64 {
    let Some((first, rest)) = places.split_first() else { return 0.0 };
    let mut total = 0.0;
    for (b, c) in rest.iter().zip(rest.iter().skip(1)) {
        let (a, b, c) = (*first, *b, *c);
        let below = 1.0 + dot(a, b) + dot(b, c) + dot(c, a);
        total += 2.0 * dot(a, cross(b, c)).atan2(below);
    }
    total.rem_euclid(4.0 * PI)
}

/// A polygon with holes.
#[derive(Clone, Debug)]
pub struct Polygon {
    /// The ring around it.
    pub outer: Ring,
    /// What is cut out of it.
    pub holes: Vec<Ring>,
    /// Everything but the inside of `outer`: more than half of the sphere.
    pub inverted: bool,
}

impl Polygon {
    /// Whether a place is inside.
    #[must_use]
    pub fn contains(&self, p: UnitVector) -> bool {
        let inside = if self.inverted {
            !self.outer.contains(p) || self.outer.places.contains(&p)
        } else {
            self.outer.contains(p)
        };
        inside && !self.holes.iter().any(|hole| hole.contains(p))
    }

    fn rings(&self) -> impl Iterator<Item = &Ring> {
        std::iter::once(&self.outer).chain(&self.holes)
    }

    fn edges(&self) -> impl Iterator<Item = (UnitVector, UnitVector)> + '_ {
        self.rings().flat_map(Ring::edges)
    }

    /// The angle to the border: negative inside.
    fn signed_distance(&self, p: UnitVector) -> f64 {
        let border = self.rings().map(|ring| ring.distance(p)).fold(f64::INFINITY, f64::min);
        if self.contains(p) { -border } else { border }
    }

    fn is_crossed_by(&self, a: UnitVector, b: UnitVector) -> bool {
        self.edges().any(|(c, d)| interrupt::leaves(1) || crosses(a, b, c, d))
    }

    /// Whether all places of edges are inside and no edge leaves.
    fn contains_edges(&self, mut edges: impl Iterator<Item = (UnitVector, UnitVector)>) -> bool {
        edges.all(|(a, b)| {
            let middle = normalise(sum(a, b));
            interrupt::confirm().is_ok()
                && self.contains(a)
                && self.contains(b)
                && (self.contains(middle) || self.signed_distance(middle) < NOTHING)
                && !self.is_crossed_by(a, b)
        })
    }

    fn contains_polygon(&self, other: &Polygon) -> bool {
        if other.inverted && !self.inverted {
            return false;
        }
        let hole_inside = |hole: &Ring| {
            let own = |p: &UnitVector| other.rings().any(|ring| ring.places.contains(p));
            hole.places.iter().any(|p| ends() || (!own(p) && other.contains(*p)))
        };
        self.contains_edges(other.edges())
            && !self.holes.iter().any(hole_inside)
            && !(self.inverted && hole_inside(&self.outer))
    }
}

/// Points, lines and polygons together.
#[derive(Clone, Debug, Default)]
pub struct Geometry {
    /// Places.
    pub points: Vec<UnitVector>,
    /// Lines.
    pub lines: Vec<Line>,
    /// Polygons.
    pub polygons: Vec<Polygon>,
}

impl Geometry {
    /// One place.
    #[must_use]
    pub fn point(place: UnitVector) -> Geometry {
        Geometry { points: vec![place], ..Geometry::default() }
    }

    /// Whether every part of `other` lies inside a polygon.
    #[must_use]
    pub fn contains(&self, other: &Geometry) -> bool {
        let within = |test: &dyn Fn(&Polygon) -> bool| self.polygons.iter().any(test);
        other.points.iter().all(|p| within(&|polygon| polygon.contains(*p)))
            && other.lines.iter().all(|l| within(&|polygon| polygon.contains_edges(l.edges())))
            && other.polygons.iter().all(|o| within(&|polygon| polygon.contains_polygon(o)))
    }

    /// Whether a part of one touches a part of the other.
    #[must_use]
    pub fn intersects(&self, other: &Geometry) -> bool {
        self.touches(other) || other.touches(self) || self.meets(other)
    }

    /// Whether a place of `other` lies on a part of this.
    fn touches(&self, other: &Geometry) -> bool {
        let on_point = |p: &UnitVector| self.points.iter().any(|q| angle(*p, *q) < NOTHING);
        let on_line = |p: &UnitVector| self.lines.iter().any(|line| line.distance(*p) < NOTHING);
        let inside =
            |p: &UnitVector| ends() || self.polygons.iter().any(|polygon| polygon.contains(*p));
        let on_point = |p: &UnitVector| interrupt::leaves(self.points.len()) || on_point(p);
        let on = |p: &UnitVector| on_point(p) || on_line(p) || inside(p);
        other.points.iter().any(on)
            || other.lines.iter().flat_map(|line| &line.places).any(on)
            || other.polygons.iter().flat_map(|polygon| &polygon.outer.places).any(inside)
    }

    /// Whether edges of both cross.
    fn meets(&self, other: &Geometry) -> bool {
        let edges = |geometry: &Geometry| -> Vec<(UnitVector, UnitVector)> {
            let lines = geometry.lines.iter().flat_map(Line::edges);
            lines.chain(geometry.polygons.iter().flat_map(Polygon::edges)).collect()
        };
        let (own, others) = (edges(self), edges(other));
        own.iter().any(|(a, b)| {
            interrupt::leaves(others.len()) || others.iter().any(|(c, d)| crosses(*a, *b, *c, *d))
        })
    }

    /// Whether every place lies within an angle of a centre.
    #[must_use]
    pub fn is_in_cap(&self, centre: UnitVector, radius: f64) -> bool {
        if radius >= PI {
            return true;
        }
        let near = |p: &UnitVector| angle(centre, *p) <= radius;
        // In a cap that is not more than a half sphere, arcs stay inside with their ends.
        let far_side = centre.map(|n| -n);
        let arcs = |mut edges: Box<dyn Iterator<Item = (UnitVector, UnitVector)> + '_>| {
            edges.all(|(a, b)| {
                !interrupt::leaves(1)
                    && near(&a)
                    && near(&b)
                    && (radius <= PI / 2.0 || edge_distance(a, b, far_side) >= PI - radius)
            })
        };
        self.points.iter().all(near)
            && self.lines.iter().all(|line| arcs(Box::new(line.edges())))
            && self.polygons.iter().all(|polygon| {
                !polygon.inverted && arcs(Box::new(polygon.edges())) && !polygon.contains(far_side)
            })
    }

    /// The angle from a place to the nearest part: 0 inside a polygon.
    #[must_use]
    pub fn distance(&self, p: UnitVector) -> f64 {
        self.signed_distance(p).max(0.0)
    }

    /// The angle from a place to the nearest part: negative inside a polygon, by how deep.
    #[must_use]
    pub fn signed_distance(&self, p: UnitVector) -> f64 {
        let points = self.points.iter().map(|q| angle(*q, p));
        let lines = self.lines.iter().map(|line| line.distance(p));
        let polygons = self.polygons.iter().map(|polygon| polygon.signed_distance(p));
        points.chain(lines).chain(polygons).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: f64, y: f64) -> UnitVector {
        unit_vector(Point { x, y })
    }

    fn ring(points: &[(f64, f64)]) -> Ring {
        Ring::new(points.iter().map(|(x, y)| at(*x, *y)).collect())
    }

    fn polygon(points: &[(f64, f64)]) -> Polygon {
        Polygon { outer: ring(points), holes: Vec::new(), inverted: false }
    }

    #[test]
    fn distances_are_those_of_the_earth() {
        let quarter = angle(at(0.0, 0.0), at(90.0, 0.0));
        assert!((quarter - PI / 2.0).abs() < 1e-12);
        assert!(
            (edge_distance(at(-10.0, 0.0), at(10.0, 0.0), at(3.0, 5.0)) - 5f64.to_radians()).abs()
                < 1e-12
        );
        assert!(
            (edge_distance(at(-10.0, 0.0), at(10.0, 0.0), at(12.0, 0.0)) - 2f64.to_radians()).abs()
                < 1e-12
        );
    }

    #[test]
    fn a_ring_has_its_smaller_side_inside_in_either_direction() {
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
        let bow: Vec<UnitVector> = [(0.0, 0.0), (4.0, 0.0), (0.0, 4.0), (4.0, 4.0)]
            .iter()
            .map(|(x, y)| at(*x, *y))
            .collect();
        assert_eq!(Ring::check(&bow), Err(BadRing::Crossing(1, 3)));
        let square: Vec<UnitVector> = [(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0)]
            .iter()
            .map(|(x, y)| at(*x, *y))
            .collect();
        assert_eq!(Ring::check(&square), Ok(()));
    }

    #[test]
    fn shapes_contain_and_meet_each_other() {
        let big = Geometry {
            polygons: vec![polygon(&[(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)])],
            ..Geometry::default()
        };
        let line = |a: (f64, f64), b: (f64, f64)| Geometry {
            lines: vec![Line { places: vec![at(a.0, a.1), at(b.0, b.1)] }],
            ..Geometry::default()
        };
        assert!(big.contains(&line((1.0, 1.0), (2.0, 5.0))));
        assert!(!big.contains(&line((1.0, 1.0), (20.0, 5.0))));
        assert!(big.intersects(&line((1.0, 1.0), (20.0, 5.0))));
        assert!(big.intersects(&line((-1.0, 5.0), (20.0, 5.0))));
        assert!(!big.intersects(&line((-1.0, 5.0), (-20.0, 5.0))));
        assert!(line((0.0, 0.0), (5.0, 5.0)).intersects(&line((0.0, 5.0), (5.0, 0.0))));
    }
}
