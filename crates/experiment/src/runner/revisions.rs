//! The revisions that are built for the services of a plan.

use prony_plan::{Plan, PlanError};
use prony_stats::BuiltRevision;

/// Returns the revisions of a plan, by variant and service.
///
/// # Errors
/// A variant can't be rendered.
pub(super) fn of_plan(plan: &Plan) -> Result<Vec<BuiltRevision>, PlanError> {
    let mut revisions = Vec::new();
    for (index, variant) in plan.with_placeholders()?.into_iter().enumerate() {
        for service in variant.services {
            let Some(build) = service.build else { continue };
            revisions.push(BuiltRevision {
                variant: plan.variant_name(index),
                service: service.spec.name,
                revision: build.revision,
                commit: build.commit,
                subject: build.subject,
                command: build.run,
                worktree: build.worktree,
            });
        }
    }
    Ok(revisions)
}

/// Returns a phrase about the first revision that differs from the stored one, because a branch
/// moved or the working tree changed.
pub(super) fn moved(stored: &[BuiltRevision], now: &[BuiltRevision]) -> Option<String> {
    let mut both = stored.iter().zip(now);
    let (stored, now) =
        both.find(|(stored, now)| stored.commit != now.commit || stored.worktree != now.worktree)?;
    Some(if stored.commit == now.commit {
        "the working tree has other changes now".to_owned()
    } else {
        format!(
            "revision {} was commit {}, and is now {}",
            stored.revision, stored.commit, now.commit
        )
    })
}
