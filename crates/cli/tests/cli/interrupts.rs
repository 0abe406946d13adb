//! Interrupts experiments with Ctrl-C, SIGTERM and SIGKILL, and resumes them.

use std::io::{Read, Write};
use std::net::TcpListener;

use prony_experiment::schedule;
use prony_machine::run_state;
use rustix::process::Signal;
use serde_json::Value;

use crate::compares::TINY;
use crate::running::{Running, Workdir, names};

/// Writes a plan with the given number of blocks.
fn tiny(workdir: &Workdir, blocks: u32) {
    workdir.write(
        "tiny.toml",
        &TINY.replace("blocks   = 3", &format!("blocks   = {blocks}")),
    );
}

/// Starts the plan and waits until both trials of block 1 have ended.
fn into_block_2(workdir: &Workdir) -> Running {
    let args = [
        "compare",
        "tiny.toml",
        "--out",
        "r",
        "--seed",
        "11",
        "--progress",
        "lines",
    ];
    let mut running = Running::start(workdir.command(&args));
    running.wait_for("block 1, ");
    running.wait_for("block 1, ");
    running
}

fn order(blocks: usize) -> Value {
    let names = |block| -> Vec<&str> {
        schedule::order(11, block, 2)
            .into_iter()
            .map(|variant| ["tcp", "unix"][variant])
            .collect()
    };
    serde_json::to_value((0..blocks).map(names).collect::<Vec<_>>()).unwrap()
}

#[test]
fn an_interrupt_in_block_2_keeps_block_1_for_a_resume() {
    let workdir = Workdir::new();
    tiny(&workdir, 4);
    for signal in [Signal::INT, Signal::TERM] {
        let running = into_block_2(&workdir);
        running.signal(signal);
        let output = running.end().expect(130);
        assert_eq!(workdir.left_running(), Vec::<String>::new());
        assert!(output.err.contains("block 1 is stored"), "{}", output.err);
        assert!(
            output.err.contains("prony compare --resume r"),
            "{}",
            output.err
        );
        let verdict = workdir.json("r/verdict.json");
        assert_eq!(
            (&verdict["blocks"], &verdict["seed"]),
            (&Value::from(1), &Value::from(11))
        );
        assert!(workdir.path("r/report.html").is_file() && !output.out.is_empty());
        let shown = workdir.run(&["report", "r"]).expect(130);
        assert!(
            shown.out.contains("ended early: it was interrupted"),
            "{}",
            shown.out
        );
        workdir
            .run(&["report", "r", "--junit", "i.xml"])
            .expect(130);
        let junit = workdir.read("i.xml");
        assert!(
            junit.contains("<failure ") && junit.contains("with status 130"),
            "{junit}"
        );
        if signal == Signal::INT {
            std::fs::remove_dir_all(workdir.path("r")).unwrap();
        }
    }
    let output = workdir.run(&["compare", "--resume", "r"]);
    assert!([0, 1].contains(&output.status), "{}", output.err);
    assert!(
        output.err.contains("resuming after 1 block"),
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
    let verdict = workdir.json("r/verdict.json");
    assert_eq!(
        (&verdict["blocks"], &verdict["seed"]),
        (&Value::from(4), &Value::from(11))
    );
    assert_eq!(verdict["order"], order(4));
    // The experiment can't be resumed with a different plan.
    tiny(&workdir, 5);
    let output = workdir
        .run(&["compare", "tiny.toml", "--resume", "r"])
        .expect(2);
    assert!(
        output
            .err
            .contains("differs from the plan that r was run with"),
        "{}",
        output.err
    );
}

#[test]
fn a_folder_in_use_is_refused_with_the_process_that_uses_it() {
    let workdir = Workdir::new();
    tiny(&workdir, 4);
    let running = into_block_2(&workdir);
    let first = format!("another prony (process {})", running.id());
    let resume = ["compare", "--resume", "r"];
    for arguments in [&resume[..], &["compare", "tiny.toml", "--out", "r"]] {
        let output = workdir.run(arguments).expect(3);
        assert!(output.err.contains(&first), "{}", output.err);
    }
    running.signal(Signal::INT);
    running.end().expect(130);
    // If the stored plan was edited, resuming fails and names the plan, unless the change is
    // accepted.
    let plan = workdir.read("r/plan.toml");
    workdir.write(
        "r/plan.toml",
        &plan.replace("connections = 2", "connections = 3"),
    );
    let output = workdir.run(&resume).expect(2);
    let change = "`connections = 3`, was `connections = 2`";
    assert!(output.err.contains(change), "{}", output.err);
    let output = workdir.run(&["compare", "--resume", "r", "--accept-plan-changes"]);
    assert!([0, 1].contains(&output.status), "{}", output.err);
    assert!(workdir.read("r/verdict.json").contains("plan-changed"));
}

#[test]
fn the_demo_is_an_experiment_like_any_other() {
    let workdir = Workdir::new();
    let mut running = Running::start(workdir.command(&["demo", "--out", "d"]));
    running.wait_for("demo: What does TCP cost");
    running.wait_for("block 1, ");
    running.signal(Signal::INT);
    let output = running.end().expect(130);
    assert_eq!(workdir.left_running(), Vec::<String>::new());
    assert!(
        output.err.contains("prony compare --resume d"),
        "{}",
        output.err
    );
    workdir.run(&["report", "d"]).expect(130);
    let output = workdir
        .run(&["compare", "--resume", "d", "--dry-run"])
        .expect(0);
    assert!(
        output.out.contains("5 to 12 blocks") && output.out.contains("34 s at most"),
        "{}",
        output.out
    );
}

#[test]
fn a_second_interrupt_still_removes_everything() {
    let workdir = Workdir::new();
    tiny(&workdir, 4);
    let running = into_block_2(&workdir);
    for _ in 0..3 {
        running.signal(Signal::INT);
    }
    running.end().expect(130);
    assert_eq!(workdir.left_running(), Vec::<String>::new());
}

#[test]
fn leftovers_of_a_killed_run_are_removed_at_the_next_start() {
    let workdir = Workdir::new();
    tiny(&workdir, 4);
    let running = into_block_2(&workdir);
    let state_of_run = format!("{}-", running.id());
    running.signal(Signal::KILL);
    running.end();
    // When prony is killed, the supervisor of each service ends the service. The next run of prony
    // removes what remains.
    let output = workdir.run(&["compare", "--resume", "r", "--blocks", "3"]);
    assert!([0, 1].contains(&output.status), "{}", output.err);
    workdir.wait_until_quiet();
    let left = names(&run_state::base().unwrap());
    assert!(
        !left.iter().any(|name| name.starts_with(&state_of_run)),
        "{left:?}"
    );
    let verdict = workdir.json("r/verdict.json");
    assert_eq!(verdict["blocks"], 3);
    assert_eq!(verdict["order"], order(3));
}

#[test]
fn an_interrupted_load_prints_the_results_so_far() {
    let workdir = Workdir::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let args = ["load", "-d", "10m", "-c", "1", "--json", "r.json", &url];
    let running = Running::start(workdir.command(&args));
    let (mut peer, _) = listener.accept().unwrap();
    let mut request = [0; 1024];
    for answered in 0..4 {
        // When the next request arrives, the client has read the last response.
        assert!(peer.read(&mut request).unwrap() > 0);
        if answered < 3 {
            peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
        }
    }
    running.signal(Signal::INT);
    let output = running.end().expect(130);
    assert!(output.out.contains("3 ok"), "{}", output.out);
    assert!(output.err.contains("interrupted"), "{}", output.err);
    assert_eq!(workdir.json("r.json")["totals"]["ok"], 3);
}

#[test]
fn an_interrupt_ends_the_wait_for_a_server_that_never_responds() {
    let workdir = Workdir::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let args = ["compare", &url, &url, "-d", "1s", "--out", "r"];
    let running = Running::start(workdir.command(&args));
    let (mut peer, _) = listener.accept().unwrap();
    assert!(peer.read(&mut [0; 1024]).unwrap() > 0);
    running.signal(Signal::INT);
    let output = running.end().expect(130);
    // The user interrupted the wait, so no message blames the server.
    assert!(!output.err.contains("does not respond"), "{}", output.err);
}
