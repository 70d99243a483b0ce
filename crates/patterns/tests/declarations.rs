//! Declarations that make no sense are refused, with the option that is wrong in the message: every
//! option of every kind with values of every sort, and combinations that contradict each other.

use patterns::declaration::parse;
use value::{DocBuf, Val, ejson};

/// One declaration of each form that there is.
static FORMS: &[(&str, &str)] = &[
    ("same", "{kind: 'computed', name: 'p', fields: {total: {$add: ['$a', '$b']}}}"),
    (
        "children",
        "{kind: 'computed', name: 'p', from: 'c', on: {local: '_id', foreign: 'parent'}, filter: {x: 1},
          order: {at: 1}, fields: {n: {$count: {}}, last: {$last: '$x'}}}",
    ),
    (
        "elements",
        "{kind: 'computed', name: 'p', from: 'c', on: {local: '_id', foreign: 'items.parent'}, unwind: 'items',
          fields: {n: {$count: {}}}}",
    ),
    (
        "groups",
        "{kind: 'computed', name: 'p', into: 'g', groupBy: '$day', filter: {x: 1}, order: {at: 1},
          fields: {n: {$count: {}}, first: {$first: '$x'}}}",
    ),
    (
        "approximate",
        "{kind: 'approximation', name: 'p', from: 'c', on: {local: '_id', foreign: 'parent'}, filter: {x: 1},
          window: {field: 'at', last: '30d'}, fields: {n: {count: {}}, users: {distinct: '$user'}, top: {topK: '$x', k: 3},
                   ms: {percentiles: '$ms', p: [0.5, 1]}}}",
    ),
    (
        "attributes",
        "{kind: 'attribute', name: 'p', from: 'specs', as: 'kv', index: {suffix: ['price']},
          keys: {exclude: ['secret'], max: 50}, duplicates: 'keep', layout: 'array', nested: 'opaque'}",
    ),
    ("attributes by name", "{kind: 'attribute', name: 'p', fields: ['color', 'size.w'], as: 'kv'}"),
    (
        "outlier",
        "{kind: 'outlier', name: 'p', array: 'comments', keep: 5, keepWhich: 'first', flag: 'f', count: 'n',
          spillAt: {count: 20, bytes: 5000}, unspillAt: {count: 8}, chunk: {count: 30}}",
    ),
    (
        "types",
        "{kind: 'polymorphic', name: 'p', discriminator: 'sort', common: {required: ['t']},
          types: {word: {required: ['a']}, other: {optional: ['b']}}, unknown: 'allow',
          infer: [{if: {a: 1}, then: 'word'}], transitions: {allow: [['word', 'other']]}}",
    ),
    (
        "hierarchy",
        "{kind: 'inheritance', name: 'p', discriminator: 'sort', pathField: 'line', root: {name: 'r', abstract: true},
          types: {word: {required: ['a'], indexes: [{a: 1}]}, other: {extends: 'word', abstract: true}}, views: true}",
    ),
    (
        "reference",
        "{kind: 'extendedReference', name: 'p', ref: 'customer._id', from: 'customers', fields: ['name'],
          into: 'customer'}",
    ),
    (
        "subset",
        "{kind: 'subset', name: 'p', into: 'top', from: 'reviews', on: {foreign: 'product'}, filter: {x: 1},
          sort: {rating: -1}, limit: 5, fields: ['rating'], idAs: 'review', count: 'reviews'}",
    ),
    ("cold", "{kind: 'subset', name: 'p', cold: ['about', 'prices.past'], inlineBelow: 100}"),
    (
        "tree",
        "{kind: 'tree', name: 'p', parent: 'parent', id: '_id', scope: 'forest', order: 'place',
          maintain: {ancestors: 'above', nestedSet: {lft: 'l', rgt: 'r'}}}",
    ),
];

/// Values of every sort.
static VALUES: &[&str] = &[
    "true",
    "-1",
    "0",
    "3",
    "1.5",
    "''",
    "'word'",
    "'a..b'",
    "'$a'",
    "[]",
    "[5]",
    "['word']",
    "{}",
    "{word: 5}",
    "{$word: 5}",
    "{$date: 5}",
];

/// What is accepted of those, by option. Everything else must be refused.
static ACCEPTED: &[(&str, &[&str])] = &[
    ("name", &["'word'", "'a..b'", "'$a'"]),
    ("from", &["'word'", "'a..b'", "'$a'"]),
    ("rewrite", &["true"]),
    ("fanoutLimit", &["3"]),
    ("limit", &["3"]),
    ("cold", &["['word']"]),
    ("inlineBelow", &["3"]),
    ("maxStalenessMS", &[]),
    ("backfill", &["{}"]),
    ("verify", &["{}"]),
    ("filter", &["{}", "{word: 5}"]),
    (
        "groupBy",
        &[
            "true",
            "-1",
            "0",
            "3",
            "1.5",
            "''",
            "'word'",
            "'a..b'",
            "'$a'",
            "{}",
            "{word: 5}",
            "{$date: 5}",
        ],
    ),
    ("ref", &["'word'"]),
    ("discriminator", &["'word'"]),
    ("common", &["{}"]),
    ("pathField", &["'word'"]),
    ("views", &["true"]),
    ("infer", &["[]"]),
    ("transitions", &["{}"]),
    ("into", &["'word'"]),
    ("match", &["'word'"]),
    ("idAs", &["'word'"]),
    ("count", &["'word'"]),
    ("parent", &["'word'"]),
    ("id", &["'word'"]),
    ("scope", &["'word'"]),
    ("order", &["'word'"]),
];

/// What single forms accept beside.
static ACCEPTED_BY: &[(&str, &str, &[&str])] = &[
    ("same", "fields", &["{word: 5}"]),
    // Names of collections are looked at when they are made.
    ("groups", "into", &["'word'", "'a..b'", "'$a'"]),
    ("hierarchy", "types", &["{}"]),
    ("reference", "fields", &["['word']"]),
    ("attributes", "from", &["'word'"]),
    ("attributes", "as", &["'word'"]),
    ("attributes", "index", &["true", "{}"]),
    ("attributes", "keys", &["{}"]),
    ("attributes by name", "fields", &["['word']"]),
    ("attributes by name", "as", &["'word'"]),
    ("attributes by name", "index", &["true", "{}"]),
    ("attributes by name", "keys", &["{}"]),
    ("outlier", "array", &["'word'"]),
    ("outlier", "keep", &["3"]),
    ("outlier", "spillAt", &["{}"]),
    ("outlier", "unspillAt", &["{}"]),
    ("outlier", "chunk", &["{}"]),
    ("outlier", "flag", &["'word'"]),
    ("subset", "fields", &["[]", "['word']"]),
    // A path alone is the foreign one.
    ("children", "on", &["'word'"]),
    ("approximate", "on", &["'word'"]),
    ("elements", "on", &["'word'"]),
    ("elements", "unwind", &["'word'", "'$a'"]),
    ("subset", "on", &["'word'"]),
];

fn is_accepted(form: &str, option: &str, value: &str) -> bool {
    let own = ACCEPTED_BY.iter().find(|(f, o, _)| *f == form && *o == option);
    let all = ACCEPTED.iter().find(|(o, _)| *o == option && form_takes(form, option));
    own.is_some_and(|(_, _, values)| values.contains(&value))
        || all.is_some_and(|(_, values)| values.contains(&value))
}

fn with(base: &DocBuf, option: &str, value: Val<'_>) -> DocBuf {
    DocBuf::build(|out| {
        for (name, known) in base.as_doc() {
            if name == option {
                out.append(name, value);
            } else {
                out.raw(name, known);
            }
        }
    })
}

#[test]
fn every_option_refuses_nonsense_by_its_name() {
    let mut tried = 0;
    let mut wrong = Vec::new();
    for (form, text) in FORMS {
        let declared = ejson::parse_doc(text).expect("test text");
        let pattern = parse("t", declared.as_doc()).unwrap_or_else(|e| panic!("{form}: {e}"));
        // The declaration as it is listed has every option.
        let whole = &pattern.declaration;
        let again = parse("t", whole.as_doc()).unwrap_or_else(|e| panic!("{form}, again: {e}"));
        assert_eq!(again.declaration, *whole, "{form}: what is listed can be declared");
        for (option, known) in whole.as_doc() {
            for text in VALUES {
                let holder = ejson::parse_doc(&format!("{{v: {text}}}")).expect("test text");
                let value = holder.as_doc().get("v").expect("a value");
                if value == known.get() {
                    continue;
                }
                tried += 1;
                let accepted = is_accepted(form, option, text);
                match parse("t", with(whole, option, value).as_doc()) {
                    Ok(_) if !accepted => wrong.push(format!("{form}: {option}: {text} accepted")),
                    Err(error) if accepted => {
                        wrong.push(format!("{form}: {option}: {text} refused: {error}"));
                    }
                    Err(error) if !error.message().contains(option) => {
                        wrong.push(format!("{form}: {option}: {text} is not named: {error}"));
                    }
                    _ => {}
                }
            }
        }
    }
    assert!(tried > 1000, "only {tried}");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Options of the same name that mean other things in other forms.
fn form_takes(form: &str, option: &str) -> bool {
    !matches!(
        (form, option),
        ("children" | "groups", "order") | ("groups", "into") | ("attributes", "from")
    )
}

#[test]
fn contradictions_are_refused_with_the_reason() {
    let cases: &[(&str, &str)] = &[
        ("{name: 'p', fields: {a: 1}}", "'kind' is missing"),
        ("{kind: 'archive', name: 'p'}", "'archive' is not available"),
        ("{kind: 'bucket'}", "the option 'key' is missing"),
        ("{kind: 'bucket', key: ['s']}", "the option 'time' is missing"),
        ("{kind: 'bucket', key: ['s'], time: 'ts'}", "the option 'span' is missing"),
        ("{kind: 'bucket', key: 's', time: 'ts', span: '1h'}", "'key' must be an array"),
        ("{kind: 'bucket', key: [1], time: 'ts', span: '1h'}", "'key' must be an array of paths"),
        ("{kind: 'bucket', key: ['_id'], time: 'ts', span: '1h'}", "'key' cannot name '_id'"),
        ("{kind: 'bucket', key: ['a', 'a.b'], time: 'ts', span: '1h'}", "both 'a' and 'a.b'"),
        ("{kind: 'bucket', key: ['ts'], time: 'ts', span: '1h'}", "'key' and 'time' conflict"),
        ("{kind: 'bucket', key: [], time: '_id', span: '1h'}", "'time' cannot be '_id'"),
        ("{kind: 'bucket', key: [], time: 'ts', span: '1w'}", "found '1w'"),
        ("{kind: 'bucket', key: [], time: 'ts', span: '5ms'}", "found '5ms'"),
        ("{kind: 'bucket', key: [], time: 'ts', span: {count: 0}}", "'span.count' must be"),
        ("{kind: 'bucket', key: [], time: 'ts', span: {rows: 1}}", "'span.rows' is unknown"),
        (
            "{kind: 'bucket', key: [], time: 'ts', span: '1h', maxCount: 1000000}",
            "'maxCount' cannot be above",
        ),
        (
            "{kind: 'bucket', key: [], time: 'ts', span: '1h', rollup: {fields: {v: ['median']}}}",
            "'rollup.fields.v' must be",
        ),
        (
            "{kind: 'bucket', key: [], time: 'ts', span: '1h', rollup: {levels: ['1h', '60m']}}",
            "names one span twice",
        ),
        (
            "{kind: 'bucket', key: [], time: 'ts', span: '1h', onDuplicate: 'keep'}",
            "'onDuplicate: keep' needs 'unique: true'",
        ),
        (
            "{kind: 'bucket', key: [], time: 'ts', span: '1h', outOfOrder: 'no'}",
            "'outOfOrder' must be one of",
        ),
        (
            "{kind: 'bucket', key: [], time: 'ts', span: '1h', expireAfterSeconds: 0}",
            "'expireAfterSeconds'",
        ),
        (
            "{kind: 'bucket', key: [], time: 'ts', span: '1h', mode: {every: '1h'}}",
            "'mode' must be 'sync'",
        ),
        ("{kind: 'polymorphic', types: {a: {}}}", "'discriminator' is missing"),
        ("{kind: 'polymorphic', discriminator: 't'}", "'types' is missing"),
        ("{kind: 'polymorphic', discriminator: 't', types: {}}", "'types' must have from 1 to"),
        ("{kind: 'polymorphic', discriminator: '_id', types: {a: {}}}", "cannot be '_id'"),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: 1}}",
            "'types.a' must be a document",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {'': {}}}",
            "cannot be the name of a type",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {require: ['x']}}}",
            "'types.a.require' is unknown (did you mean 'required'?)",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {required: ['x.y']}}}",
            "'types.a.required' takes fields of the document, found 'x.y'",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {required: ['x'], optional: ['x']}}}",
            "'types.a' has 'x' both in 'required' and in 'optional'",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {properties: {x: {bsonType: 'inte'}}}}}",
            "'types.a': ",
        ),
        (
            "{kind: 'polymorphic', discriminator: 'x.t', types: {a: {required: ['x']}}}",
            "'discriminator' is 'x.t', a part of the field 'x'",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {}, b: {}}, infer: [{if: {x: 1}, then: 'c'}]}",
            "'infer.0.then' is 'c', which is not a type",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {}}, infer: [{if: {}, then: 'a'}]}",
            "'infer.0.if' is an empty filter",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {}}, infer: [{if: {$expr: {$gt: ['$x', '$$NOW']}}, then: 'a'}]}",
            "uses $$NOW",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {}, b: {}}, transitions: {default: 'allow', allow: [['a', 'b']]}}",
            "'transitions.allow' is for 'transitions.default: deny'",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {}, b: {}}, transitions: {allow: [['a', 'd']]}}",
            "'transitions.allow.0.1' is 'd', which is not a type",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {}}, transitions: {foreignFields: 'lose'}}",
            "'transitions.foreignFields' must be",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {}}, mode: {async: {}}}",
            "'mode' must be 'sync'",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {indexes: [{}]}}}",
            "'types.a.indexes.0' must name at least one field",
        ),
        (
            "{kind: 'polymorphic', discriminator: 't', types: {a: {indexes: [{key: {x: 1}, uniqe: true}]}}}",
            "'types.a.indexes.0.uniqe' is unknown (did you mean 'unique'?)",
        ),
        ("{kind: 'inheritance', discriminator: 't', types: {}}", "'root' is missing"),
        ("{kind: 'inheritance', discriminator: 't', root: {}, types: {}}", "'root.name' must be"),
        ("{kind: 'inheritance', root: {name: 'r'}, types: {}}", "'discriminator' is missing"),
        (
            "{kind: 'inheritance', discriminator: 't', pathField: 't.x', root: {name: 'r'}, types: {}}",
            "'pathField' cannot be 't.x'",
        ),
        (
            "{kind: 'inheritance', discriminator: 't', root: {name: 'r', required: ['_types']}, types: {}}",
            "'pathField' is '_types', which meets the field '_types'",
        ),
        ("{kind: 'magic', name: 'p'}", "'magic' is not a kind of pattern"),
        ("{kind: 'computed', fields: {}}", "'fields' must have 1 to 200"),
        ("{kind: 'computed', fields: {a: '$b'}, mode: {async: {}}}", "'mode' must be 'sync' here"),
        (
            "{kind: 'computed', fields: {a: '$b'}, maxStalenessMS: 5}",
            "'maxStalenessMS' needs another 'mode'",
        ),
        ("{kind: 'computed', fields: {a: '$b'}, on: {foreign: 'x'}}", "'on' needs 'from'"),
        ("{kind: 'computed', fields: {a: '$b'}, filter: {}}", "'filter' needs 'from'"),
        ("{kind: 'computed', fields: {a: '$b'}, groupBy: '$x'}", "'groupBy' needs 'into'"),
        ("{kind: 'computed', fields: {a: '$b'}, into: 'x'}", "'into' needs 'groupBy'"),
        ("{kind: 'computed', fields: {a: '$a.b'}}", "it reads 'a', which it maintains itself"),
        ("{kind: 'computed', fields: {_id: '$b'}}", "'_id' cannot be maintained"),
        (
            "{kind: 'computed', fields: {'a': '$b', 'a.c': '$d'}}",
            "'a' and 'a.c' conflict with each other",
        ),
        (
            "{kind: 'computed', fields: {a: '$b'}, fanoutLimit: 5}",
            "'fanoutLimit' is not an option of the kind",
        ),
        ("{kind: 'computed', fields: {a: {$add: ['$$NOW', 1]}}}", "'fields.a.$add.0' uses $$NOW"),
        ("{kind: 'computed', fields: {a: {$rand: {}}}}", "'fields.a' uses $rand"),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, filter: {$expr: {$gt: ['$at', '$$NOW']}}, fields: {a: {$count: {}}}}",
            "uses $$NOW",
        ),
        ("{kind: 'computed', from: 'c', fields: {a: {$count: {}}}}", "'on' is missing"),
        (
            "{kind: 'computed', form: 'c', on: 'p', fields: {a: {$count: {}}}}",
            "'on' needs 'from' (did you mean it by 'form'?)",
        ),
        (
            "{kind: 'subset', form: 'c', on: 'p', sort: {a: 1}, limit: 1, into: 't'}",
            "'from' is missing (did you mean it by 'form'?)",
        ),
        (
            "{kind: 'computed', fields: {a: '$b'}, onErrors: 'skip'}",
            "'onErrors' is not an option of the kind 'computed' (did you mean 'onError'?); there are \
             'backfill', 'changeEvents', 'clientWrites', 'duringBuild',",
        ),
        (
            "{kind: 'computed', from: 'c', on: {localfield: 'x'}, fields: {a: {$count: {}}}}",
            "'on.localfield' is unknown; there are 'local' and 'foreign'",
        ),
        (
            "{kind: 'computed', from: 'c', on: {local: 'x', localField: 'y', foreign: 'z'}, fields: {a: {$count: {}}}}",
            "'on' names the side of 'localField' twice",
        ),
        ("{kind: 'computed', fields: {a: '$b'}, unwind: 'c'}", "'unwind' needs 'from'"),
        (
            "{name: 'x', kind: 'computed', fields: {a: '$b', b: '$c.d', c: '$a'}}",
            "pattern 'x': its fields would depend on each other in a cycle: 'c' -> 'b' -> 'a' -> 'c'",
        ),
        (
            "{kind: 'tree', maintain: {dept: 'd'}}",
            "'maintain.dept' is unknown (did you mean 'depth'?)",
        ),
        ("{kind: 'attribute'}", "'from' is missing"),
        ("{kind: 'attribute', from: 'a', fields: ['b']}", "'from' and 'fields' exclude each other"),
        ("{kind: 'attribute', from: '_id'}", "'from' cannot be '_id'"),
        ("{kind: 'attribute', fields: []}", "'fields' must name at least one field"),
        ("{kind: 'attribute', fields: ['a', 'a.b']}", "'fields' has both 'a' and 'a.b'"),
        ("{kind: 'attribute', fields: ['a', 'a']}", "'fields' has 'a' twice"),
        ("{kind: 'attribute', from: 'a', as: 'b.c'}", "'as' must be the name of a field"),
        ("{kind: 'attribute', from: 'a.b', as: 'a'}", "'as' cannot be 'a'"),
        ("{kind: 'attribute', from: 'a', as: '_id'}", "'as' cannot be '_id'"),
        ("{kind: 'attribute', from: 'a', name: '_id_'}", "'name' cannot be '_id_'"),
        (
            "{kind: 'attribute', fields: ['a'], layout: 'array'}",
            "is for 'from', the path of an object",
        ),
        (
            "{kind: 'attribute', from: 'a', layout: 'both'}",
            "'layout' must be one of 'object', 'array'",
        ),
        (
            "{kind: 'attribute', from: 'a', nested: 'opaque', keys: {exclude: ['b.c']}}",
            "'keys' names 'b.c', which is inside of an attribute",
        ),
        ("{kind: 'attribute', from: 'a', qualifier: 'u'}", "'qualifier' is not available"),
        (
            "{kind: 'attribute', from: 'a', index: {sufix: []}}",
            "'index.sufix' is unknown (did you mean 'suffix'?)",
        ),
        (
            "{kind: 'attribute', from: 'a', index: {suffix: ['a.b']}}",
            "'index.suffix' has 'a.b', which is where",
        ),
        (
            "{kind: 'attribute', from: 'a', index: {suffix: ['$x']}}",
            "'index.suffix' must be a dotted path",
        ),
        ("{kind: 'attribute', from: 'a', keys: {max: 0}}", "'keys.max' must be a whole number"),
        (
            "{kind: 'attribute', from: 'a', keys: {include: []}}",
            "'keys.include' must name at least one",
        ),
        ("{kind: 'attribute', from: 'a', keys: {include: ['x*']}}", "'keys.include' takes keys"),
        (
            "{kind: 'attribute', from: 'a', keys: {include: ['x'], exclude: ['x.y']}}",
            "'keys.exclude' is for",
        ),
        ("{kind: 'attribute', fields: ['a'], keys: {exclude: ['x']}}", "'fields' names its keys"),
        ("{kind: 'attribute', from: 'a', mode: {async: {}}}", "'mode' must be 'sync'"),
        ("{kind: 'tree', maintain: {depth: 5}}", "'maintain.depth' must be a path"),
        (
            "{kind: 'tree', maintain: {path: {int: 'd'}}}",
            "'maintain.path.int' is unknown (did you mean 'into'?)",
        ),
        (
            "{kind: 'computed', from: 'c', on: {local: 'x'}, fields: {a: {$count: {}}}}",
            "'on.foreign' is missing",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x', other: 'y'}, fields: {a: {$count: {}}}}",
            "'on.other' is unknown",
        ),
        (
            "{kind: 'computed', from: 'c', on: {local: 'k', foreign: 'x'}, onMissingParent: 'create', fields: {a: {$count: {}}}}",
            "onMissingParent: 'create' needs '_id' as 'on.local'",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, fields: {a: {$first: '$b'}}}",
            "'fields.a' uses $first, which needs an order",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, fields: {a: {$push: '$b'}}}",
            "'fields.a' uses $push, which needs an order",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, order: {z: 1}, fields: {a: {$sum: '$b'}}}",
            "'order' is used by none of the fields",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, fields: {a: {$mergeObjects: '$b'}}}",
            "'fields.a' uses $mergeObjects, which needs an order: declare 'order'",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, fields: {a: {$concatArrays: '$b'}}}",
            "'fields.a' uses $concatArrays, which needs an order",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, window: {last: '1d'}, fields: {a: {$count: {}}}}",
            "'window.field' is missing",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, window: {field: 'at', last: 'a month'}, fields: {a: {$count: {}}}}",
            "'window.last' must be a time like '12h' or '30d', found 'a month'",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, window: {field: 'at', last: '1d', until: 1}, fields: {a: {$count: {}}}}",
            "'window.until' is unknown",
        ),
        (
            "{kind: 'computed', window: {field: 'at', last: '1d'}, fields: {a: '$b'}}",
            "'window' needs 'from'",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, filter: {$expr: {$gte: ['$at', '$$NOW']}}, fields: {a: {$count: {}}}}",
            "'filter.$expr.$gte.1' uses $$NOW",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, fields: {a: {$median: {input: '$b'}}}}",
            "'$median.method' is missing",
        ),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, fields: {a: {$percentile: {input: '$b', p: ['$c'], method: 'approximate'}}}}",
            "must be an array of constant values",
        ),
        ("{kind: 'computed', from: 'c', on: {foreign: 'x'}, fields: {a: '$b'}}", "fields.a"),
        (
            "{kind: 'computed', from: 'c', on: {foreign: 'x'}, fields: {a: {$maxN: {n: '$k', input: '$b'}}}}",
            "a",
        ),
        (
            "{kind: 'computed', into: 't', groupBy: '$x', fields: {a: {$count: {}}}}",
            "'into' must be another collection",
        ),
        (
            "{kind: 'computed', from: 'c', into: 'g', groupBy: '$x', fields: {a: {$count: {}}}}",
            "leave 'from' out",
        ),
        (
            "{kind: 'computed', into: 'g', groupBy: '$x', on: {foreign: 'x'}, fields: {a: {$count: {}}}}",
            "'on' makes no sense with 'groupBy'",
        ),
        (
            "{kind: 'extendedReference', ref: 'c', from: 'cs', fields: [], into: 'x'}",
            "'fields' must name at least one field",
        ),
        (
            "{kind: 'extendedReference', ref: 'c._id', from: 'cs', fields: ['_id'], into: 'c'}",
            "'c._id' would be the reference itself",
        ),
        (
            "{kind: 'extendedReference', ref: 'c._id', from: 'cs', fields: ['n'], into: 'c', mode: {async: {}}, overLimit: 'reject'}",
            "'overLimit: reject' needs the mode 'sync'",
        ),
        (
            "{kind: 'extendedReference', ref: 'c._id', from: 'cs', fields: [{as: 'n'}], into: 'c'}",
            "'fields.0' must be a path or {as",
        ),
        (
            "{kind: 'subset', into: 't', from: 'r', on: {foreign: 'p'}, limit: 5, fields: []}",
            "'sort' is missing",
        ),
        (
            "{kind: 'subset', into: 't', from: 'r', on: {foreign: 'p'}, sort: {}, limit: 5, fields: []}",
            "'sort' must name",
        ),
        (
            "{kind: 'subset', into: 't', from: 'r', on: {foreign: 'p'}, sort: {a: 1}, fields: []}",
            "'limit' is missing",
        ),
        (
            "{kind: 'subset', into: 't', from: 'r', on: {foreign: 'p'}, sort: {a: 1}, limit: 10001, fields: []}",
            "'limit' cannot be above",
        ),
        (
            "{kind: 'subset', into: 't', from: 'r', on: {foreign: 'p'}, sort: {a: 1}, limit: 5, fields: ['x', 'x']}",
            "'fields' names 'x' twice",
        ),
        (
            "{kind: 'subset', into: 't', from: 'r', on: {foreign: 'p'}, sort: {a: 1}, limit: 5, fields: ['x'], idAs: 'x'}",
            "'idAs' and 'fields' both name 'x'",
        ),
        (
            "{kind: 'subset', into: 't', from: 'r', on: {foreign: 'p'}, sort: {a: 1}, limit: 5, fields: [], count: 't.n'}",
            "conflict with each other",
        ),
        ("{kind: 'subset', cold: []}", "'cold' must name at least one field"),
        ("{kind: 'subset', cold: ['_id']}", "'cold' cannot name '_id'"),
        ("{kind: 'subset', cold: ['a', '_id.x']}", "'cold' cannot name '_id'"),
        ("{kind: 'subset', cold: ['x', 'x']}", "'cold' names 'x' twice"),
        ("{kind: 'subset', cold: ['x', 'x.y']}", "'cold' names both 'x' and 'x.y'"),
        ("{kind: 'subset', cold: ['x.0']}", "'cold' must be a dotted path of field names"),
        ("{kind: 'subset', cold: ['x'], inlineBelow: 0}", "'inlineBelow' must be a whole number"),
        ("{kind: 'subset', inlineBelow: 5}", "'inlineBelow' needs 'cold'"),
        ("{kind: 'subset', cold: ['x'], from: 'c'}", "'from' and 'cold' exclude each other"),
        ("{kind: 'subset', cold: ['x'], limit: 3}", "'limit' and 'cold' exclude each other"),
        (
            "{kind: 'subset', cold: ['x'], mode: {async: {}}}",
            "'mode' must be 'sync' for cold fields",
        ),
        (
            "{kind: 'subset', cold: ['x'], inlineBellow: 5}",
            "'inlineBellow' is not an option of the kind 'subset' (did you mean 'inlineBelow'?)",
        ),
        ("{kind: 'tree', maintain: {}}", "'maintain' must ask for"),
        ("{kind: 'tree', maintain: {width: 'w'}}", "'maintain.width' is unknown"),
        (
            "{kind: 'tree', maintain: {depth: 'd'}, order: 'o'}",
            "'order' is the order of nested sets",
        ),
        (
            "{kind: 'tree', maintain: {depth: 'd'}, id: 'parent'}",
            "'id' and 'parent' must be different",
        ),
        (
            "{kind: 'tree', maintain: {depth: 'parent'}}",
            "it reads 'parent', which it maintains itself",
        ),
        (
            "{kind: 'tree', maintain: {depth: 'd'}, mode: {every: '1h'}, strategy: 'pointer'}",
            "'mode' must be 'sync' with 'strategy: pointer'",
        ),
        (
            "{kind: 'tree', maintain: {nestedSet: {lft: 'l'}}}",
            "'maintain.nestedSet.lft' and 'rgt' is missing",
        ),
        (
            "{kind: 'tree', maintain: {nestedSet: {lft: 'l', rgt: 'r', dense: 1}}}",
            "'maintain.nestedSet.dense' must be true or false",
        ),
        (
            "{kind: 'tree', maintain: {nestedSet: {lft: 'l', rgt: 'r', dense: true}}, strategy: 'pointer'}",
            "'maintain.nestedSet.dense' needs 'strategy: copy'",
        ),
        (
            "{kind: 'tree', maintain: {nestedSet: {lft: 'l', rgt: 'r', dense: true}}, mode: {every: '1h'}}",
            "'mode' must be 'sync' with 'maintain.nestedSet.dense'",
        ),
        ("{kind: 'tree', maintain: {path: {into: 'p', sep: ''}}}", "'maintain.path.sep'"),
        ("{kind: 'tree', maintain: {path: {sep: '/'}}}", "'maintain.path.into' is missing"),
        (
            "{kind: 'tree', maintain: {depth: 'd'}, onDelete: 'explode'}",
            "'onDelete' must be one of 'restrict'",
        ),
        ("{kind: 'tree', maintain: {depth: 'd'}, verify: {scrub: 'often'}}", "'verify.scrub'"),
        ("{kind: 'tree', maintain: {depth: 'd'}, verify: {scrub: '0/day'}}", "'verify.scrub'"),
        ("{kind: 'tree', maintain: {depth: 'd'}, verify: {onDrift: 'shout'}}", "'verify.onDrift'"),
        ("{kind: 'tree', maintain: {depth: 'd'}, verify: {how: 1}}", "'verify.how' is unknown"),
        ("{kind: 'tree', maintain: {depth: 'd'}, backfill: {batch: 0}}", "'backfill.batch'"),
        ("{kind: 'tree', maintain: {depth: 'd'}, backfill: {rate: 'fast'}}", "'backfill.rate'"),
        (
            "{kind: 'tree', maintain: {depth: 'd'}, depth: 5}",
            "'depth' is not an option of the kind 'tree'",
        ),
        (
            "{kind: 'tree', maintain: {depth: 'd'}, parent: 'a', parent: 'b'}",
            "'parent' occurs twice",
        ),
    ];
    for (text, wanted) in cases {
        let doc = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        match parse("t", doc.as_doc()) {
            Ok(_) => panic!("{text} was accepted"),
            Err(error) => assert!(error.message().contains(wanted), "{text}\n{error}\n{wanted}"),
        }
    }
}

#[test]
fn short_forms_mean_the_long_ones() {
    let declared = |text: &str| {
        let doc = ejson::parse_doc(text).expect("test text");
        parse("t", doc.as_doc()).unwrap_or_else(|e| panic!("{text}: {e}")).declaration
    };
    for (short, long) in [
        (
            "{kind: 'computed', name: 'x', from: 'c', on: 'p', fields: {n: {$count: {}}}}",
            "{kind: 'computed', name: 'x', from: 'c', on: {local: '_id', foreign: 'p'}, fields: {n: {$count: {}}}}",
        ),
        (
            "{kind: 'subset', name: 'x', from: 'c', into: 't', on: {localField: 'k', foreignField: 'p'}, sort: {a: 1}, limit: 1}",
            "{kind: 'subset', name: 'x', from: 'c', into: 't', on: {local: 'k', foreign: 'p'}, sort: {a: 1}, limit: 1, fields: '*'}",
        ),
        (
            "{kind: 'tree', name: 'x', maintain: {depth: 'd', path: 'path'}}",
            "{kind: 'tree', name: 'x', maintain: {depth: 'd', path: {into: 'path'}}}",
        ),
        (
            "{kind: 'computed', name: 'x', into: 'g', groupBy: '$a', unwind: '$i', fields: {n: {$count: {}}}}",
            "{kind: 'computed', name: 'x', into: 'g', groupBy: '$a', unwind: 'i', fields: {n: {$count: {}}}}",
        ),
    ] {
        assert_eq!(declared(short), declared(long), "{short}");
    }
}
