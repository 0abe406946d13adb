//! Runs `prony compare` and the commands related to it: `init`, `study`, `report`, `demo`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;

use crate::running::{CommandOutput, Origin, Running, Workdir, check_schema, names};

/// A plan with two variants of the built-in server and trials of 200 ms.
pub(crate) const TINY: &str = r#"
name     = "tiny"
question = "Which socket?"
baseline = { socket = "unix" }

[trials]
blocks   = 3
warmup   = "50ms"
duration = "200ms"

[factors]
socket = ["tcp", "unix"]

[service.origin]
command = ["prony", "origin", "--listen", "{{ origin.address }}"]
listen  = "{{ socket }}"

[load]
target      = "origin"
connections = 2
rate        = 200
model       = "open"
"#;

/// Checks that the exit status matches the verdict, which may be withheld when other tests keep the
/// machine busy.
fn expect_status_of(output: CommandOutput, verdict: &Value) -> CommandOutput {
    let comparisons = verdict["comparisons"].as_array().unwrap();
    let withheld = comparisons
        .iter()
        .any(|comparison| comparison["verdict"] == "withheld");
    output.expect(i32::from(withheld))
}

#[test]
fn a_folder_that_was_not_set_up_is_named_as_such() {
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    std::fs::create_dir_all(workdir.path("r/trials")).unwrap();
    workdir.write("r/plan.toml", TINY);
    let start = ["compare", "tiny.toml", "--out", "r"];
    let resume = ["compare", "--resume", "r"];
    for words in [&start[..], &resume[..]] {
        let output = workdir.run(words).expect(2);
        let text = "r: an earlier run was killed before it had set up its experiment";
        assert!(output.err.contains(text), "{}", output.err);
    }
    assert_eq!(workdir.read("r/plan.toml"), TINY);
}

#[test]
fn experiments_that_start_together_have_folders_of_their_own() {
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    let runs: Vec<Running> = (0..3)
        .map(|_| Running::start(workdir.command(&["compare", "tiny.toml", "--progress=none"])))
        .collect();
    for run in runs {
        let output = run.end();
        assert!(matches!(output.status, 0 | 1), "{}", output.err);
    }
    let folders = names(&workdir.path("prony-runs"));
    assert_eq!(folders.len(), 3, "{folders:?}");
    for folder in folders {
        workdir.json(&format!("prony-runs/{folder}/verdict.json"));
    }
    // A file with the name of the folder is an error.
    let other = Workdir::new();
    other.write("tiny.toml", TINY);
    other.write("prony-runs", "mine");
    other.run(&["compare", "tiny.toml"]).expect(3);
    // A run that fails before its first trial leaves no folder.
    workdir
        .run(&["compare", "tiny.toml", "--fail-if", "p99 of nobody > 1ms"])
        .expect(2);
    assert_eq!(names(&workdir.path("prony-runs")).len(), 3);
}

/// Limits the size of the files that a command can write, which has the effect of a full disk.
fn with_largest_file(mut command: Command, bytes: u64) -> CommandOutput {
    let limit = move || {
        let limit = libc::rlimit {
            rlim_cur: bytes,
            rlim_max: bytes,
        };
        // SAFETY: the call reads the structure.
        match unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure only makes a system call, which is allowed between fork and exec.
    unsafe { command.pre_exec(limit) };
    Running::start(command).end()
}

#[test]
fn results_that_can_not_be_stored_are_printed_with_status_3() {
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    let compare = |out: &str| {
        let words = ["compare", "tiny.toml", "--progress=none", "--out", out];
        workdir.command(&words)
    };
    // The largest reports don't fit.
    let output = with_largest_file(compare("reports"), 48 << 10).expect(3);
    assert!(output.out.contains("Which socket?"), "{}", output.out);
    assert!(output.err.contains("report.html: "), "{}", output.err);
    workdir.json("reports/verdict.json");
    // The verdict doesn't fit.
    let output = with_largest_file(compare("verdict"), 14 << 10).expect(3);
    assert!(output.out.contains("Which socket?"), "{}", output.out);
    assert!(output.err.contains("verdict.json: "), "{}", output.err);

    // One file that can't be written does not prevent the others.
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/bytes/10");
    let mut words = vec!["load", "-n", "50", "--progress=none", &url];
    words.extend(["--json", "j.json", "--html", "h.html", "--csv", "s.csv"]);
    let output = with_largest_file(workdir.command(&words), 2 << 10).expect(3);
    assert!(output.out.contains("50"), "{}", output.out);
    for name in ["j.json", "h.html"] {
        assert!(output.err.contains(&format!("{name}: ")), "{}", output.err);
        assert!(!workdir.path(name).exists());
    }
    assert!(workdir.read("s.csv").lines().count() > 1);
    origin.stop();
}

#[test]
fn a_plan_becomes_a_folder_and_a_verdict() {
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    let output = workdir.run(&["compare", "tiny.toml", "--out", "r", "--seed", "7"]);
    let verdict = workdir.json("r/verdict.json");
    let output = expect_status_of(output, &verdict);
    let expected = [
        "environment.json",
        "plan.toml",
        "report.html",
        "report.md",
        "state.json",
        "trials",
        "verdict.json",
    ];
    assert_eq!(names(&workdir.path("r")), expected);
    let trials = ["1-tcp", "1-unix", "2-tcp", "2-unix", "3-tcp", "3-unix"];
    assert_eq!(names(&workdir.path("r/trials")), trials);
    for file in ["record.json", "telemetry.csv", "origin.log"] {
        assert!(
            workdir.path("r/trials/2-unix").join(file).is_file(),
            "{file}"
        );
    }
    check_schema("prony.verdict-1.schema.json", &verdict);
    assert_eq!(verdict["schema"], "prony.verdict/1");
    assert_eq!(
        (&verdict["seed"], &verdict["blocks"]),
        (&Value::from(7), &Value::from(3))
    );
    assert_eq!(verdict["comparisons"][0]["metric"], "p99_us");
    // The command first prints a summary of the plan and its planned duration, then a line for each
    // trial. Standard output contains only the results.
    let mut lines = output.err.lines();
    // If another test has just killed a run, a message about its leftovers comes first.
    let first = lines.find(|line| !line.starts_with("prony: removed leftovers of a killed run"));
    assert_eq!(first, Some("tiny: Which socket?"), "{}", output.err);
    assert!(
        output.err.contains("3 blocks") && output.err.contains("about"),
        "{}",
        output.err
    );
    assert_eq!(
        output
            .err
            .lines()
            .filter(|line| line.starts_with("block "))
            .count(),
        6
    );
    let sentence = verdict["comparisons"][0]["text"].as_str().unwrap();
    let printed: Vec<&str> = output.out.split_whitespace().collect();
    let wanted: Vec<&str> = sentence.split_whitespace().collect();
    assert!(
        printed.windows(wanted.len()).any(|words| words == wanted),
        "{}",
        output.out
    );
    assert!(
        output.out.contains("report: r/report.html"),
        "{}",
        output.out
    );
    assert_eq!(workdir.left_running(), Vec::<String>::new());

    rendered_again_it_is_the_same(&workdir, &verdict, &output);

    // The folder now contains an experiment, so it can't be used for another.
    let output = workdir
        .run(&["compare", "tiny.toml", "--out", "r"])
        .expect(2);
    assert!(output.err.contains("--resume"), "{}", output.err);
}

fn rendered_again_it_is_the_same(workdir: &Workdir, verdict: &Value, first: &CommandOutput) {
    let again = workdir
        .run(&["report", "r", "--html", "again.html", "--json", "-"])
        .expect(first.status);
    assert_eq!(workdir.read("again.html"), workdir.read("r/report.html"));
    assert_eq!(serde_json::from_str::<Value>(&again.out).unwrap(), *verdict);
    workdir
        .run(&["report", "r", "--svg", "charts/of/it"])
        .expect(first.status);
    let charts = names(&workdir.path("charts/of/it"));
    assert!(
        charts.contains(&"response-times.svg".to_owned()),
        "{charts:?}"
    );
    let page = workdir.read("r/report.html");
    assert_eq!(charts.len(), page.matches("<svg class=\"wide\"").count());
    let table = workdir
        .run(&["report", "r", "--csv", "-"])
        .expect(first.status);
    assert!(
        table.out.starts_with("variant,socket,metric,"),
        "{}",
        table.out
    );
    let printed = workdir.run(&["report", "r"]).expect(first.status);
    assert!(
        first.out.starts_with(printed.out.trim_end()),
        "{}",
        printed.out
    );
}

#[test]
fn a_dry_run_prints_the_order_and_the_commands_and_writes_nothing() {
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    let output = workdir
        .run(&[
            "compare",
            "tiny.toml",
            "--dry-run",
            "--seed",
            "7",
            "--blocks",
            "4",
        ])
        .expect(0);
    for text in [
        "4 blocks",
        "shuffled with seed 7",
        "block 4: ",
        "--unix=/run/",
        "--rate=200",
        "origin --listen 127.0.0.1:",
    ] {
        assert!(output.out.contains(text), "{text}: {}", output.out);
    }
    let first: Vec<usize> = prony_experiment::schedule::order(7, 0, 2);
    let first: Vec<&str> = first
        .into_iter()
        .map(|variant| ["tcp", "unix"][variant])
        .collect();
    assert!(
        output.out.contains(&format!(
            "block 1: socket = {}; socket = {}\n",
            first[0], first[1]
        )),
        "{}",
        output.out
    );
    assert_eq!(output.err, "");
    assert_eq!(workdir.names(), ["tiny.toml"]);
}

#[test]
fn servers_are_compared_with_the_first_without_a_plan() {
    let workdir = Workdir::new();
    let (a, _b) = (
        Origin::tcp(&workdir),
        Origin::start(&workdir, &["--unix", "b.sock"]),
    );
    let unix = format!("unix:{}:/bytes/10", workdir.path("b.sock").display());
    let a_url = a.url("/bytes/10");
    let lengths = [
        "-c", "2", "-d", "200ms", "--warmup", "0s", "-r", "100", "--blocks", "3",
    ];
    let judged = [&lengths[..], &["--judge", "p99,rate"]].concat();
    let args = [
        &["compare", &unix, &a_url, &a_url, "--out", "r"][..],
        &judged,
    ]
    .concat();
    let output = workdir.run(&args);
    let verdict = workdir.json("r/verdict.json");
    let output = expect_status_of(output, &verdict);
    assert_eq!(verdict["baseline"]["server"], Value::from(unix.as_str()));
    let comparisons = verdict["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 4);
    let of = |place: usize, key: &str| comparisons[place][key].clone();
    assert_eq!(of(0, "against")["server"], Value::from(unix.as_str()));
    let (b, c) = (format!("{a_url} (B)"), format!("{a_url} (C)"));
    for (metric, server) in [
        ("p99_us", &b),
        ("p99_us", &c),
        ("rate_per_s", &b),
        ("rate_per_s", &c),
    ] {
        let is_it =
            |one: &&Value| one["metric"] == metric && one["levels"]["server"] == server.as_str();
        assert_eq!(
            comparisons.iter().filter(is_it).count(),
            1,
            "{metric} {server}"
        );
    }
    assert!(
        output
            .err
            .contains(&format!("How do {b} and {c} compare with {unix}?")),
        "{}",
        output.err
    );
    // A server may be compared with itself. Without --out, the results go to the default folder.
    let args = [&["compare", &a_url, &a_url][..], &lengths].concat();
    let output = workdir.run(&args);
    let runs = names(&workdir.path("prony-runs"));
    assert_eq!(runs.len(), 1);
    assert!(runs[0].ends_with("-two-servers"), "{runs:?}");
    let verdict = workdir.json(&format!("prony-runs/{}/verdict.json", runs[0]));
    let output = expect_status_of(output, &verdict);
    assert!(
        output.out.contains("(A)") && output.out.contains("(B)"),
        "{}",
        output.out
    );
}

#[test]
fn an_experiment_that_ended_undecided_is_not_extended() {
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    workdir.run(&["compare", "tiny.toml", "--out", "r"]);
    // These contradictory values decide no comparison, even if the machine is busy.
    let p99s_us = [
        ("1-tcp", 100.0),
        ("1-unix", 900.0),
        ("2-tcp", 900.0),
        ("2-unix", 100.0),
        ("3-tcp", 100.0),
        ("3-unix", 100.0),
    ];
    for (trial, p99_us) in p99s_us {
        let path = format!("r/trials/{trial}/trial.json");
        let mut result = workdir.json(&path);
        result["values"]["p99_us"] = p99_us.into();
        // The folder's name identifies the trial, even if the file names another variant.
        result["variant"] = 99.into();
        workdir.write(&path, &result.to_string());
    }
    let before = workdir.read("r/verdict.json");
    let output = workdir
        .run(&["compare", "--resume", "r", "--blocks", "4"])
        .expect(2);
    assert!(output.err.contains("after block 3"), "{}", output.err);
    assert_eq!(workdir.read("r/verdict.json"), before);
    assert_eq!(names(&workdir.path("r/trials")).len(), 6);
    let study = ["study", "run", "gunicorn-sockets", "--resume", "r"];
    let output = workdir.run(&study).expect(2);
    assert!(
        output.err.contains("not study gunicorn-sockets"),
        "{}",
        output.err
    );
}

#[test]
fn the_first_block_is_forecast_regardless_of_the_budget() {
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    let args = ["compare", "tiny.toml", "--dry-run", "--budget", "1ms"];
    let output = workdir.run(&args).expect(0);
    assert!(
        output
            .out
            .contains("warm-up; about 1 s without the starts of services"),
        "{}",
        output.out
    );
}

#[test]
fn unreachable_servers_exit_with_3() {
    let workdir = Workdir::new();
    let url = crate::running::closed_url();
    let output = workdir
        .run(&["compare", &url, &url, "--blocks", "3", "-d", "1s"])
        .expect(3);
    assert!(output.err.contains("does not respond"), "{}", output.err);
    // prony has no logs of servers that it didn't start.
    let why = "prony did not start this server";
    assert!(output.err.contains(why), "{}", output.err);
    assert!(!output.err.contains("log is empty"), "{}", output.err);
    let hint = "prony: fix the cause, then start a new run";
    assert!(output.err.contains(hint), "{}", output.err);
}

#[test]
fn options_for_urls_are_refused_with_a_plan() {
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    let output = workdir
        .run(&["compare", "tiny.toml", "--connections", "3", "--dry-run"])
        .expect(2);
    assert!(output.err.contains("[load]"), "{}", output.err);
    for (option, hint) in [
        ("--judge=p99", "metrics = "),
        ("--names=a,b", "names its variants"),
    ] {
        let output = workdir
            .run(&["compare", "tiny.toml", option, "--dry-run"])
            .expect(2);
        assert!(output.err.contains(hint), "{}", output.err);
    }
    let output = workdir
        .run(&["compare", "a:1", "b:1", "--judge", "p98"])
        .expect(2);
    assert!(
        output.err.contains("did you mean") || output.err.contains("p99_us"),
        "{}",
        output.err
    );
}

#[test]
fn init_writes_a_plan_that_can_be_run() {
    let workdir = Workdir::new();
    workdir.run(&["init", "mine.toml"]).expect(0);
    let output = workdir
        .run(&["compare", "mine.toml", "--dry-run"])
        .expect(0);
    assert!(output.out.contains("origin --unix"), "{}", output.out);
    let output = workdir.run(&["init", "mine.toml"]).expect(2);
    assert!(output.err.contains("already exists"), "{}", output.err);
    let written = workdir.read("mine.toml");
    let plain = workdir.run(&["init", "-"]).expect(0).out;
    let with_schema = format!("#:schema ./plan.schema.json\n{plain}");
    assert_eq!(written, with_schema);
    workdir.run(&["init", "--no-schema"]).expect(0);
    assert_eq!(workdir.read("plan.toml"), plain);
    assert_eq!(
        workdir.names(),
        ["mine.toml", "plan.schema.json", "plan.toml"]
    );
    let schema = workdir.run(&["init", "--schema"]).expect(0).out;
    assert_eq!(workdir.read("plan.schema.json"), schema);
    let manual = workdir.run(&["man", "plan"]).expect(0).out;
    assert!(manual.contains(".SS [service.NAME]"), "{manual}");
}

#[test]
fn studies_can_be_listed_shown_and_tried() {
    let workdir = Workdir::new();
    let listed = workdir.run(&["study", "list"]).expect(0).out;
    assert!(listed.contains("\ngunicorn-sockets  What do "), "{listed}");
    let shown = workdir
        .run(&["study", "show", "gunicorn-sockets"])
        .expect(0)
        .out;
    assert!(
        shown.starts_with("# gunicorn-sockets\n") && shown.contains("[service.app]"),
        "{shown}"
    );
    let output = workdir.run(&["study", "run", "gunicorn-sockets", "--dry-run"]);
    let installed = |program| {
        let here = std::path::Path::new("/");
        prony_machine::system::program::find(program, here, None).is_ok()
    };
    if installed("nginx") && installed("gunicorn") {
        let output = output.expect(0);
        assert!(
            output.out.contains("namespace-unix") && output.out.contains("gunicorn shop.wsgi"),
            "{}",
            output.out
        );
    } else {
        let output = output.expect(2);
        assert!(output.err.contains("is not installed"), "{}", output.err);
    }
    let output = workdir.run(&["study", "run", "nginx-http2", "--dry-run"]);
    if installed("nginx") && installed("php-fpm") {
        let output = output.expect(0);
        for part in [
            "12 variants, each once in each of 5 to 10 blocks",
            "about 11 min, 22 min at most",
            "  http = HTTP/1.1:\n    load: --connections=384 --http=1.1 --streams=1\n",
            "  http = HTTP/2:\n    load: --connections=64 --http=2 --streams=6\n",
        ] {
            assert!(output.out.contains(part), "{part}: {}", output.out);
        }
    } else {
        let output = output.expect(2);
        assert!(output.err.contains("is not installed"), "{}", output.err);
    }
    assert_eq!(workdir.names(), Vec::<String>::new());
}

#[test]
fn a_plan_compares_versions_of_http_on_one_port_number() {
    let workdir = Workdir::new();
    let plan = TINY
        .replace("socket = \"unix\"", "http = \"2\"")
        .replace(
            "socket = [\"tcp\", \"unix\"]",
            "http = [{ name = \"2\", listener = \"https\" }, { name = \"3\", listener = \"quic\" }]",
        )
        .replace(
            "\"--listen\", \"{{ origin.address }}\"]",
            "\"--tls\", \"--listen\", \"{{ origin.https.address }}\", \"--quic={{ origin.quic.address }}\"]",
        )
        .replace("\"{{ socket }}\"", "{ https = \"tcp\", quic = \"udp\" }")
        // A number of requests instead of a duration, which a busy machine may exceed with
        // handshakes alone.
        .replace("duration = \"200ms\"", "")
        .replace(
            "target      = \"origin\"",
            "target      = \"origin.{{ http.listener }}\"\nrequests = 20\ninsecure = true\n\
             scheme = \"https\"",
        );
    let ready = "ready = { listener = \"quic\", get = \"/\" }\n\n[load]";
    workdir.write("http.toml", &plan.replace("[load]", ready));
    let output = workdir.run(&["compare", "http.toml", "--out", "r"]);
    let verdict = workdir.json("r/verdict.json");
    expect_status_of(output, &verdict);
    for (trial, version) in [("1-2", "2"), ("1-3", "3")] {
        let record = workdir.json(&format!("r/trials/{trial}/record.json"));
        assert_eq!(record["negotiated"]["http"], version, "{trial}");
        assert_eq!(record["totals"]["failed"], 0, "{trial}");
    }
}

#[test]
fn the_same_log_is_replayed_against_each_variant() {
    let workdir = Workdir::new();
    let line = |it: usize| {
        format!(
            "10.0.0.{} - - [10/Oct/2000:13:55:3{} +0000] \"GET /bytes/{it} HTTP/1.1\" 200 5\n",
            it % 7,
            it / 200
        )
    };
    workdir.write("access.log", &(0..300).map(line).collect::<String>());
    let load = "connections = 2\nrate        = 200\nmodel       = \"open\"\n";
    let length = "warmup   = \"50ms\"\nduration = \"200ms\"\n";
    assert!(TINY.contains(load) && TINY.contains(length));
    let plan = TINY.replace(load, "replay = \"access.log\"\nspeed = 4\n");
    workdir.write("replay.toml", &plan.replace(length, ""));
    let dry = workdir
        .run(&["compare", "replay.toml", "--dry-run"])
        .expect(0);
    assert!(dry.out.contains("a trial replays the log"), "{}", dry.out);
    let args = ["compare", "replay.toml", "--out", "out", "--progress=none"];
    let output = workdir.run(&args);
    assert!(matches!(output.status, 0 | 1), "{}", output.err);
    let verdict = workdir.json("out/verdict.json");
    check_schema("prony.verdict-1.schema.json", &verdict);
    let compared = verdict["comparisons"].as_array().unwrap();
    assert_eq!(compared[0]["metric"], "p99_us", "{verdict}");
    for trial in names(&workdir.path("out/trials")) {
        let record = workdir.json(&format!("out/trials/{trial}/record.json"));
        check_schema("prony.record-1.schema.json", &record);
        assert_eq!(record["totals"]["started"], 300, "{trial}");
        assert_eq!(record["replay"]["lines"], 300, "{trial}");
    }
    assert!(workdir.path("out/includes").exists());
}
