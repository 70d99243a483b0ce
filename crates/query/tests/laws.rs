//! Laws that hold for every filter, sort and projection, on generated documents.

use bumpalo::Bump;
use proptest::prelude::*;
use query::ParseContext;
use query::filter::Filter;
use query::project::{Mode, Projection};
use query::sort::SortSpec;
use std::cmp::Ordering;
use value::compare::compare;
use value::writer::write_array;
use value::{Decimal128, DocBuf, ObjectId, OwnedVal, RawDoc, Val};

const NAMES: &[&str] = &["a", "b", "c", "0", "1", ""];

fn scalar() -> impl Strategy<Value = OwnedVal> {
    prop_oneof![
        Just(Val::Null.into()),
        Just(Val::Undefined.into()),
        Just(Val::MinKey.into()),
        Just(Val::MaxKey.into()),
        any::<bool>().prop_map(|b| Val::Bool(b).into()),
        (-3_i32..4).prop_map(|n| Val::Int32(n).into()),
        (-3_i64..4).prop_map(|n| Val::Int64(n).into()),
        prop_oneof![Just(f64::NAN), Just(-0.0), Just(f64::INFINITY), -3.0..3.0_f64]
            .prop_map(|n| Val::Double(n).into()),
        (-3_i64..4).prop_map(|n| Val::Decimal(Decimal128::from_i64(n)).into()),
        "[ab]{0,2}".prop_map(|text| Val::String(&text).into()),
        (0_u8..3).prop_map(|n| Val::ObjectId(ObjectId([n; 12])).into()),
        (-2_i64..3).prop_map(|ms| Val::DateTime(ms).into()),
        Just(Val::Regex("a", "i").into()),
        Just(Val::Binary(0, &[1, 2]).into()),
    ]
}

fn any_value() -> impl Strategy<Value = OwnedVal> {
    scalar().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|list| {
                let mut bytes = Vec::new();
                write_array(&mut bytes, |out| list.iter().for_each(|item| out.push(item.get())));
                Val::Array(RawDoc::new(&bytes)).into()
            }),
            fields(inner).prop_map(|doc| Val::Document(doc.as_doc()).into()),
        ]
    })
}

fn fields(value: impl Strategy<Value = OwnedVal>) -> impl Strategy<Value = DocBuf> {
    prop::collection::vec((0..NAMES.len(), value), 0..4).prop_map(|mut list| {
        list.sort_by_key(|(name, _)| *name);
        list.dedup_by_key(|(name, _)| *name);
        DocBuf::build(|out| {
            for (name, value) in &list {
                out.append(NAMES[*name], value.get());
            }
        })
    })
}

fn document() -> impl Strategy<Value = DocBuf> {
    fields(any_value())
}

fn path() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["a", "a.b", "a.0", "b.c.0", "a.1.b", "c", "a.b.c"][..])
}

fn comparison() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["$eq", "$gt", "$gte", "$lt", "$lte"][..])
}

fn matches(filter: &DocBuf, doc: &DocBuf) -> Option<bool> {
    let filter = Filter::parse(filter.as_doc(), &ParseContext::new(0)).ok()?;
    Some(filter.matches(doc.as_doc()).expect("a filter without expressions cannot fail"))
}

fn condition(path: &str, operator: &str, value: Val<'_>) -> DocBuf {
    DocBuf::build(|out| {
        out.doc(path, |out| {
            out.append(operator, value);
        });
    })
}

/// Values that comparisons refuse at parse time.
fn is_refused(value: Val<'_>) -> bool {
    matches!(value, Val::Undefined | Val::Regex(..))
}

/// Scalars that comparisons take.
fn comparable() -> impl Strategy<Value = OwnedVal> {
    scalar().prop_filter("comparisons refuse it", |value| !is_refused(value.get()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn not_is_the_complement(doc in document(), path in path(), operator in comparison(), value in any_value()) {
        prop_assume!(!is_refused(value.get()));
        let plain = condition(path, operator, value.get());
        let inner = DocBuf::build(|out| { out.append(operator, value.get()); });
        let negated = condition(path, "$not", Val::Document(inner.as_doc()));
        prop_assert_eq!(matches(&plain, &doc).map(|found| !found), matches(&negated, &doc));
    }

    #[test]
    fn in_is_the_or_of_equalities(doc in document(), path in path(), values in prop::collection::vec(comparable(), 0..4)) {
        let mut list = Vec::new();
        write_array(&mut list, |out| values.iter().for_each(|value| out.push(value.get())));
        let is_in = condition(path, "$in", Val::Array(RawDoc::new(&list)));
        let any = values.iter().any(|value| matches(&condition(path, "$eq", value.get()), &doc) == Some(true));
        prop_assert_eq!(matches(&is_in, &doc), Some(any));
        let nin = condition(path, "$nin", Val::Array(RawDoc::new(&list)));
        prop_assert_eq!(matches(&nin, &doc), Some(!any));
    }

    #[test]
    fn gte_is_gt_or_equal(doc in document(), path in path(), value in comparable()) {
        let holds = |operator| matches(&condition(path, operator, value.get()), &doc);
        let either = |a: Option<bool>, b: Option<bool>| Some(a? || b?);
        prop_assert_eq!(holds("$gte"), either(holds("$gt"), holds("$eq")));
        prop_assert_eq!(holds("$lte"), either(holds("$lt"), holds("$eq")));
    }

    /// Whatever the client sends is answered or refused.
    #[test]
    fn no_filter_panics(doc in document(), path in path(), value in any_value(), which in any::<prop::sample::Index>(), explain in any::<bool>()) {
        let names: Vec<&str> = query::filter::operators().iter().map(|operator| operator.name).chain(query::filter::top_operators()).collect();
        let operator = which.get(&names);
        for filter in [condition(path, operator, value.get()), DocBuf::build(|out| { out.append(operator, value.get()); }), DocBuf::build(|out| { out.append(path, value.get()); })] {
            if let Ok(filter) = Filter::parse(filter.as_doc(), &ParseContext::new(0)) {
                let _ = filter.matches_at(doc.as_doc(), &mut None);
                if explain {
                    let shown = DocBuf::build(|out| filter.explain(out));
                    prop_assert!(value::validate::validate(shown.bytes(), 200).is_ok());
                }
            }
        }
    }

    /// Keys order documents as MongoDB compares the values that they sort by.
    #[test]
    fn sort_keys_follow_the_comparison(a in document(), b in document(), descending in any::<bool>()) {
        let spec = DocBuf::build(|out| { out.i32("a", if descending { -1 } else { 1 }); });
        let spec = SortSpec::parse(spec.as_doc()).expect("a plain sort");
        let key = |doc: &DocBuf| {
            let mut out = Vec::new();
            spec.key(doc.as_doc(), &mut out).expect("one field has no parallel arrays");
            out
        };
        let (first, second) = (sort_value(&a, descending), sort_value(&b, descending));
        let order = compare(first.get(), second.get());
        let order = if descending { order.reverse() } else { order };
        prop_assert_eq!(key(&a).cmp(&key(&b)), order);
    }

    /// What an inclusion keeps and what the matching exclusion keeps make up the document.
    #[test]
    fn inclusion_and_exclusion_split_a_document(doc in document()) {
        let project = |include: bool| {
            let spec = DocBuf::build(|out| { out.bool("a", include); out.bool("c", include); });
            let projection = Projection::parse(spec.as_doc(), &ParseContext::new(0), Mode::Find).expect("a plain projection");
            let mut out = Vec::new();
            projection.apply(doc.as_doc(), None, &Bump::new(), &mut out).expect("nothing can fail");
            value::validate::validate(&out, 200).expect("a projection writes a document");
            DocBuf::from_bytes(out)
        };
        let (kept, rest) = (project(true), project(false));
        let mut names: Vec<&str> = kept.as_doc().iter().chain(rest.as_doc()).map(|(name, _)| name).collect();
        let mut all: Vec<&str> = doc.as_doc().iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        all.sort_unstable();
        prop_assert_eq!(names, all);
        prop_assert!(kept.as_doc().iter().all(|(name, value)| doc.as_doc().find(name) == Some(value)));
    }

    #[test]
    fn no_projection_panics(doc in document(), spec in document(), position in prop::option::of(0_usize..3)) {
        for mode in [Mode::Find, Mode::Aggregate, Mode::AddFields] {
            if let Ok(projection) = Projection::parse(spec.as_doc(), &ParseContext::new(0), mode) {
                let mut out = Vec::new();
                if projection.apply(doc.as_doc(), position, &Bump::new(), &mut out).is_ok() {
                    prop_assert!(value::validate::validate(&out, 200).is_ok());
                }
            }
        }
    }
}

/// The value of `a` that decides a sort: the smallest or largest element of an array.
fn sort_value(doc: &DocBuf, descending: bool) -> OwnedVal {
    match doc.as_doc().get("a") {
        None => Val::Null.into(),
        Some(Val::Array(array)) if array.is_empty() => Val::Undefined.into(),
        Some(Val::Array(array)) => {
            let elements = array.iter().map(|(_, element)| element.get());
            let order = |x: &Val<'_>, y: &Val<'_>| -> Ordering { compare(*x, *y) };
            let found = if descending { elements.max_by(order) } else { elements.min_by(order) };
            found.unwrap_or(Val::Missing).into()
        }
        Some(value) => value.into(),
    }
}
