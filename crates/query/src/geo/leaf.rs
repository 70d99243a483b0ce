//! The smallest cells of the sphere, about a centimetre wide. A point that is compared with an edge
//! counts as its cell, so that points on edges are found.

use super::orientation::unit;
use super::sphere::UnitVector;

/// Cells along an edge of a face.
const SIZE: f64 = 1_073_741_824.0;

/// The cell of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Leaf {
    face: u8,
    /// The numbers of the cell along both axes of the face.
    at: [f64; 2],
}

impl Leaf {
    pub(super) fn of(p: UnitVector) -> Leaf {
        let [x, y, z] = p;
        let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
        let axis = match (ax > ay, ax > az, ay > az) {
            (true, true, _) => 0,
            (false, _, true) => 1,
            _ => 2,
        };
        let negative = match axis {
            0 => x < 0.0,
            1 => y < 0.0,
            _ => z < 0.0,
        };
        let face = axis + if negative { 3 } else { 0 };
        let number = |n: f64| {
            let along = if n >= 0.0 {
                0.5 * (1.0 + 3.0 * n).sqrt()
            } else {
                1.0 - 0.5 * (1.0 - 3.0 * n).sqrt()
            };
            (SIZE * along - 0.5).round_ties_even().clamp(0.0, SIZE - 1.0)
        };
        Leaf { face, at: on_face(face, p).map(number) }
    }

    /// The least and the greatest coordinate along an axis of the face.
    fn span(number: f64) -> (f64, f64) {
        let edge = |number: f64| {
            let s = (1.0 / SIZE) * number;
            if s >= 0.5 {
                (1.0 / 3.0) * (4.0 * s * s - 1.0)
            } else {
                (1.0 / 3.0) * (1.0 - 4.0 * (1.0 - s) * (1.0 - s))
            }
        };
        (edge(number), edge(number + 1.0))
    }

    /// The corners, with the inside on the left.
    pub(super) fn corners(&self) -> [UnitVector; 4] {
        let [i, j] = self.at;
        let ((u0, u1), (v0, v1)) = (Leaf::span(i), Leaf::span(j));
        [(u0, v0), (u1, v0), (u1, v1), (u0, v1)].map(|(u, v)| {
            unit(match self.face {
                0 => [1.0, u, v],
                1 => [-u, 1.0, v],
                2 => [-u, -v, 1.0],
                3 => [-1.0, -v, -u],
                4 => [v, -1.0, -u],
                _ => [v, u, -1.0],
            })
        })
    }

    /// Whether a point is in the cell or on its border.
    pub(super) fn has(&self, p: UnitVector) -> bool {
        let [x, y, z] = p;
        let depth = match self.face {
            0 => x,
            1 => y,
            2 => z,
            3 => -x,
            4 => -y,
            _ => -z,
        };
        if depth <= 0.0 {
            return false;
        }
        let ([u, v], [i, j]) = (on_face(self.face, p), self.at);
        let ((u0, u1), (v0, v1)) = (Leaf::span(i), Leaf::span(j));
        u >= u0 && u <= u1 && v >= v0 && v <= v1
    }
}

/// The coordinates of a point on a face of the cube.
fn on_face(face: u8, [x, y, z]: UnitVector) -> [f64; 2] {
    match face {
        0 => [y / x, z / x],
        1 => [-x / y, z / y],
        2 => [-x / z, -y / z],
        3 => [z / x, y / x],
        4 => [z / y, -x / y],
        _ => [-y / z, -x / z],
    }
}
