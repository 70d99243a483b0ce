//! Unsigned integers of a fixed number of 64-bit limbs: the intermediates of decimal arithmetic.
//!
//! Nothing here grows: the callers choose a width that holds their largest product and say why.
//! Plain schoolbook algorithms over the limbs that are in use.

use std::cmp::Ordering;

/// An unsigned integer of `N` limbs, the lowest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wide<const N: usize>([u64; N]);

/// The largest power of ten in one limb.
pub(super) const LIMB_DIGITS: u32 = 19;

impl<const N: usize> Wide<N> {
    pub(super) const ZERO: Wide<N> = Wide([0; N]);

    pub(super) fn from_u128(n: u128) -> Self {
        let mut limbs = [0; N];
        limbs[0] = n as u64;
        limbs[1] = (n >> 64) as u64;
        Wide(limbs)
    }

    /// Limbs in use.
    fn used(&self) -> usize {
        self.0.iter().rposition(|&limb| limb != 0).map_or(0, |at| at + 1)
    }

    pub(super) fn is_zero(&self) -> bool {
        self.used() == 0
    }

    pub(super) fn is_odd(&self) -> bool {
        self.0[0] & 1 == 1
    }

    pub(super) fn bits(&self) -> u32 {
        match self.used() {
            0 => 0,
            used => used as u32 * 64 - self.0[used - 1].leading_zeros(),
        }
    }

    /// The lowest 128 bits, if the value fits into them.
    pub(super) fn to_u128(self) -> Option<u128> {
        (self.used() <= 2).then(|| self.low_u128())
    }

    pub(super) fn low_u128(&self) -> u128 {
        u128::from(self.0[0]) | u128::from(self.0[1]) << 64
    }

    /// Sum; the callers' widths leave room for the carry.
    pub(super) fn add(mut self, other: &Self) -> Self {
        let mut carry = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            let (sum, first) = a.overflowing_add(*b);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            *a = sum;
            carry = first | second;
        }
        debug_assert!(!carry, "a sum outgrew its width");
        self
    }

    /// Difference; `other` is not larger.
    pub(super) fn sub(mut self, other: &Self) -> Self {
        let mut borrow = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            let (rest, first) = a.overflowing_sub(*b);
            let (rest, second) = rest.overflowing_sub(u64::from(borrow));
            *a = rest;
            borrow = first | second;
        }
        debug_assert!(!borrow, "a difference went below zero");
        self
    }

    /// Product; the callers' widths hold it.
    pub(super) fn mul(&self, other: &Self) -> Self {
        let mut product = [0; N];
        let (rows, columns) = (self.used(), other.used());
        for row in 0..rows {
            let mut carry = 0u128;
            for column in 0..=columns {
                let at = row + column;
                if at >= N {
                    debug_assert!(carry == 0, "a product outgrew its width");
                    break;
                }
                let factor = other.0.get(column).copied().unwrap_or(0);
                let sum =
                    u128::from(self.0[row]) * u128::from(factor) + u128::from(product[at]) + carry;
                product[at] = sum as u64;
                carry = sum >> 64;
            }
        }
        Wide(product)
    }

    pub(super) fn mul_small(mut self, factor: u64) -> Self {
        let mut carry = 0u128;
        for limb in &mut self.0 {
            let sum = u128::from(*limb) * u128::from(factor) + carry;
            *limb = sum as u64;
            carry = sum >> 64;
        }
        debug_assert!(carry == 0, "a product outgrew its width");
        self
    }

    /// Quotient and remainder by one limb, not zero.
    pub(super) fn div_small(mut self, divisor: u64) -> (Self, u64) {
        let mut rest = 0u128;
        for limb in self.0.iter_mut().rev() {
            let part = rest << 64 | u128::from(*limb);
            *limb = (part / u128::from(divisor)) as u64;
            rest = part % u128::from(divisor);
        }
        (self, rest as u64)
    }

    pub(super) fn shl(self, bits: u32) -> Self {
        let (limbs, bits) = ((bits / 64) as usize, bits % 64);
        let mut shifted = [0; N];
        for at in (limbs..N).rev() {
            let high = self.0[at - limbs] << bits;
            let low =
                if bits > 0 && at > limbs { self.0[at - limbs - 1] >> (64 - bits) } else { 0 };
            shifted[at] = high | low;
        }
        Wide(shifted)
    }

    pub(super) fn shr(self, bits: u32) -> Self {
        let (limbs, bits) = ((bits / 64) as usize, bits % 64);
        let mut shifted = [0; N];
        for (at, slot) in shifted.iter_mut().enumerate() {
            let Some(&limb) = self.0.get(at + limbs) else { break };
            let above = self.0.get(at + limbs + 1).copied().unwrap_or(0);
            *slot = limb >> bits | if bits > 0 { above << (64 - bits) } else { 0 };
        }
        Wide(shifted)
    }

    /// Whether any of the lowest `bits` bits is set.
    pub(super) fn any_below(&self, bits: u32) -> bool {
        self.trailing_zeros() < bits
    }

    fn trailing_zeros(&self) -> u32 {
        match self.0.iter().position(|&limb| limb != 0) {
            None => u32::MAX,
            Some(at) => at as u32 * 64 + self.0[at].trailing_zeros(),
        }
    }

    /// Ten to the power of `exponent`.
    pub(super) fn pow10(exponent: u32) -> Self {
        Self::from_u128(1).mul_pow10(exponent)
    }

    pub(super) fn mul_pow10(mut self, exponent: u32) -> Self {
        for _ in 0..exponent / LIMB_DIGITS {
            self = self.mul_small(10u64.pow(LIMB_DIGITS));
        }
        self.mul_small(10u64.pow(exponent % LIMB_DIGITS))
    }

    /// How many decimal digits the value has; zero has none.
    pub(super) fn digits(&self) -> u32 {
        if self.is_zero() {
            return 0;
        }
        // bits * log10(2), rounded down, is the digit count or one less.
        let estimate = ((u64::from(self.bits()) - 1) * 30_103 / 100_000) as u32;
        if self.cmp(&Self::pow10(estimate)).is_lt() {
            estimate
        } else {
            // Widths end long before the estimate is off by more than one.
            let next = estimate + 1;
            if next < (N as u32 * 64 - 1) * 30_103 / 100_000 && self.cmp(&Self::pow10(next)).is_ge()
            {
                next + 1
            } else {
                next
            }
        }
    }

    /// Quotient and remainder; the divisor is not zero.
    pub(super) fn div_rem(&self, divisor: &Self) -> (Self, Self) {
        let size = divisor.used();
        if size <= 1 {
            let (quotient, rest) = self.div_small(divisor.0[0].max(1));
            return (quotient, Self::from_u128(u128::from(rest)));
        }
        if self.cmp(divisor).is_lt() {
            return (Self::ZERO, *self);
        }
        // Knuth's algorithm D: normalise so that the divisor's top bit is set, then guess each
        // limb of the quotient from the top limbs and correct the guess.
        let shift = divisor.0[size - 1].leading_zeros();
        let lower = divisor.shl(shift);
        let mut top = if shift == 0 { 0 } else { self.0[N - 1] >> (64 - shift) };
        let mut rest = self.shl(shift).0;
        let mut quotient = [0; N];
        for at in (0..=N - size).rev() {
            let above = if at + size == N { top } else { rest[at + size] };
            let pair = u128::from(above) << 64 | u128::from(rest[at + size - 1]);
            let head = u128::from(lower.0[size - 1]);
            let (mut guess, mut left) = (pair / head, pair % head);
            while guess >> 64 != 0
                || guess * u128::from(lower.0[size - 2])
                    > (left << 64 | u128::from(rest[at + size - 2]))
            {
                guess -= 1;
                left += head;
                if left >> 64 != 0 {
                    break;
                }
            }
            let mut borrow = 0i128;
            let mut carry = 0u128;
            for step in 0..size {
                let product = guess * u128::from(lower.0[step]) + carry;
                carry = product >> 64;
                let difference = i128::from(rest[at + step]) - i128::from(product as u64) + borrow;
                rest[at + step] = difference as u64;
                borrow = difference >> 64;
            }
            let difference = i128::from(above) - i128::from(carry as u64) + borrow;
            let mut head_limb = difference as u64;
            if difference < 0 {
                guess -= 1;
                let mut carry = 0u128;
                for step in 0..size {
                    let sum = u128::from(rest[at + step]) + u128::from(lower.0[step]) + carry;
                    rest[at + step] = sum as u64;
                    carry = sum >> 64;
                }
                head_limb = head_limb.wrapping_add(carry as u64);
            }
            if at + size == N {
                top = head_limb;
            } else {
                rest[at + size] = head_limb;
            }
            quotient[at] = guess as u64;
        }
        (Wide(quotient), Wide(rest).shr(shift))
    }
}

impl<const N: usize> PartialOrd for Wide<N> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<const N: usize> Ord for Wide<N> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}
