//! `prony demo`: runs a built-in plan.

use std::path::Path;

use prony_experiment::runner::{RunSettings, trial_mode};
use prony_machine::host::ssh::SshMachines;
use prony_machine::profile::MachineProfile;
use prony_plan::Plan;

use crate::arguments::DemoArgs;
use crate::ending::{Ending, Failure};
use crate::experiment;
use crate::experiment::plan_file;
use crate::gating::GateSettings;
use crate::runs_folder::ResultsFolder;
use crate::session::Session;

/// The built-in plan, in which the command `prony` refers to this binary.
const PLAN: &str = include_str!("demo.toml");

/// Keys of `[trials]` for trials that run one after another.
const SEQUENTIAL_TRIALS: &str = r#"blocks   = { min = 5, max = 12 }
budget   = "50s"
warmup   = "300ms"
duration = "1500ms""#;

/// Keys of `[trials]` for interleaved trials. The first verdict comes after 10 s of measurement.
const INTERLEAVED_TRIALS: &str = r#"blocks   = { min = 5, max = 12 }
budget   = "50s"
warmup   = "300ms"
duration = "1s""#;

/// Runs `prony demo`.
pub(crate) fn run(arguments: &DemoArgs) -> Result<Ending, Failure> {
    let machine = MachineProfile::this();
    let mut plan = plan(&machine, INTERLEAVED_TRIALS)?;
    let out = ResultsFolder::open(arguments.out.clone(), &plan.name)?;
    let settings = RunSettings {
        precheck: false,
        interleave: arguments.interleave,
        ..RunSettings::new(out.path().to_owned())
    };
    let mode = trial_mode(&plan, &settings).map_err(Failure::wrong)?;
    if !mode.is_interleaved() {
        plan = self::plan(&machine, SEQUENTIAL_TRIALS)?;
    }
    let session = Session::open(arguments.progress)?;
    let hosts = (None, SshMachines::default());
    experiment::run_experiment(&plan, &settings, &session, GateSettings::default(), hosts)
}

/// Returns the plan for this machine. `trials` contains the keys of its `[trials]` table. On a
/// machine with two or more cores, the server and the load get separate cores.
fn plan(machine: &MachineProfile, trials: &str) -> Result<Plan, Failure> {
    let text = PLAN.replace("@trials", trials);
    let text = match machine.cores.as_slice() {
        [server, load, ..] => text
            .replace("@server", &server.to_string())
            .replace("@load", &load.to_string()),
        _ => text
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
    use prony_plan::Interleave;
    use prony_plan::service::{AllocatedService, Endpoint};

    use super::*;
    use prony_experiment::interleaving::decide;

    #[test]
    fn the_plan_suits_machines_with_one_or_many_cores() {
        let [one, many] = [vec![3], vec![2, 5, 7]];
        for (cores, trials) in [(one, SEQUENTIAL_TRIALS), (many, INTERLEAVED_TRIALS)] {
            let cores_of_its_own = cores.len() > 1;
            let machine = MachineProfile {
                cores: cores.clone(),
                ..MachineProfile::this()
            };
            let plan = plan(&machine, trials).unwrap();
            let mut given = Vec::new();
            for wanted in plan.allocations(0).unwrap() {
                let endpoint = Endpoint::Tcp("127.0.0.1:1".parse().unwrap());
                let endpoints = [(String::new(), endpoint)].into();
                let files_dir = "/nonexistent".into();
                given.push((
                    wanted.service,
                    AllocatedService {
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

    #[test]
    fn both_variants_can_run_at_the_same_time_and_take_ten_seconds() {
        let plan = plan(&MachineProfile::this(), INTERLEAVED_TRIALS).unwrap();
        assert!(decide(&plan, Interleave::Auto).is_interleaved());
        let measured = plan.trials.duration * plan.variants.len() as u32;
        assert!((measured * plan.trials.blocks_min as u32).as_secs() <= 10);
    }
}
