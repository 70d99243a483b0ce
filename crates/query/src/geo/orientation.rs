//! On which side of an arc a point lies, and whether two arcs cross.
//!
//! MongoDB's answers for shapes that touch follow from the predicates of its geometry library: three
//! points are never collinear unless two of them are equal, so that a point on an edge is on one
//! side of it. The order of the floating-point operations here is part of the answer.

use super::sphere::{UnitVector, cross, dot, sum};

/// Determinants below this are computed again by the stable method.
const ERROR_MAX: f64 = 0.8e-15;

/// Where arcs from a fixed point begin that count how often they cross a ring.
pub(super) fn origin() -> UnitVector {
    unit([0.00457, 1.0, 0.0321])
}

/// The same direction with length 1, by a multiplication; a zero vector stays.
pub(super) fn unit(a: UnitVector) -> UnitVector {
    let length = dot(a, a).sqrt();
    if length == 0.0 {
        return a;
    }
    scaled(a, 1.0 / length)
}

pub(super) fn scaled(a: UnitVector, factor: f64) -> UnitVector {
    a.map(|n| n * factor)
}

fn less(a: UnitVector, b: UnitVector) -> bool {
    a.partial_cmp(&b).is_some_and(std::cmp::Ordering::is_lt)
}

fn sign(number: f64) -> i32 {
    i32::from(number > 0.0) - i32::from(number < 0.0)
}

/// A direction that is orthogonal to a point, the same for every call.
pub(super) fn reference(a: UnitVector) -> UnitVector {
    let [x, y, z] = a.map(f64::abs);
    let largest = match (x > y, x > z, y > z) {
        (true, true, _) => 0,
        (false, _, true) => 1,
        _ => 2,
    };
    let other = match largest {
        0 => [0.012, 0.0053, 1.0],
        1 => [1.0, 0.0053, 0.00457],
        _ => [0.012, 1.0, 0.00457],
    };
    unit(cross(a, other))
}

/// The cross product of two unit vectors, exact also for those close to each other.
pub(super) fn robust_cross(a: UnitVector, b: UnitVector) -> UnitVector {
    let across = cross(sum(b, a), sum(b, scaled(a, -1.0)));
    if across == [0.0; 3] { reference(a) } else { across }
}

/// Whether the way from `a` over `b` to `c` turns left (1) or right (-1); 0 if two are equal.
pub(super) fn turn(a: UnitVector, b: UnitVector, c: UnitVector) -> i32 {
    turn_along(a, b, c, cross(a, b))
}

fn turn_along(a: UnitVector, b: UnitVector, c: UnitVector, across: UnitVector) -> i32 {
    let volume = dot(across, c);
    if volume > ERROR_MAX {
        1
    } else if volume < -ERROR_MAX {
        -1
    } else {
        stable_turn(a, b, c)
    }
}

/// The turn of nearly collinear points: from the differences of those close to each other, else
/// by the planes of the coordinates.
fn stable_turn(a: UnitVector, b: UnitVector, c: UnitVector) -> i32 {
    if a == b || b == c || c == a {
        return 0;
    }
    let apart = |p: UnitVector, q: UnitVector| {
        let side = if dot(p, q) > 0.0 { -1.0 } else { 1.0 };
        let difference = sum(p, scaled(q, side));
        (side, difference, dot(difference, difference))
    };
    let (side_ab, ab, length_ab) = apart(a, b);
    let (side_bc, bc, length_bc) = apart(b, c);
    let (side_ca, ca, length_ca) = apart(c, a);
    // The point that is opposite the longest difference is the origin.
    let from_c = || dot(cross(ca, bc), c) * side_ca;
    let volume = if length_ca < length_bc || (length_ca == length_bc && less(a, b)) {
        if length_ab < length_bc || (length_ab == length_bc && less(a, c)) {
            dot(cross(ab, ca), a) * side_ab
        } else {
            from_c()
        }
    } else if length_ab < length_ca || (length_ab == length_ca && less(b, c)) {
        dot(cross(bc, ab), b) * side_bc
    } else {
        from_c()
    };
    if volume != 0.0 {
        return sign(volume);
    }
    let plane = |x: fn(UnitVector) -> [f64; 2]| plane_order(x(a), x(b), x(c));
    let order = plane(|[_, y, z]| [y, z]);
    if order != 0 {
        return order;
    }
    let order = plane(|[x, _, z]| [z, x]);
    if order != 0 { order } else { plane(|[x, y, _]| [x, y]) }
}

fn plane_turn(a: [f64; 2], b: [f64; 2]) -> i32 {
    let dot = |p: [f64; 2], q: [f64; 2]| {
        let ([px, py], [qx, qy]) = (p, q);
        px * qx + py * qy
    };
    let cross = |p: [f64; 2], q: [f64; 2]| {
        let ([px, py], [qx, qy]) = (p, q);
        px * qy - py * qx
    };
    let side = if dot(a, b) > 0.0 { -1.0 } else { 1.0 };
    let ([ax, ay], [bx, by]) = (a, b);
    let difference = [ax + side * bx, ay + side * by];
    let (length_a, length_b) = (dot(a, a), dot(b, b));
    let first = a.partial_cmp(&b).is_some_and(std::cmp::Ordering::is_lt);
    if length_a < length_b || (length_a == length_b && first) {
        sign(cross(a, difference) * side)
    } else {
        sign(cross(difference, b))
    }
}

fn plane_order(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> i32 {
    (plane_turn(a, b) + plane_turn(b, c) + plane_turn(c, a)).signum()
}

/// Whether a turn to the left around `centre` meets `a`, `b` and `c` in this order. True if `b`
/// equals one of the others, else false if `a` equals `c`.
pub(super) fn is_ordered(a: UnitVector, b: UnitVector, c: UnitVector, centre: UnitVector) -> bool {
    let turns = [turn(b, centre, a) >= 0, turn(c, centre, b) >= 0, turn(a, centre, c) > 0];
    turns.into_iter().filter(|left| *left).count() >= 2
}

/// How two arcs meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crossing {
    /// Not at all.
    None,
    /// They share an end.
    Shared,
    /// At an inner point of both.
    Proper,
}

/// Compares one arc with the arcs of a line, point by point.
pub(super) struct Crosser {
    a: UnitVector,
    b: UnitVector,
    across: UnitVector,
    /// The last point of the line, and the turn from `a` over it to `b`.
    c: UnitVector,
    side: i32,
}

impl Crosser {
    /// Compares the arc from `a` to `b` with a line that begins at `c`.
    pub(super) fn new(a: UnitVector, b: UnitVector, c: UnitVector) -> Crosser {
        let across = cross(a, b);
        let side = -turn_along(a, b, c, across);
        Crosser { a, b, across, c, side }
    }

    /// How the arc from the last point to `d` meets the fixed one; `d` becomes the last point.
    pub(super) fn step(&mut self, d: UnitVector) -> Crossing {
        let other = turn_along(self.a, self.b, d, self.across);
        let found = if other == -self.side && other != 0 {
            Crossing::None
        } else if other == 0 || self.side == 0 {
            Crossing::Shared
        } else {
            let across = cross(self.c, d);
            let same = -turn_along(self.c, d, self.b, across) == self.side
                && turn_along(self.c, d, self.a, across) == self.side;
            if same { Crossing::Proper } else { Crossing::None }
        };
        self.c = d;
        self.side = -other;
        found
    }

    /// Whether the arc to `d` crosses the fixed one, counting a shared end by the rule that every
    /// point is in exactly one of the rings around it.
    pub(super) fn step_counted(&mut self, d: UnitVector) -> bool {
        let c = self.c;
        match self.step(d) {
            Crossing::None => false,
            Crossing::Proper => true,
            Crossing::Shared => crosses_at_end(self.a, self.b, c, d),
        }
    }
}

/// Whether arcs that share an end count as crossing.
pub(super) fn crosses_at_end(a: UnitVector, b: UnitVector, c: UnitVector, d: UnitVector) -> bool {
    if a == b || c == d {
        return false;
    }
    if a == d {
        is_ordered(reference(a), c, b, a)
    } else if b == c {
        is_ordered(reference(b), d, a, b)
    } else if a == c {
        is_ordered(reference(a), d, b, a)
    } else if b == d {
        is_ordered(reference(b), c, a, b)
    } else {
        false
    }
}

/// The point where two arcs cross.
pub(super) fn intersection(
    a0: UnitVector,
    a1: UnitVector,
    b0: UnitVector,
    b1: UnitVector,
) -> UnitVector {
    let a_normal = unit(robust_cross(a0, a1));
    let b_normal = unit(robust_cross(b0, b1));
    let mut x = unit(robust_cross(a_normal, b_normal));
    if dot(x, sum(sum(a0, a1), sum(b0, b1))) < 0.0 {
        x = scaled(x, -1.0);
    }
    if is_ordered(a0, x, a1, a_normal) && is_ordered(b0, x, b1, b_normal) {
        return x;
    }
    // Nearly parallel: the closest end that lies between those of the other arc.
    let mut best = (10.0, x);
    let ends = [
        (a0, b0, b1, b_normal),
        (a1, b0, b1, b_normal),
        (b0, a0, a1, a_normal),
        (b1, a0, a1, a_normal),
    ];
    for (end, from, to, normal) in ends {
        let difference = sum(x, scaled(end, -1.0));
        let far = dot(difference, difference);
        let closer = far < best.0 || (far == best.0 && less(end, best.1));
        if is_ordered(from, end, to, normal) && closer {
            best = (far, end);
        }
    }
    best.1
}
