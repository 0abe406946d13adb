//! The floor of `cargo xtask bench`: what moving the bytes costs when nothing is done with them.
//!
//! Enters: where to connect, for how long, and whether a connection serves one request or all.
//! Leaves: one line with the number of whole answers, and exit status 0. It never parses an answer
//! (except the first one's length), measures no time and keeps no statistics: one thread, one epoll
//! instance, level-triggered, no system call that the bytes don't need.

#[cfg(target_os = "linux")]
mod arguments;
#[cfg(target_os = "linux")]
mod engine;
#[cfg(target_os = "linux")]
mod sys;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let job = match arguments::parse(&words) {
        Ok(job) => job,
        Err(problem) => {
            eprintln!("prony-floor: {problem}\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match engine::run(&job) {
        Ok(answers) => {
            println!("{answers}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("prony-floor: {problem}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("prony-floor: an epoll loop runs on Linux only");
    ExitCode::FAILURE
}
