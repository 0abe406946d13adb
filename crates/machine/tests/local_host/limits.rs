//! Limits by control groups. The tests need a user who may create control groups.

use std::path::{Path, PathBuf};

use prony_machine::host::Host;
use prony_plan::service::ResourceLimits;

use super::*;

/// 5% of a core. It is so little that a process reaches it even if other tests leave it little of a
/// core.
const QUOTA_US: u64 = 5_000;

/// Returns true if this machine lets the test create control groups with all limits.
fn can_limit() -> bool {
    let limits = ResourceLimits {
        cpu_quota_us: Some(QUOTA_US),
        memory_bytes: Some(64 << 20),
        pids: Some(100),
    };
    let refused = place::check_limits(&limits).err();
    if let Some((_, refused)) = &refused {
        eprintln!("not tested: {refused}");
    }
    refused.is_none()
}

/// Starts a service with limits.
fn start_limited(bench: &mut Bench, place: PlaceKind, limits: ResourceLimits, script: &str) {
    bench.allocate(place, &[]);
    let spec = ServiceSpec {
        limits,
        ..shell(place, script)
    };
    let logs = bench.logs();
    let started = bench.host.start(&spec, &logs);
    started.unwrap_or_else(|error| panic!("{error}"));
}

/// Returns the folders of the service's control groups, which the run state lists.
fn groups(bench: &Bench) -> Vec<PathBuf> {
    let runs = std::fs::read_dir(bench.folder.path().join("state")).unwrap();
    let made = runs.flatten().map(|run| run.path().join("made"));
    let texts = made.filter_map(|made| std::fs::read_to_string(made).ok());
    let lines: Vec<String> = texts
        .flat_map(|it| it.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let folder = |line: &String| {
        let made: serde_json::Value = serde_json::from_str(line).ok()?;
        (made["kind"] == "control_group").then(|| PathBuf::from(made["folder"].as_str().unwrap()))
    };
    lines.iter().filter_map(folder).collect()
}

#[test]
fn a_service_is_throttled_in_its_group_and_the_group_counts_its_cpu_time() {
    if !can_limit() {
        return;
    }
    for place in places() {
        let mut bench = Bench::new();
        let limits = ResourceLimits {
            cpu_quota_us: Some(QUOTA_US),
            ..ResourceLimits::default()
        };
        // The children end at once, so their CPU time is counted by the processes that wait for
        // them, and by the group.
        let script = "while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done";
        start_limited(&mut bench, place, limits, script);
        let throttling = wait_for("throttling", || {
            let throttling = bench.host.sample().services["s"].throttling?;
            (throttling.throttled_periods > 2).then_some(throttling)
        });
        assert!(
            (throttling.quota_cores - 0.05).abs() < 1e-9,
            "{throttling:?}"
        );
        let made = groups(&bench);
        let usage_s = |folder: &PathBuf| {
            let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
            let two = || {
                let stat = text("cpu.stat")?;
                let us = stat
                    .lines()
                    .find_map(|line| line.strip_prefix("usage_usec "))?;
                Some(us.parse::<f64>().unwrap() / 1e6)
            };
            let one = text("cpuacct.usage").map(|ns| ns.trim().parse::<f64>().unwrap() / 1e9);
            one.or_else(two)
        };
        let own_s = || {
            made.iter()
                .find_map(usage_s)
                .expect("a group that counts CPU time")
        };
        let before_s = own_s();
        let sampled_s = bench.host.sample().services["s"].cpu_s;
        let after_s = own_s();
        assert!(before_s > 0.0);
        assert!(
            (before_s..=after_s).contains(&sampled_s),
            "{before_s} {sampled_s} {after_s}"
        );
        assert!(made.iter().all(|folder| folder.is_dir()), "{made:?}");
        bench.host.release().unwrap();
        assert!(made.iter().all(|folder| !folder.exists()), "{made:?}");
    }
}

#[test]
fn a_service_that_exceeds_its_memory_limit_is_named() {
    if !can_limit() {
        return;
    }
    let mut bench = Bench::new();
    let limits = ResourceLimits {
        memory_bytes: Some(32 << 20),
        ..ResourceLimits::default()
    };
    let script = "exec python3 -c 'import os; os.write(1, b\"up\\n\"); x = bytearray(256 << 20)'";
    start_limited(&mut bench, PlaceKind::Native, limits, script);
    let exit = wait_for("the end of the service", || bench.host.alive("s").err());
    assert_eq!(exit.service, "s");
    assert!(exit.status.contains("out of memory"), "{exit}");
    assert!(exit.status.contains("memory = 32.0 MiB"), "{exit}");
    assert_eq!(bench.log().trim(), "up");
}

#[test]
fn a_killed_child_is_a_memory_event_of_the_service() {
    if !can_limit() {
        return;
    }
    let mut bench = Bench::new();
    let limits = ResourceLimits {
        memory_bytes: Some(32 << 20),
        ..ResourceLimits::default()
    };
    let script = "while [ ! -e go ]; do sleep 0.01; done; \
        python3 -c 'x = bytearray(256 << 20)'; echo over; sleep 1000";
    let folder = bench.folder.path().join("cwd");
    std::fs::create_dir(&folder).unwrap();
    let script = format!("cd {}; {script}", folder.display());
    start_limited(&mut bench, PlaceKind::Native, limits, &script);
    let events = |bench: &mut Bench| bench.host.sample().services["s"].memory_events.unwrap();
    let before = events(&mut bench);
    assert_eq!((before.limit_bytes, before.oom_kills), (32 << 20, 0));
    std::fs::write(folder.join("go"), "").unwrap();
    wait_for("the end of the child", || {
        bench.log().contains("over").then_some(())
    });
    let after = events(&mut bench);
    assert_eq!(after.oom_kills, 1);
    assert!(bench.host.alive("s").is_ok());
}

#[test]
fn a_service_has_no_more_processes_than_its_limit() {
    if !can_limit() {
        return;
    }
    let mut bench = Bench::new();
    let limits = ResourceLimits {
        pids: Some(3),
        ..ResourceLimits::default()
    };
    let script = "for i in 1 2 3 4; do sleep 1000 & done; wait";
    start_limited(&mut bench, PlaceKind::Native, limits, script);
    let log = wait_for("the refused fork", || {
        Some(bench.log()).filter(|log| log.contains("fork"))
    });
    assert!(!log.is_empty());
    assert!(bench.host.sample().services["s"].processes <= 3);
}

#[test]
fn a_limit_above_that_of_a_group_above_is_refused_by_name() {
    if !can_limit() || !Path::new("/sys/fs/cgroup/pids").exists() {
        return;
    }
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    let limits = ResourceLimits {
        cpu_quota_us: Some(u64::MAX),
        ..ResourceLimits::default()
    };
    let spec = ServiceSpec {
        limits,
        ..shell(PlaceKind::Native, "sleep 1000")
    };
    let logs = bench.logs();
    let error = bench.host.start(&spec, &logs).unwrap_err().to_string();
    assert!(
        error.starts_with("service s: cpu can't be limited here: "),
        "{error}"
    );
    let made = groups(&bench);
    bench.host.release().unwrap();
    assert!(made.iter().all(|folder| !folder.exists()), "{made:?}");
}
