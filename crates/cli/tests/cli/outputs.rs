//! Output files are replaced whole, or left as they were.

use std::io::Read;
use std::process::Stdio;

use rustix::process::Signal;

use crate::running::{Origin, Room, Running, names};

#[test]
fn a_killed_load_leaves_the_old_files_as_they_were() {
    let room = Room::new();
    let origin = Origin::tcp(&room);
    let options = ["--json", "--csv", "--html", "--timeline"];
    let mut args = vec!["load", "-d", "60s", "-c", "1", "--progress", "lines"];
    let files = ["r.json", "r.csv", "r.html", "r.timeline"];
    for (option, file) in options.iter().zip(files) {
        room.write(file, "old");
        args.extend([*option, file]);
    }
    let url = origin.url("/");
    args.push(&url);
    let mut running = Running::start(room.command(&args));
    running.wait_for("req/s");
    running.signal(Signal::KILL);
    running.end();
    for file in files {
        assert_eq!(room.read(file), "old", "{file}");
    }
    assert_eq!(room.names().len(), files.len(), "{:?}", room.names());
}

#[test]
fn a_file_that_can_not_be_written_whole_leaves_the_old_one() {
    let room = Room::new();
    let origin = Origin::tcp(&room);
    room.write("r.json", "old");
    // The limit on file sizes emulates a full disk: a single block can't hold a record.
    let words = format!(
        "ulimit -f 1; exec {} load -n 5 -c 1 --json r.json {}",
        env!("CARGO_BIN_EXE_prony"),
        origin.url("/")
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &words])
        .current_dir(room.path("."))
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert_eq!(room.read("r.json"), "old");
}

#[test]
fn a_load_that_agents_refuse_leaves_the_old_file() {
    let room = Room::new();
    room.write("good.json", "old");
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
    room.run(&args).expect(2);
    assert_eq!(room.read("good.json"), "old");
    assert_eq!(names(&room.path(".")), ["good.json"]);
}

#[test]
fn standard_output_by_its_path_and_pipes_are_written_as_they_are() {
    let room = Room::new();
    let origin = Origin::tcp(&room);
    let url = origin.url("/");
    let args = ["load", "-n", "3", "-c", "1", "--json", "/dev/stdout", &url];
    let piped = room.run(&args).expect(0);
    assert!(piped.out.contains("\"prony.record/1\""), "{}", piped.out);
    assert!(piped.out.contains("3 requests"), "{}", piped.out);
    // A file that is standard output is not replaced.
    let mut file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(room.path("out"))
        .unwrap();
    let mut command = room.command(&args);
    command.stdout(Stdio::from(file.try_clone().unwrap()));
    assert!(command.status().unwrap().success());
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    let named = room.read("out");
    assert!(
        named.contains("\"prony.record/1\"") && named.contains("3 requests"),
        "{named}"
    );
}
