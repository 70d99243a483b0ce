//! A stream of what a blocking source has, batch by batch: what is fetched is returned at once,
//! more is fetched on a thread for blocking work.

use super::action::{Outcome, blocking};
use std::task::{Context, Poll, ready};
use value::Result;

/// Something that has items, and can fetch more of them.
pub(super) trait Source: Send + Unpin + 'static {
    /// What it returns.
    type Item;

    /// The next item of those that were fetched, or `Some(None)` at the end; `None` if more must be
    /// fetched.
    fn fetched(&mut self) -> Option<Option<Result<Self::Item>>>;

    /// Fetches more. It may block.
    fn fetch(&mut self) -> Result<()>;
}

/// A source, and where it is.
pub(super) enum Pull<S> {
    /// Here.
    Idle(S),
    /// On another thread, which fetches.
    Fetching(Outcome<(S, Result<()>)>),
    /// Lost with the thread.
    Ended,
}

impl<S: Source> Pull<S> {
    /// The source, while it does not fetch.
    pub(super) fn source(&self) -> Option<&S> {
        match self {
            Pull::Idle(source) => Some(source),
            Pull::Fetching(_) | Pull::Ended => None,
        }
    }

    /// The next item.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<S::Item>>> {
        loop {
            match self {
                Pull::Idle(source) => {
                    if let Some(item) = source.fetched() {
                        return Poll::Ready(item);
                    }
                    let Pull::Idle(mut source) = std::mem::replace(self, Pull::Ended) else {
                        return Poll::Ready(None);
                    };
                    *self = Pull::Fetching(Box::pin(blocking(move || {
                        let result = source.fetch();
                        Ok((source, result))
                    })));
                }
                Pull::Fetching(fetching) => match ready!(fetching.as_mut().poll(context)) {
                    Ok((source, result)) => {
                        *self = Pull::Idle(source);
                        if let Err(error) = result {
                            return Poll::Ready(Some(Err(error)));
                        }
                    }
                    Err(error) => {
                        *self = Pull::Ended;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                Pull::Ended => return Poll::Ready(None),
            }
        }
    }
}
