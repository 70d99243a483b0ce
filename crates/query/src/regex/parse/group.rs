//! What follows an opening parenthesis: groups, look-around, conditions, calls, options, verbs.

use super::super::syntax::{Node, Test, Verb};
use super::{DEPTH_MAX, Parsed, Parser};

/// What a parenthesis is.
pub(super) enum Item {
    Part(Node),
    /// One that no quantifier may follow.
    Fixed(Node),
    /// Options for what follows, or a callout.
    Nothing,
}

const NOT_EXISTENT: &str = "reference to non-existent subpattern";
const UNRECOGNIZED: &str = "unrecognized character after (? or (?-";
const NAME_EXPECTED: &str = "subpattern name expected";
const NAME_MALFORMED: &str = "syntax error in subpattern name (missing terminator)";
/// Longest name, in bytes.
const NAME_MAX: usize = 32;
/// Highest number of names.
const NAMES_MAX: usize = 10_000;

impl Parser<'_> {
    /// The parenthesis was read.
    pub(super) fn group(&mut self) -> Parsed<Item> {
        if self.byte(0) == Some(b'*')
            && self.byte(1).is_some_and(|b| b == b':' || b.is_ascii_alphabetic())
        {
            self.at += 1;
            return self.verb();
        }
        if !self.eat("?") {
            return self.capturing(None).map(Item::Part);
        }
        let Some(character) = self.next() else { return Err(UNRECOGNIZED) };
        Ok(Item::Part(match character {
            ':' => self.body(false)?,
            '|' => self.body(true)?,
            '>' => Node::Atomic(Box::new(self.body(false)?)),
            '=' => self.look(false, false)?,
            '!' => self.look(false, true)?,
            '<' => match self.byte(0) {
                Some(b'=') => {
                    self.at += 1;
                    self.look(true, false)?
                }
                Some(b'!') => {
                    self.at += 1;
                    self.look(true, true)?
                }
                Some(b) if b == b'_' || b.is_ascii_alphanumeric() => {
                    let name = self.new_name('>')?;
                    self.capturing(Some(&name))?
                }
                _ => return Err("unrecognized character after (?<"),
            },
            '\'' => {
                let name = self.new_name('\'')?;
                self.capturing(Some(&name))?
            }
            'P' => match self.next() {
                Some('<') => {
                    let name = self.new_name('>')?;
                    self.capturing(Some(&name))?
                }
                Some('=') => self.named_reference(')')?,
                Some('>') => self.named_call()?,
                _ => return Err("unrecognized character after (?P"),
            },
            '&' => self.named_call()?,
            'R' => {
                if !self.eat(")") {
                    return Err("(?R or (?[+-]digits must be followed by )");
                }
                Node::Call(0)
            }
            '0'..='9' => {
                self.at -= 1;
                self.numbered_call(None)?
            }
            '+' => self.numbered_call(Some(b'+'))?,
            '-' if self.byte(0).is_some_and(|b| b.is_ascii_digit()) => {
                self.numbered_call(Some(b'-'))?
            }
            '(' => self.condition()?,
            'C' => return self.callout(),
            _ => {
                self.at -= character.len_utf8();
                return self.settings();
            }
        }))
    }

    /// The inside of a group and its closing parenthesis. Options end with it.
    fn body(&mut self, reset: bool) -> Parsed<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("parentheses are too deeply nested");
        }
        let options = self.options;
        let node = self.alternatives(reset)?;
        self.options = options;
        self.depth -= 1;
        if self.eat(")") { Ok(node) } else { Err("missing )") }
    }

    fn look(&mut self, behind: bool, negative: bool) -> Parsed<Node> {
        self.behind += usize::from(behind);
        let node = Box::new(self.body(false)?);
        self.behind -= usize::from(behind);
        Ok(Node::Look { node, behind, negative })
    }

    fn capturing(&mut self, name: Option<&str>) -> Parsed<Node> {
        self.groups.count += 1;
        let number = self.groups.count;
        if let Some(name) = name {
            let mut known = false;
            for (other, at) in &self.groups.names {
                if &**other == name {
                    known |= *at == number;
                    if *at != number && !self.options.duplicate_names {
                        return Err("two named subpatterns have the same name");
                    }
                } else if *at == number {
                    return Err(
                        "different names for subpatterns of the same number are not allowed",
                    );
                }
            }
            if !known {
                if self.groups.names.len() >= NAMES_MAX {
                    return Err("too many named subpatterns (maximum 10000)");
                }
                self.groups.names.push((name.into(), number));
            }
        }
        Ok(Node::Group(number, Box::new(self.body(false)?)))
    }

    /// The name that a group gets, and what ends it.
    fn new_name(&mut self, end: char) -> Parsed<String> {
        self.name(end).map_err(|refusal| match refusal {
            NAME_EXPECTED => NAME_MALFORMED,
            refusal => refusal,
        })
    }

    /// A name and what ends it.
    pub(super) fn name(&mut self, end: char) -> Parsed<String> {
        if self.byte(0).is_some_and(|b| b.is_ascii_digit()) {
            return Err("group name must start with a non-digit");
        }
        let length =
            self.rest().bytes().take_while(|b| *b == b'_' || b.is_ascii_alphanumeric()).count();
        let name = self.rest().get(..length).unwrap_or("").to_owned();
        self.at += length;
        if length > NAME_MAX {
            return Err("subpattern name is too long (maximum 32 characters)");
        }
        if length == 0 {
            return Err(NAME_EXPECTED);
        }
        if self.next() != Some(end) {
            return Err(NAME_MALFORMED);
        }
        Ok(name)
    }

    fn named_call(&mut self) -> Parsed<Node> {
        let name = self.name(')')?;
        let groups = self.named(&name)?;
        Ok(Node::Call(groups.first().copied().unwrap_or(0)))
    }

    fn numbered_call(&mut self, sign: Option<u8>) -> Parsed<Node> {
        let Some(number) = self.number()? else {
            return Err("digit expected after (?+");
        };
        if !self.eat(")") {
            return Err("(?R or (?[+-]digits must be followed by )");
        }
        self.call(sign, number)
    }

    /// A call of a group by its number, which is relative with a sign.
    pub(super) fn call(&mut self, sign: Option<u8>, number: usize) -> Parsed<Node> {
        let number = match sign {
            Some(_) if number == 0 => return Err("a numbered reference must not be zero"),
            Some(b'-') => self.groups.count.checked_sub(number).ok_or(NOT_EXISTENT)? + 1,
            Some(_) => self.groups.count + number,
            None => number,
        };
        Ok(Node::Call(self.numbered(number)?))
    }

    /// `(?C)`, `(?C1)`: nothing is called.
    fn callout(&mut self) -> Parsed<Item> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let number = self.rest().get(..digits).unwrap_or("");
        if digits > 0 && number.parse::<u32>().map_or(true, |number| number > 255) {
            return Err("number after (?C is > 255");
        }
        self.at += digits;
        if self.eat(")") { Ok(Item::Nothing) } else { Err("closing ) for (?C expected") }
    }

    /// `(?i)`, `(?i-m:...)`
    fn settings(&mut self) -> Parsed<Item> {
        let mut options = self.options;
        let mut on = true;
        loop {
            let place = match self.next() {
                Some('-') => {
                    on = false;
                    continue;
                }
                Some('i') => &mut options.folded,
                Some('m') => &mut options.multiline,
                Some('s') => &mut options.dot_all,
                Some('x') => &mut options.extended,
                Some('U') => &mut options.ungreedy,
                Some('J') => &mut options.duplicate_names,
                // Refuses unknown escapes, of which there are none here.
                Some('X') => continue,
                Some(')') => {
                    self.options = options;
                    return Ok(Item::Nothing);
                }
                Some(':') => {
                    let outside = std::mem::replace(&mut self.options, options);
                    let node = self.body(false)?;
                    self.options = outside;
                    return Ok(Item::Part(node));
                }
                _ => return Err(UNRECOGNIZED),
            };
            *place = on;
        }
    }

    /// After `(?(`.
    fn condition(&mut self) -> Parsed<Node> {
        let test = self.test()?;
        let define = matches!(test, Test::Never);
        let (yes, no) = match self.body(false)? {
            Node::Alt(parts) => {
                let mut parts = parts.into_iter();
                match (parts.next(), parts.next(), parts.next()) {
                    _ if define => return Err("DEFINE group contains more than one branch"),
                    (Some(yes), Some(no), None) => (yes, Some(Box::new(no))),
                    _ => return Err("conditional group contains more than two branches"),
                }
            }
            yes => (yes, None),
        };
        Ok(Node::Condition { test, yes: Box::new(yes), no })
    }

    fn test(&mut self) -> Parsed<Test> {
        const EXPECTED: &str = "assertion expected after (?( or (?(?C)";
        const MALFORMED: &str = "malformed number or name after (?(";
        if self.byte(0) == Some(b'?') {
            if self.eat("?C") {
                self.callout().map_err(|_| EXPECTED)?;
                if !self.eat("(") || self.byte(0) != Some(b'?') {
                    return Err(EXPECTED);
                }
            }
            let start = self.at;
            self.at += 1;
            let (behind, sign) = match (self.next(), self.byte(0)) {
                (Some('<'), Some(sign @ (b'=' | b'!'))) => {
                    self.at += 1;
                    (true, sign)
                }
                (Some('='), _) => (false, b'='),
                (Some('!'), _) => (false, b'!'),
                _ => {
                    self.at = start;
                    return Err(EXPECTED);
                }
            };
            return match self.look(behind, sign == b'!')? {
                Node::Look { node, behind, negative } => Ok(Test::Look { node, behind, negative }),
                _ => Err(EXPECTED),
            };
        }
        if self.rest().starts_with("R&") {
            self.at += 2;
            let name = self.name(')')?;
            return Ok(Test::RecursionOf(self.named(&name)?));
        }
        for (open, end) in [("<", '>'), ("'", '\'')] {
            if self.eat(open) {
                let name = self.name(end).map_err(|refusal| match refusal {
                    NAME_EXPECTED => EXPECTED,
                    NAME_MALFORMED => MALFORMED,
                    refusal => refusal,
                })?;
                let groups = self.named(&name)?;
                return if self.eat(")") { Ok(Test::Group(groups)) } else { Err(MALFORMED) };
            }
        }
        let sign = self.byte(0).filter(|b| matches!(b, b'+' | b'-'));
        self.at += usize::from(sign.is_some());
        if let Some(number) = self.number()? {
            if !self.eat(")") {
                return Err(MALFORMED);
            }
            let number = match sign {
                None if number == 0 => return Err("invalid condition (?(0)"),
                Some(_) if number == 0 => return Err("invalid condition (?(0)"),
                Some(b'-') => self.groups.count.checked_sub(number).ok_or(NOT_EXISTENT)? + 1,
                Some(_) => self.groups.count + number,
                None => number,
            };
            return Ok(Test::Group(vec![self.numbered(number)?]));
        }
        if sign.is_some() {
            return Err(MALFORMED);
        }
        let length =
            self.rest().bytes().take_while(|b| *b == b'_' || b.is_ascii_alphanumeric()).count();
        let word = self.rest().get(..length).unwrap_or("").to_owned();
        if length == 0 {
            return Err(EXPECTED);
        }
        self.at += length;
        if !self.eat(")") {
            return Err(MALFORMED);
        }
        self.worded(&word)
    }

    /// The test that a word without brackets is: a group of that name, `R`, `R1` or `DEFINE`.
    fn worded(&mut self, word: &str) -> Parsed<Test> {
        self.needs_all = true;
        if self.all.as_ref().is_none_or(|all| all.names.iter().any(|name| &*name.0 == word)) {
            return self.named(word).map(Test::Group);
        }
        match word.strip_prefix('R') {
            Some("") => Ok(Test::Recursion),
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                let number = digits.parse().map_err(|_| "number is too big")?;
                Ok(Test::RecursionOf(vec![self.numbered(number)?]))
            }
            _ if word == "DEFINE" => Ok(Test::Never),
            _ => Err(NOT_EXISTENT),
        }
    }

    /// After `(*`.
    fn verb(&mut self) -> Parsed<Item> {
        const MALFORMED: &str = "(*VERB) not recognized or malformed";
        let length = self.rest().bytes().take_while(u8::is_ascii_alphabetic).count();
        let word = self.rest().get(..length).unwrap_or("").to_owned();
        self.at += length;
        let mut argument = None;
        if self.eat(":") {
            let length = self.rest().find(')').ok_or(MALFORMED)?;
            argument = Some(self.rest().get(..length).unwrap_or("").to_owned());
            self.at += length;
        }
        if !self.eat(")") {
            return Err(MALFORMED);
        }
        let argument = argument.filter(|argument| !argument.is_empty());
        if argument.as_ref().is_some_and(|argument| argument.len() > 255) {
            return Err("name is too long in (*MARK), (*PRUNE), (*SKIP), or (*THEN)");
        }
        let verb = match (&*word, argument) {
            ("ACCEPT", _) => Verb::Accept,
            ("COMMIT", _) => Verb::Commit,
            ("F" | "FAIL", _) => Verb::Fail,
            ("MARK" | "", Some(name)) => Verb::Mark(name.into()),
            ("MARK" | "", None) => return Err("(*MARK) must have an argument"),
            ("PRUNE", _) => Verb::Prune,
            ("SKIP", Some(name)) => Verb::SkipTo(name.into()),
            ("SKIP", None) => Verb::Skip,
            ("THEN", _) => Verb::Then,
            _ => return Err(MALFORMED),
        };
        Ok(Item::Fixed(Node::Verb(verb)))
    }
}
