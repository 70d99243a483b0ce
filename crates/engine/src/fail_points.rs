//! Fail points: failures on demand, for tests of drivers. They exist only with `--test-commands`.
//!
//! `failCommand` makes commands fail, wait or lose their connection;
//! `failGetMoreAfterCursorCheckout` makes a `getMore` fail after it has taken its cursor;
//! `maxTimeAlwaysTimeOut` and `maxTimeNeverTimeOut` override time limits;
//! `onPrimaryTransactionalWrite` breaks retryable writes before or after they are committed.
//!
//! Layer: base.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// The supported fail points.
pub static NAMES: &[&str] = &[
    "failCommand",
    "failGetMoreAfterCursorCheckout",
    "maxTimeAlwaysTimeOut",
    "maxTimeNeverTimeOut",
    "onPrimaryTransactionalWrite",
];

/// All fail points of an engine.
#[derive(Default)]
pub struct FailPoints {
    /// Whether any is on. Ordinary commands check only this flag.
    active: AtomicBool,
    points: Mutex<BTreeMap<&'static str, Point>>,
}

#[derive(Default)]
struct Point {
    mode: Mode,
    data: DocBuf,
    entered: i64,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Mode {
    #[default]
    Off,
    AlwaysOn,
    Times(i64),
    Skip(i64),
    Probability(f64),
}

/// The effect of `failCommand` on a command.
#[derive(Default)]
pub struct Failure {
    /// Whether to close the connection without a reply.
    pub close: bool,
    /// How long to wait before the command runs.
    pub block: Option<Duration>,
    /// The error to return instead of running the command.
    pub error: Option<Error>,
    /// Whether the fail point sets the labels of the error; then no others are added.
    pub labelled: bool,
    /// Fields that are added to the reply of a command that ran.
    pub add: Option<DocBuf>,
}

/// How a retryable write is broken.
pub enum Break {
    /// Nothing is written and the connection is closed.
    CloseBefore,
    /// Nothing is written and the client gets an error.
    Fail(Error),
    /// The write is committed, and the connection is closed without a reply.
    CloseAfter,
}

impl FailPoints {
    /// Whether any fail point is on.
    #[inline]
    #[must_use]
    pub fn any(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// Switches a fail point on or off. Returns how often it was entered.
    ///
    /// # Errors
    /// FailPointSetFailed for an unknown name, BadValue for an invalid mode.
    pub fn configure(&self, name: &str, mode: Val<'_>, data: Option<RawDoc<'_>>) -> Result<i64> {
        let known =
            NAMES.iter().copied().find(|known| *known == name).ok_or_else(|| {
                Error::new(Code::FAIL_POINT_SET_FAILED, format!("{name} not found"))
            })?;
        let mode = parse_mode(mode)?;
        let mut points = self.points.lock();
        let point = points.entry(known).or_default();
        point.mode = mode;
        point.data = data.map_or_else(DocBuf::new, DocBuf::from);
        let entered = point.entered;
        self.active.store(points.values().any(|p| p.mode != Mode::Off), Ordering::Relaxed);
        Ok(entered)
    }

    /// Enters a fail point that is on and whose data `wanted` accepts: counts the entry and returns
    /// the data.
    fn enter(&self, name: &str, wanted: impl FnOnce(RawDoc<'_>) -> bool) -> Option<DocBuf> {
        let mut points = self.points.lock();
        let point = points.get_mut(name)?;
        if point.mode == Mode::Off || !wanted(point.data.as_doc()) {
            return None;
        }
        match &mut point.mode {
            Mode::Times(left) => {
                *left -= 1;
                if *left <= 0 {
                    point.mode = Mode::Off;
                }
            }
            Mode::Skip(left) if *left > 0 => {
                *left -= 1;
                return None;
            }
            Mode::Probability(share) => {
                if fastrand::f64() >= *share {
                    return None;
                }
            }
            Mode::Off | Mode::AlwaysOn | Mode::Skip(_) => {}
        }
        point.entered += 1;
        Some(point.data.clone())
    }

    /// A time limit after `maxTimeAlwaysTimeOut` and `maxTimeNeverTimeOut` are applied.
    #[must_use]
    pub fn time_limit(&self, limit: Duration) -> Option<Duration> {
        if self.enter("maxTimeAlwaysTimeOut", |_| true).is_some() {
            return Some(Duration::ZERO);
        }
        self.enter("maxTimeNeverTimeOut", |_| true).is_none().then_some(limit)
    }

    /// The error that `failGetMoreAfterCursorCheckout` sets for a `getMore`.
    #[must_use]
    pub fn fail_get_more(&self) -> Option<Error> {
        let data = self.enter("failGetMoreAfterCursorCheckout", |_| true)?;
        let code = data.as_doc().get("errorCode").and_then(Val::as_i64_exact)?;
        let message = "Failing getMore due to 'failGetMoreAfterCursorCheckout' failpoint";
        Some(Error::new(Code(i32::try_from(code).ok()?), message))
    }

    /// The effect of `onPrimaryTransactionalWrite` on a command. It applies to retryable writes
    /// only.
    #[must_use]
    pub fn break_write(&self, body: RawDoc<'_>) -> Option<Break> {
        body.find("txnNumber")?;
        let data = self.enter("onPrimaryTransactionalWrite", |_| true)?;
        let data = data.as_doc();
        let code = data.get("failBeforeCommitExceptionCode").and_then(Val::as_i64_exact);
        let close = data.get("closeConnection").is_none_or(Val::truthy);
        Some(match code {
            Some(_) if close => Break::CloseBefore,
            Some(code) => Break::Fail(Error::new(
                Code(i32::try_from(code).unwrap_or(1)),
                "onPrimaryTransactionalWrite fail point enabled",
            )),
            None if close => Break::CloseAfter,
            None => return None,
        })
    }

    /// The effect of `failCommand` on the command whose names `is_command` knows. If the command is `retryable`, its error gets the
    /// label that lets drivers send it again.
    #[must_use]
    pub fn fail_command(
        &self,
        is_command: impl Fn(&str) -> bool,
        body: RawDoc<'_>,
        application: &str,
        namespace: &str,
        retryable: bool,
    ) -> Option<Failure> {
        let handshake = body
            .get("client")
            .and_then(Val::as_doc)
            .and_then(|client| client.get("application"))
            .and_then(Val::as_doc)
            .and_then(|application| application.get("name"))
            .and_then(Val::as_str);
        let data = self.enter("failCommand", |data| {
            let named = data.get("failCommands").and_then(Val::as_array).is_some_and(|names| {
                names.iter().any(|(_, name)| name.get().as_str().is_some_and(&is_command))
            });
            let application = handshake.unwrap_or(application);
            let same = |field: &str, own: &str| {
                data.get(field).and_then(Val::as_str).is_none_or(|wanted| wanted == own)
            };
            named && same("appName", application) && same("namespace", namespace)
        })?;
        Some(failure(data.as_doc(), retryable))
    }
}

fn parse_mode(mode: Val<'_>) -> Result<Mode> {
    let unknown = || Error::bad_value("fail point mode is not understood");
    match mode {
        Val::String(other) if other != "off" && other != "alwaysOn" => {
            Err(Error::bad_value(format!("unknown mode: {other}")))
        }
        Val::String("off") => Ok(Mode::Off),
        Val::String("alwaysOn") => Ok(Mode::AlwaysOn),
        Val::Document(doc) => {
            let (name, value) = doc.first().ok_or_else(unknown)?;
            let count = || {
                value.get().as_i64_exact().filter(|n| *n >= 0).ok_or_else(|| {
                    Error::bad_value(format!("'{name}' option to 'mode' must be positive"))
                })
            };
            match name {
                "times" => Ok(match count()? {
                    0 => Mode::Off,
                    times => Mode::Times(times),
                }),
                "skip" => Ok(Mode::Skip(count()?)),
                "activationProbability" => value
                    .get()
                    .as_f64()
                    .filter(|share| (0.0..=1.0).contains(share))
                    .map(Mode::Probability)
                    .ok_or_else(unknown),
                _ => Err(unknown()),
            }
        }
        _ => Err(unknown()),
    }
}

/// Codes after which a retryable write may be sent again.
static RETRYABLE: &[i32] =
    &[6, 7, 89, 91, 134, 189, 262, 9001, 10_107, 11_600, 11_602, 13_435, 13_436];

fn failure(data: RawDoc<'_>, retryable_write: bool) -> Failure {
    let block = data.get("blockConnection").is_some_and(Val::truthy).then(|| {
        let millis = data.get("blockTimeMS").and_then(Val::as_i64_exact).unwrap_or(0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    });
    let labels = |code: i64| {
        DocBuf::build(|out| {
            if let Some(labels) = data.find("errorLabels") {
                if labels.as_array().is_some_and(|labels| !labels.is_empty()) {
                    out.raw("errorLabels", labels);
                }
            } else if retryable_write
                && i32::try_from(code).is_ok_and(|code| RETRYABLE.contains(&code))
            {
                out.array("errorLabels", |list| list.push(Val::String("RetryableWriteError")));
            }
        })
    };
    let error = data.get("errorCode").and_then(Val::as_i64_exact).map(|code| {
        let error = Error::new(
            Code(i32::try_from(code).unwrap_or(1)),
            "Failing command via 'failCommand' failpoint",
        );
        error.with_info(labels(code))
    });
    let code = data.get("errorCode").and_then(Val::as_i64_exact).unwrap_or(0);
    let is_retryable = i32::try_from(code).is_ok_and(|code| RETRYABLE.contains(&code));
    let add = data.get("writeConcernError").and_then(Val::as_doc).map(|concern| {
        let code = concern.get("code").and_then(Val::as_i64_exact).unwrap_or(0);
        DocBuf::build(|out| {
            out.append("writeConcernError", Val::Document(concern));
            out.extend(labels(code).as_doc());
        })
    });
    Failure {
        close: data.get("closeConnection").is_some_and(Val::truthy),
        block,
        error,
        labelled: data.find("errorLabels").is_some() || (retryable_write && is_retryable),
        add,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn doc(text: &str) -> DocBuf {
        ejson::parse_doc(text).expect("test text")
    }

    #[test]
    fn times_and_skip_count_commands_that_match_only() {
        let points = FailPoints::default();
        let data = doc("{failCommands: ['find'], errorCode: 91}");
        let mode = doc("{times: 2}");
        points
            .configure("failCommand", Val::Document(mode.as_doc()), Some(data.as_doc()))
            .expect("works");
        let body = doc("{find: 'x'}");
        let fails = |name: &str| {
            points.fail_command(|named| named == name, body.as_doc(), "", "db.x", false).is_some()
        };
        assert_eq!(
            [fails("ping"), fails("find"), fails("ping"), fails("find"), fails("find")],
            [false, true, false, true, false]
        );
        assert!(points.any(), "a point that ran out stays configured until it is set again");
        let mode = doc("{skip: 1}");
        points
            .configure("failCommand", Val::Document(mode.as_doc()), Some(data.as_doc()))
            .expect("works");
        assert_eq!([fails("find"), fails("find"), fails("find")], [false, true, true]);
        assert_eq!(points.configure("failCommand", Val::String("off"), None).expect("works"), 4);
        assert!(!points.any());
    }

    #[test]
    fn a_retryable_write_gets_its_label_unless_others_are_given() {
        let data = doc("{errorCode: 91}");
        let failure = failure(data.as_doc(), true);
        let info = failure.error.expect("fails").info().expect("labels").clone();
        assert!(info.as_doc().find("errorLabels").is_some());
        let data = doc("{errorCode: 91, errorLabels: []}");
        let failure = super::failure(data.as_doc(), true);
        let info = failure.error.expect("fails").info().expect("labels").clone();
        assert!(info.as_doc().is_empty());
    }

    #[test]
    fn unknown_points_and_modes_are_refused() {
        let points = FailPoints::default();
        let code = |name: &str, mode: Val<'_>| {
            points.configure(name, mode, None).map_or_else(|error| error.code().0, |_| 0)
        };
        assert_eq!(code("nope", Val::String("off")), 266);
        assert_eq!(code("failCommand", Val::String("sometimes")), 2);
        assert_eq!(code("failCommand", Val::Int32(1)), 2);
    }
}
