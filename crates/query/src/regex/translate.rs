//! From PCRE's spelling to the `regex` crate's: ASCII meanings of `\w`, `\d`, `\s` and `\b`,
//! literal braces and brackets, `\Q..\E`, and white space in extended patterns.

use std::iter::Peekable;
use std::str::Chars;

/// A translated pattern. `$` is kept apart, as its meaning depends on the engine that runs it.
pub(super) struct Translation {
    /// Pieces between which a `$` stands.
    pieces: Vec<String>,
    /// Whether there is a `$` at all.
    pub(super) has_dollar: bool,
    /// Whether the linear engine would read the pattern differently, or not at all.
    pub(super) needs_backtracking: bool,
}

impl Translation {
    /// The pattern with this text for every `$`.
    pub(super) fn source(&self, dollar: &str) -> String {
        self.pieces.join(dollar)
    }
}

/// Translates a pattern; `extended` is the option `x`.
pub(super) fn translate(pattern: &str, extended: bool) -> Translation {
    let mut translator = Translator {
        characters: strip_verbs(pattern).chars().peekable(),
        out: String::with_capacity(pattern.len() + 16),
        pieces: Vec::new(),
        extended,
        needs_backtracking: false,
    };
    translator.run();
    let Translator { out, mut pieces, needs_backtracking, .. } = translator;
    pieces.push(out);
    Translation { has_dollar: pieces.len() > 1, pieces, needs_backtracking }
}

/// Drops the verbs that ask for what is always on.
fn strip_verbs(mut pattern: &str) -> &str {
    while let Some(rest) =
        ["(*UTF8)", "(*UTF)", "(*UCP)"].iter().find_map(|verb| pattern.strip_prefix(verb))
    {
        pattern = rest;
    }
    pattern
}

struct Translator<'p> {
    characters: Peekable<Chars<'p>>,
    out: String,
    pieces: Vec<String>,
    extended: bool,
    needs_backtracking: bool,
}

impl Translator<'_> {
    fn run(&mut self) {
        // Whether what was just written can take `+` as "possessive".
        let mut after_quantifier = false;
        while let Some(character) = self.characters.next() {
            let mut quantifier = false;
            match character {
                '\\' => self.escape(),
                '[' => self.class(),
                '$' => {
                    let piece = std::mem::take(&mut self.out);
                    self.pieces.push(piece);
                }
                '{' if !self.is_repetition() => self.out.push_str(r"\{"),
                '{' => {
                    self.out.push('{');
                    for character in self.characters.by_ref() {
                        self.out.push(character);
                        if character == '}' {
                            break;
                        }
                    }
                    quantifier = true;
                }
                '}' => self.out.push_str(r"\}"),
                ']' => self.out.push_str(r"\]"),
                '+' if after_quantifier => {
                    self.needs_backtracking = true;
                    self.out.push('+');
                }
                '*' | '+' | '?' => {
                    self.out.push(character);
                    quantifier = !after_quantifier;
                }
                '(' => self.group(),
                '#' if self.extended => {
                    while self.characters.next().is_some_and(|c| c != '\n') {}
                    continue;
                }
                character if self.extended && is_space(character) => continue,
                character => self.out.push(character),
            }
            after_quantifier = quantifier;
        }
    }

    /// After `(`: what the linear engine does not know, or spells otherwise.
    fn group(&mut self) {
        self.out.push('(');
        let mut ahead = self.characters.clone();
        if ahead.next() != Some('?') {
            return;
        }
        match (ahead.next(), ahead.next()) {
            (Some('#'), _) => {
                // A comment: `(?#...)`.
                self.out.pop();
                while self.characters.next().is_some_and(|c| c != ')') {}
            }
            (Some('<'), Some('=' | '!')) | (Some('=' | '!' | '>' | '(' | '|'), _) => {
                self.needs_backtracking = true;
            }
            (Some('\''), _) => {
                // `(?'name'...)` is `(?<name>...)`.
                self.characters.next();
                self.characters.next();
                self.out.push_str("?<");
                for character in self.characters.by_ref() {
                    if character == '\'' {
                        break;
                    }
                    self.out.push(character);
                }
                self.out.push('>');
                return;
            }
            _ => {}
        }
        // The question mark is no quantifier here.
        if self.characters.peek() == Some(&'?') {
            self.characters.next();
            self.out.push('?');
        }
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
            self.out.push('\\');
            return;
        };
        match character {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' => self.out.push_str(r"[ \t\n\x0B\x0C\r]"),
            'S' => self.out.push_str(r"[^ \t\n\x0B\x0C\r]"),
            'h' => {
                self.out.push_str(r"[ \t\u{A0}\u{1680}\u{2000}-\u{200A}\u{202F}\u{205F}\u{3000}]")
            }
            'H' => {
                self.out.push_str(r"[^ \t\u{A0}\u{1680}\u{2000}-\u{200A}\u{202F}\u{205F}\u{3000}]");
            }
            'v' => self.out.push_str(r"[\n\x0B\x0C\r\u{85}\u{2028}\u{2029}]"),
            'V' => self.out.push_str(r"[^\n\x0B\x0C\r\u{85}\u{2028}\u{2029}]"),
            'R' => self.out.push_str(r"(?:\r\n|[\n\x0B\x0C\r\u{85}\u{2028}\u{2029}])"),
            'N' => self.out.push_str(r"[^\n]"),
            'b' => self.out.push_str(r"(?-u:\b)"),
            // The `regex` crate refuses an ASCII-only `\B`, which may stand inside a character.
            'B' => self.out.push_str(r"\B"),
            'e' => self.out.push_str(r"\x1B"),
            'Z' => {
                let piece = std::mem::take(&mut self.out);
                self.pieces.push(piece);
            }
            'Q' => self.quoted(),
            'E' => {}
            '0' => self.octal(0),
            'G' | 'K' | 'k' | 'g' | '1'..='9' => {
                self.needs_backtracking = true;
                self.out.push('\\');
                self.out.push(character);
            }
            character if character.is_ascii_alphanumeric() => {
                self.out.push('\\');
                self.out.push(character);
            }
            character => self.literal(character),
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
            self.out.push('\\');
            return;
        };
        // After a class such as `\w` a hyphen is literal in PCRE and an error in the engine.
        let mut set = true;
        match character {
            'd' => self.out.push_str("0-9"),
            'w' => self.out.push_str("0-9A-Za-z_"),
            's' => self.out.push_str(r"\ \t\n\x0B\x0C\r"),
            'D' => self.out.push_str("[^0-9]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            'S' => self.out.push_str(r"[^\ \t\n\x0B\x0C\r]"),
            'h' => {
                self.out.push_str(r"\ \t\u{A0}\u{1680}\u{2000}-\u{200A}\u{202F}\u{205F}\u{3000}")
            }
            'v' => self.out.push_str(r"\n\x0B\x0C\r\u{85}\u{2028}\u{2029}"),
            'b' => self.out.push_str(r"\x08"),
            'e' => self.out.push_str(r"\x1B"),
            'Q' => self.quoted(),
            'E' => {}
            digit @ '0'..='7' => self.octal(digit.to_digit(8).unwrap_or(0)),
            character if character.is_ascii_alphanumeric() => {
                set = matches!(character, 'p' | 'P');
                self.out.push('\\');
                self.out.push(character);
            }
            character => {
                set = false;
                self.literal(character);
            }
        }
        let is_class = set && matches!(character, 'd' | 'w' | 's' | 'D' | 'W' | 'S' | 'h' | 'v');
        if is_class && self.characters.peek() == Some(&'-') {
            self.characters.next();
            self.out.push_str(r"\-");
        }
    }
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0B' | '\x0C')
}
