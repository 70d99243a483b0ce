//! What holds for all rows of commands, and what some of them need.

use super::ALL;
use super::patterns::may_declare;
use crate::access::{Authorization, Login};
use crate::request::Request;
use ::access::{Privilege, Privileges};

#[test]
fn the_registry_is_sorted_so_that_binary_search_works() {
    for pair in ALL.windows(2) {
        assert!(pair[0].name < pair[1].name, "{} stands before {}", pair[0].name, pair[1].name);
    }
}

#[test]
fn every_row_says_what_the_command_does_and_who_may_run_it() {
    for row in ALL {
        assert!(row.help.ends_with('.'), "{}: {:?}", row.name, row.help);
        let named = row.fields.is_none_or(|fields| fields.contains(&row.name));
        assert!(named, "{} refuses its own name as a field", row.name);
        let everything = matches!(row.privilege, crate::access::Required::Everything);
        assert!(!everything, "{} does not say what it needs", row.name);
    }
}

fn allows(role: &str, text: &str) -> bool {
    let mut privileges = Privileges::default();
    let role = ::access::builtin::find("t", role).expect("a role");
    role.privileges("t").iter().for_each(|privilege| privileges.add(privilege));
    let slot = crate::operation::Operation::for_tests(1).slot().clone();
    let login =
        Login::new(slot, true, false, ::access::restriction::ConnectionAddresses::default());
    let body = value::ejson::parse_doc(text).expect("test text");
    let request = Request::new(body.as_doc());
    let (privileges, body) = (&privileges, body.as_doc());
    let auth = Authorization { login: &login, privileges, db: "t", body, request: &request };
    let (name, _) = body.first().expect("a command");
    auth.has(super::find(name).expect("a row").privilege)
}

#[test]
fn who_goes_past_patterns_needs_the_right_to() {
    for command in [
        "insert: 'c', documents: [{_id: 1}]",
        "update: 'c', updates: [{q: {}, u: {$set: {a: 1}}}]",
        "delete: 'c', deletes: [{q: {}, limit: 0}]",
        "findAndModify: 'c', query: {}, remove: true",
        "aggregate: 'c', pipeline: [{$merge: 'd'}]",
        "bulkWrite: 1, ops: [{delete: 0, filter: {}}], nsInfo: [{ns: 't.c'}]",
    ] {
        let past = format!("{{{command}, bypassPatterns: true}}");
        assert!(allows("readWrite", &format!("{{{command}}}")), "{command}");
        assert!(!allows("readWrite", &past), "{past}");
        assert!(allows("dbOwner", &past), "{past}");
    }
}

#[test]
fn patterns_as_options_of_a_collection_need_what_patterns_need() {
    let plain = "{create: 'c'}";
    let declared = "{create: 'c', patterns: [{kind: 'computed', from: 'd', on: {foreign: 'c'}, fields: {n: {$count: {}}}}]}";
    let declare = "{createPatterns: 'c', patterns: [{kind: 'computed', from: 'd', on: {foreign: 'c'}, fields: {n: {$count: {}}}}]}";
    // It may create collections and patterns, but not read what they copy.
    assert!(allows("dbAdmin", plain));
    assert!(!allows("dbAdmin", declared) && !allows("dbAdmin", declare));
    assert!(!allows("read", plain) && !allows("read", declare));
    assert!(allows("dbOwner", declared) && allows("dbOwner", declare));
    // A new version must not read what its author may not.
    let parse = |text: &str| {
        let doc = value::ejson::parse_doc(text).expect("test text");
        ::patterns::declaration::parse("c", doc.as_doc()).expect("a pattern")
    };
    let mut privileges = Privileges::default();
    let mut allow = |name: &str, actions: &str| {
        let text = format!("{{resource: {{db: 't', collection: '{name}'}}, actions: {actions}}}");
        let doc = value::ejson::parse_doc(&text).expect("test text");
        privileges.add(&Privilege::parse(doc.as_doc()).expect("a privilege"));
        privileges.clone()
    };
    let copies = parse(
        "{kind: 'extendedReference', ref: 's._id', from: 'secrets', fields: ['x'], into: 's'}",
    );
    let groups = parse("{kind: 'computed', into: 'g', groupBy: '$x', fields: {n: {$count: {}}}}");
    let own = allow("c", "['createPattern', 'find', 'update']");
    assert!(!may_declare(&own, "t", &copies) && !may_declare(&own, "t", &groups));
    assert!(may_declare(&allow("secrets", "['find']"), "t", &copies));
    assert!(may_declare(&allow("g", "['insert', 'update', 'remove']"), "t", &groups));
}
