//! `$sample`: returns documents chosen at random.

use super::{Stage, StageContext, StageReads, StageRow};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use value::{Code, DocBuf, Error, Result, Val, Writer};

pub(super) static ROW: StageRow = StageRow {
    name: "$sample",
    help: "Passes some documents, chosen at random.",
    parse,
    is_random: true,
    ..StageRow::BASE
};

struct Sample(usize);

fn parse(value: Val<'_>, _: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return Err(Error::new(Code(28745), "the $sample stage specification must be an object"));
    };
    let mut size = None;
    for (name, value) in doc {
        if name != "size" {
            return Err(Error::new(Code(28748), format!("unrecognized option to $sample: {name}")));
        }
        let value = value.get();
        if !value.is_number() {
            return Err(Error::new(Code(28746), "size argument to $sample must be a number"));
        }
        let number = value::number::to_i64_truncated(value).unwrap_or(-1);
        if number < 0 {
            return Err(Error::new(Code(28747), "size argument to $sample must not be negative"));
        }
        size = Some(usize::try_from(number).unwrap_or(usize::MAX));
    }
    let size = size.ok_or_else(|| Error::new(Code(28749), "$sample stage must specify a size"))?;
    Ok(Box::new(Sample(size)))
}

impl Stage for Sample {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Sampling { input, size: Some(self.0), docs: Vec::new().into_iter(), meta: None })
    }

    fn reads(&self) -> Option<StageReads> {
        Some(StageReads { paths: Vec::new(), passes: true })
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.doc(ROW.name, |out| {
            out.i64("size", i64::try_from(self.0).unwrap_or(i64::MAX));
        });
    }
}

struct Sampling {
    input: Box<dyn Stream>,
    size: Option<usize>,
    docs: std::vec::IntoIter<Chosen>,
    /// The metadata of the last document.
    meta: Option<DocBuf>,
}

/// A document with its metadata.
type Chosen = (Doc, Option<DocBuf>);

/// Keeps every document with the same probability, and shuffles them.
fn sample(input: &mut dyn Stream, size: usize, op: &Operation) -> Result<Vec<Chosen>> {
    let mut kept: Vec<Chosen> = Vec::new();
    let mut seen: u64 = 0;
    let mut bytes = 0;
    let mut share = op.share();
    while let Some(doc) = input.next(op)? {
        seen += 1;
        if kept.len() < size {
            bytes += doc.len();
            kept.push((doc, input.meta()));
        } else {
            let place = usize::try_from(fastrand::u64(..seen)).unwrap_or(usize::MAX);
            if let Some(old) = kept.get_mut(place) {
                bytes = (bytes + doc.len()).saturating_sub(old.0.len());
                *old = (doc, input.meta());
            }
        }
        if !share.covers(bytes) {
            return Err(share.refusal());
        }
        if bytes > op.sort_bytes_max() {
            return Err(Error::new(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                format!("$sample exceeded the memory limit of {} bytes", op.sort_bytes_max()),
            ));
        }
    }
    fastrand::shuffle(&mut kept);
    Ok(kept)
}

impl Stream for Sampling {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        if let Some(size) = self.size.take() {
            self.docs = sample(&mut *self.input, size, op)?.into_iter();
        }
        let next = self.docs.next();
        self.meta = next.as_ref().and_then(|(_, meta)| meta.clone());
        Ok(next.map(|(doc, _)| doc))
    }

    fn has_meta(&self) -> bool {
        self.input.has_meta()
    }

    fn meta(&self) -> Option<DocBuf> {
        self.meta.clone()
    }

    fn is_done(&self) -> bool {
        self.size.is_none() && self.docs.len() == 0
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::ready::Ready;

    #[test]
    fn every_document_has_its_chance() {
        let op = Operation::for_tests(1 << 20);
        let mut chosen = [0_u32; 10];
        for _ in 0..2000 {
            let docs: Vec<DocBuf> = (0..10)
                .map(|n| {
                    DocBuf::build(|out| {
                        out.i32("_id", n);
                    })
                })
                .collect();
            let docs = sample(&mut Ready(docs.into_iter()), 3, &op).expect("samples");
            assert_eq!(docs.len(), 3);
            for (doc, _) in docs {
                let Some(Val::Int32(n)) = doc.raw().get("_id") else { panic!("a number") };
                chosen[n as usize] += 1;
            }
        }
        // 600 of each are expected; a difference of 150 is more than seven standard deviations.
        assert!(chosen.iter().all(|count| (450..750).contains(count)), "{chosen:?}");
    }
}
