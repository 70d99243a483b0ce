//! Read concerns: which state a command reads. There is one server, so all levels except `snapshot`
//! read the newest state. With `majority`, `linearizable` and `snapshot`, everything read is on
//! disk before the reply is sent; `local` and `available` do not wait.

use super::Command;
use crate::operation::Operation;
use crate::shared::Inner;
use std::sync::atomic::Ordering;
use value::{Code, Error, RawDoc, Result, Val};

/// The read concern of a command.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ReadConcern<'a> {
    /// The level, if one is given.
    pub(super) level: Option<&'a str>,
    at: Option<u64>,
    after: Option<u64>,
    /// Whether maintained values of patterns must be up to date.
    pub(super) fresh_patterns: bool,
}

static LEVELS: &[&str] = &["local", "available", "majority", "linearizable", "snapshot"];

/// The read concerns that a command supports; part of its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadConcerns {
    /// `local` and `available` only: it reads no documents.
    Local,
    /// All but `snapshot`.
    Majority,
    /// All.
    Snapshot,
    /// Any level is accepted and ignored: the command reads the state of its cursor.
    OfCursor,
}

impl ReadConcerns {
    /// Whether the command reads documents, which may have to be on disk before the reply.
    fn reads(self) -> bool {
        matches!(self, ReadConcerns::Majority | ReadConcerns::Snapshot)
    }
}

impl<'a> ReadConcern<'a> {
    /// Reads `readConcern`.
    ///
    /// # Errors
    /// TypeMismatch, BadValue, InvalidOptions.
    pub(super) fn parse(value: Val<'a>) -> Result<ReadConcern<'a>> {
        let Val::Document(doc) = value else {
            return Err(Error::type_mismatch(format!(
                "BSON field 'readConcern' is the wrong type '{}', expected type 'object'",
                value.kind().name()
            )));
        };
        let known =
            ["level", "afterClusterTime", "afterOpTime", "atClusterTime", "provenance", "patterns"];
        if let Some((name, _)) = doc.iter().find(|(name, _)| !known.contains(name)) {
            return Err(Error::new(
                Code(40415),
                format!("BSON field 'readConcern.{name}' is an unknown field."),
            ));
        }
        let level = match doc.get("level") {
            None => None,
            Some(Val::String(level)) if LEVELS.contains(&level) => Some(level),
            Some(other) if other.as_str().is_none() => {
                return Err(Error::type_mismatch(format!(
                    "BSON field 'readConcern.level' is the wrong type '{}', expected type 'string'",
                    other.kind().name()
                )));
            }
            Some(_) => {
                return Err(Error::bad_value(
                    "Enumeration value for field 'readConcern.level' is not a valid value.",
                ));
            }
        };
        let fresh_patterns = match doc.get("patterns") {
            None => false,
            Some(Val::String("fresh")) => true,
            Some(_) => {
                return Err(Error::bad_value(
                    "Enumeration value for field 'readConcern.patterns' is not a valid value.",
                ));
            }
        };
        let concern = ReadConcern {
            fresh_patterns,
            level,
            at: time(doc, "atClusterTime")?,
            after: time(doc, "afterClusterTime")?,
        };
        concern.check()?;
        Ok(concern)
    }

    fn check(&self) -> Result<()> {
        let level = self.level.unwrap_or("local");
        if self.after.is_some() && !matches!(level, "majority" | "local" | "snapshot") {
            return refuse(
                "afterClusterTime field can be set only if level is equal to majority, local, or \
                 snapshot",
            );
        }
        if self.at.is_some() && level != "snapshot" {
            return refuse("atClusterTime field can be set only if level is equal to snapshot");
        }
        if self.at.is_some() && self.fresh_patterns {
            return refuse("patterns cannot be fresh at a time that is over");
        }
        if self.at.is_some() && self.after.is_some() {
            return refuse(
                "Specifying a timestamp for readConcern snapshot in a causally consistent session \
                 is not allowed.",
            );
        }
        Ok(())
    }

    /// Refuses times in the future.
    ///
    /// # Errors
    /// InvalidOptions.
    pub(super) fn check_times(&self, engine: &Inner) -> Result<()> {
        for (name, wanted) in [("afterClusterTime", self.after), ("atClusterTime", self.at)] {
            let now = engine.data.clock.now();
            if let Some(wanted) = wanted.filter(|wanted| *wanted > now) {
                let show = |time: u64| format!("Timestamp({}, {})", time >> 32, time & 0xFFFF_FFFF);
                return refuse(format!(
                    "readConcern {name} value must not be greater than the current clusterTime. \
                     Requested clusterTime: {{ ts: {} }}; current clusterTime: {{ ts: {} }}",
                    show(wanted),
                    show(now)
                ));
            }
        }
        Ok(())
    }

    /// Sets the state that a new transaction reads.
    ///
    /// # Errors
    /// InvalidOptions when a transaction does not support it.
    pub(super) fn enter_transaction(&self, op: &Operation) -> Result<()> {
        match self.level {
            None | Some("local" | "majority" | "snapshot") => {
                op.begin_at(self.at);
                Ok(())
            }
            Some(_) => refuse(
                "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' \
                 in order to run in a transaction",
            ),
        }
    }

    /// Sets the state that a command outside transactions reads.
    ///
    /// # Errors
    /// InvalidOptions when the command does not support it; SnapshotTooOld.
    pub(super) fn apply(&self, engine: &Inner, op: &Operation, command: &Command) -> Result<()> {
        let level = self.level.unwrap_or("local");
        let reason = match level {
            "local" | "available" => return Ok(()),
            _ => match command.read_concern {
                ReadConcerns::OfCursor => return Ok(()),
                ReadConcerns::Local => "read concern not supported",
                ReadConcerns::Majority if level == "snapshot" => {
                    "read concern snapshot not supported"
                }
                ReadConcerns::Majority | ReadConcerns::Snapshot => "",
            },
        };
        if !reason.is_empty() {
            return refuse(format!(
                "Command {} does not support {{ readConcern: {{ level: \"{level}\", provenance: \
                 \"clientSupplied\" }} }} :: caused by :: {reason}",
                command.name
            ));
        }
        if level == "snapshot" {
            let (view, time) = engine.data.moment(self.at)?;
            op.read_at(view, time);
        }
        Ok(())
    }
}

/// Waits until everything that a command read is on disk, if its read concern needs that.
///
/// # Errors
/// When the disk fails.
pub(super) fn wait(
    engine: &Inner,
    concern: Option<ReadConcern<'_>>,
    command: &Command,
) -> Result<()> {
    let level = concern.and_then(|concern| concern.level).or_else(|| {
        let by_default = engine.data.durable_reads.load(Ordering::Relaxed);
        (by_default && command.read_concern.reads()).then_some("majority")
    });
    if matches!(level, Some("majority" | "linearizable" | "snapshot")) {
        let seen = engine.data.store.snapshot().seqno();
        engine.data.store.sync(seen).map_err(crate::store_failed)?;
    }
    Ok(())
}

fn time(doc: RawDoc<'_>, name: &str) -> Result<Option<u64>> {
    match doc.get(name) {
        None => Ok(None),
        Some(Val::Timestamp(0)) => refuse(format!("{name} cannot be a null timestamp")),
        Some(Val::Timestamp(time)) => Ok(Some(time)),
        Some(other) => Err(Error::type_mismatch(format!(
            "\"{name}\" had the wrong type. Expected timestamp, found {}",
            other.kind().name()
        ))),
    }
}

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code::INVALID_OPTIONS, message))
}
