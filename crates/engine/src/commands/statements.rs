//! The statements of a write command: from an array in the body or from a document sequence, and
//! how their errors are reported.

use super::Context;
use crate::metrics;
use crate::operation::Operation;
use crate::reply;
use value::{Code, Error, RawDoc, Result, Val, Writer, limits};

/// The statements of a write command.
pub struct Statements<'a> {
    documents: Vec<RawDoc<'a>>,
}

impl<'a> Statements<'a> {
    /// Reads the statements in `field`.
    ///
    /// # Errors
    /// When they are missing, are not documents, or are none or too many.
    pub fn of(context: &Context<'a>, field: &'static str) -> Result<Statements<'a>> {
        let mut documents = Vec::new();
        if let Some(array) = context.args.optional_array(field)? {
            for (at, element) in array {
                let Some(doc) = element.as_doc() else {
                    let name = format!("{field}.{at}");
                    return Err(context.args.wrong_type(&name, element.get(), "object"));
                };
                documents.push(doc);
            }
        } else if let Some(sequence) = context.request.sequences.iter().find(|s| s.name == field) {
            documents.extend(sequence.iter());
        } else {
            return Err(context.args.missing(field));
        }
        if documents.is_empty() || documents.len() > limits::WRITE_BATCH_MAX {
            return Err(Error::new(
                Code::INVALID_LENGTH,
                format!(
                    "Write batch sizes must be between 1 and {}. Got {} operations.",
                    limits::WRITE_BATCH_MAX,
                    documents.len()
                ),
            ));
        }
        Ok(Statements { documents })
    }

    /// The statements.
    #[must_use]
    pub fn documents(&self) -> &[RawDoc<'a>] {
        &self.documents
    }
}

/// The number of the first statement of a retryable write.
///
/// # Errors
/// When `stmtId` is not a number.
pub fn statement_id(body: RawDoc<'_>) -> Result<i32> {
    match body.get("stmtId") {
        None => Ok(0),
        Some(value) => value
            .as_i64_exact()
            .and_then(|n| i32::try_from(n).ok())
            .ok_or_else(|| Error::type_mismatch("stmtId must be a 32-bit number")),
    }
}

/// Whether the error of a statement fails the whole command. In a transaction every error aborts
/// the transaction; a write conflict also fails the command, so that the client retries.
#[must_use]
pub fn fails_command(op: &Operation, error: &Error) -> bool {
    if !op.is_in_transaction() {
        return matches!(
            error.code(),
            Code::TRANSACTION_TOO_OLD
                | Code::INCOMPLETE_TRANSACTION_HISTORY
                | Code::MAX_TIME_MS_EXPIRED
                | Code::INTERRUPTED
        );
    }
    op.fail_transaction();
    matches!(
        error.code(),
        Code::WRITE_CONFLICT
            | Code::NO_SUCH_TRANSACTION
            | Code::MAX_TIME_MS_EXPIRED
            | Code::INTERRUPTED
            | Code::TRANSACTION_TOO_LARGE
    )
}

/// Writes `writeErrors` if there are any.
pub fn write_errors(out: &mut Writer<'_>, errors: &[(usize, Error)]) {
    if errors.is_empty() {
        return;
    }
    out.array("writeErrors", |list| {
        for (index, error) in errors {
            list.push_doc(|out| reply::write_statement_error(out, *index, error));
        }
    });
}

/// Writes the `_id` that a value holds, wrapped as the session's history keeps it.
#[must_use]
pub fn wrapped(name: &str, value: Val<'_>) -> value::DocBuf {
    value::DocBuf::build(|out| {
        out.append(name, value);
    })
}

/// Counts an update of the running command, if it is one by a pipeline or with `arrayFilters`.
pub fn count_update(context: &Context<'_>, update: Option<Val<'_>>, has_array_filters: bool) {
    let by_pipeline = matches!(update, Some(Val::Array(_)));
    if !by_pipeline && !has_array_filters {
        return;
    }
    let runs = &context.engine.observed.metrics.runs;
    let Some(runs) = super::place(context.name).and_then(|place| runs.of(place)) else { return };
    metrics::add(&runs.pipelines, u64::from(by_pipeline));
    metrics::add(&runs.array_filters, u64::from(has_array_filters));
}
