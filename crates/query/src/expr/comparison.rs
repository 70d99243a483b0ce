//! The comparison operators of expressions.

use super::operator::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
