//! Settings of the server: from a flag, else an environment variable, else the TOML file, else the
//! default. The file's keys are the flags' names without their dashes in front.

use crate::size::Size;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use value::DocBuf;

const LISTEN: &str = "127.0.0.1:27017";
const DATA: &str = "./motif-data";

/// Settings as flags and environment variables give them.
#[derive(Args, Debug, Default, Clone)]
pub(crate) struct ServeArgs {
    /// Where to wait for clients [default: 127.0.0.1:27017]
    ///
    /// Port 0 takes a free one. Addresses that other machines can reach are taken only with
    /// `--auth`, or with `--insecure-listen-without-authentication`.
    #[arg(long, env = "MOTIF_LISTEN", value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Folder that holds the data; made when it does not exist [default: ./motif-data]
    #[arg(long, env = "MOTIF_DATA", value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Memory for caching data; taken as it is needed [default: half of the
    /// machine's memory above 1 GiB, at least 256 MiB]
    #[arg(long, env = "MOTIF_CACHE", value_name = "SIZE")]
    pub(crate) cache: Option<Size>,
    /// Least severity of what is logged [default: info]
    #[arg(long, env = "MOTIF_LOG_LEVEL", value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// How log lines look [default: text]
    #[arg(long, env = "MOTIF_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Allow commands that exist for tests only
    #[arg(long, env = "MOTIF_TEST_COMMANDS", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true|false")]
    pub(crate) test_commands: Option<bool>,
    /// Clients must log in, and may do what their roles allow; `motif user add` makes users
    #[arg(long, env = "MOTIF_AUTH", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true|false")]
    pub(crate) auth: Option<bool>,
    /// Listen on addresses that other machines can reach, although everyone who reaches them may
    /// read and change everything
    #[arg(long, env = "MOTIF_INSECURE_LISTEN_WITHOUT_AUTHENTICATION", num_args = 0..=1,
          require_equals = true, default_missing_value = "true", value_name = "true|false")]
    pub(crate) insecure_listen_without_authentication: Option<bool>,
    /// TOML file with these settings; its keys are the flags' names
    #[arg(long, env = "MOTIF_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Settings as the TOML file gives them.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileSettings {
    listen: Option<String>,
    data: Option<PathBuf>,
    cache: Option<Size>,
    log_level: Option<LogLevel>,
    log_format: Option<LogFormat>,
    test_commands: Option<bool>,
    auth: Option<bool>,
    insecure_listen_without_authentication: Option<bool>,
}

/// Least severity of what is logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Settings of which every one has its value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) listen: String,
    /// The addresses that `listen` means.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) data: PathBuf,
    pub(crate) cache: Size,
    pub(crate) log_level: LogLevel,
    pub(crate) log_format: LogFormat,
    pub(crate) test_commands: bool,
    /// Whether clients must log in.
    pub(crate) auth: bool,
    pub(crate) config: Option<PathBuf>,
}

impl Settings {
    /// Unites flags and environment (which clap has united already) with the file they name.
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
        let addresses = addresses(&listen, insecure || auth)?;
        Ok(Settings {
            listen,
            addresses,
            data: args.data.or(file.data).unwrap_or_else(|| PathBuf::from(DATA)),
            cache: args
                .cache
                .or(file.cache)
                .unwrap_or_else(|| Size(default_cache_bytes(crate::limits::memory_bytes()))),
            log_level: args.log_level.or(file.log_level).unwrap_or(LogLevel::Info),
            log_format: args.log_format.or(file.log_format).unwrap_or(LogFormat::Text),
            test_commands: args.test_commands.or(file.test_commands).unwrap_or(false),
            auth,
            config: args.config,
        })
    }

    /// The settings in the form in which `getCmdLineOpts` answers.
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
            });
            out.doc("security", |security| {
                security.str("authorization", if self.auth { "enabled" } else { "disabled" });
            });
            out.doc("storage", |storage| {
                storage.str("dbPath", &self.data.to_string_lossy());
                storage.i64("cacheBytes", i64::try_from(self.cache.0).unwrap_or(i64::MAX));
            });
            out.doc("systemLog", |log| {
                log.str("level", &format!("{:?}", self.log_level).to_lowercase());
                log.str("format", &format!("{:?}", self.log_format).to_lowercase());
            });
            if self.test_commands {
                out.doc("setParameter", |parameters| {
                    parameters.bool("enableTestCommands", true);
                });
            }
        })
    }
}

fn read_file(path: &Path) -> Result<FileSettings> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the settings file `{}`", path.display()))?;
    // The error of the parser shows the line and names a key that is unknown.
    toml::from_str(&text)
        .with_context(|| format!("the settings file `{}` is wrong", path.display()))
}

/// The addresses behind `ADDRESS:PORT`; those that other machines reach need permission.
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

/// What caches may take of so much memory, as MongoDB has it: half of what is above a gibibyte.
fn default_cache_bytes(memory: u64) -> u64 {
    (memory.saturating_sub(1 << 30) / 2).max(256 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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
        assert!(!settings.test_commands);
    }

    #[test]
    fn the_file_gives_what_flags_leave_open() {
        let file = file(
            "listen = '127.0.0.1:4000'\ndata = '/x'\ncache = '1GB'\nlog-level = 'debug'\n\
             log-format = 'json'\ntest-commands = true\n",
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
        assert!(!settings.test_commands);
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
