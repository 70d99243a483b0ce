//! Change streams as streams.

use super::super::{ChangeStream as Blocking, ResumeToken};
use super::pull::{Pull, Source};
use futures_core::Stream;
use serde::de::DeserializeOwned;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use value::Result;

/// The events of a change stream: a stream of `Result<E>` that waits for the next event.
///
/// ```
/// # use motifdb::asynchronous::Client;
/// # use motifdb::{OperationType, bson::{Document, doc}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> motifdb::Result<()> {
/// # let client = Client::in_memory().await?;
/// let orders = client.database("shop").collection::<Document>("orders");
/// let mut events = orders.watch().await?;
/// orders.insert_one(doc! {"_id": 1}).await?;
/// let event = events.try_next().await?.expect("it does not end");
/// assert_eq!(event.operation_type, OperationType::Insert);
/// # client.shutdown().await
/// # }
/// ```
#[must_use = "a change stream does nothing until it is polled"]
pub struct ChangeStream<E> {
    pull: Pull<Blocking<E>>,
    /// The newest known place.
    token: Option<ResumeToken>,
}

impl<E: 'static> ChangeStream<E> {
    pub(super) fn new(stream: Blocking<E>) -> ChangeStream<E> {
        ChangeStream { token: stream.resume_token(), pull: Pull::Idle(stream) }
    }

    /// The place after the newest event that was returned: for
    /// [`Watch::resume_after`](crate::Watch::resume_after).
    #[must_use]
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.token.clone()
    }
}

impl<E: DeserializeOwned + 'static> ChangeStream<E> {
    /// The next event; waits for it. `None` at the end of the stream. A future that is dropped
    /// loses no event.
    ///
    /// # Errors
    /// When the stream fails, or an event cannot be converted to `E`.
    pub async fn try_next(&mut self) -> Result<Option<E>> {
        std::future::poll_fn(|context| self.poll(context)).await.transpose()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<E>>> {
        let item = self.pull.poll(context);
        if let Some(stream) = self.pull.source() {
            self.token = stream.resume_token();
        }
        item
    }
}

impl<E: DeserializeOwned + 'static> Source for Blocking<E> {
    type Item = E;

    fn fetched(&mut self) -> Option<Option<Result<E>>> {
        match self.buffered().transpose() {
            Some(event) => Some(Some(event)),
            None if self.is_alive() => None,
            None => Some(None),
        }
    }

    fn fetch(&mut self) -> Result<()> {
        self.fetch()
    }
}

impl<E: DeserializeOwned + 'static> Stream for ChangeStream<E> {
    type Item = Result<E>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<E>>> {
        self.poll(context)
    }
}

impl<E> fmt::Debug for ChangeStream<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeStream").field("resume_token", &self.token).finish_non_exhaustive()
    }
}
