//! `outlier`: an array that is large in a few documents. Small arrays stay in their document. A large
//! one spills: its first or last elements stay, the others go into chunks, records of the pattern.
//! Clients, indexes and other patterns see one array.
//!
//! `declaration` reads the options, `settings` holds them and decides when an array spills,
//! `elements` takes arrays apart, `stand_in` is what a document has in place of a spilled array,
//! `arrange` divides an array into chunks, `layout` stores and reads documents, `check` looks for
//! damage, `kind` implements the trait.

mod arrange;
mod check;
pub(crate) mod declaration;
mod elements;
mod kind;
mod layout;
mod settings;
mod stand_in;

use layout::Overflow;

/// An outlier pattern.
#[derive(Debug)]
pub(crate) struct Outlier {
    layout: Overflow,
}
