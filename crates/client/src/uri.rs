//! `mongodb://user:password@host:port/database?options`, as far as one connection needs it.

use crate::Credentials;
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
    /// Who logs in.
    pub credentials: Option<Credentials>,
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
        let mut source = None;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if name.eq_ignore_ascii_case("authSource") {
                source = Some(decode(value).ok_or_else(|| refuse("authSource is malformed"))?);
            } else if name.eq_ignore_ascii_case("authMechanism") && value != "SCRAM-SHA-256" {
                return Err(refuse("the only mechanism here is SCRAM-SHA-256"));
            } else if !name.eq_ignore_ascii_case("authMechanism")
                && !HARMLESS.contains(&name.to_ascii_lowercase().as_str())
            {
                return Err(refuse(&format!("option {name} is not supported here")));
            }
        }
        let (user, hosts) = match hosts.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, hosts),
        };
        if hosts.contains(',') {
            return Err(refuse("name one host"));
        }
        let (host, port) = split_port(hosts).ok_or_else(|| refuse("the host is malformed"))?;
        let database = (!database.is_empty()).then(|| database.to_owned());
        let credentials = match user {
            None => None,
            Some(user) => {
                let (user, password) = user.split_once(':').unwrap_or((user, ""));
                let part = |text: &str| {
                    decode(text).ok_or_else(|| refuse("the user or the password is malformed"))
                };
                let source = source.or_else(|| database.clone());
                let source = source.unwrap_or_else(|| "admin".to_owned());
                Some(Credentials { user: part(user)?, password: part(password)?, source })
            }
        };
        Ok(Target { host, port, database, credentials })
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

/// Undoes `%41`.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
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
    fn credentials_are_read() {
        let login = |uri| Target::parse(uri).unwrap().credentials.unwrap();
        let plain = login("mongodb://ada:p%40ss%3A@h/shop?authSource=users");
        assert_eq!((&*plain.user, &*plain.password, &*plain.source), ("ada", "p@ss:", "users"));
        assert_eq!(login("mongodb://ada:x@h/shop").source, "shop");
        assert_eq!(login("mongodb://ada:x@h").source, "admin");
        assert!(!format!("{plain:?}").contains("p@ss"), "passwords are not printed");
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        for uri in [
            "mongodb+srv://x",
            "mongodb://a,b",
            "mongodb://u:%@h",
            "mongodb://u:p@h/?authMechanism=PLAIN",
            "mongodb://h?tls=true",
            "mongodb://:1",
            "mongodb://h:99999",
            "mongodb://[::1",
        ] {
            assert!(Target::parse(uri).is_err(), "{uri}");
        }
    }
}
