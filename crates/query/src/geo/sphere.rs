//! Shapes on the sphere. A point is a unit vector, an edge the shorter arc of a great circle, a
//! ring a closed line of edges with its inside on the left.

use super::Point;
use super::leaf::Leaf;
use super::orientation::{robust_cross, unit};
use super::polygon::{Line, Polygon};
use crate::interrupt;
use std::f64::consts::PI;

/// A point on the unit sphere.
pub type UnitVector = [f64; 3];

/// The unit vector of a longitude and latitude.
#[must_use]
pub fn unit_vector(point: Point) -> UnitVector {
    let (longitude, latitude) = (point.x.to_radians(), point.y.to_radians());
    let (sin, cos) = latitude.sin_cos();
    [cos * longitude.cos(), cos * longitude.sin(), sin]
}

pub(super) fn dot(a: UnitVector, b: UnitVector) -> f64 {
    let [ax, ay, az] = a;
    let [bx, by, bz] = b;
    ax * bx + ay * by + az * bz
}

pub(super) fn cross(a: UnitVector, b: UnitVector) -> UnitVector {
    let [ax, ay, az] = a;
    let [bx, by, bz] = b;
    [ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx]
}

pub(super) fn sum(a: UnitVector, b: UnitVector) -> UnitVector {
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
pub(super) fn edge_distance(a: UnitVector, b: UnitVector, p: UnitVector) -> f64 {
    let normal = cross(a, b);
    let beside = dot(cross(normal, a), p) > 0.0 && dot(cross(b, normal), p) > 0.0;
    if beside {
        return dot(normalise(normal), p).clamp(-1.0, 1.0).asin().abs();
    }
    angle(a, p).min(angle(b, p))
}

/// The angle from a place to an edge as MongoDB computes it for circles, where the last bits decide.
fn far_edge_distance(a: UnitVector, b: UnitVector, p: UnitVector) -> f64 {
    let normal = robust_cross(a, b);
    let beside = dot(cross(p, normal), a) > 0.0 && dot(cross(normal, p), b) > 0.0;
    if beside {
        let sine = dot(p, normal).abs() / dot(normal, normal).sqrt();
        return sine.min(1.0).asin();
    }
    let apart = |end: UnitVector| {
        let difference = sum(p, end.map(|n| -n));
        dot(difference, difference)
    };
    2.0 * (0.5 * apart(a).min(apart(b)).sqrt()).min(1.0).asin()
}

/// The point of an edge that is closest to a place.
fn closest_on_edge(a: UnitVector, b: UnitVector, p: UnitVector) -> UnitVector {
    let normal = robust_cross(a, b);
    let above = dot(p, normal) / dot(normal, normal);
    let foot = sum(p, normal.map(|n| -above * n));
    if dot(cross(foot, normal), a) > 0.0 && dot(cross(normal, foot), b) > 0.0 {
        return unit(foot);
    }
    let apart = |end: UnitVector| {
        let difference = sum(p, end.map(|n| -n));
        dot(difference, difference)
    };
    if apart(a) <= apart(b) { a } else { b }
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

/// Whether the operation shall end: what is computed from here on does not count.
fn ends() -> bool {
    interrupt::confirm().is_err()
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
        let within = |test: &dyn Fn(&Polygon) -> bool| {
            self.polygons.iter().any(|polygon| !ends() && test(polygon))
        };
        other.points.iter().all(|p| within(&|polygon| polygon.contains_point(*p)))
            && other.lines.iter().all(|l| within(&|polygon| polygon.contains_line(l)))
            && other.polygons.iter().all(|o| within(&|polygon| polygon.contains_polygon(o)))
    }

    /// Whether a part of one has something in common with a part of the other. Polygons that only
    /// touch each other have not, as in MongoDB.
    #[must_use]
    pub fn intersects(&self, other: &Geometry) -> bool {
        self.meets_any(other)
            || self.points.iter().any(|p| other.meets_point(*p))
            || other.points.iter().any(|p| self.meets_point(*p))
    }

    /// Whether a line or polygon, or the same cell, is where a point is.
    fn meets_point(&self, p: UnitVector) -> bool {
        let leaf = Leaf::of(p);
        self.points.iter().any(|q| !interrupt::should_stop(1) && Leaf::of(*q) == leaf)
            || self.lines.iter().any(|line| !ends() && line.meets_leaf(&leaf))
            || self.polygons.iter().any(|polygon| !ends() && polygon.meets_leaf(p))
    }

    /// Whether lines or polygons of both meet.
    fn meets_any(&self, other: &Geometry) -> bool {
        self.lines.iter().any(|line| {
            other.lines.iter().any(|o| !ends() && line.intersects(o))
                || other.polygons.iter().any(|o| !ends() && o.intersects_line(line))
        }) || self.polygons.iter().any(|polygon| {
            other.lines.iter().any(|o| !ends() && polygon.intersects_line(o))
                || other.polygons.iter().any(|o| !ends() && polygon.intersects(o))
        })
    }

    /// Whether every place lies within an angle of a centre.
    #[must_use]
    pub fn is_in_cap(&self, centre: UnitVector, radius: f64) -> bool {
        if radius >= PI {
            return true;
        }
        let half = (0.5 * radius).sin();
        let height = 2.0 * half * half;
        let near = |p: &UnitVector| {
            let difference = sum(centre, p.map(|n| -n));
            dot(difference, difference) <= 2.0 * height
        };
        let covers = |p: &UnitVector| {
            let leaf = Leaf::of(*p);
            near(p) || leaf.has(centre) || leaf.corners().iter().any(near)
        };
        // Lines and polygons are inside if they are far enough from the opposite side.
        let far_side = centre.map(|n| -n);
        let reach = 2.0 * (0.5 * (2.0 - height)).sqrt().asin();
        let stays = |(a, b): (UnitVector, UnitVector)| {
            !interrupt::should_stop(1) && far_edge_distance(a, b, far_side) >= reach
        };
        let line_stays = |line: &Line| {
            let far = |(a, b): (UnitVector, UnitVector)| far_edge_distance(a, b, far_side);
            let nearest = line.edges().min_by(|x, y| far(*x).total_cmp(&far(*y)));
            !interrupt::should_stop(line.places().len())
                && nearest
                    .is_some_and(|(a, b)| angle(far_side, closest_on_edge(a, b, far_side)) >= reach)
        };
        self.points.iter().all(covers)
            && self.lines.iter().all(line_stays)
            && self.polygons.iter().all(|polygon| {
                !polygon.is_inverted() && polygon.edges().all(stays) && !polygon.contains(far_side)
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
    use crate::geo::ring::Ring;

    fn at(x: f64, y: f64) -> UnitVector {
        unit_vector(Point { x, y })
    }

    fn polygon(points: &[(f64, f64)]) -> Polygon {
        let places = points.iter().map(|(x, y)| at(*x, *y)).collect();
        Polygon::new(Ring::new(places), Vec::new())
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
    fn shapes_contain_and_meet_each_other() {
        let big = Geometry {
            polygons: vec![polygon(&[(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)])],
            ..Geometry::default()
        };
        let line = |a: (f64, f64), b: (f64, f64)| Geometry {
            lines: vec![Line::new(vec![at(a.0, a.1), at(b.0, b.1)])],
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
