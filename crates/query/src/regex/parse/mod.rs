//! The parser of PCRE's language. What it refuses PCRE refuses, with the same reason.
//!
//! This file has alternatives, sequences and quantifiers; `start` the options at the start of a
//! pattern, `group` what follows a parenthesis, `escape` what follows a backslash, `class` what
//! follows a bracket. A pattern whose references need groups or names that come later is parsed
//! twice: the first time to number them.

mod class;
mod escape;
mod group;
mod start;

use super::set::{self, Set};
use super::syntax::{Assertion, Lines, Mode, Node, Tree};
use super::width;

/// The reason for which a pattern is refused, in PCRE's words.
pub(super) type Refusal = &'static str;
type Parsed<T> = Result<T, Refusal>;

/// Deepest nesting of parentheses.
const DEPTH_MAX: usize = 250;
/// Highest count of a repetition.
const COUNT_MAX: usize = 65_535;

/// Options that can change inside of a pattern.
#[derive(Clone, Copy, Default)]
struct Options {
    folded: bool,
    multiline: bool,
    dot_all: bool,
    extended: bool,
    ungreedy: bool,
    duplicate_names: bool,
}

/// The names of groups and their number.
#[derive(Clone, Default)]
struct Groups {
    count: usize,
    names: Vec<(Box<str>, usize)>,
}

struct Parser<'p> {
    text: &'p str,
    at: usize,
    options: Options,
    unicode: bool,
    lines: Lines,
    newline_is_ascii: bool,
    /// The groups so far.
    groups: Groups,
    /// The groups of the whole pattern, when it is parsed the second time.
    all: Option<Groups>,
    /// Whether a reference needs `all`.
    needs_all: bool,
    depth: usize,
    /// How many look-behinds are open.
    behind: usize,
    /// Between `\Q` and `\E`.
    quoted: bool,
    names_newline: bool,
}

/// Parses a pattern with options out of `imsx`.
///
/// # Errors
/// PCRE's reason for refusing it.
pub(super) fn parse(pattern: &str, options: &str, size_max: usize) -> Parsed<Tree> {
    let start = start::read(pattern);
    let options = Options {
        folded: options.contains('i'),
        multiline: options.contains('m'),
        dot_all: options.contains('s'),
        extended: options.contains('x'),
        ..Options::default()
    };
    let mut all = None;
    loop {
        let mut parser = Parser {
            text: start.rest,
            at: 0,
            options,
            unicode: start.unicode,
            lines: start.lines,
            newline_is_ascii: start.newline_is_ascii,
            groups: Groups::default(),
            all: all.take(),
            needs_all: false,
            depth: 0,
            behind: 0,
            quoted: false,
            names_newline: false,
        };
        let node = parser.alternatives(false)?;
        if parser.at < parser.text.len() {
            return Err("unmatched parentheses");
        }
        if parser.needs_all && parser.all.is_none() {
            all = Some(parser.groups);
            continue;
        }
        let tree = Tree {
            node,
            groups: parser.groups.count + 1,
            lines: start.lines,
            unicode: start.unicode,
            start_optimised: start.optimised,
            limit: start.limit,
            names_newline: parser.names_newline,
        };
        width::check(&tree, size_max)?;
        return Ok(tree);
    }
}

impl<'p> Parser<'p> {
    fn rest(&self) -> &'p str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The character that many bytes ahead.
    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        Some(character)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Decimal digits as a number, `None` if there are none.
    fn number(&mut self) -> Parsed<Option<usize>> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let text = self.rest().get(..digits).unwrap_or("");
        self.at += digits;
        if digits == 0 {
            return Ok(None);
        }
        match text.parse::<i32>() {
            Ok(number) => Ok(usize::try_from(number).ok()),
            Err(_) => Err("number is too big"),
        }
    }

    /// Alternatives up to a closing parenthesis or the end, which is not consumed. With `reset`
    /// each of them numbers its groups from the same start.
    fn alternatives(&mut self, reset: bool) -> Parsed<Node> {
        let mut branches = Vec::new();
        let (first, mut most) = (self.groups.count, self.groups.count);
        loop {
            branches.push(self.sequence()?);
            most = most.max(self.groups.count);
            if !self.eat("|") {
                break;
            }
            if reset {
                self.groups.count = first;
            }
        }
        self.groups.count = most;
        Ok(if branches.len() == 1 { branches.remove(0) } else { Node::Alt(branches) })
    }

    fn sequence(&mut self) -> Parsed<Node> {
        let mut parts = Vec::new();
        // Whether a quantifier may follow.
        let mut repeatable = false;
        while let Some(character) = self.peek() {
            if self.quoted {
                if self.eat("\\E") {
                    self.quoted = false;
                } else {
                    self.at += character.len_utf8();
                    parts.push(self.literal(character));
                    repeatable = true;
                }
                continue;
            }
            if self.skips(character)? {
                continue;
            }
            if let Some(quantifier) = self.quantifier(character)? {
                let last = parts.pop().filter(|_| repeatable).ok_or("nothing to repeat")?;
                parts.push(repeated(last, quantifier));
                repeatable = false;
                continue;
            }
            if matches!(character, '|' | ')') {
                break;
            }
            self.at += character.len_utf8();
            repeatable = true;
            match character {
                '^' | '$' => {
                    repeatable = false;
                    parts.push(Node::Assert(match (character, self.options.multiline) {
                        ('^', false) => Assertion::StartText,
                        ('^', true) => Assertion::StartLine,
                        (_, false) => Assertion::EndTextOrNewline,
                        (_, true) => Assertion::EndLine,
                    }));
                }
                '.' if self.options.dot_all => parts.push(Node::Set(Set::All)),
                '.' => parts.push(self.no_newline()),
                '[' => parts.push(self.class()?),
                '(' => match self.group()? {
                    group::Item::Part(part) => parts.push(part),
                    group::Item::Fixed(part) => {
                        repeatable = false;
                        parts.push(part);
                    }
                    group::Item::Nothing => repeatable = false,
                },
                '\\' => match self.escape()? {
                    escape::Item::Part(part) => parts.push(part),
                    escape::Item::Fixed(part) => {
                        repeatable = false;
                        parts.push(part);
                    }
                },
                literal => parts.push(self.literal(literal)),
            }
        }
        Ok(match parts.len() {
            0 => Node::Empty,
            // The alternatives of a group inside are not those of the group around.
            1 if !matches!(parts.first(), Some(Node::Alt(_))) => parts.remove(0),
            _ => Node::Concat(parts),
        })
    }

    /// Skips what has no meaning between parts: `\Q` and `\E`, comments, white space of extended
    /// patterns.
    fn skips(&mut self, character: char) -> Parsed<bool> {
        match character {
            '\\' if self.eat("\\E") => Ok(true),
            '\\' if self.eat("\\Q") => {
                self.quoted = true;
                Ok(true)
            }
            _ => self.skips_comment(character),
        }
    }

    /// Skips a comment or white space that has no meaning.
    fn skips_comment(&mut self, character: char) -> Parsed<bool> {
        if character == '(' && self.eat("(?#") {
            let end = self.rest().find(')').ok_or("missing ) after comment")?;
            self.at += end + 1;
            return Ok(true);
        }
        if !self.options.extended {
            return Ok(false);
        }
        if matches!(character, ' ' | '\t'..='\r') {
            self.at += 1;
            return Ok(true);
        }
        if character == '#' {
            let rest = self.rest();
            let end = match self.lines {
                Lines::Lf => rest.find('\n').map(|at| at + 1),
                Lines::Cr => rest.find('\r').map(|at| at + 1),
                Lines::CrLf => rest.find("\r\n").map(|at| at + 2),
                Lines::AnyCrLf => rest.find(['\r', '\n']).map(|at| at + 1),
                Lines::Any => {
                    let vertical = set::from_ranges(set::VERTICAL);
                    let vertical = Set::of(&vertical);
                    rest.char_indices().find(|c| vertical.has(c.1)).map(|c| c.0 + c.1.len_utf8())
                }
            };
            self.at += end.unwrap_or(rest.len());
            return Ok(true);
        }
        Ok(false)
    }

    /// A quantifier with its suffix; a brace that is none is literal.
    fn quantifier(&mut self, character: char) -> Parsed<Option<(usize, usize, Mode)>> {
        let (least, most) = match character {
            '*' => (0, usize::MAX),
            '+' => (1, usize::MAX),
            '?' => (0, 1),
            '{' => match self.counts() {
                Some((least, most, length)) => {
                    if least > COUNT_MAX || (most > COUNT_MAX && most != usize::MAX) {
                        return Err("number too big in {} quantifier");
                    }
                    if most < least {
                        return Err("numbers out of order in {} quantifier");
                    }
                    // The brace is skipped below.
                    self.at += length - 1;
                    (least, most)
                }
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        self.at += 1;
        while let Some(character) = self.peek() {
            if !self.skips_comment(character)? {
                break;
            }
        }
        let mode = if self.eat("+") {
            Mode::Possessive
        } else if self.eat("?") != self.options.ungreedy {
            Mode::Lazy
        } else {
            Mode::Greedy
        };
        Ok(Some((least, most, mode)))
    }

    /// The numbers of `{n}`, `{n,}` or `{n,m}` and its length.
    fn counts(&self) -> Option<(usize, usize, usize)> {
        let body = self.rest().strip_prefix('{')?;
        let body = body.get(..body.find('}')?)?;
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            // A number that is too large for the type is too large for a count.
            plain.then(|| digits.parse().unwrap_or(usize::MAX - 1))
        };
        let (least, most) = match body.split_once(',') {
            None => (number(body)?, number(body)?),
            Some((least, "")) => (number(least)?, usize::MAX),
            Some((least, most)) => (number(least)?, number(most)?),
        };
        Some((least, most, body.len() + 2))
    }

    fn literal(&mut self, character: char) -> Node {
        self.names_newline |= matches!(character, '\r' | '\n');
        Node::Set(Set::character(character, self.options.folded))
    }

    /// `\N`, and `.` without the option `s`: any character but where a line ends.
    fn no_newline(&self) -> Node {
        let without = |class| Node::Set(Set::of(&set::negated(class)));
        match self.lines {
            Lines::Lf => Node::Set(Set::Any),
            Lines::Cr => without(&set::single('\r')),
            Lines::AnyCrLf => without(&set::from_ranges(&[('\n', '\n'), ('\r', '\r')])),
            Lines::Any => without(&set::from_ranges(set::VERTICAL)),
            Lines::CrLf => {
                let newline = ['\r', '\n'].map(|c| Node::Set(Set::Char(c))).to_vec();
                let node = Box::new(Node::Concat(newline));
                Node::Concat(vec![
                    Node::Look { node, behind: false, negative: true },
                    Node::Set(Set::All),
                ])
            }
        }
    }

    /// The numbers of the groups with a name, in the whole pattern.
    fn named(&mut self, name: &str) -> Parsed<Vec<usize>> {
        self.needs_all = true;
        let Some(all) = &self.all else { return Ok(Vec::new()) };
        let mut numbers: Vec<usize> =
            all.names.iter().filter(|known| &*known.0 == name).map(|known| known.1).collect();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.is_empty() { Err("reference to non-existent subpattern") } else { Ok(numbers) }
    }

    /// The number of a group that must exist in the whole pattern.
    fn numbered(&mut self, number: usize) -> Parsed<usize> {
        if number > self.groups.count {
            self.needs_all = true;
            if self.all.as_ref().is_some_and(|all| number > all.count) {
                return Err("reference to non-existent subpattern");
            }
        }
        Ok(number)
    }
}

/// A part with its quantifier.
fn repeated(node: Node, (least, most, mode): (usize, usize, Mode)) -> Node {
    let (least, most) = match &node {
        // An assertion holds or does not, however often it is asked.
        Node::Look { .. } if least > 0 => return node,
        Node::Look { .. } => (0, most.min(1)),
        Node::Condition { test: super::syntax::Test::Never, .. } => return node,
        _ => (least, most),
    };
    Node::Repeat { node: Box::new(node), least, most, mode }
}
