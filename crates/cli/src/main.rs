//! The binary `motif`. Without a subcommand it serves. Each subcommand has a file or folder in `cmd`,
//! except `bench`, which is a crate; settings of the server are in `config`.

mod cmd;
mod config;
mod limits;
mod log_memory;
mod reach;
mod size;

use clap::{Parser, Subcommand};
use cmd::{check, repair, serve, shell_helpers, transfer, user, version};
use std::io::ErrorKind;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  motif                                        serve ./motif-data on 127.0.0.1:27017
  motif serve --listen 127.0.0.1:5000 --data /var/lib/motif --cache 2GB
  motif serve --config motif.toml
  motif serve --auth --listen 0.0.0.0:27017
  motif serve --upstream \"mongodb://a,b,c/?replicaSet=rs0\"
  motif user add ada --role root
  motif check /var/lib/motif
  motif repair /var/lib/motif --to /var/lib/motif-new
  motif import --db shop --collection orders --file orders.json
  motif export --db shop --collection orders --file orders.csv --fields _id,total
  motif shell-helpers > motif.js && mongosh --shell --file motif.js
  motif bench --compare /path/to/mongod

Settings of the server come from a flag, else its environment variable, else the TOML file, else
the default. Then connect with: mongosh \"mongodb://127.0.0.1:27017\"";

/// MotifDB: a document database that speaks MongoDB's wire protocol
#[derive(Parser, Debug)]
#[command(name = "motif", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: config::ServeArgs,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Serve a data folder to clients
    Serve(config::ServeArgs),
    Check(check::CheckArgs),
    Repair(repair::RepairArgs),
    Import(transfer::import::ImportArgs),
    Export(transfer::export::ExportArgs),
    User(user::UserArgs),
    Bench(bench::BenchArgs),
    /// Print a file for mongosh with methods for patterns: db.coll.createPattern() and others
    ShellHelpers,
    /// Print the version
    Version,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        None => serve::run(cli.serve),
        Some(Command::Serve(args)) => serve::run(args),
        Some(Command::Check(args)) => check::run(&args),
        Some(Command::Repair(args)) => repair::run(&args),
        Some(Command::Import(args)) => transfer::import::run(&args),
        Some(Command::Export(args)) => transfer::export::run(&args),
        Some(Command::User(args)) => user::run(&args),
        Some(Command::Bench(args)) => {
            limits::raise_open_files();
            bench::run(&args)
        }
        Some(Command::ShellHelpers) => shell_helpers::run().map(|()| ExitCode::SUCCESS),
        Some(Command::Version) => version::run().map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        // The reader of standard output has closed it, as in `motif export .. | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_subcommand_serves() {
        let cli = Cli::parse_from(["motif", "--listen", "127.0.0.1:1"]);
        assert!(cli.command.is_none());
        assert_eq!(cli.serve.listen.as_deref(), Some("127.0.0.1:1"));
        let cli = Cli::parse_from(["motif", "serve", "--test-commands"]);
        let Some(Command::Serve(args)) = cli.command else { panic!("not serve") };
        assert_eq!(args.test_commands, Some(true));
    }
}
