//! Server state for diagnostic stages (`$currentOp`, `$listSessions`, ...), limited to what the
//! client may see. The stages themselves are in `stages`.

use super::{Context, current_op};
use crate::query_stats::Names;
use crate::stages::diagnostics::{Server, SessionOwners};
use crate::txn::Data;
use value::{DocBuf, Val, Writer};

impl Server for Context<'_> {
    fn data(&self) -> &Data {
        &self.engine.data
    }

    fn db(&self) -> &str {
        self.db
    }

    fn operations(&self, idle: bool, own_only: bool) -> Vec<DocBuf> {
        current_op::list(self, idle, own_only)
    }

    fn idle_cursors(&self, own_only: bool) -> Vec<DocBuf> {
        current_op::idle_cursors(self, own_only)
    }

    fn sessions(&self, owners: &SessionOwners) -> Vec<DocBuf> {
        let now = crate::clock::now_ms();
        let login = &self.client.login;
        let sessions = self.engine.service.sessions.list().into_iter();
        let visible = sessions.filter(|(_, owner, _)| match owners {
            _ if !login.required => true,
            SessionOwners::All => true,
            SessionOwners::Own => login.is(owner.as_deref()),
            SessionOwners::Named(names) => {
                owner.as_ref().is_some_and(|owner| names.contains(owner))
            }
        });
        visible.map(|(id, owner, idle_ms)| session(&id, owner.as_deref(), now - idle_ms)).collect()
    }

    fn query_statistics(&self, names: &Names<'_>) -> Vec<DocBuf> {
        self.engine.observed.query_stats.documents(names)
    }
}

fn session(id: &[u8; 16], owner: Option<&str>, last_use: i64) -> DocBuf {
    // For connections without a user MongoDB shows the SHA-256 of an empty string.
    let user = access::scram::Mechanism::Sha256.hash(owner.unwrap_or_default().as_bytes());
    DocBuf::build(|out: &mut Writer<'_>| {
        out.doc("_id", |out| {
            out.append("id", Val::Binary(4, id)).append("uid", Val::Binary(0, &user));
        });
        out.append("lastUse", Val::DateTime(last_use));
    })
}
