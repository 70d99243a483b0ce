//! Who may do what: the proof of a password, roles, and the privileges that they give.
//!
//! Nothing here reads or stores anything: the engine keeps users and roles as documents of the database
//! `admin` and asks this crate what they mean.
//!
//! - `scram`: how a client proves that it knows a password, both ends of it.
//! - `action`, `resource`, `privilege`: what can be allowed, on what, and both together.
//! - `builtin`: the roles that every server has.

pub mod action;
pub mod builtin;
pub mod privilege;
pub mod resource;
pub mod scram;

pub use action::{Action, Actions};
pub use privilege::{Privilege, Privileges};
pub use resource::Resource;
