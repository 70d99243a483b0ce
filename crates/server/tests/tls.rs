//! Encrypted connections: what is agreed on, who is refused, and that nothing that a client does in
//! or with TLS keeps a thread, memory or other clients waiting.

#![allow(clippy::unwrap_used, reason = "a test ends where an expectation does")]

mod client;

use ::client::Client;
use client::{Message, SOON, TestServer, command, eventually, message, ping, sequence_section};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use server::{Password, ServerOptions, Tls, TlsMode, TlsOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use value::{Code, DocBuf, Val};

/// The folder of the certificates, made once for all tests.
fn certificates() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let script =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/certificates/make");
            let status = Command::new(script).arg(folder.path()).status();
            assert!(status.expect("the script runs").success(), "openssl makes certificates");
            folder
        })
        .path()
}

fn file(name: &str) -> PathBuf {
    certificates().join(name)
}

fn tls_options(mode: TlsMode) -> TlsOptions {
    TlsOptions {
        mode,
        certificate_key_file: file("server.pem"),
        certificate_key_password: None,
        ca_file: None,
        crl_file: None,
        allow_connections_without_certificates: false,
    }
}

fn with_tls(options: TlsOptions) -> ServerOptions {
    let tls = Some(Arc::new(Tls::load(options).expect("the files are right")));
    ServerOptions { tls, ..ServerOptions::default() }
}

fn start(mode: TlsMode) -> TestServer {
    TestServer::with(with_tls(tls_options(mode)))
}

/// A server that asks clients for certificates.
fn asking(change: impl FnOnce(&mut TlsOptions)) -> TestServer {
    let mut options = tls_options(TlsMode::Require);
    options.ca_file = Some(file("ca.pem"));
    change(&mut options);
    TestServer::with(with_tls(options))
}

/// Connects as tools do; the client shows the certificate of this name.
fn connect(server: &TestServer, certificate: Option<&str>) -> value::Result<Client> {
    let mut uri = format!("mongodb://{}/?tlsCAFile={}", server.address, file("ca.pem").display());
    if let Some(name) = certificate {
        uri += &format!("&tlsCertificateKeyFile={}", file(name).display());
    }
    let mut client = Client::connect(&uri)?;
    // In TLS 1.3 a client learns only from its first reply whether its certificate is believed.
    client.run("admin", &ping())?;
    Ok(client)
}

/// A client of which the test sees every byte.
struct Encrypted(StreamOwned<ClientConnection, TcpStream>);

impl Encrypted {
    fn connect(server: &TestServer, versions: &[&'static SupportedProtocolVersion]) -> Encrypted {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut encrypted = Encrypted(StreamOwned::new(session(versions), stream));
        encrypted.0.conn.complete_io(&mut encrypted.0.sock).expect("a handshake");
        encrypted
    }

    fn new(server: &TestServer) -> Encrypted {
        Encrypted::connect(server, rustls::DEFAULT_VERSIONS)
    }

    fn receive(&mut self) -> io::Result<Message> {
        let mut header = [0; 16];
        self.0.read_exact(&mut header)?;
        let number = |at: usize| i32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        let mut content = vec![0; number(0) as usize - 16];
        self.0.read_exact(&mut content)?;
        Ok(Message { request_id: number(4), response_to: number(8), opcode: number(12), content })
    }

    fn call(&mut self, bytes: &[u8]) -> Message {
        self.0.write_all(bytes).unwrap();
        self.0.flush().unwrap();
        self.receive().expect("a reply")
    }

    fn ping(&mut self) {
        assert!(self.call(&message(9, 0, &ping())).is_ok());
    }

    /// What would be sent for these bytes.
    fn sealed(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.conn.writer().write_all(bytes).unwrap();
        let mut sealed = Vec::new();
        while self.0.conn.wants_write() {
            self.0.conn.write_tls(&mut sealed).unwrap();
        }
        sealed
    }
}

fn session(versions: &[&'static SupportedProtocolVersion]) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

/// The first bytes that a client sends.
fn client_hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    session(rustls::DEFAULT_VERSIONS).write_tls(&mut bytes).unwrap();
    bytes
}

fn closes(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // An alert may come first.
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn both_versions_are_spoken_and_counted() {
    let server = start(TlsMode::Require);
    Encrypted::connect(&server, &[&rustls::version::TLS12]).ping();
    Encrypted::connect(&server, &[&rustls::version::TLS13]).ping();
    Encrypted::connect(&server, &[&rustls::version::TLS13]).ping();
    let mut client = connect(&server, None).unwrap();
    let status = client.run("admin", &command("serverStatus")).unwrap();
    let counts = status.as_doc().get("transportSecurity").and_then(Val::as_doc).unwrap();
    assert_eq!(counts.get("1.2"), Some(Val::Int64(1)));
    assert_eq!(counts.get("1.3"), Some(Val::Int64(3)));
    let security = status.as_doc().get("security").and_then(Val::as_doc).unwrap();
    let subject = Some(Val::String("CN=localhost,OU=Servers,O=Motif Tests"));
    assert_eq!(security.get("SSLServerSubjectName"), subject);
    assert_eq!(security.get("SSLServerHasCertificateAuthority"), Some(Val::Bool(false)));
}

#[test]
fn clients_are_told_to_come_back_to_the_name_they_called() {
    let server = start(TlsMode::Require);
    let hello = |reply: &Message| reply.body().get("me").and_then(Val::as_str).map(str::to_owned);
    let named = Encrypted::new(&server).call(&message(1, 0, &command("hello")));
    assert_eq!(hello(&named), Some(format!("localhost:{}", server.address.port())));
    let mut numbered = connect(&server, None).unwrap();
    let reply = numbered.run("admin", &command("hello")).unwrap();
    let me = reply.as_doc().get("me").and_then(Val::as_str);
    assert_eq!(me, Some(server.address.to_string().as_str()));
}

#[test]
fn plain_clients_are_closed_where_tls_is_required() {
    let server = start(TlsMode::Require);
    let mut plain = server.connect();
    plain.send(&message(1, 0, &ping()));
    assert!(plain.is_closed());
    assert!(connect(&server, None).is_ok());
}

#[test]
fn both_kinds_come_to_one_address_where_tls_is_allowed() {
    for mode in [TlsMode::Allow, TlsMode::Prefer] {
        let server = start(mode);
        let (mut plain, mut encrypted) = (server.connect(), Encrypted::new(&server));
        for _ in 0..3 {
            plain.ping().unwrap();
            encrypted.ping();
        }
    }
}

#[test]
fn a_client_that_speaks_tls_to_a_plain_server_is_closed_at_once() {
    let server = TestServer::start();
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(&client_hello()).unwrap();
    let started = Instant::now();
    assert!(closes(&mut stream));
    assert!(started.elapsed() < SOON);
    assert!(server.is_alive());
}

#[test]
fn certificates_of_clients_are_asked_for_and_checked() {
    let server = asking(|_| {});
    assert!(connect(&server, Some("ada.pem")).is_ok());
    for refused in [None, Some("ada-strange.pem"), Some("expired.pem"), Some("server.pem")] {
        assert!(connect(&server, refused).is_err(), "{refused:?}");
    }
    let lenient = asking(|options| options.allow_connections_without_certificates = true);
    assert!(connect(&lenient, None).is_ok());
    assert!(connect(&lenient, Some("ada.pem")).is_ok());
    assert!(connect(&lenient, Some("ada-strange.pem")).is_err());
}

#[test]
fn revoked_certificates_are_refused() {
    let server = asking(|options| options.crl_file = Some(file("crl.pem")));
    assert!(connect(&server, Some("ada.pem")).is_ok());
    assert!(connect(&server, Some("revoked.pem")).is_err());
    let before = asking(|options| options.crl_file = Some(file("crl-empty.pem")));
    assert!(connect(&before, Some("revoked.pem")).is_ok());
}

#[test]
fn clients_see_who_the_server_is() {
    let server = start(TlsMode::Require);
    let uri = |options: &str| format!("mongodb://{}/?tls=true&{options}", server.address);
    let other = format!("tlsCAFile={}", file("other-ca.pem").display());
    let error = Client::connect(&uri(&other)).err().expect("not believed");
    assert_eq!(error.code(), Code::SSL_HANDSHAKE_FAILED);
    assert!(Client::connect(&uri("")).is_err(), "the system does not know our authority");
    assert!(Client::connect(&uri("tlsAllowInvalidCertificates=true")).is_ok());
}

#[test]
fn a_handshake_that_does_not_end_is_given_up() {
    let options = ServerOptions {
        handshake_timeout: Duration::from_secs(2),
        ..with_tls(tls_options(TlsMode::Require))
    };
    let server = TestServer::with(options);
    let hello = client_hello();
    let mut streams: Vec<TcpStream> = [0, 1, 2, 3, 5, 100, hello.len() - 1, hello.len()]
        .into_iter()
        .map(|length| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(&hello[..length]).unwrap();
            stream
        })
        .collect();
    // Meanwhile others are served.
    assert!(connect(&server, None).is_ok());
    for stream in &mut streams {
        assert!(closes(stream));
    }
    eventually("all are closed", || server.handle.connections() == 0);
}

#[test]
fn where_tls_is_allowed_the_clock_starts_with_the_first_byte() {
    let options = ServerOptions {
        handshake_timeout: Duration::from_millis(500),
        ..with_tls(tls_options(TlsMode::Allow))
    };
    let server = TestServer::with(options);
    let mut silent = server.connect();
    let mut begun = TcpStream::connect(server.address).unwrap();
    begun.write_all(&client_hello()[..50]).unwrap();
    assert!(closes(&mut begun));
    std::thread::sleep(Duration::from_millis(700));
    silent.ping().expect("silence is allowed to plain clients");
}

#[test]
fn bytes_may_come_one_by_one() {
    let server = start(TlsMode::Allow);
    let stream = TcpStream::connect(server.address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut session = session(rustls::DEFAULT_VERSIONS);
    let mut socket = &stream;
    while session.is_handshaking() || session.wants_write() {
        let mut bytes = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut bytes).unwrap();
        }
        for byte in bytes {
            socket.write_all(&[byte]).unwrap();
        }
        if session.is_handshaking() {
            session.read_tls(&mut socket).unwrap();
            session.process_new_packets().unwrap();
        }
    }
    let mut encrypted = Encrypted(StreamOwned::new(session, stream.try_clone().unwrap()));
    for byte in encrypted.sealed(&message(7, 0, &ping())) {
        socket.write_all(&[byte]).unwrap();
    }
    assert_eq!(encrypted.receive().unwrap().response_to, 7);
}

#[test]
fn large_and_many_messages_pass_in_both_directions() {
    let server = start(TlsMode::Require);
    let mut client = connect(&server, None).unwrap();
    let text = "x".repeat(1_000_000);
    let document = DocBuf::build(|doc| {
        doc.str("text", &text);
    });
    let insert = DocBuf::build(|doc| {
        doc.str("insert", "large");
    });
    let documents = document.bytes().repeat(12);
    let reply = client.run_with_sequence("test", &insert, "documents", &documents).unwrap();
    assert_eq!(reply.as_doc().get("n"), Some(Val::Int32(12)));
    let find = DocBuf::build(|doc| {
        doc.str("find", "large");
    });
    let mut cursor = client.cursor("test", &find).unwrap();
    let mut found = 0;
    while let Some(document) = cursor.try_next().unwrap() {
        assert_eq!(
            document.as_doc().get("text").and_then(Val::as_str).map(str::len),
            Some(text.len())
        );
        found += 1;
    }
    assert_eq!(found, 12);
    // Many messages in one record, and one over several.
    let mut raw = Encrypted::new(&server);
    let many: Vec<u8> = (1..=300).flat_map(|id| message(id, 0, &ping())).collect();
    raw.0.write_all(&many).unwrap();
    raw.0.flush().unwrap();
    for id in 1..=300 {
        assert_eq!(raw.receive().unwrap().response_to, id);
    }
    let body = DocBuf::build(|doc| {
        doc.str("insert", "large").str("$db", "test");
    });
    let all = [&[0], body.bytes(), &sequence_section("documents", &[document])].concat();
    let bytes = client::sections(5, 0, &all);
    assert!(raw.call(&bytes).is_ok());
}

#[test]
fn silent_clients_are_parked_and_come_back() {
    let options = ServerOptions {
        linger: Duration::from_millis(20),
        ..with_tls(tls_options(TlsMode::Require))
    };
    let server = TestServer::with(options);
    let mut clients: Vec<_> = (0..20).map(|_| Encrypted::new(&server)).collect();
    for _ in 0..3 {
        for client in &mut clients {
            client.ping();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn one_thread_serves_many_encrypted_clients() {
    let options = ServerOptions { threads_max: 1, ..with_tls(tls_options(TlsMode::Require)) };
    let server = TestServer::with(options);
    let mut clients: Vec<_> = (0..8).map(|_| Encrypted::new(&server)).collect();
    let many: Vec<u8> = (1..=50).flat_map(|id| message(id, 0, &ping())).collect();
    for client in &mut clients {
        // A whole record and a half: the rest comes when the thread has left the connection.
        let sealed = client.sealed(&many);
        let cut = sealed.len() - 700;
        client.0.sock.write_all(&sealed[..cut]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        client.0.sock.write_all(&sealed[cut..]).unwrap();
    }
    for client in &mut clients {
        for id in 1..=50 {
            assert_eq!(client.receive().unwrap().response_to, id);
        }
    }
}

#[test]
fn a_connection_that_is_cut_or_broken_harms_nobody() {
    let server = start(TlsMode::Require);
    // In the middle of a record.
    let mut cut = Encrypted::new(&server);
    let sealed = cut.sealed(&message(1, 0, &ping()));
    cut.0.sock.write_all(&sealed[..sealed.len() / 2]).unwrap();
    drop(cut);
    // Bytes that no key has sealed.
    let mut broken = Encrypted::new(&server);
    let mut sealed = broken.sealed(&message(1, 0, &ping()));
    let last = sealed.len() - 1;
    sealed[last] ^= 1;
    broken.0.sock.write_all(&sealed).unwrap();
    assert!(closes(&mut broken.0.sock));
    // No records at all.
    let mut garbage = Encrypted::new(&server);
    garbage.0.sock.write_all(&[0xAA; 40_000]).ok();
    assert!(closes(&mut garbage.0.sock));
    let mut nonsense = TcpStream::connect(server.address).unwrap();
    nonsense.write_all(&[0x16, 3, 1, 0xFF, 0xFF]).unwrap();
    nonsense.write_all(&[0xAA; 70_000]).ok();
    assert!(closes(&mut nonsense));
    assert!(connect(&server, None).is_ok());
    eventually("all are closed", || server.handle.connections() == 0);
}

#[test]
fn half_a_record_is_not_waited_for_longer_than_half_a_message() {
    let options = ServerOptions {
        message_timeout: Duration::from_secs(2),
        linger: Duration::from_millis(50),
        ..with_tls(tls_options(TlsMode::Require))
    };
    let server = TestServer::with(options);
    let mut slow = Encrypted::new(&server);
    slow.ping();
    let sealed = slow.sealed(&message(1, 0, &ping()));
    slow.0.sock.write_all(&sealed[..sealed.len() - 1]).unwrap();
    assert!(closes(&mut slow.0.sock));
}

#[test]
fn the_end_is_said_and_heard() {
    let mut server = start(TlsMode::Require);
    let mut polite = Encrypted::new(&server);
    polite.ping();
    polite.0.conn.send_close_notify();
    polite.0.flush().unwrap();
    eventually("a client that says goodbye is let go", || server.handle.connections() == 0);
    let mut other = Encrypted::new(&server);
    other.ping();
    server.stop();
    let mut rest = Vec::new();
    // Without the word of the end this would be an error.
    assert_eq!(other.0.read_to_end(&mut rest).unwrap(), 0);
}

#[test]
fn what_only_a_lost_client_wanted_is_interrupted() {
    let server = start(TlsMode::Require);
    let mut client = Encrypted::new(&server);
    let create = DocBuf::build(|doc| {
        doc.str("create", "news").bool("capped", true).i32("size", 4096).str("$db", "test");
    });
    assert!(client.call(&message(1, 0, &create)).is_ok());
    let insert = DocBuf::build(|doc| {
        doc.str("insert", "news").str("$db", "test");
    });
    let all = [client::body_section(&insert), sequence_section("documents", &[ping()])].concat();
    assert!(client.call(&client::sections(2, 0, &all)).is_ok());
    let find = DocBuf::build(|doc| {
        doc.str("find", "news").bool("tailable", true).bool("awaitData", true).str("$db", "test");
    });
    let cursor = client.call(&message(3, 0, &find)).cursor_id();
    let wait = DocBuf::build(|doc| {
        doc.i64("getMore", cursor).str("collection", "news").i32("maxTimeMS", 60_000);
        doc.str("$db", "test");
    });
    client.0.write_all(&message(4, 0, &wait)).unwrap();
    client.0.flush().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    client.0.conn.send_close_notify();
    client.0.flush().unwrap();
    drop(client);
    eventually("its connection ends", || server.handle.connections() == 0);
}

/// Whose certificate a new connection sees.
fn seen(server: &TestServer) -> Vec<u8> {
    let mut encrypted = Encrypted::new(server);
    encrypted.ping();
    encrypted.0.conn.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn certificates_are_read_again_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.pem");
    std::fs::copy(file("server.pem"), &path).unwrap();
    let options =
        TlsOptions { certificate_key_file: path.clone(), ..tls_options(TlsMode::Require) };
    let server = TestServer::with(with_tls(options));
    let mut old = Encrypted::new(&server);
    let first = seen(&server);
    assert_eq!(seen(&server), first);
    for wrong in ["wrong-key.pem", "expired-server.pem", "encrypted.pem", "crl.pem"] {
        std::fs::copy(file(wrong), &path).unwrap();
        assert!(server.handle.reload_certificates().is_err(), "{wrong}");
        assert_eq!(seen(&server), first, "the old one stays in use");
    }
    std::fs::copy(file("server-2.pem"), &path).unwrap();
    assert!(server.handle.reload_certificates().unwrap());
    assert_ne!(seen(&server), first);
    old.ping();
    assert!(!TestServer::start().handle.reload_certificates().unwrap());
}

#[test]
fn a_key_may_have_a_password() {
    let with = |name: &str, password: &str| TlsOptions {
        certificate_key_file: file(name),
        certificate_key_password: Some(Password::new(password.to_owned())),
        ..tls_options(TlsMode::Require)
    };
    let options = with("encrypted.pem", "secret");
    assert!(!format!("{options:?}").contains("secret"), "{options:?}");
    let server = TestServer::with(with_tls(options));
    Encrypted::new(&server).ping();
    // A password that nothing needs does no harm.
    assert!(Tls::load(with("server.pem", "secret")).is_ok());
    let wrong = Tls::load(with("encrypted.pem", "Secret")).expect_err("refused").to_string();
    assert!(wrong.contains("does not open") && !wrong.contains("Secret"), "{wrong}");
    let text = std::fs::read_to_string(file("encrypted.pem")).unwrap();
    for (name, change) in [
        ("cut-key.pem", text.replace("-----END ENCRYPTED", "-----END")),
        ("empty-key.pem", [&text[..text.find("-----BEGIN ENC").unwrap()], BARE_KEY].concat()),
    ] {
        std::fs::write(file(name), change).unwrap();
        assert!(Tls::load(with(name, "secret")).is_err(), "{name}");
    }
}

const BARE_KEY: &str =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";

#[test]
fn files_that_are_wrong_are_named_with_the_reason() {
    let load = |change: &dyn Fn(&mut TlsOptions)| {
        let mut options = tls_options(TlsMode::Require);
        change(&mut options);
        Tls::load(options).err().map_or_else(String::new, |error| error.to_string())
    };
    let server = |name: &str| load(&|options| options.certificate_key_file = file(name));
    let text = file("text.pem");
    std::fs::write(&text, "no certificate\n").unwrap();
    let cut = file("cut.pem");
    let whole = std::fs::read_to_string(file("server.pem")).unwrap();
    std::fs::write(&cut, &whole[..200]).unwrap();
    for (name, reason) in [
        ("none.pem", "No such file"),
        ("text.pem", "it has no CERTIFICATE"),
        ("cut.pem", "not a PEM file"),
        ("ca.pem", "it has no PRIVATE KEY"),
        ("wrong-key.pem", "does not belong"),
        ("encrypted.pem", "encrypted"),
        ("expired-server.pem", "expired"),
    ] {
        let error = server(name);
        assert!(error.contains(name) && error.contains(reason), "{name}: {error}");
    }
    assert!(load(&|options| options.ca_file = Some(file("none.pem"))).contains("none.pem"));
    let crl = load(&|options| {
        options.ca_file = Some(file("ca.pem"));
        options.crl_file = Some(file("ca.pem"));
    });
    assert!(crl.contains("no X509 CRL"), "{crl}");
    assert_eq!(server("server.pem"), "");
}

#[test]
fn the_rust_driver_logs_in_by_password_and_by_certificate() {
    let mut options = tls_options(TlsMode::Require);
    options.ca_file = Some(file("ca.pem"));
    let server = TestServer::with(ServerOptions { authenticate: true, ..with_tls(options) });
    let mut root = connect(&server, Some("ada.pem")).unwrap();
    let user = |name: &str, password: Option<&str>| {
        DocBuf::build(|doc| {
            doc.str("createUser", name);
            if let Some(password) = password {
                doc.str("pwd", password);
            }
            doc.array("roles", |roles| {
                roles.push_doc(|role| {
                    role.str("role", "root").str("db", "admin");
                });
            });
        })
    };
    root.run("admin", &user("root", Some("secret"))).expect("the first user needs no login");
    let credentials = ::client::Credentials::Password {
        user: "root".to_owned(),
        password: "secret".to_owned(),
        source: "admin".to_owned(),
    };
    root.log_in(&credentials).unwrap();
    let subject = "CN=ada,OU=People,O=Motif Tests,C=DE";
    root.run("$external", &user(subject, None)).unwrap();
    let files = format!(
        "directConnection=true&tls=true&tlsCAFile={}&tlsCertificateKeyFile={}",
        file("ca.pem").display(),
        file("ada.pem").display()
    );
    for (user, login, expected) in
        [("root:secret@", "", "root"), ("", "&authMechanism=MONGODB-X509", subject)]
    {
        let uri = format!("mongodb://{user}{}/?{files}{login}", server.address);
        let driver = mongodb::sync::Client::with_uri_str(&uri).unwrap();
        let status = driver
            .database("admin")
            .run_command(mongodb::bson::doc! {"connectionStatus": 1})
            .run()
            .unwrap();
        let users =
            status.get_document("authInfo").unwrap().get_array("authenticatedUsers").unwrap();
        let name = users[0].as_document().unwrap().get_str("user").unwrap();
        assert_eq!(name, expected);
    }
    // Our own client does the same.
    let uri = format!("mongodb://{}/?{}&authMechanism=MONGODB-X509", server.address, files);
    let mut own = Client::connect(&uri).unwrap();
    assert!(own.run("admin", &command("serverStatus")).is_ok());
}
