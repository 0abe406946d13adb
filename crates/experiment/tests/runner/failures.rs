//! Tests of services that fail to start, end during the load, or reach a limit.

use super::*;

#[test]
fn a_service_that_dies_under_load_withholds_the_verdict() {
    let mut lab = Lab::new();
    let state = lab.folder.path().join("state");
    let mut of_other = false;
    let finished = lab.run(
        &plan(&nginx_plan("Hello", "")),
        false,
        &mut |_, event| match event {
            ExperimentEvent::TrialBegan { id, .. } => of_other = *id == "other",
            ExperimentEvent::Loading { .. } if of_other => kill_nginx(&state),
            _ => {}
        },
    );
    let document = finished.document;
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

/// Kills an nginx whose pid file is below `state`.
pub(super) fn kill_nginx(state: &Path) {
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
fn a_service_that_does_not_start_is_found_before_the_first_block_with_its_variant_and_log() {
    let mut lab = Lab::new();
    let mut trials = 0;
    let finished = lab.run(
        &plan(&nginx_plan("Hello", "no_such_directive on;")),
        false,
        &mut |_, event| trials += usize::from(matches!(event, ExperimentEvent::TrialBegan { .. })),
    );
    assert_eq!(trials, 0);
    let failure = finished.failed.expect("the trial must fail").to_string();
    assert!(
        failure.starts_with("variant kind = other: service \"web\" ended before it was ready"),
        "{failure}"
    );
    assert!(
        failure.contains("unknown directive \"no_such_directive\""),
        "{failure}"
    );
}

/// Returns the text of the `service-limit` finding in an experiment with one block.
fn service_limit(plan: &Plan) -> String {
    let mut lab = Lab::new();
    let finished = lab.run(plan, false, &mut quiet);
    assert!(finished.failed.is_none(), "{:?}", finished.failed);
    let mut findings = finished.document.findings.iter();
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
    // Apache checks its limits once a second.
    let text = r#"
name = "apache"
baseline = { keepalive = "on" }
[trials]
blocks = 1
warmup = "500ms"
duration = "3500ms"
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
