//! Classes: `[a-z\d[:alpha:]]`.

use super::super::set::{self, Set};
use super::super::syntax::{Assertion, Node};
use super::escape::{Escaped, UNSUPPORTED};
use super::{Parsed, Parser};
use regex_syntax::hir::ClassUnicode;

const INVALID_RANGE: &str = "invalid range in character class";

const NOT_IN_CLASS: &str = r"\N is not supported in a class";

/// One element of a class.
enum Element {
    Character(char),
    /// A letter whose escape has a meaning only outside of classes.
    Letter(char),
    Class(ClassUnicode),
}

impl Parser<'_> {
    /// The bracket was read.
    pub(super) fn class(&mut self) -> Parsed<Node> {
        for (source, behind) in [("[:<:]]", false), ("[:>:]]", true)] {
            if self.eat(source) {
                let word = set::shorthand('w', self.unicode).ok_or("unknown POSIX class name")?;
                let node = Box::new(Node::Set(Set::of(&word)));
                return Ok(Node::Concat(vec![
                    Node::Assert(Assertion::WordBoundary),
                    Node::Look { node, behind, negative: false },
                ]));
            }
        }
        self.at -= 1;
        if let Some((_, kind)) = self.posix_end() {
            return Err(match kind {
                b':' => "POSIX named classes are supported only within a class",
                _ => "POSIX collating elements are not supported",
            });
        }
        self.at += 1;
        self.skip_quotes();
        let negated = self.eat("^");
        let mut class = ClassUnicode::empty();
        let mut first = true;
        loop {
            self.skip_quotes();
            if !first && !self.quoted && self.eat("]") {
                break;
            }
            first = false;
            let element = self.element()?;
            let from = match element {
                Element::Class(other) => {
                    class.union(&other);
                    continue;
                }
                Element::Character(character) | Element::Letter(character) => character,
            };
            let mut piece = match self.range_end()? {
                Some(to) if to < from => return Err("range out of order in character class"),
                Some(to) => set::range(from, to),
                None => set::single(from),
            };
            if self.options.folded {
                set::fold(&mut piece);
            }
            class.union(&piece);
        }
        if negated {
            class.negate();
        }
        Ok(Node::Set(Set::of(&class)))
    }

    /// Skips `\E` and `\Q`, and remembers what holds after them.
    fn skip_quotes(&mut self) {
        loop {
            if self.eat("\\E") {
                self.quoted = false;
            } else if !self.quoted && self.eat("\\Q") {
                self.quoted = true;
            } else {
                return;
            }
        }
    }

    /// The end of a range that the last character began, if there is one.
    fn range_end(&mut self) -> Parsed<Option<char>> {
        let (before, quoted) = (self.at, self.quoted);
        self.skip_quotes();
        if !self.quoted && self.eat("-") {
            self.skip_quotes();
            let class = |text: &str| text.starts_with("\\p") || text.starts_with("\\P");
            if !self.quoted && (self.posix_end().is_some() || class(self.rest())) {
                return Err(INVALID_RANGE);
            }
            if self.quoted || !matches!(self.byte(0), Some(b']') | None) {
                return match self.element() {
                    Ok(Element::Character(to)) => Ok(Some(to)),
                    Ok(Element::Class(_) | Element::Letter(_)) | Err(NOT_IN_CLASS) => {
                        Err(INVALID_RANGE)
                    }
                    Err(refusal) => Err(refusal),
                };
            }
        }
        (self.at, self.quoted) = (before, quoted);
        Ok(None)
    }

    fn element(&mut self) -> Parsed<Element> {
        if !self.quoted
            && let Some((end, kind)) = self.posix_end()
        {
            if kind != b':' {
                return Err("POSIX collating elements are not supported");
            }
            let name = self.text.get(self.at + 2..end).unwrap_or("");
            let (name, negated) = match name.strip_prefix('^') {
                Some(name) => (name, true),
                None => (name, false),
            };
            let class = set::posix(name, self.options.folded, self.unicode);
            let class = class.ok_or("unknown POSIX class name")?;
            self.at = end + 2;
            return Ok(Element::Class(if negated { set::negated(&class) } else { class }));
        }
        let Some(character) = self.next() else {
            return Err("missing terminating ] for character class");
        };
        self.names_newline |= matches!(character, '\r' | '\n');
        if self.quoted || character != '\\' {
            return Ok(Element::Character(character));
        }
        let letter = match self.escaped(true)? {
            Escaped::Character(character) => return Ok(Element::Character(character)),
            Escaped::Special(letter) => letter,
        };
        match letter {
            'b' => Ok(Element::Character('\x08')),
            'N' if self.byte(0) == Some(b'{') && self.counts().is_none() => Err(UNSUPPORTED),
            'N' => Err(NOT_IN_CLASS),
            'A' | 'B' | 'C' | 'G' | 'K' | 'R' | 'X' | 'Z' | 'k' | 'z' => {
                Ok(Element::Letter(letter))
            }
            'p' | 'P' => self.property(letter == 'P').map(Element::Class),
            letter => Ok(set::shorthand(letter, self.unicode)
                .map_or(Element::Character(letter), Element::Class)),
        }
    }

    /// Where `[:name:]` ends, before its last two characters, and which of `:.=` it has. The
    /// position is at the bracket.
    fn posix_end(&self) -> Option<(usize, u8)> {
        let bytes = self.text.as_bytes();
        let kind = self.byte(1).filter(|b| matches!(b, b':' | b'.' | b'='))?;
        if self.byte(0) != Some(b'[') {
            return None;
        }
        let mut at = self.at + 2;
        while let Some(byte) = bytes.get(at) {
            let after = bytes.get(at + 1).copied();
            match byte {
                b'\\' if matches!(after, Some(b']' | b'\\')) => at += 1,
                b']' => return None,
                b'[' if after == Some(kind) => return None,
                byte if *byte == kind && after == Some(b']') => return Some((at, kind)),
                _ => {}
            }
            at += 1;
        }
        None
    }
}
