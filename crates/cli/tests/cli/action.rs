//! Runs scripts of the GitHub action.

use std::process::Command;

use crate::running::Workdir;

/// Returns the script of a step of action.yml.
pub(crate) fn script(step: &str) -> String {
    let action = concat!(env!("CARGO_MANIFEST_DIR"), "/../../action.yml");
    let action = std::fs::read_to_string(action).unwrap();
    let step = action.split("    - name: ").find(|it| it.starts_with(step));
    let (_, script) = step.unwrap().split_once("run: |\n").unwrap();
    script.replace("        ", "")
}

/// Runs the step in a clone of a repository with two commits. Returns true if it succeeded.
fn checks_out(workdir: &Workdir, base: &str) -> bool {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script("Build both revisions")])
        .envs([("BASE", base), ("BUILD", "cp file built")])
        .current_dir(workdir.path("clone"))
        .output();
    output.unwrap().status.success()
}

fn git(workdir: &Workdir, words: &str) -> String {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    let output = Command::new("git")
        .args(identity)
        .args(words.split(' '))
        .current_dir(workdir.path("."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{words}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_base_is_checked_out_and_options_are_refused() {
    let workdir = Workdir::new();
    git(&workdir, "init -q -b main origin");
    workdir.write("origin/file", "old");
    git(&workdir, "-C origin add file");
    git(&workdir, "-C origin commit -q -m old");
    let old = git(&workdir, "-C origin rev-parse HEAD");
    workdir.write("origin/file", "new");
    git(&workdir, "-C origin commit -q -a -m new");
    git(&workdir, "clone -q origin clone");

    for base in [
        "--upload-pack=touch pwned; git-upload-pack",
        "--exec=touch pwned",
        "-f",
        "main:stolen",
        "",
    ] {
        assert!(!checks_out(&workdir, base), "{base}");
        assert!(!workdir.path("clone/pwned").exists(), "{base}");
        assert!(!workdir.path("clone/.prony").exists(), "{base}");
    }
    assert!(checks_out(&workdir, &old));
    assert_eq!(workdir.read("clone/.prony/base/built"), "old");
    assert_eq!(workdir.read("clone/.prony/head/built"), "new");
}
