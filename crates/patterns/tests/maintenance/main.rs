//! Maintenance without an engine: patterns over documents in memory. `oracle` compares with a
//! recomputation after every random write, `later` looks at trees that are updated after the commit,
//! `refill` counts what is read. `memory` is the database that they run on.

mod later;
mod memory;
mod oracle;
mod refill;
