//! SCRAM (RFC 5802, RFC 7677): a client proves that it knows a password without sending it, and learns
//! that the server knew it before. Both ends are here: the server's, and the one for our own client.
//!
//! What is stored of a password (`Credentials`) does not let anybody log in elsewhere. The exchange is
//! by hand over the crates for HMAC and PBKDF2: no crate has MongoDB's extensions of both mechanisms.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use hmac::digest::Digest;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use std::fmt::Write as _;
use subtle::ConstantTimeEq;
use value::{Code, Error, RawDoc, Result, Val, Writer};

/// Bytes of the random numbers that both ends add.
const NONCE_BYTES: usize = 24;
/// Longest message of a conversation that is read.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Most iterations that we do because a server asks for them.
const ITERATIONS_MAX: u32 = 10_000_000;

/// The hash function under it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// `SCRAM-SHA-1`, for old clients.
    Sha1,
    /// `SCRAM-SHA-256`.
    Sha256,
}

impl Mechanism {
    /// All of them, the weakest first, as MongoDB lists them.
    pub const ALL: [Mechanism; 2] = [Mechanism::Sha1, Mechanism::Sha256];

    /// The mechanism of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Sha1 => "SCRAM-SHA-1",
            Mechanism::Sha256 => "SCRAM-SHA-256",
        }
    }

    /// The default iteration count.
    #[must_use]
    pub fn usual_iterations(self) -> u32 {
        match self {
            Mechanism::Sha1 => 10_000,
            Mechanism::Sha256 => 15_000,
        }
    }

    fn key_bytes(self) -> usize {
        match self {
            Mechanism::Sha1 => 20,
            Mechanism::Sha256 => 32,
        }
    }

    /// A salt and the block number behind it fill one block of the hash, less four bytes.
    fn salt_bytes(self) -> usize {
        self.key_bytes() - 4
    }

    /// The digest of some bytes.
    #[must_use]
    pub fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => Sha1::digest(bytes).to_vec(),
            Mechanism::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    fn mac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        fn mac<M: Mac + KeyInit>(key: &[u8], bytes: &[u8]) -> Vec<u8> {
            // Keys of every length are valid.
            <M as KeyInit>::new_from_slice(key)
                .map(|mac| mac.chain_update(bytes).finalize().into_bytes().to_vec())
                .unwrap_or_default()
        }
        match self {
            Mechanism::Sha1 => mac::<Hmac<Sha1>>(key, bytes),
            Mechanism::Sha256 => mac::<Hmac<Sha256>>(key, bytes),
        }
    }

    fn derive_key(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut key = vec![0; self.key_bytes()];
        match self {
            Mechanism::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut key),
            Mechanism::Sha256 => {
                pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut key);
            }
        }
        key
    }

    /// The password as it goes into the hash: normalised, or for the old mechanism a digest with the name.
    fn prepare(self, user: &str, password: &str) -> Result<String> {
        match self {
            Mechanism::Sha1 => Ok(old_digest(user, password)),
            Mechanism::Sha256 => {
                stringprep::saslprep(password).map(std::borrow::Cow::into_owned).map_err(|_| {
                    Error::bad_value("the password has characters that SASLprep (RFC 4013) forbids")
                })
            }
        }
    }
}

/// The digest of a password that MongoDB has used since before SCRAM.
#[must_use]
pub fn old_digest(user: &str, password: &str) -> String {
    let digest = md5::Md5::digest(format!("{user}:mongo:{password}").as_bytes());
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The stored credentials of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Credentials {
    /// Those of a new password, with a fresh salt.
    ///
    /// # Errors
    /// BadValue when the password cannot be normalised.
    pub fn new(
        mechanism: Mechanism,
        user: &str,
        password: &str,
        iterations: u32,
    ) -> Result<Credentials> {
        Ok(Credentials::of(mechanism, &mechanism.prepare(user, password)?, iterations))
    }

    /// Those of a password that the client has digested already, for the old mechanism.
    #[must_use]
    pub fn of_digested(digested: &str, iterations: u32) -> Credentials {
        Credentials::of(Mechanism::Sha1, digested, iterations)
    }

    fn of(mechanism: Mechanism, prepared: &str, iterations: u32) -> Credentials {
        let salt = random(mechanism.salt_bytes());
        let salted = mechanism.derive_key(prepared.as_bytes(), &salt, iterations);
        let client_key = mechanism.mac(&salted, b"Client Key");
        Credentials {
            iterations,
            salt,
            stored_key: mechanism.hash(&client_key),
            server_key: mechanism.mac(&salted, b"Server Key"),
        }
    }

    /// Credentials for an unknown user: equal for equal names, and no password matches. So a client does not
    /// learn which users exist.
    #[must_use]
    pub fn of_unknown_user(
        mechanism: Mechanism,
        secret: &[u8],
        user: &str,
        iterations: u32,
    ) -> Credentials {
        let mut salt = mechanism.mac(secret, user.as_bytes());
        salt.truncate(mechanism.salt_bytes());
        let stored_key = random(mechanism.key_bytes());
        let server_key = random(mechanism.key_bytes());
        Credentials { iterations, salt, stored_key, server_key }
    }

    /// Reads them from the document of a user.
    #[must_use]
    pub fn parse(doc: RawDoc<'_>) -> Option<Credentials> {
        let bytes = |name| BASE64.decode(doc.get(name).and_then(Val::as_str)?).ok();
        let iterations = doc.get("iterationCount").and_then(Val::as_i64_exact)?;
        Some(Credentials {
            iterations: u32::try_from(iterations).ok()?,
            salt: bytes("salt")?,
            stored_key: bytes("storedKey")?,
            server_key: bytes("serverKey")?,
        })
    }

    /// Writes them into the document of a user.
    pub fn write(&self, out: &mut Writer<'_>) {
        out.i32("iterationCount", i32::try_from(self.iterations).unwrap_or(i32::MAX));
        out.str("salt", &BASE64.encode(&self.salt));
        out.str("storedKey", &BASE64.encode(&self.stored_key));
        out.str("serverKey", &BASE64.encode(&self.server_key));
    }
}

/// The first message of a client.
pub struct ClientFirst {
    /// The name of the user.
    pub user: String,
    /// The message without the channel-binding header.
    bare: String,
    nonce: String,
    channel: &'static str,
}

impl ClientFirst {
    /// Reads the first message of a client.
    ///
    /// # Errors
    /// AuthenticationFailed or BadValue when it is not one.
    pub fn parse(payload: &[u8]) -> Result<ClientFirst> {
        let text = message(payload)?;
        let wrong = |what: &str| bad(&format!("Incorrect SCRAM client first message: {what}"));
        let (channel, rest) = if let Some(rest) = text.strip_prefix("n,") {
            ("biws", rest)
        } else if let Some(rest) = text.strip_prefix("y,") {
            ("eSws", rest)
        } else if text.starts_with("p=") {
            return Err(bad("Server does not support channel binding"));
        } else {
            return Err(wrong("it must begin with 'n' or 'y'"));
        };
        let bare = rest
            .strip_prefix(',')
            .ok_or_else(|| wrong("it must not name somebody else to act for"))?;
        let mut parts = bare.split(',');
        let user = parts.next().and_then(|part| part.strip_prefix("n="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        let (Some(user), Some(nonce)) = (user, nonce) else {
            return Err(wrong("it must have a name and a nonce"));
        };
        if nonce.is_empty() || user.is_empty() {
            return Err(wrong("the name or the nonce is empty"));
        }
        let user = unescape(user).ok_or_else(|| wrong("the name is not escaped right"))?;
        Ok(ClientFirst { user, bare: bare.to_owned(), nonce: nonce.to_owned(), channel })
    }
}

/// The server's end between its first message and its last.
pub struct Server {
    mechanism: Mechanism,
    credentials: Credentials,
    /// The client's first message and our answer, as both sign them.
    said: String,
    nonce: String,
    channel: &'static str,
}

impl Server {
    /// Answers the first message of a client.
    #[must_use]
    pub fn start(
        mechanism: Mechanism,
        first: &ClientFirst,
        credentials: Credentials,
    ) -> (Server, String) {
        let nonce = format!("{}{}", first.nonce, BASE64.encode(random(NONCE_BYTES)));
        let salt = BASE64.encode(&credentials.salt);
        let answer = format!("r={nonce},s={salt},i={}", credentials.iterations);
        let said = format!("{},{answer}", first.bare);
        let channel = first.channel;
        (Server { mechanism, credentials, said, nonce, channel }, answer)
    }

    /// Checks the client's proof. Returns the server's.
    ///
    /// # Errors
    /// AuthenticationFailed when the proof is wrong; BadValue when the message is none.
    pub fn finish(&self, payload: &[u8]) -> Result<String> {
        let text = message(payload)?;
        let wrong = || bad("Incorrect number of arguments for second SCRAM client message");
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or_else(wrong)?;
        let mut parts = without_proof.split(',');
        let channel = parts.next().and_then(|part| part.strip_prefix("c=")).ok_or_else(wrong)?;
        let nonce = parts.next().and_then(|part| part.strip_prefix("r=")).ok_or_else(wrong)?;
        if channel != self.channel || nonce != self.nonce {
            return Err(bad("Incorrect SCRAM nonce or channel data received from client"));
        }
        let proof = BASE64.decode(proof).map_err(|_| bad("the proof is not base64"))?;
        let signed = format!("{},{without_proof}", self.said);
        let signature = self.mechanism.mac(&self.credentials.stored_key, signed.as_bytes());
        if proof.len() != signature.len() {
            return Err(failed());
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let stored = self.mechanism.hash(&client_key);
        if !bool::from(stored.ct_eq(&self.credentials.stored_key)) {
            return Err(failed());
        }
        let ours = self.mechanism.mac(&self.credentials.server_key, signed.as_bytes());
        Ok(format!("v={}", BASE64.encode(ours)))
    }
}

/// The client's end.
pub struct Proof {
    mechanism: Mechanism,
    prepared: String,
    bare: String,
    nonce: String,
    expected: Vec<u8>,
}

impl Proof {
    /// Begins; the text is the first message.
    ///
    /// # Errors
    /// BadValue when the password cannot be normalised.
    pub fn start(mechanism: Mechanism, user: &str, password: &str) -> Result<(Proof, String)> {
        let nonce = BASE64.encode(random(NONCE_BYTES));
        let name = user.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={name},r={nonce}");
        let first = format!("n,,{bare}");
        let prepared = mechanism.prepare(user, password)?;
        Ok((Proof { mechanism, prepared, bare, nonce, expected: Vec::new() }, first))
    }

    /// Answers the server's first message with the proof.
    ///
    /// # Errors
    /// BadValue when it is not one, or asks for too much or too little work.
    pub fn answer(&mut self, payload: &[u8]) -> Result<String> {
        let text = message(payload)?;
        let mut parts = text.split(',');
        let mut part = |name| parts.next().and_then(|part| part.strip_prefix(name));
        let (Some(nonce), Some(salt), Some(iterations)) = (part("r="), part("s="), part("i="))
        else {
            return Err(bad("the server's message is none of SCRAM"));
        };
        let salt = BASE64.decode(salt).map_err(|_| bad("the server's salt is not base64"))?;
        let iterations = iterations.parse().ok();
        let iterations = iterations
            .filter(|count| (4096..=ITERATIONS_MAX).contains(count))
            .ok_or_else(|| bad("the server's iteration count is unreasonable"))?;
        if !nonce.starts_with(&self.nonce) || nonce == self.nonce {
            return Err(bad("the server did not use our nonce"));
        }
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{text},{without_proof}", self.bare);
        let salted = self.mechanism.derive_key(self.prepared.as_bytes(), &salt, iterations);
        let key = self.mechanism.mac(&salted, b"Client Key");
        let signature = self.mechanism.mac(&self.mechanism.hash(&key), signed.as_bytes());
        let server_key = self.mechanism.mac(&salted, b"Server Key");
        self.expected = self.mechanism.mac(&server_key, signed.as_bytes());
        let proof: Vec<u8> = key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        Ok(format!("{without_proof},p={}", BASE64.encode(proof)))
    }

    /// Checks that the server knew the password too.
    ///
    /// # Errors
    /// AuthenticationFailed when it did not.
    pub fn verify(&self, payload: &[u8]) -> Result<()> {
        let theirs = message(payload)?.strip_prefix("v=").and_then(|text| BASE64.decode(text).ok());
        match theirs {
            Some(theirs) if bool::from(theirs.ct_eq(&self.expected)) => Ok(()),
            _ => Err(Error::new(Code::AUTHENTICATION_FAILED, "the server did not prove itself")),
        }
    }
}

/// The one error for every failed login, whatever the reason.
#[must_use]
pub fn failed() -> Error {
    Error::new(Code::AUTHENTICATION_FAILED, "Authentication failed.")
}

fn bad(message: &str) -> Error {
    Error::bad_value(message)
}

fn message(payload: &[u8]) -> Result<&str> {
    if payload.len() > MESSAGE_BYTES_MAX {
        return Err(bad("a SCRAM message is too long"));
    }
    std::str::from_utf8(payload).map_err(|_| bad("a SCRAM message is not UTF-8"))
}

/// Undoes `=2C` and `=3D`; `None` for any other use of `=`.
fn unescape(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let (sign, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return None,
        };
        plain.push(sign);
        plain.push_str(rest);
    }
    Some(plain)
}

/// Random bytes of the operating system, for salts and nonces.
///
/// # Panics
/// When the system has none: nothing secret can be made then.
#[must_use]
pub fn random(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    #[expect(clippy::expect_used, reason = "without random numbers there is no security")]
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    bytes
}

/// The SHA-256 of some bytes.
#[must_use]
pub fn hash_sha256(bytes: &[u8]) -> Vec<u8> {
    Mechanism::Sha256.hash(bytes)
}

/// The SHA-256 of some bytes under a key.
#[must_use]
pub fn mac_sha256(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    Mechanism::Sha256.mac(key, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn talk(mechanism: Mechanism, stored: &str, given: &str) -> Result<()> {
        let credentials = Credentials::new(mechanism, "ada,=", stored, 4096)?;
        let doc = value::DocBuf::build(|out| credentials.write(out));
        let credentials = Credentials::parse(doc.as_doc()).expect("what was written is read");
        let (mut proof, first) = Proof::start(mechanism, "ada,=", given)?;
        let first = ClientFirst::parse(first.as_bytes())?;
        assert_eq!(first.user, "ada,=");
        let (server, answer) = Server::start(mechanism, &first, credentials);
        let last = proof.answer(answer.as_bytes())?;
        proof.verify(server.finish(last.as_bytes())?.as_bytes())
    }

    #[test]
    fn the_right_password_and_no_other_opens() {
        for mechanism in Mechanism::ALL {
            assert!(talk(mechanism, "pencil", "pencil").is_ok());
            let code = talk(mechanism, "pencil", "Pencil").expect_err("wrong").code();
            assert_eq!(code, Code::AUTHENTICATION_FAILED);
        }
        // Two ways to write the same: a soft hyphen is mapped to nothing.
        assert!(talk(Mechanism::Sha256, "I\u{AD}X", "IX").is_ok());
        assert!(talk(Mechanism::Sha256, "a\u{7}b", "x").is_err());
    }

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 7677, section 3.
        let salted = Mechanism::Sha256.derive_key(
            b"pencil",
            &BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64"),
            4096,
        );
        let key = Mechanism::Sha256.mac(&salted, b"Client Key");
        let server = Server {
            mechanism: Mechanism::Sha256,
            credentials: Credentials {
                iterations: 4096,
                salt: Vec::new(),
                stored_key: Mechanism::Sha256.hash(&key),
                server_key: Mechanism::Sha256.mac(&salted, b"Server Key"),
            },
            said: "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                   s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
                .to_owned(),
            nonce: "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned(),
            channel: "biws",
        };
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let answer = server.finish(last.as_bytes()).expect("the proof is right");
        assert_eq!(answer, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn nobody_always_has_the_same_salt() {
        let one = Credentials::of_unknown_user(Mechanism::Sha256, b"secret", "ada", 15_000);
        let other = Credentials::of_unknown_user(Mechanism::Sha256, b"secret", "ada", 15_000);
        assert_eq!(one.salt, other.salt);
        assert_eq!(one.salt.len(), 28);
        let third = Credentials::of_unknown_user(Mechanism::Sha256, b"secret", "max", 15_000);
        assert_ne!(one.salt, third.salt);
    }

    #[test]
    fn messages_that_are_none_are_refused() {
        for text in ["", "n", "n,,", "n,a=x,n=u,r=1", "p=x,,n=u,r=1", "n,,n=u", "n,,n==2,r=1"] {
            assert!(ClientFirst::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(ClientFirst::parse(&[0xFF]).is_err());
        assert!(ClientFirst::parse(&[b'n'; 5000]).is_err());
    }

    proptest! {
        #[test]
        fn no_message_panics(first in ".{0,40}", last in ".{0,40}") {
            let _ = ClientFirst::parse(first.as_bytes());
            let known = ClientFirst::parse(b"n,,n=u,r=1").expect("fits");
            let nobody = Credentials::of_unknown_user(Mechanism::Sha1, b"s", "u", 4096);
            let (server, _) = Server::start(Mechanism::Sha1, &known, nobody);
            prop_assert!(server.finish(last.as_bytes()).is_err());
        }
    }
}
