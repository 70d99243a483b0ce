//! `motif user`: creates, lists and removes users and changes their passwords, on a running server or
//! in a data folder that no server has open.

use crate::cmd::transfer::target::Target;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use value::{DocBuf, Val};

/// Create, list and remove users, and change their passwords
#[derive(Args, Debug)]
pub(crate) struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Subcommand, Debug)]
enum UserCommand {
    /// Create a user
    #[command(after_help = "\
Examples:
  motif user add ada --role root --data ./motif-data
  motif user add app --role readWrite@shop --role read@stock --uri mongodb://ada:secret@127.0.0.1
  printf secret | motif user add app --role readWrite@shop --data /var/lib/motif
  motif user add CN=app,O=Shop --db '$external' --role readWrite@shop    by its certificate

The password is prompted for, or read from standard input, or from --password-file. While a server with
--auth has no users, the first one can be created without a login, from the same machine.")]
    Add(AddArgs),
    /// Change the password of a user
    Password(PasswordArgs),
    /// List the users of all databases
    List(LocationArgs),
    /// Remove a user
    Remove(NameArgs),
}

/// The server or data folder with the users.
#[derive(Args, Debug)]
struct LocationArgs {
    /// Address of a running server [default: mongodb://127.0.0.1:27017]
    #[arg(long, value_name = "URI", conflicts_with = "data")]
    uri: Option<String>,
    /// Data folder that no server is using
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct NameArgs {
    /// Name of the user
    name: String,
    /// Database that the user belongs to (`authSource`)
    #[arg(long, default_value = "admin")]
    db: String,
    #[command(flatten)]
    place: LocationArgs,
}

#[derive(Args, Debug)]
struct PasswordArgs {
    #[command(flatten)]
    user: NameArgs,
    /// File with the password; a final line break is ignored
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct AddArgs {
    #[command(flatten)]
    password: PasswordArgs,
    /// Role of the user: ROLE@DATABASE, or ROLE of the user's own database; may be repeated
    #[arg(long = "role", value_name = "ROLE[@DATABASE]", required = true)]
    roles: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &UserArgs) -> Result<ExitCode> {
    match &args.command {
        UserCommand::Add(add) => {
            let user = &add.password.user;
            // Users of `$external` have no password: they log in with a certificate.
            let password = match user.db.as_str() {
                "$external" => None,
                _ => Some(read_password(add.password.password_file.as_deref())?),
            };
            let command = DocBuf::build(|out| {
                out.str("createUser", &user.name);
                if let Some(password) = &password {
                    out.str("pwd", password);
                }
                out.array("roles", |roles| {
                    for role in &add.roles {
                        let (role, db) = role.split_once('@').unwrap_or((role, &user.db));
                        roles.push_doc(|out| {
                            out.str("role", role).str("db", db);
                        });
                    }
                });
            });
            user.place.run(&user.db, &command)?;
            say(&format!("created user {}@{}", user.name, user.db))
        }
        UserCommand::Password(change) => {
            let user = &change.user;
            let password = read_password(change.password_file.as_deref())?;
            let command = DocBuf::build(|out| {
                out.str("updateUser", &user.name).str("pwd", &password);
            });
            user.place.run(&user.db, &command)?;
            say(&format!("changed the password of user {}@{}", user.name, user.db))
        }
        UserCommand::Remove(user) => {
            let command = DocBuf::build(|out| {
                out.str("dropUser", &user.name);
            });
            user.place.run(&user.db, &command)?;
            say(&format!("removed user {}@{}", user.name, user.db))
        }
        UserCommand::List(place) => list(place),
    }
}

impl LocationArgs {
    fn run(&self, db: &str, command: &DocBuf) -> Result<DocBuf> {
        let mut target = match &self.data {
            Some(folder) => Target::folder(folder, true)?,
            None => Target::server(self.uri.as_deref().unwrap_or("mongodb://127.0.0.1:27017"))?,
        };
        let reply = target.run(db, command)?;
        target.close()?;
        Ok(reply)
    }
}

fn list(place: &LocationArgs) -> Result<ExitCode> {
    let command = DocBuf::build(|out| {
        out.doc("usersInfo", |out| {
            out.bool("forAllDBs", true);
        });
    });
    let reply = place.run("admin", &command)?;
    let users = reply.as_doc().get("users").and_then(Val::as_array).into_iter().flatten();
    let mut text = String::new();
    for (_, user) in users {
        let Some(user) = user.as_doc() else { continue };
        let part = |name| user.get(name).and_then(Val::as_str).unwrap_or("");
        text.push_str(&format!("{}@{}\t", part("user"), part("db")));
        let roles = user.get("roles").and_then(Val::as_array).into_iter().flatten();
        let roles: Vec<String> = roles
            .filter_map(|(_, role)| role.as_doc())
            .map(|role| {
                let part = |name| role.get(name).and_then(Val::as_str).unwrap_or("");
                format!("{}@{}", part("role"), part("db"))
            })
            .collect();
        text.push_str(&roles.join(", "));
        text.push('\n');
    }
    if text.is_empty() {
        text.push_str("no users\n");
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn say(text: &str) -> Result<ExitCode> {
    writeln!(std::io::stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the password from a file, from the terminal, or from standard input.
fn read_password(file: Option<&std::path::Path>) -> Result<String> {
    let text = match file {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the password file `{}`", path.display()))?,
        None if std::io::stdin().is_terminal() => ask()?,
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("cannot read the password")?;
            text
        }
    };
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() {
        bail!("the password is empty");
    }
    Ok(password.to_owned())
}

/// Asks for the password on the terminal, without echo.
fn ask() -> Result<String> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let stdin = std::io::stdin();
    write!(std::io::stderr(), "Password: ")?;
    let before = tcgetattr(&stdin).context("the terminal does not answer")?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Now, &silent)?;
    let mut line = String::new();
    let read = stdin.read_line(&mut line);
    tcsetattr(&stdin, OptionalActions::Now, &before)?;
    writeln!(std::io::stderr())?;
    read.context("cannot read the password")?;
    Ok(line)
}
