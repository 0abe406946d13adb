//! Whole experiments on real servers: nginx, and gunicorn with Django or php-fpm behind it.
//!
//! They need nginx, gunicorn, Django, php-fpm, iproute2 and root, which `cargo xtask test` sees to.

use std::path::{Path, PathBuf};

use prony_experiment::host::local::LocalHost;
use prony_experiment::plan::{MachineProfile, Plan};
use prony_experiment::runner::{Event, Finished, Interrupt, Settings, run};
use prony_record::{Finding, FindingId, Severity};
use prony_stats::{Verdict, VerdictDocument};

/// Two variants of an nginx that answers with a text; the second level's text and configuration are
/// the test's choice.
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
        // nginx's workers, which are other users, have to get in.
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
        on: &mut dyn FnMut(&Interrupt, &Event),
    ) -> Finished {
        let out = self.out();
        let settings = Settings {
            resume,
            ..Settings::new(out)
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
            "the host left something behind"
        );
        finished.unwrap_or_else(|error| panic!("{error}"))
    }
}

fn quiet(_: &Interrupt, _: &Event) {}

#[test]
fn equal_servers_get_a_verdict_document_and_a_folder() {
    let mut lab = Lab::new();
    let plan = plan(&nginx_plan("Hello", ""));
    let mut trials = Vec::new();
    let finished = lab.run(&plan, false, &mut |_, event| {
        if let Event::TrialEnded { id, result } = event {
            trials.push((result.block, result.position, (*id).to_owned()));
        }
    });
    assert!(finished.failed.is_none() && !finished.interrupted);
    let document = finished.document.unwrap();
    assert_eq!(
        (document.blocks, document.seed, document.variants.len()),
        (3, 7, 2)
    );
    assert_eq!(document.comparisons.len(), 1);
    assert_eq!(trials.len(), 6);
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

#[test]
fn other_bytes_withhold_the_verdict() {
    let mut lab = Lab::new();
    let finished = lab.run(&plan(&nginx_plan("Good bye", "")), false, &mut quiet);
    let document = finished.document.unwrap();
    assert_eq!(document.comparisons[0].verdict, Verdict::Withheld);
    let found = document
        .findings
        .iter()
        .find(|finding| finding.id == FindingId::BytesDiffer)
        .unwrap();
    assert!(found.text.contains("8 bytes against 5"), "{}", found.text);
}

#[test]
fn a_service_that_dies_under_load_withholds_the_verdict() {
    let mut lab = Lab::new();
    let state = lab.folder.path().join("state");
    let mut of_other = false;
    let finished = lab.run(
        &plan(&nginx_plan("Hello", "")),
        false,
        &mut |_, event| match event {
            Event::TrialBegan { id, .. } => of_other = *id == "other",
            Event::Loading { .. } if of_other => kill_nginx(&state),
            _ => {}
        },
    );
    let document = finished.document.unwrap();
    assert_eq!(document.comparisons[0].verdict, Verdict::Withheld);
    let found = document
        .findings
        .iter()
        .find(|finding| finding.id == FindingId::ServiceEnded)
        .unwrap();
    assert!(
        found
            .text
            .starts_with("other, block 1: Service \"web\" ended"),
        "{}",
        found.text
    );
}

/// Kills the nginx whose pid file lies somewhere below `state`.
fn kill_nginx(state: &Path) {
    let mut folders = vec![state.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.file_name().to_str() {
                Some("nginx.pid") => {
                    let pid = std::fs::read_to_string(entry.path()).unwrap();
                    let kill = std::process::Command::new("kill")
                        .args(["-9", pid.trim()])
                        .status();
                    assert!(kill.unwrap().success());
                    return;
                }
                _ if entry.file_type().unwrap().is_dir() => folders.push(entry.path()),
                _ => {}
            }
        }
    }
    panic!("no nginx runs");
}

#[test]
fn where_nothing_succeeds_one_block_is_enough() {
    let mut lab = Lab::new();
    let text = format!(
        "{}expect_size = 6\n",
        nginx_plan("Hello", "").replace("Hello", "Hi")
    );
    let finished = lab.run(&plan(&text), false, &mut quiet);
    let failure = finished
        .failed
        .expect("there is nothing to compare")
        .to_string();
    assert!(
        failure.contains("no request of any variant succeeded"),
        "{failure}"
    );
    assert!(failure.contains("unexpected_size"), "{failure}");
    assert_eq!(finished.document.unwrap().blocks, 1);
}

#[test]
fn a_status_that_fails_everywhere_is_found_before_the_first_block() {
    let mut lab = Lab::new();
    let text = nginx_plan("Hello", "").replace("return 200", "return 404");
    let mut trials = 0;
    let finished = lab.run(&plan(&text), false, &mut |_, event| {
        trials += usize::from(matches!(event, Event::TrialBegan { .. }));
    });
    let failure = finished.failed.unwrap().to_string();
    assert!(
        failure.contains("GET http://127.0.0.1:")
            && failure.contains("/ returns status 404; the load expects 200-399"),
        "{failure}"
    );
    assert_eq!((trials, finished.document), (0, None));
}

#[test]
fn a_status_that_fails_in_one_variant_withholds_its_verdict() {
    let mut lab = Lab::new();
    let extra = "map $host $missing { default 1; }";
    let text = nginx_plan("Hello", extra).replace(
        "location / {",
        "location / { {% if kind.extra %}return 404;{% endif %}",
    );
    let finished = lab.run(&plan(&text), false, &mut quiet);
    let document = finished.document.unwrap();
    assert_eq!(document.comparisons[0].verdict, Verdict::Withheld);
    let errors = document.findings.iter();
    let errors: Vec<&Finding> = errors
        .filter(|finding| finding.severity == Severity::Error && finding.id != FindingId::Errors)
        .collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].id, FindingId::UnexpectedStatus);
    assert!(
        errors[0].text.contains("/ returns status 404"),
        "{}",
        errors[0].text
    );
}

/// nginx over TLS that compresses its page in one variant.
fn gzip_plan(bodies: &str) -> String {
    let page = "<p>The same words again and again, as pages have them.</p>\n".repeat(30);
    nginx_plan(&page.replace('\n', " "), "gzip on; gzip_min_length 1;")
        .replace(
            "text = \"Hello\"",
            &format!("text = \"{}\"", page.replace('\n', " ")),
        )
        .replace(
            "listen {{ web.address }};",
            "listen {{ web.address }} ssl; default_type text/html; \
             ssl_certificate {{ web.files['server.crt'] }}; \
             ssl_certificate_key {{ web.files['server.key'] }};",
        )
        .replace(
            "[service.web.files]",
            "[service.web.files]\n\"server.crt\" = { certificate = [\"localhost\", \"127.0.0.1\"] }\n\
             \"server.key\" = { key_of = \"server.crt\" }",
        )
        + &format!(
            "scheme = \"https\"\ninsecure = true\nheader = [\"Accept-Encoding: gzip\"]\n{bodies}\n"
        )
}

#[test]
fn gzip_on_and_off_over_tls_get_a_verdict_because_the_decoded_bodies_are_the_same() {
    let mut lab = Lab::new();
    let finished = lab.run(&plan(&gzip_plan("")), false, &mut quiet);
    assert!(finished.failed.is_none(), "{:?}", finished.failed);
    let document = finished.document.unwrap();
    // A busy machine may withhold the verdict; the bodies must not.
    let sentence = &document.comparisons[0].text;
    assert!(!sentence.contains("bytes-differ"), "{sentence}");
    let of_bodies = document.findings.iter();
    let of_bodies: Vec<&Finding> = of_bodies
        .filter(|finding| {
            finding.id.as_str().starts_with("bodies") || finding.id.as_str().starts_with("bytes")
        })
        .collect();
    assert_eq!(of_bodies.len(), 1, "{of_bodies:?}");
    assert_eq!(of_bodies[0].id, FindingId::BodiesDecoded);
    let text = &of_bodies[0].text;
    assert!(text.contains("of text/html, gzip against"), "{text}");
}

#[test]
fn bodies_same_compares_compressed_bytes() {
    let mut lab = Lab::new();
    let plan = plan(&gzip_plan("bodies = \"same\""));
    let finished = lab.run(&plan, false, &mut quiet);
    let document = finished.document.unwrap();
    assert_eq!(document.comparisons[0].verdict, Verdict::Withheld);
    let sentence = &document.comparisons[0].text;
    assert!(sentence.contains("bytes-differ"), "{sentence}");
    let mut findings = document.findings.iter();
    assert!(findings.any(|finding| finding.id == FindingId::BytesDiffer));
}

#[test]
fn bodies_that_may_differ_are_a_note() {
    let mut lab = Lab::new();
    let text = format!("{}bodies = \"may-differ\"\n", nginx_plan("Good bye", ""));
    let finished = lab.run(&plan(&text), false, &mut quiet);
    let document = finished.document.unwrap();
    let sentence = &document.comparisons[0].text;
    assert!(!sentence.contains("bytes-differ"), "{sentence}");
    let mut findings = document.findings.iter();
    let note = findings
        .find(|finding| finding.id == FindingId::BodiesMayDiffer)
        .unwrap();
    assert!(note.text.contains("8 bytes"), "{}", note.text);
}

#[test]
fn a_service_that_does_not_start_is_found_before_the_first_block_with_its_variant_and_log() {
    let mut lab = Lab::new();
    let mut trials = 0;
    let finished = lab.run(
        &plan(&nginx_plan("Hello", "no_such_directive on;")),
        false,
        &mut |_, event| trials += usize::from(matches!(event, Event::TrialBegan { .. })),
    );
    assert_eq!(trials, 0);
    let failure = finished
        .failed
        .expect("the trial can't be made")
        .to_string();
    assert!(
        failure.starts_with("variant kind = other: service \"web\" ended before it was ready"),
        "{failure}"
    );
    assert!(
        failure.contains("unknown directive \"no_such_directive\""),
        "{failure}"
    );
}

#[test]
fn a_mended_plan_runs_into_the_folder_of_one_that_never_measured() {
    let mut lab = Lab::new();
    let good = nginx_plan("Hello", "");
    let bad = good.replace("access_log off;", "no_such_directive on;");
    assert!(lab.run(&plan(&bad), false, &mut quiet).failed.is_some());
    std::fs::write(lab.out().join("notes.txt"), "mine").unwrap();
    let settings = |out| Settings::new(out);
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
        "there is something of somebody else's in it"
    );
    std::fs::remove_file(lab.out().join("notes.txt")).unwrap();
    let finished = lab.run(&plan(&good), false, &mut quiet);
    assert_eq!(finished.document.unwrap().blocks, 3);
}

#[test]
fn an_interrupted_experiment_keeps_whole_blocks_and_can_be_resumed() {
    let mut lab = Lab::new();
    let plan = plan(&nginx_plan("Hello", ""));
    let finished = lab.run(&plan, false, &mut |interrupt, event| {
        if let Event::TrialBegan {
            block: 2,
            position: 1,
            ..
        } = event
        {
            interrupt.stop();
        }
    });
    assert!(finished.interrupted);
    let first = finished.document.unwrap();
    assert_eq!(first.blocks, 1);

    lab.interrupt = Interrupt::default();
    let mut resumed = None;
    let finished = lab.run(&plan, true, &mut |_, event| {
        if let Event::Resumed { blocks } = event {
            resumed = Some(*blocks);
        }
    });
    assert_eq!(resumed, Some(1));
    let document = finished.document.unwrap();
    assert_eq!((document.blocks, document.seed), (3, first.seed));
    assert_eq!(document.order[0], first.order[0]);
}

#[test]
fn a_last_block_that_lost_a_machine_is_run_again() {
    let mut lab = Lab::new();
    let plan = plan(&nginx_plan("Hello", ""));
    let finished = lab.run(&plan, false, &mut quiet);
    assert_eq!(finished.document.unwrap().blocks, 3);
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
    let lost = Finding::new(
        FindingId::AgentLost,
        Severity::Error,
        "The agent of host a was lost.",
    );
    trial["findings"] = serde_json::to_value([lost]).unwrap();
    std::fs::write(&path, trial.to_string()).unwrap();

    let mut resumed = None;
    let finished = lab.run(&plan, true, &mut |_, event| {
        if let Event::Resumed { blocks } = event {
            resumed = Some(*blocks);
        }
    });
    assert_eq!(resumed, Some(2));
    let document = finished.document.unwrap();
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
    let settings = Settings::new(lab.out());
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
        let settings = Settings {
            resume,
            ..Settings::new(out)
        };
        let mut host = LocalHost::with_state_in(state.to_owned());
        let interrupt = Interrupt::default();
        run(&plan, &mut host, &settings, &interrupt, &mut |_| {}).unwrap_err()
    };
    let other_state = tempfile::tempdir().unwrap();
    let out = lab.out();
    let mut refused = Vec::new();
    let finished = lab.run(&plan, false, &mut |_, event| {
        // The first trial's folder is there, but no trial has ended yet.
        if let (Event::Loading { .. }, true) = (event, refused.is_empty()) {
            let both = [false, true];
            refused.extend(both.map(|resume| second(resume, out.clone(), other_state.path())));
        }
    });
    let pid = format!("another prony (process {})", std::process::id());
    assert_eq!(refused.len(), 2);
    for refusal in refused {
        assert!(refusal.to_string().contains(&pid), "{refusal}");
    }
    assert_eq!(finished.document.as_ref().unwrap().blocks, 3);
    assert!(!lab.out().join(".lock").exists());
}

#[test]
fn a_plan_that_was_changed_is_resumed_only_on_demand() {
    let mut lab = Lab::new();
    let first = plan(&nginx_plan("Hello", ""));
    let finished = lab.run(&first, false, &mut |interrupt, event| {
        if let Event::TrialBegan { block: 2, .. } = event {
            interrupt.stop();
        }
    });
    assert_eq!(finished.document.unwrap().blocks, 1);
    let path = lab.out().join("plan.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let edited = format!("# Longer.\n{text}").replace("\"400ms\"", "\"500ms\"");
    std::fs::write(&path, edited).unwrap();
    lab.interrupt = Interrupt::default();
    let stored = Plan::read(&path).unwrap_or_else(|errors| panic!("{errors}"));
    let settings = |accept_plan_changes| Settings {
        resume: true,
        accept_plan_changes,
        ..Settings::new(lab.out())
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
    let document = finished.document.as_ref().unwrap();
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

/// The text of the finding `service-limit` of an experiment of one block.
fn service_limit(plan: &Plan) -> String {
    let mut lab = Lab::new();
    let finished = lab.run(plan, false, &mut quiet);
    let document = finished.document.as_ref().unwrap();
    let mut findings = document.findings.iter();
    let found = findings.find(|it| it.id == FindingId::ServiceLimit);
    found.map(|it| it.text.clone()).unwrap_or_default()
}

#[test]
fn a_limit_that_nginx_logs_is_quoted_with_its_variant() {
    let few = nginx_plan("Hello", "")
        .replace("error_log stderr", "error_log stderr warn")
        .replace("\"plain\", text", "\"plain\", slots = 64, text")
        .replace("\"other\", text", "\"other\", slots = 6, text")
        .replace(
            "events {}",
            "events { worker_connections {{ kind.slots }}; }",
        )
        .replace("connections = 4", "connections = 20")
        .replace("blocks = 3", "blocks = 1");
    let text = service_limit(&plan(&few));
    assert!(
        text.starts_with("other, block 1: Service \"web\""),
        "{text}"
    );
    assert!(
        text.contains("6 worker_connections are not enough"),
        "{text}"
    );
    assert!(text.contains("raise worker_connections"), "{text}");
    let enough = nginx_plan("Hello", "").replace("blocks = 3", "blocks = 1");
    assert_eq!(service_limit(&plan(&enough)), "");
}

#[test]
fn a_limit_that_apache_logs_is_quoted() {
    let text = r#"
name = "apache"
baseline = { keepalive = "on" }
[trials]
blocks = 1
warmup = "500ms"
duration = "1500ms"
[factors]
keepalive = ["on", "off"]
[service.web]
command = ["apache2", "-d", "{{ web.dir }}", "-f", "{{ web.files['httpd.conf'] }}", "-DFOREGROUND"]
[service.web.files]
"page.html" = { text = "Hello" }
"httpd.conf" = { text = """
ServerName localhost
PidFile {{ web.dir }}/httpd.pid
DefaultRuntimeDir {{ web.dir }}
ErrorLog /dev/stderr
Listen {{ web.address }}
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
StartServers 1
ServerLimit 1
ThreadsPerChild 4
ThreadLimit 4
MaxRequestWorkers 4
MinSpareThreads 1
MaxSpareThreads 4
KeepAlive {{ keepalive }}
DocumentRoot {{ web.dir }}
""" }
[load]
target = "web"
path = "/page.html"
connections = 16
"#;
    let text = service_limit(&plan(text));
    assert!(text.contains("reached MaxRequestWorkers"), "{text}");
    assert!(text.contains("raise MaxRequestWorkers"), "{text}");
}

/// A study's plan with trials of a second in a single block.
fn short_study(name: &str, changes: &[(&str, &str)]) -> Plan {
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let study = studies.join(name).join("plan.toml");
    let mut text = std::fs::read_to_string(&study).unwrap();
    for (old, new) in changes {
        assert!(text.contains(old), "{name} has no {old} any more");
        text = text.replace(old, new);
    }
    let plan =
        Plan::from_str(&text, &study, MachineProfile::this()).unwrap_or_else(|e| panic!("{e}"));
    plan.check_machine()
        .unwrap_or_else(|errors| panic!("{errors}\n(cargo xtask test installs it)"));
    plan
}

/// Runs a study of one block, which must end without a finding of an error.
fn run_whole(lab: &mut Lab, plan: &Plan) -> VerdictDocument {
    let finished = lab.run(plan, false, &mut quiet);
    assert!(finished.failed.is_none(), "{}", finished.failed.unwrap());
    let document = finished.document.unwrap();
    assert_eq!(document.blocks, 1);
    let errors: Vec<_> = document
        .findings
        .iter()
        .filter(|finding| finding.severity == prony_record::Severity::Error)
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    document
}

fn record_of(trial: &Path) -> prony_record::Record {
    let json = std::fs::read_to_string(trial.join("record.json")).unwrap();
    prony_record::Record::from_json(&json).unwrap()
}

/// Four variants of two services, two of them in namespaces.
#[test]
fn the_study_of_gunicorn_behind_nginx_runs_whole() {
    let plan = short_study(
        "gunicorn-sockets",
        &[
            ("\"30s\"", "\"700ms\""),
            ("\"3s\"", "\"300ms\""),
            ("{ min = 5, max = 15 }", "1"),
        ],
    );
    let mut lab = Lab::new();
    let document = run_whole(&mut lab, &plan);
    assert_eq!(document.variants.len(), 4);
    for id in [
        "native-tcp",
        "native-unix",
        "namespace-tcp",
        "namespace-unix",
    ] {
        let trial = lab.out().join("trials").join(format!("1-{id}"));
        let record = record_of(&trial);
        assert!(record.totals.ok > 20, "{id}: {:?}", record.totals);
        assert_eq!(record.totals.failed, 0, "{id}: {:?}", record.findings);
        assert_eq!(record.load.urls, 16, "{id}");
        assert!(
            trial.join("app.log").is_file() && trial.join("web.log").is_file(),
            "{id}"
        );
    }
}

/// Twelve variants of nginx before php-fpm: both versions of HTTP are spoken, return the same bytes
/// and are no finding, whatever is built into nginx is stored, and no private key is.
#[test]
fn the_study_of_nginx_with_http2_runs_whole() {
    let plan = short_study(
        "nginx-http2",
        &[
            ("duration = \"8s\"", "duration = \"700ms\""),
            ("warmup   = \"2s\"", "warmup = \"300ms\""),
            ("{ min = 5, max = 10 }", "1"),
            // 384 handshakes take longer than the trial on a busy machine.
            ("connections = 384", "connections = 24"),
            ("connections = 64", "connections = 4"),
        ],
    );
    let mut lab = Lab::new();
    let document = run_whole(&mut lab, &plan);
    assert_eq!(
        (document.variants.len(), document.comparisons.len()),
        (12, 9)
    );
    let differences = ["bytes-differ", "negotiation-differs"];
    let found = document.findings.iter();
    let found: Vec<_> = found
        .filter(|f| differences.contains(&f.id.as_str()))
        .collect();
    assert!(found.is_empty(), "{found:?}");
    for variant in &plan.variants {
        let (id, levels) = (&variant.id, &variant.levels);
        let trial = lab.out().join("trials").join(format!("1-{id}"));
        let record = record_of(&trial);
        assert!(record.totals.ok > 20, "{id}: {:?}", record.totals);
        assert_eq!(record.totals.failed, 0, "{id}: {:?}", record.outcomes);
        let version = levels
            .get("http")
            .and_then(|name| name.strip_prefix("HTTP/"));
        assert_eq!(record.negotiated.http.as_deref(), version, "{id}");
        let checked = std::fs::read_to_string(trial.join("trial.json")).unwrap();
        let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
        let length = &checked["answers"]["digests"]["0"]["body"]["length"];
        match levels.get("page") {
            Some("1K") => assert_eq!(length, 1 << 10, "{id}"),
            Some("100K") => assert_eq!(length, 100 << 10, "{id}"),
            _ => assert!(length.as_u64() > Some(4_000), "{id}: {length} bytes"),
        }
        assert!(trial.join("web/server.crt").is_file(), "{id}");
        assert!(
            !trial.join("web/server.key").exists(),
            "{id} keeps a private key"
        );
    }
    let stored = std::fs::read_to_string(lab.out().join("environment.json")).unwrap();
    let environment = serde_json::from_str(&stored).unwrap();
    let schema = include_str!("../../../schema/prony.environment-1.schema.json");
    let schema = serde_json::from_str(schema).unwrap();
    if let Err(wrong) = jsonschema::validate(&schema, &environment) {
        panic!("{}: {wrong}", wrong.instance_path());
    }
    for said in ["--with-http_v2_module", "built with OpenSSL", "fpm-fcgi"] {
        assert!(stored.contains(said), "{said} is not in the environment");
    }
}
