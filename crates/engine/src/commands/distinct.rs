//! `distinct`: returns the distinct values of a field.

use super::count::distinct;
use super::explain::Query;
use super::query::Find;
use super::row::{Explain, Kind, ReadConcerns, Reads, Required, Transactions};
use super::{Command, Context};
use ::access::Action;
use value::{Code, Result};

pub(super) static COMMAND: Command = Command {
    name: "distinct",
    help: "Returns the distinct values of a field.",
    fields: Some(&["distinct", "key", "query", "hint", "collation"]),
    by_uuid: true,
    privilege: Required::Collection(&[Action::Find]),
    transactions: Transactions::Allowed,
    read_concern: ReadConcerns::Snapshot,
    usage: Kind::Read,
    query_stats: true,
    reads: Reads::Collection,
    explain: Explain::Query(explained_distinct),
    mistyped_name: Code::INVALID_NAMESPACE,
    refuses_write_concern: true,
    run: distinct,
    ..Command::BASE
};

/// Returns the query for `explain`.
fn explained_distinct<'a>(context: &Context<'a>) -> Result<Query<'a>> {
    let args = &context.args;
    let filter = args.optional_doc("query")?;
    let values = Some(args.string("key")?);
    let find = Find { filter, hint: args.hint()?, values, ..Find::default() };
    Ok(Query { find, ..Query::default() })
}
