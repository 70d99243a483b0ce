//! Fields that are computed from the same document whenever it is written.

use crate::documents::Documents;
use crate::edit::{self, Assignment};
use crate::kind::{Kind, Reads, Traits};
use crate::labels::{self, Label};
use crate::pattern::Pattern;
use bumpalo::Bump;
use query::expr::{Env, Expr};
use value::path::Path;
use value::{DocBuf, OwnedVal, RawDoc, Result};

/// Computed fields of one document.
#[derive(Debug)]
pub struct Same {
    /// The path and expression of each field.
    pub fields: Vec<(Path, Expr)>,
    /// The paths that the expressions read.
    pub reads: Vec<String>,
    /// Whether an expression that fails leaves its field out, instead of refusing the write.
    pub skip_errors: bool,
}

impl Same {
    /// The document with its computed fields.
    ///
    /// # Errors
    /// Errors of expressions.
    fn computed(&self, doc: RawDoc<'_>) -> Result<DocBuf> {
        let arena = Bump::new();
        let env = Env::new(doc, &arena);
        let mut changes: Vec<Assignment> = Vec::with_capacity(self.fields.len());
        for (path, expression) in &self.fields {
            let value = match expression.eval(&env) {
                Ok(value) if value.is_missing() => None,
                Ok(value) => Some(OwnedVal::new(value)),
                Err(_) if self.skip_errors => None,
                Err(error) => return Err(error),
            };
            changes.push((path.clone(), value));
        }
        edit::assign(doc, &changes)
    }
}

impl Kind for Same {
    fn traits(&self) -> Traits {
        Traits {
            sync_only: Some(
                "'mode' must be 'sync' here: what is maintained belongs to the document that is \
                 written",
            ),
            ..Traits::default()
        }
    }

    fn reads(&self) -> Reads {
        Reads { source: self.reads.clone(), target: Vec::new() }
    }

    fn maintains(&self) -> Vec<String> {
        self.fields.iter().map(|(path, _)| path.text().to_owned()).collect()
    }

    fn labels(&self, pattern: &Pattern) -> Vec<Label> {
        labels::of_expressions(pattern)
    }

    fn fill(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        self.computed(after).map(Some)
    }

    fn derive(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<DocBuf> {
        self.computed(target)
    }
}
