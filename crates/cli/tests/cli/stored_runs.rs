//! `prony runs`, and other commands that accept the names of runs.

use serde_json::Value;

use crate::compares::TINY;
use crate::running::{Workdir, check_schema, names};

/// Creates a folder with one real run, two older copies of it, and entries that aren't runs.
fn workdir_with_runs() -> Workdir {
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    let printed = workdir.run(&[
        "compare",
        "tiny.toml",
        "--out",
        "prony-runs/2026-11-20-100000-tiny",
    ]);
    assert!(
        printed.status == 0 || printed.status == 1,
        "{}",
        printed.err
    );
    let first = workdir.path("prony-runs/2026-11-20-100000-tiny");
    for other in ["2026-11-21-100000-tiny", "2026-11-22-100000-tiny"] {
        copy(&first, &workdir.path("prony-runs").join(other));
    }
    std::fs::create_dir(workdir.path("prony-runs/photos")).unwrap();
    workdir.write("prony-runs/photos/plan.toml", "mine");
    workdir.write("prony-runs/notes.txt", "mine");
    workdir
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        if entry.path().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()))
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn stored_runs_are_listed_named_and_removed() {
    let workdir = workdir_with_runs();
    let list = || -> Value {
        let printed = workdir.run(&["runs", "--json", "-"]).expect(0);
        serde_json::from_str(&printed.out).unwrap()
    };
    let document = list();
    check_schema("prony.stored-runs-1.schema.json", &document);
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    assert_eq!(runs[0]["path"], "prony-runs/2026-11-22-100000-tiny");
    assert_eq!(runs[0]["started_at"], "2026-11-22T10:00:00Z");
    assert_eq!(runs[0]["question"], "Which socket?");
    assert_eq!(runs[0]["blocks"], 3);
    assert!(runs[0]["bytes"].as_u64().unwrap() > 1000);
    let table = workdir.run(&["runs"]).expect(0).out;
    assert!(
        table.contains("2026-11-21 10:00") && table.contains("Which socket?"),
        "{table}"
    );

    named_and_used_as_a_baseline(&workdir);

    // Runs are removed only after confirmation. Other folders are never removed.
    let oldest = "2026-11-20-100000-tiny";
    let printed = workdir.run(&["runs", "rm", oldest]).expect(2);
    assert!(printed.err.contains("--yes"), "{}", printed.err);
    for other in [
        "prony-runs/photos",
        "prony-runs",
        "prony-runs/notes.txt",
        ".",
    ] {
        let printed = workdir.run(&["runs", "rm", "--yes", other]).expect(2);
        assert!(
            printed.err.contains("not a run"),
            "{other}: {}",
            printed.err
        );
    }
    workdir.run(&["runs", "prune"]).expect(2);
    let printed = workdir
        .run(&["runs", "prune", "--keep", "1", "--dry-run"])
        .expect(0);
    assert_eq!(
        printed.out, "prony-runs/2026-11-21-100000-tiny\n",
        "the oldest has a name"
    );
    workdir
        .run(&["runs", "prune", "--older-than", "36500d", "--yes"])
        .expect(0);
    assert_eq!(list()["runs"].as_array().unwrap().len(), 3);
    workdir
        .run(&["runs", "prune", "--keep", "1", "--yes"])
        .expect(0);
    let kept = [
        "2026-11-20-100000-tiny",
        "2026-11-22-100000-tiny",
        "main",
        "notes.txt",
        "photos",
    ];
    assert_eq!(names(&workdir.path("prony-runs")), kept);
    // `rm` with a name removes the run and the name.
    workdir.run(&["runs", "rm", "-y", "main"]).expect(0);
    let kept = ["2026-11-22-100000-tiny", "notes.txt", "photos"];
    assert_eq!(names(&workdir.path("prony-runs")), kept);
}

#[test]
fn removing_a_run_keeps_what_prony_did_not_write() {
    let workdir = workdir_with_runs();
    let run = "prony-runs/2026-11-22-100000-tiny";
    let foreign = [
        "mine/notes.txt",
        "notes.txt",
        "trials/1-tcp/mine.txt",
        "trials/mine/a.json",
    ];
    for name in foreign {
        let path = workdir.path(&format!("{run}/{name}"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "mine").unwrap();
    }
    std::os::unix::fs::symlink("../photos", workdir.path(&format!("{run}/link"))).unwrap();
    let printed = workdir.run(&["runs", "rm", "-y", run]).expect(0);
    for name in foreign.iter().chain(&["link"]) {
        assert!(printed.err.contains(name), "{name}: {}", printed.err);
    }
    for name in foreign {
        assert_eq!(workdir.read(&format!("{run}/{name}")), "mine");
    }
    assert_eq!(workdir.read("prony-runs/photos/plan.toml"), "mine");
    assert_eq!(
        names(&workdir.path(run)),
        ["link", "mine", "notes.txt", "trials"]
    );
    assert_eq!(
        names(&workdir.path(&format!("{run}/trials"))),
        ["1-tcp", "mine"]
    );
    assert_eq!(
        names(&workdir.path(&format!("{run}/trials/1-tcp"))),
        ["mine.txt"]
    );
    // Without foreign files, nothing remains.
    let other = "prony-runs/2026-11-21-100000-tiny";
    workdir.run(&["runs", "rm", "-y", other]).expect(0);
    assert!(!workdir.path(other).exists());
}

#[test]
fn control_characters_in_a_stored_run_reach_no_document() {
    let workdir = workdir_with_runs();
    let run = "prony-runs/2026-11-22-100000-tiny";
    let hostile = "x\u{1b}[31m\u{202e}y\n::error::z";
    let mut verdict = workdir.json(&format!("{run}/verdict.json"));
    verdict["question"] = hostile.into();
    verdict["variants"][0]["name"] = hostile.into();
    verdict["findings"] = serde_json::json!([
        { "id": "errors", "severity": "warning", "text": hostile, "variants": ["tcp"] }
    ]);
    workdir.write(&format!("{run}/verdict.json"), &verdict.to_string());
    for option in ["--html", "--markdown", "--junit", "--csv", "--github"] {
        workdir.run(&["report", run, option, "document"]);
        let document = workdir.read("document");
        let is_hostile = |c: char| matches!(c, '\u{1b}' | '\u{202e}');
        assert!(
            document.contains('y') && !document.contains(is_hostile),
            "{document}"
        );
    }
    let mut command = workdir.command(&["report", run]);
    let output = command.env("GITHUB_ACTIONS", "true").output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("�[31m�y"), "{printed}");
    assert!(
        !printed
            .lines()
            .any(|line| line.trim_start().starts_with("::")),
        "{printed}"
    );
}

fn named_and_used_as_a_baseline(workdir: &Workdir) {
    workdir
        .run(&["runs", "name", "2026-11-21-100000-tiny", "main"])
        .expect(0);
    // Giving the name to another run moves it.
    workdir
        .run(&["runs", "name", "prony-runs/2026-11-20-100000-tiny", "main"])
        .expect(0);
    for bad in ["../x", "-x", ".x", "", "a b"] {
        workdir.run(&["runs", "name", "main", "--", bad]).expect(2);
    }
    workdir
        .run(&["runs", "name", "main", "2026-11-22-100000-tiny"])
        .expect(2);
    let table = workdir.run(&["runs"]).expect(0).out;
    let named = table.lines().find(|line| line.contains(" main ")).unwrap();
    assert!(named.starts_with("2026-11-20"), "{table}");
    // A busy machine may have withheld the verdict, and reports then end with 1.
    let newest = workdir.run(&["report"]);
    assert!(newest.status <= 1, "{}", newest.err);
    assert!(
        newest.err.contains("prony-runs/2026-11-22-100000-tiny"),
        "{}",
        newest.err
    );
    assert!(!newest.out.is_empty());
    let printed = workdir.run(&["report", "--against", "main", "2026-11-22-100000-tiny"]);
    assert!(printed.status <= 1, "{}", printed.err);
    assert!(
        printed.out.contains("No other stored fact differs"),
        "{}",
        printed.out
    );
    let dry = ["compare", "tiny.toml", "--against", "main", "--dry-run"];
    workdir.run(&dry).expect(0);
    let printed = workdir
        .run(&["compare", "tiny.toml", "--against", "mian", "--dry-run"])
        .expect(2);
    assert!(printed.err.contains("mian"), "{}", printed.err);
    workdir.run(&["runs", "name", "main", "other"]).expect(0);
    workdir
        .run(&["runs", "name", "--delete", "other"])
        .expect(0);
    workdir
        .run(&["runs", "name", "--delete", "other"])
        .expect(2);
}

#[test]
fn damaged_and_unfinished_runs_are_listed_as_such() {
    let workdir = Workdir::new();
    let printed = workdir.run(&["runs"]).expect(0);
    assert!(
        printed.err.contains("no runs in prony-runs"),
        "{}",
        printed.err
    );
    assert!(
        workdir
            .run(&["report"])
            .expect(2)
            .err
            .contains("no run with a verdict")
    );
    workdir.run(&["runs", "nowhere"]).expect(2);
    let contents = [
        ("cut", "{\"seed\": 1, \"variants\": [", None),
        ("odd", "{}", Some("[]")),
        ("foreign", "{}", Some("{\"schema\": \"prony.verdict/9\"}")),
        ("begun", "{\"seed\": 1, \"variants\": []}", None),
    ];
    for (name, state, verdict) in contents {
        std::fs::create_dir_all(workdir.path("prony-runs").join(name)).unwrap();
        workdir.write(
            &format!("prony-runs/{name}/plan.toml"),
            "question = \"Why?\"\nname = 3",
        );
        workdir.write(&format!("prony-runs/{name}/state.json"), state);
        if let Some(verdict) = verdict {
            workdir.write(&format!("prony-runs/{name}/verdict.json"), verdict);
        }
    }
    std::os::unix::fs::symlink("gone", workdir.path("prony-runs/dangling")).unwrap();
    std::os::unix::fs::symlink("loop", workdir.path("prony-runs/loop")).unwrap();
    let table = workdir.run(&["runs"]).expect(0).out;
    for (name, word) in [
        ("cut", "damaged: state.json"),
        ("odd", "damaged: verdict.json"),
        ("foreign", "damaged: verdict.json"),
        ("begun", "no complete block"),
    ] {
        let line = table.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.contains(word) && line.contains("Why?"), "{line}");
    }
    let printed = workdir.run(&["runs", "open", "begun"]).expect(2);
    assert!(printed.err.contains("report.html"), "{}", printed.err);
    // A run in progress holds a lock, so it is not removed.
    workdir.write("prony-runs/begun/.lock", "1");
    let lock = std::fs::File::open(workdir.path("prony-runs/begun/.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(workdir.run(&["runs"]).expect(0).out.contains("  running "));
    let printed = workdir.run(&["runs", "rm", "-y", "begun"]).expect(2);
    assert!(printed.err.contains("in progress"), "{}", printed.err);
    workdir
        .run(&["runs", "prune", "--keep", "0", "--dry-run"])
        .expect(0);
    drop(lock);
    // Removal doesn't follow links.
    workdir.write("kept.txt", "kept");
    std::os::unix::fs::symlink(workdir.path("."), workdir.path("prony-runs/cut/trials")).unwrap();
    workdir.run(&["runs", "rm", "-y", "cut"]).expect(0);
    assert_eq!(workdir.read("kept.txt"), "kept");
}

#[test]
fn a_report_is_opened_in_the_browser_that_the_environment_names() {
    let workdir = Workdir::new();
    std::fs::create_dir_all(workdir.path("prony-runs/x")).unwrap();
    workdir.write("prony-runs/x/report.html", "<p>");
    let mut command = workdir.command(&["runs", "open", "x"]);
    let output = command.env("BROWSER", "true").output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"prony-runs/x/report.html\n");
    let mut command = workdir.command(&["runs", "open", "x"]);
    command
        .env("BROWSER", "/nowhere/browser")
        .env("PATH", "/nowhere");
    assert_eq!(command.output().unwrap().status.code(), Some(3));
}

#[test]
fn stored_files_that_would_block_or_fill_the_memory_are_damaged() {
    let workdir = Workdir::new();
    for name in ["pipe", "device", "huge", "looks"] {
        let fixture =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/fixtures/demo");
        copy(&fixture, &workdir.path("prony-runs").join(name));
        workdir.write(&format!("prony-runs/{name}/state.json"), "{}");
    }
    let verdict = |name: &str| workdir.path(&format!("prony-runs/{name}/verdict.json"));
    let mut looks: Value =
        serde_json::from_str(&workdir.read("prony-runs/looks/verdict.json")).unwrap();
    looks["looks"][0]["blocks"] = u32::MAX.into();
    std::fs::write(verdict("looks"), looks.to_string()).unwrap();
    for name in ["pipe", "device", "huge"] {
        std::fs::remove_file(verdict(name)).unwrap();
    }
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        verdict("pipe"),
        rustix::fs::FileType::Fifo,
        mode,
        0,
    )
    .unwrap();
    std::os::unix::fs::symlink("/dev/zero", verdict("device")).unwrap();
    let huge = std::fs::File::create(verdict("huge")).unwrap();
    huge.set_len(3 << 30).unwrap();
    let table = workdir.run(&["runs"]).expect(0).out;
    for (name, reason) in [
        ("pipe", "not a regular file"),
        ("device", "not a regular file"),
        ("huge", "larger than 128 MiB"),
        ("looks", "looks must have increasing numbers"),
    ] {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.contains("damaged: verdict.json"), "{line}");
        let printed = workdir.run(&["report", name]).expect(2);
        assert!(printed.err.contains(reason), "{}", printed.err);
        let printed = workdir.run(&["runs", "open", name]);
        assert!(printed.status != 0, "{}", printed.out);
    }
}
