//! Reads `*.test` files: directives start in column 0, their content is indented.
//!
//! Line numbers are kept, because `bless` replaces expectations in place.

use std::fmt;
use std::path::{Path, PathBuf};

/// A test file as read.
#[derive(Debug)]
pub struct SpecFile {
    /// Where it is.
    pub path: PathBuf,
    /// Path below `tests/spec` without the extension: the first part of every test's name.
    pub name: String,
    /// The preparations of each test.
    pub setup: Vec<Setup>,
    /// The tests in order.
    pub tests: Vec<Test>,
}

/// A preparation.
#[derive(Debug, Clone)]
pub enum Setup {
    /// Documents of a collection; none creates it empty.
    Data {
        /// The collection.
        collection: String,
        /// The documents' text.
        body: String,
    },
    /// An index: keys and options follow the collection's name.
    Index {
        /// The collection.
        collection: String,
        /// Key pattern and words (`unique`, `sparse`) or a document of options.
        body: String,
    },
}

/// One test.
#[derive(Debug)]
pub struct Test {
    /// Its title, a sentence.
    pub title: String,
    /// Line of the title, from 1.
    pub line: usize,
    /// Preparations and actions in order.
    pub steps: Vec<TestStep>,
    /// The reason of a known difference to MongoDB: the test must fail.
    pub differs: Option<String>,
    /// The reason why the expectation holds for MotifDB only.
    pub only_motif: Option<String>,
}

/// A preparation or an action with what is expected of it.
#[derive(Debug)]
pub struct TestStep {
    /// The action.
    pub action: Action,
    /// Last line of the action, from 1: new expectations are written behind it.
    pub last_line: usize,
    /// The text before the arrow, if the step is a row of a table.
    pub row: Option<String>,
    /// The expected results; if there are none, the step must succeed.
    pub expectations: Vec<Expectation>,
}

/// An action of a step.
#[derive(Debug)]
pub enum Action {
    /// Prepares data in the middle of a test.
    Setup(Setup),
    /// Runs a command.
    Run(String),
    /// Evaluates an expression, on a document if one is named.
    Eval(String),
    /// Finds in the first collection that was set up.
    Match(String),
    /// Updates all documents of the first collection that was set up.
    Update(String),
}

/// An expected result of a step.
#[derive(Debug, Clone)]
pub struct Expectation {
    /// Its kind.
    pub kind: Kind,
    /// The text that belongs to it, without the directive.
    pub body: String,
    /// First line, from 1.
    pub first_line: usize,
    /// Last line.
    pub last_line: usize,
}

/// The kinds of expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The documents in order.
    Docs,
    /// The documents in any order.
    DocsUnordered,
    /// The `_id`s of the documents in order, as one array.
    Ids,
    /// Some fields of the reply.
    Reply,
    /// The value of an `eval`.
    Value,
    /// The command fails.
    Error,
    /// The command succeeds, one of its writes fails.
    WriteError,
    /// The shape of the plan.
    Plan,
    /// The plan with filters and bounds.
    Details,
}

impl Kind {
    /// The directive's words.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Docs => "docs",
            Kind::DocsUnordered => "docs unordered",
            Kind::Ids => "ids",
            Kind::Reply => "reply",
            Kind::Value => "value",
            Kind::Error => "error",
            Kind::WriteError => "write error",
            Kind::Plan => "plan",
            Kind::Details => "details",
        }
    }
}

/// A syntax error in a file.
#[derive(Debug)]
pub struct FileError {
    path: PathBuf,
    line: usize,
    message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.message)
    }
}

impl std::error::Error for FileError {}

/// All `*.test` files below a folder, in the order of their names.
///
/// # Errors
/// A folder or file that cannot be read, or a file with an unknown directive.
pub fn read_all(root: &Path) -> Result<Vec<SpecFile>, FileError> {
    let mut paths = Vec::new();
    collect(root, &mut paths)?;
    paths.sort();
    paths.iter().map(|path| read(root, path)).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), FileError> {
    let failed = |error: std::io::Error| FileError {
        path: folder.to_owned(),
        line: 0,
        message: error.to_string(),
    };
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "test") {
            paths.push(path);
        }
    }
    Ok(())
}

/// Reads one file.
///
/// # Errors
/// As `read_all`.
pub fn read(root: &Path, path: &Path) -> Result<SpecFile, FileError> {
    let name = path.strip_prefix(root).unwrap_or(path).with_extension("");
    let name = name.to_string_lossy().replace('\\', "/");
    let mut file = SpecFile { path: path.to_owned(), name, setup: Vec::new(), tests: Vec::new() };
    for directive in directives(path)? {
        place(&mut file, directive)?;
    }
    Ok(file)
}

/// A directive with its indented lines.
struct Directive {
    line: usize,
    last_line: usize,
    word: String,
    body: String,
    /// The number of each indented line.
    numbers: Vec<usize>,
}

fn directives(path: &Path) -> Result<Vec<Directive>, FileError> {
    let failed = |line, message: String| FileError { path: path.to_owned(), line, message };
    let text = std::fs::read_to_string(path).map_err(|error| failed(0, error.to_string()))?;
    let mut all: Vec<Directive> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            let Some(open) = all.last_mut() else {
                return Err(failed(number, "an indented line without a directive".to_owned()));
            };
            open.body.push('\n');
            open.body.push_str(line.get(2..).unwrap_or(line.trim_start()));
            open.last_line = number;
            open.numbers.push(number);
            continue;
        }
        let (word, body) = line.split_once(' ').unwrap_or((line, ""));
        let (word, body) = (word.to_owned(), body.trim().to_owned());
        let numbers = Vec::new();
        all.push(Directive { line: number, last_line: number, word, body, numbers });
    }
    Ok(all)
}

fn place(file: &mut SpecFile, directive: Directive) -> Result<(), FileError> {
    let path = file.path.clone();
    let line = directive.line;
    let failed = |message: String| FileError { path: path.clone(), line, message };
    match directive.word.as_str() {
        "data" | "index" => {
            let setup = read_setup(&directive).ok_or_else(|| failed("name a collection".into()))?;
            match file.tests.last_mut() {
                None => file.setup.push(setup),
                Some(test) => test.steps.push(TestStep {
                    action: Action::Setup(setup),
                    last_line: directive.last_line,
                    row: None,
                    expectations: Vec::new(),
                }),
            }
        }
        "include" if file.tests.is_empty() => {
            let folder = file.path.parent().unwrap_or(Path::new(""));
            let included = read(folder, &folder.join(&directive.body))?;
            file.setup.extend(included.setup);
        }
        "test" => {
            if file.tests.iter().any(|test| test.title == directive.body) {
                return Err(failed(format!("two tests are called `{}`", directive.body)));
            }
            file.tests.push(Test {
                title: directive.body,
                line,
                steps: Vec::new(),
                differs: None,
                only_motif: None,
            });
        }
        _ => {
            let Some(test) = file.tests.last_mut() else {
                return Err(failed(format!("`{}` stands before the first test", directive.word)));
            };
            place_in_test(test, directive).map_err(failed)?;
        }
    }
    Ok(())
}

fn read_setup(directive: &Directive) -> Option<Setup> {
    let body = directive.body.as_str();
    let end = body.find([' ', '\n', '{']).unwrap_or(body.len());
    let (collection, rest) = body.split_at(end);
    let (collection, body) = (collection.to_owned(), rest.trim().to_owned());
    if collection.is_empty() {
        return None;
    }
    Some(match directive.word.as_str() {
        "data" => Setup::Data { collection, body },
        _ => Setup::Index { collection, body },
    })
}

fn place_in_test(test: &mut Test, directive: Directive) -> Result<(), String> {
    if directive.word == "table" {
        return place_table(test, &directive);
    }
    let Directive { line, last_line, word, body, .. } = directive;
    let reason = |text: &str| {
        let text = text.trim();
        if text.is_empty() { Err("say why".to_owned()) } else { Ok(text.to_owned()) }
    };
    let mut step = |action| {
        test.steps.push(TestStep { action, last_line, row: None, expectations: Vec::new() });
    };
    let (kind, body) = match word.as_str() {
        "run" => {
            step(Action::Run(body));
            return Ok(());
        }
        "eval" => {
            step(Action::Eval(body));
            return Ok(());
        }
        "match" => {
            step(Action::Match(body));
            return Ok(());
        }
        "update" => {
            step(Action::Update(body));
            return Ok(());
        }
        "differs" => {
            test.differs = Some(reason(&body)?);
            return Ok(());
        }
        "only" => {
            let why = body.strip_prefix("motif").ok_or("`only motif` and why")?;
            test.only_motif = Some(reason(why)?);
            return Ok(());
        }
        "docs" => match body.strip_prefix("unordered") {
            Some(rest) => (Kind::DocsUnordered, rest.to_owned()),
            None => (Kind::Docs, body),
        },
        "ids" => (Kind::Ids, body),
        "reply" => (Kind::Reply, body),
        "value" => (Kind::Value, body),
        "error" => (Kind::Error, body),
        "write" => {
            let rest = body.strip_prefix("error").ok_or("`write error`?")?;
            (Kind::WriteError, rest.trim().to_owned())
        }
        "plan" => (Kind::Plan, body),
        "details" => (Kind::Details, body),
        _ => return Err(format!("no such directive: `{word}`")),
    };
    let step = test.steps.last_mut().ok_or("an expectation without an action")?;
    step.expectations.push(Expectation { kind, body, first_line: line, last_line });
    Ok(())
}

/// A table is many `eval`s: rows are documents for the expression of its head, or expressions if
/// the head names none, each with `=> VALUE` or `=> error CODE` behind it.
fn place_table(test: &mut Test, directive: &Directive) -> Result<(), String> {
    let mut lines = directive.body.lines();
    let head = lines.next().unwrap_or("").trim();
    for (row, &line) in lines.zip(&directive.numbers) {
        let (given, expected) = row.rsplit_once("=>").unwrap_or((row, ""));
        let (given, expected) = (given.trim(), expected.trim());
        let action = if head.is_empty() { given.to_owned() } else { format!("{head} on {given}") };
        let (kind, body) = match expected.strip_prefix("error ") {
            Some(code) => (Kind::Error, code),
            None => (Kind::Value, expected),
        };
        let expectation =
            Expectation { kind, body: body.to_owned(), first_line: line, last_line: line };
        test.steps.push(TestStep {
            action: Action::Eval(action),
            last_line: line,
            row: Some(given.to_owned()),
            expectations: vec![expectation],
        });
    }
    if directive.numbers.is_empty() { Err("a table without rows".to_owned()) } else { Ok(()) }
}
