//! The data-driven tests of `tests/spec`: reading the files, running them, judging results.
