//! `Kind` for a bucket: it maintains nothing and decides how documents are stored.

use super::Bucket;
use super::answer;
use crate::answers::{GroupAnswer, GroupQuery, Question};
use crate::documents::Documents;
use crate::kind::{Kind, Reads, Traits};
use crate::layout::Layout;
use crate::pattern::Pattern;
use value::{DocBuf, RawDoc, Result};

impl Kind for Bucket {
    fn traits(&self) -> Traits {
        Traits {
            sync_only: Some("'mode' must be 'sync': buckets are how documents are stored"),
            ..Traits::default()
        }
    }

    fn reads(&self) -> Reads {
        Reads::default()
    }

    fn maintains(&self) -> Vec<String> {
        Vec::new()
    }

    fn layout(&self) -> Option<&dyn Layout> {
        Some(&self.layout)
    }

    fn fill(
        &self,
        _: &Pattern,
        _: &mut dyn Documents,
        _: Option<RawDoc<'_>>,
        _: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        Ok(None)
    }

    fn derive(&self, _: &Pattern, _: &mut dyn Documents, target: RawDoc<'_>) -> Result<DocBuf> {
        Ok(target.into())
    }

    fn answer_group(
        &self,
        question: &Question<'_>,
        query: &GroupQuery<'_>,
    ) -> Result<Option<GroupAnswer>> {
        answer::group(&self.layout.settings, question, query)
    }
}
