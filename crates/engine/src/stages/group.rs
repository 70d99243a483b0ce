//! `$group`: one document for each value of a key, with accumulators over its documents.
//!
//! Groups are found by the encoded bytes of the key, so that equal numbers of different types
//! unite; the first value that was seen is the one shown.

use super::{CountShape, Role, Stage, StageContext, StageRow};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use bumpalo::Bump;
use hashbrown::HashMap;
use query::accumulate::{Accumulator, AccumulatorSpec};
use query::expr::{Env, Expr};
use std::sync::Arc;
use value::{Code, DocBuf, Error, OwnedVal, Result, Val, Writer, keys, limits};

pub(super) static ROW: StageRow = StageRow {
    name: "$group",
    help: "Makes one document for each value of a key, with accumulators over its documents.",
    parse,
};

struct Group {
    spec: Arc<Spec>,
    source: DocBuf,
    /// Set when the stage only counts: a constant key and one `{$sum: 1}`.
    counts: Option<(OwnedVal, String)>,
}

struct Spec {
    key: Expr,
    fields: Vec<(String, AccumulatorSpec)>,
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return Err(Error::new(Code(15947), "a group's fields must be specified in an object"));
    };
    let mut key = None;
    let mut fields = Vec::new();
    for (name, value) in doc {
        if name == "_id" {
            key = Some(Expr::parse(value.get(), context)?);
            continue;
        }
        if name.contains('.') {
            return Err(Error::new(
                Code(40235),
                format!("The field name '{name}' cannot contain '.'"),
            ));
        }
        if name.starts_with('$') {
            return Err(Error::new(
                Code(40236),
                format!("The field name '{name}' cannot be an operator name"),
            ));
        }
        fields.push((name.to_owned(), AccumulatorSpec::parse(name, value.get(), context)?));
    }
    let Some(key) = key else {
        return Err(Error::new(Code(15955), "a group specification must include an _id"));
    };
    let counts = counting(&key, &fields);
    Ok(Box::new(Group { spec: Arc::new(Spec { key, fields }), source: doc.into(), counts }))
}

/// The shape of drivers' countDocuments: a constant key and the sum of ones.
fn counting(key: &Expr, fields: &[(String, AccumulatorSpec)]) -> Option<(OwnedVal, String)> {
    let [(name, sum)] = fields else { return None };
    let one = sum.expression().as_constant();
    let ones = sum.name() == "$sum" && matches!(one, Some(Val::Int32(1)));
    let id = key.as_constant().filter(|_| ones)?;
    Some((OwnedVal::new(id), name.clone()))
}

impl Stage for Group {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Grouping { input, spec: Some(self.spec.clone()), docs: Vec::new().into_iter() })
    }

    fn role(&self) -> Role<'_> {
        match &self.counts {
            Some((id, field)) => Role::Count(CountShape { id: id.get(), field }),
            None => Role::Other,
        }
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.append(ROW.name, Val::Document(self.source.as_doc()));
    }
}

struct Grouping {
    input: Box<dyn Stream>,
    spec: Option<Arc<Spec>>,
    docs: std::vec::IntoIter<Vec<u8>>,
}

struct State {
    id: OwnedVal,
    accumulators: Vec<Accumulator>,
}

/// How many documents pass between two looks at the memory in use.
const DOCUMENTS_BETWEEN_LOOKS: u64 = 1024;

fn group(input: &mut dyn Stream, spec: &Spec, op: &Operation) -> Result<Vec<Vec<u8>>> {
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut groups: Vec<State> = Vec::new();
    let mut arena = Bump::new();
    let mut key = Vec::new();
    let mut seen: u64 = 0;
    while let Some(doc) = input.next(op)? {
        {
            let env = Env::new(doc.raw(), &arena);
            let id = spec.key.eval(&env)?;
            let id = if id.is_missing() { Val::Null } else { id };
            key.clear();
            keys::encode_with(&mut key, id, false, spec.key.collation().map(|c| &**c));
            let place = match places.get(key.as_slice()) {
                Some(place) => *place,
                None => {
                    let start = |(_, spec): &(String, AccumulatorSpec)| spec.start(id);
                    let accumulators = spec.fields.iter().map(start).collect::<Result<_>>()?;
                    groups.push(State { id: OwnedVal::new(id), accumulators });
                    places.insert(key.clone(), groups.len() - 1);
                    groups.len() - 1
                }
            };
            let Some(state) = groups.get_mut(place) else { continue };
            for ((_, spec), accumulator) in spec.fields.iter().zip(&mut state.accumulators) {
                accumulator.process(spec.argument(&env)?)?;
            }
        }
        arena.reset();
        seen += 1;
        if seen.is_multiple_of(DOCUMENTS_BETWEEN_LOOKS) {
            check_memory(&groups)?;
        }
    }
    let mut docs = Vec::with_capacity(groups.len());
    for state in &groups {
        op.check()?;
        let mut bytes = Vec::new();
        let mut out = Writer::start(&mut bytes);
        out.raw("_id", state.id.raw());
        for ((name, _), accumulator) in spec.fields.iter().zip(&state.accumulators) {
            out.append(name, accumulator.finish(&arena)?);
        }
        out.finish();
        arena.reset();
        docs.push(bytes);
    }
    Ok(docs)
}

fn check_memory(groups: &[State]) -> Result<()> {
    let of = |state: &State| {
        let own: usize = state.accumulators.iter().map(Accumulator::memory_bytes).sum();
        own + state.id.raw().bytes.len() * 2 + 64
    };
    // A look at every group would cost more than the grouping; a sample is close enough.
    let step = (groups.len() / 256).max(1);
    let sample: usize = groups.iter().step_by(step).map(of).sum();
    if sample.saturating_mul(step) > limits::BLOCKING_STAGE_BYTES_MAX {
        return Err(Error::new(
            Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
            format!("Exceeded memory limit for $group: {} bytes", limits::BLOCKING_STAGE_BYTES_MAX),
        ));
    }
    Ok(())
}

impl Stream for Grouping {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        if let Some(spec) = self.spec.take() {
            self.docs = group(&mut *self.input, &spec, op)?.into_iter();
        }
        Ok(self.docs.next().map(Doc::Made))
    }

    fn is_done(&self) -> bool {
        self.spec.is_none() && self.docs.len() == 0
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}
