//! Maintenance without an engine: patterns over documents in memory. `oracle` compares with a
//! recomputation after every random write, `later` looks at trees that are updated after the commit,
//! `refill` counts what is read, `arrays` has documents with arrays and scalars where others have
//! documents, `scopes` trees whose names are unique within a scope. `memory` is the database that they run on.

mod arrays;
mod later;
mod memory;
mod oracle;
mod refill;
mod scopes;
