//! Updates that are pipelines: the stages that make one document from one document.

use crate::ParseContext;
use crate::expr::{Env, Expr};
use crate::project::{Mode, Projection};
use crate::show::{show, show_doc};
use bumpalo::Bump;
use value::{Code, Error, RawDoc, Result, Val};

/// The stages of an update.
#[derive(Debug)]
pub(super) struct Pipeline {
    stages: Vec<Stage>,
    /// The paths that `$set`, `$addFields` and `$unset` name.
    pub(super) named: Vec<String>,
}

#[derive(Debug)]
enum Stage {
    Project(Projection),
    Replace(Expr),
}

/// Stages that MongoDB has but that make no sense in an update.
static OTHER_STAGES: &[&str] = &[
    "$bucket",
    "$bucketAuto",
    "$changeStream",
    "$changeStreamSplitLargeEvent",
    "$collStats",
    "$count",
    "$currentOp",
    "$densify",
    "$documents",
    "$facet",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$group",
    "$indexStats",
    "$limit",
    "$listCatalog",
    "$listLocalSessions",
    "$listSessions",
    "$lookup",
    "$match",
    "$merge",
    "$out",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
    "$redact",
    "$sample",
    "$search",
    "$setWindowFields",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unionWith",
    "$unwind",
];

impl Pipeline {
    pub(super) fn parse(stages: RawDoc<'_>, ctx: &ParseContext<'_>) -> Result<Pipeline> {
        let mut parsed = Vec::new();
        let mut named = Vec::new();
        for (_, stage) in stages {
            let Some(stage) = stage.as_doc() else {
                return Err(Error::type_mismatch(
                    "Each element of the 'pipeline' array must be an object",
                ));
            };
            let (Some((name, argument)), 1) = (stage.first(), stage.count()) else {
                return Err(Error::new(
                    Code(40323),
                    "A pipeline stage specification object must contain exactly one field.",
                ));
            };
            parsed.push(Stage::parse(name, argument.get(), ctx)?);
            match (name, argument.get()) {
                ("$set" | "$addFields", Val::Document(fields)) => {
                    named.extend(fields.iter().map(|(path, _)| path.to_owned()));
                }
                ("$unset", Val::String(path)) => named.push(path.to_owned()),
                ("$unset", Val::Array(paths)) => {
                    named.extend(
                        paths.iter().filter_map(|(_, p)| p.get().as_str().map(str::to_owned)),
                    );
                }
                _ => {}
            }
        }
        Ok(Pipeline { stages: parsed, named })
    }

    /// The document after all stages.
    pub(super) fn apply(&self, doc: RawDoc<'_>, arena: &Bump) -> Result<Vec<u8>> {
        let mut current = doc.bytes().to_vec();
        for stage in &self.stages {
            let mut next = Vec::with_capacity(current.len() + 64);
            let doc = RawDoc::new(&current);
            match stage {
                Stage::Project(projection) => projection.apply(doc, None, arena, &mut next)?,
                Stage::Replace(expression) => {
                    let value = expression.eval(&Env::new(doc, arena))?;
                    let Val::Document(root) = value else {
                        return Err(Error::new(
                            Code(40228),
                            format!(
                                "'newRoot' expression  must evaluate to an object, but resulting \
                                 value was: {}. Type of resulting value: '{}'. Input document: {}",
                                show(value),
                                value.kind().name(),
                                show_doc(doc)
                            ),
                        ));
                    };
                    next.extend_from_slice(root.bytes());
                }
            }
            current = next;
        }
        Ok(current)
    }
}

impl Stage {
    fn parse(name: &str, argument: Val<'_>, ctx: &ParseContext<'_>) -> Result<Stage> {
        let document = |what: &str, code: i32| {
            argument.as_doc().ok_or_else(|| {
                Error::new(
                    Code(code),
                    format!(
                        "{what} specification stage must be an object, got {}",
                        argument.kind().name()
                    ),
                )
            })
        };
        Ok(match name {
            "$set" | "$addFields" => {
                Stage::Project(Projection::parse_add_fields(name, document(name, 40272)?, ctx)?)
            }
            "$project" => {
                Stage::Project(Projection::parse(document(name, 15969)?, ctx, Mode::Aggregate)?)
            }
            "$unset" => Stage::Project(Projection::parse_unset(argument, ctx)?),
            "$replaceWith" => Stage::Replace(Expr::parse(argument, ctx)?),
            "$replaceRoot" => {
                let spec = argument.as_doc().ok_or_else(|| {
                    Error::new(
                        Code(40229),
                        format!(
                            "expected an object as specification for $replaceRoot stage, got {}",
                            argument.kind().name()
                        ),
                    )
                })?;
                let mut root = None;
                for (field, value) in spec {
                    if field != "newRoot" {
                        return Err(Error::new(
                            Code(40415),
                            format!("BSON field '$replaceRoot.{field}' is an unknown field."),
                        ));
                    }
                    root = Some(Expr::parse(value.get(), ctx)?);
                }
                Stage::Replace(root.ok_or_else(|| {
                    Error::new(
                        Code(40414),
                        "BSON field '$replaceRoot.newRoot' is missing but a required field",
                    )
                })?)
            }
            other if OTHER_STAGES.contains(&other) => {
                return Err(Error::new(
                    Code::INVALID_OPTIONS,
                    format!("{other} is not allowed to be used within an update"),
                ));
            }
            other => {
                return Err(Error::new(
                    Code(40324),
                    format!("Unrecognized pipeline stage name: '{other}'"),
                ));
            }
        })
    }
}
