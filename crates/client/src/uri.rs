//! `mongodb://host:port/database?options`, as far as one unauthenticated connection needs it.

use value::{Error, Result};

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host name or address; IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The database of the path, if there is one.
    pub database: Option<String>,
}

/// Options which this client honours by doing nothing: it keeps one connection to one host.
const HARMLESS: &[&str] = &[
    "appname",
    "directconnection",
    "replicaset",
    "retryreads",
    "retrywrites",
    "serverselectiontimeoutms",
];

impl Target {
    /// Reads a URI, or a plain `host[:port]`.
    ///
    /// # Errors
    /// `FailedToParse` for malformed text and for what this client cannot do.
    pub fn parse(uri: &str) -> Result<Target> {
        let refuse = |what: &str| Error::failed_to_parse(format!("connection string: {what}"));
        if uri.starts_with("mongodb+srv://") {
            return Err(refuse("mongodb+srv:// is not supported here; name the host"));
        }
        let rest = uri.strip_prefix("mongodb://").unwrap_or(uri);
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, _) = option.split_once('=').unwrap_or((option, ""));
            if !HARMLESS.contains(&name.to_ascii_lowercase().as_str()) {
                return Err(refuse(&format!("option {name} is not supported here")));
            }
        }
        if hosts.contains('@') {
            return Err(refuse("credentials are not supported here"));
        }
        if hosts.contains(',') {
            return Err(refuse("name one host"));
        }
        let (host, port) = split_port(hosts).ok_or_else(|| refuse("the host is malformed"))?;
        let database = (!database.is_empty()).then(|| database.to_owned());
        Ok(Target { host, port, database })
    }

    /// `host:port`, as the socket functions read it.
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Host and port; the port is 27017 when it is not named.
fn split_port(text: &str) -> Option<(String, u16)> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let (host, after) = bracketed.split_once(']')?;
        let port = match after.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None if after.is_empty() => 27017,
            None => return None,
        };
        return Some((host.to_owned(), port));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (text, 27017),
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_ports_and_databases_are_read() {
        let plain = Target::parse("localhost").unwrap();
        assert_eq!((plain.host.as_str(), plain.port, plain.database), ("localhost", 27017, None));
        let full = Target::parse("mongodb://127.0.0.1:5/shop?directConnection=true").unwrap();
        assert_eq!(
            (full.address().as_str(), full.database.as_deref()),
            ("127.0.0.1:5", Some("shop"))
        );
        assert_eq!(Target::parse("mongodb://[::1]:7/").unwrap().address(), "[::1]:7");
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        for uri in [
            "mongodb+srv://x",
            "mongodb://a,b",
            "mongodb://u:p@h",
            "mongodb://h?tls=true",
            "mongodb://:1",
            "mongodb://h:99999",
            "mongodb://[::1",
        ] {
            assert!(Target::parse(uri).is_err(), "{uri}");
        }
    }
}
