//! Implements the trait `Kind` for types.

use super::Types;
use super::inference::Usefulness;
use super::tallies::Tallies;
use crate::answers::Question;
use crate::delta::{Delta, Deltas};
use crate::documents::Documents;
use crate::inspection::Inspection;
use crate::kind::{CheckedPart, Kind, Reads, StateCache, Traits};
use crate::pattern::{Pattern, Phase};
use crate::scratch::Scratch;
use crate::views::Views;
use std::any::Any;
use value::{DocBuf, RawDoc, Result, Writer};

impl Kind for Types {
    fn traits(&self) -> Traits {
        Traits {
            first_walk: true,
            records_of_sources: true,
            sync_only: Some("documents are checked when they are written: 'mode' must be 'sync'"),
            ..Traits::default()
        }
    }

    fn source(&self) -> Option<&str> {
        Some(&self.collection)
    }

    fn reads(&self) -> Reads {
        let mut source = vec![self.discriminator.text().to_owned()];
        for field in self.all.iter().flat_map(|of| &of.fields) {
            if !source.contains(field) {
                source.push(field.clone());
            }
        }
        Reads { source, target: Vec::new() }
    }

    fn maintains(&self) -> Vec<String> {
        self.path_field.iter().map(|field| field.text().to_owned()).collect()
    }

    fn arranges(&self) -> Vec<String> {
        vec![self.discriminator.text().to_owned()]
    }

    fn collection_options(&self) -> &'static [&'static str] {
        &[]
    }

    fn options_without_rebuild(&self) -> &'static [&'static str] {
        &["transitions"]
    }

    fn own_indexes(&self, pattern: &str) -> Vec<DocBuf> {
        let common = self.common_indexes.iter().map(|index| index.spec(&[pattern], None));
        let of_types = self.all.iter().flat_map(|of| {
            let condition = Some(of.condition.as_doc());
            of.indexes.iter().map(move |index| index.spec(&[pattern, &of.name], condition))
        });
        of_types.chain(common).collect()
    }

    fn views(&self) -> Option<&dyn Views> {
        self.has_views.then_some(self)
    }

    fn inspection(&self) -> Option<Box<dyn Inspection>> {
        Usefulness::of(self).map(|usefulness| Box::new(usefulness) as Box<dyn Inspection>)
    }

    fn fill(
        &self,
        pattern: &Pattern,
        _: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        // Until a new version is in use, the old one decides.
        if pattern.phase == Phase::Preparing {
            return Ok(None);
        }
        let moved = match before {
            Some(before) => self.changed_type(pattern, before, after)?,
            None => None,
        };
        let image = moved.as_ref().map_or(after, DocBuf::as_doc);
        self.check(pattern, before, image)?;
        Ok(self.with_path(image)?.or(moved))
    }

    fn note(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: Option<RawDoc<'_>>,
    ) -> Result<Option<Delta>> {
        if !pattern.has_walked(documents, after.or(before))? {
            return Ok(None);
        }
        Ok(self.tallies(before, after)?.map(|tallies| Delta::Own(tallies)))
    }

    fn settle(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        deltas: &Deltas,
    ) -> Result<()> {
        let Deltas::Own(own) = deltas else { return Ok(()) };
        let own: &dyn Any = &**own;
        match own.downcast_ref::<Tallies>() {
            Some(tallies) => tallies.settle(pattern, documents),
            None => Ok(()),
        }
    }

    fn visit(&self, _: &Pattern, _: &mut dyn Documents, doc: RawDoc<'_>) -> Result<Option<Delta>> {
        Ok(self.tallies(None, Some(doc))?.map(|tallies| Delta::Own(tallies)))
    }

    fn derive(&self, _: &Pattern, _: &mut dyn Documents, target: RawDoc<'_>) -> Result<DocBuf> {
        let typed = self.inferred(target)?;
        let image = typed.as_ref().map_or(target, DocBuf::as_doc);
        Ok(self.with_path(image)?.or(typed).unwrap_or_else(|| target.into()))
    }

    fn recount(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        source: RawDoc<'_>,
        _: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Delta>> {
        self.visit(pattern, documents, source)
    }

    /// Only a build infers types.
    fn expected(
        &self,
        _: &Pattern,
        _: &mut dyn Documents,
        _: &mut Scratch,
        target: RawDoc<'_>,
        _: &StateCache,
    ) -> Result<DocBuf> {
        Ok(self.with_path(target)?.unwrap_or_else(|| target.into()))
    }

    fn built(
        &self,
        fresh: &Pattern,
        documents: &mut dyn Documents,
        _: &mut Scratch,
        target: RawDoc<'_>,
        _: &StateCache,
    ) -> Result<DocBuf> {
        self.derive(fresh, documents, target)
    }

    fn has_wrong_records(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        records: &Scratch,
        part: &CheckedPart<'_>,
    ) -> Result<bool> {
        match part.is_whole {
            true => Types::has_wrong_tallies(pattern, documents, records),
            false => Ok(false),
        }
    }

    fn answer_count(&self, question: &Question<'_>, filter: RawDoc<'_>) -> Result<Option<u64>> {
        self.counted(question, filter)
    }

    fn answer_filter(&self, question: &Question<'_>, filter: RawDoc<'_>) -> Result<Option<DocBuf>> {
        self.implied(question, filter)
    }

    fn describe(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        out: &mut Writer<'_>,
    ) -> Result<()> {
        if !pattern.phase.is_built() {
            return Ok(());
        }
        let totals = self.totals(pattern, documents)?;
        let write = |out: &mut Writer<'_>, (count, bytes): (i64, i64)| {
            out.count("documents", counted(count)).count("bytes", counted(bytes));
        };
        out.doc("types", |out| {
            for (of, total) in self.all.iter().zip(&totals.types) {
                out.doc(&of.name, |out| write(out, *total));
            }
        });
        if self.allows_unknown || totals.unknown.0 > 0 {
            out.doc("unknown", |out| write(out, totals.unknown));
        }
        out.count("unresolved", counted(totals.unresolved));
        if totals.unresolved > 0 {
            out.array("unresolvedIds", |out| {
                totals.ids.iter().for_each(|id| out.push(id.get()));
            });
            out.str("warning", &self.warning(totals.unresolved));
        }
        Ok(())
    }
}

/// A count as it is shown.
fn counted(number: i64) -> u64 {
    number.max(0) as u64
}

impl Types {
    /// What `listPatterns` says of unresolved documents.
    fn warning(&self, unresolved: i64) -> String {
        let documents = match unresolved {
            1 => "1 document has".to_owned(),
            many => format!("{many} documents have"),
        };
        format!(
            "{documents} no declared type in '{}', or {} not valid for it",
            self.discriminator.text(),
            if unresolved == 1 { "is" } else { "are" }
        )
    }
}
