//! Reads points and shapes: legacy pairs (`[x, y]`, `{x: .., y: ..}`) and GeoJSON.

use super::sphere::{self, BadRing, Geometry, Line, Polygon, Ring, UnitVector};
use super::{Point, plane};
use crate::interrupt;
use crate::show::show;
use value::{Error, RawDoc, Result, Val};

/// Deepest nesting of geometry collections.
const DEPTH_MAX: usize = 50;

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
        match value {
            Val::Document(doc) if is_geo_json(doc) => match geo_json(doc)? {
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

    /// Its form on the sphere, if it has one.
    #[must_use]
    pub fn on_sphere(&self) -> Option<std::borrow::Cow<'_, Geometry>> {
        use std::borrow::Cow;
        match self {
            Stored::Point { point, .. } if point.is_on_earth() => {
                Some(Cow::Owned(Geometry::point(sphere::unit_vector(*point))))
            }
            Stored::Point { .. } => None,
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

/// Reads the numbers of a GeoJSON point.
fn position(value: Val<'_>) -> Result<Point> {
    let point = match value {
        Val::Array(_) => legacy_point(value)?,
        _ => return Err(Error::bad_value("GeoJSON coordinates must be an array")),
    };
    on_earth(point)
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

/// Reads a GeoJSON geometry.
pub(super) fn geo_json(doc: RawDoc<'_>) -> Result<Parsed> {
    let mut geometry = Geometry::default();
    if doc.get("type").and_then(Val::as_str) == Some("Point") {
        strict_winding(doc)?;
        return position(doc.get("coordinates").unwrap_or(Val::Missing)).map(Parsed::Point);
    }
    add(doc, &mut geometry, 0)?;
    let area = geometry.points.is_empty() && geometry.lines.is_empty();
    Ok(Parsed::Geometry(Box::new(geometry), area))
}

fn add(doc: RawDoc<'_>, out: &mut Geometry, depth: usize) -> Result<()> {
    let unknown =
        || Error::bad_value(format!("unknown GeoJSON type: {}", show(Val::Document(doc))));
    let Some(Val::String(kind)) = doc.get("type") else { return Err(unknown()) };
    let coordinates = doc.get("coordinates").unwrap_or(Val::Missing);
    let strict = strict_winding(doc)?;
    match kind {
        "Point" => out.points.push(sphere::unit_vector(position(coordinates)?)),
        "LineString" => out.lines.push(line(coordinates)?),
        "Polygon" => out.polygons.push(polygon(coordinates, strict)?),
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
                out.polygons.push(polygon(part, strict)?);
            }
        }
        "GeometryCollection" => collection(doc, out, depth)?,
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

fn collection(doc: RawDoc<'_>, out: &mut Geometry, depth: usize) -> Result<()> {
    let Some(Val::Array(parts)) = doc.get("geometries") else {
        return Err(Error::bad_value("GeometryCollection geometries must be an array"));
    };
    if parts.is_empty() {
        return Err(Error::bad_value("GeometryCollection geometries must have at least 1 element"));
    }
    if depth >= DEPTH_MAX {
        return Err(Error::bad_value("GeometryCollections are nested too deeply"));
    }
    for (at, (_, part)) in parts.iter().enumerate() {
        let Some(part) = part.as_doc() else {
            return Err(Error::bad_value(format!(
                "Element {at} of \"geometries\" is not an object"
            )));
        };
        add(part, out, depth + 1)?;
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
    Ok(Line { places })
}

fn polygon(coordinates: Val<'_>, strict: bool) -> Result<Polygon> {
    let Val::Array(rings) = coordinates else {
        return Err(Error::bad_value("Polygon coordinates must be an array"));
    };
    let mut rings = rings.iter().map(|(_, ring)| ring.get());
    let Some(first) = rings.next() else {
        return Err(Error::bad_value("Polygon has no loops."));
    };
    let outer = closed(first)?;
    let inverted = strict && Ring::is_big(&outer);
    let outer = Ring::new(outer);
    let mut polygon = Polygon { outer, holes: Vec::new(), inverted };
    for shown in rings {
        if strict {
            return Err(Error::bad_value(format!(
                "Only one simple loop is allowed in a big polygon: {}",
                show(coordinates)
            )));
        }
        let hole = closed(shown)?;
        let inside = hole.iter().all(|place| polygon.contains(*place));
        interrupt::confirm()?;
        if !inside {
            return Err(Error::bad_value(format!(
                "Secondary loops not contained by first exterior loop - secondary loops must be \
                 holes: {} first loop: {}",
                show(shown),
                show(first)
            )));
        }
        polygon.holes.push(Ring::new(hole));
    }
    Ok(polygon)
}

/// The points of a closed line that does not cross itself; the first is not repeated at the end.
fn closed(coordinates: Val<'_>) -> Result<Vec<UnitVector>> {
    let mut places = unit_vectors(coordinates)?;
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
    match radius {
        Some(radius) if radius >= 0.0 => Ok((centre, radius)),
        _ => Err(Error::bad_value("radius must be a non-negative number")),
    }
}
