//! Services in containers by podman, from an image that the test builds from scratch: one static
//! program. The tests need root.

use std::fs;
use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::running::{CommandOutput, Running, TEST_TIMEOUT, Workdir};

/// Runtime settings of podman. Its default, crun, doesn't support every mix of control groups.
const SETTINGS: &str = "[engine]\nruntime = \"runc\"\n";

/// A server that ends on SIGTERM, although it is process 1 of its container.
const SERVER: &str = r#"command = ["/bin/busybox", "sh", "-c", "trap 'kill $!; exit' TERM; busybox httpd -f -p {{ web.address }} -h {{ web.dir }} & wait"]
files = { "index.html" = { text = "hello" } }
ready = { get = "/index.html" }"#;

/// An image in podman's storage. Dropping it removes it.
struct TestImage {
    workdir: Workdir,
    name: String,
}

impl TestImage {
    /// Builds the image. Returns `None` if podman can't run containers here, as in most containers.
    fn build(purpose: &str) -> Option<TestImage> {
        let workdir = Workdir::new();
        workdir.write("containers.conf", SETTINGS);
        fs::create_dir_all(workdir.path("root/bin")).unwrap();
        fs::create_dir_all(workdir.path("root/tmp")).unwrap();
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].map(std::path::Path::new);
        let busybox = busybox.into_iter().find(|it| it.is_file());
        let busybox = busybox.expect("these tests need busybox (package busybox-static)");
        fs::copy(busybox, workdir.path("root/bin/busybox")).unwrap();
        let archive = Command::new("tar")
            .args(["-C", "root", "-cf", "image.tar", "."])
            .current_dir(workdir.path(""))
            .status();
        assert!(archive.unwrap().success());
        let name = format!("localhost/prony-test-{purpose}:{}", std::process::id());
        let image = TestImage { workdir, name };
        let imported = image.podman(&["import", "image.tar", &image.name]);
        assert_eq!(imported.status, 0, "{}", imported.err);
        let limits = ["--ulimit", "nofile=64:64", "--ulimit", "nproc=64:64"];
        let tried = [
            &["run", "--rm", "--network", "host"],
            &limits[..],
            &[&image.name, "/bin/busybox", "true"],
        ];
        let tried = image.podman(&tried.concat());
        if tried.status != 0 {
            eprintln!("not tested: {}", tried.err);
            return None;
        }
        Some(image)
    }

    fn podman(&self, args: &[&str]) -> CommandOutput {
        let output = Command::new("podman")
            .args(args)
            .current_dir(self.workdir.path(""))
            .env("CONTAINERS_CONF", self.workdir.path("containers.conf"))
            .output()
            .expect("these tests need podman");
        CommandOutput {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn plan(&self, image: &str, service: &str, duration: &str) {
        let plan = format!(
            r#"
[factors]
cpu = ["unlimited", 0.02]
[trials]
duration = "{duration}"
warmup = "0s"
[service.web]
image = "{image}"
cpu = "{{{{ cpu }}}}"
memory = "64M"
pids = 50
{service}
[load]
target = "web"
path = "/index.html"
connections = 1
"#
        );
        self.workdir.write("plan.toml", &plan);
    }

    fn prony(&self, args: &[&str]) -> Command {
        let mut command = self.workdir.command(args);
        command.env(
            "CONTAINERS_CONF",
            self.workdir.path("containers.conf").display().to_string(),
        );
        command
    }

    fn compare(&self) -> CommandOutput {
        let args = [
            "compare",
            "plan.toml",
            "--blocks",
            "3",
            "--interleave",
            "off",
            "--out",
            "run",
        ];
        Running::start(self.prony(&args)).end()
    }

    /// Returns the names of the containers of runs of the process `prony`.
    fn containers(&self, prony: u32) -> Vec<String> {
        let filter = format!("name=^prony-{prony}-");
        let list = ["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"];
        let listed = self.podman(&list).out;
        listed.lines().map(str::to_owned).collect()
    }
}

impl Drop for TestImage {
    fn drop(&mut self) {
        self.podman(&["rmi", "--force", &self.name]);
    }
}

#[test]
fn services_in_containers_are_limited_and_their_image_is_recorded() {
    let Some(image) = TestImage::build("limits") else {
        return;
    };
    image.plan(&image.name, SERVER, "1s");
    let printed = image.compare();
    let verdict = image.workdir.json("run/verdict.json");
    let findings = verdict["findings"].as_array().expect(&printed.err);
    let throttled = findings.iter().find(|it| it["id"] == "service-throttled");
    let text = throttled.expect(&printed.err)["text"].as_str().unwrap();
    assert!(text.contains("Service \"web\" was throttled in"), "{text}");
    assert!(text.contains("0.02 cores"), "{text}");
    let trial = image.workdir.json("run/trials/1-unlimited/trial.json");
    let cpu = &trial["telemetry"]["services"]["web"]["cpu_percent"];
    assert!(cpu.as_f64().unwrap() > 0.0, "{trial}");
    let environment = image.workdir.json("run/environment.json");
    let recorded: &Value = &environment["sources"]["unlimited"]["web"]["image"];
    assert_eq!(recorded["name"], image.name);
    let digest = recorded["digest"].as_str().unwrap();
    assert!(digest.starts_with("sha256:"), "{digest}");
    let runtime = recorded["runtime"].as_str().unwrap();
    assert!(runtime.starts_with("podman"), "{runtime}");
    let report = image.workdir.read("run/report.html");
    assert!(report.contains(digest), "the report has no digest");
    image.workdir.wait_until_quiet();
}

#[test]
fn an_image_that_is_absent_or_ends_is_reported_before_the_first_trial() {
    let Some(image) = TestImage::build("faults") else {
        return;
    };
    image.plan("./image.tar", SERVER, "1s");
    let printed = image.compare();
    assert_eq!(printed.status, 2, "{}", printed.err);
    let place = "prony: plan.toml:8: service \"web\": image \"";
    assert!(printed.err.starts_with(place), "{}", printed.err);
    assert!(
        printed.err.contains("podman could not load the archive"),
        "{}",
        printed.err
    );
    assert_eq!(printed.err.matches("could not load").count(), 1);

    let ends = r#"command = ["/bin/busybox", "sh", "-c", "echo no database; exit 5"]"#;
    image.plan(&image.name, ends, "1s");
    let printed = image.compare();
    assert_eq!(printed.status, 3, "{}", printed.err);
    assert!(
        printed.err.contains(
            "service \"web\" ended before it was ready (exit status: 5); the end of its log:\n  \
             web | no database"
        ),
        "{}",
        printed.err
    );
    let log = image.workdir.read("run/trials/0-unlimited/web.log");
    assert_eq!(log, "no database\n");
    image.workdir.wait_until_quiet();
}

#[test]
fn no_container_is_left_after_prony_was_killed() {
    let Some(image) = TestImage::build("killed") else {
        return;
    };
    image.plan(&image.name, SERVER, "60s");
    let args = [
        "compare",
        "plan.toml",
        "--blocks",
        "3",
        "--interleave",
        "off",
    ];
    let mut running = Running::start(image.prony(&args));
    let prony = running.id();
    running.wait_for("pre-check 2 of 2");
    running.wait_for("forecast");
    let wait_for = |what: &str, holds: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < TEST_TIMEOUT, "timeout: {what}");
            std::thread::yield_now();
        }
    };
    wait_for("a container", &|| !image.containers(prony).is_empty());
    running.signal(Signal::KILL);
    wait_for("the removal of the container", &|| {
        image.containers(prony).is_empty()
    });
    image.workdir.wait_until_quiet();
}
