//! What follows a backslash outside of a class, and characters by their code inside, too.

use super::super::set::{self, Set};
use super::super::syntax::{Assertion, Node};
use super::{Parsed, Parser};

/// What an escape is.
pub(super) enum Item {
    Part(Node),
    /// One that no quantifier may follow.
    Fixed(Node),
}

/// A character, or the letter of an escape that is none.
pub(super) enum Escaped {
    Character(char),
    Special(char),
}

pub(super) const UNSUPPORTED: &str = r"PCRE does not support \L, \l, \N{name}, \U, or \u";

impl Parser<'_> {
    /// The backslash was read.
    pub(super) fn escape(&mut self) -> Parsed<Item> {
        let letter = match self.escaped(false)? {
            Escaped::Character(character) => return Ok(Item::Part(self.literal(character))),
            Escaped::Special(letter) => letter,
        };
        let assertion = match letter {
            'A' => Some(Assertion::StartText),
            'Z' => Some(Assertion::EndTextOrNewline),
            'z' => Some(Assertion::EndText),
            'G' => Some(Assertion::SearchStart),
            'b' => Some(Assertion::WordBoundary),
            'B' => Some(Assertion::NotWordBoundary),
            _ => None,
        };
        if let Some(assertion) = assertion {
            return Ok(Item::Fixed(Node::Assert(assertion)));
        }
        Ok(Item::Part(match letter {
            'K' => return Ok(Item::Fixed(Node::Keep)),
            'C' if self.behind > 0 => return Err(r"\C not allowed in lookbehind assertion"),
            // One byte in PCRE; texts here consist of characters.
            'C' => Node::Set(Set::All),
            'N' => {
                if self.byte(0) == Some(b'{') && self.counts().is_none() {
                    return self.named_character();
                }
                self.no_newline()
            }
            'R' => Node::Newline { ascii: self.newline_is_ascii },
            'X' => Node::Cluster,
            'p' | 'P' => Node::Set(Set::of(&self.property(letter == 'P')?)),
            'g' => self.numbered_escape()?,
            'k' => {
                let end = match self.next() {
                    Some('<') => '>',
                    Some('\'') => '\'',
                    Some('{') => '}',
                    _ => {
                        return Err(
                            r"\k is not followed by a braced, angle-bracketed, or quoted name",
                        );
                    }
                };
                self.named_reference(end)?
            }
            '0'..='9' => {
                self.at -= 1;
                let number = self.number()?.unwrap_or(0);
                self.reference(number)?
            }
            letter => match set::shorthand(letter, self.unicode) {
                Some(class) => Node::Set(Set::of(&class)),
                None => self.literal(letter),
            },
        }))
    }

    /// Reads a character by its code or name, or the letter of another escape. A digit stands for
    /// a reference, and is to be read again.
    pub(super) fn escaped(&mut self, in_class: bool) -> Parsed<Escaped> {
        let Some(letter) = self.next() else { return Err(r"\ at end of pattern") };
        if matches!(letter, 'n' | 'r') {
            self.names_newline = true;
        }
        Ok(Escaped::Character(match letter {
            'a' => '\x07',
            'e' => '\x1B',
            'f' => '\x0C',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'L' | 'l' | 'U' | 'u' => return Err(UNSUPPORTED),
            'c' => match self.next() {
                None => return Err(r"\c at end of pattern"),
                Some(character) if character.is_ascii() => {
                    char::from(character.to_ascii_uppercase() as u8 ^ 0x40)
                }
                Some(_) => return Err(r"\c must be followed by an ASCII character"),
            },
            'o' if !self.eat("{") => return Err(r"missing opening brace after \o"),
            'o' => self.braced(8, r"non-octal character in \o{} (closing brace missing?)")?,
            'x' if self.eat("{") => {
                self.braced(16, r"non-hex character in \x{} (closing brace missing?)")?
            }
            'x' => self.code(0, 16, 2)?,
            '0' => self.code(0, 8, 2)?,
            '1'..='9' => {
                if !in_class && self.is_reference()? {
                    return Ok(Escaped::Special(letter));
                }
                match letter.to_digit(8) {
                    Some(digit) => self.code(digit, 8, 2)?,
                    None => letter,
                }
            }
            letter if letter.is_ascii_alphabetic() => return Ok(Escaped::Special(letter)),
            literal => literal,
        }))
    }

    /// Whether the digits from the one that was read on are the number of a group.
    fn is_reference(&mut self) -> Parsed<bool> {
        let after = self.at;
        self.at -= 1;
        let number = self.number()?.unwrap_or(0);
        self.at = after;
        Ok(number < 8 || number <= self.groups.count)
    }

    /// Up to `most` digits after those in `code`.
    fn code(&mut self, mut code: u32, radix: u32, most: usize) -> Parsed<char> {
        for _ in 0..most {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else { break };
            code = code * radix + digit;
            self.at += 1;
        }
        character(code)
    }

    /// `\x{e9}`, `\o{351}`; the brace was read.
    fn braced(&mut self, radix: u32, wrong: &'static str) -> Parsed<char> {
        if self.byte(0) == Some(b'}') {
            return Err(r"digits missing in \x{} or \o{}");
        }
        let mut code = 0_u32;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) {
            self.at += 1;
            code = code.saturating_mul(radix).saturating_add(digit);
            if code > 0x10_FFFF {
                return Err(r"character value in \x{} or \o{} is too large");
            }
        }
        if !self.eat("}") {
            return Err(wrong);
        }
        character(code)
    }

    /// `\N{U+e9}`
    fn named_character(&mut self) -> Parsed<Item> {
        if !self.eat("{U+") {
            return Err(UNSUPPORTED);
        }
        let character = self.braced(16, UNSUPPORTED)?;
        Ok(Item::Part(self.literal(character)))
    }

    /// `\p{Lu}`, `\p{^Lu}`, `\pL`; the letter was read.
    pub(super) fn property(
        &mut self,
        mut negated: bool,
    ) -> Parsed<regex_syntax::hir::ClassUnicode> {
        const MALFORMED: &str = r"malformed \P or \p sequence";
        /// Longest name, in bytes.
        const NAME_MAX: usize = 32;
        let name = if self.eat("{") {
            negated ^= self.eat("^");
            let end = self.rest().find('}').filter(|end| *end <= NAME_MAX).ok_or(MALFORMED)?;
            let name = self.rest().get(..end).unwrap_or("").to_owned();
            self.at += end + 1;
            name
        } else {
            self.next().ok_or(MALFORMED)?.to_string()
        };
        let class = set::property(&name).ok_or(r"unknown property name after \P or \p")?;
        Ok(if negated { set::negated(&class) } else { class })
    }

    /// After `\g`: a reference, or in angle brackets or quotes a call.
    fn numbered_escape(&mut self) -> Parsed<Node> {
        const MALFORMED: &str = r"\g is not followed by a braced, angle-bracketed, or quoted name/number or by a plain number";
        for (open, end) in [("<", '>'), ("'", '\'')] {
            if self.eat(open) {
                return self.call_escape(end);
            }
        }
        let braced = self.eat("{");
        if braced {
            let body = self.rest().split('}').next().unwrap_or("");
            let relative = body.strip_prefix('+').unwrap_or(body);
            if !relative.bytes().all(|b| b == b'-' || b.is_ascii_digit()) {
                return self.named_reference('}');
            }
        }
        let back = self.eat("-");
        let ahead = !back && self.eat("+");
        let number = self.number()?.unwrap_or(0);
        if braced && !self.eat("}") {
            return Err(MALFORMED);
        }
        if number == 0 {
            return Err("a numbered reference must not be zero");
        }
        let number = match (back, ahead) {
            (true, _) => {
                let before = self.groups.count.checked_sub(number);
                before.ok_or("reference to non-existent subpattern")? + 1
            }
            (_, true) => self.groups.count + number,
            _ => number,
        };
        self.reference(number)
    }

    /// `\g<name>`, `\g<1>`, `\g<-1>`: a call; the opening bracket was read.
    fn call_escape(&mut self, end: char) -> Parsed<Node> {
        let sign = self.byte(0).filter(|b| matches!(b, b'+' | b'-'));
        self.at += usize::from(sign.is_some());
        match self.number()? {
            None if sign == Some(b'+') => Err("digit expected after (?+"),
            None if sign.is_some() => Err("(?R or (?[+-]digits must be followed by )"),
            Some(number) => {
                if self.next() != Some(end) {
                    return Err(
                        r"\g is not followed by a braced, angle-bracketed, or quoted name/number or by a plain number",
                    );
                }
                self.call(sign, number)
            }
            None => {
                let name = self.name(end)?;
                let groups = self.named(&name)?;
                Ok(Node::Call(groups.first().copied().unwrap_or(0)))
            }
        }
    }

    /// A reference by name; what opens the name was read.
    pub(super) fn named_reference(&mut self, end: char) -> Parsed<Node> {
        let name = self.name(end)?;
        let groups = self.named(&name)?;
        Ok(Node::Reference { groups, folded: self.options.folded })
    }

    fn reference(&mut self, number: usize) -> Parsed<Node> {
        let groups = vec![self.numbered(number)?];
        Ok(Node::Reference { groups, folded: self.options.folded })
    }
}

fn character(code: u32) -> Parsed<char> {
    char::from_u32(code).ok_or("disallowed Unicode code point (>= 0xd800 && <= 0xdfff)")
}
