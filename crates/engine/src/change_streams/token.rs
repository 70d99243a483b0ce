//! Resume tokens: positions in the log, as text that sorts in log order.
//!
//! The text is the hexadecimal form of a key (`value::keys`) of the cluster time, a version, the
//! token's type, the position in a transaction, whether the position is the end of a stream, and
//! the part of a split event. MongoDB's tokens begin in the same way; clients treat both as opaque.

use value::{Code, Error, RawDoc, Result, Type, Val, keys};

/// A position in the log. Positions sort by their fields in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Token {
    /// The cluster time.
    pub(super) time: u64,
    /// Whether it is the position of an event; otherwise it is before all events of its time.
    pub(super) event: bool,
    /// The position in a transaction.
    pub(super) place: u32,
    /// Whether it is the event that ends a stream.
    pub(super) invalidate: bool,
    /// The part of a split event, counted from 1; 0 for an event that is not split.
    pub(super) part: u32,
}

const VERSION: i32 = 1;
const EVENT: i32 = 128;
const END: u8 = 4;

impl Token {
    /// The position before all changes of a time.
    pub(super) fn before(time: u64) -> Token {
        Token { time, event: false, place: 0, invalidate: false, part: 0 }
    }

    /// The position of a change.
    pub(super) fn of(time: u64, place: u32) -> Token {
        Token { time, event: true, place, invalidate: false, part: 0 }
    }

    /// The token as text.
    pub(super) fn text(&self) -> String {
        let mut bytes = Vec::with_capacity(24);
        keys::encode(&mut bytes, Val::Timestamp(self.time), false);
        keys::encode(&mut bytes, Val::Int32(VERSION), false);
        keys::encode(&mut bytes, Val::Int32(if self.event { EVENT } else { 0 }), false);
        keys::encode(&mut bytes, Val::Int64(i64::from(self.place)), false);
        keys::encode(&mut bytes, Val::Bool(self.invalidate), false);
        if self.part > 0 {
            keys::encode(&mut bytes, Val::Int64(i64::from(self.part)), false);
        }
        bytes.push(END);
        let mut text = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from(if digit < 10 { b'0' + digit } else { b'A' + digit - 10 }));
            }
        }
        text
    }

    /// Parses the token that a client sends.
    ///
    /// # Errors
    /// When it is invalid.
    pub(super) fn parse(doc: RawDoc<'_>) -> Result<Token> {
        let Some(Val::String(text)) = doc.get("_data") else {
            return Err(Error::new(
                Code(40647),
                "Bad resume token: _data of missing or of wrong type. Expected string",
            ));
        };
        let bytes = unhex(text).ok_or_else(|| {
            Error::new(Code::FAILED_TO_PARSE, "resume token string was not a valid hex string")
        })?;
        read(&bytes).ok_or_else(|| {
            Error::new(Code::INVALID_RESUME_TOKEN, "the resume token is not one of this server")
        })
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || text.len() > 1024 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    text.as_bytes()
        .chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

fn read(bytes: &[u8]) -> Option<Token> {
    let (&[0x82], rest) = bytes.split_first_chunk()? else { return None };
    let (time, mut rest) = rest.split_first_chunk::<8>()?;
    if number(&mut rest)? != VERSION as u32 {
        return None;
    }
    let event = number(&mut rest)? == EVENT as u32;
    let place = number(&mut rest)?;
    let (&invalidate, mut rest) = rest.split_first()?;
    // MongoDB's tokens contain the collection and the document here; ours do not. Tokens of
    // different servers are not interchangeable.
    let part = if rest == [END] { 0 } else { number(&mut rest)? };
    let token = Token {
        time: u64::from_be_bytes(*time),
        event,
        place,
        invalidate: invalidate == Type::Bool.rank() + 1,
        part,
    };
    (rest == [END]).then_some(token)
}

/// Decodes a non-negative number from the front.
fn number(rest: &mut &[u8]) -> Option<u32> {
    // The key of zero is one byte. Keys of other numbers start with the number of bytes that
    // follow, which contain the number shifted by one.
    const ZERO: u8 = 41;
    const POSITIVE: u8 = 42;
    let (&kind, after) = rest.split_first()?;
    if kind == ZERO {
        *rest = after;
        return Some(0);
    }
    let (digits, after) = after.split_at_checked(usize::from(kind.checked_sub(POSITIVE)?))?;
    *rest = after;
    let shifted = digits
        .iter()
        .try_fold(0_u64, |sum, digit| (sum < 1 << 40).then_some(sum << 8 | u64::from(*digit)))?;
    u32::try_from(shifted >> 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::DocBuf;

    fn parse(text: &str) -> Result<Token> {
        Token::parse(
            DocBuf::build(|out| {
                out.str("_data", text);
            })
            .as_doc(),
        )
    }

    #[test]
    fn tokens_are_read_back_and_sort_like_places() {
        let mut tokens = Vec::new();
        for time in [1, 5 << 32 | 1, 5 << 32 | 2, u64::MAX] {
            tokens.push(Token::before(time));
            for place in [0, 1, 127, 128, 300, 70_000, u32::MAX] {
                let token = Token::of(time, place);
                let part = |part| Token { part, ..token };
                tokens.extend([token, part(1), part(2), Token { invalidate: true, ..token }]);
            }
        }
        tokens.sort();
        for pair in tokens.windows(2) {
            assert!(pair[0].text() < pair[1].text(), "{pair:?}");
        }
        for token in tokens {
            assert_eq!(parse(&token.text()).expect("is one"), token);
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", "zz", "8", "82", "8200", "826AF9A5F2000000022B0229296E"] {
            assert!(parse(text).is_err(), "{text}");
        }
        let whole = Token::of(7 << 32, 3).text();
        for end in (0..whole.len()).step_by(2) {
            assert!(parse(&whole[..end]).is_err());
        }
    }
}
