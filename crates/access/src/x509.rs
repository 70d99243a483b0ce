//! The subject and the validity of a certificate.
//!
//! Whether a certificate can be trusted is not decided here: the TLS library has checked its
//! signatures before. `x509-cert` reads the bytes that a client sent; here are the few fields that
//! become names of users, written as OpenSSL writes them.

use der::asn1::Any;
use der::{Decode, Encode, Tag, Tagged};
use std::fmt::{self, Write};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::name::RdnSequence;
use x509_cert::time::Time;

/// The fields of a certificate that matter to logins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    /// The subject.
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
    /// The object identifier, in dotted notation.
    kind: String,
    value: Value,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Value {
    Text(String),
    /// A value of another type, as its bytes in the certificate.
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

impl Certificate {
    /// Reads a certificate; `None` when it is not one.
    #[must_use]
    pub fn parse(der: &[u8]) -> Option<Certificate> {
        // By the wider rules of BER: those of DER would bring the attributes of a part into another
        // order, and the order is part of the user's name.
        let certificate = x509_cert::Certificate::from_ber(der).ok()?;
        let fields = certificate.tbs_certificate();
        let seconds = |time: Time| i64::try_from(time.to_unix_duration().as_secs()).ok();
        Some(Certificate {
            subject: Name::from_rdns(fields.subject().as_ref())?,
            not_before: seconds(fields.validity().not_before)?,
            not_after: seconds(fields.validity().not_after)?,
        })
    }

    /// Whether it is valid at this second.
    #[must_use]
    pub fn is_valid_at(&self, second: i64) -> bool {
        (self.not_before..=self.not_after).contains(&second)
    }
}

impl Name {
    fn from_rdns(rdns: &RdnSequence) -> Option<Name> {
        let attribute = |found: &AttributeTypeAndValue| {
            let kind = found.oid.to_string();
            let known = KINDS.iter().any(|(number, _)| *number == kind);
            let text = if known { string(&found.value) } else { None };
            let value = match text {
                Some(text) => Value::Text(text),
                None => Value::Bytes(found.value.to_der().ok()?),
            };
            Some(Attribute { kind, value })
        };
        let parts = rdns.iter().map(|part| part.iter().map(attribute).collect());
        Some(Name { parts: parts.collect::<Option<_>>()? })
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

/// One attribute in text form: the parts before and after the first equals sign, unescaped.
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
            // `from_str_radix` would take a sign too.
            let digits = std::str::from_utf8(digits).ok()?;
            digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
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

/// The text of a string of any of the kinds that names are made of.
fn string(value: &Any) -> Option<String> {
    let bytes = value.value();
    match value.tag() {
        Tag::Utf8String
        | Tag::NumericString
        | Tag::PrintableString
        | Tag::Ia5String
        | Tag::VisibleString => String::from_utf8(bytes.to_vec()).ok(),
        // Which everybody writes as Latin 1.
        Tag::TeletexString => Some(bytes.iter().map(|byte| char::from(*byte)).collect()),
        // Two bytes a unit.
        Tag::BmpString => {
            let (units, rest) = bytes.as_chunks::<2>();
            let units: Vec<u16> = units.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
            if rest.is_empty() { String::from_utf16(&units).ok() } else { None }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEQUENCE: u8 = 0x30;
    const SET: u8 = 0x31;
    const OBJECT_IDENTIFIER: u8 = 0x06;

    fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        if content.len() < 0x80 {
            bytes.push(content.len() as u8);
        } else if content.len() < 0x100 {
            bytes.extend_from_slice(&[0x81, content.len() as u8]);
        } else {
            bytes.push(0x82);
            bytes.extend_from_slice(&(content.len() as u16).to_be_bytes());
        }
        bytes.extend_from_slice(content);
        bytes
    }

    fn attribute(kind: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        tlv(SEQUENCE, &[tlv(OBJECT_IDENTIFIER, kind), tlv(tag, value)].concat())
    }

    const COMMON: &[u8] = &[0x55, 4, 3];
    const ORGANISATION: &[u8] = &[0x55, 4, 10];

    fn name(parts: &[Vec<u8>]) -> Name {
        let rdns = RdnSequence::from_ber(&rdns(parts)).expect("a name");
        Name::from_rdns(&rdns).expect("a name")
    }

    fn rdns(parts: &[Vec<u8>]) -> Vec<u8> {
        let parts: Vec<u8> = parts.iter().flat_map(|part| tlv(SET, part)).collect();
        tlv(SEQUENCE, &parts)
    }

    /// A certificate with this subject and validity (tags and texts); its signature is none.
    fn certificate(subject: &[Vec<u8>], times: [(u8, &str); 2]) -> Vec<u8> {
        let algorithm = tlv(SEQUENCE, &tlv(OBJECT_IDENTIFIER, &[0x2B, 0x65, 0x70]));
        let bits = tlv(0x03, &[0; 33]);
        let times: Vec<u8> =
            times.iter().flat_map(|(tag, text)| tlv(*tag, text.as_bytes())).collect();
        let fields = [
            tlv(0xA0, &tlv(0x02, &[2])),
            tlv(0x02, &[7]),
            algorithm.clone(),
            rdns(&[]),
            tlv(SEQUENCE, &times),
            rdns(subject),
            tlv(SEQUENCE, &[algorithm.clone(), bits.clone()].concat()),
        ];
        tlv(SEQUENCE, &[tlv(SEQUENCE, &fields.concat()), algorithm, bits].concat())
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
            attribute(ORGANISATION, 0x0C, "Böse, +\"Co\"=; +C".as_bytes()),
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
    fn a_certificate_has_a_subject_and_a_validity_in_seconds() {
        let subject =
            [[attribute(COMMON, 0x13, b"ada"), attribute(&[0x55, 4, 5], 0x13, b"7")].concat()];
        let read = |first, last| Certificate::parse(&certificate(&subject, [first, last]));
        let found = read((0x17, "700101000000Z"), (0x17, "491231235959Z")).expect("is one");
        assert_eq!(found.subject.to_string(), "serialNumber=7+CN=ada");
        assert_eq!((found.not_before, found.not_after), (0, 2_524_607_999));
        assert!(found.is_valid_at(2_524_607_999) && !found.is_valid_at(2_524_608_000));
        let found = read((0x18, "20240229120000Z"), (0x18, "99991231235959Z")).expect("is one");
        assert_eq!((found.not_before, found.not_after), (1_709_208_000, 253_402_300_799));
        for wrong in ["700101000000", "701301000000Z", "7001010000Z", "7001010000+1Z"] {
            assert_eq!(read((0x17, wrong), (0x17, "491231235959Z")), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Certificate::parse(&bytes);
            let _ = Certificate::parse(&tlv(SEQUENCE, &tlv(SEQUENCE, &bytes)));
            let subject = [tlv(SEQUENCE, &bytes)];
            let times = [(0x17, "700101000000Z"), (0x17, "491231235959Z")];
            let _ = Certificate::parse(&certificate(&subject, times));
        }

        #[test]
        fn no_text_is_too_odd(text in "[a-zC=,+\\\\# ö0-9]{0,40}") {
            if let Some(name) = Name::read(&text) {
                prop_assert_eq!(Name::read(&name.to_string()), Some(name));
            }
        }
    }
}
