//! The project's own tasks: `cargo xtask test | tidy | verify | bench | docs | package | archive`.
//!
//! Input: the name of a task and its flags. Output: text, and an exit status: 0 for success, 1 if a
//! check failed, 2 for invalid arguments, 3 if a requirement is missing and could not be installed.
//! This crate depends on none of prony's crates: it runs the built program.

mod bench;
mod cargo;
mod docs;
mod ending;
mod package;
mod random;
mod table;
mod test;
mod tidy;
mod tree;
mod verify;

use std::process::ExitCode;

use ending::Ending;

const USAGE: &str = "\
cargo xtask TASK

  test [--no-install] [--only STEP]   install what the tests need, then run every check and test
                                      (steps: install, fmt, tidy, build, docs, test)
  tidy [CRATE|PATH]                   check rules that the compiler doesn't: layers, module cycles,
                                      pure crates, paths in documents, licenses, crate count
  verify [CHECK...] [--list|--quick]  compare prony's results with known true values, in real time
  bench [--quick] [--rows LIST] [--rotations N] [--seconds S] [--peers LIST] [--prony PATH] ...
                                      compare prony with other load generators (see bench --help)
  docs [--check]                      update (or only check) the generated parts of the documents
  package                             pack every crate and build it from its package, without
                                      publishing
  archive NAME                        pack the release build with completions and manual pages into
                                      target/archive/NAME.tar.gz

Exit status: 0 success, 1 a check failed, 2 invalid arguments, 3 a requirement is missing.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ending = match args.split_first() {
        Some((&"test", rest)) => test::Options::parse(rest).map(|o| test::run(&o)),
        Some((&"tidy", [])) => Ok(tidy::run(None)),
        Some((&"tidy", [only])) => Ok(tidy::run(Some(only))),
        Some((&"verify", rest)) => verify::run(rest),
        Some((&"bench", rest)) => bench::run(rest),
        Some((&"docs", [])) => Ok(docs::build_and_run(docs::Mode::Write)),
        Some((&"docs", ["--check"])) => Ok(docs::build_and_run(docs::Mode::Check)),
        Some((&"package", [])) => Ok(package::check_packages()),
        Some((&"archive", [name])) => package::archive(name),
        Some((&("help" | "--help" | "-h"), _)) => {
            print!("{USAGE}");
            Ok(Ending::Success)
        }
        Some((task, rest)) => Err(format!("unknown task: {task} {}", rest.join(" "))),
        None => Err("which task?".to_string()),
    };
    ending
        .unwrap_or_else(|message| {
            eprintln!("{}\n\n{USAGE}", message.trim_end());
            Ending::Usage
        })
        .into()
}
