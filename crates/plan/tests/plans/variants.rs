//! Tests of the variants of valid plans: baselines, listed variants, IDs and notes.

use super::resolve::{resolved, small};
use super::study_machine::StudyMachine;
use super::{GOOD, Study};
use prony_plan::Plan;

#[test]
fn a_partial_baseline_compares_within_cells() {
    let study = Study::new();
    let text = small(
        "connections = [1, 64]\nstack = [\"kernel\", \"own\"]",
        "",
        "connections = \"{{ connections }}\"\npath = \"/{{ stack }}\"",
    );
    let text = format!("baseline = {{ stack = \"kernel\" }}\n{text}");
    let plan = study.read(&text).unwrap();
    let ids: Vec<_> = plan
        .variants
        .iter()
        .map(|variant| variant.id.as_str())
        .collect();
    assert_eq!(ids, ["1-kernel", "1-own", "64-kernel", "64-own"]);
    assert_eq!(
        (0..4).map(|v| plan.baseline_of(v)).collect::<Vec<_>>(),
        [0, 0, 2, 2]
    );
    assert_eq!(
        resolved(&plan, "64-own").load.settings.connections,
        Some(64)
    );
    assert!(resolved(&plan, "64-own").load.url.ends_with("/own"));
}

#[test]
fn the_first_baseline_that_names_a_varying_factor_counts() {
    let study = Study::new();
    let of = |stacks: &str| {
        let factors = format!("connections = [1, 64]\nstack = [{stacks}]");
        let text = small(
            &factors,
            "",
            "path = \"/{{ stack.path }}\"\nconnections = \"{{ connections }}\"",
        );
        let list = "[{ stack = \"kernel\" }, { connections = \"1\" }]";
        let plan = study.read(&format!("baseline = {list}\n{text}")).unwrap();
        (0..plan.variants.len())
            .map(|variant| plan.baseline_of(variant))
            .collect::<Vec<_>>()
    };
    let kernel = "{ name = \"kernel\", path = \"a\" }";
    let own = "{ name = \"own\", path = \"b\" }";
    // With one stack, 64 connections are compared with 1. With two stacks, "own" is compared with
    // "kernel".
    assert_eq!(of(kernel), [0, 0]);
    assert_eq!(of(&format!("{kernel}, {own}")), [0, 0, 2, 2]);
    let text = small("a = [1, 2]", "", "path = \"/{{ a }}\"");
    let errors = study.read(&format!("baseline = []\n{text}")).unwrap_err();
    let said = errors.to_string();
    assert!(said.contains("the baseline names no factor"), "{said}");
}

#[test]
fn listed_variants_with_one_level_and_a_separate_baseline() {
    let study = Study::new();
    let three = "variants = [{ a = 1, b = 1 }, { b = 2, a = 1 }, { a = 2, b = 1 }]\n".to_owned();
    let plan = study
        .read(&(three + &small("a = [1, 2]\nb = [1, 2]", "", "path = \"/{{ a }}{{ b }}\"")))
        .unwrap();
    let ids: Vec<_> = plan
        .variants
        .iter()
        .map(|variant| variant.id.as_str())
        .collect();
    assert_eq!(ids, ["1-1", "1-2", "2-1"]);
    let one = format!(
        "baseline = {{ socket = \"unix\" }}\n{}",
        small("socket = [\"tcp\"]", "listen = \"{{ socket }}\"", "")
    );
    let plan = study.read(&one).unwrap();
    assert_eq!(plan.baseline.get("socket"), Some("unix"));
    assert_eq!((plan.baseline_of(0), plan.baseline_of(1)), (0, 0));
}

#[test]
fn ids_are_safe_folder_names_and_differ() {
    let study = Study::new();
    let text = small(
        "a = [\"x/y\", \"x y\", \"..\", \"-n\", \"é\"]",
        "",
        "header = [\"A: {{ a }}\"]",
    );
    let plan = study.read(&text).unwrap();
    let ids: Vec<_> = plan
        .variants
        .iter()
        .map(|variant| variant.id.as_str())
        .collect();
    assert_eq!(ids, ["x_y", "x_y~2", "_.", "_n", "_"]);
}

#[test]
fn notes_name_shared_cores_and_identical_variants() {
    let study = Study::new();
    let plan = study
        .read(&small(
            "copy = [\"a\", \"b\"]",
            "cores = \"1\"",
            "cores = \"0-1\"",
        ))
        .unwrap();
    assert_eq!(
        plan.notes,
        [
            "variants a and b have the same setup (an A/A comparison)",
            "the load and service \"web\" share core 1 and slow each other down",
        ]
    );
}

#[test]
fn notes_apply_to_the_machines_that_they_name() {
    let study = Study::new();
    let notes = "notes = [\"{% if machine.cores|length < 3 %}few: \
                 {{ machine.cores|join('+') }}{% endif %}\", \"always\"]\n";
    let said = |cores: Vec<usize>| {
        let machine = StudyMachine {
            cores,
            ..study.machine()
        };
        let plan = Plan::from_str(&format!("{notes}{GOOD}"), &study.path("plan.toml"), machine);
        plan.unwrap_or_else(|errors| panic!("{errors}")).notes
    };
    assert_eq!(said(vec![0, 1]), ["few: 0+1", "always"]);
    assert_eq!(said(vec![0, 1, 2]), ["always"]);
}
