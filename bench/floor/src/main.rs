//! Baseline of `cargo xtask bench`: the cost of transferring the bytes without any processing.
//!
//! Input: the server's address, the duration, and one or many requests per connection. Output: one
//! line with the number of complete responses, and exit status 0. It parses no response (except for
//! the length of the first), measures no time and keeps no statistics: one thread, one
//! level-triggered epoll instance, and only the system calls that the transfer needs.

mod arguments;
mod engine;
mod sys;

use std::process::ExitCode;

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
        Ok(responses) => {
            println!("{responses}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("prony-floor: {problem}");
            ExitCode::FAILURE
        }
    }
}
