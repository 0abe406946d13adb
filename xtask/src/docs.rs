//! `cargo xtask docs`: the generated parts of the documents.
//!
//! In any Markdown file, a generated part begins with a line such as
//! `<!-- generated: prony load --help -->` and ends with `<!-- end of generated -->`. The text in
//! between is the output of the named prony command. A command that ends in `--help` prints text;
//! one that ends in `--reference` or begins with `man` prints Markdown. The JSON schema of plans is
//! generated too.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo::{cargo, workspace_root};
use crate::ending::Ending;
use crate::tree::Tree;

const OPEN: &str = "<!-- generated: prony ";
const PLAN_SCHEMA: &str = "schema/prony.plan-1.schema.json";
const CLOSE: &str = "<!-- end of generated -->";

/// Action for generated parts that are out of date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Rewrite outdated parts.
    Write,
    /// Report outdated parts and fail.
    Check,
}

/// Builds prony, then updates the generated parts or reports outdated ones.
pub(crate) fn build_and_run(mode: Mode) -> Ending {
    match cargo(&["build", "--quiet", "--package", "prony"]).status() {
        Ok(status) if status.success() => run(mode),
        Ok(_) => Ending::Failed,
        Err(error) => {
            println!("cargo build: {error}");
            Ending::Missing
        }
    }
}

/// Updates the generated parts or reports outdated ones, using the last build of prony.
pub(crate) fn run(mode: Mode) -> Ending {
    let root = workspace_root();
    let tree = match Tree::read(&root) {
        Ok(tree) => tree,
        Err(error) => {
            println!("{}: {error}", root.display());
            return Ending::Failed;
        }
    };
    let mut ending = Ending::Success;
    for (path, text) in tree
        .texts()
        .filter(|(p, t)| p.ends_with(".md") && t.contains(OPEN))
    {
        let problem = match (regenerate(text, help), mode) {
            (Ok(new), _) if new == text => continue,
            (Ok(new), Mode::Write) => match std::fs::write(root.join(path), new) {
                Ok(()) => {
                    println!("{path}: updated");
                    continue;
                }
                Err(error) => error.to_string(),
            },
            (Ok(_), Mode::Check) => "out of date; run `cargo xtask docs`".to_string(),
            (Err(problem), _) => problem,
        };
        println!("{path}: {problem}");
        ending = Ending::Failed;
    }
    match plan_schema(&root.join(PLAN_SCHEMA), mode) {
        Ok(()) => ending,
        Err(problem) => {
            println!("{PLAN_SCHEMA}: {problem}");
            Ending::Failed
        }
    }
}

/// Checks the stored schema of plans against prony's output, or rewrites it.
fn plan_schema(path: &Path, mode: Mode) -> Result<(), String> {
    let schema = help(&["init", "--schema"])?;
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    match (stored == schema, mode) {
        (true, _) => Ok(()),
        (false, Mode::Check) => Err("out of date; run `cargo xtask docs`".to_string()),
        (false, Mode::Write) => {
            std::fs::write(path, schema).map_err(|error| error.to_string())?;
            println!("{PLAN_SCHEMA}: updated");
            Ok(())
        }
    }
}

/// Returns the text with each generated part replaced by the output of `help`, which is called with
/// the arguments of the command.
fn regenerate(
    text: &str,
    help: impl Fn(&[&str]) -> Result<String, String>,
) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        result.push_str(line);
        result.push('\n');
        let Some(command) = line.trim().strip_prefix(OPEN) else {
            continue;
        };
        let args: Vec<&str> = command.trim_end_matches("-->").split_whitespace().collect();
        let is_markdown = match args.as_slice() {
            [.., "--help"] => false,
            [.., "--reference"] | ["man", ..] => true,
            _ => {
                return Err(format!(
                    "line {}: the command of a generated part must end in --help or --reference, \
                        or begin with man",
                    number + 1
                ));
            }
        };
        if !lines.any(|(_, l)| l.trim() == CLOSE) {
            return Err(format!("line {}: `{CLOSE}` is missing", number + 1));
        }
        let output = help(&args)?;
        let block: Vec<&str> = output.trim_end().lines().map(str::trim_end).collect();
        let block = block.join("\n");
        let block = if is_markdown {
            format!("\n{block}\n\n{CLOSE}\n")
        } else {
            format!("```text\n{block}\n```\n{CLOSE}\n")
        };
        result.push_str(&block);
    }
    Ok(result)
}

/// Returns the output of `prony ARGS`, formatted for 100 columns. Cargo places the program in the
/// same folder as this one.
fn help(args: &[&str]) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new(program.with_file_name("prony"))
        .args(args)
        .current_dir(workspace_root())
        .env("COLUMNS", "100")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("prony: {e}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "prony {}: {}\n{errors}",
            args.join(" "),
            output.status
        ));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("prony {}: {e}", args.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(args: &[&str]) -> Result<String, String> {
        Ok(format!("usage of {}  \n  -c N\n", args.join(" ")))
    }

    #[test]
    fn only_the_part_between_the_marks_is_replaced() {
        let old =
            "# a\n\n<!-- generated: prony load --help -->\nold\n<!-- end of generated -->\nb\n";
        let new = regenerate(old, fake).unwrap();
        assert_eq!(
            new,
            "# a\n\n<!-- generated: prony load --help -->\n```text\nusage of load --help\n  -c N\n\
             ```\n<!-- end of generated -->\nb\n"
        );
        assert_eq!(regenerate(&new, fake).unwrap(), new);
    }

    #[test]
    fn an_open_part_and_a_foreign_command_are_refused() {
        let open = "x\n<!-- generated: prony load --help -->\nold\n";
        assert!(regenerate(open, fake).unwrap_err().starts_with("line 2"));
        let foreign = "<!-- generated: prony load http://a -->\n<!-- end of generated -->\n";
        assert!(
            regenerate(foreign, fake)
                .unwrap_err()
                .contains("--help or --reference")
        );
    }
}
