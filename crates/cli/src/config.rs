//! Settings of the server: from a flag, else an environment variable, else the TOML file, else the
//! default. Keys of the file are the names of the flags without the leading dashes.

use crate::reach::{Reach, ReachArgs, Topology};
use crate::size::Size;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Deserializer};
use server::{Password, TlsOptions};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use value::{DocBuf, Writer};

const LISTEN: &str = "127.0.0.1:27017";
const DATA: &str = "./motif-data";
/// Replaces passwords in the reply of `getCmdLineOpts`.
const HIDDEN: &str = "<password>";
const MAX_CONNECTIONS: u32 = 20_000;
const DISK_RESERVE: Size = Size(24 << 20);

/// The settings of flags and environment variables.
#[derive(Args, Debug, Default, Clone)]
pub(crate) struct ServeArgs {
    /// Address and port to listen on [default: 127.0.0.1:27017]
    ///
    /// Port 0 chooses a free port. Addresses that other machines can reach are accepted only with
    /// `--auth`, or with `--insecure-listen-without-authentication`.
    #[arg(long, env = "MOTIF_LISTEN", value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Data folder; created if it does not exist [default: ./motif-data]
    #[arg(long, env = "MOTIF_DATA", value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Memory for caching data; allocated as needed [default: half of the
    /// machine's memory above 1 GiB, at least 256 MiB]
    #[arg(long, env = "MOTIF_CACHE", value_name = "SIZE")]
    pub(crate) cache: Option<Size>,
    /// Disk space reserved for drops and deletes on a full disk; 0 for none, at most an eighth of the
    /// disk [default: 24 MiB]
    #[arg(long, env = "MOTIF_DISK_RESERVE", value_name = "SIZE")]
    pub(crate) disk_reserve: Option<Size>,
    /// Memory for all running operations: large messages and replies, sorts, groups
    /// [default: a quarter of the machine's memory, at least 256 MiB]
    #[arg(long, env = "MOTIF_OPERATION_MEMORY", value_name = "SIZE")]
    pub(crate) operation_memory: Option<Size>,
    /// Maximum number of connections [default: 20000]
    #[arg(long, env = "MOTIF_MAX_CONNECTIONS", value_name = "NUMBER",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: Option<u32>,
    /// Minimum log level [default: info]
    #[arg(long, env = "MOTIF_LOG_LEVEL", value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// Format of log lines [default: text]
    #[arg(long, env = "MOTIF_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Set a server parameter at startup, as `setParameter` does later; may be repeated
    #[arg(long, alias = "setParameter", value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) set_parameter: Vec<(String, ParameterValue)>,
    /// Allow commands that are only for tests
    #[arg(long, env = "MOTIF_TEST_COMMANDS", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true|false")]
    pub(crate) test_commands: Option<bool>,
    /// Allow clients to run functions in JavaScript: `$where`, `$function`, `$accumulator`, `mapReduce`
    #[arg(long, env = "MOTIF_JAVASCRIPT", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true|false")]
    pub(crate) javascript: Option<bool>,
    /// Require clients to log in and check their privileges; `motif user add` creates users
    #[arg(long, env = "MOTIF_AUTH", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true|false")]
    pub(crate) auth: Option<bool>,
    /// Listen on addresses that other machines can reach, although every client may then read and
    /// change everything
    #[arg(long, env = "MOTIF_INSECURE_LISTEN_WITHOUT_AUTHENTICATION", num_args = 0..=1,
          require_equals = true, default_missing_value = "true", value_name = "true|false")]
    pub(crate) insecure_listen_without_authentication: Option<bool>,
    /// Which connections are encrypted [default: disabled]
    #[arg(long, alias = "tlsMode", env = "MOTIF_TLS_MODE", value_name = "MODE")]
    pub(crate) tls_mode: Option<TlsMode>,
    /// PEM file with the server's certificate, intermediate certificates, and key
    #[arg(
        long,
        alias = "tlsCertificateKeyFile",
        env = "MOTIF_TLS_CERTIFICATE_KEY_FILE",
        value_name = "FILE"
    )]
    pub(crate) tls_certificate_key_file: Option<PathBuf>,
    /// Password of the key in that file; prefer the environment or the configuration file, because
    /// other users of the machine can see flags
    #[arg(
        long,
        alias = "tlsCertificateKeyFilePassword",
        env = "MOTIF_TLS_CERTIFICATE_KEY_FILE_PASSWORD",
        hide_env_values = true,
        value_name = "PASSWORD",
        value_parser = |text: &str| Ok::<_, Infallible>(Password::new(text.to_owned()))
    )]
    pub(crate) tls_certificate_key_file_password: Option<Password>,
    /// PEM file with certificate authorities; with it clients must present a certificate
    #[arg(long, alias = "tlsCAFile", env = "MOTIF_TLS_CA_FILE", value_name = "FILE")]
    pub(crate) tls_ca_file: Option<PathBuf>,
    /// PEM file with lists of revoked client certificates
    #[arg(long, alias = "tlsCRLFile", env = "MOTIF_TLS_CRL_FILE", value_name = "FILE")]
    pub(crate) tls_crl_file: Option<PathBuf>,
    /// Do not require client certificates although `--tls-ca-file` is given
    #[arg(long, alias = "tlsAllowConnectionsWithoutCertificates",
          env = "MOTIF_TLS_ALLOW_CONNECTIONS_WITHOUT_CERTIFICATES", num_args = 0..=1,
          require_equals = true, default_missing_value = "true", value_name = "true|false")]
    pub(crate) tls_allow_connections_without_certificates: Option<bool>,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    /// TOML file with these settings; keys are the names of the flags
    #[arg(long, env = "MOTIF_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The settings of the TOML file.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileSettings {
    listen: Option<String>,
    data: Option<PathBuf>,
    cache: Option<Size>,
    disk_reserve: Option<Size>,
    operation_memory: Option<Size>,
    max_connections: Option<u32>,
    log_level: Option<LogLevel>,
    log_format: Option<LogFormat>,
    test_commands: Option<bool>,
    javascript: Option<bool>,
    #[serde(default)]
    set_parameter: BTreeMap<String, ParameterValue>,
    auth: Option<bool>,
    insecure_listen_without_authentication: Option<bool>,
    tls_mode: Option<TlsMode>,
    tls_certificate_key_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "password")]
    tls_certificate_key_file_password: Option<Password>,
    tls_ca_file: Option<PathBuf>,
    tls_crl_file: Option<PathBuf>,
    tls_allow_connections_without_certificates: Option<bool>,
    advertise: Option<String>,
    repl_set_name: Option<String>,
    topology: Option<Topology>,
    unix_socket: Option<PathBuf>,
    upstream: Option<String>,
}

/// The value of a server parameter.
#[derive(Deserialize, Debug, Clone, PartialEq)]
#[serde(untagged)]
pub(crate) enum ParameterValue {
    Bool(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

impl ParameterValue {
    fn write(&self, out: &mut Writer<'_>, name: &str) {
        match self {
            ParameterValue::Bool(value) => out.bool(name, *value),
            ParameterValue::Whole(value) => out.i64(name, *value),
            ParameterValue::Number(value) => out.f64(name, *value),
            ParameterValue::Text(value) => out.str(name, value),
        };
    }
}

/// Reads `NAME=VALUE`.
fn parameter(text: &str) -> Result<(String, ParameterValue), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let value = if let Ok(value) = value.parse() {
        ParameterValue::Bool(value)
    } else if let Ok(value) = value.parse() {
        ParameterValue::Whole(value)
    } else if let Ok(value) = value.parse() {
        ParameterValue::Number(value)
    } else {
        ParameterValue::Text(value.to_owned())
    };
    Ok((name.to_owned(), value))
}

/// The words of the command line for `getCmdLineOpts`, with passwords replaced.
pub(crate) fn without_passwords(words: impl Iterator<Item = String>) -> Vec<String> {
    const NAMES: [&str; 3] =
        ["--tls-certificate-key-file-password", "--tlsCertificateKeyFilePassword", "--upstream"];
    let mut is_next = false;
    let hide = |word: String| {
        if std::mem::take(&mut is_next) {
            return HIDDEN.to_owned();
        }
        is_next = NAMES.contains(&word.as_str());
        match word.split_once('=') {
            Some((name, _)) if NAMES.contains(&name) => format!("{name}={HIDDEN}"),
            _ => word,
        }
    };
    words.map(hide).collect()
}

fn password<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Password>, D::Error> {
    Ok(Option::<String>::deserialize(input)?.map(Password::new))
}

/// Which connections are encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Deserialize)]
pub(crate) enum TlsMode {
    /// None.
    #[value(name = "disabled")]
    #[serde(rename = "disabled")]
    Disabled,
    /// Connections of clients that use TLS.
    #[value(name = "allowTLS")]
    #[serde(rename = "allowTLS")]
    Allow,
    /// As `allowTLS`.
    #[value(name = "preferTLS")]
    #[serde(rename = "preferTLS")]
    Prefer,
    /// All.
    #[value(name = "requireTLS")]
    #[serde(rename = "requireTLS")]
    Require,
}

impl TlsMode {
    /// The name of the mode in settings.
    fn name(self) -> &'static str {
        match self {
            TlsMode::Disabled => "disabled",
            TlsMode::Allow => "allowTLS",
            TlsMode::Prefer => "preferTLS",
            TlsMode::Require => "requireTLS",
        }
    }
}

/// The minimum severity of logged events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Plain text.
    Text,
    /// One JSON object per line.
    Json,
}

/// The complete settings, with defaults.
#[derive(Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) listen: String,
    /// The addresses that `listen` resolves to.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) data: PathBuf,
    pub(crate) cache: Size,
    pub(crate) disk_reserve: Size,
    pub(crate) operation_memory: Size,
    pub(crate) max_connections: u32,
    pub(crate) log_level: LogLevel,
    pub(crate) log_format: LogFormat,
    pub(crate) test_commands: bool,
    pub(crate) javascript: bool,
    /// Server parameters by name.
    pub(crate) parameters: BTreeMap<String, ParameterValue>,
    /// Whether clients must log in.
    pub(crate) auth: bool,
    /// The options of TLS; `None` if connections are not encrypted.
    pub(crate) tls: Option<TlsOptions>,
    /// The advertised address, the replica set name and the Unix socket.
    pub(crate) reach: Reach,
    pub(crate) config: Option<PathBuf>,
}

impl Settings {
    /// Combines flags and environment variables (already combined by clap) with the TOML file.
    pub(crate) fn resolve(args: ServeArgs) -> Result<Settings> {
        let file = match &args.config {
            Some(path) => read_file(path)?,
            None => FileSettings::default(),
        };
        let listen = args.listen.or(file.listen).unwrap_or_else(|| LISTEN.to_owned());
        let insecure = args
            .insecure_listen_without_authentication
            .or(file.insecure_listen_without_authentication)
            .unwrap_or(false);
        let auth = args.auth.or(file.auth).unwrap_or(false);
        let tls = tls_options(
            args.tls_mode.or(file.tls_mode).unwrap_or(TlsMode::Disabled),
            args.tls_certificate_key_file.or(file.tls_certificate_key_file),
            TlsFiles {
                password: args
                    .tls_certificate_key_file_password
                    .or(file.tls_certificate_key_file_password),
                ca_file: args.tls_ca_file.or(file.tls_ca_file),
                crl_file: args.tls_crl_file.or(file.tls_crl_file),
                without_certificates: args
                    .tls_allow_connections_without_certificates
                    .or(file.tls_allow_connections_without_certificates)
                    .unwrap_or(false),
            },
        )?;
        let reach = Reach::resolve(
            args.reach,
            ReachArgs {
                advertise: file.advertise,
                repl_set_name: file.repl_set_name,
                topology: file.topology,
                unix_socket: file.unix_socket,
                upstream: file.upstream,
            },
        )?;
        // Behind a cluster's server, the cluster decides who may do what.
        let addresses = addresses(&listen, insecure || auth || reach.upstream.is_some())?;
        let data = args.data.or(file.data);
        if reach.upstream.is_some() && (data.is_some() || auth) {
            bail!(
                "--data and --auth have no effect with --upstream: the cluster has data and users"
            );
        }
        let mut parameters = file.set_parameter;
        parameters.extend(args.set_parameter);
        Ok(Settings {
            listen,
            addresses,
            data: data.unwrap_or_else(|| PathBuf::from(DATA)),
            cache: args
                .cache
                .or(file.cache)
                .unwrap_or_else(|| Size(default_cache_bytes(crate::limits::memory_bytes()))),
            disk_reserve: args.disk_reserve.or(file.disk_reserve).unwrap_or(DISK_RESERVE),
            operation_memory: args
                .operation_memory
                .or(file.operation_memory)
                .unwrap_or_else(|| Size(default_operation_bytes(crate::limits::memory_bytes()))),
            max_connections: args
                .max_connections
                .or(file.max_connections.filter(|most| *most > 0))
                .unwrap_or(MAX_CONNECTIONS),
            log_level: args.log_level.or(file.log_level).unwrap_or(LogLevel::Info),
            log_format: args.log_format.or(file.log_format).unwrap_or(LogFormat::Text),
            test_commands: args.test_commands.or(file.test_commands).unwrap_or(false),
            javascript: args.javascript.or(file.javascript).unwrap_or(false),
            parameters,
            auth,
            tls,
            reach,
            config: args.config,
        })
    }

    /// The settings as the field `parsed` of the reply of `getCmdLineOpts`.
    pub(crate) fn parsed(&self) -> DocBuf {
        DocBuf::build(|out| {
            if let Some(config) = &self.config {
                out.str("config", &config.to_string_lossy());
            }
            out.doc("net", |net| {
                if let Some(address) = self.addresses.first() {
                    net.str("bindIp", &address.ip().to_string());
                    net.i32("port", i32::from(address.port()));
                }
                if let Some(path) = &self.reach.unix_socket {
                    net.doc("unixDomainSocket", |out| {
                        out.bool("enabled", true).str("path", &path.to_string_lossy());
                    });
                }
                if let Some(tls) = &self.tls {
                    net.doc("tls", |out| write_tls(out, tls));
                }
                let most = i32::try_from(self.max_connections).unwrap_or(i32::MAX);
                net.i32("maxIncomingConnections", most);
            });
            out.doc("replication", |out| {
                out.str("replSetName", &self.reach.set_name);
            });
            out.doc("security", |security| {
                security.str("authorization", if self.auth { "enabled" } else { "disabled" });
                security.bool("javascriptEnabled", self.javascript);
            });
            out.doc("storage", |storage| {
                storage.str("dbPath", &self.data.to_string_lossy());
                storage.i64("cacheBytes", i64::try_from(self.cache.0).unwrap_or(i64::MAX));
            });
            out.doc("systemLog", |log| {
                log.str("level", &format!("{:?}", self.log_level).to_lowercase());
                log.str("format", &format!("{:?}", self.log_format).to_lowercase());
            });
            if self.test_commands || !self.parameters.is_empty() {
                out.doc("setParameter", |out| {
                    if self.test_commands {
                        out.bool("enableTestCommands", true);
                    }
                    self.write_parameters(out);
                });
            }
        })
    }

    /// Writes the server parameters as fields.
    pub(crate) fn write_parameters(&self, out: &mut Writer<'_>) {
        self.parameters.iter().for_each(|(name, value)| value.write(out, name));
    }
}

/// Optional files of TLS.
struct TlsFiles {
    password: Option<Password>,
    ca_file: Option<PathBuf>,
    crl_file: Option<PathBuf>,
    without_certificates: bool,
}

/// Combines the settings of TLS. Refuses settings that would have no effect.
fn tls_options(
    mode: TlsMode,
    certificate_key_file: Option<PathBuf>,
    files: TlsFiles,
) -> Result<Option<TlsOptions>> {
    let mode = match mode {
        TlsMode::Allow => server::TlsMode::Allow,
        TlsMode::Prefer => server::TlsMode::Prefer,
        TlsMode::Require => server::TlsMode::Require,
        TlsMode::Disabled => {
            let idle = certificate_key_file.is_some()
                || files.password.is_some()
                || files.ca_file.is_some()
                || files.crl_file.is_some()
                || files.without_certificates;
            if idle {
                bail!(
                    "there are settings of TLS, but connections are not encrypted\nhint: give \
                     --tls-mode requireTLS, or allowTLS to take plain connections too"
                );
            }
            return Ok(None);
        }
    };
    let Some(certificate_key_file) = certificate_key_file else {
        bail!(
            "encrypted connections need a certificate\nhint: give --tls-certificate-key-file FILE"
        );
    };
    if files.ca_file.is_none() && (files.crl_file.is_some() || files.without_certificates) {
        bail!(
            "clients are not asked for certificates as long as no authority is known\nhint: give \
             --tls-ca-file FILE"
        );
    }
    Ok(Some(TlsOptions {
        mode,
        certificate_key_file,
        certificate_key_password: files.password,
        ca_file: files.ca_file,
        crl_file: files.crl_file,
        allow_connections_without_certificates: files.without_certificates,
    }))
}

fn write_tls(out: &mut Writer<'_>, tls: &TlsOptions) {
    let mode = match tls.mode {
        server::TlsMode::Allow => TlsMode::Allow,
        server::TlsMode::Prefer => TlsMode::Prefer,
        server::TlsMode::Require => TlsMode::Require,
    };
    out.str("mode", mode.name());
    out.str("certificateKeyFile", &tls.certificate_key_file.to_string_lossy());
    for (name, file) in [("CAFile", &tls.ca_file), ("CRLFile", &tls.crl_file)] {
        if let Some(file) = file {
            out.str(name, &file.to_string_lossy());
        }
    }
    if tls.allow_connections_without_certificates {
        out.bool("allowConnectionsWithoutCertificates", true);
    }
}

fn read_file(path: &Path) -> Result<FileSettings> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the settings file `{}`", path.display()))?;
    // The error of the parser has the line and the name of an unknown key.
    toml::from_str(&text)
        .with_context(|| format!("the settings file `{}` is wrong", path.display()))
}

/// Resolves `ADDRESS:PORT`. Refuses addresses that other machines can reach unless `insecure`.
fn addresses(listen: &str, insecure: bool) -> Result<Vec<SocketAddr>> {
    let addresses: Vec<SocketAddr> = listen
        .to_socket_addrs()
        .with_context(|| format!("`{listen}` is not an address; write ADDRESS:PORT"))?
        .collect();
    if addresses.is_empty() {
        bail!("`{listen}` has no address");
    }
    if !insecure && let Some(open) = addresses.iter().find(|address| !address.ip().is_loopback()) {
        bail!(
            "refusing to listen on {open}: other machines can reach it, and everyone there could \
             read and change everything\nhint: give --auth, so that clients must log in; or listen \
             on 127.0.0.1; or give --insecure-listen-without-authentication if the network is closed"
        );
    }
    Ok(addresses)
}

/// The default size of the caches, as in MongoDB: half of the memory above a gibibyte.
fn default_cache_bytes(memory: u64) -> u64 {
    (memory.saturating_sub(1 << 30) / 2).max(256 << 20)
}

/// The default memory for operations: a quarter of the memory, and at least enough for a few large
/// messages.
fn default_operation_bytes(memory: u64) -> u64 {
    (memory / 4).max(256 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use value::ejson::Format;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn defaults_are_this_machine_and_a_folder_beside() {
        let settings = Settings::resolve(ServeArgs::default()).unwrap();
        assert_eq!(settings.listen, "127.0.0.1:27017");
        assert_eq!(settings.data, PathBuf::from("./motif-data"));
        assert_eq!(settings.log_level, LogLevel::Info);
        assert!(!settings.test_commands && !settings.javascript);
    }

    #[test]
    fn the_file_gives_what_flags_leave_open() {
        let file = file(
            "listen = '127.0.0.1:4000'\ndata = '/x'\ncache = '1GB'\nlog-level = 'debug'\n\
             log-format = 'json'\ntest-commands = true\njavascript = true\n",
        );
        let args = ServeArgs {
            config: Some(file.path().to_owned()),
            data: Some(PathBuf::from("/y")),
            test_commands: Some(false),
            ..ServeArgs::default()
        };
        let settings = Settings::resolve(args).unwrap();
        assert_eq!(settings.listen, "127.0.0.1:4000");
        assert_eq!(settings.data, PathBuf::from("/y"));
        assert_eq!(settings.cache, Size(1_000_000_000));
        assert_eq!(settings.log_level, LogLevel::Debug);
        assert_eq!(settings.log_format, LogFormat::Json);
        assert!(!settings.test_commands && settings.javascript);
    }

    #[test]
    fn an_unknown_key_is_named() {
        let file = file("listen = '127.0.0.1:4000'\nchache = '1GB'\n");
        let args = ServeArgs { config: Some(file.path().to_owned()), ..ServeArgs::default() };
        let error = format!("{:#}", Settings::resolve(args).unwrap_err());
        assert!(error.contains("chache"), "{error}");
    }

    #[test]
    fn an_open_address_needs_the_word_insecure() {
        let open = |insecure| ServeArgs {
            listen: Some("0.0.0.0:27017".to_owned()),
            insecure_listen_without_authentication: insecure,
            ..ServeArgs::default()
        };
        assert!(Settings::resolve(open(None)).is_err());
        assert!(Settings::resolve(open(Some(true))).is_ok());
        // Encryption does not replace authentication.
        let encrypted = ServeArgs {
            tls_mode: Some(TlsMode::Require),
            tls_certificate_key_file: Some(PathBuf::from("server.pem")),
            tls_ca_file: Some(PathBuf::from("ca.pem")),
            ..open(None)
        };
        assert!(Settings::resolve(encrypted).is_err());
    }

    #[test]
    fn an_open_address_is_fine_with_authentication() {
        let args = ServeArgs {
            listen: Some("0.0.0.0:27017".to_owned()),
            auth: Some(true),
            ..ServeArgs::default()
        };
        assert!(Settings::resolve(args).unwrap().auth);
    }

    #[test]
    fn settings_of_tls_that_would_do_nothing_are_refused() {
        let file = |name: &str| Some(PathBuf::from(name));
        let plain = ServeArgs { tls_ca_file: file("ca.pem"), ..ServeArgs::default() };
        assert!(Settings::resolve(plain).is_err());
        let bare = ServeArgs { tls_mode: Some(TlsMode::Require), ..ServeArgs::default() };
        assert!(Settings::resolve(bare).is_err());
        let whole = |ca_file| ServeArgs {
            tls_mode: Some(TlsMode::Prefer),
            tls_certificate_key_file: file("server.pem"),
            tls_ca_file: ca_file,
            tls_allow_connections_without_certificates: Some(true),
            ..ServeArgs::default()
        };
        assert!(Settings::resolve(whole(None)).is_err());
        let settings = Settings::resolve(whole(file("ca.pem"))).unwrap();
        assert_eq!(settings.tls.as_ref().unwrap().mode, server::TlsMode::Prefer);
        let parsed = settings.parsed();
        let net = parsed.as_doc().get("net").and_then(|net| net.as_doc()).unwrap();
        let tls = net.get("tls").and_then(|tls| tls.as_doc()).unwrap();
        assert_eq!(tls.get("mode").and_then(|mode| mode.as_str()), Some("preferTLS"));
    }

    #[test]
    fn tls_is_set_in_the_file_too() {
        let file = file(
            "tls-mode = 'requireTLS'\ntls-certificate-key-file = '/server.pem'\n\
             tls-certificate-key-file-password = 'open sesame'\n",
        );
        let args = ServeArgs { config: Some(file.path().to_owned()), ..ServeArgs::default() };
        let settings = Settings::resolve(args).unwrap();
        // What `getCmdLineOpts` answers has no password.
        assert!(!value::ejson::print(settings.parsed().as_doc(), Format::Shell).contains("sesame"));
        let tls = settings.tls.unwrap();
        assert_eq!(tls.mode, server::TlsMode::Require);
        assert_eq!(tls.certificate_key_file, PathBuf::from("/server.pem"));
        assert_eq!(tls.certificate_key_password, Some(Password::new("open sesame".to_owned())));
    }

    #[test]
    fn passwords_of_the_command_line_are_not_shown() {
        let line = "motif serve --tls-certificate-key-file-password one --auth \
                    --tlsCertificateKeyFilePassword=two --tls-mode requireTLS";
        let shown = without_passwords(line.split_whitespace().map(str::to_owned)).join(" ");
        let expected = "motif serve --tls-certificate-key-file-password <password> --auth \
                        --tlsCertificateKeyFilePassword=<password> --tls-mode requireTLS";
        assert_eq!(shown, expected);
    }

    #[test]
    fn nonsense_addresses_are_refused() {
        for listen in ["", "127.0.0.1", "127.0.0.1:99999", "nonsense"] {
            assert!(addresses(listen, true).is_err(), "{listen}");
        }
    }

    #[test]
    fn caches_take_half_of_what_is_above_a_gibibyte() {
        assert_eq!(default_cache_bytes(512 << 20), 256 << 20);
        assert_eq!(default_cache_bytes(9 << 30), 4 << 30);
    }
}
