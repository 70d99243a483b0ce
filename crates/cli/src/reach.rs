//! Settings of how clients reach the server besides its address, and of what is behind it: the
//! advertised address, the topology, the replica set name, a Unix socket, a cluster.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use std::path::PathBuf;

/// The default name of the replica set.
const SET_NAME: &str = "rs0";

/// The flags.
#[derive(Args, Debug, Default, Clone)]
pub(crate) struct ReachArgs {
    /// Address that `hello` returns to drivers, if they cannot use the listening address, as with a
    /// port mapping or in a container [default: the address to which the client connected]
    #[arg(long, env = "MOTIF_ADVERTISE", value_name = "HOST:PORT")]
    pub(crate) advertise: Option<String>,
    /// Name of the replica set of which this server is the only member [default: rs0]
    #[arg(long, alias = "replSet", env = "MOTIF_REPL_SET_NAME", value_name = "NAME")]
    pub(crate) repl_set_name: Option<String>,
    /// What the server presents itself as [default: replicaSet]
    ///
    /// Drivers allow sessions, transactions and change streams with both. They follow a replica set
    /// to the address of its member; they stay at the address of a router, such as that of a load
    /// balancer.
    #[arg(long, env = "MOTIF_TOPOLOGY", value_name = "TOPOLOGY")]
    pub(crate) topology: Option<Topology>,
    /// Unix socket to listen on as well; only the server's own user can connect to it
    #[arg(long, env = "MOTIF_UNIX_SOCKET", value_name = "FILE")]
    pub(crate) unix_socket: Option<PathBuf>,
    /// Serve the MongoDB cluster at this connection string instead of a data folder
    ///
    /// Commands go to the members of the cluster. Clients log in with the users of the cluster; a
    /// user in the connection string is not used. Drivers see a router.
    #[arg(long, env = "MOTIF_UPSTREAM", hide_env_values = true, value_name = "URI")]
    pub(crate) upstream: Option<String>,
}

/// What the server presents itself as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Deserialize)]
pub(crate) enum Topology {
    /// The only member of a replica set.
    #[default]
    #[value(name = "replicaSet")]
    #[serde(rename = "replicaSet")]
    ReplicaSet,
    /// A router.
    #[value(name = "router")]
    #[serde(rename = "router")]
    Router,
}

/// The settings.
#[derive(Debug, PartialEq)]
pub(crate) struct Reach {
    pub(crate) advertise: Option<String>,
    pub(crate) set_name: String,
    pub(crate) topology: Topology,
    pub(crate) unix_socket: Option<PathBuf>,
    pub(crate) upstream: Option<String>,
}

impl Reach {
    /// Combines flags with the TOML file; flags have precedence.
    pub(crate) fn resolve(args: ReachArgs, file: ReachArgs) -> Result<Reach> {
        let advertise = args.advertise.or(file.advertise);
        if let Some(address) = &advertise {
            check_address(address)?;
        }
        let set_name = args.repl_set_name.or(file.repl_set_name);
        let upstream = args.upstream.or(file.upstream);
        let mut topology = args.topology.or(file.topology);
        if upstream.is_some() {
            if topology.is_some() {
                bail!("--topology has no effect with --upstream: drivers see a router");
            }
            topology = Some(Topology::Router);
        }
        let topology = topology.unwrap_or_default();
        if topology == Topology::Router {
            let idle = [
                advertise.as_ref().map(|_| "--advertise"),
                set_name.as_ref().map(|_| "--repl-set-name"),
            ];
            if let Some(flag) = idle.into_iter().flatten().next() {
                bail!("{flag} has no effect with a router: drivers keep their address");
            }
        }
        let set_name = set_name.unwrap_or_else(|| SET_NAME.to_owned());
        if set_name.is_empty() || set_name.contains(['/', ',', '\0']) {
            bail!("`{set_name}` cannot be the name of a replica set");
        }
        let unix_socket = args.unix_socket.or(file.unix_socket);
        Ok(Reach { advertise, set_name, topology, unix_socket, upstream })
    }
}

/// Refuses an address that drivers could not connect to.
fn check_address(address: &str) -> Result<()> {
    let parts = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let port = parts.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0);
    let host = parts.map_or("", |(host, _)| host);
    // An IPv6 address has colons and must be in brackets.
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let valid = match bare {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.contains([':', '/', '@', ',', '?', ' ']),
    };
    if !valid || port.is_none() {
        bail!("`{address}` is not an address that drivers can use; write HOST:PORT");
    }
    if matches!(host, "0.0.0.0" | "[::]") {
        bail!("`{address}` is no address of one machine; give the one that clients use");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_told_to_drivers_can_be_used() {
        for good in ["db.example.com:27017", "10.0.0.1:1", "[::1]:5000", "localhost:65535"] {
            assert!(check_address(good).is_ok(), "{good}");
        }
        for bad in ["db", "db:", ":5", "db:0", "db:70000", "::1:5", "0.0.0.0:5", "[::]:5", "a b:5"]
        {
            assert!(check_address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn flags_that_would_do_nothing_are_refused() {
        let router = ReachArgs { topology: Some(Topology::Router), ..ReachArgs::default() };
        assert!(Reach::resolve(router.clone(), ReachArgs::default()).is_ok());
        let named = ReachArgs { repl_set_name: Some("x".to_owned()), ..ReachArgs::default() };
        assert!(Reach::resolve(router.clone(), named.clone()).is_err());
        let upstream = Some("mongodb://a".to_owned());
        let cluster = ReachArgs { upstream, ..ReachArgs::default() };
        let reach = Reach::resolve(cluster.clone(), ReachArgs::default()).expect("is right");
        assert_eq!(reach.topology, Topology::Router);
        assert!(Reach::resolve(cluster, router.clone()).is_err());
        let both = ReachArgs { advertise: Some("a:1".to_owned()), ..router };
        assert!(Reach::resolve(both, ReachArgs::default()).is_err());
        let reach = Reach::resolve(named, ReachArgs::default()).expect("is right");
        assert_eq!((reach.set_name.as_str(), reach.topology), ("x", Topology::ReplicaSet));
    }
}
