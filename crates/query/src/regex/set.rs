//! Sets of characters: literals, classes, Unicode properties, and their upper and lower case.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// The characters that one position of a pattern may be.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Set {
    Char(char),
    /// Any but a line feed.
    Any,
    /// Any at all.
    All,
    Table(Box<Table>),
}

/// Sorted ranges, ends included, with a bit for each ASCII character.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    ascii: u128,
    ranges: Box<[(char, char)]>,
}

impl Set {
    #[inline]
    pub(super) fn has(&self, character: char) -> bool {
        match self {
            Set::Char(one) => *one == character,
            Set::Any => character != '\n',
            Set::All => true,
            Set::Table(table) => table.has(character),
        }
    }

    pub(super) fn of(class: &ClassUnicode) -> Set {
        let ranges: Box<[(char, char)]> = class.iter().map(|r| (r.start(), r.end())).collect();
        match *ranges {
            [(from, to)] if from == to => return Set::Char(from),
            [('\0', char::MAX)] => return Set::All,
            [('\0', '\t'), ('\x0B', char::MAX)] => return Set::Any,
            _ => {}
        }
        let bit = |code: u8| ranges.iter().any(|r| (r.0..=r.1).contains(&char::from(code)));
        let ascii = (0..128_u8).filter(|code| bit(*code)).fold(0, |bits, code| bits | 1 << code);
        Set::Table(Box::new(Table { ascii, ranges }))
    }

    /// The set as a class that can be combined with others.
    pub(super) fn class(&self) -> ClassUnicode {
        match self {
            Set::Char(one) => single(*one),
            Set::Any => negated(&single('\n')),
            Set::All => range('\0', char::MAX),
            Set::Table(table) => from_ranges(&table.ranges),
        }
    }

    /// A character, with its other cases if `folded`.
    pub(super) fn character(character: char, folded: bool) -> Set {
        if !folded || (character.is_ascii() && !character.is_ascii_alphabetic()) {
            return Set::Char(character);
        }
        let mut class = single(character);
        fold(&mut class);
        Set::of(&class)
    }
}

impl Table {
    #[inline]
    fn has(&self, character: char) -> bool {
        if character.is_ascii() {
            return self.ascii >> (character as u32) & 1 == 1;
        }
        let after = self.ranges.partition_point(|(from, _)| *from <= character);
        after.checked_sub(1).and_then(|at| self.ranges.get(at)).is_some_and(|r| character <= r.1)
    }

    pub(super) fn ranges(&self) -> &[(char, char)] {
        &self.ranges
    }
}

pub(super) fn range(from: char, to: char) -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new(from, to)])
}

pub(super) fn single(character: char) -> ClassUnicode {
    range(character, character)
}

pub(super) fn from_ranges(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|(from, to)| ClassUnicodeRange::new(*from, *to)))
}

pub(super) fn negated(class: &ClassUnicode) -> ClassUnicode {
    let mut class = class.clone();
    class.negate();
    class
}

/// Adds the other cases of all characters.
pub(super) fn fold(class: &mut ClassUnicode) {
    // It fails without the tables of Unicode, which are always compiled in.
    let _ = class.try_case_fold_simple();
}

/// `\h`
pub(super) const HORIZONTAL: &[(char, char)] = &[
    ('\t', '\t'),
    (' ', ' '),
    ('\u{A0}', '\u{A0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{180E}', '\u{180E}'),
    ('\u{2000}', '\u{200A}'),
    ('\u{202F}', '\u{202F}'),
    ('\u{205F}', '\u{205F}'),
    ('\u{3000}', '\u{3000}'),
];

/// `\v`, and what ends a line after `(*ANY)`.
pub(super) const VERTICAL: &[(char, char)] =
    &[('\n', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')];

/// `\s`
const SPACE: &[(char, char)] = &[('\t', '\r'), (' ', ' ')];
/// `\w`
const WORD: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];

/// `\d`, `\h`, `\s`, `\v`, `\w` and their negations in upper case; `unicode` is `(*UCP)`.
pub(super) fn shorthand(letter: char, unicode: bool) -> Option<ClassUnicode> {
    let class = match (letter.to_ascii_lowercase(), unicode) {
        ('d', false) => range('0', '9'),
        ('d', true) => property("Nd")?,
        ('h', _) => from_ranges(HORIZONTAL),
        ('s', false) => from_ranges(SPACE),
        ('s', true) => property("Xsp")?,
        ('v', _) => from_ranges(VERTICAL),
        ('w', false) => from_ranges(WORD),
        ('w', true) => property("Xwd")?,
        _ => return None,
    };
    Some(if letter.is_ascii_uppercase() { negated(&class) } else { class })
}

const CATEGORIES: &[&str] = &[
    "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn",
    "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm",
    "So", "Z", "Zl", "Zp", "Zs",
];

/// The characters of `\p{name}`: a general category, a script, or one of PCRE's own.
pub(super) fn property(name: &str) -> Option<ClassUnicode> {
    let union = |names: &[&str], more: &[(char, char)]| {
        let mut class = from_ranges(more);
        for name in names {
            class.union(&property(name)?);
        }
        Some(class)
    };
    match name {
        "Any" => Some(range('\0', char::MAX)),
        "L&" => union(&["Lu", "Ll", "Lt"], &[]),
        "Xan" => union(&["L", "N"], &[]),
        "Xwd" => union(&["L", "N"], &[('_', '_')]),
        "Xsp" | "Xps" => {
            let mut class = union(&["Z"], HORIZONTAL)?;
            class.union(&from_ranges(VERTICAL));
            Some(class)
        }
        "Xuc" => Some(from_ranges(&[
            ('$', '$'),
            ('@', '@'),
            ('`', '`'),
            ('\u{A0}', '\u{D7FF}'),
            ('\u{E000}', char::MAX),
        ])),
        // Surrogates are no characters.
        "Cs" => Some(ClassUnicode::empty()),
        name if CATEGORIES.contains(&name) => table(&format!(r"\p{{gc={name}}}")),
        name if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_') => {
            table(&format!(r"\p{{sc={name}}}"))
        }
        _ => None,
    }
}

/// The characters of a class in the syntax of the crate `regex-automata`.
pub(super) fn table(source: &str) -> Option<ClassUnicode> {
    match regex_syntax::Parser::new().parse(source).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        HirKind::Literal(literal) => {
            std::str::from_utf8(&literal.0).ok()?.chars().next().map(single)
        }
        _ => None,
    }
}

/// `[:name:]` inside of a class. With `folded` upper and lower are all letters.
pub(super) fn posix(name: &str, folded: bool, unicode: bool) -> Option<ClassUnicode> {
    let name = if folded && matches!(name, "upper" | "lower") { "alpha" } else { name };
    if unicode {
        let unicode = match name {
            "alpha" => Some("L"),
            "lower" => Some("Ll"),
            "upper" => Some("Lu"),
            "alnum" => Some("Xan"),
            "space" => Some("Xps"),
            "digit" => Some("Nd"),
            "word" => Some("Xwd"),
            _ => None,
        };
        if let Some(name) = unicode {
            return property(name);
        }
        match name {
            "blank" => return Some(from_ranges(HORIZONTAL)),
            "graph" => return table(r"[^\p{Z}\p{C}]"),
            "print" => return table(r"[^\p{Zl}\p{Zp}\p{C}]"),
            "punct" => return table(r"[\p{P}$+<=>^`|~]"),
            "cntrl" => return property("Cc"),
            _ => {}
        }
    }
    Some(from_ranges(match name {
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "lower" => &[('a', 'z')],
        "upper" => &[('A', 'Z')],
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "ascii" => &[('\0', '\x7F')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1F'), ('\x7F', '\x7F')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => SPACE,
        "word" => WORD,
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    }))
}
