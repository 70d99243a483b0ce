//! Declarations of the kind `schemaVersion`.

use super::SchemaVersion;
use super::forms::{Forms, Migrate, Stages, number};
use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::paths;
use query::ParseContext;
use query::filter::Filter;
use query::update::Update;
use std::collections::BTreeMap;
use std::sync::Arc;
use value::{DocBuf, RawDoc, Result, Val};

pub(crate) fn parse(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let field = options.path("field")?.unwrap_or("schema_version");
    if field.contains('.') || field == "_id" {
        return Err(options.bad(format!(
            "'field' must be the name of a field of the document other than '_id', found '{field}'"
        )));
    }
    let version = options.positive("version")?.ok_or_else(|| options.missing("version"))? as i64;
    let from = match options.get("from") {
        None => version - 1,
        Some(number) => match number.as_i64_exact().filter(|_| number.is_number()) {
            Some(from @ 0..=1_000_000_000) => from,
            _ => return Err(options.bad("'from' must be a whole number from 0")),
        },
    };
    if from >= version {
        return Err(
            options.bad(format!("'from' must be less than 'version', found {from} and {version}"))
        );
    }
    let mut differs = vec![field.to_owned()];
    let up = options.array("up")?.ok_or_else(|| options.missing("up"))?;
    let stages_up = stages(options, "up", up, field, &mut differs)?;
    let down = options.array("down")?;
    let stages_down =
        down.map(|down| stages(options, "down", down, field, &mut differs)).transpose()?;
    if differs.iter().any(String::is_empty) {
        differs = vec![String::new()];
    }
    let contracted = options.boolean("contracted")?.unwrap_or(false);
    let validator = options.document("validator")?;
    let filter = validator.map(|validator| compiled(options, validator)).transpose()?;
    let clients = options.document("clients")?;
    let users = options.document("users")?;
    let lossy = lossy(options)?;
    options.choice("read", &["latest"], &["asStored"])?;
    let migrate = match options.choice("migrate", &["background", "onWrite", "none"], &[])? {
        "onWrite" => Migrate::OnWrite,
        "none" => Migrate::Never,
        _ => Migrate::Background,
    };
    options.choice("onError", &["quarantine"], &["reject"])?;
    options.choice("contract", &["manual"], &[])?;
    let kind = SchemaVersion {
        clients: versions(options, "clients", clients, (from, version))?,
        users: versions(options, "users", users, (from, version))?,
        forms: Arc::new(Forms {
            field: field.to_owned(),
            from,
            version,
            up: stages_up,
            down: stages_down.filter(|_| !contracted),
            contracted,
            validator: filter,
            differs,
            migrate,
            lossy: lossy.clone(),
        }),
        back: false,
    };
    let has_older = kind.clients.values().chain(kind.users.values()).any(|client| *client == from);
    if has_older && down.is_none() {
        return Err(options.bad(format!(
            "clients of version {from} ('clients', 'users') need 'down', which makes their form of \
             documents"
        )));
    }
    let declared = DocBuf::build(|out| {
        out.str("field", field).append("version", number(version)).append("from", number(from));
        out.append("up", Val::Array(up));
        out.append("down", down.map_or(Val::Missing, Val::Array));
        let documents = [("validator", validator), ("clients", clients), ("users", users)];
        for (name, doc) in documents {
            out.append(name, doc.map_or(Val::Missing, Val::Document));
        }
        if !lossy.is_empty() {
            out.array("lossy", |list| lossy.iter().for_each(|name| list.push(Val::String(name))));
        }
        out.str("read", "latest").str("migrate", migrate.name());
        out.str("onError", "quarantine").str("contract", "manual");
        if contracted {
            out.bool("contracted", true);
        }
    });
    Ok(Parsed { kind: Box::new(kind), target: collection.to_owned(), declared })
}

/// Compiles the stages of one direction. Adds the top-level fields that they change to `differs`, an
/// empty path if these may be all.
fn stages(
    options: &Options<'_>,
    name: &str,
    given: RawDoc<'_>,
    field: &str,
    differs: &mut Vec<String>,
) -> Result<Stages> {
    paths::check_deterministic(Val::Array(given), name)
        .map_err(|error| error.context(format!("{}: ", options.place)))?;
    for (at, stage) in given {
        let Some((operator, argument)) = stage.as_doc().and_then(RawDoc::first) else { continue };
        let mut changed: Vec<&str> = Vec::new();
        match (operator, argument.get()) {
            ("$set" | "$addFields", Val::Document(fields)) => {
                changed.extend(fields.iter().map(|(path, _)| path));
            }
            ("$unset", Val::String(path)) => changed.push(path),
            ("$unset", Val::Array(list)) => {
                changed.extend(list.iter().filter_map(|(_, path)| path.get().as_str()));
            }
            _ => changed.push(""),
        }
        for path in changed {
            let first = path.split('.').next().unwrap_or_default();
            if first == "_id" || first == field {
                return Err(options.bad(format!(
                    "'{name}.{at}' changes '{first}', which belongs to the database"
                )));
            }
            if !differs.iter().any(|known| known == first) {
                differs.push(first.to_owned());
            }
        }
    }
    let update = Update::parse(Val::Array(given), &ParseContext::new(0), &[]);
    update.map(Stages).map_err(|error| error.context(format!("{}: '{name}': ", options.place)))
}

fn compiled(options: &Options<'_>, validator: RawDoc<'_>) -> Result<Filter> {
    let named = |error: value::Error| error.context(format!("{}: ", options.place));
    paths::check_deterministic(Val::Document(validator), "validator").map_err(named)?;
    let context = ParseContext { lenient: true, ..ParseContext::new(0) };
    Filter::parse_for_documents(validator, &context)
        .map_err(|error| error.context(format!("{}: 'validator': ", options.place)))
}

/// The versions of clients, by their names.
fn versions(
    options: &Options<'_>,
    name: &str,
    given: Option<RawDoc<'_>>,
    (from, version): (i64, i64),
) -> Result<BTreeMap<String, i64>> {
    let mut versions = BTreeMap::new();
    for (client, number) in given.unwrap_or(RawDoc::empty()) {
        match number.get().as_i64_exact().filter(|_| number.get().is_number()) {
            Some(number) if number == from || number == version => {
                versions.insert(client.to_owned(), number);
            }
            _ => {
                return Err(options.bad(format!(
                    "'{name}.{client}' must be one of the versions {from} and {version}"
                )));
            }
        }
    }
    Ok(versions)
}

/// The fields of the version before that may be lost.
fn lossy(options: &mut Options<'_>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (_, name) in options.array("lossy")?.unwrap_or(RawDoc::empty()) {
        match name.get() {
            Val::String(name) if !name.is_empty() && !name.contains('.') => {
                names.push(name.to_owned());
            }
            _ => {
                return Err(options.bad("'lossy' must be an array of names of top-level fields"));
            }
        }
    }
    Ok(names)
}
