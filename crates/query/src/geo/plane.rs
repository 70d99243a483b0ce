//! Shapes on the plane: boxes, polygons and circles over legacy pairs.

use super::Point;

/// A shape on the plane.
#[derive(Clone, Debug)]
pub enum PlaneShape {
    /// A rectangle: its lowest and its highest corner.
    Box(Point, Point),
    /// A polygon, closed by itself.
    Polygon(Vec<Point>),
    /// A circle.
    Circle(Point, f64),
}

impl PlaneShape {
    /// Whether a point is inside; points on an edge as in MongoDB.
    #[must_use]
    pub fn contains(&self, point: Point) -> bool {
        match self {
            PlaneShape::Box(low, high) => {
                (low.x..=high.x).contains(&point.x) && (low.y..=high.y).contains(&point.y)
            }
            PlaneShape::Polygon(corners) => polygon_contains(corners, point),
            PlaneShape::Circle(centre, radius) => circle_contains(*centre, *radius, point),
        }
    }

    /// The distance to the border: negative inside.
    #[must_use]
    pub fn signed_distance(&self, point: Point) -> f64 {
        match self {
            PlaneShape::Box(low, high) => {
                let dx = (low.x - point.x).max(point.x - high.x);
                let dy = (low.y - point.y).max(point.y - high.y);
                if dx > 0.0 || dy > 0.0 { dx.max(0.0).hypot(dy.max(0.0)) } else { dx.max(dy) }
            }
            PlaneShape::Circle(centre, radius) => centre.distance(point) - radius,
            PlaneShape::Polygon(corners) => {
                let next = corners.iter().cycle().skip(1);
                let border = corners.iter().zip(next).map(|(a, b)| segment(*a, *b, point));
                let border = border.fold(f64::INFINITY, f64::min);
                if polygon_contains(corners, point) { -border } else { border }
            }
        }
    }
}

/// Whether a point lies within a radius. On the axes through the centre the radius is added, not
/// subtracted: 52 + 0.0001 is 52.0001, while 52.0001 - 52 is above 0.0001. MongoDB does the same.
fn circle_contains(centre: Point, radius: f64, point: Point) -> bool {
    let along = |a: f64, b: f64| a.max(b) <= a.min(b) + radius;
    if centre.x == point.x {
        along(centre.y, point.y)
    } else if centre.y == point.y {
        along(centre.x, point.x)
    } else {
        centre.distance(point) <= radius
    }
}

/// Counts the edges to the right of the point. Corners and points on horizontal and vertical edges
/// are inside. For other edges it follows from comparing in this very order, as MongoDB does.
fn polygon_contains(corners: &[Point], point: Point) -> bool {
    let mut inside = false;
    let next = corners.iter().cycle().skip(1);
    for (a, b) in corners.iter().zip(next) {
        let within_x = point.x >= a.x.min(b.x) && point.x <= a.x.max(b.x);
        let within_y = point.y >= a.y.min(b.y) && point.y <= a.y.max(b.y);
        if within_x && within_y && (a.x == b.x || a.y == b.y) || *b == point {
            return true;
        }
        let between = point.y > a.y.min(b.y) && point.y <= a.y.max(b.y);
        if between && point.x <= a.x.max(b.x) && a.y != b.y {
            let crossing = (point.y - a.y) * (b.x - a.x) / (b.y - a.y) + a.x;
            if a.x == b.x || point.x <= crossing {
                inside = !inside;
            }
        }
    }
    inside
}

/// The distance from a point to a segment.
fn segment(a: Point, b: Point, point: Point) -> f64 {
    let (dx, dy) = (b.x - a.x, b.y - a.y);
    let length = dx * dx + dy * dy;
    if length == 0.0 {
        return a.distance(point);
    }
    let along = (((point.x - a.x) * dx + (point.y - a.y) * dy) / length).clamp(0.0, 1.0);
    Point { x: a.x + along * dx, y: a.y + along * dy }.distance(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(x: f64, y: f64) -> Point {
        Point { x, y }
    }

    #[test]
    fn axis_aligned_edges_and_radii_are_inside() {
        let corners = vec![p(0.0, 0.0), p(0.0, 4.0), p(4.0, 4.0), p(4.0, 0.0)];
        let square = PlaneShape::Polygon(corners);
        for (x, y) in [(0.0, 2.0), (2.0, 4.0), (4.0, 1.0), (3.0, 0.0)] {
            assert!(square.contains(p(x, y)), "{x} {y}");
        }
        assert!(!square.contains(p(4.1, 0.0)) && !square.contains(p(-0.1, 4.0)));
        assert!(PlaneShape::Circle(p(5.0, 52.0), 0.0001).contains(p(5.0, 52.0001)));
        assert!(PlaneShape::Circle(p(5.0, 52.0001), 0.0001).contains(p(5.0, 52.0)));
        assert!(!PlaneShape::Circle(p(5.0, 52.0), 0.0001).contains(p(5.0, 52.00011)));
    }

    #[test]
    fn a_polygon_has_its_corners_but_not_every_edge() {
        let triangle = PlaneShape::Polygon(vec![p(0.0, 0.0), p(4.0, 0.0), p(4.0, 4.0)]);
        assert!(triangle.contains(p(0.0, 0.0)));
        assert!(triangle.contains(p(3.0, 1.0)));
        assert!(!triangle.contains(p(3.0, 3.0)));
        assert!(!triangle.contains(p(1.0, 2.0)));
    }

    #[test]
    fn distances_are_negative_inside() {
        let square = PlaneShape::Box(p(0.0, 0.0), p(4.0, 4.0));
        assert_eq!(square.signed_distance(p(1.0, 2.0)), -1.0);
        assert_eq!(square.signed_distance(p(7.0, 8.0)), 5.0);
        assert_eq!(PlaneShape::Circle(p(0.0, 0.0), 2.0).signed_distance(p(3.0, 0.0)), 1.0);
    }
}
