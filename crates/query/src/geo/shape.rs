//! Reads points and shapes: legacy pairs (`[x, y]`, `{x: .., y: ..}`) and GeoJSON.

use super::polygon::{Line, Polygon};
use super::ring::{BadRing, Ring, Side};
use super::sphere::{self, Geometry, UnitVector};
use super::{Point, plane};
use crate::interrupt;
use crate::show::show;
use value::{Error, RawDoc, Result, Val};

/// How strictly a geometry is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// As MongoDB reads what is new.
    All,
    /// Whatever an index may hold: earlier versions accepted more.
    None,
}

/// A location that a document holds.
#[derive(Clone, Debug)]
pub enum Stored {
    /// A legacy pair, which is also a point on the earth if it is in range, or a GeoJSON point.
    Point {
        /// The coordinates.
        point: Point,
        /// Whether it was GeoJSON.
        geo_json: bool,
    },
    /// Any other GeoJSON geometry.
    Geometry(Box<Geometry>),
}

impl Stored {
    /// Reads a location of a document.
    ///
    /// # Errors
    /// `BadValue` with the reason why it is none.
    pub fn parse(value: Val<'_>) -> Result<Stored> {
        Stored::read(value, Checks::All)
    }

    /// Reads a location that is in an index, also one that `parse` refuses but earlier versions
    /// accepted.
    ///
    /// # Errors
    /// As `parse`.
    pub fn parse_indexed(value: Val<'_>) -> Result<Stored> {
        Stored::read(value, Checks::None)
    }

    fn read(value: Val<'_>, checks: Checks) -> Result<Stored> {
        match value {
            Val::Document(doc) if is_geo_json(doc) => match geo_json_with(doc, checks)? {
                Parsed::Point(point) => Ok(Stored::Point { point, geo_json: true }),
                Parsed::Geometry(geometry, _) => Ok(Stored::Geometry(geometry)),
            },
            value => Ok(Stored::Point { point: legacy_point(value)?, geo_json: false }),
        }
    }

    /// The pair, on the plane.
    #[must_use]
    pub fn flat(&self) -> Option<Point> {
        match self {
            Stored::Point { point, .. } => Some(*point),
            Stored::Geometry(_) => None,
        }
    }

    /// Whether it is a polygon whose direction determines the inside. Such are never found.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        match self {
            Stored::Point { .. } => false,
            Stored::Geometry(geometry) => geometry.polygons.iter().any(Polygon::is_strict),
        }
    }

    /// Its form on the sphere, if it has one.
    #[must_use]
    pub fn on_sphere(&self) -> Option<std::borrow::Cow<'_, Geometry>> {
        use std::borrow::Cow;
        match self {
            Stored::Point { point, .. } if point.is_on_earth() => {
                Some(Cow::Owned(Geometry::point(sphere::unit_vector(*point))))
            }
            Stored::Point { .. } => None,
            Stored::Geometry(_) if self.is_strict() => None,
            Stored::Geometry(geometry) => Some(Cow::Borrowed(geometry)),
        }
    }
}

/// Whether a document is GeoJSON: its `type` is a string.
#[must_use]
pub fn is_geo_json(doc: RawDoc<'_>) -> bool {
    matches!(doc.get("type"), Some(Val::String(_)))
}

/// A GeoJSON geometry as read.
pub(super) enum Parsed {
    /// A point.
    Point(Point),
    /// Anything else, and whether it has an area.
    Geometry(Box<Geometry>, bool),
}

/// Reads a pair of numbers.
pub(super) fn legacy_point(value: Val<'_>) -> Result<Point> {
    let doc = match value {
        Val::Array(doc) | Val::Document(doc) => doc,
        _ => return Err(Error::bad_value("Point must be an array or object")),
    };
    let mut numbers = doc.iter().map(|(_, element)| match element.get() {
        value if value.is_number() => value.as_f64(),
        _ => None,
    });
    let (Some(Some(x)), Some(Some(y))) = (numbers.next(), numbers.next()) else {
        return Err(Error::bad_value("Point must only contain numeric elements"));
    };
    if !x.is_finite() || !y.is_finite() {
        return Err(Error::bad_value("Point coordinates must be finite numbers"));
    }
    Ok(Point { x, y })
}

/// Reads a pair of numbers and nothing else, as queries have it.
pub(super) fn exact_pair(value: Val<'_>) -> Result<Point> {
    let point = legacy_point(value)?;
    match value {
        Val::Array(doc) | Val::Document(doc) if doc.iter().nth(2).is_some() => {
            Err(Error::bad_value("Point must only contain two numeric elements"))
        }
        _ => Ok(point),
    }
}

/// Reads the numbers of a GeoJSON point.
fn position(value: Val<'_>) -> Result<Point> {
    on_earth(legacy_point(value)?)
}

/// Refuses coordinates that are not a longitude and a latitude.
pub(super) fn on_earth(point: Point) -> Result<Point> {
    if point.is_on_earth() {
        return Ok(point);
    }
    Err(Error::bad_value(format!(
        "longitude/latitude is out of bounds, lng: {} lat: {}",
        point.x, point.y
    )))
}

/// Whether the direction of rings determines the inside.
fn strict_winding(doc: RawDoc<'_>) -> Result<bool> {
    let Some(crs) = doc.get("crs") else { return Ok(false) };
    let Val::Document(crs) = crs else {
        return Err(Error::bad_value("GeoJSON CRS must be an object"));
    };
    if crs.get("type").and_then(Val::as_str) != Some("name") {
        return Err(Error::bad_value("GeoJSON CRS must have field \"type\": \"name\""));
    }
    let Some(Val::Document(properties)) = crs.get("properties") else {
        return Err(Error::bad_value("CRS must have field \"properties\" which is an object"));
    };
    match properties.get("name") {
        Some(Val::String("urn:ogc:def:crs:OGC:1.3:CRS84" | "EPSG:4326")) => Ok(false),
        Some(Val::String("urn:x-mongodb:crs:strictwinding:EPSG:4326")) => Ok(true),
        Some(Val::String(name)) => Err(Error::bad_value(format!("Unknown CRS name: {name}"))),
        _ => Err(Error::bad_value("In CRS, \"properties.name\" must be a string")),
    }
}

/// Refuses shapes whose direction would determine the inside, but that have none.
fn no_strict_winding(doc: RawDoc<'_>, checks: Checks) -> Result<()> {
    if strict_winding(doc)? && checks == Checks::All {
        return Err(Error::bad_value("Strict winding order is only supported by polygon"));
    }
    Ok(())
}

fn geo_json_point_with(doc: RawDoc<'_>, checks: Checks) -> Result<Point> {
    if doc.get("type").and_then(Val::as_str) != Some("Point") {
        return Err(Error::bad_value("not a GeoJSON point"));
    }
    no_strict_winding(doc, checks)?;
    position(doc.get("coordinates").unwrap_or(Val::Missing))
}

/// Reads the point of a `$near`, a GeoJSON document whatever its `type`.
pub(super) fn near_point(doc: RawDoc<'_>) -> Result<Point> {
    no_strict_winding(doc, Checks::All)?;
    position(doc.get("coordinates").unwrap_or(Val::Missing))
}

/// Reads a GeoJSON geometry.
pub(super) fn geo_json(doc: RawDoc<'_>) -> Result<Parsed> {
    geo_json_with(doc, Checks::All)
}

fn geo_json_with(doc: RawDoc<'_>, checks: Checks) -> Result<Parsed> {
    let mut geometry = Geometry::default();
    if doc.get("type").and_then(Val::as_str) == Some("Point") {
        return geo_json_point_with(doc, checks).map(Parsed::Point);
    }
    add(doc, &mut geometry, checks)?;
    let area = geometry.points.is_empty() && geometry.lines.is_empty();
    Ok(Parsed::Geometry(Box::new(geometry), area))
}

fn add(doc: RawDoc<'_>, out: &mut Geometry, checks: Checks) -> Result<()> {
    let unknown =
        || Error::bad_value(format!("unknown GeoJSON type: {}", show(Val::Document(doc))));
    let Some(Val::String(kind)) = doc.get("type") else { return Err(unknown()) };
    let coordinates = doc.get("coordinates").unwrap_or(Val::Missing);
    let strict = kind != "GeometryCollection" && strict_winding(doc)?;
    if kind != "Polygon" && strict {
        no_strict_winding(doc, checks)?;
    }
    match kind {
        "Point" => out.points.push(sphere::unit_vector(position(coordinates)?)),
        "LineString" => out.lines.push(line(coordinates)?),
        "Polygon" => out.polygons.push(polygon(coordinates, strict, checks)?),
        "MultiPoint" => {
            for point in elements("MultiPoint", coordinates)? {
                out.points.push(sphere::unit_vector(position(point)?));
            }
        }
        "MultiLineString" => {
            for part in elements("MultiLineString", coordinates)? {
                out.lines.push(line(part)?);
            }
        }
        "MultiPolygon" => {
            for part in elements("MultiPolygon", coordinates)? {
                out.polygons.push(polygon(part, strict, checks)?);
            }
        }
        "GeometryCollection" => collection(doc, out, checks)?,
        _ => return Err(unknown()),
    }
    Ok(())
}

fn elements<'v>(kind: &str, coordinates: Val<'v>) -> Result<impl Iterator<Item = Val<'v>>> {
    let Val::Array(array) = coordinates else {
        return Err(Error::bad_value(format!("{kind} coordinates must be an array")));
    };
    if array.is_empty() {
        return Err(Error::bad_value(format!("{kind} coordinates must have at least 1 element")));
    }
    Ok(array.iter().map(|(_, element)| element.get()))
}

fn collection(doc: RawDoc<'_>, out: &mut Geometry, checks: Checks) -> Result<()> {
    let Some(Val::Array(parts)) = doc.get("geometries") else {
        return Err(Error::bad_value("GeometryCollection geometries must be an array"));
    };
    if parts.is_empty() {
        return Err(Error::bad_value("GeometryCollection geometries must have at least 1 element"));
    }
    for (at, (_, part)) in parts.iter().enumerate() {
        let Some(part) = part.as_doc() else {
            return Err(Error::bad_value(format!(
                "Element {at} of \"geometries\" is not an object"
            )));
        };
        let nested = part.get("type") == Some(Val::String("GeometryCollection"));
        if nested && checks == Checks::All {
            let shown = show(Val::Document(part));
            return Err(Error::bad_value(format!("GeometryCollections cannot be nested: {shown}")));
        }
        add(part, out, checks)?;
    }
    Ok(())
}

/// Steps that it takes to read a position and to find its place on the sphere.
const STEPS_OF_PLACE: usize = 8;

/// The points of a list of positions, without consecutive duplicates.
fn unit_vectors(coordinates: Val<'_>) -> Result<Vec<UnitVector>> {
    let Val::Array(array) = coordinates else {
        return Err(Error::bad_value("GeoJSON coordinates must be an array of coordinates"));
    };
    let mut places: Vec<UnitVector> = Vec::new();
    for (_, element) in array {
        interrupt::charge(STEPS_OF_PLACE)?;
        let place = sphere::unit_vector(position(element.get())?);
        if places.last() != Some(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

fn line(coordinates: Val<'_>) -> Result<Line> {
    let places = unit_vectors(coordinates)?;
    if places.len() < 2 {
        return Err(Error::bad_value(format!(
            "GeoJSON LineString must have at least 2 vertices: {}",
            show(coordinates)
        )));
    }
    Ok(Line::new(places))
}

fn polygon(coordinates: Val<'_>, strict: bool, checks: Checks) -> Result<Polygon> {
    let Val::Array(rings) = coordinates else {
        return Err(Error::bad_value("Polygon coordinates must be an array"));
    };
    let mut rings = rings.iter().map(|(_, ring)| ring.get());
    let Some(first) = rings.next() else {
        return Err(Error::bad_value("Polygon has no loops."));
    };
    let outer = Ring::new(closed(first, checks)?);
    if strict {
        if rings.next().is_some() {
            return Err(Error::bad_value(format!(
                "Only one simple loop is allowed in a big polygon: {}",
                show(coordinates)
            )));
        }
        return Ok(Polygon::strict(outer));
    }
    let outer = outer.smaller();
    let mut holes = Vec::new();
    for shown in rings {
        let hole = Ring::new(closed(shown, checks)?).smaller();
        let inside = checks == Checks::None || outer.contains_ring(&hole);
        interrupt::confirm()?;
        if !inside {
            return Err(Error::bad_value(format!(
                "Secondary loops not contained by first exterior loop - secondary loops must be \
                 holes: {} first loop: {}",
                show(shown),
                show(first)
            )));
        }
        holes.push(hole);
    }
    if checks == Checks::All {
        check_holes(&outer, &holes).map_err(|reason| {
            Error::bad_value(format!("Polygon isn't valid: {reason} {}", show(coordinates)))
        })?;
    }
    interrupt::confirm()?;
    Ok(Polygon::new(outer, holes))
}

/// Refuses holes that share an edge with another ring or more than one corner with the outer one,
/// that cross each other, or that are inside of each other.
fn check_holes(outer: &Ring, holes: &[Ring]) -> Result<(), String> {
    for (at, hole) in holes.iter().enumerate() {
        if hole.shares_edge(outer) {
            return Err(format!("Duplicate edge: loop {} and loop 0", at + 1));
        }
        for (other, second) in holes.iter().enumerate().skip(at + 1) {
            if hole.shares_edge(second) {
                return Err(format!("Duplicate edge: loop {} and loop {}", other + 1, at + 1));
            }
            match (hole.side_of(second), second.side_of(hole)) {
                (Side::Crosses, _) => {
                    return Err(format!("Loop {} crosses loop {}", at + 1, other + 1));
                }
                (Side::Inside, _) | (_, Side::Inside) => {
                    return Err("Polygon interior loops cannot be nested".to_owned());
                }
                _ => {}
            }
        }
        if hole.common_places(outer) > 1 {
            return Err(format!(
                "Loop {} shares more than one vertex with its parent loop 0",
                at + 1
            ));
        }
    }
    Ok(())
}

/// The points of a closed line that does not cross itself; the first is not repeated at the end.
fn closed(coordinates: Val<'_>, checks: Checks) -> Result<Vec<UnitVector>> {
    let mut places = unit_vectors(coordinates)?;
    if places.is_empty() {
        return Err(Error::bad_value(format!("Loop has no vertices: {}", show(coordinates))));
    }
    let ends = places.first().copied() == places.last().copied() && places.len() > 1;
    if !ends {
        return Err(Error::bad_value(format!("Loop is not closed: {}", show(coordinates))));
    }
    places.pop();
    if places.len() < 3 {
        return Err(Error::bad_value(format!(
            "Loop must have at least 3 different vertices: {}",
            show(coordinates)
        )));
    }
    if checks == Checks::None {
        return Ok(places);
    }
    let checked = Ring::check(&places);
    interrupt::confirm()?;
    checked.map_err(|problem| {
        let problem = match problem {
            BadRing::Duplicate(a, b) => format!("Duplicate vertices: {a} and {b}"),
            BadRing::Crossing(a, b) => format!("Edges {a} and {b} cross."),
        };
        Error::bad_value(format!("Loop is not valid: {} {problem}", show(coordinates)))
    })?;
    Ok(places)
}

/// Reads the legacy shapes of `$geoWithin`.
pub(super) fn flat_shape(name: &str, array: RawDoc<'_>) -> Result<plane::PlaneShape> {
    let mut elements = array.iter().map(|(_, element)| element.get());
    match name {
        "$box" => {
            let a = legacy_point(elements.next().unwrap_or(Val::Missing))?;
            let b = legacy_point(elements.next().unwrap_or(Val::Missing))?;
            Ok(plane::PlaneShape::Box(
                Point { x: a.x.min(b.x), y: a.y.min(b.y) },
                Point { x: a.x.max(b.x), y: a.y.max(b.y) },
            ))
        }
        "$polygon" => {
            let corners = elements.map(legacy_point).collect::<Result<Vec<Point>>>()?;
            if corners.len() < 3 {
                return Err(Error::bad_value("Polygon must have at least 3 points"));
            }
            Ok(plane::PlaneShape::Polygon(corners))
        }
        _ => {
            let (centre, radius) = circle(array)?;
            Ok(plane::PlaneShape::Circle(centre, radius))
        }
    }
}

/// Reads `[centre, radius]`.
pub(super) fn circle(array: RawDoc<'_>) -> Result<(Point, f64)> {
    let mut elements = array.iter().map(|(_, element)| element.get());
    let centre = legacy_point(elements.next().unwrap_or(Val::Missing))?;
    let radius = elements.next().filter(|radius| radius.is_number()).and_then(Val::as_f64);
    let Some(radius) = radius.filter(|radius| *radius >= 0.0) else {
        return Err(Error::bad_value("radius must be a non-negative number"));
    };
    if elements.next().is_some() {
        return Err(Error::bad_value("Only 2 fields allowed for circular region"));
    }
    Ok((centre, radius))
}
