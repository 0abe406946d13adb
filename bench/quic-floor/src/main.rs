//! Baseline of the HTTP/3 rows of `cargo xtask bench`: the cost of quinn-proto alone.
//!
//! Input: the server's address, the number of connections and streams, and the duration. Output:
//! one line with the number of finished streams, and exit status 0. It sends the same bytes on each
//! stream, discards all received data, measures no time and keeps no statistics: one thread, one
//! poller, and quinn-proto with its own TLS session.

mod arguments;
mod connection;
mod engine;
mod tls;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let job = match arguments::parse(&words) {
        Ok(job) => job,
        Err(problem) => {
            eprintln!("prony-quic-floor: {problem}\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match engine::run(&job) {
        Ok(responses) => {
            println!("{responses}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("prony-quic-floor: {problem}");
            ExitCode::FAILURE
        }
    }
}
