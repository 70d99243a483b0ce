//! What each command needs: a row for every command there is.

use super::login::Login;
use super::pipeline::Pipeline;
use super::{Directory, RoleName};
use crate::engine::Inner;
use crate::request::Request;
use ::access::Action::{self, *};
use ::access::{Actions, Privilege, Privileges, Resource};
use std::sync::Arc;
use value::{Code, Error, RawDoc, Result, Val};

/// What a command needs.
#[derive(Clone, Copy)]
enum Rule {
    /// Nothing: those who did not log in may send it.
    Open,
    /// To have logged in.
    User,
    /// Actions on the collection that its first field names.
    Collection(&'static [Action]),
    /// Actions on its database.
    Database(&'static [Action]),
    /// Actions on the server.
    Cluster(&'static [Action]),
    /// It depends on its fields.
    Asks(fn(&Asked<'_>) -> bool),
}

use Rule::{Asks, Cluster, Collection, Database, Open, User};

/// Sorted by name.
static RULES: &[(&str, Rule)] = &[
    ("abortTransaction", User),
    ("aggregate", Asks(aggregate)),
    ("authenticate", Open),
    ("buildInfo", Open),
    ("bulkWrite", Asks(bulk_write)),
    ("cloneCollectionAsCapped", Asks(clone_capped)),
    ("collMod", Asks(coll_mod)),
    ("collStats", Collection(&[CollStats])),
    ("commitTransaction", User),
    ("compact", Collection(&[Compact])),
    ("configureFailPoint", User),
    ("connPoolStats", Cluster(&[ConnPoolStats])),
    ("connectionStatus", Open),
    ("convertToCapped", Collection(&[ConvertToCapped])),
    ("count", Collection(&[Find])),
    ("create", Asks(create)),
    ("createIndexes", Collection(&[CreateIndex])),
    ("createPatterns", Asks(create_patterns)),
    ("createRole", Asks(create_role)),
    ("createUser", Asks(create_user)),
    ("currentOp", Asks(current_op)),
    ("dataSize", Asks(data_size)),
    ("dbHash", Database(&[DbHash])),
    ("dbStats", Database(&[DbStats])),
    ("delete", Asks(delete)),
    ("distinct", Collection(&[Find])),
    ("drop", Collection(&[DropCollection])),
    ("dropAllRolesFromDatabase", Database(&[DropRole])),
    ("dropAllUsersFromDatabase", Database(&[DropUser])),
    ("dropDatabase", Database(&[DropDatabase])),
    ("dropIndexes", Collection(&[DropIndex])),
    ("dropPatterns", Collection(&[DropPattern])),
    ("dropRole", Database(&[DropRole])),
    ("dropUser", Database(&[DropUser])),
    ("endSessions", User),
    ("explain", Asks(explain)),
    ("features", User),
    ("filemd5", Asks(file_md5)),
    ("find", Collection(&[Find])),
    ("findAndModify", Asks(find_and_modify)),
    ("fsync", Cluster(&[Fsync])),
    ("fsyncUnlock", Cluster(&[Unlock])),
    ("getCmdLineOpts", Cluster(&[GetCmdLineOpts])),
    ("getDefaultRWConcern", Cluster(&[GetDefaultRWConcern])),
    ("getDiagnosticData", Asks(diagnostic_data)),
    ("getLog", Cluster(&[GetLog])),
    // Whose cursor it is, is looked at where the cursor is found.
    ("getMore", User),
    ("getParameter", Cluster(&[GetParameter])),
    ("getnonce", Open),
    ("grantPrivilegesToRole", Asks(change_privileges_grant)),
    ("grantRolesToRole", Asks(grant_roles)),
    ("grantRolesToUser", Asks(grant_roles)),
    ("hello", Open),
    ("hostInfo", Cluster(&[HostInfo])),
    ("insert", Asks(insert)),
    ("invalidateUserCache", Cluster(&[InvalidateUserCache])),
    ("isMaster", Open),
    ("killAllSessions", Cluster(&[KillAnySession])),
    ("killAllSessionsByPattern", Cluster(&[KillAnySession])),
    ("killCursors", User),
    ("killOp", User),
    ("killSessions", User),
    ("listCollections", Asks(list_collections)),
    ("listCommands", Open),
    // Without the action it lists what the user can reach.
    ("listDatabases", User),
    ("listIndexes", Collection(&[ListIndexes])),
    ("listPatterns", Asks(list_patterns)),
    ("lockInfo", Cluster(&[ServerStatus])),
    ("logRotate", Cluster(&[LogRotate])),
    ("logout", Open),
    // What a new version reads and writes is looked at where it is known.
    ("modifyPattern", Collection(&[CreatePattern])),
    ("ping", Open),
    ("planCacheClear", Collection(&[PlanCacheWrite])),
    ("planCacheClearFilters", Collection(&[PlanCacheIndexFilter])),
    ("planCacheListFilters", Collection(&[PlanCacheIndexFilter])),
    ("planCacheSetFilter", Collection(&[PlanCacheIndexFilter])),
    ("profile", Asks(profile)),
    ("reIndex", Collection(&[ReIndex])),
    ("refreshSessions", User),
    ("renameCollection", Asks(rename)),
    ("replSetGetConfig", Cluster(&[ReplSetGetConfig])),
    ("replSetGetStatus", Cluster(&[ReplSetGetStatus])),
    ("replSetResizeOplog", Cluster(&[ReplSetResizeOplog])),
    ("resumePatterns", Collection(&[CreatePattern])),
    ("revokePrivilegesFromRole", Asks(change_privileges_revoke)),
    ("revokeRolesFromRole", Asks(revoke_roles)),
    ("revokeRolesFromUser", Asks(revoke_roles)),
    ("rolesInfo", Asks(roles_info)),
    ("rotateCertificates", Cluster(&[RotateCertificates])),
    ("saslContinue", Open),
    ("saslStart", Open),
    ("serverStatus", Cluster(&[ServerStatus])),
    ("setDefaultRWConcern", Cluster(&[SetDefaultRWConcern])),
    ("setParameter", Cluster(&[SetParameter])),
    ("shutdown", Cluster(&[Shutdown])),
    ("startSession", User),
    ("suspendPatterns", Collection(&[CreatePattern])),
    ("top", Cluster(&[Top])),
    ("update", Asks(update)),
    ("updateRole", Asks(update_role)),
    ("updateUser", Asks(update_user)),
    ("usersInfo", Asks(users_info)),
    ("validate", Collection(&[Validate])),
    ("validateDBMetadata", Database(&[Validate])),
    ("validatePatterns", Collection(&[Validate])),
    ("whatsmysni", Open),
    ("whatsmyuri", Open),
];

fn rule(command: &str) -> Option<Rule> {
    let at = RULES.binary_search_by(|(name, _)| (*name).cmp(command)).ok()?;
    RULES.get(at).map(|(_, rule)| *rule)
}

/// A command that somebody wants to run.
struct Asked<'a> {
    login: &'a Login,
    privileges: &'a Privileges,
    db: &'a str,
    body: RawDoc<'a>,
    request: &'a Request<'a>,
}

/// Refuses a command that the client may not run.
///
/// # Errors
/// Unauthorized.
pub(crate) fn check(
    engine: &Arc<Inner>,
    login: &mut Login,
    command: &'static str,
    db: &str,
    request: &Request<'_>,
) -> Result<()> {
    let rule = rule(command);
    if matches!(rule, Some(Open)) {
        return Ok(());
    }
    login.refresh(engine)?;
    if login.users().is_empty() {
        if is_first_user(engine, login, command, db)? {
            return Ok(());
        }
        return Err(Error::new(
            Code::UNAUTHORIZED,
            format!("command {command} requires authentication"),
        ));
    }
    let (login, privileges) = (&*login, &**login.privileges());
    let asked = Asked { login, privileges, db, body: request.body, request };
    // A command without a row is one for nobody but those who may do everything.
    let allowed = match rule {
        Some(rule) => asked.fits(rule),
        None => privileges.on_anything() == Actions::EVERY,
    };
    if allowed { Ok(()) } else { Err(asked.refuse(command)) }
}

/// While there is no user, somebody on this machine may make the first one.
fn is_first_user(engine: &Arc<Inner>, login: &Login, command: &str, db: &str) -> Result<bool> {
    let makes = db == "admin" && matches!(command, "createUser" | "createRole");
    if !makes || !login.local {
        return Ok(false);
    }
    Ok(!Directory::open(Arc::clone(engine)).has_users()?)
}

impl<'a> Asked<'a> {
    fn fits(&self, rule: Rule) -> bool {
        match rule {
            Open | User => true,
            Collection(actions) => self.on_collection(self.collection(), actions),
            Database(actions) => self.on_database(actions),
            Cluster(actions) => self.on_cluster(actions),
            Asks(asks) => asks(self),
        }
    }

    fn refuse(&self, command: &str) -> Error {
        // Values of the command stay out: they may be anything.
        let collection = self.collection();
        let what = if collection.is_empty() { "1".to_owned() } else { format!("\"{collection}\"") };
        Error::new(
            Code::UNAUTHORIZED,
            format!("not authorized on {} to execute command {{ {command}: {what} }}", self.db),
        )
    }

    /// The collection in the first field; empty when there is none.
    fn collection(&self) -> &'a str {
        self.body.first().and_then(|(_, value)| value.get().as_str()).unwrap_or("")
    }

    fn on_collection(&self, name: &str, actions: &[Action]) -> bool {
        self.privileges.on_collection(self.db, name).contains(Actions::of(actions))
    }

    fn on_database(&self, actions: &[Action]) -> bool {
        self.privileges.on_database(self.db).contains(Actions::of(actions))
    }

    fn on_cluster(&self, actions: &[Action]) -> bool {
        self.privileges.on_cluster().contains(Actions::of(actions))
    }

    /// Actions on a `db.collection`.
    fn on_namespace(&self, namespace: &str, actions: &[Action]) -> bool {
        let (db, name) = namespace.split_once('.').unwrap_or((namespace, ""));
        self.privileges.on_collection(db, name).contains(Actions::of(actions))
    }

    fn flag(&self, name: &str) -> bool {
        self.body.get(name).is_some_and(Val::truthy)
    }

    /// What is needed to skip what a write asks to skip: validators, patterns.
    fn skips(&self) -> Actions {
        let mut needed = Actions::default();
        if self.flag("bypassDocumentValidation") {
            needed.add(BypassDocumentValidation);
        }
        if self.flag("bypassPatterns") {
            needed.add(BypassPatterns);
        }
        needed
    }

    /// Actions on the collection, and what it takes to skip what is asked to be skipped.
    fn writes(&self, needed: Actions) -> bool {
        let needed = needed.union(self.skips());
        self.privileges.on_collection(self.db, self.collection()).contains(needed)
    }

    /// The statements of a write, wherever they came.
    fn statements(&self, name: &'a str) -> impl Iterator<Item = RawDoc<'a>> {
        let inside = self.body.get(name).and_then(Val::as_array).into_iter().flatten();
        let inside = inside.filter_map(|(_, statement)| statement.as_doc());
        let beside = self.request.sequences.iter().filter(move |sequence| sequence.name == name);
        inside.chain(beside.flat_map(crate::request::Sequence::iter))
    }

    /// Whether the user may give these roles, or take them away.
    fn on_roles(&self, field: &str, action: Action) -> bool {
        let roles = self.body.get(field).and_then(Val::as_array).unwrap_or(RawDoc::empty());
        // What is no role is refused when the command reads it.
        let roles = RoleName::parse_all(roles, self.db).unwrap_or_default();
        roles
            .iter()
            .all(|role| self.privileges.on_database(&role.db).contains(Actions::of(&[action])))
    }

    /// Whether the user may give these privileges, or take them away.
    fn on_privileges(&self, action: Action) -> bool {
        let list = self.body.get("privileges").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let mut list = list.into_iter().filter_map(|(_, value)| value.as_doc());
        list.all(|doc| match Privilege::parse(doc) {
            Err(_) => true,
            Ok(privilege) => {
                let db = match &privilege.resource {
                    Resource::Database(db) | Resource::Exact(db, _) => db,
                    _ => "admin",
                };
                self.privileges.on_database(db).contains(Actions::of(&[action]))
            }
        })
    }

    fn on_all_databases(&self, action: Action) -> bool {
        self.privileges.on_any_collection().contains(Actions::of(&[action]))
    }
}

fn insert(asked: &Asked<'_>) -> bool {
    asked.writes(Actions::of(&[Insert]))
}

fn delete(asked: &Asked<'_>) -> bool {
    asked.writes(Actions::of(&[Remove]))
}

fn update(asked: &Asked<'_>) -> bool {
    let mut needed = Actions::of(&[Update]);
    if asked.statements("updates").any(|statement| statement.get("upsert").is_some_and(Val::truthy))
    {
        needed.add(Insert);
    }
    asked.writes(needed)
}

fn find_and_modify(asked: &Asked<'_>) -> bool {
    let mut needed = Actions::of(&[Find]);
    if asked.flag("remove") {
        needed.add(Remove);
    } else {
        needed.add(Update);
        if asked.flag("upsert") {
            needed.add(Insert);
        }
    }
    asked.writes(needed)
}

/// Each statement names its collection by its place in `nsInfo`.
fn bulk_write(asked: &Asked<'_>) -> bool {
    let namespaces: Vec<&str> = asked
        .statements("nsInfo")
        .map(|info| info.get("ns").and_then(Val::as_str).unwrap_or(""))
        .collect();
    asked.statements("ops").all(|statement| {
        let Some((kind, at)) = statement.first() else { return true };
        let at = at.get().as_i64_exact().and_then(|at| usize::try_from(at).ok());
        let Some(namespace) = at.and_then(|at| namespaces.get(at)) else { return true };
        let mut needed = match kind {
            "insert" => vec![Insert],
            "update" => vec![Update],
            _ => vec![Remove],
        };
        if kind == "update" && statement.get("upsert").is_some_and(Val::truthy) {
            needed.push(Insert);
        }
        if asked.flag("bypassDocumentValidation") && kind != "delete" {
            needed.push(BypassDocumentValidation);
        }
        if asked.flag("bypassPatterns") {
            needed.push(BypassPatterns);
        }
        asked.on_namespace(namespace, &needed)
    })
}

fn aggregate(asked: &Asked<'_>) -> bool {
    let collection = asked.body.first().and_then(|(_, value)| value.get().as_str());
    let stages = asked.body.get("pipeline").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let beside = asked.skips();
    Pipeline { privileges: asked.privileges, db: asked.db, beside }.is_allowed(collection, stages)
}

/// Who may read a view must be allowed to read what it reads: or a view would show what is hidden.
fn view_allowed(asked: &Asked<'_>) -> bool {
    if !asked.on_collection(asked.collection(), &[Find]) {
        return true;
    }
    let on = asked.body.get("viewOn").and_then(Val::as_str);
    let stages = asked.body.get("pipeline").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let (privileges, beside) = (asked.privileges, Actions::default());
    let pipeline = Pipeline { privileges, db: asked.db, beside };
    match on {
        Some(on) => pipeline.is_allowed(Some(on), stages),
        // A view may get another pipeline over what it is on already.
        None => pipeline.stages_allowed(stages, 0),
    }
}

fn create(asked: &Asked<'_>) -> bool {
    let name = asked.collection();
    let makes = if asked.flag("capped") {
        asked.on_collection(name, &[ConvertToCapped])
            && (asked.on_collection(name, &[CreateCollection])
                || asked.on_collection(name, &[Insert]))
    } else {
        asked.on_collection(name, &[CreateCollection]) || asked.on_collection(name, &[Insert])
    };
    let declares = asked.body.find("patterns").is_none() || create_patterns(asked);
    makes && declares && view_allowed(asked)
}

fn coll_mod(asked: &Asked<'_>) -> bool {
    asked.on_collection(asked.collection(), &[CollMod]) && view_allowed(asked)
}

fn clone_capped(asked: &Asked<'_>) -> bool {
    let target = asked.body.get("toCollection").and_then(Val::as_str).unwrap_or("");
    asked.on_collection(asked.collection(), &[Find])
        && asked.on_collection(target, &[Insert, CreateIndex, ConvertToCapped])
}

fn explain(asked: &Asked<'_>) -> bool {
    let Some(inner) = asked.body.first().and_then(|(_, value)| value.as_doc()) else { return true };
    let Some((name, _)) = inner.first() else { return true };
    let rule = crate::commands::find(name).and_then(|command| rule(command.name));
    let asked = Asked { body: inner, ..*asked };
    rule.is_none_or(|rule| asked.fits(rule))
}

fn current_op(asked: &Asked<'_>) -> bool {
    asked.flag("$ownOps") || asked.on_cluster(&[Inprog])
}

fn data_size(asked: &Asked<'_>) -> bool {
    asked.on_namespace(asked.collection(), &[Find])
}

fn file_md5(asked: &Asked<'_>) -> bool {
    let root = asked.body.get("root").and_then(Val::as_str).unwrap_or("fs");
    asked.on_collection(&format!("{root}.chunks"), &[Find])
}

fn diagnostic_data(asked: &Asked<'_>) -> bool {
    asked.on_cluster(&[ServerStatus, ReplSetGetStatus])
        && asked.on_namespace("local.oplog.rs", &[CollStats])
}

fn profile(asked: &Asked<'_>) -> bool {
    let level = asked.body.first().and_then(|(_, value)| value.get().as_i64_exact());
    asked.on_database(&[EnableProfiler])
        || (level.is_some_and(|level| !(0..=2).contains(&level))
            && asked.on_collection("system.profile", &[Find]))
}

fn list_collections(asked: &Asked<'_>) -> bool {
    asked.on_database(&[ListCollections])
        || (asked.flag("authorizedCollections")
            && asked.flag("nameOnly")
            && asked.privileges.reaches_database(asked.db))
}

fn list_patterns(asked: &Asked<'_>) -> bool {
    let name = asked.collection();
    if name.is_empty() {
        asked.on_database(&[ListCollections])
    } else {
        asked.on_collection(name, &[ListIndexes])
    }
}

/// Whether somebody may declare a pattern, as far as what it reads and writes is concerned.
pub(crate) fn may_declare(
    privileges: &Privileges,
    db: &str,
    pattern: &::patterns::Pattern,
) -> bool {
    let on = |name: &str, actions: &[Action]| {
        privileges.on_collection(db, name).contains(Actions::of(actions))
    };
    on(&pattern.collection, &[CreatePattern, Find, Update])
        && pattern.source().is_none_or(|source| on(source, &[Find]))
        && (!pattern.owns_documents() || on(&pattern.target, &[Insert, Update, Remove]))
}

/// Whoever declares a pattern reads its sources with the rights of the server: so they need their own.
fn create_patterns(asked: &Asked<'_>) -> bool {
    let patterns = asked.body.get("patterns").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let mut patterns = patterns.into_iter().filter_map(|(_, pattern)| pattern.as_doc());
    asked.on_collection(asked.collection(), &[CreatePattern, Find, Update])
        && patterns.all(|doc| {
            // As it will be understood. What cannot be is refused when the command reads it.
            let pattern = ::patterns::declaration::parse(asked.collection(), doc);
            pattern.map_or(true, |pattern| may_declare(asked.privileges, asked.db, &pattern))
        })
}

fn rename(asked: &Asked<'_>) -> bool {
    let from = asked.collection();
    let to = asked.body.get("to").and_then(Val::as_str).unwrap_or("");
    let database = |namespace: &str| namespace.split_once('.').map(|(db, _)| db.to_owned());
    let drops = asked.flag("dropTarget");
    if database(from) == database(to) {
        let allowed = asked.on_namespace(from, &[RenameCollectionSameDB])
            && asked.on_namespace(to, &[RenameCollectionSameDB]);
        // A rename must not show what could not be read before.
        let shows = asked.on_namespace(to, &[Find]) && !asked.on_namespace(from, &[Find]);
        if allowed && !shows && (!drops || asked.on_namespace(to, &[DropCollection])) {
            return true;
        }
    }
    asked.on_namespace(from, &[Find, DropCollection])
        && asked.on_namespace(to, &[Insert, CreateIndex])
        && (!drops || asked.on_namespace(to, &[DropCollection]))
}

/// Whether the user may say from where another one, or a role, may be used, if that is said.
fn restricts(asked: &Asked<'_>) -> bool {
    asked.body.find("authenticationRestrictions").is_none()
        || asked.on_database(&[SetAuthenticationRestriction])
}

fn create_user(asked: &Asked<'_>) -> bool {
    asked.on_database(&[CreateUser]) && asked.on_roles("roles", GrantRole) && restricts(asked)
}

fn update_user(asked: &Asked<'_>) -> bool {
    let own = asked
        .login
        .users()
        .iter()
        .any(|user| user.db == asked.db && user.name == asked.collection());
    let may = |field: &str, action: Action, own_action: Action| {
        asked.body.find(field).is_none()
            || asked.on_database(&[action])
            || (own && asked.on_database(&[own_action]))
    };
    may("pwd", ChangePassword, ChangeOwnPassword)
        && may("mechanisms", ChangePassword, ChangeOwnPassword)
        && may("customData", ChangeCustomData, ChangeOwnCustomData)
        && restricts(asked)
        && (asked.body.find("roles").is_none()
            || (asked.on_all_databases(RevokeRole) && asked.on_roles("roles", GrantRole)))
}

fn grant_roles(asked: &Asked<'_>) -> bool {
    asked.on_roles("roles", GrantRole)
}

fn revoke_roles(asked: &Asked<'_>) -> bool {
    asked.on_roles("roles", RevokeRole)
}

fn create_role(asked: &Asked<'_>) -> bool {
    asked.on_database(&[CreateRole])
        && asked.on_roles("roles", GrantRole)
        && asked.on_privileges(GrantRole)
        && restricts(asked)
}

fn update_role(asked: &Asked<'_>) -> bool {
    asked.on_all_databases(RevokeRole)
        && asked.on_roles("roles", GrantRole)
        && asked.on_privileges(GrantRole)
        && restricts(asked)
}

fn change_privileges_grant(asked: &Asked<'_>) -> bool {
    asked.on_privileges(GrantRole)
}

fn change_privileges_revoke(asked: &Asked<'_>) -> bool {
    asked.on_privileges(RevokeRole)
}

fn users_info(asked: &Asked<'_>) -> bool {
    let Some((_, value)) = asked.body.first() else { return true };
    let own = |name: &str, db: &str| {
        asked.login.users().iter().any(|user| user.name == name && user.db == db)
    };
    let view = |db: &str| asked.privileges.on_database(db).contains(Actions::of(&[ViewUser]));
    let one = |value: Val<'_>| match value {
        Val::String(name) => view(asked.db) || own(name, asked.db),
        Val::Document(doc) => {
            let part = |name| doc.get(name).and_then(Val::as_str).unwrap_or("");
            view(part("db")) || own(part("user"), part("db"))
        }
        _ => true,
    };
    match value.get() {
        Val::Document(doc) if doc.find("forAllDBs").is_some() => asked.on_cluster(&[ViewUser]),
        Val::Array(users) => users.into_iter().all(|(_, user)| one(user.get())),
        value @ (Val::String(_) | Val::Document(_)) => one(value),
        _ => view(asked.db),
    }
}

fn roles_info(asked: &Asked<'_>) -> bool {
    let Some((_, value)) = asked.body.first() else { return true };
    let view = |db: &str| asked.privileges.on_database(db).contains(Actions::of(&[ViewRole]));
    let has = |name: &RoleName| {
        asked.login.users().iter().any(|user| user.inherited.roles.contains(name))
    };
    let one = |value: Val<'_>| match RoleName::parse(value, asked.db) {
        Ok(name) => view(&name.db) || has(&name),
        Err(_) => true,
    };
    match value.get() {
        Val::Array(roles) => roles.into_iter().all(|(_, role)| one(role.get())),
        value @ (Val::String(_) | Val::Document(_)) => one(value),
        _ => view(asked.db),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_sorted_so_that_binary_search_works() {
        for pair in RULES.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} stands before {}", pair[0].0, pair[1].0);
        }
    }

    #[test]
    fn every_command_has_a_rule() {
        for command in crate::commands::ALL {
            assert!(rule(command.name).is_some(), "{} has no rule", command.name);
        }
    }
    fn allows(role: &str, text: &str) -> bool {
        let mut privileges = Privileges::default();
        let role = ::access::builtin::find("t", role).expect("a role");
        role.privileges("t").iter().for_each(|privilege| privileges.add(privilege));
        let slot = crate::operation::Operation::for_tests(1).slot().clone();
        let login = Login::new(slot, true, false, ::access::restriction::Ends::default());
        let body = value::ejson::parse_doc(text).expect("test text");
        let request = Request::new(body.as_doc());
        let (privileges, body) = (&privileges, body.as_doc());
        let asked = Asked { login: &login, privileges, db: "t", body, request: &request };
        let (name, _) = body.first().expect("a command");
        asked.fits(rule(name).expect("a rule"))
    }

    #[test]
    fn who_goes_past_patterns_needs_the_right_to() {
        for command in [
            "insert: 'c', documents: [{_id: 1}]",
            "update: 'c', updates: [{q: {}, u: {$set: {a: 1}}}]",
            "delete: 'c', deletes: [{q: {}, limit: 0}]",
            "findAndModify: 'c', query: {}, remove: true",
            "aggregate: 'c', pipeline: [{$merge: 'd'}]",
            "bulkWrite: 1, ops: [{delete: 0, filter: {}}], nsInfo: [{ns: 't.c'}]",
        ] {
            let past = format!("{{{command}, bypassPatterns: true}}");
            assert!(allows("readWrite", &format!("{{{command}}}")), "{command}");
            assert!(!allows("readWrite", &past), "{past}");
            assert!(allows("dbOwner", &past), "{past}");
        }
    }

    #[test]
    fn patterns_as_options_of_a_collection_need_what_patterns_need() {
        let plain = "{create: 'c'}";
        let declared = "{create: 'c', patterns: [{kind: 'computed', from: 'd', on: {foreign: 'c'}, fields: {n: {$count: {}}}}]}";
        let declare = "{createPatterns: 'c', patterns: [{kind: 'computed', from: 'd', on: {foreign: 'c'}, fields: {n: {$count: {}}}}]}";
        // It may create collections and patterns, but not read what they copy.
        assert!(allows("dbAdmin", plain));
        assert!(!allows("dbAdmin", declared) && !allows("dbAdmin", declare));
        assert!(!allows("read", plain) && !allows("read", declare));
        assert!(allows("dbOwner", declared) && allows("dbOwner", declare));
        // A new version must not read what its author may not.
        let parse = |text: &str| {
            let doc = value::ejson::parse_doc(text).expect("test text");
            ::patterns::declaration::parse("c", doc.as_doc()).expect("a pattern")
        };
        let mut privileges = Privileges::default();
        let mut allow = |name: &str, actions: &str| {
            let text =
                format!("{{resource: {{db: 't', collection: '{name}'}}, actions: {actions}}}");
            let doc = value::ejson::parse_doc(&text).expect("test text");
            privileges.add(&Privilege::parse(doc.as_doc()).expect("a privilege"));
            privileges.clone()
        };
        let copies = parse(
            "{kind: 'extendedReference', ref: 's._id', from: 'secrets', fields: ['x'], into: 's'}",
        );
        let groups =
            parse("{kind: 'computed', into: 'g', groupBy: '$x', fields: {n: {$count: {}}}}");
        let own = allow("c", "['createPattern', 'find', 'update']");
        assert!(!may_declare(&own, "t", &copies) && !may_declare(&own, "t", &groups));
        assert!(may_declare(&allow("secrets", "['find']"), "t", &copies));
        assert!(may_declare(&allow("g", "['insert', 'update', 'remove']"), "t", &groups));
    }
}
