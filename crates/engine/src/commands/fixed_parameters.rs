//! Parameters that tools ask for and that never change here: limits of the query language, and
//! features of MongoDB that are always on or off.

use super::parameters::Parameter;
use crate::shared::Inner;
use crate::stages::{DENSIFY_ADDED_MAX, STAGES_MAX, SUB_PIPELINE_DEPTH_MAX};
use std::sync::atomic::Ordering;
use value::{Val, Writer, limits};

/// All of them, sorted by name.
pub(super) static FIXED: &[Parameter] = &[
    fixed("clusterAuthMode", |_, out, name| {
        out.str(name, "undefined");
    }),
    fixed("diagnosticDataCollectionEnabled", off),
    // JavaScript is interpreted.
    fixed("disableJavaScriptJIT", on),
    fixed("enableFlowControl", off),
    fixed("featureFlagChangeStreamPreAndPostImages", since_6_0),
    fixed("featureFlagChangeStreamsVisibility", since_6_0),
    fixed("featureFlagClusteredIndexes", since_5_3),
    fixed("featureFlagCollModIndexUnique", since_6_0),
    fixed("featureFlagColumnstoreIndexes", absent_feature),
    fixed("featureFlagCommandsAcceptCollectionUUID", since_6_0),
    fixed("featureFlagDocumentSourceListCatalog", since_6_0),
    fixed("featureFlagExactTopNAccumulator", since_5_2),
    fixed("featureFlagFLE2", absent_feature),
    fixed("featureFlagFill", since_5_3),
    fixed("featureFlagLocf", since_5_2),
    fixed("featureFlagSBEGroupPushdown", absent_feature),
    fixed("featureFlagSBELookupPushdown", absent_feature),
    fixed("featureFlagSbeFull", absent_feature),
    fixed("featureFlagSortArray", since_5_2),
    fixed("featureFlagUserWriteBlocking", absent_feature),
    fixed("internalDocumentSourceLookupCacheSizeBytes", stage_bytes),
    fixed("internalLookupStageIntermediateDocumentMaxSizeBytes", stage_bytes),
    fixed("internalMaxSubPipelineViewDepth", |_, out, name| {
        out.i64(name, i64::try_from(SUB_PIPELINE_DEPTH_MAX).unwrap_or(i64::MAX));
    }),
    fixed("internalPipelineLengthLimit", |_, out, name| {
        out.count(name, STAGES_MAX as u64);
    }),
    fixed("internalQueryFacetBufferSizeBytes", |engine, out, name| {
        out.count(name, engine.data.resources.sort_bytes_max.load(Ordering::Relaxed) as u64);
    }),
    fixed("internalQueryFacetMaxOutputDocSizeBytes", stage_bytes),
    // There is no slot-based engine.
    fixed("internalQueryForceClassicEngine", on),
    fixed("internalQueryMaxAddToSetBytes", stage_bytes),
    fixed("internalQueryMaxAllowedDensifyDocs", |_, out, name| {
        out.count(name, DENSIFY_ADDED_MAX);
    }),
    fixed("internalQueryMaxPushBytes", stage_bytes),
    fixed("internalQueryMaxRangeBytes", stage_bytes),
    fixed("maxBSONDepth", |_, out, name| {
        out.count(name, limits::DEPTH_MAX as u64);
    }),
    fixed("multitenancySupport", off),
    fixed("quiet", off),
    fixed("saslHostName", |_, out, name| {
        out.str(name, &crate::host::name());
    }),
    fixed("sslMode", tls_mode),
    fixed("tlsMode", tls_mode),
    fixed("traceExceptions", off),
    fixed("ttlMonitorEnabled", on),
];

const fn fixed(
    name: &'static str,
    write: for<'e, 'o, 'w, 'n> fn(&'e Inner, &'o mut Writer<'w>, &'n str),
) -> Parameter {
    Parameter { name, write, set: None }
}

fn off(_: &Inner, out: &mut Writer<'_>, name: &str) {
    out.bool(name, false);
}

fn on(_: &Inner, out: &mut Writer<'_>, name: &str) {
    out.bool(name, true);
}

/// A feature that is there, with the version of MongoDB that brought it.
fn feature(out: &mut Writer<'_>, name: &str, since: &str) {
    out.doc(name, |out| {
        out.bool("value", true).str("version", since);
    });
}

fn since_5_2(_: &Inner, out: &mut Writer<'_>, name: &str) {
    feature(out, name, "5.2");
}

fn since_5_3(_: &Inner, out: &mut Writer<'_>, name: &str) {
    feature(out, name, "5.3");
}

fn since_6_0(_: &Inner, out: &mut Writer<'_>, name: &str) {
    feature(out, name, "6.0");
}

/// A feature of MongoDB that is not there.
fn absent_feature(_: &Inner, out: &mut Writer<'_>, name: &str) {
    out.doc(name, |out| {
        out.bool("value", false);
    });
}

fn stage_bytes(_: &Inner, out: &mut Writer<'_>, name: &str) {
    out.count(name, limits::BLOCKING_STAGE_BYTES_MAX as u64);
}

/// Whether connections are encrypted, as the options of the server say.
fn tls_mode(engine: &Inner, out: &mut Writer<'_>, name: &str) {
    let net = engine.data.options.config.as_doc().get("net").and_then(Val::as_doc);
    let tls = net.and_then(|net| net.get("tls")).and_then(Val::as_doc);
    out.str(name, tls.and_then(|tls| tls.get("mode")).and_then(Val::as_str).unwrap_or("disabled"));
}
