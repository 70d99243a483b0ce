//! Random regular expressions in PCRE's language, and texts for them.
//!
//! Left out is what MongoDB 6.0 (PCRE 8) and later versions (PCRE2) answer differently: calls that
//! can be backtracked into, references from inside of the group that they name, classes that mix
//! negated types with properties.

use super::random::Random;

/// `$regexFindAll`, `$regexFind` or `$regexMatch` of a random pattern on a random text.
pub fn expression(random: &mut Random) -> String {
    let operator = random.pick(&["$regexFindAll", "$regexFindAll", "$regexFind", "$regexMatch"]);
    let options = random.pick(&["", "", "i", "m", "s", "x", "im", "ms"]);
    format!(
        "{{{operator}: {{input: {{$literal: {}}}, regex: {{$literal: {}}}, options: \"{options}\"}}}}",
        quoted(&text(random)),
        quoted(&pattern(random))
    )
}

/// A pattern as a string.
pub fn pattern_string(random: &mut Random) -> String {
    quoted(&pattern(random))
}

/// A text in quotation marks.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            character => out.push(character),
        }
    }
    out.push('"');
    out
}

fn text(random: &mut Random) -> String {
    let mut out = String::new();
    for _ in 0..random.below(11) {
        out.push_str(random.pick(&[
            "a", "b", "c", "ab", "A", "B", "\n", "\r\n", "é", "É", "k", "K", "\u{212A}", "s", "ſ",
            " ", "_", "1", "-", "aa", "ß", "ς", "Σ",
        ]));
    }
    if random.chance(30) {
        out.push('\n');
    }
    out
}

/// A pattern; every twelfth is damaged, and mostly refused.
fn pattern(random: &mut Random) -> String {
    let start = random.pick(&[
        "",
        "",
        "",
        "",
        "",
        "(*UCP)",
        "(*CRLF)",
        "(*ANYCRLF)",
        "(*ANY)",
        "(*BSR_ANYCRLF)",
        "(*NO_START_OPT)",
        "(*LIMIT_MATCH=100000)",
    ]);
    let mut maker = Maker { random, opened: 0, closed: Vec::new() };
    let mut pattern = format!("{start}{}", maker.alternatives(3));
    if random.chance(8) {
        let places: Vec<usize> = pattern.char_indices().map(|(at, _)| at).collect();
        let at = places.get(random.below(places.len().max(1))).copied().unwrap_or(0);
        let damage = [
            "(", ")", "[", "]", "{2}", "*", "\\", "(?", "(?<", "(?(", "\\g", "\\x{", "[[:", "(*",
            "+", "(?<n>", "{3,1}", "\\p{",
        ];
        pattern.insert_str(at, random.pick(&damage));
    }
    pattern
}

struct Maker<'r> {
    random: &'r mut Random,
    opened: usize,
    /// The numbers of the groups that are closed, which can be referred to.
    closed: Vec<usize>,
}

impl Maker<'_> {
    fn alternatives(&mut self, depth: usize) -> String {
        let count = [1, 1, 1, 2, 2, 3][self.random.below(6)];
        (0..count).map(|_| self.sequence(depth)).collect::<Vec<_>>().join("|")
    }

    fn sequence(&mut self, depth: usize) -> String {
        let count = self.random.below(4);
        (0..=count).map(|_| self.part(depth)).collect()
    }

    fn part(&mut self, depth: usize) -> String {
        let (part, repeatable) = self.atom(depth);
        if !repeatable || !self.random.chance(35) {
            return part;
        }
        let times =
            self.random.pick(&["*", "+", "?", "*", "+", "?", "{2}", "{1,2}", "{0,2}", "{1,}"]);
        format!("{part}{times}{}", self.random.pick(&["", "", "", "?", "+"]))
    }

    /// A part, and whether a quantifier may follow it.
    fn atom(&mut self, depth: usize) -> (String, bool) {
        let Some(below) = depth.checked_sub(1).filter(|_| self.random.chance(60)) else {
            return (self.leaf(), true);
        };
        match self.random.below(20) {
            0..=2 => (format!("(?:{})", self.alternatives(below)), true),
            3..=6 => (self.group(below), true),
            7 => {
                let kind = self.random.pick(&["(?=", "(?!", "(?>"]);
                (format!("{kind}{})", self.alternatives(below)), true)
            }
            8 => {
                let look = self.random.pick(&["(?<=", "(?<!"]);
                let body =
                    self.random.pick(&["a", "ab", "a|bc", ".", r"\w", "a{2}", "[ab]c", "^a", ""]);
                (format!("{look}{body})"), true)
            }
            9 | 10 => match self.closed.len() {
                0 => (self.leaf(), true),
                count => {
                    let group = self.closed[self.random.below(count)];
                    let back = self.opened - group + 1;
                    let part = match self.random.below(4) {
                        0 => format!(r"\{group}"),
                        1 => format!(r"\g{{-{back}}}"),
                        2 => format!(r"\g{{{group}}}"),
                        _ => format!("(?>(?{group}))"),
                    };
                    (part, true)
                }
            },
            11 | 12 => {
                let test = match self.closed.len() {
                    0 => self.random.pick(&["?=a", "?!b", "?<=a", "R"]).to_owned(),
                    count => self.closed[self.random.below(count)].to_string(),
                };
                let (yes, no) = (self.sequence(below), self.sequence(below));
                (format!("(?({test}){yes}|{no})"), true)
            }
            13 => {
                let first = self.opened;
                let one = self.group(below);
                let after = std::mem::replace(&mut self.opened, first);
                // The groups of the one are not opened yet in the other.
                self.closed.retain(|group| *group <= first);
                let other = self.group(below);
                self.opened = self.opened.max(after);
                (format!("(?|{one}|{other})"), true)
            }
            14 => {
                let verbs = [
                    "(*F)",
                    "(*ACCEPT)",
                    "(*COMMIT)",
                    "(*PRUNE)",
                    "(*SKIP)",
                    "(*THEN)",
                    "(*MARK:m)",
                    "(*SKIP:m)",
                ];
                (self.random.pick(&verbs).to_owned(), false)
            }
            15 => {
                let settings =
                    ["(?i)", "(?-i)", "(?s)", "(?m)", "(?U)", "(?#c)", "(?C)", "(?x: a #b\n)"];
                (self.random.pick(&settings).to_owned(), false)
            }
            _ => {
                (self.random.pick(&["^", "$", r"\b", r"\B", r"\A", r"\Z", r"\z"]).to_owned(), false)
            }
        }
    }

    fn group(&mut self, depth: usize) -> String {
        self.opened += 1;
        let number = self.opened;
        let inside = self.alternatives(depth);
        self.closed.push(number);
        format!("({inside})")
    }

    fn leaf(&mut self) -> String {
        let leaf = match self.random.below(10) {
            0..=4 => self.random.pick(&["a", "b", "c", "A", "é", "k", "s", "_", "1", " ", r"\n"]),
            5 => ".",
            6 | 7 => self.random.pick(&[
                "[ab]",
                "[^a]",
                "[a-c]",
                r"[\d_]",
                "[^é]",
                "[[:alpha:]]",
                "[[:^upper:]b]",
                r"[\w-]",
                "[k-s]",
                "[]a]",
                r"[\p{Lu}1]",
            ]),
            _ => self.random.pick(&[
                r"\d", r"\w", r"\W", r"\s", r"\S", r"\h", r"\N", r"\R", r"\x{e9}", r"\Qa.b\E",
                r"\p{L}", r"\P{L}", r"\p{Xan}", r"\101",
            ]),
        };
        leaf.to_owned()
    }
}
