//! The view of each type: it shows the documents of the type and of those below it, and takes writes
//! for these only.

use super::{Found, Types};
use crate::edit;
use crate::error_context::value_text;
use crate::views::Views;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val};

impl Views for Types {
    fn all(&self) -> Vec<(String, DocBuf)> {
        self.all.iter().map(|of| (of.name.clone(), of.condition.clone())).collect()
    }

    /// A document without a type gets that of the view.
    fn complete(&self, view: &str, doc: RawDoc<'_>) -> Result<Option<DocBuf>> {
        let Some(of) = self.by_name.get(view).and_then(|at| self.at(*at)) else { return Ok(None) };
        if of.is_abstract || !self.discriminator.get(doc).is_missing() {
            return Ok(None);
        }
        let name = OwnedVal::new(Val::String(&of.name));
        edit::assign(doc, &[(self.discriminator.clone(), Some(name))]).map(Some)
    }

    fn check(&self, pattern: &str, view: &str, image: RawDoc<'_>) -> Result<()> {
        let of = self.by_name.get(view).and_then(|at| self.at(*at));
        let members = of.map_or(&[][..], |of| &of.members);
        if matches!(self.found(image), Found::Known(at) if members.contains(&at)) {
            return Ok(());
        }
        let found = match self.discriminator.get(image) {
            Val::Missing => "missing".to_owned(),
            value => value_text(value),
        };
        Err(Error::new(
            Code::PATTERN_VIOLATION,
            format!(
                "pattern '{pattern}': '{}' is {found}, which the view '{}.{view}' does not show: write to \
                 '{}' itself",
                self.discriminator.text(),
                self.collection,
                self.collection
            ),
        ))
    }
}
