//! Random locations and questions about them. Coordinates are on coarse grids, so that shapes often
//! touch each other: edges on edges, corners on corners, points on both.

use super::super::random::Random;

/// Where shapes are.
#[derive(Clone, Copy, Debug)]
enum Zone {
    /// Whole degrees near the equator.
    Grid,
    /// Half degrees near the equator.
    Halves,
    /// On both sides of the date line.
    DateLine,
    /// Around the north pole, but not on it: there points that are written differently are equal
    /// but for rounding.
    Pole,
}

fn zone(random: &mut Random) -> Zone {
    match random.below(10) {
        0..=6 => Zone::Grid,
        7 => Zone::Halves,
        8 => Zone::DateLine,
        _ => Zone::Pole,
    }
}

fn point(random: &mut Random, zone: Zone) -> (f64, f64) {
    let number = |n: i64| n as f64;
    match zone {
        Zone::Grid => (number(random.between(0, 4)), number(random.between(0, 4))),
        Zone::Halves => (number(random.between(0, 8)) / 2.0, number(random.between(0, 8)) / 2.0),
        Zone::DateLine => {
            let x = number(random.between(88, 92)) * 2.0;
            (if x > 180.0 { x - 360.0 } else { x }, number(random.between(-2, 2)) * 2.0)
        }
        Zone::Pole => {
            (number(random.between(-4, 3)) * 45.0, 90.0 - number(random.between(1, 4)) * 2.0)
        }
    }
}

fn show((x, y): (f64, f64)) -> String {
    format!("[{x:.1}, {y:.1}]")
}

fn points(random: &mut Random, zone: Zone, count: usize) -> String {
    random.list(count, |random| show(point(random, zone)))
}

fn ring(random: &mut Random, zone: Zone) -> String {
    let mut corners = corners(random, zone);
    // MongoDB's index does not find everything in polygons without an area.
    while is_flat(&corners) {
        corners = self::corners(random, zone);
    }
    if random.chance(50) {
        corners.reverse();
    }
    corners.extend(corners.first().copied());
    let shown: Vec<String> = corners.into_iter().map(show).collect();
    format!("[{}]", shown.join(", "))
}

/// Whether corners are on one meridian or on the equator.
fn is_flat(corners: &[(f64, f64)]) -> bool {
    let first = corners.first().map_or(0.0, |(x, _)| x.rem_euclid(180.0));
    corners.iter().all(|(x, _)| x.rem_euclid(180.0) == first)
        || corners.iter().all(|(_, y)| *y == 0.0)
}

fn corners(random: &mut Random, zone: Zone) -> Vec<(f64, f64)> {
    if matches!(zone, Zone::Grid | Zone::Halves) && random.chance(50) {
        let (x, y) = point(random, zone);
        let (w, h) = (random.between(1, 4) as f64, random.between(1, 4) as f64);
        vec![(x, y), (x + w, y), (x + w, y + h), (x, y + h)]
    } else {
        let count = 3 + random.below(3);
        (0..count).map(|_| point(random, zone)).collect()
    }
}

/// A polygon, sometimes with a hole.
fn polygon(random: &mut Random, zone: Zone) -> String {
    let outer = ring(random, zone);
    if matches!(zone, Zone::Grid | Zone::Halves) && random.chance(30) {
        let hole = ring(random, zone);
        return format!(
            "{{type: \"Polygon\", coordinates: [[[0, 0], [5, 0], [5, 5], [0, 5], [0, 0]], {hole}]}}"
        );
    }
    format!("{{type: \"Polygon\", coordinates: [{outer}]}}")
}

/// A GeoJSON geometry.
fn geometry(random: &mut Random, zone: Zone) -> String {
    match random.below(11) {
        0 | 1 => format!("{{type: \"Point\", coordinates: {}}}", show(point(random, zone))),
        2 | 3 => {
            let count = 2 + random.below(3);
            format!("{{type: \"LineString\", coordinates: [{}]}}", points(random, zone, count))
        }
        4..=6 => polygon(random, zone),
        7 => {
            let count = 1 + random.below(3);
            format!("{{type: \"MultiPoint\", coordinates: [{}]}}", points(random, zone, count))
        }
        8 => {
            let count = 1 + random.below(2);
            let parts = random.list(count, |random| format!("[{}]", ring(random, zone)));
            format!("{{type: \"MultiPolygon\", coordinates: [{parts}]}}")
        }
        9 => {
            let parts = random.list(2, |random| format!("[{}]", points(random, zone, 2)));
            format!("{{type: \"MultiLineString\", coordinates: [{parts}]}}")
        }
        _ => {
            let part = |random: &mut Random| match random.below(2) {
                0 => polygon(random, zone),
                _ => {
                    format!("{{type: \"LineString\", coordinates: [{}]}}", points(random, zone, 2))
                }
            };
            let count = 1 + random.below(2);
            let parts = random.list(count, part);
            format!("{{type: \"GeometryCollection\", geometries: [{parts}]}}")
        }
    }
}

/// The fields of a document: a geometry, a pair, and values beside them.
pub(super) fn fields(random: &mut Random) -> String {
    let zone = zone(random);
    let geometry = geometry(random, zone);
    let pair = show(point(random, zone));
    let number = random.below(3);
    let list = random.list(2, |random| random.below(3).to_string());
    let other = if random.chance(30) { format!("[{list}]") } else { random.below(3).to_string() };
    format!("g: {geometry}, p: {pair}, a: {number}, b: {other}")
}

/// An index, in most rounds.
pub(super) fn setup(random: &mut Random) -> Vec<String> {
    let kinds = [
        "",
        "{g: \"2dsphere\"}",
        "{g: \"2dsphere\", a: 1}",
        "{a: 1, g: \"2dsphere\"}",
        "{g: \"2dsphere\", b: 1, a: -1}",
        "{p: \"2d\"}",
        "{p: \"2d\", a: 1}",
        "{p: \"2dsphere\", b: 1}",
    ];
    let kind = random.pick(&kinds);
    if kind.is_empty() {
        return Vec::new();
    }
    vec![format!("{{createIndexes: \"c\", indexes: [{{key: {kind}, name: \"i\"}}]}}")]
}

fn flat_region(random: &mut Random, zone: Zone) -> String {
    match random.below(3) {
        0 => format!("$box: [{}]", points(random, zone, 2)),
        1 => {
            let count = 3 + random.below(3);
            format!("$polygon: [{}]", points(random, zone, count))
        }
        _ => {
            let radius = random.pick(&["0", "1", "2", "0.5", "1.4142135623730951", "5"]);
            format!("$center: [{}, {radius}]", show(point(random, zone)))
        }
    }
}

/// A find whose filter asks for locations, in the order of `_id`.
pub(super) fn command(random: &mut Random) -> String {
    if random.chance(3) {
        // Which documents the index has refused.
        return "{find: \"c\", sort: {_id: 1}}".to_owned();
    }
    let zone = zone(random);
    let place = match random.below(10) {
        0..=3 => format!("g: {{$geoIntersects: {{$geometry: {}}}}}", geometry(random, zone)),
        4 | 5 => format!("g: {{$geoWithin: {{$geometry: {}}}}}", polygon(random, zone)),
        6 => {
            let radius = random.pick(&["0", "0.0174532925199433", "0.05", "1.5", "3"]);
            let centre = show(point(random, zone));
            format!("g: {{$geoWithin: {{$centerSphere: [{centre}, {radius}]}}}}")
        }
        7 => format!("p: {{$geoIntersects: {{$geometry: {}}}}}", geometry(random, zone)),
        _ => format!("p: {{$geoWithin: {{{}}}}}", flat_region(random, zone)),
    };
    let others = [
        "",
        "",
        "a: 1, ",
        "a: {$gt: 0}, ",
        "b: 1, ",
        "b: {$in: [0, 2]}, a: {$lt: 2}, ",
        "b: {$gt: 0, $lt: 2}, ",
    ];
    let other = random.pick(&others);
    format!(
        "{{find: \"c\", filter: {{{other}{place}}}, sort: {{_id: 1}}, projection: {{a: 1, b: 1}}}}"
    )
}
