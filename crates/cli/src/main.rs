//! `motif`
mod cmd;
mod limits;
use clap::Parser;
#[derive(Parser)]
struct Cli { #[command(subcommand)] command: Sub }
#[derive(clap::Subcommand)]
enum Sub { Bench(cmd::bench::BenchArgs) }
fn main() -> anyhow::Result<std::process::ExitCode> {
    let cli = Cli::parse();
    match cli.command { Sub::Bench(args) => cmd::bench::run(&args) }
}
