//! Regular expressions as MongoDB has them: PCRE's language, run in linear time where that is
//! possible and with a step limit where it is not (look-around, back references, recursion).
//!
//! `parse` reads PCRE's syntax into the tree of `syntax`. `linear` writes that tree in the syntax of
//! the crate `regex-automata`, if it has nothing that needs backtracking; `stepped` runs its automaton
//! where a search could take long, so that it can be interrupted. For all others `program` compiles
//! it and `backtrack` runs it: an engine of our own, because a search of PCRE or of another crate
//! cannot be interrupted when its operation ends.

mod backtrack;
mod cluster;
mod first;
mod linear;
mod parse;
mod program;
mod set;
mod stepped;
mod syntax;
#[cfg(test)]
mod tests;
mod text;
mod width;

use crate::interrupt;
use program::Program;
use regex_automata::{Anchored, Input, meta};
use std::sync::{Arc, OnceLock};
use stepped::Stepped;
use syntax::Tree;
use value::{Code, Error, Result};

/// Largest compiled program and automaton cache of the crate `regex-automata`, in bytes.
const PROGRAM_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Largest patterns in PCRE's compiled form, in bytes. Filters compile a pattern for whole texts too,
/// which takes 6 bytes.
const EXPRESSION_PATTERN_MAX: usize = 65_528;
const FILTER_PATTERN_MAX: usize = EXPRESSION_PATTERN_MAX - 6;

/// The code of a search that takes too many steps.
pub(crate) const TOO_MANY_STEPS: Code = Code(51156);

/// What precedes the reason for which a pattern is refused.
const INVALID: &str = "Regular expression is invalid: ";

/// Byte ranges of a match: the whole first, then each group.
pub type Groups = Vec<Option<(usize, usize)>>;

/// A compiled pattern.
#[derive(Clone)]
pub struct Regex {
    pattern: Box<str>,
    options: Box<str>,
    engine: Engine,
    /// The number of groups, with the whole match.
    groups: usize,
    prefix: Option<Box<str>>,
    prefix_only: bool,
}

#[derive(Clone)]
enum Engine {
    Linear(Box<Linear>),
    Backtracking(Box<Program>),
}

/// A pattern whose searches take linear time.
#[derive(Clone)]
struct Linear {
    regex: meta::Regex,
    /// The memory of `regex`, in bytes.
    bytes: usize,
    /// The pattern as `regex-automata` reads it.
    source: Box<str>,
    /// Serves the texts in which a search could take long, compiled when the first of them comes.
    stepped: OnceLock<Option<Arc<Stepped>>>,
    /// Serves the texts for which the pattern means something else there.
    exact: Option<Box<Exact>>,
}

impl Linear {
    /// The automaton for a search of so many bytes, if it could take long. `Err` if there is none.
    fn stepped(&self, text: usize) -> std::result::Result<Option<&Stepped>, ()> {
        if !stepped::may_be_slow(self.bytes, text) {
            return Ok(None);
        }
        let made = self.stepped.get_or_init(|| Stepped::new(&self.source).map(Arc::new));
        let stepped = made.as_deref().ok_or(())?;
        Ok(Some(stepped).filter(|stepped| stepped.is_slow(text)))
    }
}

/// A pattern for the texts that the linear engine does not serve, compiled when the first of them
/// comes.
#[derive(Clone)]
struct Exact {
    tree: Tree,
    /// Texts that end with a newline.
    at_newline: bool,
    /// Texts with other characters than ASCII.
    not_ascii: bool,
    /// All texts, when the places of groups are asked for.
    groups: bool,
    compiled: OnceLock<Option<Program>>,
}

impl Exact {
    /// The program for a text, if it needs one.
    fn serves(&self, text: &[u8]) -> Option<&Program> {
        let needed =
            (self.at_newline && text.ends_with(b"\n")) || (self.not_ascii && !text.is_ascii());
        if needed { self.program() } else { None }
    }

    fn program(&self) -> Option<&Program> {
        self.compiled.get_or_init(|| Program::new(&self.tree)).as_ref()
    }
}

impl std::fmt::Debug for Regex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}/{}", self.pattern, self.options)
    }
}

impl Regex {
    /// Compiles a pattern of a filter, with options out of `imsxu`.
    ///
    /// # Errors
    /// 51091 for a pattern that is no regular expression, 51108 for an unknown option.
    pub fn new(pattern: &str, options: &str) -> Result<Regex> {
        Regex::compile(pattern, options, FILTER_PATTERN_MAX)
    }

    /// The same for an expression, where patterns may be a little larger.
    pub(crate) fn in_expression(pattern: &str, options: &str) -> Result<Regex> {
        Regex::compile(pattern, options, EXPRESSION_PATTERN_MAX)
    }

    fn compile(pattern: &str, options: &str, size_max: usize) -> Result<Regex> {
        if let Some(unknown) = options.chars().find(|c| !"imsxu".contains(*c)) {
            return Err(Error::new(
                Code(51108),
                format!(" invalid flag in regex options: {unknown}"),
            ));
        }
        if pattern.contains('\0') || options.contains('\0') {
            return Err(Error::bad_value(
                "Regular expression cannot contain an embedded null byte",
            ));
        }
        let tree = parse::parse(pattern, options, size_max).map_err(invalid)?;
        let groups = tree.groups;
        let engine = compile(tree)?;
        let multiline = options.contains('m');
        let (prefix, prefix_only) = if options.contains('i') || options.contains('x') {
            (None, false)
        } else {
            literal_prefix(pattern, multiline)
        };
        let (pattern, options) = (pattern.into(), options.into());
        Ok(Regex { pattern, options, engine, groups, prefix, prefix_only })
    }

    /// The reason for which PCRE refuses a pattern, from an error of `new`.
    #[must_use]
    pub fn refusal(error: &Error) -> &str {
        error.message().strip_prefix(INVALID).unwrap_or(error.message())
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The options as they were written.
    #[must_use]
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Whether the pattern matches somewhere in the text.
    ///
    /// # Errors
    /// 51156 when the search takes too many steps.
    pub fn is_match(&self, text: &str) -> Result<bool> {
        self.is_match_bytes(text.as_bytes())
    }

    /// As `is_match`, for text that was validated when it was stored: validating it again would
    /// cost a tenth of the search. Bytes that are not UTF-8 may or may not match.
    ///
    /// # Errors
    /// 51156 when the search takes too many steps.
    pub fn is_match_bytes(&self, text: &[u8]) -> Result<bool> {
        interrupt::charge(1 + text.len() / 16)?;
        match self.runner(text) {
            Runner::Linear(linear) => match linear.stepped(text.len()) {
                Ok(None) => Ok(linear.regex.is_match(text)),
                Ok(Some(stepped)) => Ok(stepped.end(text, 0, true)?.is_some()),
                Err(()) => {
                    let text = std::str::from_utf8(text).unwrap_or_default();
                    Ok(self.search_backtracking(text, 0)?.is_some())
                }
            },
            Runner::Backtracking(program) => {
                let text = std::str::from_utf8(text).unwrap_or_default();
                Ok(backtrack::search(program, text, 0)?.is_some())
            }
        }
    }

    /// The first match at or after byte `start`.
    ///
    /// # Errors
    /// 51156 when the search takes too many steps.
    pub fn captures_at(&self, text: &str, start: usize) -> Result<Option<Groups>> {
        if start > text.len() {
            return Ok(None);
        }
        interrupt::check()?;
        Ok(match self.runner(text.as_bytes()) {
            Runner::Linear(linear) => {
                match linear.stepped(text.len() - start) {
                    Ok(None) => {}
                    Ok(Some(stepped)) => {
                        return self.captures_in_steps(linear, stepped, text, start);
                    }
                    Err(()) => return self.search_backtracking(text, start),
                }
                let regex = &linear.regex;
                let input = Input::new(text).range(start..);
                if let Some(program) = self.program_for_groups() {
                    return match regex.is_match(input) {
                        true => backtrack::search(program, text, start),
                        false => Ok(None),
                    };
                }
                groups_of(regex, &input)
            }
            Runner::Backtracking(program) => backtrack::search(program, text, start)?,
        })
    }

    /// The same for a search that could take long.
    fn captures_in_steps(
        &self,
        linear: &Linear,
        stepped: &Stepped,
        text: &str,
        start: usize,
    ) -> Result<Option<Groups>> {
        let Some(end) = stepped.end(text.as_bytes(), start, false)? else { return Ok(None) };
        let from = stepped.start(text.as_bytes(), start, end)?.unwrap_or(start);
        if !text.is_char_boundary(from) || !text.is_char_boundary(end) {
            return self.search_backtracking(text, start);
        }
        if self.groups == 1 {
            return Ok(Some(vec![Some((from, end))]));
        }
        if self.program_for_groups().is_some() || stepped.is_slow(end - from) {
            return self.search_backtracking(text, from);
        }
        Ok(groups_of(&linear.regex, &Input::new(text).range(from..end).anchored(Anchored::Yes)))
    }

    /// A search on the other engine, which counts its steps.
    fn search_backtracking(&self, text: &str, start: usize) -> Result<Option<Groups>> {
        let tree = parse::parse(&self.pattern, &self.options, EXPRESSION_PATTERN_MAX);
        let tree = tree.map_err(invalid)?;
        let program = Program::new(&tree);
        let program = program.ok_or_else(|| invalid("regular expression is too large"))?;
        backtrack::search(&program, text, start)
    }

    /// How many groups the pattern has, without the whole match.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.groups.saturating_sub(1)
    }

    /// The literal text with which every match begins, for a pattern anchored at the start.
    #[must_use]
    pub fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// Whether every text that begins with the prefix matches.
    #[must_use]
    pub fn is_prefix_only(&self) -> bool {
        self.prefix_only
    }

    /// The program that says where groups are, if the linear engine does not.
    fn program_for_groups(&self) -> Option<&Program> {
        match &self.engine {
            Engine::Linear(linear) => linear.exact.as_ref().filter(|exact| exact.groups)?.program(),
            _ => None,
        }
    }

    fn runner(&self, text: &[u8]) -> Runner<'_> {
        match &self.engine {
            Engine::Linear(linear) => {
                match linear.exact.as_ref().and_then(|exact| exact.serves(text)) {
                    Some(program) => Runner::Backtracking(program),
                    None => Runner::Linear(linear),
                }
            }
            Engine::Backtracking(program) => Runner::Backtracking(program),
        }
    }
}

enum Runner<'r> {
    Linear(&'r Linear),
    Backtracking(&'r Program),
}

fn compile(tree: Tree) -> Result<Engine> {
    if let Some(linear) = linear::write(&tree)
        && let Ok(regex) = meta::Regex::builder()
            .configure(
                meta::Config::new()
                    .nfa_size_limit(Some(PROGRAM_BYTES_MAX))
                    .hybrid_cache_capacity(PROGRAM_BYTES_MAX),
            )
            .build(&linear.source)
        && regex.captures_len() == tree.groups
    {
        let special = linear.not_at_newline || linear.only_ascii || linear.not_for_groups;
        let exact = special.then(|| {
            Box::new(Exact {
                tree,
                groups: linear.not_for_groups,
                at_newline: linear.not_at_newline,
                not_ascii: linear.only_ascii,
                compiled: OnceLock::new(),
            })
        });
        let (bytes, source) = (regex.memory_usage(), linear.source.into());
        let stepped = OnceLock::new();
        return Ok(Engine::Linear(Box::new(Linear { regex, bytes, source, stepped, exact })));
    }
    let program = Program::new(&tree).ok_or_else(|| invalid("regular expression is too large"))?;
    Ok(Engine::Backtracking(Box::new(program)))
}

/// The places of the groups of the first match.
fn groups_of(regex: &meta::Regex, input: &Input<'_>) -> Option<Groups> {
    let mut groups = regex.create_captures();
    regex.search_captures(input, &mut groups);
    let spans = || groups.iter().map(|span| span.map(|span| (span.start, span.end)));
    groups.is_match().then(|| spans().collect())
}

fn invalid(reason: &str) -> Error {
    Error::new(Code(51091), format!("{INVALID}{reason}"))
}

/// The literal start of an anchored pattern, and whether the pattern is nothing else.
fn literal_prefix(pattern: &str, multiline: bool) -> (Option<Box<str>>, bool) {
    let rest = match pattern.strip_prefix(r"\A") {
        Some(rest) => rest,
        None => match pattern.strip_prefix('^') {
            Some(rest) if !multiline => rest,
            _ => return (None, false),
        },
    };
    // An alternative may lack the anchor; an exact answer would need a parser.
    if pattern.contains('|') {
        return (None, false);
    }
    let mut prefix = String::new();
    let mut characters = rest.chars().peekable();
    let mut whole = true;
    while let Some(character) = characters.next() {
        let literal = match character {
            '\\' => match characters.next() {
                Some(escaped) if !escaped.is_ascii_alphanumeric() => escaped,
                _ => {
                    whole = false;
                    break;
                }
            },
            '.' if characters.peek() == Some(&'*') && characters.clone().count() == 1 => {
                // `.*` at the end does not restrict the match.
                break;
            }
            '^' | '$' | '.' | '[' | '(' | ')' | '*' | '+' | '?' | '{' => {
                whole = false;
                break;
            }
            literal => literal,
        };
        match characters.peek() {
            Some('*' | '?' | '{') => {
                whole = false;
                break;
            }
            Some('+') => {
                prefix.push(literal);
                whole = false;
                break;
            }
            _ => prefix.push(literal),
        }
    }
    if prefix.is_empty() { (None, false) } else { (Some(prefix.into()), whole) }
}
