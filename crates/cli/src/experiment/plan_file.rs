//! Reads stored plans, and formats the errors of plans.

use std::path::Path;

use prony_experiment::runner::ExperimentFolderError;
use prony_machine::profile::MachineProfile;
use prony_plan::{Plan, PlanErrors};

use crate::ending::Failure;

/// Reads the plan stored in an experiment's folder.
pub(crate) fn stored_plan(dir: &Path) -> Result<Plan, Failure> {
    let path = dir.join("plan.toml");
    if !path.is_file() {
        return Err(Failure::wrong(ExperimentFolderError::nothing_to_resume(
            dir.to_owned(),
        )));
    }
    Plan::read(&path, MachineProfile::this()).map_err(|errors| wrong_plan(&errors))
}

/// Lists each error of a plan on a separate line, and all missing packages on one line.
pub(crate) fn wrong_plan(errors: &PlanErrors) -> Failure {
    let mut lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let packages: Vec<&str> = errors.missing_packages().collect();
    if packages.len() > 1 {
        lines.push(format!(
            "to install all missing packages: apt install {}",
            packages.join(" ")
        ));
    }
    Failure::wrong(lines.join("\nprony: "))
}
