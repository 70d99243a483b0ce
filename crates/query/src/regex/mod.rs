//! Regular expressions as MongoDB has them: PCRE's language, run in linear time where that is
//! possible and with a step limit where it is not (look-around, back references).
//!
//! `translate` converts PCRE's syntax into that of the `regex` crate; this file compiles and runs
//! the result. `program` and `backtrack` are the engine for patterns that are not linear. Our own
//! translation, because a binding to PCRE would be C code that runs patterns of clients without a
//! bound on time.

mod backtrack;
mod program;
mod translate;

use crate::interrupt;
use std::sync::OnceLock;
use translate::{Translation, translate};
use value::{Code, Error, Result};

/// Longest pattern, as PCRE in MongoDB has it.
const PATTERN_BYTES_MAX: usize = 32_764;
/// Largest compiled program and automaton cache, in bytes.
const PROGRAM_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Steps that a backtracking search may take.
const BACKTRACK_MAX: usize = 1_000_000;

/// Byte ranges of a match: the whole first, then each group.
pub type Groups = Vec<Option<(usize, usize)>>;

/// A compiled pattern.
#[derive(Clone)]
pub struct Regex {
    pattern: Box<str>,
    options: Box<str>,
    program: Program,
    prefix: Option<Box<str>>,
    prefix_only: bool,
}

#[derive(Clone)]
enum Program {
    /// Linear time. `at_newline` serves texts that end with a newline when the pattern has a
    /// `$`, which then also matches before that newline.
    Linear { regex: regex::Regex, at_newline: Option<Box<AtNewline>> },
    /// With look-around or back references.
    Backtracking(Box<Backtracking>),
}

/// A pattern with look-around or back references.
#[derive(Clone)]
enum Backtracking {
    /// Its steps are counted, and it stops with its operation.
    Counted(program::Program),
    /// It has parts that only the `fancy-regex` crate supports, which cannot be interrupted; it
    /// fails after `BACKTRACK_MAX` backtracks.
    Foreign(fancy_regex::Regex),
}

impl Backtracking {
    fn new(
        source: &str,
        unicode: bool,
    ) -> std::result::Result<Backtracking, Box<fancy_regex::Error>> {
        let foreign = foreign(source)?;
        let program = program::Program::new(source, unicode);
        let program = program.filter(|program| program.groups == foreign.captures_len());
        Ok(program.map_or(Backtracking::Foreign(foreign), Backtracking::Counted))
    }

    fn captures_at(&self, text: &str, start: usize) -> Result<Option<Groups>> {
        match self {
            Backtracking::Counted(program) => backtrack::search(program, text, start),
            Backtracking::Foreign(regex) => {
                let found = regex.captures_from_pos(text, start).map_err(|e| too_long(&e))?;
                Ok(found.map(|groups| {
                    groups.iter().map(|group| group.map(|m| (m.start(), m.end()))).collect()
                }))
            }
        }
    }

    fn group_count(&self) -> usize {
        match self {
            Backtracking::Counted(program) => program.groups,
            Backtracking::Foreign(regex) => regex.captures_len(),
        }
    }
}

/// The same pattern with `$` as look-ahead, compiled when a text first needs it.
#[derive(Clone)]
struct AtNewline {
    source: String,
    unicode: bool,
    compiled: OnceLock<Option<Backtracking>>,
}

impl AtNewline {
    fn get(&self) -> Option<&Backtracking> {
        self.compiled.get_or_init(|| Backtracking::new(&self.source, self.unicode).ok()).as_ref()
    }
}

impl std::fmt::Debug for Regex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}/{}", self.pattern, self.options)
    }
}

impl Regex {
    /// Compiles a pattern with options out of `imsxu`.
    ///
    /// # Errors
    /// 51091 for a pattern that is no regular expression, 51108 for an unknown option.
    pub fn new(pattern: &str, options: &str) -> Result<Regex> {
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
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(invalid("regular expression is too large"));
        }
        let translation = translate(pattern, options.contains('x'));
        if let Some(reason) = translation.refused {
            return Err(invalid(reason));
        }
        let flags: String = options.chars().filter(|c| "ims".contains(*c)).collect();
        let program = compile(&translation, &flags)?;
        let multiline = options.contains('m');
        let (prefix, prefix_only) = if options.contains('i') || options.contains('x') {
            (None, false)
        } else {
            literal_prefix(pattern, multiline)
        };
        Ok(Regex { pattern: pattern.into(), options: options.into(), program, prefix, prefix_only })
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
        interrupt::charge(1 + text.len() / 16)?;
        match self.program(text) {
            Runner::Linear(regex) => Ok(regex.is_match(text)),
            Runner::Backtracking(pattern) => Ok(pattern.captures_at(text, 0)?.is_some()),
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
        Ok(match self.program(text) {
            Runner::Linear(regex) => regex.captures_at(text, start).map(|groups| {
                groups.iter().map(|group| group.map(|m| (m.start(), m.end()))).collect()
            }),
            Runner::Backtracking(pattern) => pattern.captures_at(text, start)?,
        })
    }

    /// How many groups the pattern has, without the whole match.
    #[must_use]
    pub fn group_count(&self) -> usize {
        let count = match &self.program {
            Program::Linear { regex, .. } => regex.captures_len(),
            Program::Backtracking(pattern) => pattern.group_count(),
        };
        count.saturating_sub(1)
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

    fn program(&self, text: &str) -> Runner<'_> {
        match &self.program {
            Program::Linear { regex, at_newline } => {
                let other = match at_newline {
                    Some(other) if text.ends_with('\n') => other.get(),
                    _ => None,
                };
                other.map_or(Runner::Linear(regex), Runner::Backtracking)
            }
            Program::Backtracking(pattern) => Runner::Backtracking(pattern),
        }
    }
}

enum Runner<'r> {
    Linear(&'r regex::Regex),
    Backtracking(&'r Backtracking),
}

fn compile(translation: &Translation, flags: &str) -> Result<Program> {
    let multiline = flags.contains('m');
    let dollar_at_end = translation.has_dollar && !multiline;
    let linear_end = if multiline { "$" } else { r"\z" };
    if !translation.needs_backtracking
        && let Ok(regex) = regex::RegexBuilder::new(&translation.source(linear_end))
            .case_insensitive(flags.contains('i'))
            .multi_line(multiline)
            .dot_matches_new_line(flags.contains('s'))
            .size_limit(PROGRAM_BYTES_MAX)
            .dfa_size_limit(PROGRAM_BYTES_MAX)
            .build()
    {
        let at_newline = dollar_at_end.then(|| {
            let source = with_flags(&translation.source(r"(?=\n?\z)"), flags);
            let unicode = translation.unicode;
            Box::new(AtNewline { source, unicode, compiled: OnceLock::new() })
        });
        return Ok(Program::Linear { regex, at_newline });
    }
    let end = if multiline { "$" } else { r"(?=\n?\z)" };
    Backtracking::new(&with_flags(&translation.source(end), flags), translation.unicode)
        .map(|pattern| Program::Backtracking(Box::new(pattern)))
        .map_err(|error| invalid(&reason(&error)))
}

fn with_flags(source: &str, flags: &str) -> String {
    if flags.is_empty() { source.to_owned() } else { format!("(?{flags}:{source})") }
}

fn foreign(source: &str) -> std::result::Result<fancy_regex::Regex, Box<fancy_regex::Error>> {
    fancy_regex::RegexBuilder::new(source)
        .backtrack_limit(BACKTRACK_MAX)
        .delegate_size_limit(PROGRAM_BYTES_MAX)
        .delegate_dfa_size_limit(PROGRAM_BYTES_MAX)
        .build()
        .map_err(Box::new)
}

fn reason(error: &fancy_regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or("cannot be compiled").trim().to_owned()
}

fn invalid(reason: &str) -> Error {
    Error::new(Code(51091), format!("Regular expression is invalid: {reason}"))
}

fn too_long(error: &fancy_regex::Error) -> Error {
    Error::new(
        Code(51156),
        format!("Error occurred while executing the regular expression: {error}"),
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Patterns of two letters with everything that the own engine knows.
    fn patterns() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("a".to_owned()),
            Just("b".to_owned()),
            Just(".".to_owned()),
            Just("[ab]".to_owned()),
            Just("[^a]".to_owned()),
            Just("ab".to_owned()),
            Just("^".to_owned()),
            Just(r"\z".to_owned()),
            Just("".to_owned()),
        ];
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}{b}")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(?:{a}|{b})")),
                inner.clone().prop_map(|a| format!("({a})")),
                inner.clone().prop_map(|a| format!("(?={a})")),
                inner.clone().prop_map(|a| format!("(?!{a})")),
                inner.clone().prop_map(|a| format!("(?>{a})")),
                Just("(?<=a)".to_owned()),
                Just("(?<!ab|b)".to_owned()),
                (inner.clone(), "[*+?]|\\{1,2\\}|\\{2\\}", "\\??")
                    .prop_map(|(a, times, lazy)| format!("(?:{a}){times}{lazy}")),
                inner.prop_map(|a| format!(r"({a})b?\1")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn the_own_engine_finds_what_the_other_finds(source in patterns(), text in "[ab\n]{0,9}") {
            // A look-ahead makes sure that neither gives the work to the linear engine.
            let source = format!("(?=){source}");
            let Ok(foreign) = foreign(&source) else { return Ok(()) };
            let Some(program) = program::Program::new(&source, false) else {
                return Err(TestCaseError::fail(format!("{source} is not compiled")));
            };
            let expected = foreign.captures_from_pos(&text, 0).map(|found| found.map(|groups| {
                groups.iter().map(|g| g.map(|m| (m.start(), m.end()))).collect::<Groups>()
            }));
            let found = backtrack::search(&program, &text, 0);
            if let (Ok(expected), Ok(found)) = (expected, found) {
                prop_assert_eq!(found, expected, "{} on {:?}", source, text);
            }
        }
    }

    fn is_match(pattern: &str, options: &str, text: &str) -> bool {
        Regex::new(pattern, options).unwrap().is_match(text).unwrap()
    }

    #[test]
    fn options_mean_what_pcre_means() {
        assert!(is_match("ABC", "i", "xabcx"));
        assert!(!is_match("^b", "", "a\nb"));
        assert!(is_match("^b", "m", "a\nb"));
        assert!(!is_match("a.b", "", "a\nb"));
        assert!(is_match("a.b", "s", "a\nb"));
        assert!(is_match("a b # comment\n c", "x", "abc"));
        assert!(is_match("[ ]", "x", " "));
        assert_eq!(Regex::new("a", "q").unwrap_err().code(), Code(51108));
    }

    #[test]
    fn dollar_matches_before_a_final_newline() {
        assert!(is_match("a$", "", "a"));
        assert!(is_match("a$", "", "a\n"));
        assert!(!is_match("a$", "", "a\nb"));
        assert!(is_match("a$", "m", "a\nb"));
        assert!(!is_match(r"a\z", "", "a\n"));
        assert!(is_match(r"a\Z", "", "a\n"));
    }

    #[test]
    fn pcre_spellings() {
        assert!(is_match(r"\Qa.b\E$", "", "a.b"));
        assert!(!is_match(r"\Qa.b\E$", "", "axb"));
        assert!(is_match(r"^a{,2}$", "", "a{,2}"));
        assert!(is_match(r"^{a}$", "", "{a}"));
        assert!(is_match(r"[[]", "", "["));
        assert!(is_match(r"[a&&b]", "", "&"));
        assert!(is_match(r"[]a]", "", "]"));
        assert!(is_match(r"\/\<\>", "", "/<>"));
        assert!(is_match(r"^[[:alpha:]]+$", "", "abc"));
        assert!(!is_match(r"^\w$", "", "é"));
        assert!(!is_match(r"^\d$", "", "٣"));
        assert!(is_match(r"^É$", "i", "é"));
        assert!(is_match(r"^[\w-]+$", "", "a-b"));
        assert!(is_match(r"^[\w.]+@\w+\.com$", "", "a.b@example.com"));
    }

    #[test]
    fn look_around_and_back_references() {
        assert!(is_match(r"foo(?=bar)", "", "foobar"));
        assert!(!is_match(r"foo(?!bar)", "", "foobar"));
        assert!(is_match(r"(?<=a)b", "", "ab"));
        assert!(is_match(r"^(a+)b\1$", "", "aabaa"));
        assert!(!is_match(r"^a++a$", "", "aaa"));
    }

    #[test]
    fn invalid_patterns() {
        for pattern in ["(", "[a", "a)", "*a", r"\"] {
            assert_eq!(Regex::new(pattern, "").unwrap_err().code(), Code(51091), "{pattern}");
        }
        assert_eq!(Regex::new(&"a".repeat(40_000), "").unwrap_err().code(), Code(51091));
        assert_eq!(Regex::new("a\0", "").unwrap_err().code(), Code::BAD_VALUE);
    }

    #[test]
    fn prefixes() {
        let prefix = |pattern, options| {
            let regex = Regex::new(pattern, options).unwrap();
            (regex.prefix().map(str::to_owned), regex.is_prefix_only())
        };
        assert_eq!(prefix("^abc", ""), (Some("abc".into()), true));
        assert_eq!(prefix("^abc.*", ""), (Some("abc".into()), true));
        assert_eq!(prefix("^abc?d", ""), (Some("ab".into()), false));
        assert_eq!(prefix("^ab+", ""), (Some("ab".into()), false));
        assert_eq!(prefix(r"^a\.b[c]", ""), (Some("a.b".into()), false));
        assert_eq!(prefix("^abc", "i"), (None, false));
        assert_eq!(prefix("^abc", "m"), (None, false));
        assert_eq!(prefix("^a|b", ""), (None, false));
        assert_eq!(prefix("abc", ""), (None, false));
        assert_eq!(prefix("^abc$", ""), (Some("abc".into()), false));
    }

    #[test]
    fn groups() {
        let regex = Regex::new("(a)(b)?", "").unwrap();
        assert_eq!(
            regex.captures_at("xa", 0).unwrap(),
            Some(vec![Some((1, 2)), Some((1, 2)), None])
        );
        assert_eq!(regex.captures_at("a", 1).unwrap(), None);
        assert_eq!(regex.group_count(), 2);
    }
}
