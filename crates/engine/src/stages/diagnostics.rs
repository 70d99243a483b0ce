//! Shared code of stages that report on the server instead of reading a collection. They are first
//! in a pipeline. Their documents are made when the command begins, and the following stages read
//! them.

use super::pipeline::resolve;
use crate::args::Args;
use crate::query_stats::Names;
use crate::txn::Data;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// The server state that diagnostic stages may read, limited to what the client may see.
pub(crate) trait Server {
    /// The store and the catalog.
    fn data(&self) -> &Data;

    /// The database of the command.
    fn db(&self) -> &str;

    /// The running operations that the client may see, and idle connections if requested.
    fn operations(&self, idle: bool, own_only: bool) -> Vec<DocBuf>;

    /// The cursors that no command is using, as far as the client may see them.
    fn idle_cursors(&self, own_only: bool) -> Vec<DocBuf>;

    /// The sessions of the owners that the client may see.
    fn sessions(&self, owners: &SessionOwners) -> Vec<DocBuf>;

    /// The statistics of all query shapes.
    fn query_statistics(&self, names: &Names<'_>) -> Vec<DocBuf>;
}

/// The host name and port of the server.
pub(super) fn host(data: &Data) -> String {
    let port = data.options.listen.rsplit_once(':').map_or("27017", |(_, port)| port);
    format!("{}:{port}", crate::host::name())
}

/// Whose sessions to list.
pub(crate) enum SessionOwners {
    /// The client's own.
    Own,
    /// Those of all users.
    All,
    /// Those of users, each as `name@database`.
    Named(Vec<Box<str>>),
}

impl SessionOwners {
    /// Reads the options that both lists of sessions take.
    ///
    /// # Errors
    /// TypeMismatch; an unknown option.
    pub(super) fn parse(stage: &'static str, value: Val<'_>) -> Result<SessionOwners> {
        let Val::Document(doc) = value else {
            return Err(Error::type_mismatch(format!(
                "{stage} options must be specified in an object, but found: {}",
                value.kind().name()
            )));
        };
        let args = Args::new(stage, doc);
        args.check_fields(&["allUsers", "users"], false)?;
        if args.bool("allUsers")? {
            return Ok(SessionOwners::All);
        }
        let Some(users) = args.optional_array("users")? else { return Ok(SessionOwners::Own) };
        let users = users.into_iter().filter_map(|(_, user)| {
            let user = user.as_doc()?;
            let (name, db) = (user.get("user")?.as_str()?, user.get("db")?.as_str()?);
            Some(format!("{name}@{db}").into_boxed_str())
        });
        Ok(SessionOwners::Named(users.collect()))
    }
}

/// Returns the documents of a pipeline's first stage if it is diagnostic, and the other stages.
///
/// # Errors
/// When the stage is malformed or misplaced.
pub(crate) fn documents(
    server: &dyn Server,
    name: Option<&str>,
    pipeline: RawDoc<'_>,
) -> Result<Option<(Vec<DocBuf>, DocBuf)>> {
    let late = pipeline.iter().skip(1).filter_map(|(_, stage)| stage.as_doc()?.first());
    let is_diagnostic = |name: &&str| super::find(name).is_some_and(|row| row.diagnose().is_some());
    if let Some(stage) = late.map(|(name, _)| name).find(is_diagnostic) {
        return Err(not_first(stage));
    }
    let first = pipeline.first().and_then(|(_, stage)| stage.as_doc());
    let Some(stage) = first.filter(|stage| stage.count() == 1) else { return Ok(None) };
    let Some((stage, value)) = stage.first() else { return Ok(None) };
    let Some(row) = super::find(stage) else { return Ok(None) };
    let Some(make) = row.diagnose() else { return Ok(None) };
    let below;
    let mut name = name;
    if let Some(view) = name.filter(|_| !std::ptr::eq(row, &super::coll_stats::ROW)) {
        // A view with an empty pipeline is treated as its collection.
        let scope = server.data().newest();
        let catalog = &scope.catalog;
        let resolved = resolve(&scope, server.db(), Some(view), RawDoc::empty())?;
        let is_view = catalog.get(server.db(), view).is_some_and(|found| found.view().is_some());
        if is_view && !resolved.pipeline.as_doc().is_empty() {
            return Err(not_first(stage));
        }
        if let Some(collection) = resolved.collection.filter(|_| is_view) {
            below = collection.name.clone();
            name = Some(&below);
        }
    }
    let documents = make(server, value.get(), name)?;
    let mut rest = Vec::new();
    value::writer::write_array(&mut rest, |out| {
        pipeline.iter().skip(1).for_each(|(_, stage)| out.push_raw(stage));
    });
    Ok(Some((documents, DocBuf::from_bytes(rest))))
}

/// Reads the arguments of a stage that reports on the whole server.
pub(super) fn server_arguments<'v>(
    stage: &'static str,
    server: &dyn Server,
    value: Val<'v>,
    name: Option<&str>,
) -> Result<Args<'v>> {
    if name.is_some() || server.db() != "admin" {
        return Err(Error::new(
            Code::INVALID_NAMESPACE,
            format!("{stage} must be run against the 'admin' database with {{aggregate: 1}}"),
        ));
    }
    let Val::Document(doc) = value else {
        return Err(Error::failed_to_parse(format!("{stage} value must be an object")));
    };
    Ok(Args::new(stage, doc))
}

fn not_first(stage: &str) -> Error {
    Error::new(Code(40602), format!("{stage} is only valid as the first stage in a pipeline"))
}

pub(super) fn needs_collection<'n>(stage: &str, name: Option<&'n str>) -> Result<&'n str> {
    name.ok_or_else(|| {
        Error::new(
            Code::INVALID_NAMESPACE,
            format!("{{aggregate: 1}} is not valid for '{stage}'; a collection is required."),
        )
    })
}
