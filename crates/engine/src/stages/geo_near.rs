//! `$geoNear`: returns the documents of the collection by distance, each with its distance.
//!
//! It becomes a find with a `$near` on the field of a geospatial index; the stage itself writes the
//! distances into the documents.

use super::lookup::field;
use super::row::Position;
use super::unwind::with_value;
use super::{Role, Stage, StageContext, StageRow};
use crate::catalog::{Collection, IndexKind, IndexState};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::planner::{Access, NearPlan, Plan};
use bumpalo::Bump;
use query::expr::{Env, Expr};
use query::filter::Filter;
use std::sync::Arc;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$geoNear",
    help: "Returns documents ordered by distance.",
    position: Position::First,
    parse,
    ..StageRow::BASE
};

/// A compiled `$geoNear`.
pub struct GeoNear {
    near: Expr,
    spherical: bool,
    least: Option<Expr>,
    most: Option<Expr>,
    multiplier: Option<Expr>,
    key: Option<Path>,
    query: DocBuf,
    fields: Arc<Fields>,
    context: super::OwnedContext,
    source: OwnedVal,
}

/// Where distances and locations are written.
struct Fields {
    distance: Path,
    location: Option<Path>,
}

fn refuse<T>(code: i32, message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code(code), message))
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return refuse(10065, "invalid parameter: expected an object ($geoNear)");
    };
    for (name, message) in [
        ("limit", (50858, "$geoNear no longer supports the 'limit' parameter. Use a $limit stage")),
        ("num", (50857, "$geoNear no longer supports the 'num' parameter. Use a $limit stage")),
        (
            "collation",
            (
                40227,
                "$geoNear does not accept the 'collation' parameter. Specify it for the whole aggregation",
            ),
        ),
        ("start", (50856, "$geoNear no longer supports the 'start' argument")),
    ] {
        if doc.find(name).is_some() {
            return refuse(message.0, message.1);
        }
    }
    if doc.find("collation").is_some() {
        return refuse(
            40227,
            "$geoNear does not accept the 'collation' parameter. Instead, specify a collation for \
             the entire aggregation command.",
        );
    }
    let Some(Val::String(distance)) = doc.get("distanceField") else {
        return refuse(16606, "$geoNear requires a 'distanceField' option as a String");
    };
    let Some(near) = doc.get("near") else {
        return refuse(5860400, "$geoNear requires a 'near' argument");
    };
    let near = Expr::parse(near, context)?;
    if let Some(constant) = near.as_constant() {
        check_near(constant)?;
    }
    let location = match doc.get("includeLocs") {
        None => None,
        Some(Val::String(text)) => Some(field(text)?),
        Some(_) => return refuse(16607, "$geoNear requires that 'includeLocs' option is a String"),
    };
    let key = match doc.get("key") {
        None => None,
        Some(Val::String("")) => {
            return Err(Error::bad_value("$geoNear parameter 'key' cannot be the empty string"));
        }
        Some(Val::String(text)) => Some(field(text)?),
        Some(other) => {
            return Err(Error::type_mismatch(format!(
                "$geoNear parameter 'key' must be of type string but found type: {}",
                other.kind().name()
            )));
        }
    };
    let query = match doc.get("query") {
        None => RawDoc::empty(),
        Some(Val::Document(query)) => query,
        Some(_) => return Err(Error::type_mismatch("query must be an object")),
    };
    let number = |name: &str| {
        let Some(value) = doc.get(name) else { return Ok(None) };
        let expr = Expr::parse(value, context)?;
        if let Some(constant) = expr.as_constant() {
            check_number(name, constant)?;
        }
        Ok::<_, Error>(Some(expr))
    };
    let fields = Fields { distance: field(distance)?, location };
    Filter::parse(query, context)?;
    Ok(Box::new(GeoNear {
        near,
        spherical: doc.get("spherical").is_some_and(Val::truthy),
        least: number("minDistance")?,
        most: number("maxDistance")?,
        multiplier: number("distanceMultiplier")?,
        key,
        query: query.into(),
        fields: Arc::new(fields),
        context: context.keep(),
        source: value.into(),
    }))
}

fn check_near(value: Val<'_>) -> Result<()> {
    match value {
        Val::Document(_) | Val::Array(_) => Ok(()),
        _ => refuse(
            5860401,
            "$geoNear requires near argument to be a GeoJSON object or a legacy point(array)",
        ),
    }
}

fn check_number(name: &str, value: Val<'_>) -> Result<f64> {
    match value.as_f64() {
        None => Err(Error::type_mismatch(format!("{name} must be a number"))),
        Some(number) if number < 0.0 || number.is_nan() => {
            Err(Error::bad_value(format!("{name} must be nonnegative")))
        }
        Some(number) => Ok(number),
    }
}

impl Stage for GeoNear {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        input
    }

    fn role(&self) -> Role<'_> {
        Role::Near(self)
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(ROW.name, self.source.raw());
    }
}

impl GeoNear {
    /// The filter of the find that reads the documents.
    ///
    /// # Errors
    /// When the collection has no suitable index, or several.
    pub(crate) fn filter(&self, collection: &Collection) -> Result<Arc<Filter>> {
        let key = match &self.key {
            Some(key) => key.text().to_owned(),
            None => only_key(collection)?,
        };
        let arena = Bump::new();
        let env = Env::new(RawDoc::empty(), &arena);
        let near = self.near.eval(&env)?;
        check_near(near)?;
        let distance = |name: &str, expr: &Option<Expr>| match expr {
            None => Ok(None),
            Some(expr) => {
                let value = expr.eval(&Env::new(RawDoc::empty(), &arena))?;
                check_number(name, value).map(Some)
            }
        };
        let (least, most) =
            (distance("minDistance", &self.least)?, distance("maxDistance", &self.most)?);
        let distances = |out: &mut Writer<'_>| {
            least.map(|least| out.f64("$minDistance", least).len());
            most.map(|most| out.f64("$maxDistance", most).len());
        };
        let operator = if self.spherical { "$nearSphere" } else { "$near" };
        let filter = DocBuf::build(|out| {
            out.array("$and", |parts| {
                parts.push_doc(|out| {
                    out.doc(&key, |out| {
                        out.append(operator, near);
                        distances(out);
                    });
                });
                parts.push_doc_bytes(self.query.bytes());
            });
        });
        Filter::parse(filter.as_doc(), &self.context.get()).map(Arc::new)
    }

    /// The error for a collection that does not exist.
    pub(crate) fn no_collection(&self) -> Error {
        Error::new(
            Code::NAMESPACE_NOT_FOUND,
            "$geoNear requires a geo index to run, but the collection does not exist",
        )
    }

    /// The documents of the find with their distances.
    ///
    /// # Errors
    /// When a factor is not a number.
    pub(crate) fn with_distances(
        &self,
        input: Box<dyn Stream>,
        plan: &Plan,
    ) -> Result<Box<dyn Stream>> {
        let Access::Near(near) = &plan.access else { return Ok(input) };
        let arena = Bump::new();
        let multiplier = match &self.multiplier {
            None => 1.0,
            Some(expr) => {
                let value = expr.eval(&Env::new(RawDoc::empty(), &arena))?;
                check_number("distanceMultiplier", value)?
            }
        };
        let fields = self.fields.clone();
        let near = near.clone();
        Ok(Box::new(Measured { input, near, fields, multiplier, meta: None }))
    }
}

/// The field of the only geospatial index. A planar index is preferred to spherical ones.
fn only_key(collection: &Collection) -> Result<String> {
    for (kind, plane) in [("2d", true), ("2dsphere", false)] {
        let indexes = collection.readable_indexes();
        let ready = indexes.filter(|i| i.state == IndexState::Ready && !i.hidden);
        let mut keys = ready.filter_map(|index| match &index.kind {
            IndexKind::Geo(geo) if geo.plane.is_some() == plane => {
                let first = geo.at.first().and_then(|at| index.fields.get(*at))?;
                Some(first.path.text().to_owned())
            }
            _ => None,
        });
        let Some(key) = keys.next() else { continue };
        if keys.next().is_some() {
            return Err(Error::new(
                Code::INDEX_NOT_FOUND,
                format!(
                    "There is more than one {kind} index on {}; unsure which to use for $geoNear",
                    collection.namespace()
                ),
            ));
        }
        return Ok(key);
    }
    Err(Error::new(
        Code::INDEX_NOT_FOUND,
        "$geoNear requires a 2d or 2dsphere index, but none were found",
    ))
}

struct Measured {
    input: Box<dyn Stream>,
    near: Box<NearPlan>,
    fields: Arc<Fields>,
    multiplier: f64,
    /// The distance and the location of the last document.
    meta: Option<DocBuf>,
}

impl Stream for Measured {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        let Some(doc) = self.input.next(op)? else { return Ok(None) };
        let nearest = self.near.near.nearest_of(&self.near.path, doc.raw())?;
        let (plain, location) =
            nearest.map_or((Val::Missing, Val::Missing), |(far, value)| (Val::Double(far), value));
        let distance = nearest.map_or(Val::Missing, |(far, _)| Val::Double(far * self.multiplier));
        self.meta = Some(DocBuf::build(|out| {
            out.append("geoNearDistance", plain).append("geoNearPoint", location);
        }));
        let mut out = Vec::with_capacity(doc.len() + 64);
        with_value(doc.raw(), self.fields.distance.parts(), distance, &mut out);
        if let Some(field) = &self.fields.location {
            let mut whole = Vec::with_capacity(out.len() + 64);
            with_value(RawDoc::new(&out), field.parts(), location, &mut whole);
            out = whole;
        }
        Ok(Some(Doc::Made(out)))
    }

    fn is_done(&self) -> bool {
        self.input.is_done()
    }

    fn meta(&self) -> Option<DocBuf> {
        self.meta.clone()
    }

    fn has_meta(&self) -> bool {
        true
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}
