//! Chooses the mode of a run's trials: interleaved or sequential.

use std::path::Path;

use prony_plan::{Interleave, Plan};
use prony_stats::TrialMode;

use super::folder::ExperimentFolder;
use super::run_settings::RunSettings;
use super::runner_error::{ModeError, RunnerError};
use crate::interleaving::{self, MachineResources};

/// Chooses the mode of a run's trials. A resumed experiment keeps its mode.
///
/// # Errors
/// [`RunnerError::Mode`] if slices of a certain length are requested but not possible, or if an
/// experiment would be resumed in another mode.
pub fn trial_mode(plan: &Plan, settings: &RunSettings) -> Result<TrialMode, RunnerError> {
    let mode = if settings.resume {
        let stored = ExperimentFolder::stored_mode(&settings.out);
        resumed(plan, settings.interleave, &settings.out, stored)
    } else {
        chosen(plan, settings.interleave)
    };
    mode.map_err(RunnerError::Mode)
}

/// Chooses the mode of a new experiment.
fn chosen(plan: &Plan, by_flag: Option<Interleave>) -> Result<TrialMode, ModeError> {
    let requested = by_flag.unwrap_or(plan.trials.interleave);
    let mode = possible(plan, requested);
    let (TrialMode::Sequential { reason }, Interleave::Slices(length)) = (&mode, requested) else {
        return Ok(mode);
    };
    Err(match by_flag {
        Some(requested) => {
            let reason = reason.clone();
            ModeError::Requested { requested, reason }
        }
        None => {
            let length = prony_record::quantity::time_text(length);
            let message =
                format!("interleave is \"{length}\", but variants can't be interleaved: {reason}");
            ModeError::Plan(plan.interleave_error(message, "write \"auto\" or \"off\""))
        }
    })
}

/// Returns the requested mode, or sequential trials if the plan or this machine doesn't allow it.
fn possible(plan: &Plan, requested: Interleave) -> TrialMode {
    let mode = interleaving::decide(plan, requested);
    if !mode.is_interleaved() {
        return mode;
    }
    let demands = interleaving::demands(plan).unwrap_or_default();
    match interleaving::shortage(&demands, &MachineResources::available()) {
        Some(reason) => TrialMode::Sequential { reason },
        None => mode,
    }
}

/// Chooses the mode for resuming the experiment in `dir`.
fn resumed(
    plan: &Plan,
    by_flag: Option<Interleave>,
    dir: &Path,
    stored: Option<TrialMode>,
) -> Result<TrialMode, ModeError> {
    let stored = stored.unwrap_or_else(|| TrialMode::Sequential {
        reason: "the experiment began with sequential trials".to_owned(),
    });
    let before = match &stored {
        TrialMode::Sliced { length: None } => Interleave::Auto,
        TrialMode::Sliced {
            length: Some(length),
        } => Interleave::Slices(*length),
        TrialMode::Sequential { .. } => Interleave::Off,
    };
    if let Some(requested) = by_flag
        && ![Interleave::Auto, before].contains(&requested)
    {
        let dir = dir.to_owned();
        return Err(ModeError::Changed {
            dir,
            requested,
            stored,
        });
    }
    if stored.is_interleaved()
        && let TrialMode::Sequential { reason } = possible(plan, before)
    {
        let dir = dir.to_owned();
        return Err(ModeError::NotPossible { dir, reason });
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::interleaving::test_plans::{PLAN, read};

    const SLICES: Interleave = Interleave::Slices(Duration::from_millis(250));

    fn sliced(length: Option<Duration>) -> TrialMode {
        TrialMode::Sliced { length }
    }

    fn sequential() -> TrialMode {
        let reason = "the loads differ".to_owned();
        TrialMode::Sequential { reason }
    }

    fn refusal(result: Result<TrialMode, ModeError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_requested_length_is_refused_with_its_place_where_variants_cannot_coexist() {
        let counted = PLAN.replace("connections = 4", "connections = 4\nrequests = 100");
        let plan = read(&counted);
        let refused = refusal(chosen(&plan, Some(SLICES)));
        assert!(refused.starts_with("--interleave 250ms: "), "{refused}");
        let with_key = counted.replace("[trials]", "[trials]\ninterleave = \"250ms\"");
        let refused = refusal(chosen(&read(&with_key), None));
        let place = "plan.toml:6: interleave is \"250ms\", but variants can't be interleaved: ";
        assert!(refused.starts_with(place), "{refused}");
        let ways_out = "(write \"auto\" or \"off\")";
        assert!(refused.ends_with(ways_out), "{refused}");
        for text in [Interleave::Auto, Interleave::Off] {
            let mode = chosen(&read(&with_key), Some(text)).unwrap();
            assert!(!mode.is_interleaved());
        }
    }

    #[test]
    fn a_resumed_experiment_continues_as_it_began() {
        let plan = read(PLAN);
        let dir = Path::new("results");
        let resume = |text, stored| resumed(&plan, text, dir, stored);
        for text in [None, Some(Interleave::Auto), Some(Interleave::Off)] {
            let mode = resume(text, Some(sequential())).unwrap();
            assert_eq!(mode, sequential());
        }
        // Folders written by older versions don't contain a mode.
        assert!(!resume(None, None).unwrap().is_interleaved());
        let mode = resume(Some(Interleave::Auto), Some(sliced(None))).unwrap();
        assert_eq!(mode, sliced(None));
    }

    #[test]
    fn the_mode_is_stored_in_the_folder() {
        let plan = read(PLAN);
        let parent = tempfile::tempdir().unwrap();
        for (name, mode) in [
            ("a", Some(sliced(None))),
            ("b", Some(sliced(Some(Duration::from_millis(100))))),
            ("c", Some(sequential())),
            ("d", None),
        ] {
            let dir = parent.path().join(name);
            assert_eq!(ExperimentFolder::stored_mode(&dir), None);
            let created = ExperimentFolder::create(&plan, &dir, 1, mode.clone()).unwrap();
            assert_eq!(created.trial_mode(), mode.as_ref());
            drop(created);
            assert_eq!(ExperimentFolder::stored_mode(&dir), mode);
            let opened = ExperimentFolder::open(&plan, &dir, false).unwrap();
            assert_eq!(opened.trial_mode(), mode.as_ref());
        }
    }

    #[test]
    fn another_mode_is_refused_on_resume() {
        let plan = read(PLAN);
        let dir = Path::new("results");
        let other = Duration::from_millis(500);
        for (text, stored, before) in [
            (SLICES, sequential(), "were run sequentially"),
            (Interleave::Off, sliced(None), "were interleaved,"),
            (SLICES, sliced(None), "were interleaved,"),
            (
                SLICES,
                sliced(Some(other)),
                "were interleaved with another slice length,",
            ),
        ] {
            let refused = refusal(resumed(&plan, Some(text), dir, Some(stored)));
            let start =
                format!("--interleave {text}: the trials of the experiment in results {before}");
            assert!(refused.starts_with(&start), "{refused}");
            assert!(refused.contains("start a new experiment"), "{refused}");
        }
    }

    #[test]
    fn an_experiment_that_can_no_longer_be_interleaved_is_not_resumed() {
        let plan = read(&PLAN.replace("connections = 4", "connections = 4\nrequests = 100"));
        let refused = refusal(resumed(
            &plan,
            None,
            Path::new("results"),
            Some(sliced(None)),
        ));
        assert!(
            refused.contains("no longer possible: the load ends"),
            "{refused}"
        );
    }
}
