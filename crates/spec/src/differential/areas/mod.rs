//! Areas of the language with data and commands of their own, for which the general generators are
//! too unspecific: arrays in arrays under indexes, positions, `$merge`, windows, collations, shapes,
//! text searches.

mod arrays;
mod collations;
mod merging;
mod positions;
mod shapes;
mod windows;
mod words;

use super::random::Random;
use super::{filters, pipelines, updates, values};

/// Data and commands that belong together.
pub struct Area {
    /// The name, for `--area`.
    pub name: &'static str,
    /// Commands that prepare an empty collection `c`, such as the creation of indexes.
    pub setup: fn(&mut Random) -> Vec<String>,
    /// The fields of a document, without `_id`.
    pub fields: fn(&mut Random) -> String,
    /// A command.
    pub command: fn(&mut Random) -> String,
}

/// All areas, the general one first.
pub static AREAS: &[Area] = &[
    Area { name: "general", setup: |_| Vec::new(), fields: values::fields, command: general },
    Area { name: "arrays", setup: arrays::setup, fields: arrays::fields, command: arrays::command },
    Area {
        name: "collations",
        setup: collations::setup,
        fields: collations::fields,
        command: collations::command,
    },
    Area {
        name: "merge",
        setup: merging::setup,
        fields: merging::fields,
        command: merging::command,
    },
    Area {
        name: "positions",
        setup: |_| Vec::new(),
        fields: positions::fields,
        command: positions::command,
    },
    Area {
        name: "windows",
        setup: |_| Vec::new(),
        fields: windows::fields,
        command: windows::command,
    },
    Area { name: "shapes", setup: shapes::setup, fields: shapes::fields, command: shapes::command },
    Area { name: "words", setup: words::setup, fields: words::fields, command: words::command },
];

fn general(random: &mut Random) -> String {
    if !random.chance(12) {
        return pipelines::command(random);
    }
    let query = if random.chance(70) {
        format!("{{_id: {}}}", random.below(12))
    } else {
        format!("{{$and: [{{_id: {}}}, {}]}}", random.below(4), filters::filter(random, 1))
    };
    format!("{{update: \"c\", updates: [{{q: {query}, u: {}}}]}}", updates::update(random))
}
