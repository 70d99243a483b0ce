//! Privilege actions, with MongoDB's names.

use std::fmt;

macro_rules! actions {
    ($($variant:ident $name:literal,)*) => {
        /// An action that a privilege allows.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "each is MongoDB's action of that name")]
        pub enum Action { $($variant,)* }

        /// All of them, sorted by name.
        pub static ALL: &[(Action, &str)] = &[$((Action::$variant, $name),)*];
    };
}

actions! {
    AddShard "addShard",
    AllCollectionStats "allCollectionStats",
    Analyze "analyze",
    AnyAction "anyAction",
    AppendOplogNote "appendOplogNote",
    ApplicationMessage "applicationMessage",
    ApplyOps "applyOps",
    AuditConfigure "auditConfigure",
    AuthSchemaUpgrade "authSchemaUpgrade",
    BypassDocumentValidation "bypassDocumentValidation",
    BypassPatterns "bypassPatterns",
    BypassWriteBlockingMode "bypassWriteBlockingMode",
    ChangeCustomData "changeCustomData",
    ChangeOwnCustomData "changeOwnCustomData",
    ChangeOwnPassword "changeOwnPassword",
    ChangePassword "changePassword",
    ChangeStream "changeStream",
    CheckFreeMonitoringStatus "checkFreeMonitoringStatus",
    CheckMetadataConsistency "checkMetadataConsistency",
    CleanupOrphaned "cleanupOrphaned",
    ClearJumboFlag "clearJumboFlag",
    CollMod "collMod",
    CollStats "collStats",
    Compact "compact",
    CompactStructuredEncryptionData "compactStructuredEncryptionData",
    ConfigureQueryAnalyzer "configureQueryAnalyzer",
    ConnPoolStats "connPoolStats",
    ConnPoolSync "connPoolSync",
    ConvertToCapped "convertToCapped",
    CreateCollection "createCollection",
    CreateIndex "createIndex",
    CreatePattern "createPattern",
    CreateRole "createRole",
    CreateUser "createUser",
    DbCheck "dbCheck",
    DbHash "dbHash",
    DbStats "dbStats",
    DropCollection "dropCollection",
    DropConnections "dropConnections",
    DropDatabase "dropDatabase",
    DropIndex "dropIndex",
    DropPattern "dropPattern",
    DropRole "dropRole",
    DropUser "dropUser",
    EnableProfiler "enableProfiler",
    EnableSharding "enableSharding",
    ExportCollection "exportCollection",
    Find "find",
    FlushRouterConfig "flushRouterConfig",
    ForceUUID "forceUUID",
    Fsync "fsync",
    GetClusterParameter "getClusterParameter",
    GetCmdLineOpts "getCmdLineOpts",
    GetDatabaseVersion "getDatabaseVersion",
    GetDefaultRWConcern "getDefaultRWConcern",
    GetLog "getLog",
    GetParameter "getParameter",
    GetShardMap "getShardMap",
    GetShardVersion "getShardVersion",
    GrantRole "grantRole",
    HostInfo "hostInfo",
    Impersonate "impersonate",
    ImportCollection "importCollection",
    IndexStats "indexStats",
    Inprog "inprog",
    Insert "insert",
    Internal "internal",
    InvalidateUserCache "invalidateUserCache",
    KillAnyCursor "killAnyCursor",
    KillAnySession "killAnySession",
    KillCursors "killCursors",
    Killop "killop",
    ListCachedAndActiveUsers "listCachedAndActiveUsers",
    ListCollections "listCollections",
    ListDatabases "listDatabases",
    ListIndexes "listIndexes",
    ListSessions "listSessions",
    ListShards "listShards",
    LogRotate "logRotate",
    MoveChunk "moveChunk",
    Netstat "netstat",
    OidReset "oidReset",
    OperationMetrics "operationMetrics",
    PlanCacheIndexFilter "planCacheIndexFilter",
    PlanCacheRead "planCacheRead",
    PlanCacheWrite "planCacheWrite",
    QuerySettings "querySettings",
    QueryStatsRead "queryStatsRead",
    QueryStatsReadTransformed "queryStatsReadTransformed",
    ReIndex "reIndex",
    RefineCollectionShardKey "refineCollectionShardKey",
    Remove "remove",
    RemoveShard "removeShard",
    RenameCollectionSameDB "renameCollectionSameDB",
    ReplSetConfigure "replSetConfigure",
    ReplSetGetConfig "replSetGetConfig",
    ReplSetGetStatus "replSetGetStatus",
    ReplSetResizeOplog "replSetResizeOplog",
    ReplSetStateChange "replSetStateChange",
    ReshardCollection "reshardCollection",
    Resync "resync",
    RevokeRole "revokeRole",
    RotateCertificates "rotateCertificates",
    RunTenantMigration "runTenantMigration",
    ServerStatus "serverStatus",
    SetAuthenticationRestriction "setAuthenticationRestriction",
    SetClusterParameter "setClusterParameter",
    SetDefaultRWConcern "setDefaultRWConcern",
    SetFeatureCompatibilityVersion "setFeatureCompatibilityVersion",
    SetFreeMonitoring "setFreeMonitoring",
    SetParameter "setParameter",
    SetUserWriteBlockMode "setUserWriteBlockMode",
    ShardedDataDistribution "shardedDataDistribution",
    ShardingState "shardingState",
    Shutdown "shutdown",
    SplitChunk "splitChunk",
    SplitVector "splitVector",
    StorageDetails "storageDetails",
    Top "top",
    Touch "touch",
    TrafficRecord "trafficRecord",
    Unlock "unlock",
    Update "update",
    UseTenant "useTenant",
    UseUUID "useUUID",
    Validate "validate",
    ViewRole "viewRole",
    ViewUser "viewUser",
}

impl Action {
    /// The action of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Action> {
        ALL.iter().find(|(_, known)| *known == name).map(|(action, _)| *action)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        ALL.get(self as usize).map_or("", |(_, name)| name)
    }
}

/// A set of actions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Actions(u128);

impl Actions {
    /// Every action there is.
    pub const EVERY: Actions = Actions(u128::MAX);

    /// These actions.
    #[must_use]
    pub const fn of(actions: &[Action]) -> Actions {
        let mut bits = 0;
        let mut at = 0;
        while at < actions.len() {
            bits |= 1 << (actions[at] as u32);
            at += 1;
        }
        Actions(bits)
    }

    /// Adds an action; `anyAction` adds all of them.
    pub fn add(&mut self, action: Action) {
        self.0 |= if action == Action::AnyAction { u128::MAX } else { 1 << (action as u32) };
    }

    /// Both together.
    #[must_use]
    pub const fn union(self, other: Actions) -> Actions {
        Actions(self.0 | other.0)
    }

    /// The actions that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Actions) -> Actions {
        Actions(self.0 & !other.0)
    }

    /// Whether the set contains all of `other`.
    #[must_use]
    pub const fn contains(self, other: Actions) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their names, sorted; all of them together are `anyAction`.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        if self == Actions::EVERY {
            return vec![Action::AnyAction.name()];
        }
        let has = |action: Action| self.0 & (1 << (action as u32)) != 0;
        ALL.iter().filter(|(action, _)| has(*action)).map(|(_, name)| *name).collect()
    }
}

impl fmt::Debug for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_sorted_and_fit_into_the_bits() {
        assert!(ALL.len() <= 128);
        assert!(ALL.windows(2).all(|pair| pair[0].1 < pair[1].1));
        for (action, name) in ALL {
            assert_eq!(Action::named(name), Some(*action));
            assert_eq!(action.name(), *name);
        }
    }

    #[test]
    fn any_action_is_every_action() {
        let mut actions = Actions::of(&[Action::Find]);
        assert!(!actions.contains(Actions::of(&[Action::Find, Action::Insert])));
        assert_eq!(actions.names(), ["find"]);
        actions.add(Action::AnyAction);
        assert_eq!(actions.names(), ["anyAction"]);
        assert!(actions.contains(Actions::of(&[Action::Shutdown])));
    }
}
