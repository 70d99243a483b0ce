//! A MongoDB cluster behind the server: commands of clients go to its members and their replies come
//! back as bytes (`motif serve --upstream`).
//!
//! `uri` reads where the cluster is. `monitor` watches each member and reports to `cluster`, which
//! knows who is what (`view`) and has the connections (`member`). `selection` chooses the member for a
//! command. `passage` runs the commands of one client, `calls` says how each command is handled,
//! `cursors` which member has a cursor, `frame` what bytes of a message are what; `failure` answers when
//! a member cannot.

mod calls;
mod cluster;
mod cursors;
mod failure;
mod frame;
mod member;
mod monitor;
mod passage;
mod selection;
mod uri;
mod view;

use cluster::Cluster;
use passage::Passage;
use server::{Backend, Route};
use std::fmt;
use std::sync::Arc;
use value::Result;

/// A cluster that runs the commands of clients.
pub struct Upstream {
    cluster: Arc<Cluster>,
}

impl Upstream {
    /// Connects to a cluster and waits until a member is there that takes commands.
    ///
    /// # Errors
    /// `FailedToParse` for a malformed URI; `FailedToSatisfyReadPreference` if there is no such
    /// member in time, with what the hosts say.
    pub fn open(uri: &str) -> Result<Upstream> {
        let cluster = Cluster::open(uri::ClusterUri::parse(uri)?);
        cluster.wait_until_usable()?;
        Ok(Upstream { cluster })
    }

    /// The hosts of the cluster that are known now, for messages.
    #[must_use]
    pub fn hosts(&self) -> String {
        self.cluster.hosts()
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Upstream").field("hosts", &self.hosts()).finish()
    }
}

impl Backend for Upstream {
    fn open(&self, _connection_id: i64) -> Box<dyn Route> {
        Box::new(Passage::new(Arc::clone(&self.cluster)))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.cluster.close();
    }
}
