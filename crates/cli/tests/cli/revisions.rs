//! Compares revisions of a repository, which prony builds.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::running::{CommandOutput, Running, Workdir, check_schema, names};

/// A server whose responses differ between the revisions: the build writes the body.
const PLAN: &str = r#"
name     = "revisions"
baseline = { revision = "old" }

[trials]
blocks   = 3
warmup   = "50ms"
duration = "200ms"

[factors]
revision = ["old", "main", "worktree"]

[service.app]
build   = { git = "repo", revision = "{{ revision }}", run = "cp source built; echo ran >> ../runs" }
command = ["prony", "origin", "--listen", "{{ app.address }}"]
cwd     = "{{ app.build.dir }}"
env     = { BUILT = "{{ app.build.dir }}/built", COMMIT = "{{ app.build.commit }}" }

[load]
target      = "app"
connections = 2
rate        = 200
model       = "open"
bodies      = "may-differ"
"#;

/// Folder of the cache.
const BUILDS: &str = ".cache/prony/builds";

/// The command of the plan's build.
const RUN: &str = "run = \"cp source built; echo ran >> ../runs\"";

/// A folder with a repository and a cache of its own.
struct Repository(Workdir);

impl Repository {
    fn new(plan: &str) -> Self {
        let workdir = Workdir::new();
        workdir.write("revisions.toml", plan);
        std::fs::create_dir(workdir.path("repo")).unwrap();
        let repository = Self(workdir);
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository
    }

    fn with_commits(plan: &str) -> Self {
        let repository = Self::new(plan);
        repository.commit("first");
        repository.git(&["branch", "old"]);
        repository.commit("second");
        repository
    }

    fn git(&self, words: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
            .args(words)
            .current_dir(self.0.path("repo"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, subject: &str) {
        self.0.write("repo/source", subject);
        self.git(&["add", "source"]);
        self.git(&["commit", "--quiet", "-m", subject]);
    }

    /// Runs the plan with further arguments.
    fn compare(&self, words: &[&str]) -> CommandOutput {
        self.0
            .run(&[&["compare", "revisions.toml"], words].concat())
    }

    /// Runs a comparison that is refused, and returns its message.
    fn refused(&self, status: i32) -> String {
        let output = self.compare(&["--out", "r"]).expect(status);
        assert!(!self.0.path("r/trials").exists());
        output.err
    }

    /// Returns the folders of builds in the cache.
    fn builds(&self) -> Vec<String> {
        names(&self.0.path(BUILDS))
    }

    fn logs(&self) -> Vec<String> {
        let builds = self.builds().into_iter();
        let logs = builds.map(|build| self.0.read(&format!("{BUILDS}/{build}/log")));
        logs.collect()
    }

    /// Returns the number of work trees that Git knows.
    fn worktrees(&self) -> usize {
        self.git(&["worktree", "list"]).lines().count()
    }
}

#[test]
fn each_revision_is_built_once_and_recorded() {
    let repository = Repository::with_commits(PLAN);
    let workdir = &repository.0;
    workdir.write("repo/source", "changed");
    workdir.write("repo/new file", "");
    let text = repository.compare(&["--dry-run"]).expect(0).out;
    assert!(text.contains("\"first\"): to build"), "{text}");
    assert!(!workdir.path(".cache").exists());

    for (out, untracked) in [("r1", 1), ("r2", 2)] {
        let output = repository.compare(&["--out", out]);
        assert!([0, 1].contains(&output.status), "{}", output.err);
        assert!(
            output.out.contains("Revisions") && output.out.contains("working tree, 1 changed file"),
            "{}",
            output.out
        );
        let verdict = workdir.json(&format!("{out}/verdict.json"));
        check_schema("prony.verdict-1.schema.json", &verdict);
        let revisions = verdict["revisions"].as_array().unwrap();
        let field = |name: &str| {
            let values = revisions.iter().map(|it| it[name].clone());
            values.collect::<Vec<_>>()
        };
        assert_eq!(field("revision"), ["old", "main", "worktree"]);
        assert_eq!(field("subject"), ["first", "second", "second"]);
        let commits = [
            repository.git(&["rev-parse", "old"]),
            repository.git(&["rev-parse", "main"]),
        ];
        assert_eq!(field("commit"), [&*commits[0], &*commits[1], &*commits[1]]);
        let changes = serde_json::json!({"changed": 1, "untracked": untracked});
        assert_eq!(field("worktree"), [Value::Null, Value::Null, changes]);
    }
    // Commits are built in their work trees, once; the working tree itself is built by each run.
    let folders = repository.builds().into_iter();
    let mut built: Vec<_> = folders
        .filter_map(|folder| {
            let file = |name: &str| {
                std::fs::read_to_string(workdir.path(&format!("{BUILDS}/{folder}/{name}"))).ok()
            };
            Some((file("tree/built")?, file("runs")?))
        })
        .collect();
    built.sort();
    let once = |body: &str| (body.to_owned(), "ran\n".to_owned());
    assert_eq!(built, [once("first"), once("second")]);
    assert_eq!(workdir.read("runs"), "ran\nran\n");
    assert_eq!(workdir.read("repo/built"), "changed");

    // A resumed run must not measure other revisions.
    workdir.write("repo/source", "second");
    let text = repository
        .0
        .run(&["compare", "--resume", "r1", "--blocks", "4"]);
    assert!(
        text.expect(2)
            .err
            .contains("the working tree has other changes")
    );
    repository.commit("third");
    let text = repository
        .0
        .run(&["compare", "--resume", "r1", "--blocks", "4"]);
    assert!(text.expect(2).err.contains(&format!(
        "revision main was commit {}",
        workdir.json("r1/verdict.json")["revisions"][1]["commit"]
            .as_str()
            .unwrap()
    )));

    let prune = ["runs", "prune", "--keep", "1", "--yes"];
    let removed = workdir.run(&prune).expect(0).err;
    assert_eq!(removed.matches("removed ").count(), 3, "{removed}");
    assert_eq!(repository.builds().len(), 1);
    assert!(repository.worktrees() <= 2);
    workdir
        .run(&["runs", "prune", "--keep", "0", "--yes"])
        .expect(0);
    assert_eq!((repository.builds(), repository.worktrees()), (vec![], 1));
}

#[test]
fn a_build_that_fails_names_its_variant_and_leaves_its_log_only() {
    let fails = PLAN.replace(RUN, "run = \"echo no compiler; exit 7\"");
    let repository = Repository::with_commits(&fails);
    let text = repository.refused(3);
    for part in [
        "old",
        "\"first\"",
        "exit 7",
        "exit status: 7",
        "\n  no compiler",
        "/log",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(repository.logs(), ["no compiler\n"]);
    assert_eq!(repository.worktrees(), 1);

    // Processes that a build leaves in other sessions end, too.
    let endless = "run = \"setsid sleep 1000 & echo begun; sleep 1000\", within = \"100ms\"";
    let repository = Repository::with_commits(&PLAN.replace(RUN, endless));
    assert!(repository.refused(3).contains("did not end within 0.1 s"));
    assert_eq!(repository.0.left_running(), Vec::<String>::new());
    let large = "run = \"head -c 100000 /dev/zero > big\", size_max = \"50K\"";
    let repository = Repository::with_commits(&PLAN.replace(RUN, large));
    let text = repository.refused(3);
    assert!(text.contains("wrote more than 51200 bytes"), "{text}");
    assert_eq!(repository.worktrees(), 1);
}

#[test]
fn a_build_ends_with_prony_and_the_next_run_removes_its_files() {
    let endless = PLAN.replace(RUN, "run = \"setsid sleep 1000 & sleep 1000\"");
    let repository = Repository::with_commits(&endless);
    let start = || {
        let args = [
            "compare",
            "revisions.toml",
            "--out",
            "r",
            "--progress",
            "lines",
        ];
        let mut running = Running::start(repository.0.command(&args));
        running.wait_for("build of old");
        while !repository
            .0
            .left_running()
            .iter()
            .any(|it| it.starts_with("sleep"))
        {
            std::thread::yield_now();
        }
        running
    };
    let running = start();
    running.signal(Signal::KILL);
    running.end();
    repository.0.wait_until_quiet();
    assert!(!repository.git(&["worktree", "list"]).contains("locked"));

    let running = start();
    running.signal(Signal::INT);
    running.end().expect(130);
    assert_eq!(repository.0.left_running(), Vec::<String>::new());
    assert_eq!(repository.worktrees(), 1);
}

#[test]
fn two_runs_share_a_build() {
    let plan = PLAN.replace(", \"worktree\"]", "]");
    let repository = Repository::with_commits(&plan);
    let start = |out| {
        let args = [
            "compare",
            "revisions.toml",
            "--out",
            out,
            "--progress",
            "lines",
        ];
        Running::start(repository.0.command(&args))
    };
    let (one, other) = (start("r1"), start("r2"));
    for output in [one.end(), other.end()] {
        assert!([0, 1].contains(&output.status), "{}", output.err);
    }
    for build in repository.builds() {
        let runs = repository.0.read(&format!("{BUILDS}/{build}/runs"));
        assert_eq!(runs, "ran\n");
    }
}

#[test]
fn submodules_are_part_of_a_revision() {
    let run = PLAN.replace(RUN, "run = \"cp library/code built\"");
    let repository = Repository::new(&run.replace(", \"main\", \"worktree\"]", ", \"new\"]"));
    let library = repository.0.path("library");
    let library = library.to_str().unwrap();
    let make = format!(
        "set -e; git init -q {library}; echo code > {library}/code; git -C {library} add code; \
         git -C {library} -c user.name=a -c user.email=a@example.org commit -qm code"
    );
    let made = Command::new("sh").args(["-c", &make]).status().unwrap();
    assert!(made.success());
    let allow = "protocol.file.allow=always";
    repository.git(&[
        "-c",
        allow,
        "submodule",
        "--quiet",
        "add",
        library,
        "library",
    ]);
    repository.commit("first");
    repository.git(&["branch", "old"]);
    repository.commit("second");
    repository.git(&["branch", "new"]);
    let output = repository.compare(&["--out", "r"]);
    assert!([0, 1].contains(&output.status), "{}", output.err);
    for build in repository.builds() {
        let built = repository.0.read(&format!("{BUILDS}/{build}/tree/built"));
        assert_eq!(built, "code\n");
    }
}

#[test]
fn a_revision_that_does_not_exist_is_named_with_its_line() {
    for (revision, cause) in [
        ("gone", "has no revision \"gone\""),
        ("--all", "has no revision \"--all\""),
    ] {
        let plan = PLAN.replace("\"main\"", &format!("\"{revision}\""));
        let text = Repository::with_commits(&plan).refused(2);
        assert!(
            text.contains("revisions.toml:14: ") && text.contains(cause),
            "{text}"
        );
    }
    assert!(Repository::new(PLAN).refused(2).contains("has no commits"));
    let outside = PLAN.replace("\"repo\"", "\"/\"");
    assert!(
        Repository::new(&outside)
            .refused(2)
            .contains("not a git repository")
    );
}

/// A server whose response time is the constant `DELAY_S` of each revision.
const SERVER: &str = r#"
import itertools, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import delay
NUMBERS = itertools.count()
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        time.sleep(delay.DELAY_S)
        # The first requests are those of the check before the trials.
        number = next(NUMBERS)
        status = getattr(delay, "STATUS", 200) if number > 4 and number % 2 else 200
        self.send_response(status if self.path == "/page" else 404)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *arguments):
        pass
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

/// The options that start [`SERVER`], and a short load.
const START: [&str; 9] = [
    "--start",
    "python3 server.py {{ port }}",
    "--build",
    "! grep fails source && echo \"DELAY_S = $(cat source)\" > delay.py",
    "--path",
    "/page",
    "-c2",
    "-d200ms",
    "--warmup=50ms",
];

impl Repository {
    /// A repository with [`SERVER`], and a commit for each delay.
    fn with_delays(delays: &[&str]) -> Self {
        let repository = Self::new("");
        repository.0.write("repo/server.py", SERVER);
        repository.git(&["add", "server.py"]);
        for delay in delays {
            repository.commit(delay);
        }
        repository
    }

    /// Runs a command in the repository.
    fn run(&self, words: &[&str]) -> CommandOutput {
        let mut command = self.0.command(words);
        let output = command.current_dir(self.0.path("repo")).output().unwrap();
        CommandOutput {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

#[test]
fn revisions_are_compared_without_a_plan() {
    let repository = Repository::with_delays(&["0.001", "0.02"]);
    let words = ["compare", "--revisions", "main~1,main", "--out", "r"];
    let fails = ["--fail-if", "rate of main < main~1 - 20%"];
    let output = repository
        .run(&[&words[..], &START, &fails].concat())
        .expect(1);
    assert!(output.out.contains("0.02"), "{}", output.out);
    let verdict = repository.0.json("repo/r/verdict.json");
    let comparison = &verdict["comparisons"][0];
    assert_eq!(
        (&comparison["metric"], &comparison["verdict"]),
        (&"rate_per_s".into(), &"slower".into())
    );
    assert_eq!(verdict["revisions"][1]["subject"], "0.02");

    for (words, part) in [
        (
            &["--revisions", "main"][..],
            "two or more different revisions",
        ),
        (
            &["--revisions", "main,main"],
            "two or more different revisions",
        ),
        (&["--revisions", "main,gone"], "has no revision \"gone\""),
        (
            &["http://127.0.0.1:1/", "http://127.0.0.1:2/"],
            "--revisions only",
        ),
    ] {
        let text = repository
            .run(&[&["compare"], words, &START].concat())
            .expect(2)
            .err;
        assert!(text.contains(part), "{text}");
    }
}

/// A commit with which every second request fails. A search for it gives the same result on a busy machine, on which
/// verdicts about rates may be withheld.
const BREAKS: &str = "0.001; STATUS = 500";

/// Arguments of a search between the tag `good` and `main` for the commit that [`BREAKS`].
fn bisect() -> Vec<&'static str> {
    let words = [
        "bisect",
        "--out",
        "b",
        "--good",
        "good",
        "--progress",
        "lines",
        "--fail-if",
        "failed of new > 20%",
    ];
    [&words[..], &START].concat()
}

#[test]
fn a_search_finds_the_bad_commit_and_names_those_that_do_not_build() {
    let broken = format!("{BREAKS} # b");
    let delays = ["0.001", "0.001 # a", "fails", BREAKS, &broken];
    let repository = Repository::with_delays(&delays);
    repository.git(&["tag", "good", "main~4"]);
    let words = bisect();
    let output = repository.run(&words).expect(0);
    assert!(
        output.out.contains("The first bad commit is one of these"),
        "{}",
        output.out
    );
    assert!(output.out.contains("it doesn't build"), "{}", output.out);
    let document = repository.0.json("repo/b/bisection.json");
    check_schema("prony.bisection-1.schema.json", &document);
    assert_eq!(document["commits"].as_array().unwrap().len(), 4);
    let steps = document["steps"].as_array().unwrap();
    let verdicts: Vec<_> = steps
        .iter()
        .map(|it| (&it["commit"], &it["verdict"]))
        .collect();
    let expected = [
        (4, "slower"),
        (2, "skipped"),
        (1, "not_slower"),
        (3, "slower"),
    ];
    let expected = expected.map(|(commit, verdict)| (commit.into(), verdict.into()));
    let expected: Vec<(&Value, &Value)> = expected.iter().map(|it| (&it.0, &it.1)).collect();
    assert_eq!(verdicts, expected);

    let again = repository.run(&words).expect(2).err;
    assert!(again.contains("continue it with --resume"), "{again}");
    for (ends, part) in [
        (["--good", "main"], "no commits between"),
        (["--good", "gone"], "has no revision \"gone\""),
    ] {
        let text = repository
            .run(&[&["bisect"], &ends[..], &START].concat())
            .expect(2)
            .err;
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_killed_search_continues_after_branches_have_moved() {
    let broken = format!("{BREAKS} # b");
    let repository = Repository::with_delays(&["0.001", BREAKS, &broken]);
    repository.git(&["tag", "good", "main~2"]);
    let mut command = repository.0.command(&bisect());
    command.current_dir(repository.0.path("repo"));
    let mut running = Running::start(command);
    running.wait_for("block 1, ");
    running.signal(Signal::KILL);
    running.end();
    repository.0.wait_until_quiet();
    repository.commit("0.04");

    let words = [&bisect()[..1], &["--resume", "b"], &bisect()[5..]].concat();
    let output = repository.run(&words).expect(0);
    assert!(
        output.out.contains("The first bad commit is "),
        "{}",
        output.out
    );
    let document = repository.0.json("repo/b/bisection.json");
    let steps = document["steps"].as_array().unwrap();
    let commits: Vec<_> = steps.iter().map(|it| it["commit"].as_u64()).collect();
    assert_eq!(commits, [Some(2), Some(1)]);
    assert_eq!(document["commits"][0]["subject"], BREAKS);
    assert!(document["text"].as_str().unwrap().contains(BREAKS));

    let other = repository
        .run(&["bisect", "--resume", "b", "--start", "x"])
        .expect(2)
        .err;
    assert!(other.contains("use the same options"), "{other}");
}

#[test]
fn the_github_action_compares_and_finds_the_bad_commit() {
    // Its requests fail: on a busy machine, the verdict about a slow commit might be withheld.
    let repository = Repository::with_delays(&["0.001", "0.001 # a", BREAKS]);
    repository.git(&["update-ref", "refs/prony/base", "main~2"]);
    let step = |name: &str, more: &str| {
        let load = "--path=/page\n-c2\n-d200ms\n--warmup=50ms";
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &crate::action::script(name)])
            .current_dir(repository.0.path("repo"))
            .env("XDG_CACHE_HOME", repository.0.path(".cache"))
            .env("GITHUB_STEP_SUMMARY", repository.0.path("summary.md"))
            .env("ARGS", format!("{load}\n{more}"))
            .envs([
                ("PRONY", env!("CARGO_BIN_EXE_prony")),
                ("PLAN", ""),
                ("START", START[1]),
                ("BUILD", START[3]),
                ("OUT", "results"),
            ])
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (status, text) = step("Compare", "--fail-if=failed of HEAD > 20%");
    assert_eq!(status, Some(1), "{text}");
    let summary = repository.0.read("summary.md");
    let table = summary.split("<details>").next().unwrap();
    assert!(
        table.contains("#### Verdicts") && table.contains("failed of HEAD"),
        "{table}"
    );

    let (status, text) = step("Find the slow commit", "--fail-if=failed of new > 20%");
    assert_eq!(status, Some(0), "{text}");
    let summary = repository.0.read("summary.md");
    assert!(
        summary.contains("The first bad commit is "),
        "{summary}\n{text}"
    );
}
