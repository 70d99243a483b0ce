//! What a certificate says: whose it is and until when it holds.
//!
//! Whether a certificate is to be believed is not decided here: the TLS library has checked its
//! signatures before. This reads the few fields that become names of users, from bytes (DER) that a
//! client sent.

use std::fmt::{self, Write};

/// The fields of a certificate that matter to logins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    /// Whose it is.
    pub subject: Name,
    /// First second of its validity, since 1970.
    pub not_before: i64,
    /// Last second of its validity, since 1970.
    pub not_after: i64,
}

/// A distinguished name. `to_string` gives the form of RFC 2253, in which users are named.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Name {
    /// Parts in the order of the certificate, the most general first; mostly one attribute each.
    parts: Vec<Vec<Attribute>>,
}

/// One attribute of a name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Attribute {
    /// What it is: a number in dots.
    kind: String,
    value: Value,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Value {
    Text(String),
    /// What is no text that we know, as it stands in the certificate.
    Bytes(Vec<u8>),
}

/// Attributes that have a name, which is that of OpenSSL; of others number and bytes are written.
const KINDS: &[(&str, &str)] = &[
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.3", "mail"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("1.2.840.113549.1.9.8", "unstructuredAddress"),
    ("1.3.6.1.4.1.311.60.2.1.1", "jurisdictionL"),
    ("1.3.6.1.4.1.311.60.2.1.2", "jurisdictionST"),
    ("1.3.6.1.4.1.311.60.2.1.3", "jurisdictionC"),
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.16", "postalAddress"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.18", "postOfficeBox"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.45", "x500UniqueIdentifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.72", "role"),
    ("2.5.4.97", "organizationIdentifier"),
];

/// Attributes by which servers of one cluster know each other.
const MEMBERSHIP: &[&str] = &["0.9.2342.19200300.100.1.25", "2.5.4.10", "2.5.4.11"];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// The optional version number at the front of a certificate.
const VERSION: u8 = 0xA0;

impl Certificate {
    /// Reads a certificate; `None` when it is not one.
    #[must_use]
    pub fn parse(der: &[u8]) -> Option<Certificate> {
        let (certificate, _) = expect(der, SEQUENCE)?;
        let (fields, _) = expect(certificate, SEQUENCE)?;
        let mut rest = fields;
        if let Some((_, after)) = expect(rest, VERSION) {
            rest = after;
        }
        // Serial number, algorithm, issuer.
        for _ in 0..3 {
            rest = element(rest)?.2;
        }
        let (validity, rest) = expect(rest, SEQUENCE)?;
        let (tag, text, after) = element(validity)?;
        let not_before = time(tag, text)?;
        let (tag, text, _) = element(after)?;
        let not_after = time(tag, text)?;
        let (subject, _) = expect(rest, SEQUENCE)?;
        Some(Certificate { subject: Name::parse(subject)?, not_before, not_after })
    }

    /// Whether it holds at this second.
    #[must_use]
    pub fn is_valid_at(&self, second: i64) -> bool {
        (self.not_before..=self.not_after).contains(&second)
    }
}

impl Name {
    fn parse(mut rest: &[u8]) -> Option<Name> {
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (mut set, after) = expect(rest, SET)?;
            rest = after;
            let mut part = Vec::new();
            while !set.is_empty() {
                let (pair, after) = expect(set, SEQUENCE)?;
                set = after;
                let (kind, value) = expect(pair, OBJECT_IDENTIFIER)?;
                let (tag, text, _) = element(value)?;
                let kind = dotted(kind)?;
                let known = KINDS.iter().any(|(number, _)| *number == kind);
                let text = if known { string(tag, text) } else { None };
                let value = text.map_or_else(|| Value::Bytes(value.to_vec()), Value::Text);
                part.push(Attribute { kind, value });
            }
            parts.push(part);
        }
        Some(Name { parts })
    }

    /// Reads a name as it is written; `None` when it is not one.
    #[must_use]
    pub fn read(text: &str) -> Option<Name> {
        let mut parts = vec![Vec::new()];
        let (mut start, mut escaped) = (0, false);
        let bytes = text.as_bytes();
        for (at, byte) in bytes.iter().chain([&b',']).enumerate() {
            let is_end = at == bytes.len() || (matches!(byte, b',' | b'+') && !escaped);
            escaped = *byte == b'\\' && !escaped;
            if is_end {
                let attribute = read_attribute(bytes.get(start..at)?)?;
                parts.last_mut()?.push(attribute);
                start = at + 1;
                if *byte == b',' && at < bytes.len() {
                    parts.push(Vec::new());
                }
            }
        }
        parts.iter_mut().for_each(|part| part.reverse());
        parts.reverse();
        Some(Name { parts })
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether somebody of this name is a member of the same cluster as `other`: both belong to the
    /// same organisation, unit and domain, and to some.
    #[must_use]
    pub fn is_member_with(&self, other: &Name) -> bool {
        let (own, theirs) = (self.membership(), other.membership());
        !own.is_empty() && own == theirs
    }

    fn membership(&self) -> Vec<&Attribute> {
        let all = self.parts.iter().flatten();
        let mut found: Vec<_> =
            all.filter(|attribute| MEMBERSHIP.contains(&attribute.kind.as_str())).collect();
        found.sort();
        found
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.parts.iter().rev().enumerate() {
            if index > 0 {
                out.write_char(',')?;
            }
            for (index, attribute) in part.iter().rev().enumerate() {
                if index > 0 {
                    out.write_char('+')?;
                }
                let named = KINDS.iter().find(|(number, _)| *number == attribute.kind);
                out.write_str(named.map_or(attribute.kind.as_str(), |(_, name)| name))?;
                out.write_char('=')?;
                match &attribute.value {
                    Value::Text(text) => write_escaped(out, text)?,
                    Value::Bytes(bytes) => {
                        out.write_char('#')?;
                        bytes.iter().try_for_each(|byte| write!(out, "{byte:02X}"))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Escapes what RFC 2253 asks for, and all that is not ASCII, byte by byte, as OpenSSL does.
fn write_escaped(out: &mut fmt::Formatter<'_>, value: &str) -> fmt::Result {
    let last = value.len().saturating_sub(1);
    for (index, byte) in value.bytes().enumerate() {
        match byte {
            0..=0x1F | 0x7F.. => write!(out, "\\{byte:02X}")?,
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                write!(out, "\\{}", char::from(byte))?;
            }
            b'#' if index == 0 => out.write_str("\\#")?,
            b' ' if index == 0 || index == last => out.write_str("\\ ")?,
            byte => out.write_char(char::from(byte))?,
        }
    }
    Ok(())
}

/// One attribute as it is written: what stands before and behind its first equals sign, escapes undone.
fn read_attribute(text: &[u8]) -> Option<Attribute> {
    let at = text.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (text.get(..at)?.trim_ascii(), text.get(at + 1..)?);
    let name = std::str::from_utf8(name).ok()?;
    let kind = KINDS.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
    let kind = kind.map_or(name, |(number, _)| number).to_owned();
    let mut plain = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            plain.push(*byte);
            continue;
        }
        let digits = rest.split_at_checked(2).and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        if let Some((byte, after)) = digits {
            plain.push(byte);
            rest = after;
        } else {
            let (byte, after) = rest.split_first()?;
            plain.push(*byte);
            rest = after;
        }
    }
    let value = Value::Text(String::from_utf8(plain).ok()?);
    Some(Attribute { kind, value })
}

/// The first element of some DER: its tag, its content, and what stands behind it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7F))?;
        if digits.is_empty() || digits.len() > 4 {
            return None;
        }
        (digits.iter().fold(0usize, |length, digit| length << 8 | usize::from(*digit)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// The content of the first element if it has this tag, and what stands behind it.
fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(bytes)?;
    (found == tag).then_some((content, rest))
}

/// An object identifier in dots.
fn dotted(bytes: &[u8]) -> Option<String> {
    let mut numbers = Vec::new();
    let mut number = 0u64;
    let mut open = false;
    for byte in bytes {
        number = number.checked_mul(128)?.checked_add(u64::from(byte & 0x7F))?;
        open = byte & 0x80 != 0;
        if open {
            continue;
        }
        if numbers.is_empty() {
            // The first two share one.
            let first = (number / 40).min(2);
            numbers.extend([first, number - first * 40]);
        } else {
            numbers.push(number);
        }
        number = 0;
    }
    if open || numbers.is_empty() {
        return None;
    }
    Some(numbers.iter().map(u64::to_string).collect::<Vec<_>>().join("."))
}

/// The text of a string of any of the kinds that names are made of.
fn string(tag: u8, bytes: &[u8]) -> Option<String> {
    match tag {
        // UTF-8, numeric, printable, IA5, visible.
        0x0C | 0x12 | 0x13 | 0x16 | 0x1A => String::from_utf8(bytes.to_vec()).ok(),
        // Teletex, which everybody writes as Latin 1.
        0x14 => Some(bytes.iter().map(|byte| char::from(*byte)).collect()),
        // BMP: two bytes a unit.
        0x1E => {
            let (units, rest) = bytes.as_chunks::<2>();
            let units: Vec<u16> = units.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
            if rest.is_empty() { String::from_utf16(&units).ok() } else { None }
        }
        // Universal: four bytes a character.
        0x1C => {
            let (units, rest) = bytes.as_chunks::<4>();
            if !rest.is_empty() {
                return None;
            }
            units.iter().map(|unit| char::from_u32(u32::from_be_bytes(*unit))).collect()
        }
        _ => None,
    }
}

/// The seconds since 1970 of `YYMMDDHHMMSSZ` (tag 0x17) or `YYYYMMDDHHMMSSZ` (tag 0x18).
fn time(tag: u8, text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        0x17 => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        0x18 => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 || !rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |at: usize| rest.get(at..at + 2).and_then(|digits| digits.parse::<i64>().ok());
    let (month, day) = (part(0)?, part(2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = part(4)? * 3600 + part(6)? * 60 + part(8)?;
    Some(days(year, month, day) * 86_400 + seconds)
}

/// Days since 1970 of a date of the Gregorian calendar, years counted from March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        if content.len() < 0x80 {
            bytes.push(content.len() as u8);
        } else {
            bytes.push(0x82);
            bytes.extend_from_slice(&(content.len() as u16).to_be_bytes());
        }
        bytes.extend_from_slice(content);
        bytes
    }

    fn attribute(kind: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        der(SEQUENCE, &[der(OBJECT_IDENTIFIER, kind), der(tag, value)].concat())
    }

    const COMMON: &[u8] = &[0x55, 4, 3];
    const ORGANISATION: &[u8] = &[0x55, 4, 10];

    fn name(parts: &[Vec<u8>]) -> Name {
        let parts: Vec<u8> = parts.iter().flat_map(|part| der(SET, part)).collect();
        Name::parse(&parts).expect("a name")
    }

    /// What a real MongoDB 6 calls the user of such a certificate.
    #[test]
    fn a_name_is_written_from_its_end_with_escapes() {
        let found = name(&[
            attribute(ORGANISATION, 0x0C, "Böse, \"Co\" ".as_bytes()),
            [attribute(COMMON, 0x13, b"#ada"), attribute(&[0x55, 4, 5], 0x13, b"7")].concat(),
            attribute(&[0x2A, 3, 4], 0x0C, b"odd"),
        ]);
        let text = "1.2.3.4=#0C036F6464,serialNumber=7+CN=\\#ada,O=B\\C3\\B6se\\, \\\"Co\\\"\\ ";
        assert_eq!(found.to_string(), text);
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let known = name(&[
            attribute(ORGANISATION, 0x0C, "Böse, +\"Co\"=; ".as_bytes()),
            [attribute(COMMON, 0x13, b"#ada"), attribute(&[0x55, 4, 5], 0x13, b"7\n")].concat(),
        ]);
        assert_eq!(Name::read(&known.to_string()), Some(known));
        for wrong in ["", "ada", "CN=ada,", "CN=a\\", ",CN=a", "CN=\\C3"] {
            assert_eq!(Name::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn strings_of_all_kinds_are_read() {
        let wide = name(&[attribute(COMMON, 0x1E, &[0, b'a', 0x20, 0xAC])]);
        assert_eq!(wide.to_string(), "CN=a\\E2\\82\\AC");
        let wider = name(&[attribute(COMMON, 0x1C, &[0, 1, 0xF6, 0])]);
        assert_eq!(wider.to_string(), "CN=\\F0\\9F\\98\\80");
        assert_eq!(name(&[attribute(COMMON, 0x14, &[0xE9])]).to_string(), "CN=\\C3\\A9");
        assert_eq!(name(&[attribute(COMMON, 0x04, &[0xE9])]).to_string(), "CN=#0401E9");
        let email: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 9, 1];
        let email = name(&[attribute(email, 0x16, b"a@b")]);
        assert_eq!(email.to_string(), "emailAddress=a@b");
    }

    #[test]
    fn members_of_a_cluster_share_organisation_unit_and_domain() {
        let of = |organisation: &str, common: &str| {
            let organisation = attribute(ORGANISATION, 0x0C, organisation.as_bytes());
            name(&[organisation, attribute(COMMON, 0x0C, common.as_bytes())])
        };
        assert!(of("a", "x").is_member_with(&of("a", "y")));
        assert!(!of("a", "x").is_member_with(&of("b", "x")));
        let nowhere = name(&[attribute(COMMON, 0x0C, b"x")]);
        assert!(!nowhere.is_member_with(&nowhere));
    }

    #[test]
    fn times_are_seconds() {
        assert_eq!(time(0x17, b"700101000000Z"), Some(0));
        assert_eq!(time(0x17, b"491231235959Z"), Some(2_524_607_999));
        assert_eq!(time(0x18, b"20240229120000Z"), Some(1_709_208_000));
        assert_eq!(time(0x18, b"99991231235959Z"), Some(253_402_300_799));
        assert_eq!(time(0x18, b"19691231235959Z"), Some(-1));
        for wrong in [&b"700101000000"[..], b"701301000000Z", b"7001010000Z", b"7001010000+1Z"] {
            assert_eq!(time(0x17, wrong), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Certificate::parse(&bytes);
            let _ = Certificate::parse(&der(SEQUENCE, &der(SEQUENCE, &bytes)));
            let _ = Name::parse(&bytes);
        }

        #[test]
        fn no_text_is_too_odd(text in "[a-zC=,+\\\\# ö0-9]{0,40}") {
            if let Some(name) = Name::read(&text) {
                prop_assert_eq!(Name::read(&name.to_string()), Some(name));
            }
        }
    }
}
