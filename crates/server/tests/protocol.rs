//! The wire protocol over real sockets: what is answered, what closes, and that nothing a client
//! sends harms the server.

mod client;

use client::*;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;
use value::DocBuf;

#[test]
fn both_forms_of_the_handshake_are_answered_in_their_form() {
    let server = TestServer::start();
    let mut client = server.connect();
    for name in ["isMaster", "ismaster", "hello"] {
        let old = client.call(&query(3, "admin.$cmd", -1, &command(name)));
        assert_eq!((old.opcode, old.response_to), (OP_REPLY, 3));
        assert_eq!(old.content[..4], 8i32.to_le_bytes());
        assert_eq!(old.content[4..20], [&[0u8; 12][..], &1i32.to_le_bytes()].concat());
        assert!(old.is_ok() && old.number("maxWireVersion") >= 9.0);

        let new = client.call(&message(4, 0, &command(name)));
        assert_eq!((new.opcode, new.response_to, new.flags()), (OP_MSG, 4, 0));
        assert!(new.is_ok() && new.number("maxWireVersion") >= 9.0);
    }
}

#[test]
fn old_queries_run_commands_and_nothing_else() {
    let server = TestServer::start();
    let mut client = server.connect();
    let wrapped = DocBuf::build(|doc| {
        doc.doc("$query", |inner| {
            inner.i32("ping", 1);
        });
        doc.doc("$readPreference", |inner| {
            inner.str("mode", "primary");
        });
    });
    assert!(client.call(&query(1, "admin.$cmd", 1, &wrapped)).is_ok());

    let find = client.call(&query(2, "shop.orders", 0, &DocBuf::new()));
    assert_eq!((find.opcode, find.content[0]), (OP_REPLY, 2));
    assert_eq!(find.number("code"), 5_739_101.0);
    assert!(find.body().get("$err").is_some());

    let count = client.call(&query(3, "admin.$cmd", 7, &ping()));
    assert_eq!(count.number("code"), 16979.0);
    client.ping().expect("the connection goes on");
}

#[test]
fn a_checksum_is_checked_and_answered_with_one() {
    let server = TestServer::start();
    let mut client = server.connect();
    let reply = client.call(&with_checksum(5, 0, &ping()));
    assert!(reply.is_ok() && reply.flags() == 1);
    let whole = framed(reply.request_id, OP_MSG, &reply.content);
    let mut covered = whole[..whole.len() - 4].to_vec();
    covered[8..12].copy_from_slice(&5i32.to_le_bytes());
    assert_eq!(crc32c::crc32c(&covered).to_le_bytes(), whole[whole.len() - 4..]);

    let mut wrong = with_checksum(6, 0, &ping());
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    client.send(&wrong);
    assert!(client.is_closed());
    assert!(server.is_alive());
}

#[test]
fn wrong_contents_are_answered_and_the_connection_goes_on() {
    let server = TestServer::start();
    let mut client = server.connect();
    let body = body_section(&ping());
    let sequence = sequence_section("things", &[ping()]);
    let mut broken = ping().bytes().to_vec();
    broken[4] = 0x33;
    let cases: [(Vec<u8>, f64); 8] = [
        ([&body[..], &body].concat(), 40430.0),
        ([&body[..], &sequence, &sequence].concat(), 40431.0),
        ([&[7], ping().bytes()].concat(), 40432.0),
        ([&body[..], &sequence_section("ping", &[])].concat(), 40433.0),
        (sequence.clone(), 40587.0),
        (Vec::new(), 40587.0),
        ([&[0], &broken[..]].concat(), 22.0),
        ([&[0], &1000i32.to_le_bytes()[..], &ping().bytes()[4..]].concat(), 22.0),
    ];
    for (bytes, code) in cases {
        let reply = client.call(&sections(1, 0, &bytes));
        assert_eq!((reply.number("ok"), reply.number("code")), (0.0, code));
        assert!(reply.body().get("codeName").is_some() && reply.body().get("errmsg").is_some());
    }
    client.ping().expect("the connection goes on");
}

#[test]
fn nesting_is_read_up_to_its_limit_and_refused_above() {
    let server = TestServer::start();
    let mut client = server.connect();
    let nested = |depth: usize| {
        let mut doc = DocBuf::new();
        for _ in 0..depth {
            let inner = doc;
            doc = DocBuf::build(|outer| {
                outer.append("a", value::Val::Document(inner.as_doc()));
            });
        }
        DocBuf::build(|outer| {
            outer.i32("ping", 1).str("$db", "admin");
            outer.append("comment", value::Val::Document(doc.as_doc()));
        })
    };
    assert!(client.call(&message(1, 0, &nested(100))).is_ok());
    let refused = client.call(&message(1, 0, &nested(300)));
    assert_eq!(refused.number("code"), 15.0);
    client.ping().expect("the connection goes on");
}

#[test]
fn a_document_above_sixteen_megabytes_is_refused_with_its_code() {
    let server = TestServer::start();
    let mut client = server.connect();
    let text = "x".repeat(17_000_000);
    let big = DocBuf::build(|doc| {
        doc.i32("ping", 1).str("text", &text).str("$db", "admin");
    });
    assert_eq!(client.call(&message(1, 0, &big)).number("code"), 10334.0);
    client.ping().expect("the connection goes on");
}

#[test]
fn the_largest_message_is_taken_and_a_larger_one_closes() {
    let server = TestServer::start();
    let mut client = server.connect();
    let document = DocBuf::build(|doc| {
        doc.str("text", &"x".repeat(15_000_000));
    });
    let rest =
        48_000_000 - (16 + 4 + body_section(&ping()).len() + 10 + 3 * document.bytes().len());
    let last = DocBuf::build(|doc| {
        // Length, type, name, text length and two terminators are thirteen bytes around it.
        doc.str("t", &"y".repeat(rest - 13));
    });
    let documents = [document.clone(), document.clone(), document, last];
    let all = [body_section(&ping()), sequence_section("many", &documents)].concat();
    let bytes = sections(1, 0, &all);
    assert_eq!(bytes.len(), 48_000_000);
    let reply = client.call(&bytes);
    assert!(reply.number("ok").is_finite(), "it was read");
    client.ping().expect("the connection goes on");

    let mut longer = message(1, 0, &ping());
    longer[..4].copy_from_slice(&48_000_001i32.to_le_bytes());
    client.send(&longer);
    assert!(client.is_closed());
    assert!(server.is_alive());
}

#[test]
fn bytes_that_are_no_message_close_only_their_connection() {
    let server = TestServer::start();
    let mut bystander = server.connect();
    let with_length = |length: i32| {
        let mut bytes = message(1, 0, &ping());
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes
    };
    let mut cases = vec![
        with_length(0),
        with_length(-1),
        with_length(15),
        with_length(i32::MIN),
        with_length(i32::MAX),
        framed(1, OP_MSG, &[]),
        framed(1, OP_MSG, &[0, 0]),
        sections(1, 1 << 2, &body_section(&ping())),
        sections(1, 1, &[]),
        sections(1, 0, &[1, 200, 0, 0, 0]),
        framed(1, OP_QUERY, &[0; 3]),
        framed(1, OP_COMPRESSED, &[0; 5]),
        framed(1, OP_COMPRESSED, &compressed(&message(1, 0, &ping()), 9)[16..]),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS greeting".to_vec(),
    ];
    // The opcodes that drivers stopped using, replies, and numbers that never were one.
    for opcode in [1, 2001, 2002, 2003, 2005, 2006, 2007, 2010, 2011, 2014, 0, -1] {
        cases.push(framed(1, opcode, &[0; 40]));
    }
    for bytes in cases {
        let mut client = server.connect();
        client.send(&bytes);
        assert!(client.is_closed(), "{:?}", &bytes[..bytes.len().min(24)]);
        bystander.ping().expect("others do not notice");
    }
}

#[test]
fn a_browser_is_told_what_this_is() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut text = String::new();
    client.stream.read_to_string(&mut text).expect("text");
    assert!(text.starts_with("HTTP/1.0 200 OK") && text.contains("MotifDB"));
}

#[test]
fn a_message_cut_off_in_the_middle_harms_nobody() {
    let server = TestServer::start();
    let whole = message(1, 0, &ping());
    for cut in 1..whole.len() {
        let mut client = server.connect();
        client.send(&whole[..cut]);
        client.stream.shutdown(Shutdown::Write).expect("open");
        assert!(client.is_closed(), "{cut}");
    }
    assert!(server.is_alive());
}

#[test]
fn every_compressor_is_understood_and_answered_in_kind() {
    let server = TestServer::start();
    let mut client = server.connect();
    for compressor in 0..=3 {
        for id in 1..20 {
            let reply = client.call(&compressed(&message(id, 0, &ping()), compressor));
            let (used, reply) = unpacked(&reply);
            assert_eq!((used, reply.opcode, reply.response_to), (compressor, OP_MSG, id));
            assert!(reply.is_ok());
        }
        // Handshakes stay readable, whatever came in.
        let reply = client.call(&compressed(&message(30, 0, &command("hello")), compressor));
        assert_eq!(reply.opcode, OP_MSG);
        let old = client.call(&compressed(&query(31, "admin.$cmd", 1, &ping()), compressor));
        let (_, old) = unpacked(&old);
        assert!(old.opcode == OP_REPLY && old.is_ok());
    }
}

#[test]
fn a_compressed_message_that_lies_about_its_size_closes() {
    let server = TestServer::start();
    for compressor in 0..=3 {
        for size in [0, 10, 1000, 47_999_984, 48_000_001, i32::MAX, -1] {
            let mut client = server.connect();
            let mut bytes = compressed(&message(1, 0, &ping()), compressor);
            bytes[20..24].copy_from_slice(&size.to_le_bytes());
            client.send(&bytes);
            assert!(client.is_closed(), "{compressor} {size}");
        }
    }
    assert!(server.is_alive());
}

#[test]
fn a_request_that_wants_no_reply_gets_none() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(&message(1, 2, &ping()));
    client.send(&message(2, 2, &command("noSuchCommand")));
    client.send(&sections(3, 2, &[7]));
    let reply = client.call(&message(4, 0, &ping()));
    assert_eq!(reply.response_to, 4);
}

#[test]
fn messages_sent_at_once_are_answered_in_order() {
    let server = TestServer::start();
    let mut client = server.connect();
    let all: Vec<u8> = (1..=2000).flat_map(|id| message(id, 0, &ping())).collect();
    let mut writer = client.stream.try_clone().expect("a second handle");
    let sender = std::thread::spawn(move || writer.write_all(&all).expect("the server reads"));
    for id in 1..=2000 {
        let reply = client.receive().expect("a reply");
        assert!(reply.response_to == id && reply.is_ok());
    }
    sender.join().expect("sent");
}

#[test]
fn a_message_may_come_byte_by_byte() {
    let server = TestServer::start();
    let mut client = server.connect();
    for byte in message(8, 0, &ping()) {
        client.send(&[byte]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.receive().expect("a reply").response_to, 8);
}

#[test]
fn an_exhaust_cursor_streams_its_batches() {
    const EXHAUST_ALLOWED: u32 = 1 << 16;
    let server = TestServer::start();
    let mut client = server.connect();
    let insert = DocBuf::build(|doc| {
        doc.str("insert", "numbers").str("$db", "test");
    });
    let documents: Vec<_> = (0..10)
        .map(|i| {
            DocBuf::build(|doc| {
                doc.i32("_id", i);
            })
        })
        .collect();
    let all = [body_section(&insert), sequence_section("documents", &documents)].concat();
    let inserted = client.call(&sections(1, 0, &all));
    assert!(inserted.is_ok() && inserted.number("n") == 10.0);

    let find = DocBuf::build(|doc| {
        doc.str("find", "numbers").i32("batchSize", 2).str("$db", "test");
    });
    let first = client.call(&message(2, 0, &find));
    let get_more = DocBuf::build(|doc| {
        doc.i64("getMore", first.cursor_id()).str("collection", "numbers");
        doc.i32("batchSize", 3).str("$db", "test");
    });
    client.send(&message(3, EXHAUST_ALLOWED, &get_more));
    let (mut previous, mut found) = (3, 0);
    loop {
        let reply = client.receive().expect("a reply");
        assert!(reply.is_ok() && reply.response_to == previous);
        previous = reply.request_id;
        let cursor = reply.body().get("cursor").and_then(|v| v.as_doc()).expect("a cursor");
        found += cursor.get("nextBatch").and_then(|v| v.as_array()).expect("a batch").count();
        assert_eq!(reply.flags() == 0, reply.cursor_id() == 0, "the last one says so");
        if reply.flags() == 0 {
            break;
        }
    }
    assert_eq!(found, 8);
    client.ping().expect("the connection goes on");
}

/// Bytes that are noise, or a right message with some bytes changed, cut or repeated.
fn hostile_bytes() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), 0..400);
    let templates = prop_oneof![
        Just(message(1, 0, &ping())),
        Just(with_checksum(1, 0, &ping())),
        Just(query(1, "admin.$cmd", 1, &ping())),
        Just(sections(
            1,
            0,
            &[body_section(&ping()), sequence_section("a", &[ping(), ping()])].concat()
        )),
        (0u8..4).prop_map(|compressor| compressed(&message(1, 0, &ping()), compressor)),
    ];
    let changes = proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6);
    let changed = (templates, changes, any::<bool>()).prop_map(|(mut bytes, changes, refit)| {
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if refit {
            // A right length, so that the change is met behind the header.
            let length = bytes.len() as i32;
            bytes[..4].copy_from_slice(&length.to_le_bytes());
        }
        bytes
    });
    let framed_noise =
        (prop_oneof![Just(OP_MSG), Just(OP_QUERY), Just(OP_COMPRESSED)], noise.clone())
            .prop_map(|(opcode, bytes)| framed(1, opcode, &bytes));
    prop_oneof![1 => noise, 4 => changed, 2 => framed_noise]
}

#[test]
fn no_bytes_harm_the_server() {
    let server = TestServer::start();
    let bystander = std::cell::RefCell::new(server.connect());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(1500));
    let result = runner.run(&hostile_bytes(), |bytes| {
        let mut client = server.connect();
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        let _ = client.stream.read_to_end(&mut rest);
        bystander.borrow_mut().ping().expect("others do not notice");
        Ok(())
    });
    result.expect("the server survives");
    assert!(server.is_alive());
}
