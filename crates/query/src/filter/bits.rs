//! `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`: a mask given as a number, as
//! binary data or as a list of positions, and the test of a value's bits.

use super::node::{Bits, BitsPredicate};
use super::operators::non_negative;
use crate::show::show;
use value::{Error, Result, Val};

/// Reads the mask.
pub(super) fn parse(ask: BitsPredicate, name: &str, value: Val<'_>, path: &str) -> Result<Bits> {
    let mut positions = match value {
        Val::Array(array) => {
            let mut positions = Vec::new();
            for (at, element) in array {
                let position = non_negative(at, element.get()).map_err(|error| {
                    Error::bad_value(format!("Failed to parse bit position. {}", error.message()))
                })?;
                if i32::try_from(position).is_err() {
                    return Err(Error::bad_value(format!(
                        "Failed to parse bit position. Cannot represent {at}: {} in an int",
                        show(element.get())
                    )));
                }
                positions.push(position.unsigned_abs());
            }
            positions
        }
        Val::Binary(_, bytes) => set_positions(bytes),
        value if value.is_number() => set_positions(&non_negative(name, value)?.to_le_bytes()),
        value => {
            return Err(Error::bad_value(format!(
                "{path} takes an Array, a number, or a BinData but received: {name}: {}",
                show(value)
            )));
        }
    };
    positions.sort_unstable();
    positions.dedup();
    Ok(Bits { ask, positions })
}

fn set_positions(bytes: &[u8]) -> Vec<u64> {
    let mut positions = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        positions
            .extend((0..8).filter(|bit| byte & (1 << bit) != 0).map(|bit| at as u64 * 8 + bit));
    }
    positions
}

impl Bits {
    /// Whether the bits of an integer or of binary data satisfy the predicate.
    #[must_use]
    pub fn matches(&self, value: Val<'_>) -> bool {
        if let Val::Binary(_, bytes) = value {
            return self.answer(|position| {
                let byte = usize::try_from(position / 8).ok().and_then(|at| bytes.get(at));
                byte.is_some_and(|byte| byte & (1 << (position % 8)) != 0)
            });
        }
        let number = match value {
            // MongoDB rounds decimals; values outside the range of a long become the smallest long.
            Val::Decimal(n) => n.to_i64_round().unwrap_or(i64::MIN),
            value => match value.as_i64_exact() {
                Some(number) => number,
                None => return false,
            },
        };
        // Bits beyond 64 are copies of the sign bit.
        self.answer(|position| number & (1_i64 << position.min(63)) != 0)
    }

    fn answer(&self, is_set: impl Fn(u64) -> bool) -> bool {
        let mut positions = self.positions.iter();
        match self.ask {
            BitsPredicate::AllSet => positions.all(|position| is_set(*position)),
            BitsPredicate::AllClear => positions.all(|position| !is_set(*position)),
            BitsPredicate::AnySet => positions.any(|position| is_set(*position)),
            BitsPredicate::AnyClear => positions.any(|position| !is_set(*position)),
        }
    }
}
