//! Endless input files, and resource limits of the process.

use std::os::unix::process::CommandExt;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::running::{CommandOutput, Origin, Workdir};

fn run_within(workdir: &Workdir, args: &[&str], resource: Resource, limit: u64) -> CommandOutput {
    let mut command = workdir.command(args);
    // SAFETY: only system calls are made between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let limit = Rlimit {
                current: Some(limit),
                maximum: Some(limit),
            };
            Ok(setrlimit(resource, limit)?)
        });
    }
    let output = command.output().unwrap();
    CommandOutput {
        status: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn files_without_an_end_are_refused() {
    let workdir = Workdir::new();
    let url = "https://localhost:1/";
    for args in [
        &["--ca", "/dev/zero"][..],
        &["--cert", "/dev/zero", "--key", "/dev/zero"],
        &["--urls", "/dev/zero"],
        &["--body-file", "/dev/zero"],
    ] {
        let all = [&["load", "-n", "1", "-c", "1"], args, &[url]].concat();
        let printed = workdir.run(&all).expect(2);
        let expected = format!("{} /dev/zero: larger than ", args[0]);
        assert!(printed.err.contains(&expected), "{}", printed.err);
    }
    let printed = workdir.run(&["wrk", "-s", "/dev/zero", "http://localhost:1/"]);
    assert!(
        printed
            .err
            .contains("/dev/zero: cannot be read: larger than"),
        "{}",
        printed.err
    );
}

#[test]
fn a_file_beyond_the_limit_of_sizes_is_a_write_error() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = ["load", "-n", "20", "-c", "2", "--json", "r.json", &url];
    let printed = run_within(&workdir, &args, Resource::Fsize, 512).expect(3);
    assert!(
        printed.err.contains("r.json: File too large"),
        "{}",
        printed.err
    );
}

#[test]
fn the_connections_that_a_low_limit_of_files_allows_work() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    assert!(
        getrlimit(Resource::Nofile)
            .current
            .is_none_or(|limit| limit > 80)
    );
    let args = ["load", "-n", "60", "-c", "50", "-t", "2", &url];
    let printed = run_within(&workdir, &args, Resource::Nofile, 80).expect(3);
    assert!(printed.err.contains("ulimit -n 106"), "{}", printed.err);
    let (_, fits) = printed.err.split_once("use --connections ").unwrap();
    let fits = fits.split(' ').next().unwrap();
    let args = ["load", "-n", "60", "-c", fits, "-t", "2", &url];
    let printed = run_within(&workdir, &args, Resource::Nofile, 80).expect(0);
    assert!(
        printed.out.contains("60 requests: 60 ok"),
        "{}",
        printed.out
    );
}
