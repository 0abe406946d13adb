//! Builds the revisions of a plan before anything starts.

use prony_experiment::runner::Interrupt;
use prony_machine::build::{self, FinishedBuild};
use prony_plan::Plan;
use prony_plan::machine::Build;

use crate::ending::Failure;
use crate::progress::Progress;

/// A build, with the first variant and the service that use it.
pub(crate) struct UsedBuild {
    variant: String,
    service: String,
    build: Build,
}

/// Returns each build of a plan once.
pub(crate) fn builds_of(plan: &Plan) -> Result<Vec<UsedBuild>, Failure> {
    let mut builds: Vec<UsedBuild> = Vec::new();
    let variants = plan.with_placeholders().map_err(Failure::wrong)?;
    for (index, variant) in variants.into_iter().enumerate() {
        for service in variant.services {
            let Some(build) = service.build else { continue };
            let is_same = |it: &UsedBuild| it.build.dir == build.dir && it.build.run == build.run;
            if !builds.iter().any(is_same) {
                builds.push(UsedBuild {
                    variant: plan.variant_name(index),
                    service: service.spec.name,
                    build,
                });
            }
        }
    }
    Ok(builds)
}

/// Describes a revision: its name, commit and subject.
fn description(build: &Build) -> String {
    let commit: String = build.commit.chars().take(12).collect();
    let Build {
        revision, subject, ..
    } = build;
    let text = format!("{revision} ({commit} \"{subject}\")");
    match build.worktree {
        Some(changes) => format!(
            "{text}, changed files: {}, untracked files: {}",
            changes.changed, changes.untracked
        ),
        None => text,
    }
}

/// Returns true if a build of the plan must run before its services can start.
pub(super) fn needs_builds(plan: &Plan) -> Result<bool, Failure> {
    let builds = builds_of(plan)?;
    Ok(builds.iter().any(|it| !build::is_cached(&it.build)))
}

/// Returns one line per build, which says whether it would run.
pub(super) fn forecast(plan: &Plan) -> Result<String, Failure> {
    let lines = builds_of(plan)?.into_iter().map(|it| {
        let is_cached = build::is_cached(&it.build);
        let state = if is_cached { "cached" } else { "to build" };
        let revision = description(&it.build);
        format!("revision {revision}: {state}, \"{}\"\n", it.build.run)
    });
    Ok(lines.collect())
}

/// Builds the revisions of a plan. The result protects them for as long as it lives; it is `None`
/// if the builds were interrupted.
pub(super) fn build_all(
    plan: &Plan,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<Option<Vec<FinishedBuild>>, Failure> {
    let builds = builds_of(plan)?;
    if !builds.is_empty() {
        build::sweep();
    }
    let mut finished = Vec::new();
    for used in &builds {
        match build_one(used, interrupt, progress)? {
            Some(one) => finished.push(one),
            None => return Ok(None),
        }
    }
    Ok(Some(finished))
}

/// Builds a revision. Returns `None` after an interrupt.
pub(crate) fn build_one(
    used: &UsedBuild,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<Option<FinishedBuild>, Failure> {
    let what = format!("build of {}", description(&used.build));
    if !build::is_cached(&used.build) {
        let log = build::log_of(&used.build);
        progress.line(&format!("{what}; log: {}", log.display()));
    }
    let is_stopped = || interrupt.is_stopped();
    let on_wait = || progress.line(&format!("{what}: waiting for another prony that uses it"));
    let built = build::run(&used.build, &is_stopped, &on_wait).map_err(|error| {
        let UsedBuild {
            variant, service, ..
        } = used;
        let revision = description(&used.build);
        Failure::refused(format!(
            "variant {variant}: build of service \"{service}\", revision {revision}: {error}"
        ))
    })?;
    if built.as_ref().is_some_and(|one| one.was_cached) {
        progress.line(&format!("{what}: cached"));
    }
    Ok(built)
}
