//! A server, or a data folder that this process opens itself. Both run the same commands.

use anyhow::{Context, Result, anyhow, bail};
use client::Client;
use motifdb::{Engine, Options, Peer, Storage};
use std::path::Path;
use value::{DocBuf, RawDoc, Val};

/// A server or an opened folder.
pub(crate) enum Target {
    Server(Box<Client>),
    Folder(Engine, Box<motifdb::Client>),
}

impl Target {
    /// Connects to a server.
    pub(crate) fn server(uri: &str) -> Result<Target> {
        let client = Client::connect(uri).map_err(|error| {
            let hint = if error.code() == value::Code::HOST_UNREACHABLE {
                "\nhint: start a server with `motif serve`, or open a folder with --data"
            } else {
                ""
            };
            anyhow!("{}{hint}", error.message())
        })?;
        Ok(Target::Server(Box::new(client)))
    }

    /// Opens a data folder, and creates it if `create` is set.
    pub(crate) fn folder(folder: &Path, create: bool) -> Result<Target> {
        if !create && !folder.is_dir() {
            bail!("there is no data folder `{}`", folder.display());
        }
        if create {
            crate::limits::make_private_files();
        }
        let storage = Storage::Disk(folder.to_owned());
        let options = Options { storage, read_only: !create, ..Options::default() };
        let engine = Engine::open(options)
            .map_err(|error| anyhow!("{}", error.message()))
            .with_context(|| format!("cannot open the data folder `{}`", folder.display()))?;
        let conversation = Box::new(engine.connect(Peer::default()));
        Ok(Target::Folder(engine, conversation))
    }

    /// Runs a command; an error reply is an error.
    pub(crate) fn run(&mut self, database: &str, command: &DocBuf) -> Result<DocBuf> {
        Ok(match self {
            Target::Server(client) => client.run(database, command)?,
            Target::Folder(_, conversation) => {
                conversation.run_command(database, command.as_doc())?
            }
        })
    }

    /// Inserts the documents whose bytes are concatenated in `documents`. The reply lists those that
    /// could not be inserted.
    pub(crate) fn insert(
        &mut self,
        database: &str,
        collection: &str,
        ordered: bool,
        documents: &[u8],
    ) -> Result<DocBuf> {
        let head = DocBuf::build(|out| {
            out.str("insert", collection).bool("ordered", ordered);
        });
        match self {
            Target::Server(client) => {
                Ok(client.run_with_sequence(database, &head, "documents", documents)?)
            }
            Target::Folder(..) => {
                let command = DocBuf::build(|out| {
                    out.extend(head.as_doc());
                    out.array("documents", |list| {
                        let mut rest = documents;
                        while let Some(length) = rest.first_chunk().map(|n| i32::from_le_bytes(*n))
                            && let Some((doc, after)) = usize::try_from(length)
                                .ok()
                                .and_then(|length| rest.split_at_checked(length))
                        {
                            list.push_doc_bytes(doc);
                            rest = after;
                        }
                    });
                });
                self.run(database, &command)
            }
        }
    }

    /// Calls `each` with every document of the result of a `find` or `aggregate`.
    pub(crate) fn for_each(
        &mut self,
        database: &str,
        collection: &str,
        command: &DocBuf,
        each: &mut dyn FnMut(RawDoc<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut reply = self.run(database, command)?;
        loop {
            let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc);
            let cursor = cursor.context("the reply has no cursor")?;
            let batch = cursor.get("firstBatch").or_else(|| cursor.get("nextBatch"));
            let batch = batch.and_then(Val::as_array).unwrap_or(RawDoc::empty());
            for doc in batch.iter().filter_map(|(_, value)| value.as_doc()) {
                each(doc)?;
            }
            let id = cursor.get("id").and_then(Val::as_i64_exact).unwrap_or(0);
            if id == 0 {
                return Ok(());
            }
            let more = DocBuf::build(|out| {
                out.i64("getMore", id).str("collection", collection);
            });
            reply = self.run(database, &more)?;
        }
    }

    /// Closes the target; a folder is flushed first.
    pub(crate) fn close(self) -> Result<()> {
        match self {
            Target::Server(_) => Ok(()),
            Target::Folder(engine, conversation) => {
                drop(conversation);
                Ok(engine.close()?)
            }
        }
    }
}
