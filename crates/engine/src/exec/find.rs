//! The stream of a `find`: scan, filter, sort, skip, limit, project.

use super::scan::{Row, Scan};
use super::sort::Sorter;
use super::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::planner::Plan;
use bumpalo::Bump;
use query::filter::Filter;
use query::project::Projection;
use query::sort::SortSpec;
use std::sync::Arc;
use value::{RawDoc, Result};

/// What a find does with the documents of a plan.
#[derive(Default)]
pub struct FindOptions {
    /// Which documents.
    pub filter: Option<Arc<Filter>>,
    /// In which order.
    pub sort: Option<SortSpec>,
    /// How many are passed over.
    pub skip: u64,
    /// How many are returned.
    pub limit: Option<u64>,
    /// What is returned of each.
    pub projection: Option<Arc<Projection>>,
}

/// The documents of a find.
pub struct FindStream {
    scan: Scan,
    filter: Option<Arc<Filter>>,
    sorter: Option<Sorter>,
    sorted: Option<std::vec::IntoIter<Vec<u8>>>,
    skip: u64,
    left: Option<u64>,
    projection: Option<Arc<Projection>>,
    arena: Bump,
    sort_bytes: usize,
}

// The arena is empty between two calls of `next`.
impl FindStream {
    /// A stream over the documents that a plan finds.
    #[must_use]
    pub fn new(scan: Scan, plan: &Plan, options: FindOptions) -> FindStream {
        let wanted = options.limit.map(|limit| options.skip.saturating_add(limit));
        let wanted = wanted.and_then(|count| usize::try_from(count).ok());
        let sorter = match options.sort {
            Some(sort) if !plan.sorted => Some(Sorter::new(sort, wanted)),
            _ => None,
        };
        FindStream {
            scan,
            filter: if plan.exact { None } else { options.filter },
            sorter,
            sorted: None,
            skip: options.skip,
            left: options.limit,
            projection: options.projection,
            arena: Bump::new(),
            sort_bytes: 0,
        }
    }

    /// Bytes that a blocking sort held, for explain.
    #[must_use]
    pub fn sort_bytes(&self) -> usize {
        self.sort_bytes
    }

    /// Puts another scan in place of the one that ended: a tailable cursor goes on.
    pub fn go_on(&mut self, scan: Scan) {
        self.scan = scan;
    }

    /// The next row that matches, before sort, skip and limit.
    fn matching(&mut self, op: &Operation) -> Result<Option<(Row, Option<usize>)>> {
        while let Some(row) = self.scan.next(op)? {
            let mut position = None;
            let passes = match &self.filter {
                None => true,
                Some(filter) => filter.matches_at(RawDoc::new(&row.doc), &mut position)?,
            };
            if passes {
                return Ok(Some((row, position)));
            }
        }
        Ok(None)
    }

    fn ordered(&mut self, op: &Operation) -> Result<Option<(Doc, Option<usize>)>> {
        if let Some(mut sorter) = self.sorter.take() {
            while let Some((row, _)) = self.matching(op)? {
                sorter.push(RawDoc::new(&row.doc))?;
            }
            self.sort_bytes = sorter.bytes();
            self.sorted = Some(sorter.finish());
        }
        match &mut self.sorted {
            None => {
                let found = self.matching(op)?;
                Ok(found.map(|(row, position)| (Doc::Stored(row.doc), position)))
            }
            Some(docs) => {
                op.check()?;
                let Some(doc) = docs.next() else { return Ok(None) };
                let mut position = None;
                let needs = self.projection.as_ref().is_some_and(|p| p.needs_position());
                if let (true, Some(filter)) = (needs, &self.filter) {
                    filter.matches_at(RawDoc::new(&doc), &mut position)?;
                }
                Ok(Some((Doc::Made(doc), position)))
            }
        }
    }

    /// The next document in natural order with its record's key: for tailable cursors.
    ///
    /// # Errors
    /// As `next`.
    pub fn next_row(&mut self, op: &Operation) -> Result<Option<(Vec<u8>, Doc)>> {
        while self.left != Some(0) {
            let Some((row, position)) = self.matching(op)? else { return Ok(None) };
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            if let Some(left) = &mut self.left {
                *left -= 1;
            }
            let record = row.record.to_vec();
            let doc = self.project(Doc::Stored(row.doc), position)?;
            return Ok(Some((record, doc)));
        }
        Ok(None)
    }

    /// Whether the limit is reached.
    #[must_use]
    pub fn has_reached_limit(&self) -> bool {
        self.left == Some(0)
    }

    fn project(&mut self, doc: Doc, position: Option<usize>) -> Result<Doc> {
        let Some(projection) = &self.projection else { return Ok(doc) };
        let mut out = Vec::with_capacity(doc.len());
        projection.apply(doc.raw(), position, &self.arena, &mut out)?;
        self.arena.reset();
        Ok(Doc::Made(out))
    }
}

impl Stream for FindStream {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        loop {
            if self.left == Some(0) {
                return Ok(None);
            }
            let Some((doc, position)) = self.ordered(op)? else { return Ok(None) };
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            if let Some(left) = &mut self.left {
                *left -= 1;
            }
            return self.project(doc, position).map(Some);
        }
    }

    fn is_done(&self) -> bool {
        let empty = match &self.sorted {
            Some(docs) => docs.len() == 0,
            None => self.sorter.is_none() && self.scan.is_done(),
        };
        empty || self.has_reached_limit()
    }

    fn examined(&self, total: &mut Examined) {
        let own = self.scan.examined();
        total.keys += own.keys;
        total.documents += own.documents;
    }
}
