//! The runner of `tests/spec/**/*.test`; see `tests/spec/README.md`.
//!
//! `cargo test -p motif-spec --test spec -- filter/comparison` picks tests by name, `BLESS=1`
//! rewrites expectations, `SPEC_URI=mongodb://…` runs against another server, `SPEC_CONFIG=wire`
//! in one configuration only.

use libtest_mimic::{Arguments, Failed, Trial};
use spec::connection::Deployment;
use spec::file::{self, SpecFile, Test};
use spec::run::{RunMode, run_test};
use spec::same::Repetition;
use spec::{bless, judge};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

/// A way of running all tests: its name, where, and how.
struct Configuration {
    name: &'static str,
    deployment: fn() -> value::Result<Deployment>,
    mode: RunMode,
}

static CONFIGURATIONS: &[Configuration] = &[
    Configuration { name: "memory", deployment: Deployment::memory, mode: PLAIN },
    Configuration { name: "disk", deployment: disk, mode: PLAIN },
    Configuration { name: "wire", deployment: Deployment::wire, mode: PLAIN },
    Configuration { name: "batch", deployment: Deployment::memory, mode: ONE_BY_ONE },
    Configuration { name: "hidden", deployment: Deployment::memory, mode: HIDDEN },
    Configuration { name: "plans", deployment: Deployment::memory, mode: EVERY_PLAN },
];

static ELSEWHERE: &[Configuration] = &[
    Configuration { name: "uri", deployment: elsewhere, mode: PLAIN },
    Configuration { name: "uri-batch", deployment: elsewhere, mode: ONE_BY_ONE },
];

const PLAIN: RunMode = RunMode { batch_of_one: false, fetch_always: false, again: None };
const ONE_BY_ONE: RunMode = RunMode { batch_of_one: true, ..PLAIN };
const HIDDEN: RunMode = RunMode { again: Some(Repetition::Hidden), ..PLAIN };
const EVERY_PLAN: RunMode = RunMode { again: Some(Repetition::EveryPlan), ..PLAIN };

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = tempfile::Builder::new().prefix("motif-spec").tempdir();
    folder.expect("a temporary folder can be made").keep()
});

fn disk() -> value::Result<Deployment> {
    Deployment::disk(FOLDER.join("data"))
}

fn elsewhere() -> value::Result<Deployment> {
    Ok(Deployment::Remote(std::env::var("SPEC_URI").unwrap_or_default()))
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/spec");
    let root = root.canonicalize().unwrap_or(root);
    let files = match file::read_all(&root) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let elsewhere = std::env::var_os("SPEC_URI").is_some();
    let configurations = if elsewhere { ELSEWHERE } else { CONFIGURATIONS };
    if std::env::var_os("BLESS").is_some_and(|value| value != "0") {
        return bless_all(&files, &configurations[0], arguments.filter.as_deref(), elsewhere);
    }
    let wanted = std::env::var("SPEC_CONFIG").ok();
    let files: Vec<Arc<SpecFile>> = files.into_iter().map(Arc::new).collect();
    let mut trials = Vec::new();
    for configuration in configurations {
        if wanted.as_ref().is_some_and(|wanted| wanted != configuration.name) {
            continue;
        }
        let deployment = Arc::new(LazyLock::new(configuration.deployment));
        for file in &files {
            for (at, test) in file.tests.iter().enumerate() {
                let (file, deployment) = (Arc::clone(file), Arc::clone(&deployment));
                let name = format!("{}: {}", file.name, test.title);
                let ignored = elsewhere && test.only_motif.is_some();
                let mode = configuration.mode;
                let trial = Trial::test(name, move || {
                    let deployment =
                        deployment.as_ref().as_ref().map_err(|error| error.to_string())?;
                    run_one(deployment, &file, &file.tests[at], mode, elsewhere)
                });
                trials.push(trial.with_kind(configuration.name).with_ignored_flag(ignored));
            }
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The folder is left only when something failed, to look at.
    if !conclusion.has_failed() && LazyLock::get(&FOLDER).is_some() {
        let _ = std::fs::remove_dir_all(&*FOLDER);
    }
    conclusion.exit_code()
}

fn run_one(
    deployment: &Deployment,
    file: &SpecFile,
    test: &Test,
    mode: RunMode,
    elsewhere: bool,
) -> Result<(), Failed> {
    if test.steps.iter().all(|step| step.expectations.is_empty()) {
        return Err(format!("{}:{}: nothing is expected", file.path.display(), test.line).into());
    }
    let mut connection = deployment.connect().map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    let result = run_test(connection.as_mut(), file, test, mode, |step, outcome, names| {
        if step.expectations.is_empty() {
            return judge::expect_success(outcome)
                .map_err(|message| format!("line {}: {message}", step.last_line));
        }
        let judged = step
            .expectations
            .iter()
            .try_for_each(|expectation| judge::judge(expectation, outcome, names));
        match (judged, &step.row) {
            // The rows of a table do not depend on each other: all that are wrong are printed.
            (Err(message), Some(given)) => {
                rows.push(format!("{message}: {given}"));
                Ok(())
            }
            (judged, _) => judged,
        }
    });
    let result = result.and(if rows.is_empty() { Ok(()) } else { Err(rows.join("\n  ")) });
    match (result, &test.differs) {
        (Ok(()), Some(reason)) if !elsewhere => {
            Err(format!("passes now: remove `differs {reason}`").into())
        }
        (Err(_), Some(_)) if !elsewhere => Ok(()),
        (Err(message), _) => Err(format!("{}: {message}", file.path.display()).into()),
        (Ok(()), _) => Ok(()),
    }
}

fn bless_all(
    files: &[SpecFile],
    configuration: &Configuration,
    filter: Option<&str>,
    elsewhere: bool,
) -> ExitCode {
    let deployment = match (configuration.deployment)() {
        Ok(deployment) => deployment,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut failed = false;
    for file in files {
        if filter.is_some_and(|filter| !file.name.contains(filter)) {
            continue;
        }
        let blessed = deployment
            .connect()
            .map_err(|error| error.to_string())
            .and_then(|mut connection| bless::bless(connection.as_mut(), file, elsewhere));
        match blessed {
            Ok(0) => {}
            Ok(count) => eprintln!("{}: {count} expectations written", file.name),
            Err(message) => {
                eprintln!("{message}");
                failed = true;
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
