//! The order of patterns that depend on each other: an edge leads from every path that a pattern
//! reads to every path that it maintains. Cycles are refused, and so are two patterns that
//! maintain the same path.

use crate::paths::meet;
use crate::pattern::Pattern;
use crate::shape::Shape;
use value::{Code, Error, Result};

/// Returns the position of each pattern in an order in which it comes after those that it depends
/// on.
///
/// # Errors
/// BadValue that names the patterns of a cycle, or the two that maintain one path.
pub fn order(patterns: &[&Pattern]) -> Result<Vec<usize>> {
    check_owners(patterns)?;
    check_layouts(patterns)?;
    check_resolved(patterns)?;
    let feeds = |from: &Pattern, to: &Pattern| {
        // A pattern that reads itself was refused, or orders its own fields.
        if std::ptr::eq(from, to) {
            return false;
        }
        let maintained = from.maintains();
        to.reads().iter().any(|(collection, read)| {
            *collection == from.target && maintained.iter().any(|path| meet(path, read))
        })
    };
    let mut left: Vec<usize> = (0..patterns.len()).collect();
    let mut ordered: Vec<usize> = Vec::new();
    while !left.is_empty() {
        let free = left.iter().position(|at| {
            left.iter().all(|other| match (patterns.get(*other), patterns.get(*at)) {
                (Some(from), Some(to)) => !feeds(from, to),
                _ => true,
            })
        });
        let Some(free) = free else { return Err(cycle(patterns, &left, &feeds)) };
        ordered.push(left.remove(free));
    }
    Ok(ordered)
}

fn check_owners(patterns: &[&Pattern]) -> Result<()> {
    for (at, one) in patterns.iter().enumerate() {
        for other in patterns.iter().skip(at + 1).filter(|other| other.target == one.target) {
            let theirs = other.maintains();
            for path in one.maintains() {
                if let Some(met) = theirs.iter().find(|their| meet(their, &path)) {
                    return Err(Error::new(
                        Code::BAD_VALUE,
                        format!(
                            "the patterns '{}' and '{}' would both maintain '{met}' of '{}'",
                            one.name, other.name, one.target
                        ),
                    ));
                }
            }
            for (one, other) in [(one, other), (other, one)] {
                let face = one.shape().and_then(Shape::face);
                let maintained = other.maintains();
                let Some(met) = maintained.iter().find(|path| face.is_some_and(|f| meet(f, path)))
                else {
                    continue;
                };
                return Err(Error::new(
                    Code::BAD_VALUE,
                    format!(
                        "the pattern '{}' maintains '{met}' of '{}', where the pattern '{}' shows \
                         something else",
                        other.name, one.target, one.name
                    ),
                ));
            }
            // Two layouts are compared below.
            let compared = one.layout().is_some() && other.layout().is_some();
            let theirs = if compared { Vec::new() } else { other.kind.arranges() };
            for path in one.kind.arranges() {
                if let Some(met) = theirs.iter().find(|their| meet(their, &path)) {
                    return Err(Error::new(
                        Code::BAD_VALUE,
                        format!(
                            "the patterns '{}' and '{}' would both decide the form of '{met}' of '{}'",
                            one.name, other.name, one.target
                        ),
                    ));
                }
            }
            if one.owns_documents() || other.owns_documents() {
                return Err(Error::new(
                    Code::BAD_VALUE,
                    format!(
                        "the patterns '{}' and '{}' cannot share the collection '{}': its \
                         documents belong to one of them",
                        one.name, other.name, one.target
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// Refuses two layouts of one collection that store the same field.
fn check_layouts(patterns: &[&Pattern]) -> Result<()> {
    for (at, one) in patterns.iter().enumerate() {
        let Some(layout) = one.layout() else { continue };
        for other in patterns.iter().skip(at + 1).filter(|other| other.target == one.target) {
            let Some(theirs) = other.layout() else { continue };
            let paths = theirs.paths();
            let own = layout.paths();
            let met = own.iter().find(|path| paths.iter().any(|their| meet(their, path)));
            let why = match met {
                Some(path) => {
                    format!("would both decide how '{path}' of '{}' is stored", one.target)
                }
                None if layout.holds_many() && theirs.holds_many() => {
                    format!("would both keep several documents of '{}' in a record", one.target)
                }
                None => continue,
            };
            return Err(Error::bad_value(format!(
                "the patterns '{}' and '{}' {why}",
                one.name, other.name
            )));
        }
    }
    Ok(())
}

/// Refuses to read resolved values: they are not written, so a change of them would not be
/// noticed.
fn check_resolved(patterns: &[&Pattern]) -> Result<()> {
    for from in patterns.iter().filter(|pattern| pattern.is_resolved()) {
        let maintained = from.maintains();
        for to in patterns {
            let reads = to.reads();
            let read = reads.iter().find(|(collection, read)| {
                *collection == from.target && maintained.iter().any(|path| meet(path, read))
            });
            if let Some((_, path)) = read {
                return Err(Error::new(
                    Code::BAD_VALUE,
                    format!(
                        "the pattern '{}' cannot read '{path}' of '{}': the pattern '{}' resolves \
                         it when documents are read and stores nothing that could be followed",
                        to.name, from.target, from.name
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// The error for a cycle: walks back until a pattern is met again.
fn cycle(
    patterns: &[&Pattern],
    left: &[usize],
    feeds: &dyn Fn(&Pattern, &Pattern) -> bool,
) -> Error {
    let mut walked: Vec<usize> = left.first().copied().into_iter().collect();
    while let Some(at) = walked.last().copied() {
        let feeder =
            left.iter().copied().find(|from| match (patterns.get(*from), patterns.get(at)) {
                (Some(from), Some(to)) => feeds(from, to),
                _ => false,
            });
        let Some(feeder) = feeder else { break };
        if let Some(start) = walked.iter().position(|known| *known == feeder) {
            walked.drain(..start);
            break;
        }
        walked.push(feeder);
    }
    walked.reverse();
    let name = |at: &usize| patterns.get(*at).map_or(String::new(), |p| format!("'{}'", p.name));
    let mut names: Vec<String> = walked.iter().map(name).collect();
    names.extend(names.first().cloned());
    Error::new(
        Code::BAD_VALUE,
        format!("the patterns would depend on each other in a cycle: {}", names.join(" -> ")),
    )
}
