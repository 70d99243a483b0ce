//! Random numbers for `$sampleRate`: fast, seeded per thread, not for secrets.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

thread_local! {
    static STATE: Cell<u64> = Cell::new(RandomState::new().build_hasher().finish() | 1);
}

/// A number from 0 up to, not including, 1.
pub(super) fn draw() -> f64 {
    STATE.with(|state| {
        // xorshift64*: the upper 53 bits are good enough for sampling.
        let mut bits = state.get();
        bits ^= bits >> 12;
        bits ^= bits << 25;
        bits ^= bits >> 27;
        state.set(bits);
        (bits.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    })
}
