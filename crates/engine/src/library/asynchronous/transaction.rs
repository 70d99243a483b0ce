//! Transactions that run again after conflicts.

use super::super::session::{Committed, Retries};
use super::super::{ClientSession, StartTransaction};
use super::action::blocking;
use std::pin::Pin;
use value::Result;

impl StartTransaction<'_> {
    /// Runs an asynchronous closure in a transaction and commits it; the feature `async` has it. As
    /// [`ClientSession::with_transaction`](crate::ClientSession::with_transaction), it runs again
    /// after conflicts. The compiler cannot tell that its future may move to another thread: in a
    /// task of `tokio::spawn` use [`and_run`](StartTransaction::and_run).
    ///
    /// ```
    /// # use motifdb::asynchronous::Client;
    /// # use motifdb::bson::{Document, doc};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> motifdb::Result<()> {
    /// # let client = Client::in_memory().await?;
    /// let accounts = client.database("bank").collection::<Document>("accounts");
    /// accounts.insert_many([doc! {"_id": 1, "n": 5}, doc! {"_id": 2, "n": 0}]).await?;
    /// let mut session = client.start_session().await?;
    /// let transfer = async |session: &mut motifdb::ClientSession| {
    ///     let (take, give) = (doc! {"$inc": {"n": -5}}, doc! {"$inc": {"n": 5}});
    ///     accounts.update_one(doc! {"_id": 1}, take).session(session).await?;
    ///     accounts.update_one(doc! {"_id": 2}, give).session(session).await
    /// };
    /// session.start_transaction().and_run2(transfer).await?;
    /// assert_eq!(accounts.count_documents(doc! {"_id": 2, "n": 5}).await?, 1);
    /// # drop(session);
    /// # client.shutdown().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of `body` or of the commit.
    pub async fn and_run2<R>(
        self,
        mut body: impl AsyncFnMut(&mut ClientSession) -> Result<R>,
    ) -> Result<R> {
        let (session, options) = self.into_parts();
        let mut retries = Retries::new();
        loop {
            session.begin(options.clone())?;
            let result = body(session).await;
            if let Some(last) = settle(session, &mut retries, result).await {
                return last;
            }
        }
    }

    /// Runs `body` in a transaction and commits it; the feature `async` has it. `body` gets the
    /// session and a context, which each run borrows, and returns a boxed future. As
    /// [`ClientSession::with_transaction`](crate::ClientSession::with_transaction), it runs again
    /// after conflicts.
    ///
    /// ```
    /// # use motifdb::asynchronous::Client;
    /// # use motifdb::bson::{Document, doc};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> motifdb::Result<()> {
    /// # let client = Client::in_memory().await?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// # let reader = orders.clone();
    /// let task = tokio::spawn(async move {
    ///     let mut session = client.start_session().await?;
    ///     let transaction = session.start_transaction();
    ///     let body = transaction.and_run(orders, |session, orders| {
    ///         Box::pin(async move {
    ///             orders.insert_one(doc! {"_id": 1}).session(session).await?;
    ///             orders.insert_one(doc! {"_id": 2}).session(session).await
    ///         })
    ///     });
    ///     body.await
    /// });
    /// task.await.expect("no panic")?;
    /// # assert_eq!(reader.count_documents(doc! {}).await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of `body` or of the commit.
    pub async fn and_run<R, C, F>(self, mut context: C, mut body: F) -> Result<R>
    where
        F: for<'b> FnMut(
            &'b mut ClientSession,
            &'b mut C,
        ) -> Pin<Box<dyn Future<Output = Result<R>> + Send + 'b>>,
    {
        let (session, options) = self.into_parts();
        let mut retries = Retries::new();
        loop {
            session.begin(options.clone())?;
            let result = body(session, &mut context).await;
            if let Some(last) = settle(session, &mut retries, result).await {
                return last;
            }
        }
    }
}

/// Ends a transaction after its body. Returns the result, or nothing if it is to run again.
async fn settle<R>(
    session: &mut ClientSession,
    retries: &mut Retries,
    result: Result<R>,
) -> Option<Result<R>> {
    match result {
        Ok(value) if !session.in_transaction() => return Some(Ok(value)),
        Ok(value) => match commit(session, retries).await {
            Committed::Yes => return Some(Ok(value)),
            Committed::Again => {}
            Committed::Failed(error) => return Some(Err(error)),
        },
        Err(error) => {
            if session.in_transaction() {
                // The error of the body says more than that of an abort.
                let _ = session.abort_transaction().await;
            }
            if !retries.again(&error) {
                return Some(Err(error));
            }
        }
    }
    let pause = retries.pause();
    // Tokio's timer may be off in the caller's runtime.
    let paused = blocking(move || {
        std::thread::sleep(pause);
        Ok(())
    });
    paused.await.err().map(Err)
}

/// Commits, again and again while the result is unknown.
async fn commit(session: &mut ClientSession, retries: &Retries) -> Committed {
    loop {
        if let Some(outcome) = retries.outcome(session.commit_transaction().await) {
            return outcome;
        }
    }
}
