//! What commands that look for documents share: variables, filters, and opening a find.

use super::Context;
use super::args::Args;
use crate::catalog::{Catalog, Collection};
use crate::exec::find::{FindOptions, FindStream, RecordForm};
use crate::exec::scan::Scan;
use crate::planner::min_max::MinMax;
use crate::planner::{self, Plan, Question};
use bumpalo::Bump;
use query::ParseContext;
use query::expr::{Env, Expr};
use query::filter::Filter;
use query::project::{Mode, Projection};
use query::sort::SortSpec;
use std::sync::Arc;
use store::Snapshot;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// The constants of a request: its clock and the values of `let`.
pub struct Constants {
    now_ms: i64,
    cluster_time: u64,
    variables: DocBuf,
}

impl Constants {
    /// Evaluates `let`.
    ///
    /// # Errors
    /// What its expressions give.
    pub fn new(context: &Context<'_>) -> Result<Constants> {
        Constants::with_let(context, context.args.optional_doc("let")?)
    }

    /// Evaluates given variables.
    ///
    /// # Errors
    /// What their expressions give.
    pub fn with_let(context: &Context<'_>, variables: Option<RawDoc<'_>>) -> Result<Constants> {
        let mut constants = Constants {
            now_ms: crate::clock::now_ms(),
            cluster_time: context.engine.clock.now(),
            variables: DocBuf::new(),
        };
        let Some(variables) = variables.filter(|doc| !doc.is_empty()) else {
            return Ok(constants);
        };
        let arena = Bump::new();
        let mut evaluated = Vec::new();
        let mut writer = value::Writer::start(&mut evaluated);
        for (name, value) in variables {
            let expr = Expr::parse(value.get(), &constants.context())?;
            let result = expr.eval(&Env::new(RawDoc::empty(), &arena))?;
            let result = if result.is_missing() { Val::Null } else { result };
            writer.append(name, result);
        }
        writer.finish();
        constants.variables = DocBuf::from_bytes(evaluated);
        Ok(constants)
    }

    /// The form that the language's compilers take.
    #[must_use]
    pub fn context(&self) -> ParseContext<'_> {
        ParseContext {
            now_ms: self.now_ms,
            cluster_time: self.cluster_time,
            variables: self.variables.as_doc(),
            collation: None,
        }
    }
}

/// Refuses a collation other than the simple one.
///
/// # Errors
/// NotImplemented.
pub fn check_collation(args: &Args<'_>) -> Result<()> {
    let Some(collation) = args.optional_doc("collation")? else { return Ok(()) };
    match collation.get("locale") {
        Some(Val::String("simple")) => Ok(()),
        None if collation.is_empty() => Ok(()),
        _ => Err(Error::new(
            Code::NOT_IMPLEMENTED,
            "collations other than {locale: \"simple\"} are not available in this version",
        )),
    }
}

/// What a find asks for.
#[derive(Clone, Copy, Default)]
pub struct Find<'a> {
    /// Which documents.
    pub filter: Option<RawDoc<'a>>,
    /// In which order.
    pub sort: Option<RawDoc<'a>>,
    /// What is returned of each.
    pub projection: Option<RawDoc<'a>>,
    /// Which index to use.
    pub hint: Option<Val<'a>>,
    /// How many are passed over.
    pub skip: u64,
    /// How many are returned.
    pub limit: Option<u64>,
    /// Bounds on the index of the hint.
    pub bounds: MinMax<'a>,
    /// Whether the key of its record is added to each document.
    pub show_record: bool,
    /// Whether index keys are returned instead of documents.
    pub return_key: bool,
}

/// A find with its parts compiled and its plan chosen.
pub struct Opened {
    /// The compiled filter.
    pub filter: Arc<Filter>,
    /// The plan.
    pub plan: Plan,
    /// The documents.
    pub stream: FindStream,
    /// The compiled sort.
    pub sort: Option<SortSpec>,
}

impl Find<'_> {
    /// Compiles the parts and chooses a plan.
    ///
    /// # Errors
    /// What a part gives that is not understood.
    pub fn open(
        &self,
        constants: &Constants,
        collection: &Arc<Collection>,
        snapshot: &Snapshot,
    ) -> Result<Opened> {
        let context = constants.context();
        let filter = Arc::new(Filter::parse(self.filter.unwrap_or(RawDoc::empty()), &context)?);
        let (sort, natural) = parse_sort(self.sort)?;
        let projection = parse_projection(self.projection, &context)?;
        let hint = self.hint.or(natural);
        let question =
            Question { collection, filter: &filter, sort: sort.as_ref(), hint, snapshot };
        let plan = match self.bounds.is_empty() {
            true => planner::plan(&question)?,
            false => self.bounds.plan(&question)?,
        };
        let scan = Scan::new(snapshot.clone(), collection.clone(), &plan.access);
        let options = FindOptions {
            filter: (!filter.is_empty()).then(|| filter.clone()),
            sort: sort.clone(),
            skip: self.skip,
            limit: self.limit,
            projection,
            show_record: self.record_form(collection),
            return_key: self.return_key.then(|| plan.access.clone()),
        };
        let stream = FindStream::new(scan, &plan, options);
        Ok(Opened { filter, plan, stream, sort })
    }

    fn record_form(&self, collection: &Collection) -> Option<RecordForm> {
        let form =
            if collection.capped().is_some() { RecordForm::Number } else { RecordForm::Bytes };
        (self.show_record && !self.return_key).then_some(form)
    }

    /// Compiles the parts only, where there is no collection: their errors count all the same.
    ///
    /// # Errors
    /// What a part gives that is not understood.
    pub fn check(&self, constants: &Constants) -> Result<()> {
        let context = constants.context();
        Filter::parse(self.filter.unwrap_or(RawDoc::empty()), &context)?;
        parse_sort(self.sort)?;
        parse_projection(self.projection, &context)?;
        Ok(())
    }
}

/// A sort specification, or the natural order in the form of a hint.
pub fn parse_sort(sort: Option<RawDoc<'_>>) -> Result<(Option<SortSpec>, Option<Val<'_>>)> {
    let Some(sort) = sort.filter(|sort| !sort.is_empty()) else { return Ok((None, None)) };
    if let Some(direction) = sort.get("$natural") {
        if sort.count() > 1 || !matches!(direction.as_f64(), Some(n) if n == 1.0 || n == -1.0) {
            return Err(Error::bad_value(
                "$natural sort cannot be set to a value other than -1 or 1.",
            ));
        }
        return Ok((None, Some(Val::Document(sort))));
    }
    Ok((Some(SortSpec::parse(sort)?), None))
}

fn parse_projection(
    projection: Option<RawDoc<'_>>,
    context: &ParseContext<'_>,
) -> Result<Option<Arc<Projection>>> {
    let Some(projection) = projection.filter(|doc| !doc.is_empty()) else { return Ok(None) };
    let projection = Projection::parse(projection, context, Mode::Find)?;
    Ok((!projection.is_identity()).then(|| Arc::new(projection)))
}

/// The collection of this name for writing; views are refused.
///
/// # Errors
/// CommandNotSupportedOnView.
pub fn writable(catalog: &Catalog, db: &str, name: &str) -> Result<Option<Arc<Collection>>> {
    match catalog.get(db, name) {
        Some(collection) if collection.view().is_some() => Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {db}.{name} is a view, not a collection"),
        )),
        found => Ok(found.cloned()),
    }
}
