//! Chooses the member for a command: by read preference, as drivers choose a server.

use crate::member::Member;
use crate::view::{Role, Seen, View};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use value::{RawDoc, Val};

/// Members whose round trip is at most this much longer than the shortest one are equally near.
const NEAR: Duration = Duration::from_millis(15);

/// Which members may run a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    mode: Mode,
    /// Sets of tags; the first that fits a member counts. None: any member.
    tags: Vec<Vec<(String, String)>>,
    /// Router that runs all statements of a transaction, as a number.
    pinned: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Primary,
    PrimaryPreferred,
    Secondary,
    SecondaryPreferred,
    Nearest,
}

/// A chosen member.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) member: Arc<Member>,
}

impl fmt::Display for Selection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.mode {
            Mode::Primary => "primary",
            Mode::PrimaryPreferred => "primaryPreferred",
            Mode::Secondary => "secondary",
            Mode::SecondaryPreferred => "secondaryPreferred",
            Mode::Nearest => "nearest",
        };
        write!(out, "{{ mode: \"{name}\"")?;
        if !self.tags.is_empty() {
            write!(out, ", tags: {:?}", self.tags)?;
        }
        out.write_str(" }")
    }
}

impl Selection {
    /// The primary.
    pub(crate) fn primary() -> Selection {
        Selection { mode: Mode::Primary, tags: Vec::new(), pinned: None }
    }

    /// What the `$readPreference` of a command asks for; the primary without one.
    pub(crate) fn of(command: RawDoc<'_>) -> Selection {
        let Some(preference) = command.get("$readPreference").and_then(Val::as_doc) else {
            return Selection::primary();
        };
        let mode = match preference.get("mode").and_then(Val::as_str) {
            Some("primaryPreferred") => Mode::PrimaryPreferred,
            Some("secondary") => Mode::Secondary,
            Some("secondaryPreferred") => Mode::SecondaryPreferred,
            Some("nearest") => Mode::Nearest,
            _ => Mode::Primary,
        };
        let sets = preference.get("tags").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let tags = sets.iter().filter_map(|(_, set)| {
            let pairs = set.as_doc()?.iter();
            let pair = |(name, value): (&str, value::RawVal<'_>)| {
                Some((name.to_owned(), value.get().as_str()?.to_owned()))
            };
            Some(pairs.filter_map(pair).collect())
        });
        Selection { mode, tags: tags.collect(), pinned: None }
    }

    /// The same, on the router that this number selects among all routers.
    pub(crate) fn pinned_to(mut self, number: u64) -> Selection {
        self.pinned = Some(number);
        self
    }

    /// Whether only a secondary may run the command.
    pub(crate) fn excludes_primary(&self) -> bool {
        self.mode == Mode::Secondary
    }

    /// The member, if there is one now.
    pub(crate) fn choose(&self, view: &View) -> Option<Target> {
        let routers: Vec<_> = with_role(view, Role::Router).collect();
        if !routers.is_empty() {
            // Routers choose members themselves.
            return match self.pinned {
                Some(number) => {
                    let at = usize::try_from(number % routers.len() as u64).unwrap_or(0);
                    routers.get(at).map(|seen| target(seen))
                }
                None => nearest(routers),
            };
        }
        let primary = || with_role(view, Role::Primary).next().map(target);
        let secondary = || self.tagged(with_role(view, Role::Secondary).collect());
        match self.mode {
            Mode::Primary => primary(),
            Mode::PrimaryPreferred => primary().or_else(secondary),
            Mode::Secondary => secondary(),
            Mode::SecondaryPreferred => secondary().or_else(primary),
            Mode::Nearest => {
                let both = [Role::Primary, Role::Secondary];
                let all = both.into_iter().flat_map(|role| with_role(view, role));
                self.tagged(all.collect())
            }
        }
    }

    /// One of the near members that fit the first set of tags that any fits.
    fn tagged(&self, members: Vec<&Seen>) -> Option<Target> {
        if self.tags.is_empty() {
            return nearest(members);
        }
        self.tags.iter().find_map(|set| {
            let fitting =
                members.iter().filter(|seen| set.iter().all(|tag| seen.tags.contains(tag)));
            nearest(fitting.copied().collect())
        })
    }
}

fn with_role(view: &View, role: Role) -> impl Iterator<Item = &Seen> {
    view.members.iter().filter(move |seen| seen.role == role)
}

fn target(seen: &Seen) -> Target {
    Target { member: Arc::clone(&seen.member) }
}

/// One of the members that are near, at random.
fn nearest(mut members: Vec<&Seen>) -> Option<Target> {
    let shortest = members.iter().map(|seen| seen.round_trip).min()?;
    members.retain(|seen| seen.round_trip <= shortest + NEAR);
    let at = fastrand::usize(..members.len());
    members.get(at).map(|seen| target(seen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn seen(address: &str, role: Role, tag: &str, millis: u64) -> Seen {
        let target = client::Target::parse(address).expect("an address");
        Seen {
            member: Arc::new(Member::new(target)),
            role,
            tags: vec![("dc".to_owned(), tag.to_owned())],
            round_trip: Duration::from_millis(millis),
            wire_version: 17,
            trouble: None,
        }
    }

    /// The ports of all members that are chosen for a read preference.
    fn chosen(members: &[Seen], preference: &str) -> Vec<u16> {
        let view = View { members: members.to_vec(), cluster_time: None };
        let command = ejson::parse_doc(&format!("{{find: 'c', $readPreference: {preference}}}"));
        let selection = Selection::of(command.expect("a document").as_doc());
        let mut ports: Vec<u16> = (0..200)
            .filter_map(|_| selection.choose(&view))
            .filter_map(|target| target.member.address().rsplit_once(':')?.1.parse().ok())
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    #[test]
    fn read_preferences_choose_as_drivers_do() {
        let set = [
            seen("a:1", Role::Primary, "east", 1),
            seen("a:2", Role::Secondary, "east", 2),
            seen("a:3", Role::Secondary, "west", 10),
            seen("a:4", Role::Secondary, "west", 40),
            seen("a:5", Role::None, "west", 1),
        ];
        assert_eq!(chosen(&set, "{mode: 'primary'}"), [1]);
        assert_eq!(chosen(&set, "{mode: 'primaryPreferred'}"), [1]);
        assert_eq!(chosen(&set, "{mode: 'secondary'}"), [2, 3]);
        assert_eq!(chosen(&set, "{mode: 'secondaryPreferred'}"), [2, 3]);
        assert_eq!(chosen(&set, "{mode: 'nearest'}"), [1, 2, 3]);
        assert_eq!(chosen(&set, "{mode: 'secondary', tags: [{dc: 'west'}]}"), [3]);
        assert_eq!(chosen(&set, "{mode: 'secondary', tags: [{dc: 'no'}, {dc: 'east'}]}"), [2]);
        assert_eq!(chosen(&set, "{mode: 'secondary', tags: [{dc: 'no'}, {}]}"), [2, 3]);
        assert!(chosen(&set, "{mode: 'secondary', tags: [{dc: 'no'}]}").is_empty());
        assert_eq!(chosen(&set, "{mode: 'secondaryPreferred', tags: [{dc: 'no'}]}"), [1]);
        let without = &set[1..];
        assert!(chosen(without, "{mode: 'primary'}").is_empty());
        assert_eq!(chosen(without, "{mode: 'primaryPreferred'}"), [2, 3]);
    }

    #[test]
    fn a_transaction_stays_at_one_router() {
        let routers = [seen("r:1", Role::Router, "", 1), seen("r:2", Role::Router, "", 1)];
        assert_eq!(chosen(&routers, "{mode: 'secondary'}"), [1, 2]);
        let view = View { members: routers.to_vec(), cluster_time: None };
        let address = |number| {
            let target = Selection::primary().pinned_to(number).choose(&view);
            target.map(|target| target.member.address().to_owned())
        };
        assert_eq!(address(8).as_deref(), Some("r:1"));
        assert_eq!(address(9).as_deref(), Some("r:2"));
    }
}
