//! Where fields stand: a run chooses their paths. Texts name them `@p`, `@x` and `@k`.

use crate::random::Random;

/// The paths of a child's fields.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    /// Its parent, several or none.
    pub(crate) p: &'static str,
    /// A number.
    pub(crate) x: &'static str,
    /// What children are grouped by.
    pub(crate) k: &'static str,
}

impl Schema {
    /// Chooses.
    pub(crate) fn new(random: &mut Random) -> Schema {
        let mut one = |paths: [&'static str; 2]| paths[random.below(2) as usize];
        Schema { p: one(["p", "of.p"]), x: one(["x", "v.x"]), k: one(["k", "tag.k"]) }
    }

    /// The text with the paths in place of their names.
    pub(crate) fn text(&self, text: &str) -> String {
        text.replace("@p", self.p).replace("@x", self.x).replace("@k", self.k)
    }

    /// A field of a document, at `path`.
    pub(crate) fn field(path: &str, value: &str) -> String {
        match path.split_once('.') {
            Some((outer, inner)) => format!("{outer}: {{{inner}: {value}}}"),
            None => format!("{path}: {value}"),
        }
    }
}
