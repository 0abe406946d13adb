//! Exit statuses, and the messages on each stream.

use crate::running::{Origin, Running, Workdir, closed_url};

#[test]
fn success_exits_with_0_and_an_empty_standard_error() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let printed = workdir
        .run(&["load", "-n", "20", "-c", "2", &origin.url("/")])
        .expect(0);
    assert!(
        printed.out.contains("20 requests: 20 ok"),
        "{}",
        printed.out
    );
    assert_eq!(printed.err, "");
    assert!(!printed.out.contains('\x1b'), "{}", printed.out);
}

#[test]
fn a_load_without_a_success_exits_with_1() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/status/500");
    let printed = workdir
        .run(&["load", "-n", "20", "-c", "2", &url])
        .expect(1);
    assert!(
        printed.err.contains("prony: no request succeeded"),
        "{}",
        printed.err
    );
}

#[test]
fn a_load_whose_connects_are_refused_ends_soon_with_1() {
    let workdir = Workdir::new();
    let url = closed_url();
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    // If the load didn't end early, it would take five minutes.
    let args = ["load", "-d", "5m", "-c", "2", "--json", "r.json", &url];
    let printed = workdir.run(&args).expect(1);
    let expected = format!("prony: Nothing is listening on {address}: ");
    assert!(printed.err.contains(&expected), "{}", printed.err);
    assert!(printed.err.contains("--wait-for-server"), "{}", printed.err);
    let record = workdir.json("r.json");
    assert!(record["totals"]["elapsed_s"].as_f64().unwrap() < 60.0);
    let ids = record["findings"].as_array().unwrap().iter();
    assert!(
        ids.clone()
            .any(|finding| finding["id"] == "nothing-listens")
    );
    let socket = [
        "load",
        "-d",
        "5m",
        "--unix",
        "app.sock",
        "http://localhost/",
    ];
    let printed = workdir.run(&socket).expect(1);
    assert!(
        printed.err.contains("Nothing is listening on app.sock"),
        "{}",
        printed.err
    );
}

#[test]
fn a_load_may_wait_for_its_server() {
    let workdir = Workdir::new();
    let load = [
        "load",
        "-n",
        "20",
        "-c",
        "2",
        "--unix",
        "app.sock",
        "http://localhost/",
    ];
    let mut waiting = load.to_vec();
    waiting.push("--wait-for-server=60s");
    let mut running = Running::start(workdir.command(&waiting));
    running.wait_for("prony: waiting for app.sock");
    let origin = Origin::start(&workdir, &["--unix", "app.sock"]);
    let printed = running.end().expect(0);
    assert!(
        printed.out.contains("20 requests: 20 ok"),
        "{}",
        printed.out
    );
    drop(origin);
    let _ = std::fs::remove_file(workdir.path("app.sock"));
    waiting.pop();
    waiting.push("--wait-for-server=200ms");
    let printed = workdir.run(&waiting).expect(1);
    let expected = "nothing was listening on app.sock after 200 ms";
    assert!(printed.err.contains(expected), "{}", printed.err);
    assert_eq!(printed.out, "");
    waiting.push("--agents=1");
    waiting.push("--creds=none");
    let printed = workdir.run(&waiting).expect(2);
    assert!(
        printed.err.contains("--wait-for-server with --agents"),
        "{}",
        printed.err
    );
}

#[test]
fn a_comparison_may_wait_for_its_servers() {
    let workdir = Workdir::new();
    let (a, b) = (closed_url(), closed_url());
    let waiting = ["compare", &a, &b, "--out", "r", "--wait-for-server=200ms"];
    let printed = workdir.run(&waiting).expect(3);
    assert!(printed.err.contains("after 200 ms"), "{}", printed.err);
    let log = "log is empty";
    assert!(!printed.err.contains(log), "{}", printed.err);
    // Without a value, `--wait-for-server` waits for 30 s.
    let dry = ["compare", &a, &b, "--dry-run", "--wait-for-server"];
    let printed = workdir.run(&dry).expect(0);
    assert!(
        printed.out.contains("--wait-for-server=30s"),
        "{}",
        printed.out
    );
}

#[test]
fn a_condition_that_holds_exits_with_1_and_others_with_0() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let missing = origin.url("/status/404");
    let args = [
        "load",
        "-n",
        "10",
        "--fail-if",
        "p99>60m",
        "--fail-if",
        "failed>0.1%",
    ];
    let printed = workdir.run(&[&args[..], &[&missing]].concat()).expect(1);
    assert!(
        printed.err.contains("--fail-if failed>0.1%"),
        "{}",
        printed.err
    );
    // Failed requests are beyond every limit of a percentile.
    assert!(printed.err.contains("p99>60m"), "{}", printed.err);
    workdir
        .run(&[&args[..], &[&origin.url("/")]].concat())
        .expect(0);
}

#[test]
fn only_one_option_reads_standard_input() {
    let workdir = Workdir::new();
    let url = "http://localhost/";
    for args in [
        &["load", "--body", "-", "--urls", "-", url][..],
        &["compare", "--body-file=-", "--urls=-", url, url],
    ] {
        let printed = workdir.run(args).expect(2);
        let expected = "--body - and --urls - both read standard input";
        assert!(printed.err.contains(expected), "{}", printed.err);
    }
}

#[test]
fn wrong_arguments_are_2_before_anything_is_run() {
    let workdir = Workdir::new();
    let refused: &[(&[&str], &str)] = &[
        (&["load"], "URL"),
        (&["load", "-c", "0", "http://localhost/"], "--connections"),
        (
            &["load", "--conections", "1", "http://localhost/"],
            "--connections",
        ),
        (&["load", "ftp://localhost/"], "http, https"),
        (&["load", "http://8.8.8.8/"], "--public"),
        (
            &["load", "--fail-if", "p99", "http://localhost/"],
            "--fail-if",
        ),
        (
            &["load", "--fail-if", "speed>1", "http://localhost/"],
            "--fail-if",
        ),
        (
            &["load", "--json", "-", "--csv", "-", "http://localhost/"],
            "standard output",
        ),
        (
            &["load", "--json", "nowhere/x", "http://localhost/"],
            "--json nowhere/x",
        ),
        (&["load", "--html", "-", "http://localhost/"], "--html"),
        (
            &["load", "--urls", "nowhere", "http://localhost/"],
            "nowhere",
        ),
        (
            &[
                "load",
                "--body",
                "a",
                "--body-file",
                "b",
                "http://localhost/",
            ],
            "--body",
        ),
        (&["compare"], "prony init"),
        (&["compare", "nowhere.toml"], "nowhere.toml"),
        (&["compare", "http://localhost/"], "at least two URLs"),
        (&["compare", "--resume", "nowhere"], "no experiment"),
        (&["compare", "--resume", "a", "--out", "b"], "--out"),
        (
            &["compare", "http://8.8.8.8/", "http://localhost/"],
            "--public",
        ),
        (&["compare", "a", "b", "--unix", "/x"], "--unix"),
        (&["study", "show", "nothing"], "gunicorn-sockets"),
        (&["report", "nowhere"], "no such file or folder"),
        (&["origin", "--work", "much"], "--work"),
        (&["origin", "--listen", "here"], "--listen"),
        (&["nonsense"], "nonsense"),
        (&[], "Usage"),
    ];
    for (args, reason) in refused {
        let printed = workdir.run(args);
        assert_eq!(printed.status, 2, "{args:?}: {}", printed.err);
        assert!(printed.err.contains(reason), "{args:?}: {}", printed.err);
        assert_eq!(printed.out, "", "{args:?}");
    }
    assert_eq!(workdir.names(), Vec::<String>::new());
}

#[test]
fn refusals_by_the_environment_exit_with_3() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let taken = origin.addresses[0]
        .trim_start_matches("http://")
        .trim_end_matches('/');
    let printed = workdir.run(&["origin", "--listen", taken]).expect(3);
    assert!(
        printed
            .err
            .starts_with(&format!("prony: can't listen on {taken}")),
        "{}",
        printed.err
    );
    let printed = workdir
        .run(&[
            "load",
            "-n",
            "1",
            "-c",
            "1",
            "--cores",
            "1023",
            &origin.url("/"),
        ])
        .expect(3);
    assert!(printed.err.contains("core 1023"), "{}", printed.err);
}

#[test]
fn public_targets_are_allowed_by_flag_and_by_environment() {
    let workdir = Workdir::new();
    // If the address is allowed, the plan is refused later for another reason.
    for (flag, variable, allowed) in [
        (true, None, true),
        (false, Some("1"), true),
        (false, Some("0"), false),
        (false, None, false),
    ] {
        let mut args = vec!["load", "--json", "nowhere/x", "http://192.0.2.1/"];
        args.extend(flag.then_some("--public"));
        let mut command = workdir.command(&args);
        if let Some(value) = variable {
            command.env("PRONY_PUBLIC", value);
        }
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            !err.contains("--public"),
            allowed,
            "{flag} {variable:?}: {err}"
        );
        // The output can't be opened, so no request is sent.
        assert_eq!(
            err.contains("nowhere/x"),
            allowed,
            "{flag} {variable:?}: {err}"
        );
    }
}
