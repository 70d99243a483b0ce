//! Plans as indented lines: names of stages, outermost first, with their main properties.

use crate::text;
use value::{RawDoc, Val};

/// The lines of the winning plan of an `explain` reply; empty when it has none. With `details`
/// they show filters and bounds as well.
#[must_use]
pub fn lines(reply: RawDoc<'_>, details: bool) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(plan) = winning_plan(reply) {
        draw(plan, 0, details, &mut out);
    }
    out
}

fn winning_plan(reply: RawDoc<'_>) -> Option<RawDoc<'_>> {
    let planner = reply.get("queryPlanner").and_then(Val::as_doc).or_else(|| {
        // An aggregation with more stages than a query: the first stage has the plan.
        let stages = reply.get("stages").and_then(Val::as_array)?;
        let (_, first) = stages.first()?;
        first.as_doc()?.get("$cursor")?.as_doc()?.get("queryPlanner")?.as_doc()
    })?;
    let plan = planner.get("winningPlan")?.as_doc()?;
    // MongoDB's newer executor puts the plan into `queryPlan`.
    Some(plan.get("queryPlan").and_then(Val::as_doc).unwrap_or(plan))
}

fn draw(stage: RawDoc<'_>, depth: usize, details: bool, out: &mut Vec<String>) {
    if depth > 40 {
        return;
    }
    let name = stage.get("stage").and_then(Val::as_str).unwrap_or("?");
    let mut line = format!("{}{name}", "  ".repeat(depth));
    for field in ["keyPattern", "sortPattern"] {
        if let Some(pattern) = stage.get(field).and_then(Val::as_doc) {
            line.push(' ');
            line.push_str(&text::print_doc(pattern));
        }
    }
    if stage.get("direction").and_then(Val::as_str) == Some("backward") {
        line.push_str(" backward");
    }
    for (name, field) in [("filter", "filter"), ("bounds", "indexBounds")] {
        if let Some(shown) = stage.get(field).and_then(Val::as_doc).filter(|_| details) {
            line.push_str(&format!(" {name} {}", text::print_doc(shown)));
        }
    }
    out.push(line);
    if let Some(input) = stage.get("inputStage").and_then(Val::as_doc) {
        draw(input, depth + 1, details, out);
    }
    for (_, input) in stage.get("inputStages").and_then(Val::as_array).unwrap_or(RawDoc::empty()) {
        if let Some(input) = input.as_doc() {
            draw(input, depth + 1, details, out);
        }
    }
}
