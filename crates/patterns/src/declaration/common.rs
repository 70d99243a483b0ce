//! The options that all kinds of patterns have.

use super::options::Options;
use crate::kind::Traits;
use value::{RawDoc, Result, Val, Writer};

/// Options that all kinds have, with their defaults.
#[derive(Clone, Debug)]
pub struct Common {
    /// When targets are updated.
    pub mode: Mode,
    /// After how many milliseconds of staleness a target raises an alarm.
    pub max_staleness: Option<u64>,
    /// Operators that name maintained fields are ignored rather than refused.
    pub ignore_client_writes: bool,
    /// What readers see during a build.
    pub during_build: DuringBuild,
    /// Whether change streams of the target show what patterns write.
    pub flagged_events: bool,
    /// The most documents that are updated in the commit of one change.
    pub fanout_limit: usize,
    /// Whether a change with a larger fan-out is refused rather than queued.
    pub reject_over_limit: bool,
    /// Whether readers resolve targets that wait in the queue.
    pub resolve_over_limit: bool,
    /// Documents per commit of the build.
    pub batch: usize,
    /// Whether queries may be answered from maintained values.
    pub rewrite: bool,
    /// The most documents per second of the build; without it the rate adapts to the load.
    pub rate: Option<usize>,
    /// The periodic check (scrub).
    pub verify: Verify,
}

/// How the database periodically compares maintained values with a recomputation.
#[derive(Clone, Debug)]
pub struct Verify {
    /// Milliseconds between two checks; `None` for no checks.
    pub period: Option<u64>,
    /// The frequency as declared.
    text: String,
    /// Whether wrong values are repaired, not only reported.
    pub repair: bool,
}

/// When targets are updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the same commit.
    Sync,
    /// Soon, and after this many milliseconds at the latest, unless there is too much to do.
    Async(u64),
    /// All at once, at intervals of this many milliseconds; with the declared text.
    Every(u64, String),
}

/// What readers see during a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuringBuild {
    /// Values that are not derived yet are derived for the reader.
    Compute,
    /// Values that are not derived yet are missing.
    Missing,
    /// Reads fail.
    Error,
}

impl Common {
    /// Reads the options of a pattern that has these traits.
    pub(crate) fn parse(options: &mut Options<'_>, traits: &Traits) -> Result<Common> {
        let fans_out = traits.fans_out;
        let mode = mode(options)?;
        if let Some(why) = traits.sync_only.filter(|_| mode != Mode::Sync) {
            return Err(options.bad(why));
        }
        if traits.flush_ms.is_some() && mode != Mode::Sync {
            return Err(options.bad(
                "'flush' needs the mode 'sync': the other modes write targets later by themselves",
            ));
        }
        let max_staleness = options.positive("maxStalenessMS")?.map(|ms| ms as u64);
        let never = mode == Mode::Sync && !fans_out && traits.flush_ms.is_none();
        if max_staleness.is_some() && never {
            return Err(options.bad("'maxStalenessMS' needs another 'mode': 'sync' is never stale"));
        }
        let client_writes = options.choice("clientWrites", &["reject", "ignore"], &[])?;
        let during_build =
            match options.choice("duringBuild", &["compute", "missing", "error"], &[])? {
                "missing" => DuringBuild::Missing,
                "error" => DuringBuild::Error,
                _ => DuringBuild::Compute,
            };
        let events = options.choice("changeEvents", &["none", "flagged"], &[])?;
        if traits.resolved_on_read {
            if mode != Mode::Sync {
                return Err(options.bad(
                    "'mode' must be 'sync' with 'strategy: pointer': what is resolved when it is \
                     read is never behind",
                ));
            }
            if events == "flagged" {
                return Err(options.bad(
                    "'changeEvents: flagged' needs 'strategy: copy': with 'pointer' nothing is \
                     written that an event could tell of",
                ));
            }
        }
        let rewrite = options.boolean("rewrite")?.unwrap_or(true);
        let verify = verify(options)?;
        let (batch, rate) = backfill(options)?;
        let (mut fanout_limit, mut over) = (1000, "async");
        if fans_out {
            fanout_limit = options.positive("fanoutLimit")?.unwrap_or(1000);
            over = options.choice("overLimit", &["async", "reject", "pointer"], &[])?;
        }
        if over != "async" && mode != Mode::Sync {
            return Err(options.bad(format!(
                "'overLimit: {over}' needs the mode 'sync': nothing is too much for a queue"
            )));
        }
        if over == "pointer" && !traits.can_resolve {
            return Err(options.bad(
                "'overLimit: pointer' resolves what a live source holds: 'freshness' cannot be \
                 'snapshot'",
            ));
        }
        Ok(Common {
            mode,
            max_staleness,
            ignore_client_writes: client_writes == "ignore",
            during_build,
            flagged_events: events == "flagged",
            fanout_limit,
            reject_over_limit: over == "reject",
            resolve_over_limit: over == "pointer",
            batch,
            rewrite,
            rate,
            verify,
        })
    }

    /// Appends the options, as `listPatterns` shows them.
    pub(crate) fn write(&self, out: &mut Writer<'_>, traits: &Traits) {
        match &self.mode {
            Mode::Sync => {
                out.str("mode", "sync");
            }
            Mode::Async(lag) => {
                out.doc("mode", |out| {
                    out.doc("async", |out| {
                        out.count("maxLagMS", *lag);
                    });
                });
            }
            Mode::Every(_, text) => {
                out.doc("mode", |out| {
                    out.str("every", text);
                });
            }
        }
        if let Some(ms) = self.max_staleness {
            out.count("maxStalenessMS", ms);
        }
        out.str("clientWrites", if self.ignore_client_writes { "ignore" } else { "reject" });
        out.str(
            "duringBuild",
            match self.during_build {
                DuringBuild::Compute => "compute",
                DuringBuild::Missing => "missing",
                DuringBuild::Error => "error",
            },
        );
        out.str("changeEvents", if self.flagged_events { "flagged" } else { "none" });
        out.doc("backfill", |out| {
            out.count("batch", self.batch as u64);
            match self.rate {
                Some(rate) => out.count("rate", rate as u64),
                None => out.str("rate", "auto"),
            };
        });
        out.doc("verify", |out| {
            out.str("scrub", &self.verify.text);
            out.str("onDrift", if self.verify.repair { "repair" } else { "report" });
        });
        out.bool("rewrite", self.rewrite);
        if traits.fans_out {
            out.count("fanoutLimit", self.fanout_limit as u64);
            let over = match (self.reject_over_limit, self.resolve_over_limit) {
                (true, _) => "reject",
                (_, true) => "pointer",
                _ => "async",
            };
            out.str("overLimit", over);
        }
    }
}

fn mode(options: &mut Options<'_>) -> Result<Mode> {
    let wanted = "'mode' must be 'sync', {async: {maxLagMS: …}} or {every: '1h'}";
    let doc = match options.get("mode") {
        None | Some(Val::String("sync")) => return Ok(Mode::Sync),
        Some(Val::Document(doc)) => doc,
        Some(_) => return Err(options.bad(wanted)),
    };
    let mut fields = doc.iter();
    match (fields.next().map(|(name, value)| (name, value.get())), fields.next()) {
        (Some(("async", Val::Document(lag))), None) => {
            let given = lag.get("maxLagMS").map_or(Some(1000), Val::as_i64_exact);
            match given {
                Some(lag_ms @ 1..=86_400_000) if lag.iter().all(|(name, _)| name == "maxLagMS") => {
                    Ok(Mode::Async(lag_ms as u64))
                }
                _ => Err(options.bad("'mode.async.maxLagMS' must be a number from 1 to 86400000")),
            }
        }
        (Some(("every", Val::String(text))), None) => match milliseconds(text) {
            Some(ms) => Ok(Mode::Every(ms, text.to_owned())),
            None => Err(options.bad(format!(
                "'mode.every' must be a time like '30s', '5m', '1h' or '1d', found '{text}'"
            ))),
        },
        _ => Err(options.bad(wanted)),
    }
}

fn verify(options: &mut Options<'_>) -> Result<Verify> {
    let doc = options.document("verify")?.unwrap_or(RawDoc::empty());
    let (mut text, mut repair) = ("1/day", true);
    for (name, value) in doc {
        match (name, value.get()) {
            ("scrub", Val::String(often)) => text = often,
            ("scrub", _) => {
                return Err(options.bad("'verify.scrub' must be text such as '1/day' or 'never'"));
            }
            ("onDrift", Val::String("repair")) => repair = true,
            ("onDrift", Val::String("report")) => repair = false,
            ("onDrift", _) => {
                return Err(options.bad("'verify.onDrift' must be one of 'repair', 'report'"));
            }
            (other, _) => return Err(options.unknown("verify", other, &["scrub", "onDrift"])),
        }
    }
    let period = match text {
        "never" => None,
        text => Some(parse_frequency(text).ok_or_else(|| {
            options.bad(format!(
                "'verify.scrub' must be 'never' or how often, like '1/day', '4/hour' or \
                 '1/minute', found '{text}'"
            ))
        })?),
    };
    Ok(Verify { period, text: text.to_owned(), repair })
}

/// The interval in milliseconds of a frequency such as `4/hour`.
fn parse_frequency(text: &str) -> Option<u64> {
    let (count, unit) = text.split_once('/')?;
    let unit = match unit {
        "second" => 1000,
        "minute" => 60_000,
        "hour" => 3_600_000,
        "day" => 86_400_000,
        "week" => 7 * 86_400_000,
        _ => return None,
    };
    let count: u64 = count.parse().ok().filter(|count| (1..=1000).contains(count))?;
    Some(unit / count)
}

/// A duration such as `1h`, in milliseconds.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(unit).filter(|ms| (1..=366 * 86_400_000).contains(ms))
}

fn backfill(options: &mut Options<'_>) -> Result<(usize, Option<usize>)> {
    let doc = options.document("backfill")?.unwrap_or(RawDoc::empty());
    let (mut batch, mut rate) = (1000, None);
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
            ("rate", number) => match number.as_i64_exact() {
                Some(number @ 1..=1_000_000_000) => rate = Some(number as usize),
                _ => {
                    return Err(options.bad(
                        "'backfill.rate' must be 'auto' or a whole number of documents a second",
                    ));
                }
            },
            (other, _) => return Err(options.unknown("backfill", other, &["batch", "rate"])),
        }
    }
    Ok((batch, rate))
}
