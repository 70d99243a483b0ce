//! `configureFailPoint`: switches failures on and off, with `--test-commands` only.

use super::row::{NamedIn, Required};
use super::{Command, Context};
use value::{Code, Error, RawDoc, Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "configureFailPoint",
    help: "Makes commands fail on demand, for tests.",
    fields: Some(&["configureFailPoint", "mode", "data"]),
    admin: true,
    test: true,
    privilege: Required::Login,
    namespace: NamedIn::None,
    run,
    ..Command::BASE
};

/// Slows merges of the store's tables down to `data.entriesPerSecond` each. The store, not a
/// command, enters it, so it is not counted.
const SLOW_MERGES: &str = "slowMerges";

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let args = context.args;
    let name = args.string("configureFailPoint")?;
    let mode = args.get("mode").ok_or_else(|| {
        Error::new(Code::ILLEGAL_OPERATION, "When setting a failpoint, you must supply a 'mode'")
    })?;
    let data = args.optional_doc("data")?;
    if name == SLOW_MERGES {
        context.engine.data.store.slow_merges(entries_per_second(mode, data)?);
        out.i64("count", 0);
        return Ok(());
    }
    let entered = context.engine.observed.fail_points.configure(name, mode, data)?;
    out.i64("count", entered);
    Ok(())
}

/// The limit that `slowMerges` sets; 0 for none.
fn entries_per_second(mode: Val<'_>, data: Option<RawDoc<'_>>) -> Result<u32> {
    match mode {
        Val::String("off") => Ok(0),
        Val::String("alwaysOn") => {
            let entries = data.and_then(|data| data.get("entriesPerSecond")?.as_i64_exact());
            let entries = entries.and_then(|entries| u32::try_from(entries).ok());
            entries.filter(|entries| *entries > 0).ok_or_else(|| {
                Error::bad_value("'slowMerges' takes data.entriesPerSecond, a positive number")
            })
        }
        _ => Err(Error::bad_value("'slowMerges' takes the modes 'alwaysOn' and 'off'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::DocBuf;

    #[test]
    fn slow_merges_take_a_positive_rate_or_are_off() {
        let data = |entries: i32| {
            DocBuf::build(|out| {
                out.i32("entriesPerSecond", entries);
            })
        };
        let on = Val::String("alwaysOn");
        assert_eq!(entries_per_second(on, Some(data(9).as_doc())).unwrap(), 9);
        assert_eq!(entries_per_second(Val::String("off"), None).unwrap(), 0);
        for wrong in [data(0), data(-1), DocBuf::new()] {
            assert!(entries_per_second(on, Some(wrong.as_doc())).is_err());
        }
        assert!(entries_per_second(on, None).is_err());
        assert!(entries_per_second(Val::Int32(1), None).is_err());
    }
}
