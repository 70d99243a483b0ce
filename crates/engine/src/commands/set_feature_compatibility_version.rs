//! `setFeatureCompatibilityVersion`: the version is that of the server, and no other can be set.

use super::build_info::FEATURE_VERSION;
use super::row::{NamedIn, Required};
use super::{Command, Context};
use ::access::Action;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "setFeatureCompatibilityVersion",
    help: "Accepts the version of the server.",
    fields: Some(&[
        "setFeatureCompatibilityVersion",
        "confirm",
        "downgradeOnDiskChanges",
        "fromConfigServer",
    ]),
    admin: true,
    privilege: Required::Cluster(&[Action::SetFeatureCompatibilityVersion]),
    audited: true,
    namespace: NamedIn::None,
    run: set,
    ..Command::BASE
};

fn set(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let wanted = args.string("setFeatureCompatibilityVersion")?;
    if wanted != FEATURE_VERSION {
        return Err(Error::bad_value(format!(
            "Invalid feature compatibility version value '{wanted}'; this server has '{FEATURE_VERSION}' and no other"
        )));
    }
    if !args.bool("confirm")? {
        return Err(Error::new(
            Code(7_369_100),
            "setFeatureCompatibilityVersion needs the option {confirm: true}",
        ));
    }
    Ok(())
}
