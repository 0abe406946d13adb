//! Output files are replaced completely or stay unchanged.

use std::io::Read;
use std::process::Stdio;

use rustix::process::Signal;

use crate::running::{Origin, Running, Workdir, names};

#[test]
fn a_killed_load_leaves_the_old_files_unchanged() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let options = ["--json", "--csv", "--html", "--timeline"];
    let mut args = vec!["load", "-d", "60s", "-c", "1", "--progress", "lines"];
    let files = ["r.json", "r.csv", "r.html", "r.timeline"];
    for (option, file) in options.iter().zip(files) {
        workdir.write(file, "old");
        args.extend([*option, file]);
    }
    let url = origin.url("/");
    args.push(&url);
    let mut running = Running::start(workdir.command(&args));
    running.wait_for("req/s");
    running.signal(Signal::KILL);
    running.end();
    for file in files {
        assert_eq!(workdir.read(file), "old", "{file}");
    }
    assert_eq!(workdir.names().len(), files.len(), "{:?}", workdir.names());
}

#[test]
fn a_file_that_can_not_be_written_whole_leaves_the_old_one() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    workdir.write("r.json", "old");
    // The limit on file sizes emulates a full disk: a record does not fit in a single block.
    let words = format!(
        "ulimit -f 1; exec {} load -n 5 -c 1 --json r.json {}",
        env!("CARGO_BIN_EXE_prony"),
        origin.url("/")
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &words])
        .current_dir(workdir.path("."))
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert_eq!(workdir.read("r.json"), "old");
}

#[test]
fn a_file_that_is_a_mount_point_is_written_in_place() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let options = ["--json", "--csv", "--html", "--timeline"];
    let mut mounts = String::new();
    let mut outputs = String::new();
    for option in options {
        let name = option.trim_start_matches('-');
        workdir.write(&format!("host.{name}"), &"stale content".repeat(100_000));
        workdir.write(name, "");
        mounts += &format!("mount --bind host.{name} {name} && ");
        outputs += &format!(" {option} {name}");
    }
    let script = format!(
        "{mounts}exec {} load -n 5 -c 1 --fail-if 'failed>0' {outputs} {}",
        env!("CARGO_BIN_EXE_prony"),
        origin.url("/")
    );
    let output = std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(workdir.path("."))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(workdir.json("host.json")["schema"], "prony.record/1");
    for option in options {
        let text = workdir.read(&format!("host.{}", option.trim_start_matches('-')));
        assert!(
            !text.is_empty() && !text.contains("stale content"),
            "{option}"
        );
    }
    let names = workdir.names();
    assert!(
        names.iter().all(|name| !name.ends_with(".new")),
        "{names:?}"
    );
}

#[test]
fn a_load_that_agents_refuse_leaves_the_old_file() {
    let workdir = Workdir::new();
    workdir.write("good.json", "old");
    let args = [
        "load",
        "--agents",
        "9",
        "--creds",
        "missing.creds",
        "--json",
        "good.json",
        "http://127.0.0.1:1/",
    ];
    workdir.run(&args).expect(2);
    assert_eq!(workdir.read("good.json"), "old");
    assert_eq!(names(&workdir.path(".")), ["good.json"]);
}

#[test]
fn standard_output_by_its_path_and_pipes_are_written_in_place() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = ["load", "-n", "3", "-c", "1", "--json", "/dev/stdout", &url];
    let piped = workdir.run(&args).expect(0);
    assert!(piped.out.contains("\"prony.record/1\""), "{}", piped.out);
    assert!(piped.out.contains("3 requests"), "{}", piped.out);
    // If the path leads to standard output, the file is written in place and not replaced.
    let mut file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(workdir.path("out"))
        .unwrap();
    let mut command = workdir.command(&args);
    command.stdout(Stdio::from(file.try_clone().unwrap()));
    assert!(command.status().unwrap().success());
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    let named = workdir.read("out");
    assert!(
        named.contains("\"prony.record/1\"") && named.contains("3 requests"),
        "{named}"
    );
}
