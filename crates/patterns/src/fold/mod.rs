//! Folds: documents of a collection (children), accumulated by a key into the documents that have
//! that key (parents), or into a collection of groups. Several kinds consist of folds.
//!
//! - `grouped`: the fold and what it reads and writes; `settle` applies changes of children.
//! - `groups`: changes of children, collected by key until they are settled.
//! - `accumulators`: the state of each accumulator for applying single changes.
//! - `record`, `entries`: what is stored for each key and for each child; `in_target` stores less
//!   if the target holds all of it.
//! - `tally` (sums that can be undone), `moments` (deviations), `ranks` (medians, percentiles).
//! - `kept`: what a ranking keeps of each child.
//! - `sketch`: fields with a bounded error, which keep less than one entry for each child.
//! - `unwind`: elements of an array of the children, each folded for itself.
//! - `window`: children that count for some time only; `flush`: targets that are written later.
//! - `kind`: kinds that consist of one fold; `answers`: the queries that they answer;
//!   `declines`: why they do not answer others; `verify`:
//!   checks.

mod accumulators;
mod answers;
mod declines;
mod entries;
mod flush;
mod grouped;
mod groups;
mod in_target;
mod kept;
mod kind;
pub mod moments;
mod ranks;
mod record;
mod settle;
pub mod sketch;
pub mod tally;
mod unwind;
mod verify;
mod window;

pub use accumulators::Accumulator;
pub use flush::Flush;
pub use grouped::{Field, Fold, GroupKey, Keys, MissingParent, Value};
pub use groups::{Child, Group, Groups};
pub use kept::KeptFields;
pub use kind::{Folded, Form};
pub use record::GROUP;
pub use sketch::{Sketch, SketchForm};
pub use unwind::{Siblings, Unwind};
pub use window::Window;
