//! Points and shapes on the plane and on the sphere.
//!
//! `shape` reads legacy pairs and GeoJSON, `plane` and `sphere` are the mathematics (with
//! `orientation`, `bounds`, `leaf`, `ring` and `polygon`), `region` is the argument of a query,
//! `cells` divides plane and sphere into a tree of cells whose names are index keys. Our own code, because results and errors must equal MongoDB's, including the rings
//! that are refused, and cell names are stored on disk.

mod bounds;
pub mod cells;
mod leaf;
mod orientation;
pub mod plane;
pub mod polygon;
pub mod region;
pub mod ring;
pub mod shape;
pub mod sphere;

pub use region::{Geo, GeoPredicate, Near, Region};
pub use shape::Stored;

/// The earth's radius in metres, as MongoDB has it.
pub const EARTH_RADIUS_M: f64 = 6_378_100.0;

/// A pair of coordinates: x and y on the plane, longitude and latitude on the earth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Or the longitude in degrees.
    pub x: f64,
    /// Or the latitude in degrees.
    pub y: f64,
}

impl Point {
    /// Whether the point is a longitude and a latitude.
    #[must_use]
    pub fn is_on_earth(self) -> bool {
        self.x.abs() <= 180.0 && self.y.abs() <= 90.0
    }

    /// The distance on the plane.
    #[must_use]
    pub fn distance(self, other: Point) -> f64 {
        (self.x - other.x).hypot(self.y - other.y)
    }
}
