//! `mongodb://user:password@host:port/database?options`, as far as one connection needs it.

use crate::Credentials;
use crate::login::Login;
use std::path::PathBuf;
use std::time::Duration;
use value::{Error, Result};

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host name or address, IPv6 without brackets; or the path of a Unix socket.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The database of the path, if there is one.
    pub database: Option<String>,
    /// Who logs in.
    pub credentials: Option<Credentials>,
    /// How the connection is encrypted, if it is.
    pub tls: Option<TlsTarget>,
    /// How long a connection attempt may take.
    pub connect_timeout: Duration,
    /// How long a read or a write may take; for ever, if it is not limited.
    pub socket_timeout: Option<Duration>,
}

/// How a connection is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsTarget {
    /// PEM file with the authorities that are believed; without it, those of the system.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the certificate that the server is shown, and its key.
    pub certificate_key_file: Option<PathBuf>,
    /// Whether any certificate of a server is believed.
    pub allow_invalid_certificates: bool,
}

/// How long a connection attempt may take, unless the URI says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take when there is no limit.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// Options which this client honours by doing nothing: it keeps one connection to one host.
const HARMLESS: &[&str] = &[
    "appname",
    "directconnection",
    "replicaset",
    "retryreads",
    "retrywrites",
    "serverselectiontimeoutms",
];

fn refuse(what: &str) -> Error {
    Error::failed_to_parse(format!("connection string: {what}"))
}

/// The options after the question mark.
#[derive(Default)]
struct Options {
    source: Option<String>,
    mechanism: Option<Login>,
    encrypted: Option<bool>,
    tls: TlsTarget,
    connect_timeout: Option<Duration>,
    socket_timeout: Option<Duration>,
}

impl Options {
    fn parse(text: &str) -> Result<Options> {
        let mut options = Options::default();
        for option in text.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let value =
                decode(value).ok_or_else(|| refuse(&format!("option {name} is malformed")))?;
            let flag = || match value.as_str() {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(refuse(&format!("option {name} is true or false"))),
            };
            let time = || {
                let number: u64 = value
                    .parse()
                    .map_err(|_| refuse(&format!("option {name} is a number of milliseconds")))?;
                // Zero means no limit.
                Ok(Some(Duration::from_millis(number)).filter(|time| !time.is_zero()))
            };
            match name.to_ascii_lowercase().as_str() {
                "authsource" => options.source = Some(value),
                "authmechanism" => options.mechanism = Some(Login::named(&value)?),
                "tls" | "ssl" => options.encrypted = Some(flag()?),
                "tlscafile" => options.tls.ca_file = Some(value.into()),
                "tlscertificatekeyfile" => options.tls.certificate_key_file = Some(value.into()),
                "tlsallowinvalidcertificates" | "tlsinsecure" => {
                    options.tls.allow_invalid_certificates = flag()?;
                }
                "connecttimeoutms" => {
                    options.connect_timeout = Some(time()?.unwrap_or(LONG));
                }
                "sockettimeoutms" => options.socket_timeout = time()?,
                name if HARMLESS.contains(&name) => {}
                _ => return Err(refuse(&format!("option {name} is not supported here"))),
            }
        }
        if options.encrypted == Some(false) && options.tls != TlsTarget::default() {
            return Err(refuse("there are options of TLS, but tls=false"));
        }
        // As in drivers: naming TLS files switches TLS on.
        if options.encrypted.is_none() && options.tls != TlsTarget::default() {
            options.encrypted = Some(true);
        }
        Ok(options)
    }
}

impl Target {
    /// Reads a URI, or a plain `host[:port]`.
    ///
    /// # Errors
    /// `FailedToParse` for malformed text and for what this client cannot do.
    pub fn parse(uri: &str) -> Result<Target> {
        let mut all = Target::parse_hosts(uri)?;
        match all.pop() {
            Some(target) if all.is_empty() => Ok(target),
            _ => Err(refuse("name one host")),
        }
    }

    /// Reads a URI that may name several hosts: a target for each, otherwise the same.
    ///
    /// # Errors
    /// As `parse`.
    pub fn parse_hosts(uri: &str) -> Result<Vec<Target>> {
        if uri.starts_with("mongodb+srv://") {
            return Err(refuse("mongodb+srv:// is not supported here; name the hosts"));
        }
        let rest = uri.strip_prefix("mongodb://").unwrap_or(uri);
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        let options = Options::parse(options)?;
        let (user, hosts) = match hosts.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, hosts),
        };
        let malformed = || refuse("the host is malformed");
        let address = |host: &str| match decode(host).filter(|path| path.starts_with('/')) {
            Some(path) => Ok((path, 27017)),
            None => split_port(host).ok_or_else(malformed),
        };
        let addresses = hosts.split(',').map(address).collect::<Result<Vec<_>>>()?;
        let database = (!database.is_empty()).then(|| database.to_owned());
        let part = |text: &str| {
            decode(text).ok_or_else(|| refuse("the user or the password is malformed"))
        };
        let credentials = match (user, options.mechanism.unwrap_or(Login::Password)) {
            (user, Login::Certificate) => Some(Credentials::Certificate {
                user: user.map(|user| part(user.trim_end_matches(':'))).transpose()?,
            }),
            (None, Login::Password) => None,
            (Some(user), Login::Password) => {
                let (user, password) = user.split_once(':').unwrap_or((user, ""));
                let source = options.source.or_else(|| database.clone());
                let source = source.unwrap_or_else(|| "admin".to_owned());
                let (user, password) = (part(user)?, part(password)?);
                Some(Credentials::Password { user, password, source })
            }
        };
        let target = Target {
            host: String::new(),
            port: 0,
            database,
            credentials,
            tls: options.encrypted.unwrap_or(false).then_some(options.tls),
            connect_timeout: options.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
            socket_timeout: options.socket_timeout,
        };
        let targets = addresses.into_iter();
        Ok(targets.map(|(host, port)| Target { host, port, ..target.clone() }).collect())
    }

    /// The same target at another address, `host:port`.
    ///
    /// # Errors
    /// `FailedToParse` for a malformed address.
    pub fn at(&self, address: &str) -> Result<Target> {
        let (host, port) = split_port(address).ok_or_else(|| refuse("the host is malformed"))?;
        Ok(Target { host, port, ..self.clone() })
    }

    /// Whether the host is the path of a Unix socket.
    #[must_use]
    pub fn is_unix_socket(&self) -> bool {
        self.host.starts_with('/')
    }

    /// `host:port`, as the socket functions read it, or the path of a Unix socket.
    #[must_use]
    pub fn address(&self) -> String {
        if self.is_unix_socket() {
            self.host.clone()
        } else if self.host.contains(':') {
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
    fn the_path_of_a_unix_socket_is_read() {
        let target = Target::parse("mongodb://ada:x@%2Ftmp%2Fa%20b.sock/shop").unwrap();
        assert!(target.is_unix_socket());
        assert_eq!(target.address(), "/tmp/a b.sock");
        assert_eq!(target.database.as_deref(), Some("shop"));
        assert!(target.credentials.is_some());
    }

    #[test]
    fn credentials_are_read() {
        let login = |uri| match Target::parse(uri).unwrap().credentials {
            Some(Credentials::Password { user, password, source }) => (user, password, source),
            other => panic!("{other:?}"),
        };
        let whole = login("mongodb://ada:p%40ss%3A@h/shop?authSource=users");
        assert_eq!(whole, ("ada".to_owned(), "p@ss:".to_owned(), "users".to_owned()));
        assert_eq!(login("mongodb://ada:x@h/shop").2, "shop");
        assert_eq!(login("mongodb://ada:x@h").2, "admin");
        let target = Target::parse("mongodb://ada:p%40ss@h").unwrap();
        assert!(!format!("{target:?}").contains("p@ss"), "passwords are not printed");
    }

    #[test]
    fn encryption_is_read() {
        assert_eq!(Target::parse("mongodb://h").unwrap().tls, None);
        assert_eq!(Target::parse("mongodb://h/?tls=false").unwrap().tls, None);
        assert_eq!(Target::parse("mongodb://h/?ssl=true").unwrap().tls, Some(TlsTarget::default()));
        let uri = "mongodb://CN%3Dada@h/?tlsCAFile=%2Fa%20b.pem&tlsCertificateKeyFile=c.pem\
                   &authMechanism=MONGODB-X509&connectTimeoutMS=5&socketTimeoutMS=7";
        let target = Target::parse(uri).unwrap();
        let tls = target.tls.unwrap();
        assert_eq!(tls.ca_file, Some(PathBuf::from("/a b.pem")));
        assert_eq!(tls.certificate_key_file, Some(PathBuf::from("c.pem")));
        assert!(!tls.allow_invalid_certificates);
        let user = Some("CN=ada".to_owned());
        assert_eq!(target.credentials, Some(Credentials::Certificate { user }));
        assert_eq!(target.connect_timeout, Duration::from_millis(5));
        assert_eq!(target.socket_timeout, Some(Duration::from_millis(7)));
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        for uri in [
            "mongodb+srv://x",
            "mongodb://a,b",
            "mongodb://u:%@h",
            "mongodb://u:p@h/?authMechanism=PLAIN",
            "mongodb://h?tls=maybe",
            "mongodb://h?tls=false&tlsCAFile=x",
            "mongodb://h?tlsAllowInvalidHostnames=true",
            "mongodb://h?socketTimeoutMS=soon",
            "mongodb://:1",
            "mongodb://h:99999",
            "mongodb://[::1",
        ] {
            assert!(Target::parse(uri).is_err(), "{uri}");
        }
    }
}
