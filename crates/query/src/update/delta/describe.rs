//! A delta in the form of change events: updated paths, removed paths, truncated arrays.

use super::element;
use value::{RawDoc, RawVal, Writer, limits, writer};

/// The content of a delta.
#[derive(Default)]
pub struct Description {
    updated: super::Elements,
    removed: Vec<String>,
    truncated: Vec<(String, i32)>,
    ambiguous: Vec<(String, Vec<PathStep>)>,
}

/// One step of a path.
#[derive(Clone)]
enum PathStep {
    Field(String),
    Index(i32),
}

/// Reads a delta.
#[must_use]
pub fn describe(delta: RawDoc<'_>) -> Description {
    let mut description = Description::default();
    let mut trail = Trail { path: String::new(), steps: Vec::new(), ambiguous: false };
    read(delta, &mut trail, &mut description, 0);
    description
}

/// The path of the part of a delta that is read.
struct Trail {
    path: String,
    steps: Vec<PathStep>,
    ambiguous: bool,
}

impl Trail {
    /// Runs `inside` with one more step.
    fn within(&mut self, step: PathStep, inside: impl FnOnce(&mut Trail)) {
        let (length, before) = (self.path.len(), self.ambiguous);
        if length > 0 {
            self.path.push('.');
        }
        match &step {
            PathStep::Field(name) => {
                self.path.push_str(name);
                self.ambiguous |= name.contains('.') || is_number(name);
            }
            PathStep::Index(place) => self.path.push_str(&place.to_string()),
        }
        self.steps.push(step);
        inside(self);
        self.steps.pop();
        self.path.truncate(length);
        self.ambiguous = before;
    }
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

impl Description {
    fn note_path(&mut self, trail: &Trail) {
        if trail.ambiguous && trail.steps.len() > 1
            || trail
                .steps
                .iter()
                .any(|step| matches!(step, PathStep::Field(name) if name.contains('.')))
        {
            self.ambiguous.push((trail.path.clone(), trail.steps.clone()));
        }
    }

    fn update(&mut self, trail: &Trail, value: RawVal<'_>) {
        self.note_path(trail);
        element(&mut self.updated, "", &trail.path, value);
    }

    fn remove(&mut self, trail: &Trail) {
        self.note_path(trail);
        self.removed.push(trail.path.clone());
    }

    /// Writes the fields of `updateDescription`; with `paths` also those that disambiguate paths.
    pub fn write(&self, out: &mut Writer<'_>, paths: bool) {
        let token = out.open("updatedFields", false);
        out.buffer().extend_from_slice(&self.updated);
        out.close(token);
        out.array("removedFields", |list| {
            for path in &self.removed {
                list.push(value::Val::String(path));
            }
        });
        out.array("truncatedArrays", |list| {
            for (path, length) in &self.truncated {
                list.push_doc(|out| {
                    out.str("field", path).i32("newSize", *length);
                });
            }
        });
        if paths {
            out.doc("disambiguatedPaths", |out| {
                for (path, steps) in &self.ambiguous {
                    out.array(path, |list| {
                        for step in steps {
                            match step {
                                PathStep::Field(name) => list.push(value::Val::String(name)),
                                PathStep::Index(place) => list.push(value::Val::Int32(*place)),
                            }
                        }
                    });
                }
            });
        }
    }
}

fn read(delta: RawDoc<'_>, trail: &mut Trail, out: &mut Description, depth: usize) {
    if depth > limits::DEPTH_MAX {
        return;
    }
    if delta.first().is_some_and(|(name, value)| name == "a" && value.kind == 0x08) {
        return read_array(delta, trail, out, depth);
    }
    for (name, value) in delta {
        match (name, value.as_doc()) {
            ("d", Some(fields)) => {
                for (name, _) in fields {
                    trail.within(PathStep::Field(name.to_owned()), |trail| out.remove(trail));
                }
            }
            ("u" | "i", Some(fields)) => {
                for (name, value) in fields {
                    trail
                        .within(PathStep::Field(name.to_owned()), |trail| out.update(trail, value));
                }
            }
            (name, Some(nested)) => {
                let Some(name) = name.strip_prefix('s') else { continue };
                trail.within(PathStep::Field(name.to_owned()), |trail| {
                    read(nested, trail, out, depth + 1);
                });
            }
            _ => {}
        }
    }
}

fn read_array(delta: RawDoc<'_>, trail: &mut Trail, out: &mut Description, depth: usize) {
    for (name, value) in delta {
        if let ("l", value::Val::Int32(length)) = (name, value.get()) {
            out.note_path(trail);
            out.truncated.push((trail.path.clone(), length));
            continue;
        }
        let Some((mark, place)) = name.split_at_checked(1) else { continue };
        let Ok(place) = place.parse::<i32>() else { continue };
        trail.within(PathStep::Index(place), |trail| match (mark, value.as_doc()) {
            ("u", _) => out.update(trail, value),
            ("s", Some(nested)) => read(nested, trail, out, depth + 1),
            _ => {}
        });
    }
}

/// The description as a document of its own, for tests and tools.
impl From<&Description> for value::DocBuf {
    fn from(description: &Description) -> value::DocBuf {
        let mut bytes = Vec::new();
        writer::write_doc(&mut bytes, |out| description.write(out, true));
        value::DocBuf::from_bytes(bytes)
    }
}
