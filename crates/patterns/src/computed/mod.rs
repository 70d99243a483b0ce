//! `computed`: values that follow from other values.
//!
//! `same` computes fields from the document that holds them. `grouped` folds documents of another
//! collection by a key, into the documents that have that key (children into parents) or into a
//! collection of its own; `groups` is what waits to follow, `settle` lets it; `fold` says what each
//! accumulator needs to follow single changes, `record` and `entries` are what is kept for each group and
//! each child, `shown` where less is enough, `tally` the sum that can be undone, `moments` the deviation, `ranks` medians and
//! percentiles, `window` lets children count for some time only.

mod entries;
mod fold;
mod grouped;
mod groups;
pub mod moments;
mod ranks;
mod record;
mod same;
mod settle;
mod shown;
pub mod tally;
mod window;

pub use fold::Fold;
pub use grouped::{Field, Grouped, Keys, MissingParent, Value, values_at};
pub use groups::{Child, Group, Groups};
pub use record::GROUP;
pub use same::Same;
pub use window::Window;
