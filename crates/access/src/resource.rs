//! The resources of privileges.

use value::{Code, Error, RawDoc, Result, Val, Writer};

/// The resource of a privilege.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Resource {
    /// Everything, collections of the system included.
    Anything,
    /// The server as a whole.
    Cluster,
    /// All collections that are not the system's, but for those of `local` and `config`.
    AnyCollection,
    /// All collections of a database that are not the system's.
    Database(Box<str>),
    /// The collections of this name in every database.
    Named(Box<str>),
    /// One collection.
    Exact(Box<str>, Box<str>),
    /// The buckets of time series, of one database or of all, of one collection or of all.
    Buckets(Option<Box<str>>, Option<Box<str>>),
}

/// The prefix of the collections that hold the buckets of time series.
pub const BUCKETS_PREFIX: &str = "system.buckets.";

impl Resource {
    /// Reads `{db, collection}`, `{cluster: true}`, `{anyResource: true}` or `{db, system_buckets}`.
    ///
    /// # Errors
    /// FailedToParse or BadValue when it is none of them.
    pub fn parse(doc: RawDoc<'_>) -> Result<Resource> {
        let wrong = |message: &str| Error::new(Code::FAILED_TO_PARSE, message);
        let (mut db, mut collection, mut buckets, mut whole) = (None, None, None, None);
        for (name, value) in doc {
            let value = value.get();
            match (name, value) {
                ("db", Val::String(text)) => db = Some(text),
                ("collection", Val::String(text)) => collection = Some(text),
                ("system_buckets", Val::String(text)) => buckets = Some(text),
                ("cluster", Val::Bool(true)) => whole = Some(Resource::Cluster),
                ("anyResource", Val::Bool(true)) => whole = Some(Resource::Anything),
                ("cluster" | "anyResource", Val::Bool(false)) => {
                    return Err(wrong("cluster and anyResource can only be true"));
                }
                ("db" | "collection" | "system_buckets" | "cluster" | "anyResource", other) => {
                    return Err(Error::type_mismatch(format!(
                        "wrong type for field ({name}): {}",
                        other.kind().name()
                    )));
                }
                _ => return Err(wrong(&format!("a resource has no field `{name}`"))),
            }
        }
        if let Some(whole) = whole {
            if db.is_some() || collection.is_some() || buckets.is_some() {
                return Err(wrong(
                    "resource must have only one of {db, collection}, cluster and anyResource",
                ));
            }
            return Ok(whole);
        }
        let some = |text: &str| (!text.is_empty()).then(|| text.into());
        match (db, collection, buckets) {
            (db, None, Some(name)) => Ok(Resource::Buckets(db.and_then(some), some(name))),
            (Some(db), Some(collection), None) => Ok(match (some(db), some(collection)) {
                (None, None) => Resource::AnyCollection,
                (Some(db), None) => Resource::Database(db),
                (None, Some(name)) => Resource::Named(name),
                (Some(db), Some(name)) => Resource::Exact(db, name),
            }),
            (Some(_), None, None) => Err(wrong("resource must set both db and collection")),
            (None, Some(_), None) => Err(wrong("resource must set both db and collection")),
            _ => Err(wrong(
                "resource must be {db, collection}, {cluster: true} or {anyResource: true}",
            )),
        }
    }

    /// Writes its fields.
    pub fn write(&self, out: &mut Writer<'_>) {
        let mut pair = |db: &str, collection: &str| {
            out.str("db", db).str("collection", collection);
        };
        match self {
            Resource::AnyCollection => pair("", ""),
            Resource::Database(db) => pair(db, ""),
            Resource::Named(name) => pair("", name),
            Resource::Exact(db, name) => pair(db, name),
            Resource::Anything => {
                out.bool("anyResource", true);
            }
            Resource::Cluster => {
                out.bool("cluster", true);
            }
            Resource::Buckets(db, name) => {
                if let Some(db) = db {
                    out.str("db", db);
                }
                out.str("system_buckets", name.as_deref().unwrap_or(""));
            }
        }
    }

    /// The database that the resource lies in, if it is in one.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        match self {
            Resource::Database(db) | Resource::Exact(db, _) | Resource::Buckets(Some(db), _) => {
                Some(db)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{DocBuf, ejson};

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            "{db: 'a', collection: 'b'}",
            "{db: 'a', collection: ''}",
            "{db: '', collection: 'b'}",
            "{db: '', collection: ''}",
            "{cluster: true}",
            "{anyResource: true}",
            "{system_buckets: ''}",
            "{db: 'a', system_buckets: 'x'}",
        ] {
            let doc = ejson::parse_doc(text).expect("test text");
            let resource = Resource::parse(doc.as_doc()).expect(text);
            let again = DocBuf::build(|out| resource.write(out));
            assert_eq!(again.bytes(), doc.bytes(), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "{}",
            "{db: 'a'}",
            "{collection: 'a'}",
            "{cluster: false}",
            "{cluster: true, db: 'a', collection: 'b'}",
            "{db: 1, collection: 'b'}",
            "{db: 'a', collection: 'b', x: 1}",
        ] {
            let doc = ejson::parse_doc(text).expect("test text");
            assert!(Resource::parse(doc.as_doc()).is_err(), "{text}");
        }
    }
}
