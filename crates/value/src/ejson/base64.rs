//! Base64 as Extended JSON writes it (standard alphabet, padded) and as clients send it (either
//! alphabet, with or without padding).

use ::base64::Engine as _;
use ::base64::alphabet;
use ::base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ::base64::prelude::BASE64_STANDARD;

/// Reads what is left after the padding was cut off. Unused bits at the end may be anything.
const UNPADDED: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Writes bytes as base64.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// Reads base64; the URL alphabet and missing padding are accepted. `None` if it is not base64.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 {
        return None;
    }
    if digits.contains(['-', '_']) {
        UNPADDED.decode(digits.replace('-', "+").replace('_', "/")).ok()
    } else {
        UNPADDED.decode(digits).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(decode("Zg").unwrap(), b"f");
        assert_eq!(decode("Zh=").unwrap(), b"f");
        assert_eq!(decode("-_8=").unwrap(), [0xFB, 0xFF]);
        assert_eq!(decode("-/8").unwrap(), [0xFB, 0xFF]);
        for bad in ["Z", "Zg===", "Z g=", "=", "a=b=", "Zg\n"] {
            assert_eq!(decode(bad).filter(|b| !b.is_empty()), None, "{bad}");
        }
    }
}
