//! Geospatial indexes, `2d` and `2dsphere`: for a field with a location, the key holds the names of
//! the cells that contain it. Documents without a location have no entries.

use super::Index;
use super::keys::{Checks, Key, Keys};
use query::geo::cells::{Plane, Sphere};
use query::geo::{Region, Stored, shape};
use query::interrupt;
use value::path::Part;
use value::{Code, Error, RawDoc, RawVal, Result, Val, keys as order};

/// Maximum number of keys of one document.
const KEYS_MAX: usize = 20_000;

/// The fields that hold locations, and how space is divided into cells.
#[derive(Clone, Debug)]
pub struct GeoFields {
    /// Their positions in the key pattern.
    pub at: Vec<usize>,
    /// The division of the plane; `None` for the sphere.
    pub plane: Option<Plane>,
    /// The coarsest and the finest level of spherical cells in keys.
    levels: (usize, usize),
}

/// Default levels of a `2dsphere` index.
const LEVELS: (i64, i64) = (2, 23);

/// The finest level that an index may specify.
const LEVEL_MAX: i64 = 30;

/// Checks the levels in the specification of a `2dsphere` index.
///
/// # Errors
/// 16747, 16748, 16749.
fn check_levels(spec: RawDoc<'_>) -> Result<()> {
    for name in ["2dsphereIndexVersion", "coarsestIndexedLevel", "finestIndexedLevel"] {
        if let Some(value) = spec.get(name)
            && value.as_i64_exact().is_none()
        {
            return Err(Error::bad_value(format!(
                "Expected field \"{name}\" to have a value exactly representable as a 64-bit \
                 integer, but found {name}: {}",
                super::value_text(value)
            )));
        }
    }
    let level = |name: &str| spec.get(name).and_then(Val::as_i64_exact);
    let coarsest = level("coarsestIndexedLevel").unwrap_or(LEVELS.0);
    let finest = level("finestIndexedLevel").unwrap_or(LEVELS.1);
    let (code, message) = if coarsest < 0 {
        (16747, "coarsestIndexedLevel must be >= 0")
    } else if finest > LEVEL_MAX {
        (16748, "finestIndexedLevel must be <= 30")
    } else if finest < coarsest {
        (16749, "finestIndexedLevel must be >= coarsestIndexedLevel")
    } else {
        return Ok(());
    };
    Err(Error::new(Code(code), message))
}

impl GeoFields {
    /// Returns the fields of a (checked) specification, if it is of a geospatial index.
    #[must_use]
    pub fn of(spec: RawDoc<'_>) -> Option<GeoFields> {
        let key = spec.get("key").and_then(Val::as_doc)?;
        let places = |name: &str| -> Vec<usize> {
            let kinds = key.iter().enumerate();
            kinds
                .filter(|(_, (_, kind))| kind.get() == Val::String(name))
                .map(|(at, _)| at)
                .collect()
        };
        let sphere = places("2dsphere");
        if !sphere.is_empty() {
            let level = |name: &str| {
                let level = spec.get(name).and_then(Val::as_i64_exact);
                level.and_then(|level| usize::try_from(level).ok())
            };
            let coarsest = level("coarsestIndexedLevel").unwrap_or(0);
            let finest = level("finestIndexedLevel").unwrap_or(usize::MAX);
            return Some(GeoFields { at: sphere, plane: None, levels: (coarsest, finest) });
        }
        let at = places("2d");
        if at.is_empty() {
            return None;
        }
        let number = |name: &str| spec.get(name).and_then(Val::as_f64);
        let plane = Plane {
            min: number("min").unwrap_or(-180.0),
            max: number("max").unwrap_or(180.0),
            bits: number("bits").map_or(26, |bits| bits.clamp(1.0, 32.0) as usize),
        };
        Some(GeoFields { at, plane: Some(plane), levels: (0, usize::MAX) })
    }

    /// Returns the cells that cover a region; `None` if the index cannot be used for it.
    #[must_use]
    pub fn cover(&self, region: &Region) -> Option<Vec<String>> {
        match &self.plane {
            Some(plane) => plane.of_region(region),
            None => Sphere.of_region(region),
        }
    }
}

/// Adds the keys of a document.
///
/// # Errors
/// 16755 and related codes for a value that is not a location.
pub(super) fn keys(
    index: &Index,
    geo: &GeoFields,
    doc: RawDoc<'_>,
    checks: Checks,
    out: &mut Keys,
) -> Result<()> {
    let mut columns: Vec<Vec<Vec<u8>>> = Vec::with_capacity(index.fields.len());
    let mut located = false;
    for (at, field) in index.fields.iter().enumerate() {
        let is_location = geo.at.contains(&at);
        let expand = !is_location && geo.plane.is_none();
        let mut values = Vec::new();
        let mut array = false;
        collect(doc, field.path.parts(), expand, &mut array, &mut values);
        let mut column: Vec<Vec<u8>> = Vec::new();
        if is_location {
            let mut names = Vec::new();
            for value in values {
                cells(geo, value, doc, checks, &mut names)?;
            }
            located |= !names.is_empty();
            column.extend(names.iter().map(|name| order::key(Val::String(name))));
        } else {
            for value in values {
                let mut key = Vec::new();
                let collation = index.collation.as_deref();
                order::encode_with(&mut key, value.get(), field.descending, collation);
                column.push(key);
            }
        }
        if column.is_empty() {
            let mut key = Vec::new();
            let none = if array { Val::Undefined } else { Val::Null };
            order::encode(&mut key, none, field.descending);
            column.push(key);
        }
        if array || column.len() > 1 {
            out.multikey |= super::multikey::field(at);
        }
        columns.push(column);
    }
    if !located {
        out.multikey = 0;
        return Ok(());
    }
    let mut made: Vec<Vec<u8>> = vec![Vec::new()];
    for column in &columns {
        if made.len().saturating_mul(column.len()) > KEYS_MAX {
            return Err(Error::new(
                Code::CANNOT_BUILD_INDEX_KEYS,
                format!("Index build failed. Too many keys for index '{}'", index.name),
            ));
        }
        made = made
            .iter()
            .flat_map(|front| column.iter().map(move |value| [front.as_slice(), value].concat()))
            .collect();
    }
    for values in made {
        out.add(Key { values, types: Vec::new() })?;
    }
    Ok(())
}

/// Collects the values at a path, through arrays on the way and, if `expand`, at its end. A number
/// in the path is the position in an array, as in the paths of filters.
fn collect<'d>(
    doc: RawDoc<'d>,
    parts: &[Part],
    expand: bool,
    array: &mut bool,
    out: &mut Vec<RawVal<'d>>,
) {
    let Some((part, rest)) = parts.split_first() else { return };
    if let Some(value) = doc.find(&part.name) {
        collect_value(value, rest, expand, array, out);
    }
}

fn collect_value<'d>(
    value: RawVal<'d>,
    parts: &[Part],
    expand: bool,
    array: &mut bool,
    out: &mut Vec<RawVal<'d>>,
) {
    let Some(elements) = value.as_array() else {
        match (parts, value.as_doc()) {
            ([], _) => out.push(value),
            (_, Some(inner)) => collect(inner, parts, expand, array, out),
            _ => {}
        }
        return;
    };
    let Some((part, rest)) = parts.split_first() else {
        if !expand {
            out.push(value);
            return;
        }
        *array = true;
        out.extend(elements.iter().map(|(_, element)| element));
        return;
    };
    if let Some((_, element)) = part.index.and_then(|at| elements.iter().nth(at)) {
        collect_value(element, rest, expand, array, out);
        // The number is also the name of a field of the elements.
        let named = |(_, element): (&str, RawVal<'_>)| {
            element.as_doc().is_some_and(|inner| inner.find(&part.name).is_some())
        };
        if !elements.iter().any(named) {
            return;
        }
    }
    *array = true;
    for (_, element) in elements {
        if let Some(inner) = element.as_doc() {
            collect(inner, parts, expand, array, out);
        }
    }
}

/// Adds the names of the cells of one value.
fn cells(
    geo: &GeoFields,
    value: RawVal<'_>,
    doc: RawDoc<'_>,
    checks: Checks,
    names: &mut Vec<String>,
) -> Result<()> {
    let value = value.get();
    let nothing = match value {
        Val::Null | Val::Undefined => true,
        Val::Array(inner) | Val::Document(inner) => inner.is_empty(),
        _ => false,
    };
    if nothing {
        return Ok(());
    }
    match &geo.plane {
        Some(plane) => plane_cells(plane, value, doc, names),
        None if checks == Checks::None => {
            // What cannot be read has no entries.
            if let Ok(stored) = Stored::parse_indexed(value) {
                add_sphere_cells(geo.levels, &stored, names);
            }
            interrupt::confirm()
        }
        None => {
            let made = sphere_cells(geo.levels, value, names);
            interrupt::confirm()?;
            made.map_err(|reason| {
                let doc = super::doc_text(doc);
                Error::new(Code(16755), format!("Can't extract geo keys: {doc}  {reason}"))
            })
        }
    }
}

fn sphere_cells(
    levels: (usize, usize),
    value: Val<'_>,
    names: &mut Vec<String>,
) -> Result<(), String> {
    let described = || super::value_text(value);
    if !matches!(value, Val::Array(_) | Val::Document(_)) {
        return Err(format!("geo element must be an array or object: {}", described()));
    }
    let stored = Stored::parse(value).map_err(|error| error.message().to_owned())?;
    if stored.on_sphere().is_none() {
        return Err(format!("can't project geometry into spherical CRS: {}", described()));
    }
    add_sphere_cells(levels, &stored, names);
    Ok(())
}

fn add_sphere_cells(levels: (usize, usize), stored: &Stored, names: &mut Vec<String>) {
    names.extend(at_levels(Sphere.of_shape(stored), levels));
    names.sort_unstable();
    names.dedup();
}

/// Replaces cells outside the range of levels: a cell that is too fine by its ancestor, one that is
/// too coarse by its descendants. A name has a letter for the face, then one for each level.
fn at_levels(names: Vec<String>, (coarsest, finest): (usize, usize)) -> Vec<String> {
    /// Maximum number of cells created from coarse ones.
    const CELLS_MAX: usize = 1000;
    let mut out = names;
    for name in &mut out {
        if name.len() > finest.saturating_add(1) {
            name.truncate(finest + 1);
        }
    }
    while out.len() * 4 <= CELLS_MAX && out.iter().any(|name| name.len() <= coarsest) {
        let split = |name: String| match name.len() <= coarsest {
            true => ('0'..='3').map(|letter| format!("{name}{letter}")).collect(),
            false => vec![name],
        };
        out = out.into_iter().flat_map(split).collect();
    }
    out
}

/// Adds the cells of a pair, or of an array of pairs.
fn plane_cells(
    plane: &Plane,
    value: Val<'_>,
    doc: RawDoc<'_>,
    names: &mut Vec<String>,
) -> Result<()> {
    let (Val::Array(inner) | Val::Document(inner)) = value else { return Ok(()) };
    let is_number = |element: RawVal<'_>| element.get().is_number();
    let first_is_number = inner.first().is_some_and(|(_, first)| is_number(first));
    if let (Val::Array(_), false) = (value, first_is_number) {
        for (_, element) in inner {
            match element.get() {
                pair @ (Val::Array(_) | Val::Document(_)) => plane_cell(plane, pair, doc, names)?,
                _ => return Err(no_location()),
            }
        }
        return Ok(());
    }
    plane_cell(plane, value, doc, names)
}

fn plane_cell(
    plane: &Plane,
    value: Val<'_>,
    doc: RawDoc<'_>,
    names: &mut Vec<String>,
) -> Result<()> {
    let (Val::Array(inner) | Val::Document(inner)) = value else { return Err(no_location()) };
    if inner.count() == 1 {
        let doc = super::doc_text(doc);
        return Err(Error::new(
            Code(13068),
            format!("geo field only has 1 element :: caused by :: {doc}"),
        ));
    }
    if let Val::Document(doc) = value
        && shape::is_geo_json(doc)
    {
        return Err(no_location());
    }
    let point =
        Stored::parse(value).ok().and_then(|stored| stored.flat()).ok_or_else(no_location)?;
    if !plane.holds(point) {
        return Err(Error::new(
            Code(13027),
            format!(
                "point not in interval of [ {}, {} ] :: caused by :: {}",
                plane.min,
                plane.max,
                super::doc_text(doc)
            ),
        ));
    }
    let name = plane.of_point(point);
    if !names.contains(&name) {
        names.push(name);
    }
    Ok(())
}

fn no_location() -> Error {
    Error::new(Code(16804), "location object expected, location array not in correct format")
}

/// Checks the specification of a geospatial index.
///
/// # Errors
/// CannotCreateIndex, or MongoDB's code of the violated rule.
pub fn check(spec: RawDoc<'_>, key: RawDoc<'_>) -> Result<()> {
    let places = |name: &str| {
        key.iter().enumerate().filter(|(_, (_, kind))| kind.get() == Val::String(name)).count()
    };
    let flat = places("2d");
    if flat > 1 {
        return Err(Error::new(Code(16800), "can't have 2 geo fields"));
    }
    if flat == 1 {
        if key.first().is_some_and(|(_, kind)| kind.get() != Val::String("2d")) {
            return Err(Error::new(Code(16801), "2d has to be first in index"));
        }
        let number = |name: &str| spec.get(name).and_then(Val::as_f64);
        let bits = number("bits").unwrap_or(26.0);
        if !(1.0..=32.0).contains(&bits) {
            return Err(Error::new(
                Code::INVALID_OPTIONS,
                format!("bits for hash must be > 0 and <= 32, but {bits} bits were specified"),
            ));
        }
        let (min, max) = (number("min").unwrap_or(-180.0), number("max").unwrap_or(180.0));
        if !(min.is_finite() && max.is_finite() && min < max) {
            return Err(Error::new(
                Code::INVALID_OPTIONS,
                format!(
                    "region for hash must be valid and have positive area, but [{min}, {max}] was \
                     specified"
                ),
            ));
        }
    }
    if places("2dsphere") > 0 {
        check_levels(spec)?;
    }
    if let Some(version) = spec.get("2dsphereIndexVersion").filter(|_| places("2dsphere") > 0)
        && !matches!(version.as_i64_exact(), Some(1..=3))
    {
        return Err(Error::new(
            Code::CANNOT_CREATE_INDEX,
            format!(
                "unsupported geo index version {{ 2dsphereIndexVersion : 2dsphereIndexVersion: {} \
                 }}, only versions: [1,2,3] are supported",
                super::value_text(version)
            ),
        ));
    }
    Ok(())
}
