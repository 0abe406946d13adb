//! Tests of experiment folders: resuming, locking, and edited plans.

use super::*;

#[test]
fn a_corrected_plan_reuses_the_folder_of_a_failed_one() {
    let mut lab = Lab::new();
    let good = nginx_plan("Hello", "");
    let bad = good.replace("access_log off;", "no_such_directive on;");
    assert!(lab.run(&plan(&bad), false, &mut quiet).failed.is_some());
    std::fs::write(lab.out().join("notes.txt"), "mine").unwrap();
    let settings = |out| RunSettings::new(out);
    let occupied = settings(lab.out());
    let refused = run(
        &plan(&good),
        &mut lab.host,
        &occupied,
        &lab.interrupt,
        &mut |_| {},
    );
    assert!(
        refused.is_err(),
        "the folder contains a file that is not prony's"
    );
    std::fs::remove_file(lab.out().join("notes.txt")).unwrap();
    let finished = lab.run(&plan(&good), false, &mut quiet);
    assert!(finished.failed.is_none(), "{:?}", finished.failed);
    assert_eq!(finished.document.blocks, 3);
}

#[test]
fn an_interrupted_experiment_keeps_complete_blocks_and_can_be_resumed() {
    let mut lab = Lab::new();
    let plan = plan(&nginx_plan("Hello", ""));
    let finished = lab.run(&plan, false, &mut |interrupt, event| {
        if let ExperimentEvent::TrialBegan {
            block: 2,
            position: 1,
            ..
        } = event
        {
            interrupt.stop();
        }
    });
    assert!(finished.interrupted);
    let first = finished.document;
    assert_eq!(first.blocks, 1);

    lab.interrupt = Interrupt::default();
    let mut resumed = None;
    let finished = lab.run(&plan, true, &mut |_, event| {
        if let ExperimentEvent::Resumed { blocks, .. } = event {
            resumed = Some(*blocks);
        }
    });
    assert_eq!(resumed, Some(1));
    let document = finished.document;
    assert_eq!((document.blocks, document.seed), (3, first.seed));
    assert_eq!(document.order[0], first.order[0]);
}

#[test]
fn a_last_block_that_lost_a_machine_is_run_again() {
    let mut lab = Lab::new();
    let plan = plan(&nginx_plan("Hello", ""));
    let finished = lab.run(&plan, false, &mut quiet);
    assert_eq!(finished.document.blocks, 3);
    let trials = std::fs::read_dir(lab.out().join("trials")).unwrap();
    let trials = trials.map(|entry| entry.unwrap().path());
    let is_last = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("3-")
    };
    let path = trials.into_iter().find(is_last).unwrap().join("trial.json");
    let mut trial: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let lost = Finding::stored(
        FindingId::AgentLost,
        Severity::Error,
        "The agent of host a was lost.",
    );
    trial["findings"] = serde_json::to_value([lost]).unwrap();
    std::fs::write(&path, trial.to_string()).unwrap();

    let mut resumed = None;
    let finished = lab.run(&plan, true, &mut |_, event| {
        if let ExperimentEvent::Resumed { blocks, .. } = event {
            resumed = Some(*blocks);
        }
    });
    assert_eq!(resumed, Some(2));
    let document = finished.document;
    assert_eq!(document.blocks, 3);
    assert!(
        document
            .findings
            .iter()
            .all(|it| it.id != FindingId::AgentLost)
    );
    let looked: Vec<u32> = document.looks.iter().map(|look| look.blocks).collect();
    let mut once = looked.clone();
    once.dedup();
    assert_eq!(looked, once);
}

#[test]
fn a_folder_in_use_is_left_alone() {
    let lab = Lab::new();
    std::fs::create_dir(lab.out()).unwrap();
    std::fs::write(lab.out().join("thesis.txt"), "mine").unwrap();
    let plan = plan(&nginx_plan("Hello", ""));
    let settings = RunSettings::new(lab.out());
    let mut host = LocalHost::with_state_in(lab.folder.path().join("state"));
    let refused = run(&plan, &mut host, &settings, &lab.interrupt, &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("--resume"), "{refused}");
    assert_eq!(std::fs::read_dir(lab.out()).unwrap().count(), 1);
}

#[test]
fn a_folder_that_another_run_writes_to_is_refused() {
    let mut lab = Lab::new();
    let plan = plan(&nginx_plan("Hello", ""));
    let second = |resume: bool, out: PathBuf, state: &Path| {
        let settings = RunSettings {
            resume,
            ..RunSettings::new(out)
        };
        let mut host = LocalHost::with_state_in(state.to_owned());
        let interrupt = Interrupt::default();
        run(&plan, &mut host, &settings, &interrupt, &mut |_| {}).unwrap_err()
    };
    let other_state = tempfile::tempdir().unwrap();
    let out = lab.out();
    let mut refused = Vec::new();
    let finished = lab.run(&plan, false, &mut |_, event| {
        // The first trial's folder exists, but no trial has ended yet.
        if let (ExperimentEvent::Loading { .. }, true) = (event, refused.is_empty()) {
            let both = [false, true];
            refused.extend(both.map(|resume| second(resume, out.clone(), other_state.path())));
        }
    });
    let pid = format!("another prony (process {})", std::process::id());
    assert_eq!(refused.len(), 2);
    for refusal in refused {
        assert!(refusal.to_string().contains(&pid), "{refusal}");
    }
    assert_eq!(finished.document.blocks, 3);
    assert!(!lab.out().join(".lock").exists());
}

#[test]
fn a_plan_that_was_changed_is_resumed_only_on_demand() {
    let mut lab = Lab::new();
    let first = plan(&nginx_plan("Hello", ""));
    let finished = lab.run(&first, false, &mut |interrupt, event| {
        if let ExperimentEvent::TrialBegan { block: 2, .. } = event {
            interrupt.stop();
        }
    });
    assert_eq!(finished.document.blocks, 1);
    let path = lab.out().join("plan.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let edited = format!("# Longer.\n{text}").replace("\"400ms\"", "\"500ms\"");
    std::fs::write(&path, edited).unwrap();
    lab.interrupt = Interrupt::default();
    let stored =
        Plan::read(&path, MachineProfile::this()).unwrap_or_else(|errors| panic!("{errors}"));
    let settings = |accept_plan_changes| RunSettings {
        resume: true,
        accept_plan_changes,
        ..RunSettings::new(lab.out())
    };
    let (refusing, accepting) = (settings(false), settings(true));
    let interrupt = &lab.interrupt;
    let refused = run(&stored, &mut lab.host, &refusing, interrupt, &mut |_| {});
    let refused = refused.unwrap_err().to_string();
    let change = "`duration = \"500ms\"`, was `duration = \"400ms\"`";
    assert!(refused.contains(change), "{refused}");
    assert!(refused.contains("--accept-plan-changes"), "{refused}");
    assert!(!refused.contains("Longer"), "{refused}");
    let finished = run(&stored, &mut lab.host, &accepting, interrupt, &mut |_| {}).unwrap();
    let document = &finished.document;
    assert_eq!(document.blocks, 3);
    let mut findings = document.findings.iter();
    let found = findings.find(|it| it.id == FindingId::PlanChanged).unwrap();
    assert_eq!(found.severity, Severity::Warning);
    let text = &found.text;
    assert!(
        text.contains("after block 1: line ") && text.contains(change),
        "{text}"
    );
}
