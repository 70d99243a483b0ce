//! Documents as trees, and random changes of them.

use std::sync::LazyLock;
use value::writer::write_array;
use value::{DocBuf, OwnedVal, RawDoc, Val, ejson};

/// Numbers that depend on a seed alone.
pub struct Dice(fastrand::Rng);

impl Dice {
    /// Dice for one mutation.
    #[must_use]
    pub fn new(seed: u32) -> Dice {
        Dice(fastrand::Rng::with_seed(u64::from(seed)))
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit.max(1))
    }

    fn one<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// A value as a tree.
#[derive(Clone)]
pub enum Tree {
    /// A document.
    Document(Vec<(String, Tree)>),
    /// An array.
    Array(Vec<Tree>),
    /// Anything else.
    Leaf(OwnedVal),
}

/// Values at the edges of their types.
static LEAVES: LazyLock<Vec<Tree>> = LazyLock::new(|| {
    let texts = [
        "null",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "2",
        "7",
        "100",
        "2147483647",
        "-2147483648",
        "NumberLong('9223372036854775807')",
        "NumberLong('-9223372036854775808')",
        "NumberLong(3)",
        "0.5",
        "-0.0",
        "1e308",
        "{$numberDouble: 'NaN'}",
        "{$numberDouble: '-Infinity'}",
        "NumberDecimal('9.9E+6144')",
        "NumberDecimal('NaN')",
        "NumberDecimal('-1E-6176')",
        "NumberDecimal('1.5')",
        "''",
        "'x'",
        "'a b'",
        "'$a'",
        "'$b.c'",
        "'$$ROOT'",
        "'$$NOW'",
        "'$$this'",
        "'$$value'",
        "'$$REMOVE'",
        "'$list.x'",
        "'$_id'",
        "'day'",
        "'%Y-%m-%d'",
        "'UTC'",
        "'Europe/Berlin'",
        "'h\u{e9}\u{1F600}'",
        "'((('",
        "'int'",
        "[]",
        "{}",
        "[1, 2, 3]",
        "['$a', '$b']",
        "[[1, 2], [3, null]]",
        "[{k: 'a', v: 1}]",
        "{a: 1}",
        "{type: 'Point', coordinates: [1, 2]}",
        "{$date: {$numberLong: '0'}}",
        "{$date: {$numberLong: '9223372036854775807'}}",
        "{$timestamp: {t: 4294967295, i: 1}}",
        "ObjectId('64b7f0a1c2d3e4f5a6b7c8d9')",
        "/x+(y|z)*/i",
        "{$minKey: 1}",
        "{$maxKey: 1}",
        "BinData(0, 'AAEC')",
    ];
    let tree = |text: &&str| Tree::of_value(ejson::parse_value(text).expect("a value").get());
    texts.iter().map(tree).collect()
});

/// Names of operators, stages, commands, and of fields that the documents of the bed have.
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut names: Vec<String> = motifdb::registry()
        .iter()
        .filter(|entry| entry.kind != "command")
        .map(|entry| entry.name.to_owned())
        .collect();
    let fields = ["_id", "a", "b", "b.c", "list", "list.x", "list.0", "place", "words", "when", ""];
    let options = [
        "$[]",
        "$",
        "$[e]",
        "input",
        "in",
        "as",
        "cond",
        "vars",
        "from",
        "let",
        "pipeline",
        "localField",
        "foreignField",
        "startWith",
        "connectFromField",
        "connectToField",
        "sortBy",
        "output",
        "partitionBy",
        "window",
        "n",
        "date",
        "unit",
        "format",
        "timezone",
        "$options",
        "collation",
        "locale",
        "hint",
        "limit",
        "skip",
        "sort",
        "query",
        "filter",
        "let",
    ];
    names.extend(fields.into_iter().chain(options).map(str::to_owned));
    names
});

impl Tree {
    /// A document as a tree.
    #[must_use]
    pub fn of(doc: RawDoc<'_>) -> Tree {
        Tree::of_value(Val::Document(doc))
    }

    fn of_value(value: Val<'_>) -> Tree {
        match value {
            Val::Document(doc) => Tree::Document(
                doc.iter()
                    .map(|(name, value)| (name.to_owned(), Tree::of_value(value.get())))
                    .collect(),
            ),
            Val::Array(list) => {
                Tree::Array(list.iter().map(|(_, value)| Tree::of_value(value.get())).collect())
            }
            other => Tree::Leaf(OwnedVal::new(other)),
        }
    }

    /// The tree as a document; anything else becomes the empty one.
    #[must_use]
    pub fn document(&self) -> DocBuf {
        match self.value().get() {
            Val::Document(doc) => DocBuf::from_bytes(doc.bytes().to_vec()),
            _ => DocBuf::new(),
        }
    }

    fn value(&self) -> OwnedVal {
        match self {
            Tree::Leaf(value) => value.clone(),
            Tree::Document(fields) => {
                let doc = DocBuf::build(|out| {
                    for (name, value) in fields {
                        out.append(name, value.value().get());
                    }
                });
                OwnedVal::new(Val::Document(doc.as_doc()))
            }
            Tree::Array(list) => {
                let mut bytes = Vec::new();
                write_array(&mut bytes, |out| {
                    list.iter().for_each(|item| out.push(item.value().get()));
                });
                OwnedVal::new(Val::Array(RawDoc::new(&bytes)))
            }
        }
    }

    fn size(&self) -> usize {
        1 + match self {
            Tree::Leaf(_) => 0,
            Tree::Document(fields) => fields.iter().map(|(_, tree)| tree.size()).sum(),
            Tree::Array(list) => list.iter().map(Tree::size).sum(),
        }
    }

    /// The node at a place, counted from the root down.
    fn at(&mut self, place: &mut usize) -> Option<&mut Tree> {
        if *place == 0 {
            return Some(self);
        }
        *place -= 1;
        match self {
            Tree::Leaf(_) => None,
            Tree::Document(fields) => fields.iter_mut().find_map(|(_, tree)| tree.at(place)),
            Tree::Array(list) => list.iter_mut().find_map(|tree| tree.at(place)),
        }
    }

    /// Changes one place at random; `other` is where parts may come from.
    pub fn change(&mut self, other: &Tree, dice: &mut Dice) {
        let mut part = other.clone();
        let part = {
            let mut place = dice.below(part.size());
            part.at(&mut place).cloned().unwrap_or(Tree::Array(Vec::new()))
        };
        let mut place = dice.below(self.size());
        let is_root = place == 0;
        let Some(node) = self.at(&mut place) else { return };
        if is_root || dice.below(2) == 0 {
            if let Tree::Document(fields) = node {
                return change_fields(fields, part, dice);
            }
        }
        match node {
            Tree::Array(list) if dice.below(2) == 0 => change_list(list, part, dice),
            _ => {
                *node = match dice.below(5) {
                    0 => part,
                    1 => Tree::Array(vec![node.clone()]),
                    2 => Tree::Document(vec![(dice.one(&NAMES).clone(), node.clone())]),
                    3 => inside(node, dice),
                    _ => dice.one(&LEAVES).clone(),
                };
            }
        }
    }
}

fn change_fields(fields: &mut Vec<(String, Tree)>, part: Tree, dice: &mut Dice) {
    let count = fields.len();
    match dice.below(6) {
        0 if count > 0 => {
            fields.remove(dice.below(count));
        }
        1 if count > 0 => fields[dice.below(count)].0 = dice.one(&NAMES).clone(),
        2 if count > 0 => fields[dice.below(count)].1 = part,
        3 if count > 1 => {
            let (one, two) = (dice.below(count), dice.below(count));
            fields.swap(one, two);
        }
        4 => fields.push((dice.one(&NAMES).clone(), part)),
        _ => {
            let value = dice.one(&LEAVES).clone();
            fields.insert(dice.below(count + 1), (dice.one(&NAMES).clone(), value));
        }
    }
}

fn change_list(list: &mut Vec<Tree>, part: Tree, dice: &mut Dice) {
    let count = list.len();
    match dice.below(4) {
        0 if count > 0 => {
            list.remove(dice.below(count));
        }
        1 if count > 0 => {
            let again = list[dice.below(count)].clone();
            list.insert(dice.below(count + 1), again);
        }
        2 if count > 1 => {
            let (one, two) = (dice.below(count), dice.below(count));
            list.swap(one, two);
        }
        _ => list.insert(dice.below(count + 1), part),
    }
}

/// One of the values inside of a value.
fn inside(node: &Tree, dice: &mut Dice) -> Tree {
    match node {
        Tree::Document(fields) if !fields.is_empty() => dice.one(fields).1.clone(),
        Tree::Array(list) if !list.is_empty() => dice.one(list).clone(),
        _ => dice.one(&LEAVES).clone(),
    }
}
