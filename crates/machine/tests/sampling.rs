//! Samples of real processes: a C program with known functions, stripped and not, and its children.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use prony_machine::sampling::{SamplingProfile, SamplingSession};

/// Functions with a share of 3/4 and 1/4 of the program's work. The argument is the number of rounds
/// of the process and of its child.
const PROGRAM: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile unsigned long sink;
__attribute__((noinline)) static void turn(unsigned long rounds) {
    for (unsigned long i = 0; i < rounds; i++) sink += i * i;
}
__attribute__((noinline)) void heavy_work(void) {
    for (unsigned long i = 0; i < 300000; i++) sink += i * i;
}
__attribute__((noinline)) void light_work(void) {
    for (unsigned long i = 0; i < 100000; i++) sink += i * i;
}
__attribute__((noinline)) void child_work(unsigned long rounds) {
    for (unsigned long i = 0; i < rounds * 400000; i++) sink += i * i;
}
int main(int argc, char **argv) {
    unsigned long rounds = strtoul(argv[1], 0, 10);
    usleep(100000);
    if (fork() == 0) { child_work(rounds); return 0; }
    for (unsigned long i = 0; i < rounds; i++) { heavy_work(); light_work(); }
    turn(1);
    wait(0);
    return 0;
}
"#;

/// Compiles the program with the C compiler that also links Rust programs. Without optimization, all
/// functions have frame pointers.
fn compile(folder: &Path, source_text: &str, options: &[&str]) -> PathBuf {
    let source = folder.join("program.c");
    std::fs::write(&source, source_text).unwrap();
    let program = folder.join("sampled-program");
    let compiled = Command::new("cc")
        .args(["-O0", "-o"])
        .arg(&program)
        .arg(&source)
        .args(options)
        .status();
    assert!(compiled.expect("cc is missing").success());
    program
}

/// Runs the program until its end, and samples it.
fn sampled(program: &Path) -> SamplingProfile {
    let program = program.to_owned();
    let started = std::thread::spawn(move || {
        let session = SamplingSession::of_descendants(499)?;
        let child = Command::new(program).arg("3000").spawn();
        Ok::<(SamplingSession, Child), prony_machine::sampling::SamplingRefused>((
            session,
            child.unwrap(),
        ))
    });
    let (mut session, mut child) = started
        .join()
        .unwrap()
        .expect("perf events are not permitted");
    session.begin().unwrap();
    session.count(true);
    assert!(child.wait().unwrap().success());
    session.finish().unwrap()
}

fn share(profile: &SamplingProfile, name: impl Fn(&str) -> bool) -> f64 {
    let weights = profile.self_weights();
    let named = weights.iter().filter(|(function, _)| name(&function.name));
    named.map(|(_, weight)| *weight as f64).sum::<f64>() / profile.weight as f64
}

#[test]
fn functions_have_their_share_and_children_are_included() {
    let folder = tempfile::tempdir().unwrap();
    let profile = sampled(&compile(folder.path(), PROGRAM, &[]));
    let of = |name: &'static str| share(&profile, move |it| it == name);
    let (heavy, light, child) = (of("heavy_work"), of("light_work"), of("child_work"));
    assert!(profile.samples > 100, "{profile:#?}");
    let ratio = heavy / light;
    assert!((1.5..6.0).contains(&ratio), "{heavy} {light}: {profile:#?}");
    assert!((0.25..0.75).contains(&child), "{child}: {profile:#?}");
    let function = profile.functions.iter().find(|it| it.name == "heavy_work");
    assert_eq!(function.unwrap().module, "sampled-program");
    // Call chains lead from `main` to the function.
    let called_by_main = |chain: &[u32]| {
        let names = chain
            .iter()
            .map(|it| profile.functions[*it as usize].name.as_str());
        let names: Vec<&str> = names.collect();
        names.ends_with(&["main", "heavy_work"])
    };
    assert!(
        profile
            .stacks
            .iter()
            .any(|(chain, _)| called_by_main(chain)),
        "{profile:#?}"
    );
}

#[test]
fn functions_of_a_stripped_program_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), PROGRAM, &["-s"]);
    let profile = sampled(&program);
    let weights = profile.self_weights();
    let mut own: Vec<(u64, &str)> = weights
        .iter()
        .filter(|(function, _)| function.name.starts_with("sampled-program+0x"))
        .map(|(function, weight)| (*weight, function.name.as_str()))
        .collect();
    own.sort_unstable_by(|a, b| b.cmp(a));
    assert!(own.len() >= 3, "{profile:#?}");
    let total: u64 = own.iter().map(|(weight, _)| weight).sum();
    // On a busy machine, interrupts take much of the time.
    let user = weights.iter().filter(|(it, _)| it.module != "[kernel]");
    let user: u64 = user.map(|(_, weight)| weight).sum();
    assert!(total as f64 > 0.9 * user as f64, "{profile:#?}");
    // The same build has the same names in every run.
    let again = sampled(&program);
    let found = again
        .functions
        .iter()
        .any(|function| function.name == own[0].1);
    assert!(found, "{own:?}, {again:#?}");
}

#[test]
fn a_running_process_is_sampled_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), PROGRAM, &[]);
    let mut child = Command::new(program).arg("3000").spawn().unwrap();
    let pids = [child.id().cast_signed()];
    let mut session = SamplingSession::of_processes(&pids, 499).unwrap();
    session.begin().unwrap();
    session.count(true);
    assert!(child.wait().unwrap().success());
    // Nothing is sampled any longer.
    std::thread::sleep(Duration::from_millis(1));
    let profile = session.finish().unwrap();
    assert!(
        share(&profile, |name| name == "heavy_work") > 0.1,
        "{profile:#?}"
    );
    let refused = SamplingSession::of_processes(&pids, 499).unwrap_err();
    assert_eq!(refused.to_string(), "the processes have ended");
}

/// Three threads: one holds a lock for most of the time, one waits for it, and one sleeps.
const WAITING_PROGRAM: &str = r#"
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void pass(int ms) { for (int i = 0; i < ms; i++) usleep(1000); }
static void *hold(void *x) {
    for (int i = 0; i < 30; i++) {
        pthread_mutex_lock(&lock); usleep(50000); pthread_mutex_unlock(&lock); usleep(2000);
    }
    return x;
}
static void *need(void *x) {
    for (int i = 0; i < 30; i++) { usleep(1000); pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); }
    return x;
}
int main(void) {
    pthread_t holding, needing;
    pthread_create(&holding, 0, hold, 0);
    pthread_create(&needing, 0, need, 0);
    pass(1000);
    pthread_join(needing, 0);
    pthread_join(holding, 0);
    return 0;
}
"#;

#[test]
fn waiting_is_attributed_to_its_reason() {
    use prony_machine::sampling::WaitReason;

    let folder = tempfile::tempdir().unwrap();
    let profile = sampled(&compile(folder.path(), WAITING_PROGRAM, &["-pthread"]));
    assert!(profile.wait_seconds > 0.04, "{profile:#?}");
    let threads = profile.waiting_threads();
    let of = |reason| {
        let with_reason = threads
            .iter()
            .filter(|(it, _)| it.waits_for == Some(reason));
        with_reason.map(|(_, threads)| threads).sum::<f64>()
    };
    // Two threads sleep, and one waits for the lock, for most of the time. On a busy machine they also
    // wait for a core.
    let (lock, sleep) = (of(WaitReason::Lock), of(WaitReason::Sleep));
    assert!((0.03..1.5).contains(&lock), "{lock}: {threads:#?}");
    assert!((0.2..2.5).contains(&sleep), "{sleep}: {threads:#?}");
}

#[test]
fn a_debug_file_that_a_program_names_has_its_symbols() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), PROGRAM, &["-Wl,--build-id=none"]);
    let debug = folder.path().join("program.debug");
    let run = |args: &[&std::ffi::OsStr]| {
        let status = Command::new("objcopy").args(args).status();
        assert!(status.expect("objcopy is missing").success());
    };
    run(&[
        "--only-keep-debug".as_ref(),
        program.as_ref(),
        debug.as_ref(),
    ]);
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    run(&["--strip-all".as_ref(), &link, program.as_ref()]);
    let profile = sampled(&program);
    assert!(
        share(&profile, |name| name == "heavy_work") > 0.1,
        "{profile:#?}"
    );
}

#[test]
fn a_program_that_was_replaced_while_it_ran_has_no_names() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), PROGRAM, &[]);
    let mut child = Command::new(&program).arg("3000").spawn().unwrap();
    let mut session = SamplingSession::of_processes(&[child.id().cast_signed()], 499).unwrap();
    session.begin().unwrap();
    session.count(true);
    // The first samples follow the program's pause of 0.1 s.
    std::thread::sleep(Duration::from_millis(600));
    let other = folder.path().join("other");
    std::fs::copy("/bin/true", &other).unwrap();
    std::fs::rename(&other, &program).unwrap();
    assert!(child.wait().unwrap().success());
    let profile = session.finish().unwrap();
    let notes: Vec<String> = profile.notes.iter().map(ToString::to_string).collect();
    assert!(
        notes
            .iter()
            .any(|note| note.contains("sampled-program has no symbols")),
        "{notes:?}"
    );
    assert_eq!(share(&profile, |name| name == "heavy_work"), 0.0);
}
