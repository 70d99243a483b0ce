//! Converts PCRE's syntax to that of the `regex` crate: ASCII meanings of `\w`, `\d`, `\s` and
//! `\b`, literal braces and brackets, `\Q..\E`, and white space in extended patterns.

use std::iter::Peekable;
use std::str::Chars;

/// A translated pattern. `$` is kept apart, as its meaning depends on the engine that runs it.
pub(super) struct Translation {
    /// The parts between the `$`s.
    pieces: Vec<String>,
    /// Whether there is a `$` at all.
    pub(super) has_dollar: bool,
    /// Whether the linear engine would read the pattern differently, or not at all.
    pub(super) needs_backtracking: bool,
    /// Whether letters of all alphabets make words.
    pub(super) unicode: bool,
    /// The reason for which PCRE refuses the pattern, if the engines accept it or have another
    /// message.
    pub(super) refused: Option<&'static str>,
}

impl Translation {
    /// The pattern with this text for every `$`.
    pub(super) fn source(&self, dollar: &str) -> String {
        self.pieces.join(dollar)
    }
}

/// Translates a pattern; `extended` is the option `x`.
pub(super) fn translate(pattern: &str, extended: bool) -> Translation {
    let (pattern, unicode) = strip_verbs(pattern);
    let mut translator = Translator {
        characters: pattern.chars().peekable(),
        out: String::with_capacity(pattern.len() + 16),
        pieces: Vec::new(),
        extended,
        unicode,
        groups: count_groups(pattern),
        needs_backtracking: false,
        refused: None,
    };
    translator.run();
    let Translator { out, mut pieces, needs_backtracking, refused, .. } = translator;
    pieces.push(out);
    Translation { has_dollar: pieces.len() > 1, pieces, needs_backtracking, unicode, refused }
}

/// The approximate number of groups; decides whether `\12` is a reference or octal.
fn count_groups(pattern: &str) -> usize {
    let opening = pattern.matches('(').count();
    opening.saturating_sub(pattern.matches("(?").count() + pattern.matches("\\(").count())
}

/// Removes the verbs at the start. The second result is whether one enables Unicode classes.
fn strip_verbs(mut pattern: &str) -> (&str, bool) {
    let mut unicode = false;
    while let Some((verb, rest)) = ["(*UTF8)", "(*UTF)", "(*UCP)"]
        .iter()
        .find_map(|verb| pattern.strip_prefix(verb).map(|rest| (*verb, rest)))
    {
        unicode |= verb == "(*UCP)";
        pattern = rest;
    }
    (pattern, unicode)
}

/// What precedes a quantifier.
#[derive(Clone, Copy, PartialEq)]
enum QuantifierTarget {
    /// Something that can be repeated; otherwise the engine reports an error.
    Item,
    /// A quantifier, which `?` makes lazy and `+` possessive.
    Quantifier,
    /// A quantifier with such a suffix.
    Complete,
}

struct Translator<'p> {
    characters: Peekable<Chars<'p>>,
    out: String,
    pieces: Vec<String>,
    extended: bool,
    /// `\w`, `\d`, `\s` and `\b` use Unicode.
    unicode: bool,
    groups: usize,
    needs_backtracking: bool,
    refused: Option<&'static str>,
}

impl Translator<'_> {
    fn run(&mut self) {
        let mut before = QuantifierTarget::Item;
        let mut depth = 0_usize;
        while let Some(character) = self.characters.next() {
            let mut now = QuantifierTarget::Item;
            match character {
                '\\' => self.escape(),
                '[' => self.class(),
                '$' => {
                    let piece = std::mem::take(&mut self.out);
                    self.pieces.push(piece);
                }
                '{' if !self.is_repetition() => self.out.push_str(r"\{"),
                '{' => {
                    self.repetition();
                    self.refuse_if(before != QuantifierTarget::Item, "nothing to repeat");
                    now = QuantifierTarget::Quantifier;
                }
                '}' => self.out.push_str(r"\}"),
                ']' => self.out.push_str(r"\]"),
                '*' | '+' | '?' => {
                    self.out.push(character);
                    now = match before {
                        QuantifierTarget::Item => QuantifierTarget::Quantifier,
                        QuantifierTarget::Quantifier => QuantifierTarget::Complete,
                        QuantifierTarget::Complete => before,
                    };
                    let suffix = now == QuantifierTarget::Complete;
                    self.needs_backtracking |= suffix && character == '+';
                    let refused =
                        before == QuantifierTarget::Complete || (suffix && character == '*');
                    self.refuse_if(refused, "nothing to repeat");
                }
                '(' => {
                    depth += usize::from(self.group());
                }
                ')' => {
                    self.out.push(')');
                    self.refuse_if(depth == 0, "unmatched parentheses");
                    depth = depth.saturating_sub(1);
                }
                '#' if self.extended => {
                    while self.characters.next().is_some_and(|c| c != '\n') {}
                    continue;
                }
                character if self.extended && is_space(character) => continue,
                character => self.out.push(character),
            }
            before = now;
        }
        self.refuse_if(depth > 0, "missing )");
    }

    fn refuse_if(&mut self, wrong: bool, reason: &'static str) {
        if wrong && self.refused.is_none() {
            self.refused = Some(reason);
        }
    }

    /// `{n}`, `{n,}` or `{n,m}`; the brace was read.
    fn repetition(&mut self) {
        self.out.push('{');
        let body = self.until('}');
        self.out.push_str(&body);
        self.out.push('}');
        let mut numbers = body.split(',').map(|digits| digits.parse::<u32>().unwrap_or(u32::MAX));
        let from = numbers.next().unwrap_or(0);
        let to = if body.ends_with(',') { from } else { numbers.next().unwrap_or(from) };
        self.refuse_if(from > 65_535 || to > 65_535, "number too big in {} quantifier");
        self.refuse_if(to < from, "numbers out of order in {} quantifier");
    }

    /// The text up to a closing character, which is consumed.
    fn until(&mut self, end: char) -> String {
        let mut text = String::new();
        for character in self.characters.by_ref() {
            if character == end {
                break;
            }
            text.push(character);
        }
        text
    }

    /// After `(`: syntax that the linear engine does not support or writes differently. Returns
    /// false for a comment.
    fn group(&mut self) -> bool {
        let mut ahead = self.characters.clone();
        if ahead.next() != Some('?') {
            self.out.push('(');
            return true;
        }
        match (ahead.next(), ahead.next()) {
            (Some('#'), _) => {
                // A comment: `(?#...)`.
                self.until(')');
                return false;
            }
            (Some('\''), _) => {
                // `(?'name'...)` is `(?<name>...)`.
                self.characters.nth(1);
                let name = self.until('\'');
                self.out.push_str(&format!("(?<{name}>"));
                return true;
            }
            (Some('<'), Some('=' | '!')) | (Some('=' | '!' | '>' | '(' | '|'), _) => {
                self.needs_backtracking = true;
            }
            (Some('<'), Some('0'..='9')) => {
                self.refuse_if(true, "group name must start with a non-digit");
            }
            (Some('P'), Some('<')) if ahead.next().is_some_and(|c| c.is_ascii_digit()) => {
                self.refuse_if(true, "group name must start with a non-digit");
            }
            _ => {}
        }
        // The question mark is no quantifier here.
        self.characters.next();
        self.out.push_str("(?");
        true
    }

    /// Whether `{` opens `{n}`, `{n,}` or `{n,m}`; everything else is literal in PCRE.
    fn is_repetition(&self) -> bool {
        let mut ahead = self.characters.clone();
        let mut digits = 0;
        let mut comma = false;
        loop {
            match ahead.next() {
                Some(c) if c.is_ascii_digit() => digits += 1,
                Some(',') if digits > 0 && !comma => comma = true,
                Some('}') => return digits > 0,
                _ => return false,
            }
        }
    }

    fn escape(&mut self) {
        let Some(character) = self.characters.next() else {
            self.refuse_if(true, "\\ at end of pattern");
            return;
        };
        match character {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' | 'B' if self.unicode => {
                self.out.push('\\');
                self.out.push(character);
            }
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            // Without the option `i`, for which U+017F would be a small s.
            'w' => self.out.push_str("(?-i:[0-9A-Za-z_])"),
            'W' => self.out.push_str("(?-i:[^0-9A-Za-z_])"),
            's' => self.out.push_str(r"[ \t\n\x0B\x0C\r]"),
            'S' => self.out.push_str(r"[^ \t\n\x0B\x0C\r]"),
            'h' => self.out.push_str(&format!("[{HORIZONTAL}]")),
            'H' => self.out.push_str(&format!("[^{HORIZONTAL}]")),
            'v' => self.out.push_str(&format!("[{VERTICAL}]")),
            'V' => self.out.push_str(&format!("[^{VERTICAL}]")),
            'R' => self.out.push_str(&format!(r"(?:\r\n|[{VERTICAL}])")),
            'N' => self.out.push_str(r"[^\n]"),
            'X' => self.out.push_str(r"(?:\r\n|\P{M}\p{M}*|\p{M}+)"),
            'b' => self.out.push_str(r"(?-u:\b)"),
            // The `regex` crate refuses an ASCII-only `\B`, which may match inside a character.
            'B' => self.out.push_str(r"\B"),
            'e' => self.out.push_str(r"\x1B"),
            'Z' => {
                self.needs_backtracking = true;
                self.out.push_str(r"(?=\n?\z)");
            }
            'Q' => self.quoted(),
            'E' => {}
            'c' => self.control(),
            'o' => self.octal_in_braces(),
            '0' => self.octal(0),
            'g' | 'k' => self.reference(character),
            '1'..='9' => self.number(character),
            'G' | 'K' => {
                self.needs_backtracking = true;
                self.out.push('\\');
                self.out.push(character);
            }
            'p' | 'P' => {
                // Properties ignore the option `i`.
                self.out.push_str("(?-i:");
                self.braced(character);
                self.out.push(')');
            }
            'x' => self.braced(character),
            'L' | 'l' | 'U' | 'u' => {
                self.refuse_if(true, "PCRE does not support \\L, \\l, \\N{name}, \\U, or \\u")
            }
            'a' | 'f' | 'n' | 'r' | 't' | 'A' | 'z' | 'C' => {
                self.out.push('\\');
                self.out.push(character);
            }
            // Letters without a special meaning are literal.
            character if character.is_ascii_alphanumeric() => self.out.push(character),
            character => self.literal(character),
        }
    }

    /// `\x{e9}`, `\p{Lu}`, `\p{^Lu}`: the braces are no repetition.
    fn braced(&mut self, character: char) {
        if self.characters.peek() != Some(&'{') {
            self.out.push('\\');
            self.out.push(character);
            if character != 'x' {
                // `\pL`
                self.out.extend(self.characters.next());
            }
            return;
        }
        self.characters.next();
        let body = self.until('}');
        match (character, body.strip_prefix('^')) {
            ('p', Some(body)) => self.out.push_str(&format!(r"\P{{{body}}}")),
            ('P', Some(body)) => self.out.push_str(&format!(r"\p{{{body}}}")),
            _ => self.out.push_str(&format!(r"\{character}{{{body}}}")),
        }
    }

    /// `\cA` is the control character A.
    fn control(&mut self) {
        match self.characters.next() {
            Some(character) if character.is_ascii() => {
                let code = character.to_ascii_uppercase() as u8 ^ 0x40;
                self.out.push_str(&format!(r"\x{code:02X}"));
            }
            _ => self.refuse_if(true, "\\c at end of pattern"),
        }
    }

    /// `\o{101}`
    fn octal_in_braces(&mut self) {
        if self.characters.peek() == Some(&'{') {
            self.characters.next();
        }
        let digits = self.until('}');
        match u32::from_str_radix(&digits, 8) {
            Ok(code) => self.out.push_str(&format!(r"\x{{{code:X}}}")),
            Err(_) => self.refuse_if(true, "digits missing in \\x{} or \\o{}"),
        }
    }

    /// `\12`: a group if there are that many, else octal.
    fn number(&mut self, first: char) {
        let mut digits = String::from(first);
        while let Some(digit) = self.characters.peek().filter(|c| c.is_ascii_digit()) {
            digits.push(*digit);
            self.characters.next();
        }
        let number: usize = digits.parse().unwrap_or(usize::MAX);
        if number < 10 || number <= self.groups {
            self.needs_backtracking = true;
            // The group keeps a following digit from becoming part of the number.
            self.out.push_str(&format!(r"(?:\{number})"));
            return;
        }
        let octal: String = digits.chars().take_while(|c| c.is_digit(8)).take(3).collect();
        match u32::from_str_radix(&octal, 8) {
            Ok(code) => {
                self.out.push_str(&format!(r"\x{{{code:X}}}"));
                self.out.push_str(digits.get(octal.len()..).unwrap_or(""));
            }
            Err(_) => self.refuse_if(true, "reference to non-existent subpattern"),
        }
    }

    /// `\g1`, `\g{1}`, `\g{name}`, `\k<name>`, `\k{name}`, `\k'name'`.
    fn reference(&mut self, kind: char) {
        self.needs_backtracking = true;
        let name = match self.characters.next() {
            Some('{') => self.until('}'),
            Some('<') => self.until('>'),
            Some('\'') => self.until('\''),
            Some(digit) if kind == 'g' && digit.is_ascii_digit() => {
                let mut digits = String::from(digit);
                while let Some(digit) = self.characters.peek().filter(|c| c.is_ascii_digit()) {
                    digits.push(*digit);
                    self.characters.next();
                }
                digits
            }
            _ => {
                return self.refuse_if(
                    true,
                    "a numbered reference must not be zero, a name must be delimited",
                );
            }
        };
        if !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
            self.out.push_str(&format!(r"(?:\{name})"));
        } else {
            self.out.push_str(&format!(r"\k<{name}>"));
        }
    }

    /// Up to two more octal digits.
    fn octal(&mut self, start: u32) {
        let mut code = start;
        for _ in 0..2 {
            match self.characters.peek().and_then(|c| c.to_digit(8)) {
                Some(digit) => {
                    code = code * 8 + digit;
                    self.characters.next();
                }
                None => break,
            }
        }
        self.out.push_str(&format!(r"\x{{{code:X}}}"));
    }

    /// `\Q...\E`: everything is literal.
    fn quoted(&mut self) {
        while let Some(character) = self.characters.next() {
            if character == '\\' && self.characters.peek() == Some(&'E') {
                self.characters.next();
                return;
            }
            self.literal(character);
        }
    }

    fn literal(&mut self, character: char) {
        if character.is_ascii_punctuation() && !matches!(character, '<' | '>') {
            self.out.push('\\');
        }
        self.out.push(character);
    }

    /// After `[`: a bracket inside is literal unless it opens `[:name:]`, and there are no set
    /// operations.
    fn class(&mut self) {
        self.out.push('[');
        if let Some(delimiter @ (':' | '.' | '=')) = self.characters.peek().copied() {
            let end = format!("{delimiter}]");
            let rest: String = self.characters.clone().skip(1).collect();
            let name = rest.split(end.as_str()).next().unwrap_or("");
            let named = name.len() < rest.len() && name.bytes().all(|b| b.is_ascii_lowercase());
            self.refuse_if(named, "POSIX named classes are supported only within a class");
        }
        if self.characters.peek() == Some(&'^') {
            self.characters.next();
            self.out.push('^');
        }
        let mut first = true;
        while let Some(character) = self.characters.next() {
            match character {
                ']' if !first => {
                    self.out.push(']');
                    return;
                }
                '[' if self.characters.peek() == Some(&':') && self.posix_class() => {}
                '[' | ']' | '&' | '~' | '#' | ' ' => {
                    self.out.push('\\');
                    self.out.push(character);
                }
                '-' => {
                    // A range only between two single characters; the engine agrees except that
                    // `--` would be a set operation.
                    if self.characters.peek() == Some(&'-') || self.characters.peek() == Some(&']')
                    {
                        self.out.push_str(r"\-");
                    } else {
                        self.out.push('-');
                    }
                }
                '\\' => self.class_escape(),
                character => self.out.push(character),
            }
            first = false;
        }
        self.refuse_if(true, "missing terminating ] for character class");
    }

    /// `[:alpha:]` and `[:^alpha:]`, copied whole. The opening bracket was read.
    fn posix_class(&mut self) -> bool {
        let mut ahead = self.characters.clone();
        let mut text = String::from("[");
        while let Some(character) = ahead.next() {
            text.push(character);
            match character {
                ':' if text.len() > 2 && ahead.peek() == Some(&']') => {
                    ahead.next();
                    text.push(']');
                    let name = text.trim_matches(['[', ']', ':', '^']);
                    self.refuse_if(!POSIX.contains(&name), "unknown POSIX class name");
                    self.out.push_str(&text);
                    self.characters = ahead;
                    return true;
                }
                ':' | '^' => {}
                character if character.is_ascii_lowercase() => {}
                _ => return false,
            }
        }
        false
    }

    fn class_escape(&mut self) {
        let Some(character) = self.characters.next() else {
            self.refuse_if(true, "\\ at end of pattern");
            return;
        };
        match character {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' if self.unicode => {
                self.out.push('\\');
                self.out.push(character);
            }
            'd' => self.out.push_str("0-9"),
            'w' => self.out.push_str("0-9A-Za-z_"),
            's' => self.out.push_str(r"\ \t\n\x0B\x0C\r"),
            'D' => self.out.push_str("[^0-9]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            'S' => self.out.push_str(r"[^\ \t\n\x0B\x0C\r]"),
            'h' => self.out.push_str(HORIZONTAL),
            'v' => self.out.push_str(VERTICAL),
            'b' => self.out.push_str(r"\x08"),
            'e' => self.out.push_str(r"\x1B"),
            'Q' => self.quoted(),
            'E' => {}
            digit @ '0'..='7' => self.octal(digit.to_digit(8).unwrap_or(0)),
            'c' => self.control(),
            'o' => self.octal_in_braces(),
            'p' | 'P' | 'x' => self.braced(character),
            'a' | 'f' | 'n' | 'r' | 't' => {
                self.out.push('\\');
                self.out.push(character);
            }
            character if character.is_ascii_alphanumeric() => self.out.push(character),
            character => self.literal(character),
        }
        // After a class such as `\w` a hyphen is literal in PCRE and an error in the engine.
        let is_class =
            matches!(character, 'd' | 'w' | 's' | 'D' | 'W' | 'S' | 'h' | 'v' | 'p' | 'P');
        if is_class && self.characters.peek() == Some(&'-') {
            self.characters.next();
            self.out.push_str(r"\-");
        }
    }
}

/// Horizontal white space, as the content of a class.
const HORIZONTAL: &str = r"\ \t\u{A0}\u{1680}\u{180E}\u{2000}-\u{200A}\u{202F}\u{205F}\u{3000}";
/// Vertical white space, as the content of a class.
const VERTICAL: &str = r"\n\x0B\x0C\r\u{85}\u{2028}\u{2029}";
/// Names that are allowed between `[:` and `:]`.
const POSIX: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0B' | '\x0C')
}
