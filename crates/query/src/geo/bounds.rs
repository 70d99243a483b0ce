//! Bounds of shapes on the sphere: intervals of latitude and longitude, in radians.

use super::orientation::robust_cross;
use super::sphere::{UnitVector, cross, dot};
use std::f64::consts::{FRAC_PI_2, PI};

/// An interval of longitudes; it crosses the date line if `low` is above `high`.
#[derive(Clone, Copy, Debug)]
struct Longitudes {
    low: f64,
    high: f64,
}

impl Longitudes {
    const FULL: Longitudes = Longitudes { low: -PI, high: PI };
    const EMPTY: Longitudes = Longitudes { low: PI, high: -PI };

    fn is_empty(self) -> bool {
        self.low == PI && self.high == -PI
    }

    fn is_full(self) -> bool {
        self.low == -PI && self.high == PI
    }

    fn is_inverted(self) -> bool {
        self.low > self.high
    }

    /// The shorter way between two longitudes.
    fn between(a: f64, b: f64) -> Longitudes {
        if distance(a, b) <= PI {
            Longitudes { low: a, high: b }
        } else {
            Longitudes { low: b, high: a }
        }
    }

    fn has(self, p: f64) -> bool {
        if self.is_inverted() {
            (p >= self.low || p <= self.high) && !self.is_empty()
        } else {
            p >= self.low && p <= self.high
        }
    }

    fn contains(self, other: Longitudes) -> bool {
        let within = other.low >= self.low && other.high <= self.high;
        match (self.is_inverted(), other.is_inverted()) {
            (true, true) | (false, false) => within,
            (true, false) => (other.low >= self.low || other.high <= self.high) && !self.is_empty(),
            (false, true) => self.is_full() || other.is_empty(),
        }
    }

    fn intersects(self, other: Longitudes) -> bool {
        if self.is_empty() || other.is_empty() {
            return false;
        }
        let (below, above) = (other.low <= self.high, other.high >= self.low);
        match (self.is_inverted(), other.is_inverted()) {
            (true, true) => true,
            (false, false) => below && above,
            _ => below || above,
        }
    }

    fn union(self, other: Longitudes) -> Longitudes {
        if other.is_empty() {
            return self;
        }
        match (self.has(other.low), self.has(other.high)) {
            (true, true) if self.contains(other) => self,
            (true, true) => Longitudes::FULL,
            (true, false) => Longitudes { low: self.low, high: other.high },
            (false, true) => Longitudes { low: other.low, high: self.high },
            (false, false) if self.is_empty() || other.has(self.low) => other,
            (false, false) => {
                if distance(other.high, self.low) < distance(self.high, other.low) {
                    Longitudes { low: other.low, high: self.high }
                } else {
                    Longitudes { low: self.low, high: other.high }
                }
            }
        }
    }
}

/// How far it is from one longitude to the next, eastwards.
fn distance(a: f64, b: f64) -> f64 {
    let far = b - a;
    if far >= 0.0 { far } else { (b + PI) - (a - PI) }
}

/// The same longitude between -π and π.
fn wrapped(longitude: f64) -> f64 {
    if longitude > PI {
        longitude - 2.0 * PI
    } else if longitude < -PI {
        longitude + 2.0 * PI
    } else {
        longitude
    }
}

/// The latitude and longitude of a point.
fn angles([x, y, z]: UnitVector) -> (f64, f64) {
    let longitude = y.atan2(x);
    let longitude = if longitude == -PI { PI } else { longitude };
    (z.atan2((x * x + y * y).sqrt()), longitude)
}

/// A rectangle of latitudes and longitudes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    low: f64,
    high: f64,
    longitudes: Longitudes,
}

impl Bounds {
    /// The whole sphere.
    pub(super) const FULL: Bounds =
        Bounds { low: -FRAC_PI_2, high: FRAC_PI_2, longitudes: Longitudes::FULL };

    /// The bounds of arcs between consecutive points.
    pub(super) fn of_line(places: impl Iterator<Item = UnitVector>) -> Bounds {
        let mut out = Bounds { low: 1.0, high: 0.0, longitudes: Longitudes::EMPTY };
        let mut last: Option<(UnitVector, f64)> = None;
        for place in places {
            let (latitude, longitude) = angles(place);
            match last {
                None => {
                    let longitudes = Longitudes { low: longitude, high: longitude };
                    out = Bounds { low: latitude, high: latitude, longitudes };
                }
                Some((from, before)) => out.add_arc(from, before, place, (latitude, longitude)),
            }
            last = Some((place, longitude));
        }
        out
    }

    fn add_arc(&mut self, a: UnitVector, before: f64, b: UnitVector, (lat, lng): (f64, f64)) {
        self.longitudes = self.longitudes.union(Longitudes::between(before, lng));
        self.low = self.low.min(lat);
        self.high = self.high.max(lat);
        let normal = robust_cross(a, b);
        let towards = cross(normal, [0.0, 0.0, 1.0]);
        let (at_a, at_b) = (dot(towards, a), dot(towards, b));
        if at_a * at_b >= 0.0 {
            return;
        }
        // The highest or lowest point is inside the arc.
        let [_, _, z] = normal;
        let reach = (z / dot(normal, normal).sqrt()).abs().acos();
        if at_a < 0.0 {
            self.high = self.high.max(reach);
        } else {
            self.low = self.low.min(-reach);
        }
        if reach >= FRAC_PI_2 - 1e-15 {
            self.longitudes = Longitudes::FULL;
        }
    }

    /// Extends the bounds to the poles that are inside.
    pub(super) fn with_poles(mut self, is_inside: impl Fn(UnitVector) -> bool) -> Bounds {
        if is_inside([0.0, 0.0, 1.0]) {
            self.high = FRAC_PI_2;
            self.longitudes = Longitudes::FULL;
        }
        if self.longitudes.is_full() && is_inside([0.0, 0.0, -1.0]) {
            self.low = -FRAC_PI_2;
        }
        self
    }

    pub(super) fn has(&self, p: UnitVector) -> bool {
        let (latitude, longitude) = angles(p);
        latitude >= self.low && latitude <= self.high && self.longitudes.has(longitude)
    }

    /// Whether a point is inside or not farther outside than an angle. Near the poles longitudes
    /// say nothing.
    pub(super) fn is_near(&self, p: UnitVector, slack: f64) -> bool {
        let (latitude, longitude) = angles(p);
        let wide = slack / latitude.cos().abs();
        latitude >= self.low - slack
            && latitude <= self.high + slack
            && (wide > 1e-3
                || self.longitudes.has(longitude)
                || self.longitudes.has(wrapped(longitude - wide))
                || self.longitudes.has(wrapped(longitude + wide)))
    }

    pub(super) fn contains(&self, other: &Bounds) -> bool {
        other.low >= self.low
            && other.high <= self.high
            && self.longitudes.contains(other.longitudes)
    }

    pub(super) fn intersects(&self, other: &Bounds) -> bool {
        other.low <= self.high
            && other.high >= self.low
            && self.longitudes.intersects(other.longitudes)
    }

    /// Whether both together are the whole sphere.
    pub(super) fn fill_all(&self, other: &Bounds) -> bool {
        self.low.min(other.low) == -FRAC_PI_2
            && self.high.max(other.high) == FRAC_PI_2
            && self.longitudes.union(other.longitudes).is_full()
    }

    /// How many radians of longitude there are.
    pub(super) fn width(&self) -> f64 {
        let Longitudes { low, high } = self.longitudes;
        if high >= low { high - low } else { (high - low + 2.0 * PI).max(0.0) }
    }

    /// Whether the longitudes of both together are all.
    pub(super) fn surround(&self, other: &Bounds) -> bool {
        self.longitudes.union(other.longitudes).is_full()
    }
}
