//! Walking the results of a command that answers with a cursor.

use crate::Client;
use value::{DocBuf, Error, RawDoc, Result, Val};

/// Documents of an open result, fetched batch by batch. Dropping it early kills it on the server.
pub struct Cursor<'c> {
    client: &'c mut Client,
    database: String,
    collection: String,
    id: i64,
    reply: DocBuf,
    /// What is left of the current batch.
    batch: std::vec::IntoIter<DocBuf>,
    batch_size: Option<i32>,
}

impl<'c> Cursor<'c> {
    pub(crate) fn open(
        client: &'c mut Client,
        database: &str,
        command: &DocBuf,
    ) -> Result<Cursor<'c>> {
        let reply = client.run(database, command)?;
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc);
        let cursor = cursor.ok_or_else(|| Error::bad_value("the reply has no cursor"))?;
        let namespace = cursor.get("ns").and_then(Val::as_str).unwrap_or("");
        let (_, collection) = namespace.split_once('.').unwrap_or(("", namespace));
        let collection = collection.to_owned();
        let id = cursor.get("id").and_then(Val::as_i64_exact).unwrap_or(0);
        let batch = documents(cursor, "firstBatch");
        let database = database.to_owned();
        Ok(Cursor { client, database, collection, id, reply, batch, batch_size: None })
    }

    /// Asks for this many documents in every further batch.
    #[must_use]
    pub fn batch_size(mut self, documents: i32) -> Self {
        self.batch_size = Some(documents);
        self
    }

    /// The number of the cursor on the server; 0 when the server has nothing more.
    #[must_use]
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The reply that opened the cursor, or that to the last `getMore`.
    #[must_use]
    pub fn reply(&self) -> RawDoc<'_> {
        self.reply.as_doc()
    }

    /// The next document, fetching a batch when the current one is used up.
    ///
    /// # Errors
    /// What the server answers to `getMore`.
    pub fn try_next(&mut self) -> Result<Option<DocBuf>> {
        loop {
            if let Some(doc) = self.batch.next() {
                return Ok(Some(doc));
            }
            if self.id == 0 {
                return Ok(None);
            }
            let command = DocBuf::build(|out| {
                out.i64("getMore", self.id).str("collection", &self.collection);
                if let Some(size) = self.batch_size {
                    out.i32("batchSize", size);
                }
            });
            // A failed getMore ends the cursor on the server as well.
            let id = std::mem::take(&mut self.id);
            self.reply = self.client.run(&self.database, &command)?;
            let cursor = self.reply.as_doc().get("cursor").and_then(Val::as_doc);
            let cursor = cursor.ok_or_else(|| Error::bad_value("the reply has no cursor"))?;
            self.id = cursor.get("id").and_then(Val::as_i64_exact).unwrap_or(id);
            self.batch = documents(cursor, "nextBatch");
        }
    }

    /// All documents that are left.
    ///
    /// # Errors
    /// As `try_next`.
    pub fn collect(mut self) -> Result<Vec<DocBuf>> {
        let mut all = Vec::new();
        while let Some(doc) = self.try_next()? {
            all.push(doc);
        }
        Ok(all)
    }
}

impl Iterator for Cursor<'_> {
    type Item = Result<DocBuf>;
    fn next(&mut self) -> Option<Result<DocBuf>> {
        self.try_next().transpose()
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        if self.id != 0 {
            let command = DocBuf::build(|out| {
                out.str("killCursors", &self.collection);
                out.array("cursors", |list| list.push(Val::Int64(self.id)));
            });
            // Nothing can be done when this fails: the server forgets idle cursors by itself.
            let _ = self.client.run(&self.database, &command);
        }
    }
}

fn documents(cursor: RawDoc<'_>, name: &str) -> std::vec::IntoIter<DocBuf> {
    let batch = cursor.get(name).and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let docs = batch.iter().filter_map(|(_, value)| value.as_doc().map(DocBuf::from));
    docs.collect::<Vec<_>>().into_iter()
}
