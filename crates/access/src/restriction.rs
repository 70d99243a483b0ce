//! `authenticationRestrictions` of users and roles: the addresses from which a user may log in.

use std::net::IpAddr;
use value::{Code, Error, RawDoc, Result, Val, Writer};

/// The two ends of a connection, where they are known.
#[derive(Clone, Copy, Default, Debug)]
pub struct ConnectionAddresses {
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The address at which the server was reached.
    pub server: Option<IpAddr>,
}

/// A list of restrictions, of which one must be met; an empty list restricts nothing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Restrictions(Vec<Restriction>);

/// Addresses of both ends; each list that is present must contain the address.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Restriction {
    client_source: Option<Vec<Range>>,
    server_address: Option<Vec<Range>>,
}

/// A range of addresses, with its source text.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Range {
    first: IpAddr,
    /// How many bits at the front must be equal.
    bits: u32,
    text: String,
}

impl Restrictions {
    /// Reads an array of `{clientSource: [..], serverAddress: [..]}`; `place` names it in errors.
    ///
    /// # Errors
    /// For what is not understood.
    pub fn parse(list: RawDoc<'_>, place: &str) -> Result<Restrictions> {
        let mut all = Vec::new();
        for (index, value) in list {
            let Some(doc) = value.as_doc() else {
                return Err(wrong_type(&format!("{place}.{index}"), value.get(), "object"));
            };
            all.push(Restriction::parse(doc, place)?);
        }
        Ok(Restrictions(all))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a login over this connection is allowed.
    #[must_use]
    pub fn allow(&self, ends: ConnectionAddresses) -> bool {
        self.0.is_empty() || self.0.iter().any(|restriction| restriction.allows(ends))
    }

    /// Writes the array as a field.
    pub fn write(&self, out: &mut Writer<'_>, field: &str) {
        out.array(field, |array| {
            for restriction in &self.0 {
                array.push_doc(|out| restriction.write(out, true));
            }
        });
    }

    /// Writes the array as an element of another, in the words in which it was given or with the
    /// length of every range.
    pub fn push(&self, array: &mut value::writer::ArrayWriter<'_>, given: bool) {
        array.push_array(|array| {
            for restriction in &self.0 {
                array.push_doc(|out| restriction.write(out, given));
            }
        });
    }
}

impl Restriction {
    fn parse(doc: RawDoc<'_>, place: &str) -> Result<Restriction> {
        let mut restriction = Restriction::default();
        for (name, value) in doc {
            let list = match name {
                "clientSource" => &mut restriction.client_source,
                "serverAddress" => &mut restriction.server_address,
                _ => {
                    return Err(Error::new(
                        Code(40415),
                        format!("BSON field '{place}.{name}' is an unknown field."),
                    ));
                }
            };
            let Val::Array(ranges) = value.get() else {
                return Err(wrong_type(&format!("{place}.{name}"), value.get(), "array"));
            };
            let mut all = Vec::new();
            for (index, range) in ranges {
                let Val::String(text) = range.get() else {
                    let place = format!("{place}.{name}.{index}");
                    return Err(wrong_type(&place, range.get(), "string"));
                };
                all.push(Range::parse(text)?);
            }
            *list = Some(all);
        }
        if restriction == Restriction::default() {
            return Err(Error::new(
                Code::COLLECTION_IS_EMPTY,
                "At least one of 'clientSource' or 'serverAddress' must be set",
            ));
        }
        Ok(restriction)
    }

    fn allows(&self, ends: ConnectionAddresses) -> bool {
        let holds = |ranges: &Option<Vec<Range>>, address: Option<IpAddr>| match (ranges, address) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(ranges), Some(address)) => ranges.iter().any(|range| range.contains(address)),
        };
        holds(&self.client_source, ends.client) && holds(&self.server_address, ends.server)
    }

    fn write(&self, out: &mut Writer<'_>, given: bool) {
        let lists =
            [("clientSource", &self.client_source), ("serverAddress", &self.server_address)];
        for (name, ranges) in lists {
            if let Some(ranges) = ranges {
                out.array(name, |array| {
                    for range in ranges {
                        let whole = format!("{}/{}", range.first, range.bits);
                        array.push(Val::String(if given { &range.text } else { &whole }));
                    }
                });
            }
        }
    }
}

fn wrong_type(place: &str, found: Val<'_>, expected: &str) -> Error {
    Error::type_mismatch(format!(
        "BSON field '{place}' is the wrong type '{}', expected type '{expected}'",
        found.kind().name()
    ))
}

impl Range {
    /// Reads `address` or `address/bits`.
    fn parse(text: &str) -> Result<Range> {
        let wrong = |what| Error::bad_value(format!("{what} in CIDR string"));
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| wrong("Invalid IP address"))?;
        let width = if first.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => width,
            Some(bits) => {
                let bits: i64 = bits.parse().map_err(|_| wrong("Non-numeric length"))?;
                let bits = u32::try_from(bits).ok().filter(|bits| *bits <= width);
                bits.ok_or_else(|| wrong("Invalid length"))?
            }
        };
        Ok(Range { first, bits, text: text.to_owned() })
    }

    fn contains(&self, address: IpAddr) -> bool {
        // A socket for both kinds shows an IPv4 client as an IPv6 address.
        let same = |first: u128, other: u128, width: u32| {
            // A shift by the whole width would be none at all.
            (first ^ other).checked_shr(width - self.bits.min(width)).unwrap_or(0) == 0
        };
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(other)) => {
                same(u128::from(first.to_bits()), u128::from(other.to_bits()), 32)
            }
            (IpAddr::V6(first), IpAddr::V6(other)) => same(first.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn parse(text: &str) -> Result<Restrictions> {
        let doc = ejson::parse_doc(&format!("{{a: {text}}}")).expect("test text");
        let list = doc.as_doc().get("a").and_then(Val::as_array).expect("an array");
        Restrictions::parse(list, "here")
    }

    fn ends(client: &str, server: &str) -> ConnectionAddresses {
        ConnectionAddresses { client: client.parse().ok(), server: server.parse().ok() }
    }

    #[test]
    fn ranges_hold_what_begins_alike() {
        let holds = |range: &str, address: &str| {
            Range::parse(range).expect("a range").contains(address.parse().expect("an address"))
        };
        assert!(holds("10.0.0.0/8", "10.200.1.2") && !holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("10.1.2.3", "10.1.2.3") && !holds("10.1.2.3", "10.1.2.4"));
        assert!(holds("0.0.0.0/0", "1.2.3.4") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("10.0.0.0/8", "::ffff:10.0.0.1"));
        assert!(holds("fe80::/10", "fe80::1") && !holds("fe80::/10", "::1"));
        assert!(holds("::/0", "::1") && holds("::1", "::1"));
    }

    #[test]
    fn one_of_the_list_must_be_met_whole() {
        let list = parse(
            "[{clientSource: ['10.0.0.0/8'], serverAddress: ['127.0.0.1']}, {clientSource: ['::1']}]",
        )
        .expect("restrictions");
        assert!(list.allow(ends("10.1.1.1", "127.0.0.1")));
        assert!(!list.allow(ends("10.1.1.1", "127.0.0.2")));
        assert!(list.allow(ends("::1", "127.0.0.2")));
        assert!(!list.allow(ends("", "")));
        assert!(Restrictions::default().allow(ends("", "")));
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [
            "[1]",
            "[{}]",
            "[{clientSource: '127.0.0.1'}]",
            "[{clientSource: [1]}]",
            "[{clientSource: ['localhost']}]",
            "[{clientSource: ['127.0.0.1/33']}]",
            "[{clientSource: ['127.0.0.1/-1']}]",
            "[{clientSource: ['127.0.0.1/']}]",
            "[{somewhere: ['127.0.0.1']}]",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
