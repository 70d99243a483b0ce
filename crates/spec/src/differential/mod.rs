//! The differential fuzzer: runs the same random commands on the same random data on two servers, whose
//! answers must be equal byte for byte.
//!
//! `random` is the generator of random numbers, `values` makes documents, `expressions`, `filters`,
//! `updates`, `regexes` and `pipelines` make commands, `areas` has data and commands of single
//! subjects, `compare` runs a case on both sides and compares the answers, `ddl` makes and compares
//! commands about collections with their events, `shrink` makes a failing case smaller. Generators
//! write extended JSON, so that a report can be pasted into a shell or a spec file. The program is
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
