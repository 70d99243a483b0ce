//! Awaiting builders: their `run` is called on a thread for blocking work.

use super::super::{
    AbortTransaction, Aggregate, ClientSession, CommitTransaction, CountDocuments,
    CreateCollection, CreateIndex, CreatePatterns, Delete, DeleteResult, Distinct, DropPatterns,
    Find, FindOne, FindOneAndDelete, FindOneAndUpdate, InsertMany, InsertManyResult, InsertOne,
    InsertOneResult, ModifyPattern, PatternCheck, ResumePatterns, StartSession, StartTransaction,
    SuspendPatterns, Update, UpdateResult, ValidatePatterns, Watch,
};
use super::{ChangeStream, Cursor};
use bson::Bson;
use serde::de::DeserializeOwned;
use std::future::{IntoFuture, Ready};
use std::pin::Pin;
use tokio::runtime::Handle;
use value::{Code, Error, Result};

/// A future of a result.
pub(super) type Outcome<R> = Pin<Box<dyn Future<Output = Result<R>> + Send>>;

/// Runs work on a thread for blocking work.
pub(super) async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    let runtime = Handle::try_current().map_err(|_| {
        Error::new(Code::ILLEGAL_OPERATION, "the asynchronous library needs a Tokio runtime")
    })?;
    match runtime.spawn_blocking(work).await {
        Ok(result) => result,
        Err(failure) => match failure.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::new(
                Code::SHUTDOWN_IN_PROGRESS,
                "the Tokio runtime ended before the operation began",
            )),
        },
    }
}

/// Makes builders awaitable.
macro_rules! awaitable {
    ($($builder:ty => $result:ty,)*) => {
        $(impl IntoFuture for $builder {
            type Output = Result<$result>;
            type IntoFuture = Outcome<$result>;

            fn into_future(self) -> Outcome<$result> {
                Box::pin(blocking(move || self.run()))
            }
        })*
    };
}

awaitable! {
    AbortTransaction => (),
    CommitTransaction => (),
    CountDocuments => u64,
    CreateCollection => (),
    CreateIndex => String,
    CreatePatterns => (),
    Delete => DeleteResult,
    Distinct => Vec<Bson>,
    DropPatterns => (),
    InsertMany => InsertManyResult,
    InsertOne => InsertOneResult,
    ModifyPattern => (),
    ResumePatterns => (),
    StartSession => ClientSession,
    SuspendPatterns => (),
    Update => UpdateResult,
    ValidatePatterns => Vec<PatternCheck>,
}

/// Makes builders awaitable that return a document.
macro_rules! awaitable_document {
    ($($builder:ident,)*) => {
        $(impl<T: DeserializeOwned + Send + 'static> IntoFuture for $builder<T> {
            type Output = Result<Option<T>>;
            type IntoFuture = Outcome<Option<T>>;

            fn into_future(self) -> Outcome<Option<T>> {
                Box::pin(blocking(move || self.run()))
            }
        })*
    };
}

awaitable_document! {
    FindOne,
    FindOneAndDelete,
    FindOneAndUpdate,
}

/// Makes builders awaitable that return a stream.
macro_rules! awaitable_stream {
    ($($builder:ident => $stream:ident,)*) => {
        $(impl<T: 'static> IntoFuture for $builder<T> {
            type Output = Result<$stream<T>>;
            type IntoFuture = Outcome<$stream<T>>;

            fn into_future(self) -> Outcome<$stream<T>> {
                Box::pin(blocking(move || self.run().map($stream::new)))
            }
        })*
    };
}

awaitable_stream! {
    Find => Cursor,
    Aggregate => Cursor,
    Watch => ChangeStream,
}

/// It only notes the options, so that it needs no other thread.
impl IntoFuture for StartTransaction<'_> {
    type Output = Result<()>;
    type IntoFuture = Ready<Result<()>>;

    fn into_future(self) -> Ready<Result<()>> {
        std::future::ready(self.run())
    }
}
