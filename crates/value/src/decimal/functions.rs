//! Roots, logarithms and powers of decimals, computed in fixed point and rounded once.

use super::arithmetic::strip_zeros;
use super::{Decimal128, EXPONENT_MIN, Intermediate, round};
