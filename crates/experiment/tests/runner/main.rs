//! Runs whole experiments on real servers: nginx alone, and nginx in front of php-fpm or of
//! gunicorn with Django.
//!
//! The tests require root, nginx, gunicorn, Django, php-fpm and iproute2. `cargo xtask test`
//! installs these programs.

mod failures;
mod folders;
mod interleaved;
mod responses;
mod studies;

use std::path::{Path, PathBuf};

use prony_experiment::runner::{ExperimentEvent, ExperimentOutcome, Interrupt, RunSettings, run};
use prony_machine::host::local::LocalHost;
use prony_machine::profile::MachineProfile;
use prony_plan::Plan;
use prony_record::{Finding, FindingId, Severity};
use prony_stats::{Verdict, VerdictDocument};

/// Returns a plan with two variants of an nginx that returns a text. The arguments are the text and
/// additional configuration of the second variant.
fn nginx_plan(text: &str, extra: &str) -> String {
    format!(
        r#"
name = "nginx"
baseline = {{ kind = "plain" }}
[trials]
blocks = 3
warmup = "100ms"
duration = "400ms"
seed = 7
[factors]
kind = [{{ name = "plain", text = "Hello", extra = "" }}, {{ name = "other", text = "{text}", extra = "{extra}" }}]
[service.web]
command = ["nginx", "-c", "{{{{ web.files['nginx.conf'] }}}}", "-g", "daemon off;"]
[service.web.files]
"nginx.conf" = {{ text = """
pid {{{{ web.dir }}}}/nginx.pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  {{{{ kind.extra }}}}
  server {{
    listen {{{{ web.address }}}};
    location / {{ return 200 '{{{{ kind.text }}}}'; }}
  }}
}}
""" }}
[load]
target = "web"
connections = 4
"#
    )
}

fn plan(text: &str) -> Plan {
    let plan = Plan::from_str(text, Path::new("nginx.toml"), MachineProfile::this());
    let plan = plan.unwrap_or_else(|errors| panic!("{errors}"));
    plan.check_machine()
        .unwrap_or_else(|errors| panic!("{errors}\n(cargo xtask test installs it)"));
    plan
}

struct Lab {
    folder: tempfile::TempDir,
    host: LocalHost,
    interrupt: Interrupt,
}

impl Lab {
    fn new() -> Lab {
        let folder = tempfile::tempdir().unwrap();
        // The workers of nginx run as another user, who must be able to enter the folders.
        let state = folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        for dir in [folder.path(), &state] {
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(dir, open).unwrap();
        }
        let host = LocalHost::with_state_in(state);
        Lab {
            folder,
            host,
            interrupt: Interrupt::default(),
        }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn run(
        &mut self,
        plan: &Plan,
        resume: bool,
        on: &mut dyn FnMut(&Interrupt, &ExperimentEvent),
    ) -> ExperimentOutcome {
        let out = self.out();
        let settings = RunSettings {
            resume,
            ..RunSettings::new(out)
        };
        let interrupt = &self.interrupt;
        let finished = run(plan, &mut self.host, &settings, interrupt, &mut |event| {
            on(interrupt, &event)
        });
        let left: Vec<_> = std::fs::read_dir(self.folder.path().join("state"))
            .unwrap()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_dir())
            .collect();
        assert_eq!(
            left,
            Vec::<PathBuf>::new(),
            "the host left resources behind"
        );
        finished.unwrap_or_else(|error| panic!("{error}"))
    }
}

fn quiet(_: &Interrupt, _: &ExperimentEvent) {}

#[test]
fn equal_servers_get_a_verdict_document_and_a_folder() {
    let mut lab = Lab::new();
    let plan = plan(&nginx_plan("Hello", ""));
    let mut trials = Vec::new();
    let finished = lab.run(&plan, false, &mut |_, event| {
        if let ExperimentEvent::TrialEnded { id, result } = event {
            trials.push((result.block, result.position, (*id).to_owned()));
        }
    });
    assert!(finished.failed.is_none() && !finished.interrupted);
    let document = finished.document;
    assert_eq!(
        (document.blocks, document.seed, document.variants.len()),
        (3, 7, 2)
    );
    assert_eq!(document.comparisons.len(), 1);
    assert_eq!(trials.len(), 6);
    // A busy machine can withhold the verdict, and then distributions aren't compared either.
    let differences = &document.distribution_differences;
    assert_eq!(differences.is_empty(), document.is_withheld());
    assert!(differences.iter().all(|it| {
        let mut percentiles = it.percentiles.iter();
        it.blocks == 3 && percentiles.any(|at| at.percentile == 50.0)
    }));
    for (block, order) in (1u32..).zip(&document.order) {
        let ran: Vec<_> = trials
            .iter()
            .filter(|(b, ..)| *b == block)
            .map(|(.., id)| id)
            .collect();
        assert_eq!(ran, order.iter().collect::<Vec<_>>());
    }

    let read = |path: &str| std::fs::read_to_string(lab.out().join(path)).unwrap();
    let stored: VerdictDocument = serde_json::from_str(&read("verdict.json")).unwrap();
    assert_eq!(stored, document);
    assert!(read("plan.toml").contains("seed = 7"));
    assert!(
        read("environment.json").contains("--with-http_ssl_module"),
        "nginx -V"
    );
    let environment: serde_json::Value = serde_json::from_str(&read("environment.json")).unwrap();
    assert!(environment["sources"]["plain"]["web"]["files"].is_object());
    assert!(read("trials/1-plain/web/nginx.conf").contains("listen 127.0.0.1:"));
    assert!(read("trials/3-other/telemetry.csv").lines().count() > 3);
    let record = prony_record::Record::from_json(&read("trials/2-other/record.json")).unwrap();
    assert!(record.totals.ok > 0 && record.totals.failed == 0);
    record.totals.check().unwrap();
    let cpu = document.variants[0]
        .metrics
        .keys()
        .map(|metric| metric.name());
    assert!(
        cpu.into_iter()
            .any(|metric| metric == "server_cpu_us_per_request")
    );
}
