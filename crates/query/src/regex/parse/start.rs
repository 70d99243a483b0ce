//! Options at the start of a pattern: `(*UCP)`, `(*LIMIT_MATCH=n)`, `(*CRLF)` and others.

use super::super::syntax::Lines;

/// The options, and the pattern behind them.
pub(super) struct Start<'p> {
    pub(super) rest: &'p str,
    pub(super) unicode: bool,
    pub(super) lines: Lines,
    pub(super) newline_is_ascii: bool,
    pub(super) optimised: bool,
    pub(super) limit: Option<u32>,
}

/// Reads the options. What is none of them remains, and is a verb of the pattern.
pub(super) fn read(pattern: &str) -> Start<'_> {
    let mut start = Start {
        rest: pattern,
        unicode: false,
        lines: Lines::default(),
        newline_is_ascii: false,
        optimised: true,
        limit: None,
    };
    while let Some((name, rest)) =
        start.rest.strip_prefix("(*").and_then(|after| after.split_once(')'))
    {
        match name {
            // Texts are UTF-8 anyway; the others change the way of the search, not its result.
            "UTF8" | "UTF" | "NO_AUTO_POSSESS" | "NO_DOTSTAR_ANCHOR" | "NO_JIT" => {}
            "UCP" => start.unicode = true,
            "NO_START_OPT" => start.optimised = false,
            "CR" => start.lines = Lines::Cr,
            "LF" => start.lines = Lines::Lf,
            "CRLF" => start.lines = Lines::CrLf,
            "ANYCRLF" => start.lines = Lines::AnyCrLf,
            "ANY" => start.lines = Lines::Any,
            "BSR_ANYCRLF" => start.newline_is_ascii = true,
            "BSR_UNICODE" => start.newline_is_ascii = false,
            name => match name.split_once('=').map(|(name, number)| (name, number.parse())) {
                // The lowest of several counts.
                Some(("LIMIT_MATCH", Ok(limit))) => {
                    start.limit = Some(start.limit.map_or(limit, |before| before.min(limit)));
                }
                Some(("LIMIT_RECURSION" | "LIMIT_DEPTH" | "LIMIT_HEAP", Ok(_))) => {}
                _ => break,
            },
        }
        start.rest = rest;
    }
    start
}
