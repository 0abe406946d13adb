//! Transcripts of shell sessions, `tests/golden/*.session`: each command is run, and what it prints
//! must be what the transcript shows. `UPDATE_GOLDEN=1 cargo test -p prony --test cli transcripts`
//! rewrites them.
//!
//! A command begins with `$ ` and goes on in lines that begin with `> `. Its output, standard error
//! included, follows; `[status N]` ends it if the exit status isn't 0. Other lines up to the first
//! command are a comment.

use std::path::{Path, PathBuf};

use crate::compares::TINY;
use crate::running::{Workdir, names};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The comment and the commands of a session.
fn read(session: &str) -> (String, Vec<String>) {
    let mut comment = String::new();
    let mut commands: Vec<String> = Vec::new();
    let mut continues = false;
    for line in session.lines() {
        match (line.strip_prefix("$ "), line.strip_prefix("> ")) {
            (Some(first), _) => commands.push(first.to_owned()),
            (_, Some(next)) if continues => {
                let command = commands.last_mut().unwrap();
                command.push('\n');
                command.push_str(next);
            }
            _ if commands.is_empty() => {
                comment.push_str(line);
                comment.push('\n');
            }
            _ => {}
        }
        continues = line.starts_with("$ ") || (continues && line.starts_with("> "));
    }
    (comment, commands)
}

/// The output of a command of a session.
fn run(command: &str, workdir: &Workdir) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_prony"));
    let path = std::env::var("PATH").unwrap_or_default();
    let output = workdir
        .shell(command)
        .env(
            "PATH",
            format!("{}:{path}", program.parent().unwrap().display()),
        )
        .env("TZ", "UTC")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut printed = printed.replace(workdir.path("").to_str().unwrap(), "");
    if !printed.is_empty() && !printed.ends_with('\n') {
        printed.push_str("[no line end]\n");
    }
    match output.status.code() {
        Some(0) => {}
        status => printed.push_str(&format!("[status {}]\n", status.unwrap_or(-1))),
    }
    printed
}

fn check(name: &str) {
    let path = tests().join("golden").join(name);
    let agreed = std::fs::read_to_string(&path).unwrap();
    let workdir = Workdir::new();
    workdir.write("tiny.toml", TINY);
    let runs = tests().join("../../report/tests/fixtures");
    std::os::unix::fs::symlink(runs, workdir.path("runs")).unwrap();
    let (mut printed, commands) = read(&agreed);
    for command in commands {
        printed.push_str(&format!("$ {}\n", command.replace('\n', "\n> ")));
        let output = run(&command, &workdir);
        assert!(
            !output.contains("\n$ "),
            "{command} prints a prompt: {output}"
        );
        printed.push_str(&output);
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &printed).unwrap();
        return;
    }
    for (line, (now, agreed)) in printed.lines().zip(agreed.lines()).enumerate() {
        assert_eq!(now, agreed, "line {} of {name}", line + 1);
    }
    assert_eq!(printed.len(), agreed.len(), "the ends of {name} differ");
}

#[test]
fn messages_about_loads_are_as_recorded() {
    check("loads.session");
}

#[test]
fn messages_about_plans_are_as_recorded() {
    check("plans.session");
}

#[test]
fn messages_of_other_commands_are_as_recorded() {
    check("commands.session");
}

#[test]
fn messages_of_the_front_ends_are_as_recorded() {
    check("front-ends.session");
}

#[test]
fn reports_of_stored_runs_are_as_recorded() {
    check("stored-runs.session");
}

#[test]
fn manual_pages_are_as_recorded() {
    let workdir = Workdir::new();
    workdir.run(&["man", "--install", "man"]).expect(0);
    let golden = tests().join("golden/man");
    for section in ["man1", "man5", "man7"] {
        let printed = workdir.path("man").join(section);
        for page in names(&printed) {
            let text = std::fs::read_to_string(printed.join(&page)).unwrap();
            let file = golden.join(&page);
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::create_dir_all(&golden).unwrap();
                std::fs::write(&file, &text).unwrap();
            }
            let agreed = std::fs::read_to_string(&file).unwrap_or_default();
            for (line, (now, agreed)) in text.lines().zip(agreed.lines()).enumerate() {
                assert_eq!(now, agreed, "line {} of {page}", line + 1);
            }
            assert_eq!(text.len(), agreed.len(), "the ends of {page} differ");
        }
    }
}
