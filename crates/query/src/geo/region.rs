//! The arguments of geospatial queries: a region that contains or intersects a location, or a point
//! for distances.

use super::plane::PlaneShape;
use super::shape::{self, Parsed, Stored};
use super::sphere::{self, Geometry, UnitVector};
use super::{EARTH_RADIUS_M, Point};
use crate::show::show;
use value::{Code, Error, OwnedVal, RawDoc, Result, Val};

/// The two predicates on a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeoPredicate {
    /// `$geoWithin`
    Within,
    /// `$geoIntersects`
    Intersects,
}

impl GeoPredicate {
    /// The operator's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GeoPredicate::Within => "$geoWithin",
            GeoPredicate::Intersects => "$geoIntersects",
        }
    }
}

/// A region.
#[derive(Clone, Debug)]
pub enum Region {
    /// On the plane.
    PlaneShape(PlaneShape),
    /// On the sphere, all points within an angle of a point.
    Cap(UnitVector, f64),
    /// On the sphere.
    Sphere(Box<Geometry>),
}

/// A condition on a region.
#[derive(Debug)]
pub struct Geo {
    /// The predicate.
    pub ask: GeoPredicate,
    /// The region.
    pub region: Region,
    /// The source, for explain.
    pub source: OwnedVal,
}

impl Geo {
    /// Compiles the argument of `$geoWithin` or `$geoIntersects`.
    ///
    /// # Errors
    /// `BadValue` for what is no region.
    pub fn parse(name: &str, ask: GeoPredicate, value: Val<'_>) -> Result<Geo> {
        let Val::Document(doc) = value else {
            return Err(Error::bad_value("geometry must be an object"));
        };
        let mut found: Option<(Region, bool)> = None;
        for (specifier, argument) in doc {
            let argument = argument.get();
            let unknown = || {
                let shown = show(argument);
                Error::bad_value(format!("unknown geo specifier: {specifier}: {shown}"))
            };
            found = Some(match (specifier, argument) {
                ("$uniqueDocs", _) => continue,
                ("$box" | "$polygon" | "$center", Val::Array(array) | Val::Document(array)) => {
                    (Region::PlaneShape(shape::flat_shape(specifier, array)?), true)
                }
                ("$centerSphere", Val::Array(array) | Val::Document(array)) => {
                    let (centre, radius) = shape::circle(array)?;
                    (Region::Cap(sphere::unit_vector(shape::on_earth(centre)?), radius), true)
                }
                ("$geometry", Val::Array(_)) => legacy_region(argument)?,
                ("$geometry", Val::Document(doc)) if has_number_first(doc) => {
                    legacy_region(argument)?
                }
                ("$geometry", Val::Document(doc)) => match shape::geo_json(doc)? {
                    Parsed::Point(point) => (point_region(point), false),
                    Parsed::Geometry(geometry, area) => (Region::Sphere(geometry), area),
                },
                _ => return Err(unknown()),
            });
        }
        let Some((region, area)) = found else {
            return Err(Error::bad_value("geo query doesn't have any geometry"));
        };
        let (word, supported) = match ask {
            GeoPredicate::Within => ("$within", area),
            // A circle is accepted, but nothing intersects it, as in MongoDB.
            GeoPredicate::Intersects => ("$geoIntersect", !matches!(region, Region::PlaneShape(_))),
        };
        if !supported {
            return Err(Error::bad_value(format!(
                "{word} not supported with provided geometry: {{ {name}: {} }}",
                show(value)
            )));
        }
        Ok(Geo { ask, region, source: OwnedVal::new(value) })
    }

    /// Whether a value is a location that satisfies the condition.
    #[must_use]
    pub fn matches(&self, value: Val<'_>) -> bool {
        if !matches!(value, Val::Document(_) | Val::Array(_)) {
            return false;
        }
        let Ok(stored) = Stored::parse(value) else { return false };
        if stored.is_strict() {
            return false;
        }
        match (&self.region, self.ask) {
            (Region::PlaneShape(flat), _) => {
                stored.flat().is_some_and(|point| flat.contains(point))
            }
            (Region::Cap(..), GeoPredicate::Intersects) => false,
            (Region::Cap(centre, radius), GeoPredicate::Within) => {
                stored.on_sphere().is_some_and(|found| found.is_in_cap(*centre, *radius))
            }
            (Region::Sphere(own), GeoPredicate::Within) => {
                stored.on_sphere().is_some_and(|found| own.contains(&found))
            }
            (Region::Sphere(own), GeoPredicate::Intersects) => {
                stored.on_sphere().is_some_and(|found| own.intersects(&found))
            }
        }
    }
}

fn has_number_first(doc: RawDoc<'_>) -> bool {
    doc.first().is_some_and(|(_, first)| first.get().is_number())
}

/// A legacy pair as a region, which has no area.
fn legacy_region(value: Val<'_>) -> Result<(Region, bool)> {
    let point = shape::on_earth(shape::exact_pair(value)?)?;
    Ok((point_region(point), false))
}

fn point_region(point: Point) -> Region {
    Region::Sphere(Box::new(Geometry::point(sphere::unit_vector(point))))
}

/// `$near` and `$nearSphere`: documents by their distance from a point.
#[derive(Clone, Debug)]
pub struct Near {
    /// The point.
    pub point: Point,
    /// Whether distances are those on the sphere.
    pub spherical: bool,
    /// Whether distances are metres, else degrees of the plane or radians of the sphere.
    pub metres: bool,
    /// The least distance.
    pub min: f64,
    /// The greatest distance.
    pub max: f64,
    /// The source, for explain.
    pub source: OwnedVal,
}

impl Near {
    /// Compiles a document of operators whose first is `$near` or one of its names.
    ///
    /// # Errors
    /// `BadValue`, or 16893 and neighbouring codes for wrong distances.
    pub fn parse(name: &str, value: Val<'_>, siblings: RawDoc<'_>) -> Result<Near> {
        let first = siblings.first().is_some_and(|(first, _)| first == name);
        let doc = match value {
            Val::Document(doc) | Val::Array(doc) if first => doc,
            _ => {
                return Err(Error::bad_value(format!(
                    "near must be first in: {}",
                    show(Val::Document(siblings))
                )));
            }
        };
        let mut near = Near {
            point: Point { x: 0.0, y: 0.0 },
            spherical: name == "$nearSphere",
            metres: false,
            min: 0.0,
            max: f64::MAX,
            source: OwnedVal::new(Val::Document(siblings)),
        };
        if let Ok(point) = shape::legacy_point(value) {
            near.point = point;
            near.legacy(doc, siblings)?;
            if near.spherical && !point.is_on_earth() {
                return Err(Error::bad_value("Legacy point is out of bounds for spherical query"));
            }
        } else if let Val::Document(doc) = value
            && let Ok(point) = shape::near_point(doc)
        {
            near.point = point;
            near.spherical = true;
            near.metres = true;
            near.distances(siblings)?;
        } else {
            near.geo_json(doc)?;
            if let Some((other, _)) = siblings.iter().nth(1) {
                return Err(Error::bad_value(format!(
                    "geo near accepts just one argument when querying for a GeoJSON point. Extra \
                     field found: {other}"
                )));
            }
        }
        Ok(near)
    }

    /// `$near: [x, y]` with its distances beside it, or the greatest as a third number.
    fn legacy(&mut self, doc: RawDoc<'_>, siblings: RawDoc<'_>) -> Result<()> {
        if let Some((_, third)) = doc.iter().nth(2) {
            self.max = distance("$maxDistance", third.get(), Code(16895), Code(16896))?;
        }
        self.distances(siblings)
    }

    /// The distances beside a point.
    fn distances(&mut self, siblings: RawDoc<'_>) -> Result<()> {
        for (name, value) in siblings.iter().skip(1) {
            match name {
                "$maxDistance" => {
                    self.max = distance(name, value.get(), Code(16895), Code(16896))?;
                }
                "$minDistance" => {
                    self.min = distance(name, value.get(), Code(16893), Code(16894))?;
                }
                "$uniqueDocs" => {}
                _ => return Err(invalid(Code(34413), name)),
            }
        }
        Ok(())
    }

    /// `$near: {$geometry: .., $maxDistance: ..}`.
    fn geo_json(&mut self, doc: RawDoc<'_>) -> Result<()> {
        let mut found = false;
        for (name, value) in doc {
            let value = value.get();
            match name {
                "$geometry" => {
                    found = true;
                    self.geometry(value)?;
                }
                "$maxDistance" => self.max = finite_distance(name, value)?,
                "$minDistance" => self.min = finite_distance(name, value)?,
                name => return Err(invalid(Code::BAD_VALUE, name)),
            }
        }
        if !found {
            return Err(Error::bad_value("$geometry is required for geo near query"));
        }
        Ok(())
    }

    fn geometry(&mut self, value: Val<'_>) -> Result<()> {
        let wrong = |error: Error| {
            Error::bad_value(format!(
                "invalid point in geo near query $geometry argument: {}  {}",
                show(value),
                error.message()
            ))
        };
        let doc = match value {
            Val::Document(doc) if !has_number_first(doc) => doc,
            Val::Document(_) | Val::Array(_) => {
                shape::legacy_point(value).map_err(wrong)?;
                return Err(no_geo_json(value));
            }
            _ => return Err(no_geo_json(value)),
        };
        self.point = shape::near_point(doc).map_err(wrong)?;
        self.spherical = true;
        self.metres = true;
        Ok(())
    }

    /// The distance of a value from the point, in the query's unit; `None` if it is not a location.
    #[must_use]
    pub fn distance(&self, value: Val<'_>) -> Option<f64> {
        if !matches!(value, Val::Document(_) | Val::Array(_)) {
            return None;
        }
        let stored = Stored::parse(value).ok()?;
        if !self.spherical {
            return stored.flat().map(|point| self.point.distance(point));
        }
        let angle = stored.on_sphere()?.distance(sphere::unit_vector(self.point));
        // MongoDB measures in metres, and divides.
        let metres = angle * EARTH_RADIUS_M;
        Some(if self.metres { metres } else { metres / EARTH_RADIUS_M })
    }

    /// Whether a distance is within the bounds.
    #[must_use]
    pub fn accepts(&self, distance: f64) -> bool {
        self.min <= distance && distance <= self.max
    }

    /// Whether the value is a location at a distance within the bounds.
    #[must_use]
    pub fn matches(&self, value: Val<'_>) -> bool {
        self.distance(value).is_some_and(|distance| self.accepts(distance))
    }

    /// The region within a distance of the point.
    #[must_use]
    pub fn within(&self, distance: f64) -> Region {
        if !self.spherical {
            return Region::PlaneShape(PlaneShape::Circle(self.point, distance));
        }
        let angle = if self.metres { distance / EARTH_RADIUS_M } else { distance };
        // Rounding must not exclude locations on the border.
        Region::Cap(sphere::unit_vector(self.point), angle * (1.0 + 1e-12) + 1e-12)
    }
}

fn invalid(code: Code, name: &str) -> Error {
    Error::new(code, format!("invalid argument in geo near query: {name}"))
}

fn no_geo_json(value: Val<'_>) -> Error {
    Error::bad_value(format!("$near requires geojson point, given {}", show(value)))
}

/// A distance beside a `$geometry`, which must be finite.
fn finite_distance(name: &str, value: Val<'_>) -> Result<f64> {
    match distance(name, value, Code::BAD_VALUE, Code::BAD_VALUE)? {
        number if number.is_finite() => Ok(number),
        _ => Err(Error::bad_value(format!("{name} must be non-negative"))),
    }
}

fn distance(name: &str, value: Val<'_>, no_number: Code, negative: Code) -> Result<f64> {
    let number = value.as_f64().filter(|_| value.is_number());
    let Some(number) = number else {
        return Err(Error::new(no_number, format!("{name} must be a number")));
    };
    if number < 0.0 || number.is_nan() {
        return Err(Error::new(negative, format!("{name} must be non-negative")));
    }
    Ok(number)
}
