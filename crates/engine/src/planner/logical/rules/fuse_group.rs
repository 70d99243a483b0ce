//! `$unwind`, `$project`, `$group`, `$project`: the group reads the input of the earlier stages
//! directly, so that no documents are built between them. It only counts where the last stage uses
//! just the size of a set.

use crate::planner::logical::{Apply, Joined, Rule, Shape, Shapes};

pub(super) static RULE: Rule = Rule {
    name: "fuse_group",
    help: "Lets $group do the $unwind and $project in front of it, and sizes of sets behind it.",
    apply: Apply::Join(apply),
};

fn apply(stages: &dyn Shapes, at: usize) -> Option<Joined> {
    let unwind = matches!(stages.shape(at), Some(Shape::Unwind(_)));
    let at = at + usize::from(unwind);
    let project = stages.shape(at) == Some(Shape::Project);
    let at = at + usize::from(project);
    let groups = stages.shape(at) == Some(Shape::Group);
    let behind = stages.shape(at + 1) == Some(Shape::Project);
    groups.then_some(Joined::Group { unwind, project, behind })
}
