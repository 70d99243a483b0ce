//! `$group`: one document for each value of a key, with accumulators over its documents.
//!
//! Groups are identified by the encoded bytes of the key, so that equal numbers of different types
//! share a group; the first value seen is returned. `program` processes a document, `table` holds
//! the groups, `spill` those that do not fit into memory, `read` reads the input, with two threads
//! where that pays, `ordered` returns groups early if the input is sorted by the key. This file has
//! the stage and its stream.

mod ordered;
mod program;
mod read;
mod spill;
mod states;
mod table;
#[cfg(test)]
mod tests;

use super::{CountShape, Role, Stage, StageContext, StageRow, UnwindSpec};
use crate::exec::{Doc, Examined, FieldRead, Stream, Visit};
use crate::memory::Share;
use crate::operation::Operation;
use bumpalo::Bump;
use ordered::Ordered;
use program::Program;
use query::accumulate::AccumulatorSpec;
use query::expr::Expr;
use query::project::Projection;
use spill::{Groups, Partition, Totals};
use table::Table;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$group",
    help: "Groups documents by a key, with accumulators over each group.",
    parse,
    ..StageRow::BASE
};

/// A compiled `$group`.
pub(crate) struct Group {
    spec: Spec,
    source: DocBuf,
    /// Set when the stage only counts: a constant key and one `{$sum: 1}`.
    counts: Option<(OwnedVal, String)>,
}

struct Spec {
    key: Expr,
    fields: Vec<(String, AccumulatorSpec)>,
}

impl Spec {
    /// Whether all of these fields that may fail to compute are computed for every document anyway:
    /// a projection also fails for fields that no later stage reads.
    fn reads_all(&self, made: &[(String, Expr)]) -> bool {
        let mut read: Vec<String> = Vec::new();
        match self.key.as_document() {
            Some(parts) => read.extend(parts.iter().filter_map(|(_, e)| e.as_field_path())),
            None => read.extend(self.key.as_field_path()),
        }
        read.extend(self.fields.iter().filter_map(|(_, f)| f.expression().as_field_path()));
        made.iter().all(|(name, expr)| {
            expr.as_field_path().is_some() || expr.as_constant().is_some() || read.contains(name)
        })
    }
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
    Ok(Box::new(Group { spec: Spec { key, fields }, source: doc.into(), counts }))
}

/// Recognises the `$group` of drivers' countDocuments: a constant key and a sum of ones.
fn counting(key: &Expr, fields: &[(String, AccumulatorSpec)]) -> Option<(OwnedVal, String)> {
    let [(name, sum)] = fields else { return None };
    let one = sum.expression().as_constant();
    let ones = sum.name() == "$sum" && matches!(one, Some(Val::Int32(1)));
    let id = key.as_constant().filter(|_| ones)?;
    Some((OwnedVal::new(id), name.clone()))
}

impl Stage for Group {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Grouping::new(input, Program::new(&self.spec)))
    }

    fn role(&self) -> Role<'_> {
        match &self.counts {
            Some((id, field)) => Role::Count(CountShape { id: id.get(), field }),
            None => Role::Group(self),
        }
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.append(ROW.name, Val::Document(self.source.as_doc()));
    }
}

/// A group that also replaces neighbouring stages.
pub(crate) struct Fused {
    program: Program,
    /// The stage that replaces the `$project` or `$addFields` after the group, if it changed.
    pub(crate) after: Option<Projection>,
}

impl Group {
    /// Combines the group with the `$unwind` and `$project` before it. If the stage after it only
    /// needs the sizes of sets, the group counts instead. `None` if the result would differ.
    #[must_use]
    pub(crate) fn fused(
        &self,
        unwind: Option<&UnwindSpec>,
        project: Option<&Projection>,
        behind: Option<&Projection>,
    ) -> Option<Fused> {
        let sets: Vec<&str> = self
            .spec
            .fields
            .iter()
            .filter(|(_, spec)| spec.counting().is_some())
            .map(|(name, _)| name.as_str())
            .collect();
        let sets: Vec<&str> = match behind {
            Some(p) => sets.into_iter().filter(|set| p.over_lengths(&[*set]).is_some()).collect(),
            None => Vec::new(),
        };
        let after = behind.filter(|_| !sets.is_empty()).and_then(|p| p.over_lengths(&sets));
        let counted: &[&str] = if after.is_some() { &sets } else { &[] };
        let program = Program::compile(&self.spec, unwind, project, counted)?;
        Some(Fused { program, after })
    }
}

impl Fused {
    /// The fields of the input that are read; `None` for possibly all.
    #[must_use]
    pub(crate) fn reads(&self) -> Option<&[FieldRead]> {
        self.program.reads.as_deref()
    }

    /// The path of the key field; `None` if the key is more than a field.
    #[must_use]
    pub(crate) fn key_path(&self) -> Option<&str> {
        self.program.key_path().filter(|_| !self.program.unwinds())
    }

    /// Set if no more than the first document of each group is needed: whether it is needed, or
    /// only the key of the group.
    #[must_use]
    pub(crate) fn firsts(&self) -> Option<bool> {
        let fields = &self.program.fields;
        let firsts = fields.iter().all(|(_, field)| field.name() == "$first");
        (firsts && !self.program.unwinds()).then_some(!fields.is_empty())
    }

    /// Opens the group over a stream in which the documents of each group are consecutive, and
    /// which can pause.
    #[must_use]
    pub(crate) fn open_ordered(self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        let groups = Box::new(Ordered::new(input, self.program));
        match self.after {
            None => groups,
            Some(projection) => super::open_projected(groups, projection),
        }
    }

    /// Opens the group, and the changed stage after it, over a stream.
    #[must_use]
    pub(crate) fn open(self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        let groups = Box::new(Grouping::new(input, self.program));
        match self.after {
            None => groups,
            Some(projection) => super::open_projected(groups, projection),
        }
    }
}

/// The stream of groups.
struct Grouping {
    input: Box<dyn Stream>,
    program: Program,
    /// Whether the input has been read.
    ready: bool,
    /// The groups in memory, and how many of them were returned.
    table: Table,
    given: usize,
    /// Groups on disk; the next ones are last.
    partitions: Vec<Partition>,
    arena: Bump,
    /// Parts of the input that are read in parallel.
    parts: Vec<Box<dyn Stream>>,
    totals: Totals,
    /// The memory accounting of the groups in the table.
    share: Option<Share>,
}

impl Grouping {
    fn new(input: Box<dyn Stream>, program: Program) -> Grouping {
        Grouping {
            input,
            table: Table::new(&program),
            program,
            ready: false,
            given: 0,
            partitions: Vec::new(),
            arena: Bump::new(),
            parts: Vec::new(),
            totals: Totals::default(),
            share: None,
        }
    }

    /// Ensures that there is a group in memory to return; false at the end.
    fn advance(&mut self, op: &Operation) -> Result<bool> {
        op.check()?;
        if !self.ready {
            self.ready = true;
            self.read(op)?;
        }
        op.check()?;
        while self.given == self.table.len() {
            // Returned groups are freed while the next ones are read.
            self.table = Table::new(&self.program);
            self.given = 0;
            let Some(partition) = self.partitions.pop() else { return Ok(false) };
            self.share = None;
            let groups = partition.read(&self.program, op)?;
            let Groups { table, partitions, totals, share } = groups;
            self.table = table;
            self.share = share;
            self.partitions.extend(partitions);
            self.totals.add(totals);
        }
        Ok(true)
    }

    fn read(&mut self, op: &Operation) -> Result<()> {
        let Grouping { input, program, parts, .. } = self;
        if program.fields.iter().all(|(_, spec)| spec.unites_exactly()) {
            *parts = input.split(2);
        }
        let groups = read::read(&mut **input, parts, program, op)?;
        let Groups { table, partitions, totals, share } = groups;
        self.table = table;
        self.share = share;
        self.partitions = partitions;
        self.totals = totals;
        Ok(())
    }
}

impl Stream for Grouping {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        if !self.advance(op)? {
            return Ok(None);
        }
        let mut doc = Vec::new();
        self.table.document(&self.program, self.given, &self.arena, &mut doc)?;
        self.arena.reset();
        self.given += 1;
        Ok(Some(Doc::Made(doc)))
    }

    fn for_each(&mut self, op: &Operation, visit: &mut Visit<'_>) -> Result<()> {
        let mut doc = Vec::new();
        while self.advance(op)? {
            doc.clear();
            self.table.document(&self.program, self.given, &self.arena, &mut doc)?;
            self.arena.reset();
            self.given += 1;
            visit(RawDoc::new(&doc))?;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.ready && self.partitions.is_empty() && self.given == self.table.len()
    }

    fn write_own_stats(&self, out: &mut Writer<'_>) {
        let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        out.bool("usedDisk", self.totals.spills > 0);
        out.i64("spills", long(self.totals.spills));
        out.i64("spilledBytes", long(self.totals.bytes));
        out.i64("spilledRecords", long(self.totals.groups));
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
        self.parts.iter().for_each(|part| part.examined(total));
    }
}
