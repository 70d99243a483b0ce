//! `resumePatterns`: rebuilds patterns and resumes their maintenance.

use super::patterns::{named, rebuild, refuse_in_transaction};
use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use ::patterns::{Pattern, Phase};
use std::sync::Arc;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "resumePatterns",
    help: "Rebuilds patterns and resumes their maintenance.",
    fields: Some(&["resumePatterns", "names", "wait"]),
    hints: true,
    privilege: Required::Collection(&[Action::CreatePattern]),
    run: resume,
    ..Command::BASE
};

fn resume(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    refuse_in_transaction(context)?;
    let name = context.collection_name()?;
    let wait = context.args.bool_or_true("wait")?;
    let concern = context.write_concern()?;
    let stopped = |pattern: &Arc<Pattern>| {
        matches!(pattern.phase, Phase::Suspended | Phase::Failed | Phase::Degraded)
    };
    let patterns: Vec<Arc<Pattern>> = named(context, name)?.into_iter().filter(stopped).collect();
    rebuild(context, name, &patterns, wait)?;
    concern.write_error(out);
    Ok(())
}
