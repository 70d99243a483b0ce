//! `\X`: extended grapheme clusters, as annex 29 of Unicode defines them.

use super::set::{Set, table};
use super::text::char_at;
use std::sync::OnceLock;

/// How a character behaves at the boundaries of clusters.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Other,
    Cr,
    Lf,
    Control,
    Extend,
    Joiner,
    Regional,
    Prepend,
    SpacingMark,
    HangulL,
    HangulV,
    HangulT,
    HangulLv,
    HangulLvt,
}

const NAMES: &[(&str, Kind)] = &[
    ("Control", Kind::Control),
    ("Extend", Kind::Extend),
    ("ZWJ", Kind::Joiner),
    ("Regional_Indicator", Kind::Regional),
    ("Prepend", Kind::Prepend),
    ("SpacingMark", Kind::SpacingMark),
    ("L", Kind::HangulL),
    ("V", Kind::HangulV),
    ("T", Kind::HangulT),
    ("LV", Kind::HangulLv),
    ("LVT", Kind::HangulLvt),
];

fn kinds() -> &'static [(Set, Kind)] {
    static KINDS: OnceLock<Vec<(Set, Kind)>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let set = |(name, kind): &(&str, Kind)| {
            Some((Set::of(&table(&format!(r"\p{{gcb={name}}}"))?), *kind))
        };
        NAMES.iter().filter_map(set).collect()
    })
}

fn is_pictographic(character: char) -> bool {
    static PICTOGRAPHIC: OnceLock<Option<Set>> = OnceLock::new();
    let set = PICTOGRAPHIC.get_or_init(|| Some(Set::of(&table(r"\p{Extended_Pictographic}")?)));
    set.as_ref().is_some_and(|set| set.has(character))
}

fn kind(character: char) -> Kind {
    match character {
        '\r' => Kind::Cr,
        '\n' => Kind::Lf,
        ' '..='~' => Kind::Other,
        character => {
            kinds().iter().find(|known| known.0.has(character)).map_or(Kind::Other, |known| known.1)
        }
    }
}

/// The end of the cluster at a position, which is the position at the end of the text.
pub(super) fn end(text: &str, at: usize) -> usize {
    let Some(first) = char_at(text, at) else { return at };
    let mut place = at + first.len_utf8();
    let mut before = kind(first);
    // Whether what precedes is a pictograph with extensions, and whether a joiner follows it.
    let (mut pictograph, mut joined) = (is_pictographic(first), false);
    let mut regionals = usize::from(before == Kind::Regional);
    while let Some(next) = char_at(text, place) {
        let after = kind(next);
        let together = match (before, after) {
            (Kind::Cr, Kind::Lf) => true,
            (Kind::Cr | Kind::Lf | Kind::Control, _) => false,
            (_, Kind::Cr | Kind::Lf | Kind::Control) => false,
            (_, Kind::Extend | Kind::Joiner | Kind::SpacingMark) | (Kind::Prepend, _) => true,
            (Kind::HangulL, Kind::HangulL | Kind::HangulV | Kind::HangulLv | Kind::HangulLvt) => {
                true
            }
            (Kind::HangulLv | Kind::HangulV, Kind::HangulV | Kind::HangulT) => true,
            (Kind::HangulLvt | Kind::HangulT, Kind::HangulT) => true,
            (Kind::Regional, Kind::Regional) => regionals % 2 == 1,
            (Kind::Joiner, _) => joined && is_pictographic(next),
            _ => false,
        };
        if !together {
            break;
        }
        regionals = if after == Kind::Regional { regionals + 1 } else { 0 };
        joined = pictograph && after == Kind::Joiner;
        pictograph = is_pictographic(next) || (pictograph && after == Kind::Extend);
        before = after;
        place += next.len_utf8();
    }
    place
}
