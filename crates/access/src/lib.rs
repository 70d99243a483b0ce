//! Authentication and authorisation: password proofs, roles and their privileges.
//!
//! Pure functions without storage: the engine keeps users and roles as documents of the database
//! `admin`, and this crate interprets them.
//!
//! - `scram`: how a client proves that it knows a password, both ends of it.
//! - `action`, `resource`, `privilege`: what can be allowed, on what, and both together.
//! - `builtin`: the roles that every server has.
//! - `restriction`: from where somebody may log in.
//! - `x509`: whose a certificate is.

pub mod action;
pub mod builtin;
pub mod privilege;
pub mod resource;
pub mod restriction;
pub mod scram;
pub mod x509;

pub use action::{Action, Actions};
pub use privilege::{Privilege, Privileges};
pub use resource::Resource;
pub use restriction::Restrictions;
