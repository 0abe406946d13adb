//! Server of the row `open-max` of `cargo xtask bench`: it responds to every request with the same
//! 13 bytes and records when each request arrived.
//!
//! Input: the address, the port and the path of a file. Output: the file with one record per
//! request, written at SIGTERM, and exit status 0. A record has 12 bytes: the number of the
//! connection (4 bytes) and the time in nanoseconds of the monotonic clock (8 bytes), both
//! little-endian. One thread, one level-triggered epoll instance.
//!
//! All requests reported by one wait are recorded at the time that the wait returned. The time to
//! respond to them therefore doesn't count as the generator's lateness.

#[cfg(target_os = "linux")]
mod server;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, file] = words.as_slice() else {
        eprintln!("usage: prony-responder ADDRESS:PORT FILE");
        return ExitCode::from(2);
    };
    match server::run(address, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("prony-responder: {problem}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("prony-responder: an epoll loop runs on Linux only");
    ExitCode::FAILURE
}
