//! A stage as written, with its kind and the parts that rules use.

use query::sort::SortSpec;
use value::{DocBuf, RawDoc, RawVal, Val};

/// The stages that rules recognise; all others stay in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `$addFields` and `$set`.
    AddFields,
    /// `$graphLookup`.
    GraphLookup,
    /// `$limit`.
    Limit,
    /// `$lookup`.
    Lookup,
    /// `$match`.
    Match,
    /// `$project`.
    Project,
    /// `$replaceRoot` and `$replaceWith`.
    ReplaceRoot,
    /// `$skip`.
    Skip,
    /// `$sort`.
    Sort,
    /// `$unset`.
    Unset,
    /// `$unwind`.
    Unwind,
    /// Any other stage.
    Other,
}

impl Kind {
    fn of(name: &str) -> Kind {
        match name {
            "$addFields" | "$set" => Kind::AddFields,
            "$graphLookup" => Kind::GraphLookup,
            "$limit" => Kind::Limit,
            "$lookup" => Kind::Lookup,
            "$match" => Kind::Match,
            "$project" => Kind::Project,
            "$replaceRoot" | "$replaceWith" => Kind::ReplaceRoot,
            "$skip" => Kind::Skip,
            "$sort" => Kind::Sort,
            "$unset" => Kind::Unset,
            "$unwind" => Kind::Unwind,
            _ => Kind::Other,
        }
    }

    /// Whether the stage returns exactly one document per input document, in the same order.
    pub fn is_one_to_one(self) -> bool {
        matches!(self, Kind::AddFields | Kind::Project | Kind::ReplaceRoot | Kind::Unset)
    }
}

/// A stage of a pipeline that is being optimised.
pub struct Stage<'p> {
    /// Which stage it is.
    pub kind: Kind,
    source: Source<'p>,
    /// Whether it is a `$match` with an `$and` created by a rule, which may be extended.
    is_merged: bool,
}

/// The document `{$name: specification}` of a stage.
enum Source<'p> {
    Sent(RawDoc<'p>),
    Made(DocBuf),
}

/// The parts of an `$unwind`.
pub struct Unwind<'s> {
    /// The path of the array, without the dollar.
    pub path: &'s str,
    /// The field that gets the position of the element.
    pub index: Option<&'s str>,
    /// Whether it has options in addition to the path.
    pub has_options: bool,
}

impl<'p> Stage<'p> {
    /// Reads a stage of a client's pipeline. `None` for an invalid stage: compiling reports the
    /// error.
    pub fn read(stage: RawVal<'p>) -> Option<Stage<'p>> {
        let doc = stage.as_doc()?;
        let mut fields = doc.iter();
        let (Some((name, _)), None) = (fields.next(), fields.next()) else { return None };
        Some(Stage { kind: Kind::of(name), source: Source::Sent(doc), is_merged: false })
    }

    /// A `$match` created by a rule.
    pub fn new_match(doc: DocBuf) -> Stage<'p> {
        Stage { kind: Kind::Match, source: Source::Made(doc), is_merged: false }
    }

    /// A `$match` created by a rule, whose filter is one `$and`.
    pub fn new_merged_match(doc: DocBuf) -> Stage<'p> {
        Stage { kind: Kind::Match, source: Source::Made(doc), is_merged: true }
    }

    /// An `$unset` created by a rule.
    pub fn new_unset(doc: DocBuf) -> Stage<'p> {
        Stage { kind: Kind::Unset, source: Source::Made(doc), is_merged: false }
    }

    /// A `$lookup` created by a rule.
    pub fn new_lookup(doc: DocBuf) -> Stage<'p> {
        Stage { kind: Kind::Lookup, source: Source::Made(doc), is_merged: false }
    }

    /// The stage as a document with its name as the only field.
    pub fn doc(&self) -> RawDoc<'_> {
        match &self.source {
            Source::Sent(doc) => *doc,
            Source::Made(doc) => doc.as_doc(),
        }
    }

    /// Its specification.
    pub fn spec(&self) -> Val<'_> {
        self.doc().first().map_or(Val::Missing, |(_, value)| value.get())
    }

    /// The filter of a `$match` that may move. Filters allowed only in the first stage may not.
    pub fn movable_filter(&self) -> Option<RawDoc<'_>> {
        let filter = self.spec().as_doc().filter(|_| self.kind == Kind::Match)?;
        (!super::fields::is_tied_to_front(filter)).then_some(filter)
    }

    /// The conditions of a `$match` that a rule merged.
    pub fn merged_filters(&self) -> Option<RawDoc<'_>> {
        let filter = self.spec().as_doc().filter(|_| self.is_merged)?;
        filter.get("$and").and_then(Val::as_array)
    }

    /// Whether it is a `$sort` that compiles and does not need the score of a text search.
    pub fn is_plain_sort(&self) -> bool {
        let order = self.spec().as_doc().filter(|doc| self.kind == Kind::Sort && !doc.is_empty());
        order.is_some_and(|doc| SortSpec::parse(doc).is_ok_and(|sort| !sort.needs_score()))
    }

    /// Whether it is a `$skip` or `$limit` by a whole number.
    pub fn is_skip_or_limit(&self) -> bool {
        matches!(self.kind, Kind::Skip | Kind::Limit) && self.spec().as_i64_exact().is_some()
    }

    /// The parts of an `$unwind`. `None` for another stage, or one that does not compile.
    pub fn unwind(&self) -> Option<Unwind<'_>> {
        let (path, index, has_options) = match self.spec() {
            Val::String(path) if self.kind == Kind::Unwind => (path, None, false),
            Val::Document(doc) if self.kind == Kind::Unwind => {
                let index = match doc.get("includeArrayIndex") {
                    None => None,
                    Some(name) => Some(name.as_str()?),
                };
                (doc.get("path").and_then(Val::as_str)?, index, doc.count() > 1)
            }
            _ => return None,
        };
        Some(Unwind { path: path.strip_prefix('$')?, index, has_options })
    }

    /// The field that a `$lookup` or `$graphLookup` adds.
    pub fn joined_field(&self) -> Option<&str> {
        match self.kind {
            Kind::Lookup | Kind::GraphLookup => self.spec().as_doc()?.get("as")?.as_str(),
            _ => None,
        }
    }
}
