//! `prony demo`: runs a built-in plan.

use std::path::Path;

use prony_experiment::plan::{MachineProfile, Plan};
use prony_experiment::runner::RunSettings;

use crate::arguments::DemoArgs;
use crate::ending::{Ending, Failure};
use crate::{experiment, plan_file, runs_folder};

/// The plan. In it, the command `prony` refers to this program.
const PLAN: &str = include_str!("demo.toml");

/// Runs the demo.
pub(crate) fn run(typed: &DemoArgs) -> Result<Ending, Failure> {
    let plan = plan(&MachineProfile::this())?;
    let out = typed
        .out
        .clone()
        .unwrap_or_else(|| runs_folder::for_new_run(&plan.name));
    let settings = RunSettings {
        precheck: false,
        ..RunSettings::new(out)
    };
    experiment::run(&plan, &settings, typed.progress, None, None)
}

/// The plan for this machine. With two or more cores, server and load get separate cores.
fn plan(machine: &MachineProfile) -> Result<Plan, Failure> {
    let text = match machine.cores.as_slice() {
        [server, load, ..] => PLAN
            .replace("@server", &server.to_string())
            .replace("@load", &load.to_string()),
        _ => PLAN
            .lines()
            .filter(|line| !line.starts_with("cores"))
            .collect::<Vec<_>>()
            .join("\n"),
    };
    Plan::from_str(&text, Path::new("demo.toml"), machine.clone())
        .map_err(|errors| plan_file::wrong_plan(&errors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_experiment::service::{Allocated, Endpoint};

    #[test]
    fn the_plan_fits_machines_with_one_core_and_with_many() {
        for cores in [vec![3], vec![2, 5, 7]] {
            let cores_of_its_own = cores.len() > 1;
            let machine = MachineProfile {
                cores: cores.clone(),
                ..MachineProfile::this()
            };
            let plan = plan(&machine).unwrap();
            let mut given = Vec::new();
            for wanted in plan.allocations(0).unwrap() {
                let endpoint = Endpoint::Tcp("127.0.0.1:1".parse().unwrap());
                let endpoints = [(String::new(), endpoint)].into();
                let files_dir = "/nonexistent".into();
                given.push((
                    wanted.service,
                    Allocated {
                        endpoints,
                        files_dir,
                    },
                ));
            }
            let resolved = plan.resolve(0, &given.into_iter().collect()).unwrap();
            assert_eq!(resolved.load.settings.cores.is_some(), cores_of_its_own);
            assert_eq!(
                !resolved.services[0].spec.cores.is_empty(),
                cores_of_its_own
            );
            assert_eq!(plan.notes, Vec::<String>::new());
        }
    }
}
