//! The connection string of a cluster.

use client::Target;
use std::time::Duration;
use value::{Error, Result};

/// How long a command waits for a member that can take it, unless the URI says otherwise.
const SELECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Where a cluster is and how to connect to it.
#[derive(Clone, Debug)]
pub(crate) struct ClusterUri {
    /// The hosts of the URI, without credentials.
    pub(crate) seeds: Vec<Target>,
    /// The name of the replica set, if the URI has it.
    pub(crate) set_name: Option<String>,
    /// How long a command waits for a member that can take it.
    pub(crate) selection_timeout: Duration,
}

impl ClusterUri {
    pub(crate) fn parse(uri: &str) -> Result<ClusterUri> {
        let mut seeds = Target::parse_hosts(uri)?;
        if !uri.starts_with("mongodb://") {
            return Err(Error::failed_to_parse("the URI of a cluster begins with mongodb://"));
        }
        for seed in &mut seeds {
            // Clients log in with their own users.
            seed.credentials = None;
            seed.socket_timeout = None;
        }
        let timeout = match option(uri, "serverSelectionTimeoutMS") {
            None => SELECTION_TIMEOUT,
            Some(text) => Duration::from_millis(text.parse().map_err(|_| {
                Error::failed_to_parse("serverSelectionTimeoutMS is a number of milliseconds")
            })?),
        };
        let set_name = option(uri, "replicaSet").map(str::to_owned);
        Ok(ClusterUri { seeds, set_name, selection_timeout: timeout })
    }
}

/// The value of an option of the URI, whose names have no case.
fn option<'a>(uri: &'a str, name: &str) -> Option<&'a str> {
    let (_, options) = uri.split_once('?')?;
    let mut pairs = options.split('&').filter_map(|option| option.split_once('='));
    pairs.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_options_are_read() {
        let uri = "mongodb://ada:x@a,b:2,[::1]:3/?replicaSet=rs0&serverselectiontimeoutms=1500";
        let uri = ClusterUri::parse(uri).expect("is right");
        let addresses: Vec<_> = uri.seeds.iter().map(Target::address).collect();
        assert_eq!(addresses, ["a:27017", "b:2", "[::1]:3"]);
        assert!(uri.seeds.iter().all(|seed| seed.credentials.is_none()));
        assert_eq!(uri.set_name.as_deref(), Some("rs0"));
        assert_eq!(uri.selection_timeout, Duration::from_millis(1500));
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        for wrong in [
            "a:1,b:2",
            "mongodb://",
            "mongodb://a,,b",
            "mongodb+srv://cluster.example.com",
            "mongodb://a:99999",
            "mongodb://a/?serverSelectionTimeoutMS=soon",
            "mongodb://a/?unknownOption=1",
        ] {
            assert!(ClusterUri::parse(wrong).is_err(), "{wrong}");
        }
    }
}
