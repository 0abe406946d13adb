//! Compares the help pages of all commands with golden files. `UPDATE_GOLDEN=1 cargo test -p prony`
//! rewrites the files.

use std::path::Path;

use crate::running::Workdir;

const COMMANDS: &[&[&str]] = &[
    &[],
    &["demo"],
    &["load"],
    &["capacity"],
    &["noise"],
    &["bisect"],
    &["compare"],
    &["init"],
    &["study"],
    &["study", "list"],
    &["study", "show"],
    &["study", "run"],
    &["report"],
    &["history"],
    &["runs"],
    &["runs", "open"],
    &["runs", "name"],
    &["runs", "rm"],
    &["runs", "prune"],
    &["origin"],
    &["agent"],
    &["fleet"],
    &["fleet", "up"],
    &["fleet", "token"],
    &["fleet", "list"],
    &["fleet", "check"],
    &["fleet", "collect"],
    &["fleet", "attach"],
    &["fleet", "purge"],
    &["doctor"],
    &["completions"],
    &["man"],
];

#[test]
fn the_help_of_each_command_matches_its_golden_file() {
    let workdir = Workdir::new();
    for command in COMMANDS {
        let args: Vec<&str> = command.iter().chain(&["--help"]).copied().collect();
        let printed = workdir.run(&args).expect(0);
        assert_eq!(printed.err, "");
        let name = ["prony"]
            .iter()
            .chain(*command)
            .copied()
            .collect::<Vec<_>>()
            .join("-");
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &printed.out).unwrap();
        }
        let agreed = std::fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(printed.out, agreed, "{}", golden.display());
    }
}

#[test]
fn help_fits_into_80_columns_with_its_examples_on_one_line_each() {
    let workdir = Workdir::new();
    for command in COMMANDS {
        let args: Vec<&str> = command.iter().chain(&["--help"]).copied().collect();
        let output = workdir
            .command(&args)
            .env("COLUMNS", "80")
            .output()
            .unwrap();
        let narrow = String::from_utf8(output.stdout).unwrap();
        for line in narrow.lines() {
            assert!(line.chars().count() <= 80, "{command:?}: {line}");
        }
        let wide = workdir.run(&args).out;
        let examples = wide.split("\nExamples:\n").nth(1).unwrap_or_default();
        for example in examples.lines().take_while(|line| !line.is_empty()) {
            assert!(narrow.contains(example), "{command:?}: {example}");
        }
    }
}

#[test]
fn the_short_flag_prints_the_same_and_the_version_is_printed() {
    let workdir = Workdir::new();
    assert_eq!(
        workdir.run(&["load", "-h"]).out,
        workdir.run(&["load", "--help"]).out
    );
    let version = workdir.run(&["--version"]).expect(0);
    assert_eq!(
        version.out,
        format!("prony {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let workdir = Workdir::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = workdir.run(&["completions", shell]).expect(0).out;
        for word in ["compare", "connections", "study"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let page = workdir.run(&["man"]).expect(0).out;
    assert!(
        page.starts_with(".ie") && page.contains(".TH prony 1"),
        "{page}"
    );
    let page = workdir.run(&["man", "load"]).expect(0).out;
    assert!(
        page.contains("prony\\-load") && page.contains("fail\\-if"),
        "{page}"
    );
    for section in [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "EXAMPLES",
        "EXIT STATUS",
        "ENVIRONMENT",
    ] {
        let headings = page.lines().filter_map(|line| line.strip_prefix(".SH "));
        let found = headings.filter(|heading| heading.trim_matches('"') == section);
        assert_eq!(found.count(), 1, "{section}: {page}");
    }
    assert!(!page.contains("EXTRA"), "{page}");
    assert!(page.contains("PRONY_PROGRESS"), "{page}");
    let page = workdir.run(&["man", "runs", "prune"]).expect(0).out;
    assert!(page.contains("prony\\-runs\\-prune"), "{page}");
    for (topic, title) in [
        ("plan", ".TH prony-plan 5"),
        ("findings", ".TH prony-findings 7"),
    ] {
        let page = workdir.run(&["man", topic]).expect(0).out;
        assert!(page.contains(title) && !page.contains("\n## "), "{page}");
    }
    workdir.run(&["man", "nothing"]).expect(2);
    workdir.run(&["man", "runs", "nothing"]).expect(2);
}

#[test]
fn all_manual_pages_can_be_installed() {
    let workdir = Workdir::new();
    let output = workdir.run(&["man", "--install", "share/man"]).expect(0);
    assert!(
        output.err.contains("man -M share/man prony"),
        "{}",
        output.err
    );
    for file in [
        "man1/prony.1",
        "man1/prony-load.1",
        "man1/prony-runs-prune.1",
        "man5/prony-plan.5",
        "man7/prony-findings.7",
    ] {
        let page = workdir.read(&format!("share/man/{file}"));
        assert!(page.contains(".TH prony"), "{file}: {page}");
    }
    // The pages of a program in `bin` go to the `share/man` next to it.
    let bin = workdir.path("prefix/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_prony"), bin.join("prony")).unwrap();
    let status = std::process::Command::new(bin.join("prony"))
        .args(["man", "--install"])
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    let page = workdir.read("prefix/share/man/man1/prony-load.1");
    assert!(page.contains("prony\\-load"), "{page}");
}
