//! `motif serve`: opens the data folder, serves clients, and stops cleanly on SIGTERM, SIGINT and
//! the `shutdown` command. SIGHUP reloads certificates. Log lines go to standard error and to the
//! memory that `getLog` reads.

use crate::config::{LogFormat, LogLevel, ServeArgs, Settings, without_passwords};
use crate::log_memory::{LogMemory, SERVED};
use crate::reach::Topology;
use anyhow::{Context, Result, anyhow};
use motifdb::{Engine, LogLevels, Options, Storage};
use server::{Backend, Handle, Server, ServerOptions, Tls, UnixSocketError};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{ErrorKind, IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use upstream::Upstream;
use value::DocBuf;

/// Runs the server until a signal or the `shutdown` command stops it.
pub(crate) fn run(args: ServeArgs) -> Result<ExitCode> {
    let settings = Settings::resolve(args)?;
    let change_log_level = start_log(&settings);
    log_panics();
    crate::limits::raise_open_files();
    crate::limits::make_private_files();
    // Before anything is opened, so that an early signal also leads to a clean stop.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot wait for signals")?;
    // Before the data is opened: a wrong file is reported without replaying the log.
    let tls = settings.tls.clone().map(Tls::load).transpose().context("cannot use TLS")?;

    let upstream = settings.reach.upstream.as_deref().map(connect).transpose()?;
    let storage = match &upstream {
        // The cluster has the data; what the engine keeps is about connections.
        Some(_) => Storage::Memory,
        None => Storage::Disk(settings.data.clone()),
    };
    let options = Options {
        storage,
        cache_bytes: settings.cache.0,
        reserve_bytes: settings.disk_reserve.0,
        operation_bytes: settings.operation_memory.0,
        test_commands: settings.test_commands,
        javascript: settings.javascript,
        listen: settings.listen.clone(),
        advertise: settings.reach.advertise.clone(),
        set_name: settings.reach.set_name.clone(),
        topology: match settings.reach.topology {
            Topology::ReplicaSet => motifdb::Topology::ReplicaSet,
            Topology::Router => motifdb::Topology::Router,
        },
        command_line: without_passwords(std::env::args()),
        config: settings.parsed(),
        ..Options::default()
    };
    let engine = Engine::open(options)
        .map_err(|error| anyhow!("{}", error.message()))
        .with_context(|| format!("cannot open the data folder `{}`", settings.data.display()))?;
    let _ = SERVED.set(engine.clone());
    engine.on_log_level(change_log_level);
    if let Err(error) = set_parameters(&engine, &settings) {
        let _ = engine.close();
        return Err(error);
    }
    let server_options = ServerOptions {
        listen: settings.addresses.clone(),
        unix_socket: settings.reach.unix_socket.clone(),
        authenticate: settings.auth,
        tls: tls.map(Arc::new),
        connections_max: usize::try_from(settings.max_connections).unwrap_or(usize::MAX),
        backend: upstream.clone().map(|upstream| upstream as Arc<dyn Backend>),
        ..ServerOptions::default()
    };
    let server = match Server::bind(engine.clone(), server_options) {
        Ok(server) => server,
        Err(error) => {
            // Ends the engine's threads and releases its lock before the error is reported.
            let _ = engine.close();
            return Err(bind_error(error, &settings));
        }
    };
    if let Err(error) = engine.record_start() {
        tracing::warn!(code = error.code().0, "cannot write to local.startup_log");
    }
    let handle = server.handle();
    let address = server.local_addr().context("the server has no address")?;
    let signal_handle = signals.handle();
    let waiter = std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut asked = false;
            for signal in signals.forever() {
                if signal == SIGHUP {
                    reload(&handle);
                    continue;
                }
                if asked {
                    // A second signal stops at once. Acknowledged writes are on disk.
                    std::process::exit(128 + signal);
                }
                asked = true;
                tracing::info!(signal, "shutting down");
                handle.stop();
            }
        })
        .context("cannot start a thread")?;
    let version = env!("CARGO_PKG_VERSION");
    match &upstream {
        None => tracing::info!(version, %address, data = %settings.data.display(), "serving"),
        Some(upstream) => {
            tracing::info!(version, %address, cluster = upstream.hosts(), "serving a cluster");
        }
    }
    greet(&settings, upstream.as_deref(), address);
    let result = server.run();
    signal_handle.close();
    let _ = waiter.join();
    let closed = engine.close();
    result.context("the server failed")?;
    closed.map_err(|error| anyhow!("{}", error.message())).context("cannot close the data")?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Connects to the cluster that is served.
fn connect(uri: &str) -> Result<Arc<Upstream>> {
    let upstream = Upstream::open(uri).map_err(|error| anyhow!("{}", error.message()));
    Ok(Arc::new(upstream.context("cannot connect to the cluster")?))
}

/// Sets the server parameters of the settings.
fn set_parameters(engine: &Engine, settings: &Settings) -> Result<()> {
    if settings.parameters.is_empty() {
        return Ok(());
    }
    let command = DocBuf::build(|out| {
        out.i32("setParameter", 1);
        settings.write_parameters(out);
    });
    let result = engine.run_command("admin", command.as_doc());
    result.map_err(|error| anyhow!("{}", error.message())).context("cannot set parameters")?;
    Ok(())
}

/// Reloads the certificate files.
fn reload(handle: &Handle) {
    match handle.reload_certificates() {
        Ok(true) => tracing::info!("certificates and keys reloaded"),
        Ok(false) => {
            tracing::info!("nothing to reload: TLS is disabled")
        }
        Err(error) => {
            tracing::error!(%error, "cannot reload certificates and keys; the old ones stay in use");
        }
    }
}

/// Prints how to connect.
fn greet(settings: &Settings, upstream: Option<&Upstream>, address: SocketAddr) {
    let data = std::path::absolute(&settings.data).unwrap_or_else(|_| settings.data.clone());
    let what = match upstream {
        None => format!("Data folder:  {}", data.display()),
        Some(upstream) => format!("Cluster:      {}", upstream.hosts()),
    };
    let shown = settings.reach.advertise.clone().unwrap_or_else(|| usable(address).to_string());
    let socket = settings.reach.unix_socket.as_deref().map_or_else(String::new, |path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        format!("Unix socket:  {}\n", path.display())
    });
    let text = format!(
        "MotifDB {}\n{what}\nConnect with: mongosh \"mongodb://{shown}{}\"\n{socket}{}\n",
        env!("CARGO_PKG_VERSION"),
        if settings.tls.is_some() { "/?tls=true" } else { "" },
        if upstream.is_some() {
            "Access:       as the cluster allows; clients log in with its users"
        } else if settings.auth {
            "Access:       clients must log in; create users with: motif user add"
        } else {
            "Access:       no authentication: every client can read and change everything"
        }
    );
    // A closed standard output does not stop the server.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// An address to connect to from this machine: the loopback address in place of an unspecified one.
fn usable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn bind_error(error: std::io::Error, settings: &Settings) -> anyhow::Error {
    let listen = &settings.listen;
    if let Some(path) = error.get_ref().and_then(|error| error.downcast_ref::<UnixSocketError>()) {
        return anyhow!("cannot listen on the Unix socket: {path}");
    }
    let hint = match error.kind() {
        ErrorKind::AddrInUse => {
            format!(
                "{listen} is in use by another process\nhint: stop it, or choose another port, \
                 for example --listen 127.0.0.1:27018"
            )
        }
        ErrorKind::PermissionDenied => {
            format!("not allowed to listen on {listen}\nhint: choose a port above 1023")
        }
        ErrorKind::AddrNotAvailable => format!("this machine does not have the address {listen}"),
        _ => format!("cannot listen on {listen}"),
    };
    anyhow::Error::new(error).context(hint)
}

/// Logs panics with their source locations. Formatted messages may contain data of documents, so
/// only messages that are constants are logged.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or("").to_owned();
        let message = panic.payload().downcast_ref::<&'static str>().copied();
        let message = message.unwrap_or("(left out: it may repeat data)");
        tracing::error!(place, thread, message, "internal error: panic");
    }));
}

/// Starts the log. The returned function changes the verbosity; 0 is the configured one.
fn start_log(settings: &Settings) -> Box<dyn Fn(&LogLevels) + Send + Sync> {
    let configured = match settings.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let (shown, switch) = reload::Layer::new(targets(configured, &[]));
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let log = tracing_subscriber::registry().with(shown).with(LogMemory);
    match settings.log_format {
        LogFormat::Text => log.with(lines).init(),
        LogFormat::Json => log.with(lines.json()).init(),
    }
    Box::new(move |levels| {
        let filter = |level: i32| match level {
            ..=0 => configured,
            1 => configured.max(LevelFilter::DEBUG),
            _ => LevelFilter::TRACE,
        };
        let modules: Vec<_> =
            levels.modules.iter().map(|(module, level)| (*module, filter(*level))).collect();
        if let Err(error) = switch.reload(targets(filter(levels.default), &modules)) {
            tracing::warn!(%error, "cannot change the log level");
        }
    })
}

/// The filter for a level, with modules that have a level of their own.
fn targets(level: LevelFilter, modules: &[(&str, LevelFilter)]) -> Targets {
    // The storage library logs every file that it opens, and every failure, which the store reports
    // too: only for debugging.
    let storage = if level <= LevelFilter::INFO { LevelFilter::OFF } else { level };
    let all = Targets::new().with_default(level).with_target("lsm_tree", storage);
    modules.iter().fold(all, |all, (module, level)| all.with_target(*module, *level))
}
