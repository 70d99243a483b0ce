//! Tests of regular expressions.

use super::*;

#[test]
fn damaged_text_neither_fails_nor_panics() {
    for pattern in ["", "a*", "é", "^.*$", r"\b", "a$", "(?=a)", r"(a)\1", "(?i)ß"] {
        let regex = Regex::new(pattern, "").unwrap();
        for text in [&b"\xff"[..], b"a\xc3", b"\xe2\x82a\n", b"\xf0\x9f\x92\n"] {
            regex.is_match_bytes(text).unwrap();
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
    assert_eq!(regex.captures_at("xa", 0).unwrap(), Some(vec![Some((1, 2)), Some((1, 2)), None]));
    assert_eq!(regex.captures_at("a", 1).unwrap(), None);
    assert_eq!(regex.group_count(), 2);
}

/// The whole match and the groups of the first match, as texts.
fn found(pattern: &str, text: &str) -> Option<Vec<Option<String>>> {
    let groups = Regex::new(pattern, "").unwrap().captures_at(text, 0).unwrap()?;
    let cut = |group: Option<(usize, usize)>| {
        group.map(|(from, to)| text.get(from..to).unwrap_or("?").to_owned())
    };
    Some(groups.into_iter().map(cut).collect())
}

fn whole(pattern: &str, text: &str) -> Option<String> {
    found(pattern, text).and_then(|groups| groups.into_iter().next().flatten())
}

#[test]
fn calls_and_recursion() {
    let balanced = r"\((?:[^()]++|(?R))*\)";
    assert_eq!(whole(balanced, "x(a(b)c)(d").as_deref(), Some("(a(b)c)"));
    assert!(is_match(r"^(?<q>['\x22]).*?(?P=q),(?&n)(?(DEFINE)(?<n>\d+))$", "", "'a',12"));
    assert!(is_match(r"^(a|b)\g<1>\g'-1'(?+1)(c)$", "", "abacc"));
    // A subroutine can be backtracked into, as in PCRE2.
    assert!(is_match(r"^((.)(?1)\2|.?)$", "", "abcba"));
    assert!(is_match(r"^(.|(.)(?1)\2)$", "", "abcba"));
    assert!(is_match(r"^(a+|b)(?1)ab$", "", "aaaab"));
    // The groups of a subroutine are those of its caller afterwards.
    let groups = found(r"(a|(b))(?1)", "ab").unwrap();
    assert_eq!(groups, [Some("ab".into()), Some("a".into()), None]);
    let endless = Regex::new(r"(?R)?a", "").unwrap();
    assert_eq!(endless.is_match("a").unwrap_err().code(), TOO_MANY_STEPS);
}

#[test]
fn conditions() {
    for (pattern, matching, other) in [
        (r"^(a)?(?(1)b|c)$", "ab", "ac"),
        (r"^(?<x>a)?(?(<x>)b|c)$", "c", "b"),
        (r"^(?:(?=\d)\d|x)(?(?=b)bc|d)$", "1bc", "1bd"),
        (r"^(?(?!a)b|ac)$", "b", "ab"),
        (r"^(?(?<=a)b|c)$", "c", "b"),
        (r"^((?(R)a|b)(?1)?)$", "ba", "bb"),
        (r"^((?(R1)a|b)(?1)?)$", "ba", "bb"),
    ] {
        assert!(is_match(pattern, "", matching), "{pattern}");
        assert!(!is_match(pattern, "", other), "{pattern}");
    }
}

#[test]
fn verbs() {
    assert_eq!(whole("a(*ACCEPT)b", "xac").as_deref(), Some("a"));
    assert_eq!(found("(a(*ACCEPT)b)c", "ax").unwrap(), [Some("a".into()), Some("a".into())]);
    assert_eq!(whole("a+(*COMMIT)b", "aac aab"), None);
    assert_eq!(whole("(*COMMIT)b", "ab").as_deref(), Some("b"));
    assert_eq!(whole("(*NO_START_OPT)(*COMMIT)b", "ab"), None);
    assert_eq!(whole("a+(*PRUNE)b|.", "aab").as_deref(), Some("aab"));
    assert_eq!(whole("a+(*PRUNE)c|a", "aac").as_deref(), Some("aac"));
    assert_eq!(whole("a+(*PRUNE)x|a", "aac"), None);
    assert_eq!(whole("a+(*SKIP)b|.", "aac").as_deref(), Some("c"));
    assert_eq!(whole("a(*MARK:m)a(*SKIP:m)b|.", "aac").as_deref(), Some("a"));
    assert_eq!(whole("^(?:a(*THEN)x|ab)", "ab").as_deref(), Some("ab"));
    assert_eq!(whole("^.*?(?:a(*THEN)b)c", "abd abc"), None);
    assert_eq!(whole("(?!a(*COMMIT)b)ac|ab", "ab").as_deref(), Some("ab"));
    assert_eq!(whole("a(*F)|b", "ab").as_deref(), Some("b"));
}

#[test]
fn other_syntax() {
    for (pattern, text, expected) in [
        (r"(?|(a)|(b))\1", "bb", "bb"),
        (r"(?C)a(?C1)b(?#c)c", "abc", "abc"),
        (r"foo\Kbar", "foobar", "bar"),
        (r"a\R", "a\r\n", "a\r\n"),
        (r"^\X", "e\u{301}x", "e\u{301}"),
        (r"\X", "🏳\u{FE0F}\u{200D}🌈a", "🏳\u{FE0F}\u{200D}🌈"),
        (r"\p{Xan}+\p{Xsp}\p{Xwd}", "-é1 _", "é1 _"),
        (r"(?J)(?:(?<n>a)|(?<n>b))\k{n}", "bb", "bb"),
        (r"(?U)a+", "aaa", "a"),
        (r"(?x) a [ ] # b", "a ", "a "),
        (r"(*UCP)\w+", "-é", "é"),
        (r"(*CRLF)a.b", "a\nb", "a\nb"),
        (r"(*ANYCRLF)(?m)^b", "a\rb", "b"),
        (r"(*LIMIT_MATCH=100)ab", "ab", "ab"),
        (r"\x41\o{102}\103\cA\N{U+44}", "ABC\x01D", "ABC\x01D"),
        (r"[[:<:]]b", "a b", "b"),
        (r"(a|b\1)+", "abaa", "abaa"),
    ] {
        assert_eq!(whole(pattern, text).as_deref(), Some(expected), "{pattern}");
    }
    assert_eq!(whole(r"\R\n", "\r\n"), None, "\\R is atomic");
    assert_eq!(whole("(?m)^$", "a\n"), None, "no line begins after the last newline");
    assert_eq!(found("(a*)+", "aa").unwrap(), [Some("aa".into()), Some(String::new())]);
}

#[test]
fn reasons_are_those_of_pcre() {
    for (pattern, reason) in [
        ("(", "missing )"),
        ("a)", "unmatched parentheses"),
        ("[b-a]", "range out of order in character class"),
        ("(?<=a*)b", "lookbehind assertion is not fixed length"),
        ("(?<=(?:a|bc))d", "lookbehind assertion is not fixed length"),
        ("(?1)", "reference to non-existent subpattern"),
        ("(*FOO)", "(*VERB) not recognized or malformed"),
        ("(?(R)a|b|c)", "conditional group contains more than two branches"),
        ("(?<n>a)(?<n>b)", "two named subpatterns have the same name"),
        (r"\x{110000}", r"character value in \x{} or \o{} is too large"),
        ("(abc){9000}", "regular expression is too large"),
        ("a{70000}", "number too big in {} quantifier"),
    ] {
        let error = Regex::new(pattern, "").unwrap_err();
        assert_eq!(Regex::refusal(&error), reason, "{pattern}");
    }
    let nested = |depth: usize| format!("{}{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Regex::new(&nested(250), "").is_ok());
    assert!(Regex::new(&nested(251), "").is_err());
    assert!(Regex::new(&"x".repeat(32_761), "").is_ok());
    assert!(Regex::new(&"x".repeat(32_762), "").is_err());
    assert!(Regex::in_expression(&"x".repeat(32_764), "").is_ok());
    assert!(Regex::in_expression(&"x".repeat(32_765), "").is_err());
}

#[test]
fn hostile_patterns_end() {
    let text = format!("{}b", "a".repeat(5000));
    for pattern in
        [r"^(a+)+\1$", r"^(?=(a|aa)+$)", r"((a*)*)*\1c", r"(?>a*)*(?1)(c)", r"^(a?(?1)?)b\1c"]
    {
        let found = Regex::new(pattern, "").unwrap().is_match(&text);
        assert!(found.map_or_else(|e| e.code() == TOO_MANY_STEPS, |found| !found), "{pattern}");
    }
}

#[test]
fn searches_in_steps_find_the_same() {
    let texts =
        ["", "a", "ab\ncab", "xaab1 \u{e9}2b\n", "aaab, 12-34 foo_bar\n\nz", "\u{1f600}a\u{e9}b"];
    let patterns = [
        "a",
        "a*",
        "(a|ab)(c|bcd)?",
        "^a",
        "b$",
        "(?m)^[a-z]+$",
        r"\b\w+\b",
        r"\d+?",
        r"(\d)-(\d)?",
        "(?i)FOO",
        "[^a]",
        r"\Aa+",
        r"o\b",
        "(?s).+",
        "a{2,3}?b",
        "",
        "(?:a|b)*z",
        r"\s\S",
    ];
    for pattern in patterns {
        let regex = Regex::new(pattern, "").unwrap();
        let Engine::Linear(linear) = &regex.engine else { panic!("{pattern} is not linear") };
        let stepped = Stepped::new(&linear.source).unwrap();
        for text in texts {
            for start in (0..=text.len()).filter(|start| text.is_char_boundary(*start)) {
                let one = groups_of(&linear.regex, &Input::new(text).range(start..));
                let two = regex.captures_in_steps(linear, &stepped, text, start).unwrap();
                assert_eq!(two, one, "{pattern} in {text:?} from {start}");
                let any = stepped.end(text.as_bytes(), start, true).unwrap();
                assert_eq!(any.is_some(), one.is_some(), "{pattern} in {text:?} from {start}");
            }
        }
    }
}
