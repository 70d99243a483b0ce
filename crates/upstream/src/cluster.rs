//! What is known of a cluster: its members, and which of them takes which commands.
//!
//! Monitors report what members say of themselves. A report replaces the view; commands that wait
//! for a member look again.

use crate::cursors::Cursors;
use crate::member::Member;
use crate::monitor::{self, Watcher};
use crate::selection::{Selection, Target};
use crate::uri::ClusterUri;
use crate::view::{Role, Seen, View};
use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use value::{Code, DocBuf, Error, ObjectId, RawDoc, Result, Val};

/// The election of a primary: the newest one is in charge.
type Election = (ObjectId, i64);

#[derive(Debug, Default)]
struct State {
    members: BTreeMap<String, Seen>,
    newest_election: Option<Election>,
    cluster_time: Option<DocBuf>,
}

/// A cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) uri: ClusterUri,
    pub(crate) cursors: Cursors,
    view: ArcSwap<View>,
    state: Mutex<State>,
    changed: Condvar,
    closed: AtomicBool,
}

impl Cluster {
    /// Starts to watch the hosts of a URI.
    pub(crate) fn open(uri: ClusterUri) -> Arc<Cluster> {
        let cluster = Arc::new(Cluster {
            cursors: Cursors::default(),
            view: ArcSwap::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            closed: AtomicBool::new(false),
            uri,
        });
        let mut state = cluster.state.lock();
        for seed in &cluster.uri.seeds {
            cluster.add(&mut state, Member::new(seed.clone()));
        }
        cluster.publish(&state);
        drop(state);
        cluster
    }

    /// Ends the monitors.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for seen in self.state.lock().members.values() {
            seen.member.remove();
        }
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// The addresses of the members.
    pub(crate) fn hosts(&self) -> String {
        let view = self.view();
        let addresses: Vec<_> = view.members.iter().map(|seen| seen.member.address()).collect();
        addresses.join(", ")
    }

    /// The newest version of the protocol that all members speak.
    pub(crate) fn wire_version(&self) -> Option<i32> {
        let view = self.view();
        let known = view.members.iter().filter(|seen| seen.wire_version > 0);
        known.map(|seen| seen.wire_version).min()
    }

    /// Waits until a member takes writes.
    ///
    /// # Errors
    /// As `select`.
    pub(crate) fn wait_until_usable(&self) -> Result<()> {
        self.select(&Selection::primary(), self.deadline(None)).map(|_| ())
    }

    /// Until when a command waits for a member; `limit` is its own time limit.
    pub(crate) fn deadline(&self, limit: Option<Duration>) -> Instant {
        let timeout = self.uri.selection_timeout;
        Instant::now() + limit.map_or(timeout, |limit| limit.min(timeout))
    }

    /// The member for a command; waits for one.
    ///
    /// # Errors
    /// `FailedToSatisfyReadPreference` if there is none before the deadline.
    pub(crate) fn select(&self, selection: &Selection, deadline: Instant) -> Result<Target> {
        if let Some(target) = selection.choose(&self.view.load()) {
            return Ok(target);
        }
        let mut state = self.state.lock();
        loop {
            if let Some(target) = selection.choose(&self.view.load()) {
                return Ok(target);
            }
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return Err(self.nobody(selection));
            }
        }
    }

    /// Asks a member what it is, after a connection to it broke.
    pub(crate) fn check(self: &Arc<Cluster>, member: &Arc<Member>) {
        let begin = Instant::now();
        match member.connect_with(None, &[]) {
            Ok((connection, hello)) => {
                self.report(member, hello.as_doc(), begin.elapsed());
                member.give_back(connection);
            }
            Err(error) => self.report_trouble(member, error.message().to_owned()),
        }
    }

    fn nobody(&self, selection: &Selection) -> Error {
        let mut text = format!(
            "Could not find host matching read preference {selection} for set {}",
            self.uri.set_name.as_deref().unwrap_or("of the cluster")
        );
        for seen in &self.view.load().members {
            let trouble = seen.trouble.as_deref().map(|trouble| format!(" ({trouble})"));
            let address = seen.member.address();
            text.push_str(&format!(
                "; {address} is {:?}{}",
                seen.role,
                trouble.unwrap_or_default()
            ));
        }
        Error::new(Code::FAILED_TO_SATISFY_READ_PREFERENCE, text)
    }

    /// Takes the reply of a member to `hello`.
    fn report(self: &Arc<Cluster>, member: &Arc<Member>, hello: RawDoc<'_>, round_trip: Duration) {
        let mut state = self.state.lock();
        if member.is_removed() {
            return;
        }
        let mut seen = self.seen(member, hello, round_trip);
        if seen.role == Role::Primary && is_set(hello) {
            if let Some(election) = election_of(hello) {
                if state.newest_election.is_some_and(|newest| election < newest) {
                    // It does not know yet that another was elected.
                    seen.role = Role::None;
                } else {
                    state.newest_election = Some(election);
                }
            }
            if seen.role == Role::Primary {
                for other in state.members.values_mut() {
                    if other.role == Role::Primary && other.member.address() != member.address() {
                        other.role = Role::None;
                    }
                }
            }
        }
        let is_primary = seen.role == Role::Primary;
        if is_primary || seen.role == Role::Router {
            let time = hello.get("$clusterTime").and_then(Val::as_doc);
            state.cluster_time = time.map(DocBuf::from).or(state.cluster_time.take());
        }
        if let Some(known) = state.members.get(member.address()) {
            if known.role != seen.role {
                let (address, role) = (member.address(), seen.role);
                tracing::info!(member = address, ?role, "a member of the cluster changed");
            }
            // An average, so that one slow reply does not count for much.
            if known.round_trip > Duration::ZERO {
                seen.round_trip = (known.round_trip * 4 + seen.round_trip) / 5;
            }
        }
        state.members.insert(member.address().to_owned(), seen);
        if is_set(hello) {
            self.take_hosts(&mut state, member, hello, is_primary);
        }
        self.publish(&state);
    }

    /// Takes note that a member cannot be reached.
    pub(crate) fn report_trouble(&self, member: &Arc<Member>, trouble: String) {
        let mut state = self.state.lock();
        if let Some(seen) = state.members.get_mut(member.address()) {
            if seen.role != Role::None {
                let address = member.address();
                tracing::warn!(member = address, trouble, "a member of the cluster is lost");
            }
            seen.role = Role::None;
            seen.trouble = Some(trouble);
            member.discard_connections();
            self.publish(&state);
        }
    }

    fn seen(&self, member: &Arc<Member>, hello: RawDoc<'_>, round_trip: Duration) -> Seen {
        let is = |name| hello.get(name).is_some_and(Val::truthy);
        let set_name = hello.get("setName").and_then(Val::as_str);
        let mut trouble = None;
        let role = if hello.get("msg").and_then(Val::as_str) == Some("isdbgrid") {
            Role::Router
        } else if let (Some(wanted), true) =
            (&self.uri.set_name, set_name != self.uri.set_name.as_deref())
        {
            trouble = Some(format!("it is no member of the replica set `{wanted}`"));
            Role::None
        } else if is("isWritablePrimary") || is("ismaster") {
            Role::Primary
        } else if is("secondary") {
            Role::Secondary
        } else {
            Role::None
        };
        let tags = hello.get("tags").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
        let tags = tags
            .iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value.get().as_str()?.to_owned())));
        let wire_version = hello.get("maxWireVersion").and_then(Val::as_i64_exact).unwrap_or(0);
        Seen {
            member: Arc::clone(member),
            role,
            tags: tags.collect(),
            round_trip,
            wire_version: i32::try_from(wire_version).unwrap_or(0),
            trouble,
        }
    }

    /// Watches the hosts that a member names. Only the primary knows which ones have left.
    fn take_hosts(
        self: &Arc<Cluster>,
        state: &mut State,
        reporter: &Arc<Member>,
        hello: RawDoc<'_>,
        is_primary: bool,
    ) {
        let mut hosts = Vec::new();
        for name in ["hosts", "passives"] {
            let list = hello.get(name).and_then(Val::as_array).unwrap_or(RawDoc::empty());
            hosts.extend(list.iter().filter_map(|(_, host)| host.get().as_str()));
        }
        let Some(seed) = self.uri.seeds.first() else { return };
        for host in &hosts {
            if state.members.contains_key(*host) {
                continue;
            }
            match seed.at(host) {
                Ok(target) => self.add(state, Member::new(target)),
                Err(_) => {
                    let reporter = reporter.address();
                    tracing::warn!(host, reporter, "a member names a host that is no address");
                }
            }
        }
        if is_primary && !hosts.is_empty() {
            state.members.retain(|address, seen| {
                let stays = hosts.contains(&address.as_str());
                if !stays {
                    seen.member.remove();
                }
                stays
            });
        }
    }

    fn add(self: &Arc<Cluster>, state: &mut State, member: Member) {
        let member = Arc::new(member);
        let seen = Seen {
            member: Arc::clone(&member),
            role: Role::None,
            tags: Vec::new(),
            round_trip: Duration::ZERO,
            wire_version: 0,
            trouble: None,
        };
        state.members.insert(member.address().to_owned(), seen);
        let watcher: Weak<dyn Watcher> = Arc::downgrade(&(Arc::clone(self) as Arc<dyn Watcher>));
        monitor::start(watcher, member);
    }

    fn publish(&self, state: &State) {
        let members = state.members.values().cloned().collect();
        let cluster_time = state.cluster_time.clone();
        self.view.store(Arc::new(View { members, cluster_time }));
        self.changed.notify_all();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Watcher for Cluster {
    fn take(self: Arc<Cluster>, member: &Arc<Member>, hello: RawDoc<'_>, round_trip: Duration) {
        self.report(member, hello, round_trip);
    }

    fn take_trouble(&self, member: &Arc<Member>, trouble: String) {
        self.report_trouble(member, trouble);
    }

    fn has_ended(&self) -> bool {
        self.is_closed()
    }
}

fn is_set(hello: RawDoc<'_>) -> bool {
    hello.find("setName").is_some()
}

fn election_of(hello: RawDoc<'_>) -> Option<Election> {
    let Some(Val::ObjectId(id)) = hello.get("electionId") else { return None };
    let version = hello.get("setVersion").and_then(Val::as_i64_exact).unwrap_or(0);
    Some((id, version))
}
