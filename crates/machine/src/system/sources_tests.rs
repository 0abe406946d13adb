use std::os::unix::fs::PermissionsExt;

use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs `git` as the user of the repository would.
    fn git(&self, arguments: &[&str]) {
        let identity = ["-c", "user.name=x", "-c", "user.email=x@example.com"];
        let mut command = Command::new("git");
        command
            .arg("-C")
            .arg(self.path())
            .args(identity)
            .args(arguments);
        command.stdin(Stdio::null());
        let output = run_program(command, Duration::from_secs(60)).unwrap();
        assert!(output.success, "git {arguments:?}: {output:?}");
    }

    fn committed(&self) {
        self.git(&["init", "-q"]);
        self.git(&["add", "."]);
        self.git(&["commit", "-q", "-m", "x"]);
    }

    fn sources(&self, command: &str) -> ServiceSources {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let command = ServiceCommand {
            words: &words,
            cwd: self.path(),
            files_dir: &self.path().join("rendered"),
            path: None,
        };
        service_sources(&command, &[])
    }

    fn names(&self, command: &str) -> Vec<String> {
        let files = self.sources(command).files.into_keys();
        files.filter(|name| !name.starts_with('/')).collect()
    }

    fn changes(&self) -> GitChanges {
        self.sources("x").git.unwrap().changes.unwrap()
    }
}

#[test]
fn files_are_found_in_all_forms_of_arguments() {
    let folder = Folder::new();
    for name in [
        "app.py",
        "a/b.py",
        "pkg/__main__.py",
        "server.conf",
        "rendered/nginx.conf",
    ] {
        folder.write(name, name);
    }
    for (command, expected) in [
        ("x app.py", "app.py"),
        ("x ./app.py --debug", "./app.py"),
        ("x --config=server.conf", "server.conf"),
        ("x -cserver.conf", "server.conf"),
        ("x app:application", "app.py"),
        ("x a.b:create", "a/b.py"),
        ("x -m pkg --bind=127.0.0.1:1", "pkg/__main__.py"),
        ("sh -c 'exec x app.py'", "app.py"),
    ] {
        let names: Vec<String> = folder
            .names(command)
            .into_iter()
            .filter(|name| name != "sh")
            .collect();
        assert_eq!(names, [expected], "{command}");
    }
    // Folders, rendered files and missing files are not sources.
    assert_eq!(folder.names("x a rendered/nginx.conf missing.py"), [""; 0]);
}

#[test]
fn edited_files_have_another_hash_and_large_ones_a_time() {
    let folder = Folder::new();
    let sources = |text: &str| {
        folder.write("app.py", text);
        folder.sources("x app.py").files
    };
    let (before, after) = (sources("time.sleep(0.01)"), sources("time.sleep(0.02)"));
    assert_eq!(before["app.py"].bytes, after["app.py"].bytes);
    assert!(before["app.py"].sha256.is_some() && before != after);
    let large = File::create(folder.path().join("large")).unwrap();
    large.set_len(FILE_BYTES_MAX + 1).unwrap();
    let large = &folder.sources("x large").files["large"];
    assert_eq!((large.bytes, &large.sha256), (FILE_BYTES_MAX + 1, &None));
    assert!(large.modified_s.is_some());
}

#[test]
fn a_repository_has_its_commit_and_its_changes() {
    let folder = Folder::new();
    folder.write("app.py", "1");
    assert_eq!(folder.sources("x").git, None);
    folder.write("sub/helper.py", "1");
    folder.committed();
    let clean = folder.sources("x").git.unwrap();
    assert_eq!(clean.commit.len(), 40);
    assert_eq!(clean.changes, Some(GitChanges::default()));
    folder.write("sub/helper.py", "2");
    let first = folder.changes();
    assert_eq!((first.changed_files, first.untracked), (1, 0));
    folder.write("sub/helper.py", "3");
    let second = folder.changes();
    assert!(first.sha256.is_some() && first.sha256 != second.sha256);
    // Results of prony are not changes of the program.
    folder.write("prony-runs/1/verdict.json", "{}");
    folder.write("out/state.json", "{}");
    assert_eq!(folder.changes(), second);
    folder.write("new.py", "1");
    assert_eq!(folder.changes().untracked, 1);
    folder.git(&["commit", "-q", "-a", "-m", "y"]);
    let later = folder.sources("x").git.unwrap();
    assert_ne!(later.commit, clean.commit);
    assert_eq!(later.changes.unwrap().changed_files, 0);
}

#[test]
fn no_program_of_a_repository_runs() {
    let folder = Folder::new();
    folder.write("app.py", "1");
    folder.write("evil", "#!/bin/sh\necho ran >> \"$0.ran\"\ncat\n");
    let evil = folder.path().join("evil");
    fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
    folder.committed();
    let evil = evil.to_str().unwrap();
    folder.git(&["config", "core.fsmonitor", evil]);
    folder.git(&["config", "core.pager", evil]);
    let hook = ".git/hooks/post-index-change";
    folder.write(hook, &format!("#!/bin/sh\n{evil}\n"));
    let hook = folder.path().join(hook);
    fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
    let ran = || folder.path().join("evil.ran").exists();
    // Another time of change makes `git` look at the contents.
    folder.write("app.py", "22");
    assert_eq!(folder.changes().changed_files, 1);
    assert!(!ran());
    folder.git(&["-c", "core.fsmonitor=", "config", "filter.x.clean", evil]);
    folder.write(".git/info/attributes", "* filter=x\n");
    let git = folder.sources("x").git.unwrap();
    assert_eq!(git.changes, None, "its state is unknown");
    assert!(!ran());
}
