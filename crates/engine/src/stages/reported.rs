//! Stages that report on a collection, inside of views and nested pipelines. At the beginning of a
//! command's own pipeline they are made at once (`diagnostics`).

use super::{Role, Stage, StageContext, StageRow};
use crate::exec::{Doc, Stream};
use crate::operation::Operation;
use crate::txn::Data;
use std::sync::{Arc, Weak};
use value::{DocBuf, Error, OwnedVal, Result, Val, Writer};

/// Makes the documents of a stage, from the database, its argument and the collection.
pub(super) type Report = fn(&Data, &str, Val<'_>, &str) -> Result<Vec<DocBuf>>;

/// A stage that reports on the collection that its pipeline would read.
pub(super) struct Reported(Arc<Spec>);

struct Spec {
    row: &'static StageRow,
    make: Report,
    argument: OwnedVal,
    /// What to report on; `None` when the pipeline is only checked.
    place: Option<Place>,
}

struct Place {
    data: Weak<Data>,
    db: String,
    collection: String,
}

impl Reported {
    /// Compiles a stage whose argument was checked.
    pub(super) fn parse(
        row: &'static StageRow,
        make: Report,
        value: Val<'_>,
        context: &StageContext<'_>,
    ) -> Result<Box<dyn Stage>> {
        let data = context.scope.and_then(|scope| scope.data.clone());
        let place = match (data, context.source) {
            (Some(data), Some(name)) => {
                Some(Place { data, db: context.db.to_owned(), collection: name.to_owned() })
            }
            _ => None,
        };
        Ok(Box::new(Reported(Arc::new(Spec { row, make, argument: value.into(), place }))))
    }
}

impl Spec {
    fn documents(&self) -> Result<Vec<DocBuf>> {
        let opened = self.place.as_ref().and_then(|place| Some((place, place.data.upgrade()?)));
        let Some((place, data)) = opened else {
            return Err(Error::internal("a pipeline that was only checked does not run"));
        };
        (self.make)(&data, &place.db, self.argument.get(), &place.collection)
    }
}

impl Stage for Reported {
    fn open(&self, _: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Reporting { spec: self.0.clone(), documents: None })
    }

    fn role(&self) -> Role<'_> {
        Role::Source
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.raw(self.0.row.name, self.0.argument.raw());
    }
}

/// The documents, which are made when the first one is read.
struct Reporting {
    spec: Arc<Spec>,
    documents: Option<std::vec::IntoIter<DocBuf>>,
}

impl Stream for Reporting {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        let documents = match &mut self.documents {
            Some(documents) => documents,
            None => self.documents.insert(self.spec.documents()?.into_iter()),
        };
        Ok(documents.next().map(|doc| Doc::Made(doc.into_bytes())))
    }
}
