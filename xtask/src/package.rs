//! `cargo xtask package` checks the crates as they would be published. `cargo xtask archive`
//! creates a release archive with the binary, completions and manual pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::{cargo, workspace_root};
use crate::ending::Ending;

/// Completion scripts in an archive: shell, folder and file name.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "prony.bash"),
    ("zsh", "_prony"),
    ("fish", "prony.fish"),
];

/// Documents included in every archive.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Packages every crate and builds it from its package alone, as `cargo publish` does before an
/// upload.
pub(crate) fn check_packages() -> Ending {
    let status = cargo(&["publish", "--dry-run", "--workspace", "--allow-dirty"])
        .stdin(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ending::Success,
        Ok(_) => Ending::Failed,
        Err(error) => {
            println!("cargo publish: {error}");
            Ending::Failed
        }
    }
}

/// Packs the release build into `target/archive/NAME.tar.gz`, with a checksum next to it.
pub(crate) fn archive(name: &str) -> Result<Ending, String> {
    let is_file_name = !name.is_empty()
        && !name.starts_with(['.', '-'])
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
    if !is_file_name {
        return Err(format!("\"{name}\" is not a valid archive name"));
    }
    let root = workspace_root();
    let binary = root.join("target/release/prony");
    if !binary.is_file() {
        println!("target/release/prony is missing; run cargo build --release --locked first");
        return Ok(Ending::Missing);
    }
    match pack(&root, &binary, name) {
        Ok(archive) => {
            println!("{}", archive.display());
            Ok(Ending::Success)
        }
        Err(problem) => {
            println!("{problem}");
            Ok(Ending::Failed)
        }
    }
}

fn pack(root: &Path, binary: &Path, name: &str) -> Result<PathBuf, String> {
    let archives = root.join("target/archive");
    let folder = archives.join(name);
    let io = |what: &Path, error: std::io::Error| format!("{}: {error}", what.display());
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io(&folder, error));
        }
        _ => {}
    }
    let completions = folder.join("completions");
    fs::create_dir_all(&completions).map_err(|error| io(&completions, error))?;
    fs::copy(binary, folder.join("prony")).map_err(|error| io(binary, error))?;
    for document in DOCUMENTS {
        let from = root.join(document);
        fs::copy(&from, folder.join(document)).map_err(|error| io(&from, error))?;
    }
    for (shell, file) in COMPLETIONS {
        let path = completions.join(file);
        let text = output(binary, &["completions", shell])?;
        fs::write(&path, text).map_err(|error| io(&path, error))?;
    }
    run(Command::new(binary)
        .args(["man", "--install"])
        .arg(folder.join("man")))?;
    let file = format!("{name}.tar.gz");
    run(Command::new("tar")
        .args(["-czf", &file, name])
        .current_dir(&archives))?;
    let sums = Command::new("sha256sum")
        .arg(&file)
        .current_dir(&archives)
        .output()
        .map_err(|error| format!("sha256sum: {error}"))?;
    let checksum = archives.join(format!("{file}.sha256"));
    fs::write(&checksum, sums.stdout).map_err(|error| io(&checksum, error))?;
    fs::remove_dir_all(&folder).map_err(|error| io(&folder, error))?;
    Ok(archives.join(file))
}

fn output(program: &Path, args: &[&str]) -> Result<String, String> {
    let shown = format!("{} {}", program.display(), args.join(" "));
    let output = Command::new(program)
        .args(args)
        .env("COLUMNS", "100")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{shown}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown}: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{shown}: {error}"))
}

fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_needs_a_plain_name() {
        for name in ["", "../x", "-x", "a b"] {
            assert!(archive(name).is_err(), "{name}");
        }
    }
}
