//! The differential fuzzer: the same random data and commands on two servers, whose answers must be
//! the same byte for byte.
//!
//! `random` makes choices that a seed repeats, `values` documents, `expressions`, `filters`,
//! `updates`, `regexes` and `pipelines` what is asked about them, `areas` data and commands of single
//! subjects, `compare` runs a case on both sides and says what differs, `ddl` makes and compares
//! commands about collections with their events, `shrink` makes a case that differs small. Generators
//! write extended JSON, so that what is reported can be pasted into a shell or a spec file. The program is
//! `examples/differential.rs`.

pub mod areas;
pub mod compare;
pub mod ddl;
pub mod expressions;
pub mod filters;
pub mod pipelines;
pub mod random;
pub mod regexes;
pub mod shrink;
pub mod updates;
pub mod values;
