//! Tests of CPU usage by party, with simulated telemetry.

use std::collections::BTreeMap;
use std::path::Path;

use prony_machine::profile::MachineProfile;
use prony_machine::telemetry::{ForeignUse, ServiceSummary};
use prony_plan::Plan;

use super::*;

const ELAPSED_S: f64 = 10.0;

fn resolved(web_cores: &str, load_cores: &str) -> ResolvedVariant {
    let text = format!(
        r#"
baseline = {{ connections = 1 }}
[factors]
connections = [1, 2]
[service.web]
command = ["sleep", "100"]
listen = "tcp"
{web_cores}
[load]
target = "web"
connections = "{{{{ connections }}}}"
{load_cores}
"#
    );
    let machine = MachineProfile {
        cores: vec![0, 1, 2, 3],
        ..MachineProfile::this()
    };
    let plan = Plan::from_str(&text, Path::new("plan.toml"), machine).unwrap();
    let allocated = plan.allocations(0).unwrap();
    let endpoint = prony_plan::service::Endpoint::Tcp("127.0.0.1:8080".parse().unwrap());
    let given = |wanted: &prony_plan::service::Allocation| prony_plan::service::AllocatedService {
        endpoints: [(String::new(), endpoint.clone())].into(),
        files_dir: format!("/tmp/{}", wanted.service).into(),
    };
    let allocated: BTreeMap<_, _> = allocated
        .iter()
        .map(|wanted| (wanted.service.clone(), given(wanted)))
        .collect();
    plan.resolve(0, &allocated).unwrap()
}

/// Returns the telemetry of a machine with two cores. On core 0, the service uses 4 s and another
/// process 5.5 s. On core 1, the load uses 3 s.
fn summary() -> TelemetrySummary {
    let core = |user_s: f64, softirq_s: f64| CoreTimes {
        user_s,
        softirq_s,
        idle_s: ELAPSED_S - user_s - softirq_s,
        ..CoreTimes::default()
    };
    let stranger = ForeignUse {
        pid: 123,
        name: "yes".to_owned(),
        cpu_s: 5.5,
        by_core: [(0, 5.5)].into(),
    };
    let host = HostSummary {
        cores: 2,
        cpu_user_s: 12.5,
        cpu_softirq_s: 0.2,
        cpu_idle_s: 7.3,
        generator_cpu_s: 3.0,
        foreign: vec![stranger],
        core_times: [(0, core(9.5, 0.2)), (1, core(3.0, 0.0))].into(),
        ..HostSummary::default()
    };
    let web = ServiceSummary {
        cpu_user_percent: 40.0,
        ..ServiceSummary::default()
    };
    TelemetrySummary {
        elapsed_s: ELAPSED_S,
        services: [("web".to_owned(), web)].into(),
        host,
        ..TelemetrySummary::default()
    }
}

fn assert_near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6, "{value} {expected}");
}

fn assert_adds_up(parties: &CoreParties) {
    let parts = [
        parties.services,
        parties.load,
        parties.interrupts,
        parties.others,
        parties.stolen,
        parties.idle,
    ];
    assert_near(parts.iter().sum(), 100.0 * parties.cores as f64);
}

#[test]
fn a_foreign_process_is_found_on_the_services_core() {
    let found = resource_use(&summary(), &resolved("cores = [0]", "cores = [1]"));
    let web = found.tied[0].parties.as_ref().unwrap();
    assert_adds_up(web);
    assert_near(web.services, 40.0);
    assert_near(web.load, 0.0);
    assert_near(web.others, 57.0);
    assert_near(web.idle, 3.0);
    assert_eq!(
        (web.neighbors[0].name.as_str(), web.neighbors[0].pid),
        ("yes", 123)
    );
    let load = found.load_cores.as_ref().unwrap();
    assert_adds_up(load);
    assert_near(load.load, 30.0);
    assert_near(load.idle, 70.0);
    assert_eq!(load.neighbors, []);
    let machine = found.machine.as_ref().unwrap();
    assert_adds_up(machine);
    assert_near(machine.others, 57.0);
    assert_near(machine.load, 30.0);
}

#[test]
fn interrupts_count_once_for_both_kernel_accountings() {
    let resolved = resolved("cores = [0]", "cores = [1]");
    let of_web = |softirq_included: Option<bool>| {
        let mut summary = summary();
        summary.host.softirq_included = softirq_included;
        let found = resource_use(&summary, &resolved);
        let web = found.tied[0].parties.clone().unwrap();
        assert_adds_up(&web);
        (web.interrupts, web.others)
    };
    for included in [Some(true), None] {
        let (interrupts, others) = of_web(included);
        assert_near(interrupts, 0.0);
        assert_near(others, 57.0);
    }
    let (interrupts, others) = of_web(Some(false));
    assert_near(interrupts, 2.0);
    assert_near(others, 55.0);
}

#[test]
fn services_and_a_load_that_share_a_core_are_one_group() {
    let found = resource_use(&summary(), &resolved("cores = [0]", "cores = [0, 1]"));
    assert_eq!((found.tied.len(), &found.load_cores), (1, &None));
    let shared = found.tied[0].parties.as_ref().unwrap();
    assert_adds_up(shared);
    assert_eq!((shared.cores, shared.numbers.as_slice()), (2, &[0, 1][..]));
    assert_near(shared.services, 40.0);
    assert_near(shared.load, 30.0);
    assert_near(shared.others, 57.0);
}

#[test]
fn cpu_time_of_an_unpinned_load_is_not_foreign() {
    let mut summary = summary();
    summary.host.foreign.clear();
    let found = resource_use(&summary, &resolved("cores = [0]", ""));
    let web = found.tied[0].parties.as_ref().unwrap();
    assert_adds_up(web);
    assert_near(web.load, 30.0);
    assert_near(web.others, 27.0);
    assert!(found.tied[0].with_load);
}

#[test]
fn cores_without_times_have_no_parties() {
    let mut summary = summary();
    summary.host.core_times.clear();
    let found = resource_use(&summary, &resolved("cores = [0]", "cores = [1]"));
    assert_eq!(found.tied[0].parties, None);
    assert!(found.machine.is_some());
}
