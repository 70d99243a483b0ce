//! Parameters that tools ask for and that never change here: limits of the query language, and
//! features of MongoDB that are always on or off.

use super::parameters::Parameter;
use crate::shared::Inner;
use crate::stages::STAGES_MAX;
use std::sync::atomic::Ordering;
use value::{Val, Writer, limits};

/// All of them, sorted by name.
pub(super) static FIXED: &[Parameter] = &[
    fixed("clusterAuthMode", |_, out, name| {
        out.str(name, "undefined");
    }),
    fixed("diagnosticDataCollectionEnabled", off),
    fixed("enableFlowControl", off),
    fixed("featureFlagClusteredIndexes", |_, out, name| {
        out.doc(name, |out| {
            out.bool("value", true).str("version", "5.3");
        });
    }),
    fixed("featureFlagFLE2", absent_feature),
    fixed("featureFlagSbeFull", absent_feature),
    fixed("internalLookupStageIntermediateDocumentMaxSizeBytes", stage_bytes),
    fixed("internalPipelineLengthLimit", |_, out, name| {
        out.count(name, STAGES_MAX as u64);
    }),
    fixed("internalQueryFacetBufferSizeBytes", |engine, out, name| {
        out.count(name, engine.data.resources.sort_bytes_max.load(Ordering::Relaxed) as u64);
    }),
    fixed("internalQueryMaxAddToSetBytes", stage_bytes),
    fixed("internalQueryMaxPushBytes", stage_bytes),
    fixed("internalQueryMaxRangeBytes", stage_bytes),
    fixed("maxBSONDepth", |_, out, name| {
        out.count(name, limits::DEPTH_MAX as u64);
    }),
    fixed("quiet", off),
    fixed("saslHostName", |_, out, name| {
        out.str(name, &crate::host::name());
    }),
    fixed("sslMode", tls_mode),
    fixed("tlsMode", tls_mode),
    fixed("traceExceptions", off),
    fixed("ttlMonitorEnabled", |_, out, name| {
        out.bool(name, true);
    }),
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
