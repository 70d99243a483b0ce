//! Laws of collations: keys order as comparisons do, and equal text has equal keys.
#![cfg(feature = "collation")]

use proptest::prelude::*;
use std::sync::Arc;
use value::collation::CollationSource;
use value::compare::compare_with;
use value::{Collation, Val, ejson, keys};

fn collation(text: &str) -> Arc<Collation> {
    let doc = ejson::parse_doc(text).expect("test text");
    Collation::parse(doc.as_doc(), CollationSource::Command).expect("valid").expect("not simple")
}

const COLLATIONS: &[&str] = &[
    "{locale: 'en', strength: 1}",
    "{locale: 'en', strength: 2}",
    "{locale: 'en'}",
    "{locale: 'en', strength: 4, alternate: 'shifted'}",
    "{locale: 'en', strength: 5}",
    "{locale: 'en', strength: 1, caseLevel: true, caseFirst: 'upper'}",
    "{locale: 'en', numericOrdering: true}",
    "{locale: 'en', backwards: true}",
    "{locale: 'fr_CA'}",
    "{locale: 'fr_CA', backwards: false}",
    "{locale: 'da'}",
    "{locale: 'de@collation=phonebook'}",
    "{locale: 'zh'}",
    "{locale: 'th'}",
    "{locale: 'ja'}",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[aAáäbB ch10-]{0,6}", "[a-zA-Zàéîõü0-9 ]{0,8}", "\\PC{0,4}"]
}

proptest! {
    #[test]
    fn keys_order_as_comparisons_do(a in text(), b in text()) {
        for written in COLLATIONS {
            let collation = collation(written);
            let (left, right) = (Val::String(&a), Val::String(&b));
            let order = compare_with(left, right, Some(&collation));
            let key = |value| keys::key_with(value, Some(&*collation));
            prop_assert_eq!(order, key(left).cmp(&key(right)), "{} {:?} {:?}", written, a, b);
            let skipped = keys::skip(&key(left), false);
            prop_assert_eq!(skipped, Some(key(left).len()));
        }
    }
}

#[test]
fn strengths_tell_more_and_more_apart() {
    let equal = |written: &str, a: &str, b: &str| collation(written).compare(a, b).is_eq();
    assert!(equal("{locale: 'en', strength: 1}", "resume", "Résumé"));
    assert!(!equal("{locale: 'en', strength: 2}", "resume", "Résumé"));
    assert!(equal("{locale: 'en', strength: 2}", "résumé", "RÉSUMÉ"));
    assert!(!equal("{locale: 'en'}", "résumé", "RÉSUMÉ"));
    assert!(collation("{locale: 'en', numericOrdering: true}").compare("a2", "a10").is_lt());
    assert!(collation("{locale: 'en', backwards: true}").compare("côte", "coté").is_lt());
    assert!(collation("{locale: 'en'}").compare("côte", "coté").is_gt());
}
