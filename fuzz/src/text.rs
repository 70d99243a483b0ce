//! Inputs that are text: documents in the shell's notation, one after another.
//!
//! Text because people can read what was found, and because operator names from a dictionary fit in
//! anywhere. `mutate` changes the documents as trees; where an input is not readable, libFuzzer
//! changes its bytes.

use crate::tree::{Dice, Tree};
use libfuzzer_sys::fuzzer_mutate;
use value::DocBuf;
use value::ejson::{self, Format, Mode, Parser};

/// Most documents of one input; more only make it slow.
const DOCUMENTS_MAX: usize = 12;

/// The documents of an input; nothing when it is not readable.
#[must_use]
pub fn documents(input: &[u8]) -> Option<Vec<DocBuf>> {
    let mut parser = Parser::new(std::str::from_utf8(input).ok()?, Mode::Shell);
    let mut documents = Vec::new();
    while let Some(document) = parser.next_doc().ok()? {
        if documents.len() == DOCUMENTS_MAX {
            return None;
        }
        // The parser reads deeper documents than a socket lets through.
        value::validate::validate(document.bytes(), value::limits::DEPTH_MAX_WIRE).ok()?;
        documents.push(document);
    }
    Some(documents)
}

/// Documents as an input, a line for each.
#[must_use]
pub fn print(documents: &[DocBuf]) -> String {
    let mut text = String::new();
    for document in documents {
        text.push_str(&ejson::print(document.as_doc(), Format::Shell));
        text.push('\n');
    }
    text
}

/// Changes the input of `size` bytes at the front of `data`; gives the new size.
pub fn mutate(data: &mut [u8], size: usize, size_max: usize, seed: u32) -> usize {
    let mut dice = Dice::new(seed);
    if dice.below(8) == 0 {
        return fuzzer_mutate(data, size, size_max);
    }
    let Some(mut documents) = data.get(..size).and_then(documents).filter(|all| !all.is_empty())
    else {
        return fuzzer_mutate(data, size, size_max);
    };
    let at = dice.below(documents.len());
    match dice.below(12) {
        0 if documents.len() > 1 => {
            documents.remove(at);
        }
        1 if documents.len() < DOCUMENTS_MAX => {
            let again = documents[at].clone();
            documents.insert(dice.below(documents.len() + 1), again);
        }
        2 => {
            let other = dice.below(documents.len());
            documents.swap(at, other);
        }
        _ => {
            let mut tree = Tree::of(documents[at].as_doc());
            let other = Tree::of(documents[dice.below(documents.len())].as_doc());
            for _ in 0..=dice.below(3) {
                tree.change(&other, &mut dice);
            }
            documents[at] = tree.document();
        }
    }
    let text = print(&documents);
    match data.get_mut(..text.len()) {
        Some(front) if text.len() <= size_max => {
            front.copy_from_slice(text.as_bytes());
            text.len()
        }
        _ => fuzzer_mutate(data, size, size_max),
    }
}
