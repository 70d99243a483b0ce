//! Shared code of commands that search for documents: variables, filters, and opening a find.

use super::Context;
use crate::args::Args;
use crate::catalog::{Catalog, Collection};
use crate::exec::find::{Escape, FindOptions, FindStream, RecordForm};
use crate::exec::metadata::Metadata;
use crate::exec::scan::Scan;
use crate::operation::Operation;
use crate::planner::explain::is_count_scan;
use crate::planner::logical::{
    self, Answer, CountQuery, Decision, Fired, Needs, PatternQuery, RuleId,
};
use crate::planner::min_max::MinMax;
use crate::planner::request::refuse_index_with_natural;
pub use crate::planner::request::{mentions_meta, no_distance, no_score, no_sort, parse_sort};
use crate::planner::{self, Access, Plan, Question};
use crate::stages::Scope;
use crate::upkeep::rewriting::Rewrites;
use crate::upkeep::staleness::Staleness;
use bumpalo::Bump;
use patterns::layout::Slice;
use query::expr::{Env, Expr};
use query::filter::Filter;
use query::project::{Mode, Projection};
use query::sort::SortSpec;
use query::{Javascript, ParseContext};
use std::sync::Arc;
use store::Snapshot;
use value::collation::CollationSource;
use value::{Code, Collation, DocBuf, Error, RawDoc, Result, Val};

/// The option that keeps empty timestamps: tools that copy data send it.
pub(super) const KEEP_TIMESTAMPS: &str = "bypassEmptyTsReplacement";

/// The constants of a request: its clock and the values of `let`.
#[derive(Clone)]
pub struct Constants {
    now_ms: i64,
    cluster_time: u64,
    variables: DocBuf,
    collation: Option<Arc<Collation>>,
    javascript: Javascript,
    keeps_empty_timestamps: bool,
}

impl Constants {
    /// Evaluates `let`, and resolves the collation: the command's own, or else that of its
    /// collection.
    ///
    /// # Errors
    /// Errors of the expressions of `let`, or a malformed collation.
    pub fn new(context: &Context<'_>) -> Result<Constants> {
        let name = context.args.doc.first().and_then(|(_, name)| name.get().as_str());
        let collation = collation(context, name, &context.args)?;
        let constants = Constants::with_let(context, context.args.optional_doc("let")?)?;
        Ok(Constants { collation, ..constants })
    }

    /// As `new`, without the collection's collation: a change stream compares bytes unless the
    /// command has a collation.
    ///
    /// # Errors
    /// As `new`.
    pub fn of_change_stream(context: &Context<'_>) -> Result<Constants> {
        let collation = collation(context, None, &context.args)?;
        let constants = Constants::with_let(context, context.args.optional_doc("let")?)?;
        Ok(Constants { collation, ..constants })
    }

    /// As `new`, for a command that writes documents: reads `bypassEmptyTsReplacement`, too.
    ///
    /// # Errors
    /// As `new`; TypeMismatch for the option.
    pub fn of_writes(context: &Context<'_>) -> Result<Constants> {
        let keeps_empty_timestamps = context.args.bool(KEEP_TIMESTAMPS)?;
        Ok(Constants { keeps_empty_timestamps, ..Constants::new(context)? })
    }

    /// The constants of one statement in a batch, with its own collation or else the collection's.
    ///
    /// # Errors
    /// A malformed collation.
    pub fn of_statement(
        &self,
        context: &Context<'_>,
        name: &str,
        statement: &Args<'_>,
    ) -> Result<Constants> {
        let collation = collation(context, Some(name), statement)?;
        Ok(Constants { collation, ..self.clone() })
    }

    /// The collation for comparing text; `None` compares bytes.
    #[must_use]
    pub fn collation(&self) -> Option<&Arc<Collation>> {
        self.collation.as_ref()
    }

    /// Takes the given variables as values, not as expressions.
    ///
    /// # Errors
    /// 17275 for the name of a variable of the server.
    pub fn with_values(context: &Context<'_>, variables: RawDoc<'_>) -> Result<Constants> {
        const OF_SERVER: &[&str] =
            &["NOW", "CLUSTER_TIME", "JS_SCOPE", "IS_MR", "ROOT", "REMOVE", "USER_ROLES"];
        if variables.iter().any(|(name, _)| OF_SERVER.contains(&name)) {
            return Err(Error::new(Code(17275), "Can't redefine a non-user-writable variable"));
        }
        Ok(Constants { variables: variables.into(), ..Constants::with_let(context, None)? })
    }

    /// Evaluates the given variables.
    ///
    /// # Errors
    /// Errors of their expressions.
    pub fn with_let(context: &Context<'_>, variables: Option<RawDoc<'_>>) -> Result<Constants> {
        let mut constants = Constants {
            now_ms: crate::clock::now_ms(),
            cluster_time: context.engine.data.clock.now(),
            variables: DocBuf::new(),
            collation: None,
            javascript: context.javascript(),
            keeps_empty_timestamps: false,
        };
        let Some(variables) = variables.filter(|doc| !doc.is_empty()) else {
            return Ok(constants);
        };
        let arena = Bump::new();
        for (name, value) in variables {
            if matches!(name, "NOW" | "CLUSTER_TIME" | "JS_SCOPE" | "IS_MR") {
                return Err(Error::new(
                    Code(4_738_901),
                    format!("Attempt to set internal constant: {name}"),
                ));
            }
            query::expr::check_variable_name(name)?;
            let expr = Expr::parse(value.get(), &constants.context())?;
            let mut fields = Vec::new();
            if !expr.top_level_fields(&mut fields) || !fields.is_empty() {
                return Err(Error::new(
                    Code(4_890_500),
                    "Command let Expression does not represent a constant: there is no document",
                ));
            }
            let result = expr.eval(&Env::new(RawDoc::empty(), &arena))?;
            let result = if result.is_missing() { Val::Null } else { result };
            // The variables that follow can use it.
            constants.variables = DocBuf::build(|out| {
                out.extend(constants.variables.as_doc());
                out.append(name, result);
            });
        }
        Ok(constants)
    }

    /// The same with global variables for functions in JavaScript.
    #[must_use]
    pub(super) fn with_scope(self, scope: Option<RawDoc<'_>>) -> Constants {
        let Some(scope) = scope else { return self };
        let variables = DocBuf::build(|out| {
            out.extend(self.variables.as_doc());
            out.append("JS_SCOPE", Val::Document(scope));
        });
        Constants { variables, ..self }
    }

    /// Converts to the form that the language's compilers take.
    #[must_use]
    pub fn context(&self) -> ParseContext<'_> {
        ParseContext {
            now_ms: self.now_ms,
            cluster_time: self.cluster_time,
            variables: self.variables.as_doc(),
            deferred: &[],
            collation: self.collation.as_ref(),
            lenient: false,
            javascript: self.javascript,
            keeps_empty_timestamps: self.keeps_empty_timestamps,
        }
    }
}

/// The collation of an operation: its own, or else the collection's. A view's collation cannot be
/// overridden.
fn collation(
    context: &Context<'_>,
    name: Option<&str>,
    args: &Args<'_>,
) -> Result<Option<Arc<Collation>>> {
    let own = match args.optional_doc("collation")? {
        Some(doc) if !doc.is_empty() => Some(Collation::parse(doc, CollationSource::Command)?),
        _ => None,
    };
    let catalog = context.catalog();
    let collection = name.and_then(|name| catalog.get(context.db, name));
    let default = collection.and_then(|collection| collection.collation.as_ref());
    let Some(own) = own else { return Ok(default.cloned()) };
    if collection.is_some_and(|collection| collection.view().is_some()) && own.as_ref() != default {
        return Err(Error::new(
            Code::OPTION_NOT_SUPPORTED_ON_VIEW,
            "Cannot override a view's default collation",
        ));
    }
    Ok(own)
}

/// Whether patterns may answer a query. They may not if the query prescribes how it is answered, or
/// reads a past state in which they may not have been ready.
///
/// # Errors
/// When `rewrite` is not a boolean.
pub fn rewrites<'q>(
    context: &'q Context<'_>,
    constants: &Constants,
    scope: &'q Scope,
    hint: Option<Val<'_>>,
) -> Result<Option<Rewrites<'q>>> {
    let wanted = context.args.get("rewrite").is_none() || context.args.bool("rewrite")?;
    let now = context.op.reads_newest() || context.op.is_in_transaction();
    let plain = hint.is_none() && constants.collation().is_none();
    Ok((wanted && now && plain).then(|| Rewrites::new(scope, context.db)))
}

/// Returns the rewrites of a query that is explained: patterns that do not answer are listed with
/// the reason.
///
/// # Errors
/// When `rewrite` is not a boolean.
pub fn explained_rewrites<'q>(
    context: &'q Context<'_>,
    constants: &Constants,
    scope: &'q Scope,
    hint: Option<Val<'_>>,
) -> Result<Rewrites<'q>> {
    let wanted = context.args.get("rewrite").is_none() || context.args.bool("rewrite")?;
    let barred = if !wanted {
        Some("the query says rewrite: false")
    } else if hint.is_some() {
        Some("the query has a hint")
    } else if constants.collation().is_some() {
        Some("the query has a collation")
    } else if !(context.op.reads_newest() || context.op.is_in_transaction()) {
        Some("the query reads the past")
    } else {
        None
    };
    Ok(Rewrites::explained(scope, context.db, barred))
}

/// The parameters of a find.
#[derive(Clone, Copy, Default)]
pub struct Find<'a> {
    /// The filter.
    pub filter: Option<RawDoc<'a>>,
    /// The sort.
    pub sort: Option<RawDoc<'a>>,
    /// The projection.
    pub projection: Option<RawDoc<'a>>,
    /// The index to use.
    pub hint: Option<Val<'a>>,
    /// The number of documents to skip.
    pub skip: u64,
    /// The maximum number of documents to return.
    pub limit: Option<u64>,
    /// `min` and `max`: bounds on the index of the hint.
    pub bounds: MinMax<'a>,
    /// `showRecordId`: whether the record key is added to each document.
    pub show_record: bool,
    /// Whether index keys are returned instead of documents.
    pub return_key: bool,
    /// Whether documents are only counted.
    pub counts: bool,
    /// The field of which only distinct values are needed.
    pub values: Option<&'a str>,
    /// The paths that are read of the documents, besides those of the filter and the sort; `None` for
    /// what the projection returns.
    pub needed: Option<&'a [String]>,
    /// The arrays of which the head is enough.
    pub heads: &'a [String],
    /// The array of which only these elements are needed.
    pub slice: Option<&'a Slice>,
}

/// A find with compiled parts and a chosen plan.
pub struct Opened {
    /// The plan.
    pub plan: Plan,
    /// The stream of documents.
    pub stream: FindStream,
    /// The compiled sort.
    pub sort: Option<SortSpec>,
    /// The column of the index with the distinct values, if one entry for each is enough.
    pub column: Option<usize>,
    /// Whether the entries of the index need only be counted.
    pub counts_entries: bool,
    /// The rules that chose how it reads.
    pub fired: Fired,
}

impl Find<'_> {
    /// Returns the filter that a pattern substitutes for this one, and the rule for it.
    ///
    /// # Errors
    /// When the store fails.
    pub fn rewritten(
        &self,
        rewrites: Option<&mut Rewrites<'_>>,
        collection: &Collection,
    ) -> Result<Option<(DocBuf, RuleId)>> {
        let plain = self.bounds.is_empty() && !self.return_key;
        let (Some(rewrites), Some(filter), true) = (rewrites, self.filter, plain) else {
            return Ok(None);
        };
        let most = self.limit.map(|limit| limit.saturating_add(self.skip));
        let asked = PatternQuery::Filter { collection, filter, sort: self.sort, most };
        Ok(match logical::answer(Some(rewrites), &asked)? {
            Some((Answer::Filter(filter), rule)) => Some((filter, rule)),
            _ => None,
        })
    }

    /// Returns the number of matching documents if a pattern counts them, and the rule for it.
    ///
    /// # Errors
    /// When the store fails.
    pub fn counted(
        &self,
        rewrites: Option<&mut Rewrites<'_>>,
        collection: &Collection,
    ) -> Result<Option<(u64, RuleId)>> {
        let (Some(rewrites), Some(filter)) = (rewrites, self.filter) else { return Ok(None) };
        Ok(match logical::answer(Some(rewrites), &PatternQuery::Count { collection, filter })? {
            Some((Answer::Count(count), rule)) => Some((count, rule)),
            _ => None,
        })
    }

    /// Compiles the parts, chooses a plan and records it in the operation.
    ///
    /// # Errors
    /// Errors of parts that do not compile.
    pub fn open(
        &self,
        constants: &Constants,
        collection: &Arc<Collection>,
        snapshot: &Snapshot,
        op: &Operation,
    ) -> Result<Opened> {
        let context = constants.context();
        let filter = Arc::new(Filter::parse(self.filter.unwrap_or(RawDoc::empty()), &context)?);
        let (sort, natural) = parse_sort(self.sort, constants.collation())?;
        let projection =
            parse_projection(self.projection, self.filter.unwrap_or(RawDoc::empty()), &context)?;
        self.check_score(&filter, sort.as_ref())?;
        check_natural(self.hint, natural)?;
        let hint = self.hint.or(natural);
        let question = Question {
            collection,
            filter: &filter,
            sort: sort.as_ref(),
            hint,
            snapshot,
            projection: self.projection,
            written: self.filter.or(Some(RawDoc::empty())),
        };
        let asks = |keyword| self.asks_for(keyword);
        let near = asks("geoNearDistance") || asks("geoNearPoint");
        let shows =
            near || asks("sortKey") || asks("indexKey") || asks("recordId") || asks("patterns");
        let needs = match self.values {
            Some(path) => Needs::Values(path),
            None if self.counts => Needs::Count,
            None if self.return_key && !shows => Needs::Keys,
            None if self.return_key || self.show_record || shows => Needs::Documents,
            None => Needs::Projection(projection.as_deref()),
        };
        let decision = logical::decide(&question, &needs, self.bounds)?;
        let Decision { plan, column, counts_entries, fired, .. } = decision;
        let stage = match column {
            Some(_) => "DISTINCT_SCAN",
            None if counts_entries && is_count_scan(&plan.access) => "COUNT_SCAN",
            None => "IXSCAN",
        };
        plan.note_in(&question, stage, op);
        let scan = Scan::new(snapshot.clone(), collection.clone(), &plan.access);
        // The natural order is that of the `_id` index, so a sort by it has its keys.
        let by_id = sort.is_some() && plan.sorted && collection.capped().is_none();
        let keys_of = |access: &Access| match access {
            Access::Collection(_) if by_id => Access::Id(Vec::new()),
            access => access.clone(),
        };
        let options = |access: &Access| FindOptions {
            filter: (!filter.is_empty()).then(|| filter.clone()),
            sort: sort.clone(),
            skip: self.skip,
            limit: self.limit,
            projection: projection.clone(),
            show_record: self.record_form(collection),
            return_key: self.return_key.then(|| keys_of(access)),
            metadata: Metadata {
                // The natural order has no keys.
                sort: asks("sortKey").then(|| sort.clone().unwrap_or_default()),
                access: asks("indexKey").then(|| keys_of(access)),
                record: asks("recordId").then(|| collection.clone()),
                patterns: asks("patterns").then(|| Staleness::new(collection, snapshot)),
                near: near.then(|| filter.clone()),
            },
            needed: match self.values {
                Some(path) => Some(vec![path.to_owned()]),
                None if self.counts => Some(Vec::new()),
                None => self.needed.map(<[String]>::to_vec),
            },
            heads: self.heads.to_vec(),
            slice: self.slice.cloned(),
            escape: None,
        };
        let fallback = planner::fallback(&question, &plan).filter(|_| self.bounds.is_empty());
        let escape = fallback.map(|(most, other)| {
            let options = options(&other.access);
            let (snapshot, collection) = (snapshot.clone(), collection.clone());
            let shape = question.shape();
            let begin = move || {
                collection.counters.plans.forget(shape);
                let scan = Scan::new(snapshot, collection, &other.access);
                FindStream::new(scan, &other, options)
            };
            Escape { most, begin: Box::new(begin) }
        });
        let options = FindOptions { escape, ..options(&plan.access) };
        let stream = FindStream::new(scan, &plan, options);
        Ok(Opened { plan, stream, sort, column, counts_entries, fired })
    }

    /// Returns the rule by which the counters of the collection answer this as a count.
    pub(super) fn counts_from_counters(
        &self,
        context: &Context<'_>,
        collection: &Collection,
    ) -> Option<RuleId> {
        let is_of_all = self.filter.is_none_or(RawDoc::is_empty) && self.hint.is_none();
        let reads_newest = context.op.reads_newest();
        logical::counts_from_counters(&CountQuery { collection, is_of_all, reads_newest })
    }

    fn record_form(&self, collection: &Collection) -> Option<RecordForm> {
        let form =
            if collection.capped().is_some() { RecordForm::Number } else { RecordForm::Bytes };
        (self.show_record && !self.return_key).then_some(form)
    }

    /// Compiles the parts only, where there is no collection, to report their errors.
    ///
    /// # Errors
    /// Errors of parts that do not compile.
    pub fn check(&self, constants: &Constants) -> Result<()> {
        let context = constants.context();
        let filter = Filter::parse(self.filter.unwrap_or(RawDoc::empty()), &context)?;
        let (sort, natural) = parse_sort(self.sort, constants.collation())?;
        check_natural(self.hint, natural)?;
        parse_projection(self.projection, self.filter.unwrap_or(RawDoc::empty()), &context)?;
        self.check_score(&filter, sort.as_ref())?;
        match filter.text() {
            Some(_) => Err(query::text::query::no_index()),
            None => Ok(()),
        }
    }

    /// Refuses to show or sort by a text score where there is no text search.
    fn check_score(&self, filter: &Filter, sort: Option<&SortSpec>) -> Result<()> {
        let by_distance = sort.is_some_and(SortSpec::needs_distance);
        let by_score = sort.is_some_and(SortSpec::needs_score) && !by_distance;
        if (by_score || self.asks_for("textScore")) && filter.text().is_none() {
            return Err(no_score());
        }
        let keyword = ["geoNearDistance", "geoNearPoint"].into_iter().find(|keyword| {
            self.asks_for(keyword) || (by_distance && *keyword == "geoNearDistance")
        });
        if let Some(keyword) = keyword.filter(|_| filter.near().is_none()) {
            return Err(no_distance(keyword));
        }
        if self.asks_for("sortKey") && self.sort.is_none_or(RawDoc::is_empty) {
            return Err(no_sort());
        }
        Ok(())
    }

    /// Whether the projection has `$meta`.
    fn asks_for(&self, keyword: &str) -> bool {
        self.projection.is_some_and(|doc| mentions_meta(doc, &[keyword], 0))
    }
}

/// Refuses a hint of the natural order with other fields, or against the sort.
fn check_natural(hint: Option<Val<'_>>, sort: Option<Val<'_>>) -> Result<()> {
    refuse_index_with_natural(hint, sort)?;
    let Some(Val::Document(hint)) = hint else { return Ok(()) };
    let Some(direction) = hint.get("$natural") else { return Ok(()) };
    if hint.count() > 1 {
        let hint = query::expr::show_doc(hint);
        return Err(Error::bad_value(format!(
            "Cannot include '$natural' in compound hint: {hint}"
        )));
    }
    let sort = sort.and_then(Val::as_doc).and_then(|sort| sort.get("$natural"));
    let backwards = |direction: Val<'_>| direction.as_f64().is_some_and(|n| n < 0.0);
    if sort.is_some_and(|sort| backwards(sort) != backwards(direction)) {
        return Err(Error::bad_value(
            "$natural hint must be in the same direction as $natural sort order",
        ));
    }
    Ok(())
}

fn parse_projection(
    projection: Option<RawDoc<'_>>,
    filter: RawDoc<'_>,
    context: &ParseContext<'_>,
) -> Result<Option<Arc<Projection>>> {
    let Some(projection) = projection.filter(|doc| !doc.is_empty()) else { return Ok(None) };
    let projection = Projection::parse(projection, context, Mode::Find)?;
    if projection.needs_position() {
        refuse_beside_position(filter)?;
    }
    Ok((!projection.is_identity()).then(|| Arc::new(projection)))
}

/// Refuses conditions of a filter that say nothing of an array element, beside a positional
/// projection.
///
/// # Errors
/// QueryFeatureNotAllowed, BadValue and 5626500, by the kind of the condition.
pub(super) fn refuse_beside_position(filter: RawDoc<'_>) -> Result<()> {
    for (name, value) in filter {
        let (code, what) = match (name, value.get()) {
            ("$and" | "$or" | "$nor", Val::Array(parts)) => {
                for (_, part) in parts {
                    refuse_beside_position(part.as_doc().unwrap_or(RawDoc::empty()))?;
                }
                continue;
            }
            ("$expr" | "$jsonSchema", _) => (Code(224), format!("{name} is")),
            ("$text" | "$where", _) => (Code::BAD_VALUE, format!("{name} is")),
            (_, Val::Document(tests))
                if ["$near", "$nearSphere", "$geoNear"]
                    .iter()
                    .any(|near| tests.find(near).is_some()) =>
            {
                (Code(5_626_500), "$geoNear, $near, and $nearSphere are".to_owned())
            }
            _ => continue,
        };
        return Err(Error::new(code, format!("{what} not allowed in this context")));
    }
    Ok(())
}

/// Returns the collection of this name for writing; refuses views.
///
/// # Errors
/// CommandNotSupportedOnView.
pub fn writable(catalog: &Catalog, db: &str, name: &str) -> Result<Option<Arc<Collection>>> {
    catalog.check(db, name)?;
    match catalog.get(db, name) {
        Some(collection) if collection.view().is_some() => Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {db}.{name} is a view, not a collection"),
        )),
        found => Ok(found.cloned()),
    }
}
