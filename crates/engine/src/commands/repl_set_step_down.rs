//! `replSetStepDown`: there is no other member that could become primary.

use super::row::Required;
use super::{Command, Context, replica_set};
use ::access::Action;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "replSetStepDown",
    help: "Answers that there is no other member that could become primary.",
    fields: Some(&["replSetStepDown", "secondaryCatchUpPeriodSecs", "force"]),
    admin: true,
    privilege: Required::Cluster(&[Action::ReplSetStateChange]),
    run: step_down,
    ..Command::BASE
};

fn step_down(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    replica_set::check(context)?;
    context.args.optional_u64("replSetStepDown")?;
    if context.args.bool("force")? {
        return Err(Error::new(
            Code::ILLEGAL_OPERATION,
            "the only member of the replica set stays its primary",
        ));
    }
    Err(Error::new(
        Code(262),
        "there is no other member of the replica set that could become primary",
    ))
}
