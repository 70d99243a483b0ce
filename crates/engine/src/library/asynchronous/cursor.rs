//! Results as a stream.

use super::super::Cursor as Blocking;
use super::pull::{Pull, Source};
use futures_core::Stream;
use futures_core::stream::FusedStream;
use serde::de::DeserializeOwned;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use value::Result;

/// The documents of a result: a stream of `Result<T>`.
///
/// It reads the data as of when it was opened. Dropping it closes it.
#[must_use = "a cursor does nothing until it is polled"]
pub struct Cursor<T>(Pull<Blocking<T>>);

impl<T: 'static> Cursor<T> {
    pub(super) fn new(cursor: Blocking<T>) -> Cursor<T> {
        Cursor(Pull::Idle(cursor))
    }
}

impl<T: DeserializeOwned + 'static> Cursor<T> {
    /// The next document. A future that is dropped loses none.
    ///
    /// # Errors
    /// When the next batch cannot be fetched, or a document cannot be converted to `T`.
    pub async fn try_next(&mut self) -> Result<Option<T>> {
        std::future::poll_fn(|context| self.0.poll(context)).await.transpose()
    }
}

impl<T: DeserializeOwned + 'static> Source for Blocking<T> {
    type Item = T;

    fn fetched(&mut self) -> Option<Option<Result<T>>> {
        if self.has_buffered() {
            return Some(self.next());
        }
        if self.is_open() { None } else { Some(None) }
    }

    fn fetch(&mut self) -> Result<()> {
        let result = Blocking::fetch(self, None);
        if result.is_err() {
            self.close();
        }
        result
    }
}

impl<T: DeserializeOwned + 'static> Stream for Cursor<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        self.0.poll(context)
    }
}

impl<T: DeserializeOwned + 'static> FusedStream for Cursor<T> {
    fn is_terminated(&self) -> bool {
        match &self.0 {
            Pull::Idle(cursor) => !cursor.is_open() && !cursor.has_buffered(),
            Pull::Fetching(_) => false,
            Pull::Ended => true,
        }
    }
}

impl<T> fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").finish_non_exhaustive()
    }
}
