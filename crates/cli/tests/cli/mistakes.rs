//! Invalid plans, and services that don't start.

use crate::compares::TINY;
use crate::running::{Workdir, check_schema, names};

#[test]
fn an_invalid_plan_is_reported_with_its_line_and_writes_nothing() {
    let mistakes: &[(&str, &str, &str)] = &[
        ("blocks   = 3", "blok   = 3", "blocks"),
        ("[\"tcp\", \"unix\"]", "[\"unix\"]", "one level"),
        ("socket = \"unix\" }", "socket = \"unic\" }", "unix"),
        ("{{ origin.address }}", "{{ orign.address }}", "origin"),
        ("{{ origin.address }}", "{{ origin.adress }}", "address"),
        ("[\"prony\", ", "[\"no-such-server\", ", "not installed"),
        (
            "target      = \"origin\"",
            "target      = \"web\"",
            "origin",
        ),
        (
            "duration = \"200ms\"",
            "duration = \"200 parrots\"",
            "parrots",
        ),
        (
            "duration = \"200ms\"",
            "duration = \"200ms\"\ninterleave = \"1ms\"",
            "slice length from 20ms",
        ),
        ("rate        = 200", "rate        = \"fast\"", "rate"),
        ("connections = 2", "conections = 2", "connections"),
        (
            "listen  = \"{{ socket }}\"",
            "listen  = \"{{ socket\"",
            "template",
        ),
        ("rate        = 200\n", "", "rate"),
        (
            "rate        = 200",
            "rate        = 200\ncores = \"4000\"",
            "core",
        ),
    ];
    for (right, wrong, reason) in mistakes {
        let workdir = Workdir::new();
        let text = TINY.replacen(right, wrong, 1);
        assert_ne!(text, TINY, "{right}");
        workdir.write("plan.toml", &text);
        let output = workdir.run(&["compare", "plan.toml"]);
        assert_eq!(output.status, 2, "{wrong}: {}", output.err);
        let named = output.err.lines().all(|line| {
            let rest = line.strip_prefix("prony: plan.toml:").unwrap_or_default();
            rest.starts_with(|c: char| c.is_ascii_digit())
        });
        assert!(
            named && output.err.contains(reason),
            "{wrong}: {}",
            output.err
        );
        assert_eq!(output.out, "", "{wrong}");
        assert_eq!(workdir.names(), ["plan.toml"], "{wrong}");
    }
}

#[test]
fn several_mistakes_are_reported_together() {
    let workdir = Workdir::new();
    workdir.write(
        "plan.toml",
        &TINY
            .replace("blocks ", "blok ")
            .replace("warmup ", "warmpu "),
    );
    let output = workdir.run(&["compare", "plan.toml"]).expect(2);
    assert!(
        output.err.contains("blok") && output.err.contains("warmpu"),
        "{}",
        output.err
    );
    assert!(output.err.lines().count() >= 2, "{}", output.err);
}

#[test]
fn a_service_that_does_not_start_exits_with_3_and_the_end_of_its_log() {
    let workdir = Workdir::new();
    let command = "command = [\"prony\", \"origin\", \"--listen\", \"{{ origin.address }}\"]";
    let ends = "command = [\"sh\", \"-c\", \"echo the reason is this >&2; exit 4\"]";
    workdir.write("plan.toml", &TINY.replace(command, ends));
    let output = workdir
        .run(&["compare", "plan.toml", "--out", "r"])
        .expect(3);
    assert!(output.err.contains("the reason is this"), "{}", output.err);
    assert!(output.err.contains("exit status: 4"), "{}", output.err);
    assert_eq!(workdir.left_running(), Vec::<String>::new());
}

#[test]
fn a_service_that_fails_later_keeps_the_earlier_measurements() {
    let workdir = Workdir::new();
    // Each variant starts twice: for the pre-check and for block 1. Later starts find both folders
    // and exit.
    let command = "command = [\"prony\", \"origin\", \"--listen\", \"{{ origin.address }}\"]";
    let once = r#"command = ["sh", "-c", "mkdir once-$2 || mkdir twice-$2 || exit 4; exec $0 origin --listen $1", "PROGRAM", "{{ origin.address }}", "{{ socket }}"]"#;
    let once = once.replace("PROGRAM", env!("CARGO_BIN_EXE_prony"));
    workdir.write("plan.toml", &TINY.replace(command, &once));
    let output = workdir
        .run(&["compare", "plan.toml", "--out", "r"])
        .expect(3);
    assert!(output.err.contains("exit status: 4"), "{}", output.err);
    assert!(output.err.contains("block 1 is stored"), "{}", output.err);
    assert_eq!(workdir.json("r/verdict.json")["blocks"], 1);
    let shown = workdir.run(&["report", "r"]).expect(3);
    assert!(shown.out.contains("ended early: variant "), "{}", shown.out);
    assert!(names(&workdir.path("r")).contains(&"report.html".to_owned()));
    assert!(!output.out.is_empty());
    assert_eq!(workdir.left_running(), Vec::<String>::new());
}

#[test]
fn an_experiment_without_a_complete_block_is_reported() {
    let workdir = Workdir::new();
    workdir.write(
        "plan.toml",
        &TINY.replacen("[\"prony\", ", "[\"false\", ", 1),
    );
    workdir
        .run(&["compare", "plan.toml", "--out", "r"])
        .expect(3);
    let output = workdir.run(&["report", "r"]).expect(3);
    for part in [
        "No: there is no complete block",
        "ended early: ",
        "exit status: 1",
    ] {
        assert!(output.out.contains(part), "{}", output.out);
    }
    let document = workdir.json("r/verdict.json");
    assert_eq!(
        (&document["blocks"], &document["exit_status"]),
        (&0.into(), &3.into())
    );
    check_schema("prony.verdict-1.schema.json", &document);
    assert!(workdir.read("r/report.html").contains("ended early"));
    // The folder can still be resumed.
    workdir.write(
        "r/plan.toml",
        &workdir
            .read("r/plan.toml")
            .replace("\"false\"", "\"prony\""),
    );
    let resume = ["compare", "--resume", "r", "--accept-plan-changes"];
    let output = workdir.run(&resume);
    assert_eq!(workdir.json("r/verdict.json")["exit_status"], output.status);
    workdir.run(&["report", "r"]).expect(output.status);
    assert_eq!(workdir.json("r/verdict.json").get("ended_early"), None);
}

#[test]
fn slices_that_are_not_possible_are_refused_before_anything_runs() {
    let workdir = Workdir::new();
    workdir.write(
        "plan.toml",
        &TINY.replace("rate        = 200", "rate        = 200\nrequests    = 20"),
    );
    for more in [&["--out", "r"][..], &["--dry-run"]] {
        let text = ["compare", "plan.toml", "--interleave", "250ms"];
        let output = workdir.run(&[&text[..], more].concat()).expect(2);
        let refusal = "prony: --interleave 250ms: variants can't be interleaved: ";
        assert!(output.err.contains(refusal), "{}", output.err);
        assert_eq!(output.out, "");
        assert_eq!(workdir.names(), ["plan.toml"]);
    }
    let text = ["compare", "plan.toml", "--interleave", "sometimes"];
    let output = workdir.run(&text).expect(2);
    let hint = "write auto, off, or a slice length";
    assert!(output.err.contains(hint), "{}", output.err);
}

#[test]
fn plan_options_are_refused_with_two_urls() {
    let workdir = Workdir::new();
    let urls = ["compare", "http://127.0.0.1:1/", "http://127.0.0.1:2/"];
    for (option, reason) in [
        (
            ["--creds", "coordinator.creds"],
            "--creds applies to a plan",
        ),
        (["--resume", "runs/1"], "--resume takes the plan"),
    ] {
        let output = workdir.run(&[&urls[..], &option].concat()).expect(2);
        assert!(output.err.contains(reason), "{}", output.err);
        assert_eq!(workdir.names(), [""; 0]);
    }
}

#[test]
fn all_missing_packages_are_named_on_one_line() {
    let workdir = Workdir::new();
    let plan = r#"
baseline = { server = "nginx9.9" }
[factors]
server = ["nginx9.9", "haproxy9.9"]
[service.web]
command = ["{{ server }}", "{{ web.address }}"]
[load]
target = "web"
"#;
    workdir.write("plan.toml", plan);
    let output = workdir
        .run(&["compare", "plan.toml", "--dry-run"])
        .expect(2);
    let all = "to install all missing packages: apt install haproxy nginx\n";
    assert!(output.err.ends_with(all), "{}", output.err);
}
