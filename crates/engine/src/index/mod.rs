//! Indexes: the keys of a document (`keys`), keeping entries right on writes (`maintain`),
//! building an index beside running writes (`build`), and checking specifications (`spec`).

pub mod build;
pub mod keys;
pub mod maintain;
pub mod spec;
