//! `prony runs`, and runs that other commands find by name.

use serde_json::Value;

use crate::compares::TINY;
use crate::running::{Room, check_schema, names};

/// A folder with one real run, two older copies of it, and entries that aren't runs.
fn room_with_runs() -> Room {
    let room = Room::new();
    room.write("tiny.toml", TINY);
    let printed = room.run(&[
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
    let first = room.path("prony-runs/2026-11-20-100000-tiny");
    for other in ["2026-11-21-100000-tiny", "2026-11-22-100000-tiny"] {
        copy(&first, &room.path("prony-runs").join(other));
    }
    std::fs::create_dir(room.path("prony-runs/photos")).unwrap();
    room.write("prony-runs/photos/plan.toml", "mine");
    room.write("prony-runs/notes.txt", "mine");
    room
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => {
                std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
}

#[test]
fn stored_runs_are_listed_named_and_removed() {
    let room = room_with_runs();
    let list = || -> Value {
        let printed = room.run(&["runs", "--json", "-"]).expect(0);
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
    let table = room.run(&["runs"]).expect(0).out;
    assert!(
        table.contains("2026-11-21 10:00") && table.contains("Which socket?"),
        "{table}"
    );

    named_and_used_as_a_baseline(&room);

    // Runs are not removed without confirmation, and other folders never are.
    let oldest = "2026-11-20-100000-tiny";
    let printed = room.run(&["runs", "rm", oldest]).expect(2);
    assert!(printed.err.contains("--yes"), "{}", printed.err);
    for other in [
        "prony-runs/photos",
        "prony-runs",
        "prony-runs/notes.txt",
        ".",
    ] {
        let printed = room.run(&["runs", "rm", "--yes", other]).expect(2);
        assert!(
            printed.err.contains("not a run"),
            "{other}: {}",
            printed.err
        );
    }
    room.run(&["runs", "prune"]).expect(2);
    let printed = room
        .run(&["runs", "prune", "--keep", "1", "--dry-run"])
        .expect(0);
    assert_eq!(
        printed.out, "prony-runs/2026-11-21-100000-tiny\n",
        "the oldest has a name"
    );
    room.run(&["runs", "prune", "--older-than", "36500d", "--yes"])
        .expect(0);
    assert_eq!(list()["runs"].as_array().unwrap().len(), 3);
    room.run(&["runs", "prune", "--keep", "1", "--yes"])
        .expect(0);
    let kept = [
        "2026-11-20-100000-tiny",
        "2026-11-22-100000-tiny",
        "main",
        "notes.txt",
        "photos",
    ];
    assert_eq!(names(&room.path("prony-runs")), kept);
    // A name refers to its run; both are removed.
    room.run(&["runs", "rm", "-y", "main"]).expect(0);
    let kept = ["2026-11-22-100000-tiny", "notes.txt", "photos"];
    assert_eq!(names(&room.path("prony-runs")), kept);
}

fn named_and_used_as_a_baseline(room: &Room) {
    room.run(&["runs", "name", "2026-11-21-100000-tiny", "main"])
        .expect(0);
    // The name moves.
    room.run(&["runs", "name", "prony-runs/2026-11-20-100000-tiny", "main"])
        .expect(0);
    for bad in ["../x", "-x", ".x", "", "a b"] {
        room.run(&["runs", "name", "main", "--", bad]).expect(2);
    }
    room.run(&["runs", "name", "main", "2026-11-22-100000-tiny"])
        .expect(2);
    let table = room.run(&["runs"]).expect(0).out;
    let named = table.lines().find(|line| line.contains(" main ")).unwrap();
    assert!(named.starts_with("2026-11-20"), "{table}");
    let newest = room.run(&["report"]).expect(0);
    assert!(
        newest.err.contains("prony-runs/2026-11-22-100000-tiny"),
        "{}",
        newest.err
    );
    assert!(!newest.out.is_empty());
    let printed = room
        .run(&["report", "--against", "main", "2026-11-22-100000-tiny"])
        .expect(0);
    assert!(
        printed.out.contains("Nothing else differs"),
        "{}",
        printed.out
    );
    let dry = ["compare", "tiny.toml", "--against", "main", "--dry-run"];
    room.run(&dry).expect(0);
    let printed = room
        .run(&["compare", "tiny.toml", "--against", "mian", "--dry-run"])
        .expect(2);
    assert!(printed.err.contains("mian"), "{}", printed.err);
    room.run(&["runs", "name", "main", "other"]).expect(0);
    room.run(&["runs", "name", "--delete", "other"]).expect(0);
    room.run(&["runs", "name", "--delete", "other"]).expect(2);
}

#[test]
fn damaged_and_unfinished_runs_are_listed_as_such() {
    let room = Room::new();
    let printed = room.run(&["runs"]).expect(0);
    assert!(
        printed.err.contains("no runs in prony-runs"),
        "{}",
        printed.err
    );
    assert!(
        room.run(&["report"])
            .expect(2)
            .err
            .contains("no run with a verdict")
    );
    room.run(&["runs", "nowhere"]).expect(2);
    let contents = [
        ("cut", "{\"seed\": 1, \"variants\": [", None),
        ("odd", "{}", Some("[]")),
        ("foreign", "{}", Some("{\"schema\": \"prony.verdict/9\"}")),
        ("begun", "{\"seed\": 1, \"variants\": []}", None),
    ];
    for (name, state, verdict) in contents {
        std::fs::create_dir_all(room.path("prony-runs").join(name)).unwrap();
        room.write(
            &format!("prony-runs/{name}/plan.toml"),
            "question = \"Why?\"\nname = 3",
        );
        room.write(&format!("prony-runs/{name}/state.json"), state);
        if let Some(verdict) = verdict {
            room.write(&format!("prony-runs/{name}/verdict.json"), verdict);
        }
    }
    std::os::unix::fs::symlink("gone", room.path("prony-runs/dangling")).unwrap();
    std::os::unix::fs::symlink("loop", room.path("prony-runs/loop")).unwrap();
    let table = room.run(&["runs"]).expect(0).out;
    for (name, word) in [
        ("cut", "damaged: state.json"),
        ("odd", "damaged: verdict.json"),
        ("foreign", "damaged: verdict.json"),
        ("begun", "no block complete"),
    ] {
        let line = table.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.contains(word) && line.contains("Why?"), "{line}");
    }
    let printed = room.run(&["runs", "open", "begun"]).expect(2);
    assert!(printed.err.contains("report.html"), "{}", printed.err);
    // A run in progress holds a lock and is not removed.
    room.write("prony-runs/begun/.lock", "1");
    let lock = std::fs::File::open(room.path("prony-runs/begun/.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(room.run(&["runs"]).expect(0).out.contains("  running "));
    let printed = room.run(&["runs", "rm", "-y", "begun"]).expect(2);
    assert!(printed.err.contains("in progress"), "{}", printed.err);
    room.run(&["runs", "prune", "--keep", "0", "--dry-run"])
        .expect(0);
    drop(lock);
    // Removal doesn't follow links.
    room.write("kept.txt", "kept");
    std::os::unix::fs::symlink(room.path("."), room.path("prony-runs/cut/trials")).unwrap();
    room.run(&["runs", "rm", "-y", "cut"]).expect(0);
    assert_eq!(room.read("kept.txt"), "kept");
}

#[test]
fn a_report_is_opened_in_the_browser_that_the_environment_names() {
    let room = Room::new();
    std::fs::create_dir_all(room.path("prony-runs/x")).unwrap();
    room.write("prony-runs/x/report.html", "<p>");
    let mut command = room.command(&["runs", "open", "x"]);
    let output = command.env("BROWSER", "true").output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"prony-runs/x/report.html\n");
    let mut command = room.command(&["runs", "open", "x"]);
    command
        .env("BROWSER", "/nowhere/browser")
        .env("PATH", "/nowhere");
    assert_eq!(command.output().unwrap().status.code(), Some(3));
}
