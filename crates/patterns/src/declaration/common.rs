//! The options that all kinds of patterns have.

use super::options::Options;
use value::{RawDoc, Result, Val, Writer};

/// Options that all kinds have, with their defaults.
#[derive(Clone, Debug)]
pub struct Common {
    /// Operators that name maintained fields are ignored rather than refused.
    pub ignore_client_writes: bool,
    /// Most documents that follow one change in its own commit.
    pub fanout_limit: usize,
    /// Whether more of them are refused rather than queued.
    pub reject_over_limit: bool,
    /// Documents of one commit of the build.
    pub batch: usize,
    /// Whether queries may be answered from what is maintained.
    pub rewrite: bool,
}

impl Common {
    /// Reads the options; `fans_out` when many documents may follow one.
    pub(super) fn parse(options: &mut Options<'_>, fans_out: bool) -> Result<Common> {
        match options.get("mode") {
            None | Some(Val::String("sync")) => {}
            Some(Val::Document(_)) => {
                return Err(options.later("a 'mode' other than 'sync'"));
            }
            Some(_) => return Err(options.bad("'mode' must be 'sync'")),
        }
        let client_writes = options.choice("clientWrites", &["reject", "ignore"], &[])?;
        options.choice("duringBuild", &["missing"], &["compute", "error"])?;
        options.choice("changeEvents", &["none"], &["flagged"])?;
        let rewrite = options.boolean("rewrite")?.unwrap_or(true);
        if options.get("verify").is_some() {
            return Err(options.later("'verify'"));
        }
        let batch = batch(options)?;
        let (mut fanout_limit, mut over) = (1000, "async");
        if fans_out {
            fanout_limit = options.positive("fanoutLimit")?.unwrap_or(1000);
            over = options.choice("overLimit", &["async", "reject"], &["pointer"])?;
        }
        Ok(Common {
            ignore_client_writes: client_writes == "ignore",
            fanout_limit,
            reject_over_limit: over == "reject",
            batch,
            rewrite,
        })
    }

    /// Appends the options, as `listPatterns` shows them.
    pub(super) fn write(&self, out: &mut Writer<'_>, fans_out: bool) {
        out.str("mode", "sync");
        out.str("clientWrites", if self.ignore_client_writes { "ignore" } else { "reject" });
        out.str("duringBuild", "missing").str("changeEvents", "none");
        out.doc("backfill", |out| {
            out.count("batch", self.batch as u64).str("rate", "auto");
        });
        out.bool("rewrite", self.rewrite);
        if fans_out {
            out.count("fanoutLimit", self.fanout_limit as u64);
            out.str("overLimit", if self.reject_over_limit { "reject" } else { "async" });
        }
    }
}

fn batch(options: &mut Options<'_>) -> Result<usize> {
    let doc = options.document("backfill")?.unwrap_or(RawDoc::empty());
    let mut batch = 1000;
    for (name, value) in doc {
        match (name, value.get()) {
            ("batch", number) => match number.as_i64_exact() {
                Some(number @ 1..=100_000) => batch = number as usize,
                _ => {
                    return Err(
                        options.bad("'backfill.batch' must be a whole number from 1 to 100000")
                    );
                }
            },
            ("rate", Val::String("auto")) => {}
            ("rate", _) => return Err(options.later("a 'backfill.rate' other than 'auto'")),
            (other, _) => return Err(options.bad(format!("'backfill.{other}' is unknown"))),
        }
    }
    Ok(batch)
}
