//! Tests of interleaved blocks, in which the services of all variants run at the same time.

use std::time::Duration;

use prony_plan::Interleave;

use super::failures::kill_nginx;
use super::*;

/// Returns a plan that compares two variants of nginx in trials that are long enough for four
/// rounds.
fn long_plan() -> Plan {
    let text = nginx_plan("Hello", "").replace("\"400ms\"", "\"1s\"");
    plan(&text)
}

#[test]
fn every_variant_has_a_slice_in_each_round_and_a_record_of_its_own() {
    let mut lab = Lab::new();
    let mut rounds = Vec::new();
    let finished = lab.run(&long_plan(), false, &mut |_, event| {
        if let ExperimentEvent::RoundEnded { round, slices } = event {
            let mut variants: Vec<usize> = slices.iter().map(|(variant, _)| *variant).collect();
            variants.sort_unstable();
            rounds.push((*round, variants));
        }
    });
    assert!(finished.failed.is_none(), "{:?}", finished.failed);
    let expected: Vec<_> = [0, 1, 2, 3].map(|round| (round, vec![0, 1])).to_vec();
    assert_eq!(
        rounds,
        [expected.clone(), expected.clone(), expected].concat()
    );
    let document = finished.document;
    assert_eq!(document.blocks, 3);
    for trial in ["1-plain", "1-other", "3-other"] {
        let folder = lab.out().join("trials").join(trial);
        let record = std::fs::read_to_string(folder.join("record.json")).unwrap();
        let record = prony_record::Record::from_json(&record).unwrap();
        assert_eq!(record.totals.failed, 0, "{:?}", record.findings);
        assert!(
            record.totals.elapsed_s >= 1.0,
            "{trial}: {:?}",
            record.totals
        );
        let stored = std::fs::read_to_string(folder.join("trial.json")).unwrap();
        let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
        let slices = stored["slices"].as_array().unwrap();
        let ok: u64 = slices
            .iter()
            .map(|slice| slice["ok"].as_u64().unwrap())
            .sum();
        assert_eq!((slices.len(), ok), (4, record.totals.ok), "{trial}");
        assert!(stored["values"]["server_cpu_us_per_request"].as_f64() > Some(0.0));
        // Files are named after the services in the plan, not after those on the shared host.
        assert!(folder.join("web.log").is_file() && folder.join("web/nginx.conf").is_file());
    }
    let environment = std::fs::read_to_string(lab.out().join("environment.json")).unwrap();
    assert!(environment.contains("--with-http_ssl_module") && !environment.contains("web@"));
}

#[test]
fn a_service_that_ends_in_a_slice_ends_the_block_with_its_name() {
    let mut lab = Lab::new();
    let state = lab.folder.path().join("state");
    let mut is_killed = false;
    let finished = lab.run(&long_plan(), false, &mut |_, event| {
        if matches!(event, ExperimentEvent::RoundEnded { round: 0, .. }) && !is_killed {
            kill_nginx(&state);
            is_killed = true;
            // Its keeper, another process, must notice the end before the last slice.
            std::thread::sleep(Duration::from_secs(2));
        }
    });
    let failure = finished.failed.expect("the block fails").to_string();
    assert!(failure.starts_with("variant kind = "), "{failure}");
    assert!(
        failure.contains("service \"web\" ended during the load"),
        "{failure}"
    );
    assert_eq!(finished.document.blocks, 0);
}

#[test]
fn an_interrupt_between_slices_keeps_the_complete_blocks() {
    let mut lab = Lab::new();
    let mut blocks = 0;
    let finished = lab.run(&long_plan(), false, &mut |interrupt, event| match event {
        ExperimentEvent::BlockEnded { .. } => blocks += 1,
        ExperimentEvent::RoundEnded { round: 1, .. } if blocks == 1 => interrupt.stop(),
        _ => {}
    });
    assert!(finished.interrupted && finished.failed.is_none());
    assert_eq!(finished.document.blocks, 1);
}

#[test]
fn slices_that_are_asked_for_hold_enough_requests_for_the_percentile_that_is_judged() {
    let mut lab = Lab::new();
    // Each response takes half a second, because nginx limits the rate.
    let text = nginx_plan("Hello", "")
        .replace("\"400ms\"", "\"1s\"")
        .replace("baseline =", "metrics = [\"p99\"]\nbaseline =")
        .replace(
            "return 200 '{{ kind.text }}'",
            "limit_rate 100; root {{ web.dir }}",
        )
        .replace("[load]", "\"page.html\" = { text = \"one hundred and fifty bytes of text: one hundred and fifty bytes of text: one hundred and fifty bytes of text: one hundred and fifty bytes\" }\n[load]\npath = \"/page.html\"");
    let plan = plan(&text);
    let settings = RunSettings {
        interleave: Some(Interleave::Slices(std::time::Duration::from_millis(100))),
        ..RunSettings::new(lab.out())
    };
    let finished = run(&plan, &mut lab.host, &settings, &lab.interrupt, &mut |_| {});
    let failure = finished
        .unwrap()
        .failed
        .expect("the slices are rejected")
        .to_string();
    assert!(failure.contains("1,000 requests"), "{failure}");
    assert!(failure.contains("set duration = "), "{failure}");
}

#[test]
fn variants_that_exclude_each_other_run_one_after_the_other() {
    let mut lab = Lab::new();
    // The second nginx can't start, because the first one has already created the folder that both
    // create.
    let taken = lab.folder.path().join("taken");
    let text = nginx_plan("Hello", "")
        .replace("\"400ms\"", "\"1s\"")
        .replace("blocks = 3", "blocks = 1")
        .replace(
            "command = [\"nginx\", \"-c\", \"{{ web.files['nginx.conf'] }}\", \"-g\", \"daemon off;\"]",
            &format!(
                "command = [\"sh\", \"-c\", \"mkdir {0} || exit 1; trap 'kill $!; wait; rmdir {0}' TERM; \
                 nginx -c {{{{ web.files['nginx.conf'] }}}} -g 'daemon off;' & wait\"]",
                taken.display()
            ),
        );
    let mut modes = Vec::new();
    let finished = lab.run(&plan(&text), false, &mut |_, event| {
        if let ExperimentEvent::Mode { mode } = event {
            modes.push(mode.to_string());
        }
    });
    assert!(finished.failed.is_none(), "{:?}", finished.failed);
    assert_eq!(modes.len(), 2, "{modes:?}");
    assert!(
        modes[1].contains("not all services could run at the same time"),
        "{modes:?}"
    );
    assert_eq!(finished.document.blocks, 1);
}
