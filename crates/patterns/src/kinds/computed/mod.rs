//! The kind `computed`: values that follow from other values, in the same document (`same`) or by a
//! fold over documents of another collection (`crate::fold`).

pub(crate) mod declaration;
mod same;

pub use same::Same;
