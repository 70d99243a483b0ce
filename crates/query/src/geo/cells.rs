//! A tree of cells over the plane or the sphere. A cell is named by the way to it, a letter for
//! each step, so that all cells inside it have names that begin with its own: an index that holds
//! the names finds everything in a cell by a range of keys.
//!
//! The sphere is projected onto the six faces of a cube, each cut in four recursively. The plane is a
//! square between two bounds, cut the same way.

use super::plane::PlaneShape;
use super::region::Region;
use super::shape::Stored;
use super::sphere::{self, UnitVector};
use super::{Point, plane};
use crate::interrupt;
use std::collections::VecDeque;

/// Steps from a face of the sphere to the smallest cells, which are less than a metre wide.
const SPHERE_DEPTH: usize = 24;
/// The most cells for a shape of a document.
const CELLS_OF_SHAPE: usize = 20;
/// The most cells for the region of a query.
const CELLS_OF_REGION: usize = 28;

/// How far outside of a region a location may be that counts as inside: the smallest cells that
/// shapes are compared with are about a centimetre wide.
const REGION_SLACK: f64 = 4e-9;

/// What a cell is part of.
pub trait Grid {
    /// A cell.
    type Cell: Copy;
    /// The largest cells, with their names.
    fn roots(&self) -> Vec<(String, Self::Cell)>;
    /// The four cells in a cell.
    fn children(&self, cell: Self::Cell) -> [Self::Cell; 4];
    /// How long the names of the smallest cells are.
    fn depth(&self) -> usize;
}

/// The cells of the sphere.
pub struct Sphere;

/// A cell of the sphere: a part of a face of the cube, from -1 to 1 in both directions.
#[derive(Clone, Copy)]
pub struct FaceCell {
    face: u8,
    u: f64,
    v: f64,
    half: f64,
}

impl FaceCell {
    fn unit_vector(self, u: f64, v: f64) -> UnitVector {
        // The tangent makes cells of about one size of equal steps.
        let (u, v) =
            ((u * std::f64::consts::FRAC_PI_4).tan(), (v * std::f64::consts::FRAC_PI_4).tan());
        sphere::normalise(match self.face {
            0 => [1.0, u, v],
            1 => [-1.0, u, v],
            2 => [u, 1.0, v],
            3 => [u, -1.0, v],
            4 => [u, v, 1.0],
            _ => [u, v, -1.0],
        })
    }

    /// A cap that contains the cell.
    fn cap(self) -> (UnitVector, f64) {
        let centre = self.unit_vector(self.u, self.v);
        let mut radius: f64 = 0.0;
        for (du, dv) in [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)] {
            let corner = self.unit_vector(self.u + du * self.half, self.v + dv * self.half);
            radius = radius.max(sphere::angle(centre, corner));
        }
        (centre, radius * (1.0 + 1e-9) + 1e-12)
    }
}

impl Grid for Sphere {
    type Cell = FaceCell;

    fn roots(&self) -> Vec<(String, FaceCell)> {
        let face = |face: u8| {
            (char::from(b'0' + face).to_string(), FaceCell { face, u: 0.0, v: 0.0, half: 1.0 })
        };
        (0..6).map(face).collect()
    }

    fn children(&self, cell: FaceCell) -> [FaceCell; 4] {
        let half = cell.half / 2.0;
        let child = |du: f64, dv: f64| FaceCell {
            face: cell.face,
            u: cell.u + du * half,
            v: cell.v + dv * half,
            half,
        };
        [child(-1.0, -1.0), child(-1.0, 1.0), child(1.0, -1.0), child(1.0, 1.0)]
    }

    fn depth(&self) -> usize {
        SPHERE_DEPTH + 1
    }
}

/// The cells of the plane between two bounds.
#[derive(Clone, Copy, Debug)]
pub struct Plane {
    /// The least coordinate.
    pub min: f64,
    /// The greatest coordinate; it is inside no cell in MongoDB, in the last one here.
    pub max: f64,
    /// How often cells are cut.
    pub bits: usize,
}

/// A cell of the plane.
#[derive(Clone, Copy)]
pub struct SquareCell {
    centre: Point,
    half: f64,
}

impl Grid for Plane {
    type Cell = SquareCell;

    fn roots(&self) -> Vec<(String, SquareCell)> {
        let middle = self.min.midpoint(self.max);
        let centre = Point { x: middle, y: middle };
        vec![(String::new(), SquareCell { centre, half: (self.max - self.min) / 2.0 })]
    }

    fn children(&self, cell: SquareCell) -> [SquareCell; 4] {
        let half = cell.half / 2.0;
        let child = |dx: f64, dy: f64| SquareCell {
            centre: Point { x: cell.centre.x + dx * half, y: cell.centre.y + dy * half },
            half,
        };
        [child(-1.0, -1.0), child(-1.0, 1.0), child(1.0, -1.0), child(1.0, 1.0)]
    }

    fn depth(&self) -> usize {
        self.bits
    }
}

/// A letter for each of four children.
fn letter(child: usize) -> char {
    match child {
        0 => '0',
        1 => '1',
        2 => '2',
        _ => '3',
    }
}

/// The names of cells that together hold a region, at most about `most`. `measure` gives the
/// distance of a cell's middle from the region (negative inside) and the cell's radius.
fn cover<G: Grid>(grid: &G, most: usize, measure: impl Fn(G::Cell) -> (f64, f64)) -> Vec<String> {
    let touches = |cell: G::Cell| {
        let (distance, radius) = measure(cell);
        distance <= radius
    };
    let mut done = Vec::new();
    let mut queue: VecDeque<(String, G::Cell)> =
        grid.roots().into_iter().filter(|(_, cell)| touches(*cell)).collect();
    while let Some((name, cell)) = queue.pop_front() {
        // The caller asks whether the operation ended.
        if interrupt::confirm().is_err() {
            break;
        }
        let (distance, radius) = measure(cell);
        if name.len() >= grid.depth() || distance <= -radius {
            done.push(name);
            continue;
        }
        let children = grid.children(cell).into_iter().enumerate();
        let inside: Vec<_> = children.filter(|(_, cell)| touches(*cell)).collect();
        if done.len() + queue.len() + inside.len() > most {
            done.push(name);
            continue;
        }
        for (at, cell) in inside {
            queue.push_back((format!("{name}{}", letter(at)), cell));
        }
    }
    done
}

fn measure_on_sphere<'r>(
    distance: impl Fn(UnitVector) -> f64 + 'r,
) -> impl Fn(FaceCell) -> (f64, f64) + 'r {
    move |cell| {
        let (centre, radius) = cell.cap();
        (distance(centre), radius)
    }
}

impl Sphere {
    /// The names of the cells for a location of a document.
    #[must_use]
    pub fn of_shape(&self, stored: &Stored) -> Vec<String> {
        match stored {
            Stored::Point { point, .. } => vec![self.of_point(sphere::unit_vector(*point))],
            Stored::Geometry(geometry) => {
                cover(self, CELLS_OF_SHAPE, measure_on_sphere(|p| geometry.signed_distance(p)))
            }
        }
    }

    /// The name of the smallest cell that contains a point.
    fn of_point(&self, place: UnitVector) -> String {
        let [x, y, z] = place;
        let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
        let (face, a, b) = if ax >= ay && ax >= az {
            (u8::from(x < 0.0), y / ax, z / ax)
        } else if ay >= az {
            (2 + u8::from(y < 0.0), x / ay, z / ay)
        } else {
            (4 + u8::from(z < 0.0), x / az, y / az)
        };
        let step = |n: f64| n.atan() / std::f64::consts::FRAC_PI_4;
        let (u, v) = (step(a), step(b));
        let mut name = char::from(b'0' + face).to_string();
        let mut cell = FaceCell { face, u: 0.0, v: 0.0, half: 1.0 };
        while name.len() < self.depth() {
            let child = usize::from(u >= cell.u) * 2 + usize::from(v >= cell.v);
            name.push(letter(child));
            if let Some(next) = self.children(cell).get(child) {
                cell = *next;
            }
        }
        name
    }

    /// The names of cells that hold a region; `None` for regions of the plane.
    #[must_use]
    pub fn of_region(&self, region: &Region) -> Option<Vec<String>> {
        match region {
            Region::PlaneShape(_) => None,
            Region::Cap(centre, radius) => Some(cover(
                self,
                CELLS_OF_REGION,
                measure_on_sphere(|place| sphere::angle(place, *centre) - radius - REGION_SLACK),
            )),
            Region::Sphere(geometry) => Some(cover(
                self,
                CELLS_OF_REGION,
                measure_on_sphere(|place| geometry.signed_distance(place) - REGION_SLACK),
            )),
        }
    }
}

impl Plane {
    /// Whether a point has a cell.
    #[must_use]
    pub fn holds(&self, point: Point) -> bool {
        let inside = self.min..=self.max;
        inside.contains(&point.x) && inside.contains(&point.y)
    }

    /// The name of the smallest cell that contains a point.
    #[must_use]
    pub fn of_point(&self, point: Point) -> String {
        let mut name = String::with_capacity(self.bits);
        let Some((_, mut cell)) = self.roots().pop() else { return name };
        while name.len() < self.bits {
            let child =
                usize::from(point.x >= cell.centre.x) * 2 + usize::from(point.y >= cell.centre.y);
            name.push(letter(child));
            if let Some(next) = self.children(cell).get(child) {
                cell = *next;
            }
        }
        name
    }

    /// The names of cells that hold a region; `None` for GeoJSON regions.
    #[must_use]
    pub fn of_region(&self, region: &Region) -> Option<Vec<String>> {
        match region {
            Region::PlaneShape(flat) => Some(self.of_flat(flat)),
            Region::Cap(centre, radius) => Some(cover(self, CELLS_OF_REGION, |cell| {
                let reach = (cell.half * std::f64::consts::SQRT_2).to_radians();
                let Point { x, y } = cell.centre;
                if x.abs() - cell.half > 180.0 || y.abs() - cell.half > 90.0 {
                    return (f64::INFINITY, reach);
                }
                if x.abs() > 180.0 || y.abs() > 90.0 {
                    // Only the part within the bounds of the earth counts; smaller cells decide.
                    return (0.0, reach);
                }
                let place = sphere::unit_vector(cell.centre);
                (
                    sphere::angle(place, *centre) - radius - REGION_SLACK,
                    reach * (1.0 + 1e-9) + 1e-12,
                )
            })),
            Region::Sphere(_) => None,
        }
    }

    fn of_flat(&self, flat: &plane::PlaneShape) -> Vec<String> {
        let slack = (self.max - self.min) * 1e-12;
        // For a box the cover is exact; otherwise the distance of the corners is bounded by the
        // radius of the cell.
        cover(self, CELLS_OF_REGION, |cell| match flat {
            PlaneShape::Box(low, high) => {
                let apart = |low: f64, high: f64, at: f64| (low - at).max(at - high);
                let dx = apart(low.x, high.x, cell.centre.x);
                let dy = apart(low.y, high.y, cell.centre.y);
                (dx.max(dy), cell.half + slack)
            }
            flat => {
                let radius = cell.half * std::f64::consts::SQRT_2 + slack;
                (flat.signed_distance(cell.centre), radius)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(cells: &[String], name: &str) -> bool {
        cells.iter().any(|cell| name.starts_with(cell.as_str()) || cell.starts_with(name))
    }

    proptest! {
        #[test]
        fn every_place_in_a_cap_is_in_its_cells(
            x in -180.0..180.0f64, y in -90.0..90.0f64,
            a in -180.0..180.0f64, b in -90.0..90.0f64, radius in 0.0..2.0f64,
        ) {
            let centre = sphere::unit_vector(Point { x, y });
            let place = Point { x: a, y: b };
            let cells = Sphere.of_region(&Region::Cap(centre, radius)).unwrap();
            prop_assert!(cells.len() <= CELLS_OF_REGION);
            let plane = Plane { min: -180.0, max: 180.0, bits: 26 };
            let flat = plane.of_region(&Region::Cap(centre, radius)).unwrap();
            if sphere::angle(centre, sphere::unit_vector(place)) <= radius {
                let name = Sphere.of_point(sphere::unit_vector(place));
                prop_assert!(found(&cells, &name), "{name} {cells:?}");
                let name = plane.of_point(place);
                prop_assert!(found(&flat, &name), "{name} {flat:?}");
            }
        }

        #[test]
        fn every_point_in_a_circle_is_in_its_cells(
            x in -180.0..180.0f64, y in -180.0..180.0f64,
            a in -180.0..180.0f64, b in -180.0..180.0f64, radius in 0.0..200.0f64,
        ) {
            let plane = Plane { min: -180.0, max: 180.0, bits: 26 };
            for flat in [
                PlaneShape::Circle(Point { x, y }, radius),
                PlaneShape::Box(Point { x: x - radius, y: y - 1.0 }, Point { x, y: y + radius }),
            ] {
                let cells = plane.of_flat(&flat);
                if flat.contains(Point { x: a, y: b }) {
                    let name = plane.of_point(Point { x: a, y: b });
                    prop_assert!(found(&cells, &name));
                }
            }
        }
    }
}
